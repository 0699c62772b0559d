//! Looking values up: find the newest entry of each id, then read it.

use crate::Result;
use crate::key::Form;
use crate::segment::Wanted;
use crate::segment::values::columns::{FoundValues, text_of};
use crate::segment::values::run::GONE;
use crate::segment::values::segment::Record;
use crate::store::KeySpace;
use crate::store::Writer;
use crate::store::view::View;

/// Rows that are looked up in one chunk, so that their keys stay in the cache.
const CHUNK: usize = 4096;
/// Rows whose records and values are fetched in one group.
const GROUP: usize = 64;

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// 0 is the log, then the files in look-up order.
    pub(super) source: u32,
    pub(super) place: u32,
}

impl Hit {
    pub(super) const NOWHERE: Self = Self { source: u32::MAX, place: 0 };
}

impl View {
    /// The newest entry of each row, including removed ones. Without `with_log` the log is not
    /// searched.
    pub(super) fn find_values(&self, wanted: &Wanted, with_log: bool) -> Result<Vec<Hit>> {
        let mut hits = vec![Hit::NOWHERE; wanted.keys.len()];
        let mut survivors = Vec::new();
        for (number, hits) in hits.chunks_mut(CHUNK).enumerate() {
            let first = number * CHUNK;
            let rows = first..first + hits.len();
            let text = |row: u32| (wanted.text)(row + first as u32);
            let chunk = Wanted { keys: &wanted.keys[rows.clone()], forms: &wanted.forms[rows], text: &text };
            if with_log {
                self.find_in_log(&chunk, hits);
            }
            for (source, placed) in (1..).zip(&self.values) {
                survivors.clear();
                placed.segment.may_contain(&chunk, 0, &mut survivors)?;
                survivors.retain(|row| hits[*row as usize] == Hit::NOWHERE);
                placed
                    .segment
                    .find(&chunk, &survivors, &mut |row, place| hits[row as usize] = Hit { source, place })?;
            }
        }
        Ok(hits)
    }

    fn find_in_log(&self, chunk: &Wanted, hits: &mut [Hit]) {
        let recent = &self.memtable.values;
        if recent.run.is_empty() {
            return;
        }
        for (row, (key, form)) in chunk.keys.iter().zip(chunk.forms).enumerate() {
            let text = match form {
                Form::Uuid => &[],
                Form::Text => text_of(chunk, row as u32),
                Form::Absent | Form::TooLong => continue,
            };
            if let Some(place) = recent.find(*key, text) {
                hits[row] = Hit { source: 0, place };
            }
        }
    }

    /// The content of the entries at `hits`, and whether any answer rests on the log.
    fn gather(&self, hits: &[Hit]) -> Result<(FoundValues, bool)> {
        let mut found = FoundValues::with_capacity(hits.len());
        let mut rests_on_log = false;
        let mut scratch = Vec::new();
        let mut records = [Record::default(); GROUP];
        for group in hits.chunks(GROUP) {
            self.records(group, &mut records, &mut scratch)?;
            for (hit, record) in group.iter().zip(&records) {
                match hit.source {
                    0 => {
                        rests_on_log = true;
                        let recent = &self.memtable.values.run;
                        let row = &recent.rows[hit.place as usize];
                        if row.flags & GONE == 0 {
                            found.push(row.flags, row.until, recent.value(row));
                        } else {
                            found.push_none();
                        }
                    }
                    u32::MAX => found.push_none(),
                    source => {
                        let placed = &self.values[source as usize - 1];
                        if placed.is_gone(record.flags, record.until) {
                            found.push_none();
                        } else {
                            found.push(record.flags, record.until, placed.segment.value(*record, &mut scratch)?);
                        }
                    }
                }
            }
        }
        Ok((found, rests_on_log))
    }

    /// The records of a group. Their lines are fetched before the first is read, and then the lines
    /// of their values.
    fn records(&self, group: &[Hit], records: &mut [Record; GROUP], scratch: &mut Vec<u8>) -> Result<()> {
        let in_file = |hit: &Hit| self.values.get((hit.source as usize).wrapping_sub(1));
        for hit in group {
            if let Some(placed) = in_file(hit) {
                placed.segment.fetch_record(hit.place);
            }
        }
        for (hit, record) in group.iter().zip(records) {
            if let Some(placed) = in_file(hit) {
                *record = placed.segment.record(hit.place, scratch)?;
                placed.segment.fetch_value(*record);
            }
        }
        Ok(())
    }

    /// The entries of a batch in this state, and whether any answer rests on the log.
    pub(crate) fn look_values(&self, wanted: &Wanted) -> Result<(FoundValues, bool)> {
        self.gather(&self.find_values(wanted, true)?)
    }
}

impl KeySpace {
    /// The entries of a batch. Answers that rest on the log are returned once they are durable.
    pub(crate) fn look_values(&self, wanted: &Wanted) -> Result<FoundValues> {
        self.look_durably(|view| match view {
            Some(view) => view.look_values(wanted),
            None => Ok((FoundValues::none(wanted.keys.len()), false)),
        })
    }
}

impl Writer<'_> {
    /// [`KeySpace::look_values`] under the writer lock. The answers are durable when the lock is
    /// released.
    pub(crate) fn values_of(&self, wanted: &Wanted) -> Result<FoundValues> {
        match self.space.present().as_ref() {
            Some(view) => Ok(view.look_values(wanted)?.0),
            None => Ok(FoundValues::none(wanted.keys.len())),
        }
    }
}
