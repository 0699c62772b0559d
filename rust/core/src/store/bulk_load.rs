//! Bulk loads: segments directly from entries, and the record of which parts of an unfinished load
//! are published.

use super::lock::Lock;
use super::publish::{entry_of, split};
use super::{KeySpace, SpaceSettings};
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::format::names::FileKind;
use crate::format::names::LOAD_LOCK;
use crate::key::Key;
use crate::segment::format::Mark;
use crate::segment::run::EntryRun;
use crate::segment::writer;
use crate::types::transaction::{LOAD_PREFIX, Transaction};
use crate::types::{Ending, TransactionEntry};
use crate::{Error, Result};
use std::path::PathBuf;

/// A hash of entries, in order, of 128 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fingerprint([u64; 2]);

/// A part of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadedPart {
    pub(crate) fingerprint: u128,
    pub(crate) entries: u64,
    /// The time that stands in it for an unknown one.
    pub(crate) unknown_at: Option<i64>,
}

impl Fingerprint {
    /// A secret spreads the keys, so that nobody can aim at this hash from outside.
    #[inline]
    pub(crate) fn add(&mut self, key: Key, started_at: i64, mark: Mark) {
        let time = (started_at as u64).wrapping_add(u64::from(mark as u8) << 61);
        let fold = |a: u64, b: u64| {
            let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd6e8_feb8_6659_fd93);
            (product as u64) ^ (product >> 64) as u64
        };
        let [a, b] = self.0;
        self.0 = [fold(a ^ key.hi, time).wrapping_add(key.lo), fold(b ^ key.lo, time.rotate_left(32)).wrapping_add(a)];
    }

    /// The hash with the number of entries.
    pub(crate) fn of(self, entries: u64) -> u128 {
        let bytes: Vec<u8> = [self.0[0], self.0[1], entries].iter().flat_map(|part| part.to_le_bytes()).collect();
        xxhash_rust::xxh3::xxh3_128(&bytes)
    }
}

impl LoadedPart {
    fn application(&self) -> String {
        format!("{LOAD_PREFIX}{:032x}", self.fingerprint)
    }

    /// Whether an unfinished load has published this part, and what it took for an unknown time has
    /// not expired since: of these entries nothing counts any more, or is left.
    fn is_in(&self, manifest: &Manifest) -> bool {
        let application = self.application();
        let mut records = manifest.transactions.iter().filter(|entry| entry.transaction.application == application);
        let time_to_live_us = manifest.time_to_live_us;
        let counts = |loaded_at: i64| self.unknown_at.is_none_or(|now| now < loaded_at.saturating_add(time_to_live_us));
        records.any(|entry| counts(entry.started_at))
    }
}

impl KeySpace {
    /// Forget the parts of loads that are over.
    pub(crate) fn forget_loaded(&self) -> Result<()> {
        self.write_again(SpaceSettings::STORED, |writer| {
            let mut manifest = writer.successor()?;
            let before = manifest.transactions.len();
            manifest.transactions.retain(|entry| !entry.is_load());
            if manifest.transactions.len() == before { Ok(()) } else { writer.publish(&manifest) }
        })
    }

    /// Whether an unfinished load has published this part.
    pub(crate) fn is_loaded(&self, part: &LoadedPart) -> Result<bool> {
        self.read(|view| Ok(view.is_some_and(|view| part.is_in(&view.manifest))))
    }

    /// Publish entries as segments of their own, and record that this part of a load is published.
    /// Sorting and writing happen outside the lock, under names that no manifest names. A load that
    /// dies leaves such files, and the next load or maintenance collects them.
    pub(crate) fn add(&self, runs: Vec<EntryRun>, part: &LoadedPart) -> Result<()> {
        let mut settled = Vec::new();
        for mut run in runs {
            run.settle();
            settled.append(&mut split(&mut run));
        }
        let lock = self.load_lock()?;
        let Some(held) = lock.take(self.env.lock_timeout, || {})? else {
            let (path, waited_ms) = (self.directory.join(LOAD_LOCK), self.env.lock_timeout.as_millis() as u64);
            return Err(Error::Locked { path, waited_ms, holder: "another load".into() });
        };
        self.collect_parts(&held)?;
        let (first, claim) = self.reserve_for_load(settled.len() as u64)?;
        let written = self.write_parts(first, claim, &mut settled).inspect_err(|_| {
            // Of a load that found no room: nobody else would find any until the next one.
            drop(self.collect_parts(&held));
        })?;
        let adopted: Vec<_> = written.iter().map(|entry| (FileKind::LoadPart, FileKind::Segment, entry.id)).collect();
        self.store_early(&adopted)?;
        self.write_again(SpaceSettings::STORED, |writer| {
            let mut manifest = writer.next_of_same_log()?;
            if part.is_in(&manifest) {
                // A load that was stopped has published it meanwhile; these files go with the next
                // load or maintenance.
                return Ok(());
            }
            writer.adopt(&adopted)?;
            manifest.segments.extend(&written);
            let transaction = Transaction { application: part.application(), batch: part.entries as i64 };
            manifest.transactions.retain(|entry| entry.transaction.application != transaction.application);
            let (started_at, outcome) = (part.unknown_at.unwrap_or_default(), Some(Ending::Completed));
            manifest.transactions.push(TransactionEntry { transaction, rows: None, claim: 0, started_at, outcome });
            writer.publish(&manifest)
        })?;
        self.forget_adopted(&adopted)
    }

    /// Reserve file numbers, so that no other writer uses them, and a claim for entries that have
    /// not ended.
    fn reserve_for_load(&self, count: u64) -> Result<(u64, u64)> {
        self.write_again(SpaceSettings::STORED, |writer| {
            let Some((mut manifest, claim)) =
                writer.space.present().as_ref().map(|view| (view.same_log_successor(), view.memtable.next_sequence))
            else {
                return Err(Error::State("the key space is not there".into()));
            };
            let first = manifest.next_file;
            manifest.next_file += count;
            // Above the log's numbers too: sequence numbers of the log continue from its frames.
            manifest.next_sequence = manifest.next_sequence.max(claim + 1);
            writer.publish(&manifest)?;
            Ok((first, claim))
        })
    }

    fn write_parts(&self, first: u64, claim: u64, runs: &mut [EntryRun]) -> Result<Vec<SegmentEntry>> {
        let write = |(id, run): (u64, &mut EntryRun)| {
            run.stamps.number_open_claims(claim);
            let path = self.part_path(id);
            let (header, sum, bytes) = writer::write(self.segment_at(&path, id), run)?;
            Ok(entry_of(&header, sum, bytes))
        };
        (first..).zip(runs).map(write).collect()
    }

    fn part_path(&self, id: u64) -> PathBuf {
        FileKind::LoadPart.path(&self.directory, id)
    }

    pub(super) fn load_lock(&self) -> Result<Lock> {
        Lock::open(&*self.env.system, &self.directory.join(LOAD_LOCK))
    }
}
