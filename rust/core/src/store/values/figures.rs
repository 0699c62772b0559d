//! The figures of a space of values.

use crate::Result;
use crate::store::KeySpace;
use crate::store::compaction::total;
use crate::store::view::View;

/// The figures of a space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueStatistics {
    /// Entries in files; an id that was changed since has several.
    pub file_entries: u64,
    /// Later entries among them, which hide older entries of the same ids.
    pub later_entries: u64,
    /// Pending entries among them.
    pub pending_entries: u64,
    /// Ids in the log.
    pub log_entries: u64,
    /// Number of files.
    pub files: u64,
    /// Bytes of files.
    pub file_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Number of the newest manifest.
    pub manifest: u64,
    /// Application, last batch, and whether it ended.
    pub transactions: Vec<(String, i64, bool)>,
}

impl KeySpace {
    pub(crate) fn value_statistics(&self) -> Result<ValueStatistics> {
        self.look_durably(|view| {
            // What a power cut may still take is not shown.
            let rests_on_log = view.is_some_and(|view| !view.is_log_untouched());
            Ok((view.map_or(ValueStatistics::default(), View::value_statistics), rests_on_log))
        })
    }
}

impl View {
    fn value_statistics(&self) -> ValueStatistics {
        let entries = &self.manifest.values;
        let transaction = |entry: crate::types::TransactionEntry| {
            (entry.transaction.application, entry.transaction.batch, entry.outcome.is_some())
        };
        ValueStatistics {
            file_entries: total(entries.iter().map(|entry| entry.rows)),
            later_entries: total(entries.iter().filter(|entry| entry.is_later).map(|entry| entry.rows)),
            pending_entries: total(entries.iter().map(|entry| entry.pending)),
            log_entries: self.memtable.values.run.len() as u64,
            files: entries.len() as u64,
            file_bytes: self.values.iter().map(|placed| placed.segment.file_bytes()).sum(),
            log_bytes: self.memtable.position,
            manifest: self.manifest.number,
            transactions: self.memtable.transactions().into_iter().map(transaction).collect(),
        }
    }
}
