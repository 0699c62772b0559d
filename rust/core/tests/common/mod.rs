//! What the store's tests share: documents from lists of ids, and short names for the usual calls.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, missing_docs, reason = "a failing helper fails its test")]

#[cfg(feature = "testing")]
pub mod bytes;
#[cfg(feature = "testing")]
pub mod disturbed;
pub mod logs;
#[cfg(feature = "testing")]
pub mod model;
#[cfg(feature = "testing")]
pub mod rig;
pub mod store;
#[cfg(feature = "testing")]
pub mod value_rig;
pub mod value_store;
#[cfg(feature = "testing")]
pub mod workload;

use std::path::Path;

use dochistory_core::columns::{CountColumn, Documents, FlagColumn, IdColumn, Validity};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::rules::{Kind, Trigger};
use dochistory_core::protocols::trigger::{Begun, Call, OnReplay};

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
