//! Listing the entries of a space.

use crate::Result;
use crate::key::Key;
use crate::segment::values::columns::FoundValues;
use crate::segment::values::run::GONE;
use crate::store::KeySpace;
use crate::store::view::View;

/// Entries that are processed in one chunk.
const CHUNK: u32 = 8192;

/// Where a listing stands, in a view of its own.
#[derive(Debug)]
pub struct ValueCursor {
    view: Option<View>,
    /// 0 is the log, then the files.
    source: u32,
    place: u32,
}

impl KeySpace {
    /// Start a listing of the present state.
    pub(crate) fn value_cursor(&self) -> Result<ValueCursor> {
        Ok(ValueCursor { view: self.durable_view()?, source: 0, place: 0 })
    }

    /// The present state in a view of its own, once all of it is durable.
    fn durable_view(&self) -> Result<Option<View>> {
        self.look_durably(|view| Ok(((), view.is_some_and(|view| !view.memtable.values.run.is_empty()))))?;
        self.pinned_view()
    }
}

impl ValueCursor {
    /// The next entries; `id` gets their keys and texts. None after the last; a batch may be empty.
    pub(crate) fn next(&mut self, id: &mut dyn FnMut(Key, &[u8])) -> Result<Option<FoundValues>> {
        let Some(view) = &self.view else { return Ok(None) };
        let mut found = FoundValues::default();
        let rows = match self.source {
            0 => view.memtable.values.run.len() as u32,
            source => match view.values.get(source as usize - 1) {
                Some(placed) => placed.segment.header().rows as u32,
                None => return Ok(None),
            },
        };
        let places = self.place..self.place.saturating_add(CHUNK).min(rows);
        let end = places.end;
        if self.source == 0 {
            let run = &view.memtable.values.run;
            let rows = &run.rows[places.start as usize..places.end as usize];
            for row in rows.iter().filter(|row| row.flags & GONE == 0) {
                id(row.key, run.text(row));
                found.push(row.flags, row.until, run.value(row));
            }
        } else {
            let placed = &view.values[self.source as usize - 1];
            let (run, _) = view.counting(self.source, placed, places)?;
            for row in &run.rows {
                id(row.key, run.text(row));
                found.push(row.flags, row.until, run.value(row));
            }
        }
        (self.source, self.place) = if end == rows { (self.source + 1, 0) } else { (self.source, end) };
        Ok(Some(found))
    }
}
