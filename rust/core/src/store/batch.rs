//! A batch of documents with all its keys.

use crate::columns::{CountColumn, Documents, FlagColumn, IdCell, IdColumn};
use crate::key::{Codec, Form, Key, identify};
use crate::segment::Wanted;
use crate::types::transaction::BatchRows;
use crate::{Error, Result};

/// All keys of a batch, as columns.
#[derive(Debug)]
pub(crate) struct IdBatch {
    pub(crate) keys: Vec<Key>,
    pub(crate) forms: Vec<Form>,
    /// Which id column each row's key comes from.
    sources: Vec<u8>,
}

/// The text of a row in the column that its key comes from; empty if that is no text.
#[inline]
pub(crate) fn text_of<'a>(documents: &Documents<'a>, source: u8, row: usize) -> &'a [u8] {
    let column: Option<&IdColumn<'a>> = documents.ids.get(usize::from(source));
    match column.map(|column| column.get(row)) {
        Some(IdCell::Text(text)) => text,
        _ => &[],
    }
}

impl IdBatch {
    /// The keys of a batch whose columns must be of one length.
    pub(crate) fn identify(codec: &Codec, documents: &Documents) -> Result<Self> {
        check_lengths(documents)?;
        documents.check()?;
        let rows = documents.rows;
        let mut batch =
            Self { keys: vec![Key::default(); rows], forms: vec![Form::Absent; rows], sources: vec![u8::MAX; rows] };
        identify(codec, &documents.ids, 0..rows, &mut batch.keys, &mut batch.forms, &mut batch.sources);
        check_text(documents, 0, &batch.forms, &batch.sources)?;
        Ok(batch)
    }

    /// The text of a row's key; empty for rows without one.
    #[inline]
    pub(crate) fn text<'a>(&self, documents: &Documents<'a>, row: u32) -> &'a [u8] {
        text_of(documents, self.sources[row as usize], row as usize)
    }

    /// A fingerprint of the ids of all rows.
    pub(crate) fn rows(&self, codec: &Codec, documents: &Documents) -> BatchRows {
        let mut rows = BatchRows::default();
        for ((row, form), key) in (0..).zip(&self.forms).zip(&self.keys) {
            rows.push_text(codec, *form, *key, self.text(documents, row));
        }
        rows
    }

    /// Run `work` with the keys to look up.
    pub(crate) fn wanted<T>(&self, documents: &Documents<'_>, work: impl FnOnce(&Wanted) -> T) -> T {
        let text = |row: u32| self.text(documents, row);
        work(&Wanted { keys: &self.keys, forms: &self.forms, text: &text })
    }
}

/// Checks that the keys of these rows are valid text, as columns of text promise. Needs no work
/// where all are UUIDs.
pub(crate) fn check_text(documents: &Documents, first: usize, forms: &[Form], sources: &[u8]) -> Result<()> {
    if forms.iter().all(|form| *form == Form::Uuid) {
        return Ok(());
    }
    let is_text = |form: Form| matches!(form, Form::Text | Form::TooLong);
    for (at, source) in sources.iter().enumerate().filter(|(at, _)| is_text(forms[*at])) {
        if let Err(error) = std::str::from_utf8(text_of(documents, *source, first + at)) {
            let (row, column) = (first + at, usize::from(*source) + 1);
            return Err(Error::Schema(format!(
                "row {row} of id column {column} is no text: {error}; ids are UTF-8, so mend it where it is written"
            )));
        }
    }
    Ok(())
}

/// Checks that all columns are as long as the batch.
pub(crate) fn check_lengths(documents: &Documents) -> Result<()> {
    if documents.rows > (1 << 31) {
        return Err(Error::Schema(format!("a batch of {} rows; the most is 2^31: split it", documents.rows)));
    }
    let count = match documents.count {
        CountColumn::Absent => documents.rows,
        CountColumn::I8(values, _) => values.len(),
        CountColumn::I16(values, _) => values.len(),
        CountColumn::I32(values, _) => values.len(),
        CountColumn::I64(values, _) => values.len(),
    };
    let flags = match documents.eligible {
        FlagColumn::Absent => documents.rows,
        FlagColumn::Bits { bits, offset, .. } => (bits.len() * 8).saturating_sub(offset).min(documents.rows),
    };
    let lengths = documents.ids.iter().map(IdColumn::len).chain([count, flags]);
    for length in lengths {
        if length != documents.rows {
            return Err(Error::Schema(format!("a column of {length} rows in a batch of {}", documents.rows)));
        }
    }
    Ok(())
}
