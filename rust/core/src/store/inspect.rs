//! The figures of a key space, and the check of all its bytes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::compaction::Progress;
use super::environment::Environment;
use super::files::{of_newest, read_manifest};
use super::view::View;
use super::{KeySpace, SpaceSettings};
use crate::Result;
use crate::format::names::FileKind;
use crate::io::pages::PAGE;
use crate::types::Kind;
use crate::types::TransactionEntry;
use crate::wal::{Frames, Next, START};

/// The figures of one trigger's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceStatistics {
    /// Entries in segments.
    pub segment_entries: u64,
    /// Entries in the log.
    pub log_entries: u64,
    /// Entries of segments that follow the outcome of their claim.
    pub open_entries: u64,
    /// Bytes of segments.
    pub segment_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of global filters.
    pub filter_bytes: u64,
    /// Number of segments.
    pub segments: u64,
    /// Segments without a global filter.
    pub segments_uncovered: u64,
    /// Number of global filters.
    pub filters: u64,
    /// Number of the newest manifest.
    pub manifest: u64,
    /// Start time of the oldest entry, in microseconds since 1970.
    pub oldest_started_at: Option<i64>,
    /// Everything that began at or before this was purged.
    pub purged_upto: Option<i64>,
    /// Width of a time partition, in microseconds.
    pub partition_us: i64,
    /// The trigger's time to live, in microseconds; 0 while it is not known.
    pub time_to_live_us: i64,
    /// The trigger's kind; none while it is not known.
    pub kind: Option<Kind>,
    /// Rows that this handle looked up since it was opened.
    pub looked_up: u64,
    /// How often a filter passed one of these rows.
    pub filter_positives: u64,
    /// Application, last batch, and whether it ended.
    pub transactions: Vec<(String, i64, bool)>,
    /// The longest run of a service that this handle saw, from `begin` to the end of the claim, in
    /// microseconds.
    pub longest_run_us: Option<i64>,
    /// The content of segments, by time partition, oldest first.
    pub partitions: Vec<PartitionStatistics>,
    /// Pinned states, which keep their files.
    pub pins: u64,
}

/// The figures of one time partition's segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionStatistics {
    /// Where it begins, in microseconds since 1970; it is [`SpaceStatistics::partition_us`] wide.
    pub start_us: i64,
    /// Entries.
    pub entries: u64,
    /// Bytes of its segments.
    pub bytes: u64,
    /// Number of segments.
    pub segments: u64,
}

impl KeySpace {
    /// The trigger whose key space this directory is; none if it is empty.
    pub(crate) fn name_in(env: &Environment, directory: &std::path::Path) -> Result<Option<String>> {
        of_newest(env, directory, |number| Ok(read_manifest(env, &FileKind::Manifest.path(directory, number))?.name))
    }

    pub(crate) fn statistics(&self) -> Result<SpaceStatistics> {
        let mut found = self.look_durably(|view| {
            // What a power cut may still take is not shown.
            let rests_on_log = view.is_some_and(|view| !view.is_log_untouched());
            Ok((view.map_or(SpaceStatistics::default(), View::statistics), rests_on_log))
        })?;
        let longest = self.longest_run_us.load(Ordering::Relaxed);
        found.pins = self.pins()?.len() as u64;
        found.longest_run_us = i64::try_from(longest).ok().filter(|longest| *longest > 0);
        found.looked_up = self.asked.rows.load(Ordering::Relaxed);
        found.filter_positives = self.asked.filter_positives.load(Ordering::Relaxed);
        Ok(found)
    }

    /// The last batch of an application, and how it ended; none if it never began one. The answer
    /// is durable.
    pub(crate) fn transaction(&self, application: &str) -> Result<Option<TransactionEntry>> {
        let known = |view: &View| view.memtable.transaction(application).cloned();
        if self.env.read_only || self.is_pinned {
            return self
                .look_durably(|view| Ok((view.and_then(known), view.is_some_and(|view| !view.is_log_untouched()))));
        }
        if !self.exists()? {
            return Ok(None);
        }
        self.write_again(SpaceSettings::STORED, |writer| Ok(writer.space.present().as_ref().and_then(known)))
    }

    /// Check every byte: pages of segments and filters, frames of the log, the manifest. Answers
    /// the bytes checked.
    pub(crate) fn verify(&self, progress: Progress) -> Result<u64> {
        let Some(view) = self.pinned_view()? else { return Ok(0) };
        let pages: u64 = view.segments.iter().map(|segment| segment.pages()).sum::<u64>()
            + view.covered.iter().map(|covered| covered.global_filter.pages()).sum::<u64>()
            + view.values.iter().map(|placed| placed.segment.pages()).sum::<u64>();
        let total =
            pages * PAGE as u64 + view.memtable.position + view.frozen.as_ref().map_or(0, |frozen| frozen.log.end);
        let mut done = 0;
        for segment in &view.segments {
            segment.verify(&mut |pages| done += pages * PAGE as u64)?;
            progress(done, total)?;
        }
        for covered in &view.covered {
            covered.global_filter.verify(&mut |pages| done += pages * PAGE as u64)?;
            progress(done, total)?;
        }
        for placed in &view.values {
            placed.segment.verify(&mut |pages| done += pages * PAGE as u64)?;
            progress(done, total)?;
        }
        done += view.verify_frozen(&self.env)?;
        let mut frames = Frames::new(&view.log, START, view.memtable.position);
        while let Next::Frame(_, end) = frames.next()? {
            progress(done + end, total)?;
        }
        Ok(total + self.verify_objects(progress)?)
    }
}

impl View {
    fn statistics(&self) -> SpaceStatistics {
        let sum =
            |field: fn(&crate::format::manifest::SegmentEntry) -> u64| self.manifest.segments.iter().map(field).sum();
        let oldest =
            self.manifest.segments.iter().map(|entry| entry.min_started_at).chain(self.oldest_in_memory()).min();
        let transaction = |entry: crate::types::TransactionEntry| {
            (entry.transaction.application, entry.transaction.batch, entry.outcome.is_some())
        };
        SpaceStatistics {
            segment_entries: sum(|entry| entry.entries),
            log_entries: self.entries_in_memory() as u64,
            open_entries: sum(|entry| entry.open),
            segment_bytes: self.segments.iter().map(|segment| segment.file_bytes()).sum(),
            log_bytes: self.memtable.position + self.frozen.as_ref().map_or(0, |frozen| frozen.log.end),
            filter_bytes: self.covered.iter().map(|covered| covered.global_filter.file_bytes()).sum(),
            segments: self.segments.len() as u64,
            segments_uncovered: self.uncovered.len() as u64,
            filters: self.covered.len() as u64,
            manifest: self.manifest.number,
            oldest_started_at: oldest,
            purged_upto: (self.manifest.purged_upto > i64::MIN).then_some(self.manifest.purged_upto),
            partition_us: self.manifest.partition_us,
            time_to_live_us: self.manifest.time_to_live_us,
            kind: self.manifest.kind,
            transactions: self
                .memtable
                .transactions()
                .into_iter()
                .filter(|entry| !entry.is_load())
                .map(transaction)
                .collect(),
            partitions: self.partitions(),
            ..SpaceStatistics::default()
        }
    }

    fn partitions(&self) -> Vec<PartitionStatistics> {
        let width = self.manifest.partition_us;
        let mut found: BTreeMap<i64, PartitionStatistics> = BTreeMap::new();
        for entry in &self.manifest.segments {
            let start_us = entry.min_started_at.div_euclid(width).saturating_mul(width);
            let partition = found.entry(start_us).or_default();
            partition.start_us = start_us;
            partition.entries += entry.entries;
            partition.bytes += entry.bytes;
            partition.segments += 1;
        }
        found.into_values().collect()
    }
}
