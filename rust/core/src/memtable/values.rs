//! The entries of the log's frames, the newest of each id: what was written since the last segment.

use hashbrown::HashTable;

use crate::key::Key;
use crate::segment::values::run::{Row, ValueRun};

/// The newest entry of each id in the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueMemtable {
    pub(crate) run: ValueRun,
    index: HashTable<u32>,
}

impl ValueMemtable {
    /// Apply the entries of a frame; of an id that comes twice the later entry counts.
    pub(crate) fn apply(&mut self, run: &ValueRun) {
        let Self { run: own, index } = self;
        own.rows.reserve(run.len());
        index.reserve(run.len(), |at| own.rows[*at as usize].key.lo);
        for row in &run.rows {
            self.put(row.key, run.text(row), row.until, row.flags, run.value(row));
        }
    }

    /// Add entries that are older than all present ones.
    pub(crate) fn apply_older(&mut self, run: &ValueRun) {
        for row in &run.rows {
            if self.find(row.key, run.text(row)).is_none() {
                self.put(row.key, run.text(row), row.until, row.flags, run.value(row));
            }
        }
    }

    fn put(&mut self, key: Key, text: &[u8], until: i64, flags: u8, value: &[u8]) {
        let Self { run, index } = self;
        let same = |at: &u32| is_row(run, &run.rows[*at as usize], key, text);
        match index.find(key.lo, same).copied() {
            Some(at) if run.overwrite(at as usize, until, flags, value) => {}
            Some(at) => run.rows[at as usize] = run.hold(key, text, until, flags, value),
            None => {
                let at = run.rows.len() as u32;
                run.push(key, text, until, flags, value);
                index.insert_unique(key.lo, at, |other| run.rows[*other as usize].key.lo);
            }
        }
    }

    /// The place of an id; a UUID has no text.
    #[inline]
    pub(crate) fn find(&self, key: Key, text: &[u8]) -> Option<u32> {
        let Self { run, index } = self;
        index.find(key.lo, |at| is_row(run, &run.rows[*at as usize], key, text)).copied()
    }
}

#[inline]
fn is_row(run: &ValueRun, row: &Row, key: Key, text: &[u8]) -> bool {
    row.key == key && run.text(row) == text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::values::run::GONE;

    #[test]
    fn the_newest_entry_of_an_id_counts() {
        let key = Key { hi: 1, lo: 1 };
        let mut recent = ValueMemtable::default();
        for (value, flags) in [(&b"first"[..], 0), (b"other", 0), (b"longer value", 0), (b"", GONE)] {
            let mut frame = ValueRun::default();
            frame.push(key, b"", 5, flags, value);
            frame.push(key, b"urn:1", 5, 0, b"beside it");
            recent.apply(&frame);
            let row = recent.run.rows[recent.find(key, b"").unwrap() as usize];
            assert_eq!((recent.run.value(&row), row.flags), (value, flags));
            assert_eq!(recent.run.len(), 2);
        }
        assert!(recent.find(key, b"urn:2").is_none());
        assert!(recent.find(Key { hi: 2, lo: 1 }, b"").is_none());
    }
}
