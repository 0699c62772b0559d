//! Streams' rows in a history: one value space for what is received, one for what is sent.

use std::sync::Arc;

use super::store::{Exchange, KeyAndValue, Overtaken, Rows};
use crate::Result;
use crate::columns::{IdColumn, Validity};
use crate::history::History;
use crate::history::values::{FOREVER, NewValue, Room, ValueMap};

const RECEIVED: &str = "received";
const SENT: &str = "sent";

#[derive(Debug)]
struct Space {
    values: ValueMap,
    /// Whether files are compacted when that pays.
    auto_maintain: bool,
}

impl History {
    /// The rows of the receiving sides of streams.
    pub fn received_streams(&self, auto_maintain: bool) -> Result<Arc<dyn Rows>> {
        self.stream_rows(RECEIVED, auto_maintain)
    }

    /// The rows of the sending sides of streams.
    pub fn sent_streams(&self, auto_maintain: bool) -> Result<Arc<dyn Rows>> {
        self.stream_rows(SENT, auto_maintain)
    }

    fn stream_rows(&self, name: &str, auto_maintain: bool) -> Result<Arc<dyn Rows>> {
        let auto_maintain = auto_maintain && !self.is_read_only();
        Ok(Arc::new(Space { values: self.values(Room::Delivery, name)?, auto_maintain }))
    }
}

impl Rows for Space {
    fn scan(&self, prefix: &str) -> Result<Vec<KeyAndValue>> {
        let mut rows = Vec::new();
        let mut entries = self.values.entries()?;
        while let Some(batch) = entries.next_batch()? {
            for (row, key) in batch.ids.into_iter().enumerate() {
                if let Some(value) = batch.found.value(row).filter(|_| key.starts_with(prefix)) {
                    rows.push((key, value.to_vec()));
                }
            }
        }
        rows.sort_unstable();
        Ok(rows)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let keys = Keys::new(std::iter::once(key));
        let found = self.values.look(&self.values.ids(&keys.column()))?;
        Ok(found.value(0).map(<[u8]>::to_vec))
    }

    fn get_all(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys = Keys::new(keys.iter().map(String::as_str));
        let column = keys.column();
        let found = self.values.look(&self.values.ids(&column))?;
        Ok((0..column.len()).map(|row| found.value(row).map(<[u8]>::to_vec)).collect())
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<std::result::Result<(), Overtaken>> {
        let keys = Keys::new(changes.iter().map(|change| change.key.as_str()));
        let column = keys.column();
        let ids = self.values.ids(&column);
        let done = self.values.change(&ids, |edit| {
            let differs = |(at, change): &(usize, &Exchange)| edit.found().value(*at) != change.expected.as_deref();
            if let Some((at, _)) = changes.iter().enumerate().find(differs) {
                return Ok(Err(Overtaken { at, found: edit.found().value(at).map(<[u8]>::to_vec) }));
            }
            for (at, change) in changes.iter().enumerate() {
                match &change.new {
                    Some(value) => {
                        let entry = NewValue { value: Some(value), persist_until: FOREVER, pending: false };
                        edit.put(ids.id(at), entry)?;
                    }
                    None => edit.remove(ids.id(at))?,
                }
            }
            Ok(Ok(()))
        })?;
        if self.auto_maintain && self.values.is_maintenance_due() {
            // The requested change is done and durable. Failed maintenance becomes due again, and
            // the next write reports a failed write.
            drop(self.values.maintain(false, &mut |_, _| Ok(())));
        }
        Ok(done)
    }
}

/// Keys as one column.
struct Keys {
    offsets: Vec<i64>,
    values: Vec<u8>,
}

impl Keys {
    fn new<'a>(keys: impl Iterator<Item = &'a str>) -> Self {
        let mut column = Self { offsets: vec![0], values: Vec::new() };
        for key in keys {
            column.values.extend_from_slice(key.as_bytes());
            column.offsets.push(column.values.len() as i64);
        }
        column
    }

    fn column(&self) -> IdColumn<'_> {
        IdColumn::LargeUtf8 { offsets: &self.offsets, values: &self.values, validity: Validity::all() }
    }
}
