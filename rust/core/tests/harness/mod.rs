//! What the engine's tests share: documents from lists of ids, short names for the usual calls, and
//! two kinds of stores, each generic over what is stored, a trigger's ids or a map of values:
//! [`simulated`] ones, on a machine that crashes and fails, beside a model of what they may hold;
//! and [`closed`] ones on a real disk, to be damaged. [`buckets`] simulates object stores, and
//! [`forwarding`] is the real disk with changes.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, missing_docs, reason = "a failing helper fails its test")]

#[cfg(feature = "testing")]
pub mod buckets;
pub mod closed;
pub mod forwarding;
pub mod random;
pub mod search;
#[cfg(feature = "testing")]
pub mod simulated;

use std::path::Path;

use dochistory_core::columns::{CountColumn, Documents, FlagColumn, IdColumn, Validity};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::rules::{Kind, Trigger};
use dochistory_core::protocols::trigger::{Begun, Call, OnReplay};

/// What is stored: the ids of a trigger.
#[derive(Clone, Copy, Debug)]
pub struct Triggers;

/// What is stored: a map from ids to values.
#[derive(Clone, Copy, Debug)]
pub struct Maps;

pub const DAY: i64 = 86_400_000_000;
pub const START: i64 = 1_790_000_000_000_000;

/// Ids as one Arrow-like column.
pub struct Ids {
    offsets: Vec<i32>,
    values: Vec<u8>,
}

impl Ids {
    pub fn new<S: AsRef<str>>(ids: &[S]) -> Self {
        let mut column = Self { offsets: vec![0], values: Vec::new() };
        for id in ids {
            column.values.extend_from_slice(id.as_ref().as_bytes());
            column.offsets.push(column.values.len() as i32);
        }
        column
    }

    pub fn documents(&self) -> Documents<'_> {
        let ids = vec![IdColumn::Utf8 { offsets: &self.offsets, values: &self.values, validity: Validity::all() }];
        Documents { rows: self.offsets.len() - 1, ids, count: CountColumn::Absent, eligible: FlagColumn::Absent }
    }
}

/// A UUID that follows from a number.
pub fn uuid(number: u64) -> String {
    let mixed = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) ^ 0x1234_5678;
    let hex = format!("{mixed:032x}");
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

pub fn uuids(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(uuid).collect()
}

pub fn trigger() -> Trigger {
    let mut trigger = Trigger::new("orders", Kind::Messaging);
    trigger.detect_duplicates = true;
    trigger.use_history = true;
    trigger.history_time_to_live_us = 30 * DAY;
    trigger
}

pub fn open(path: &Path) -> History {
    History::open(path, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap()
}

/// A new history, in a directory that goes with the test.
pub fn fresh() -> (tempfile::TempDir, History) {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    (directory, history)
}

/// Read, and neither change nor create anything.
pub fn reading() -> OpenOptions {
    OpenOptions { read_only: true, ..OpenOptions::default() }
}

/// A pin seals the log: what stood in it goes into segments.
pub fn seal(history: &History, trigger: &str) {
    let snapshot = history.pin(trigger).unwrap();
    history.unpin(trigger, &snapshot).unwrap();
}

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

pub fn begin<S: AsRef<str>>(history: &History, trigger: &Trigger, ids: &[S], now: i64) -> Begun {
    let ids = Ids::new(ids);
    history.begin(trigger, &ids.documents(), &mut Call::at(now), None, OnReplay::ByRules).unwrap()
}

/// The rules of a classification, one a row.
pub fn rules<S: AsRef<str>>(history: &History, trigger: &Trigger, ids: &[S], now: i64) -> Vec<&'static str> {
    let ids = Ids::new(ids);
    let verdicts = history.classify(trigger, &ids.documents(), &mut Call::at(now)).unwrap();
    verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect()
}
