//! Entries of a value space in memory, in any order: the content of a frame, of the log, or of a
//! future segment.

use crate::Result;
use crate::io::bytes::{Decoder, Encoder};
use crate::key::Key;
use crate::segment::sort;

/// The entry was removed.
pub(crate) const GONE: u8 = 1;
/// The entry is there and holds no value.
pub(crate) const NULL: u8 = 2;
/// The entry is not purged by time alone.
pub(crate) const PENDING: u8 = 4;
const KNOWN: u8 = GONE | NULL | PENDING;

/// The `persist_until` of an entry that is never purged.
pub const FOREVER: i64 = i64::MAX;
/// Most bytes of an id: its length is a `u16` on disk.
pub const MOST_ID_BYTES: usize = u16::MAX as usize;
/// Most bytes of a value: its length has 24 bits on disk.
pub const MOST_VALUE_BYTES: usize = (1 << 24) - 1;

/// One entry; its text and its value stand in the run's heap, one behind the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) key: Key,
    start: u64,
    /// Microseconds since 1970.
    pub(crate) until: i64,
    value: u32,
    /// Bytes of the id's text; 0 for a UUID.
    text: u16,
    pub(crate) flags: u8,
}

/// Entries and what they hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueRun {
    pub(crate) rows: Vec<Row>,
    heap: Vec<u8>,
}

impl ValueRun {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of texts and values.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn push(&mut self, key: Key, text: &[u8], until: i64, flags: u8, value: &[u8]) {
        let row = self.hold(key, text, until, flags, value);
        self.rows.push(row);
    }

    /// Puts the text and the value of a row into the heap; answers the row.
    pub(crate) fn hold(&mut self, key: Key, text: &[u8], until: i64, flags: u8, value: &[u8]) -> Row {
        let start = self.heap.len() as u64;
        self.heap.extend_from_slice(text);
        self.heap.extend_from_slice(value);
        Row { key, start, until, value: value.len() as u32, text: text.len() as u16, flags }
    }

    /// Replace a row's value by another of the same length; answers whether that was possible.
    pub(crate) fn overwrite(&mut self, at: usize, until: i64, flags: u8, value: &[u8]) -> bool {
        let row = &mut self.rows[at];
        if row.value as usize != value.len() {
            return false;
        }
        (row.until, row.flags) = (until, flags);
        let start = row.start as usize + usize::from(row.text);
        self.heap[start..start + value.len()].copy_from_slice(value);
        true
    }

    /// Append a copy of another run's row.
    pub(crate) fn push_from(&mut self, other: &Self, row: &Row) {
        self.push(row.key, other.text(row), row.until, row.flags, other.value(row));
    }

    #[inline]
    pub(crate) fn text(&self, row: &Row) -> &[u8] {
        let start = row.start as usize;
        &self.heap[start..start + usize::from(row.text)]
    }

    #[inline]
    pub(crate) fn value(&self, row: &Row) -> &[u8] {
        let start = row.start as usize + usize::from(row.text);
        &self.heap[start..start + row.value as usize]
    }

    /// Sort by key; of equal keys a UUID, which has no text, comes first, then the texts in their
    /// order.
    pub(crate) fn sort(&mut self) {
        let Self { rows, heap } = self;
        let text = |row: &Row| &heap[row.start as usize..row.start as usize + usize::from(row.text)];
        sort::by_key(rows, |row| row.key, |a, b| text(a).cmp(text(b)));
    }

    /// As the payload of a frame: columns, each up to a multiple of 8 bytes.
    pub(crate) fn encode(&self, out: &mut Encoder) {
        for row in &self.rows {
            out.u64(row.key.hi).u64(row.key.lo);
        }
        for row in &self.rows {
            out.i64(row.until);
        }
        for row in &self.rows {
            out.u32(row.value);
        }
        out.align(8);
        for row in &self.rows {
            out.u16(row.text);
        }
        out.align(8);
        for row in &self.rows {
            out.u8(row.flags);
        }
        out.align(8);
        for row in &self.rows {
            out.raw(self.text(row)).raw(self.value(row));
        }
        out.align(8);
    }

    pub(crate) fn decode(from: &mut Decoder, count: usize) -> Result<Self> {
        let keys = from.raw(count.saturating_mul(16))?;
        let untils = from.raw(count.saturating_mul(8))?;
        let values = from.raw(count.saturating_mul(4))?;
        from.align(8)?;
        let texts = from.raw(count.saturating_mul(2))?;
        from.align(8)?;
        let flags = from.raw(count)?;
        from.align(8)?;
        let mut run = Self { rows: Vec::with_capacity(count), heap: Vec::new() };
        let mut start = 0u64;
        let columns = keys.as_chunks::<16>().0.iter().zip(untils.as_chunks::<8>().0);
        let lengths = values.as_chunks::<4>().0.iter().zip(texts.as_chunks::<2>().0);
        for (((key, until), (value, text)), flags) in columns.zip(lengths).zip(flags) {
            let (value, text) = (u32::from_le_bytes(*value), u16::from_le_bytes(*text));
            if value as usize > MOST_VALUE_BYTES || flags & !KNOWN != 0 {
                return Err(from.corrupt("invalid entry: length or flags out of range"));
            }
            let until = i64::from_le_bytes(*until);
            run.rows.push(Row { key: Key::from_bytes(*key), start, until, value, text, flags: *flags });
            start += u64::from(value) + u64::from(text);
        }
        run.heap = from.raw(start as usize)?.to_vec();
        from.align(8)?;
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_frame_carries_is_read_back() {
        let mut run = ValueRun::default();
        run.push(Key { hi: 1, lo: 2 }, b"", 7, 0, b"value");
        run.push(Key { hi: 3, lo: 4 }, b"urn:1", i64::MAX, NULL | PENDING, b"");
        run.push(Key { hi: 5, lo: 6 }, b"x", 0, GONE, b"");
        let mut out = Encoder::new();
        run.encode(&mut out);
        let bytes = out.finish();
        assert_eq!(bytes.len() % 8, 0);
        let path = std::path::Path::new("log");
        let back = ValueRun::decode(&mut Decoder::new(&bytes, path), 3).unwrap();
        for (row, other) in run.rows.iter().zip(&back.rows) {
            assert_eq!((row.key, row.until, row.flags), (other.key, other.until, other.flags));
            assert_eq!((run.text(row), run.value(row)), (back.text(other), back.value(other)));
        }
        for count in [2, 4, usize::MAX] {
            let mut from = Decoder::new(&bytes, path);
            assert!(ValueRun::decode(&mut from, count).and_then(|_| from.finish()).is_err(), "{count} rows");
        }
    }

    #[test]
    fn only_a_value_of_the_same_length_takes_the_place_of_another() {
        let mut run = ValueRun::default();
        run.push(Key::default(), b"id", 1, 0, b"abc");
        assert!(run.overwrite(0, 2, NULL, b"xyz"));
        assert!(!run.overwrite(0, 3, 0, b"long"));
        let row = run.rows[0];
        assert_eq!((run.text(&row), run.value(&row), row.until, row.flags), (&b"id"[..], &b"xyz"[..], 2, NULL));
    }
}
