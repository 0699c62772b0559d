//! Texts and times of a batch, beside its ids.

use super::same_length;
use crate::columns::{IdCell, IdColumn, Validity};
use crate::history::values::MOST_VALUE_BYTES;
use crate::key::format_uuid;
use crate::{Error, Result};

/// The times until which entries are kept.
#[derive(Clone, Copy, Debug)]
pub enum Untils<'a> {
    /// The same for all rows.
    All(i64),
    /// One a row.
    Rows(&'a [i64]),
}

impl Untils<'_> {
    pub(super) fn check(&self, rows: usize) -> Result<()> {
        match self {
            Self::All(_) => Ok(()),
            Self::Rows(each) => same_length("persist_until", each.len(), rows),
        }
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> i64 {
        match self {
            Self::All(until) => *until,
            Self::Rows(each) => each[row],
        }
    }
}

/// The longest id that another id is mapped to: a record has one byte more.
const MOST_MAPPED_BYTES: usize = MOST_VALUE_BYTES - 1;

/// Texts of a batch, some of which may be null, as one owned column.
#[derive(Clone, Debug)]
pub struct Texts {
    offsets: Vec<i64>,
    bytes: Vec<u8>,
    is_there: Vec<u8>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: Vec::new(), is_there: Vec::new() }
    }
}

impl Texts {
    /// The cells of a column; UUIDs become their text. A missing column is all null.
    ///
    /// # Errors
    /// `Schema` when a text is longer than a mapping holds.
    pub fn of(column: Option<&IdColumn>, rows: usize) -> Result<Self> {
        let mut texts = Self::default();
        let Some(column) = column else {
            (0..rows).for_each(|_| texts.push(None));
            return Ok(texts);
        };
        same_length("external_ids", column.len(), rows)?;
        for row in 0..rows {
            match column.get(row) {
                IdCell::Null => texts.push(None),
                IdCell::Text(text) if text.len() > MOST_MAPPED_BYTES => {
                    return Err(Error::Schema(format!(
                        "a mapped id of {} bytes; the most is {MOST_MAPPED_BYTES}",
                        text.len()
                    )));
                }
                IdCell::Text(text) => texts.push(Some(text)),
                IdCell::Uuid(uuid) => texts.push(Some(&format_uuid(*uuid))),
            }
        }
        Ok(texts)
    }

    pub(super) fn push(&mut self, text: Option<&[u8]>) {
        let row = self.offsets.len() - 1;
        if row.is_multiple_of(8) {
            self.is_there.push(0);
        }
        if let (Some(text), Some(bits)) = (text, self.is_there.last_mut()) {
            *bits |= 1 << (row & 7);
            self.bytes.extend_from_slice(text);
        }
        self.offsets.push(self.bytes.len() as i64);
    }

    /// Bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The text of a row.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let is_there = (self.is_there[row >> 3] >> (row & 7)) & 1 == 1;
        is_there.then(|| &self.bytes[self.offsets[row] as usize..self.offsets[row + 1] as usize])
    }

    /// The parts of an Arrow column: the offsets of the texts, the texts, and the validity bitmap.
    pub fn parts(&self) -> (&[i64], &[u8], &[u8]) {
        (&self.offsets, &self.bytes, &self.is_there)
    }

    /// As a column of ids.
    pub fn column(&self) -> IdColumn<'_> {
        let validity = Validity::new(&self.is_there, 0);
        IdColumn::LargeUtf8 { offsets: &self.offsets, values: &self.bytes, validity }
    }
}
