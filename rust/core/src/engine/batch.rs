//! A batch of documents after identification: its keys, forms and copies.

use std::ops::Range;

use crate::batch::{Copy, copies_among};
use crate::columns::{CountColumn, Documents, FlagColumn, Id, IdColumn};
use crate::key::{Codec, Form, Key, identify};
use crate::rules::KeyClass;
use crate::segment::Wanted;
use crate::{Error, Result};

/// Rows that one thread should at least have to do.
const ROWS_PER_THREAD: usize = 1 << 16;

/// The keys of a batch, as columns.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) keys: Vec<Key>,
    pub(crate) forms: Vec<Form>,
    /// Which id column each row's key comes from.
    pub(crate) sources: Vec<u8>,
    /// Rows whose key may stand in an earlier row.
    pub(super) suspects: Vec<u32>,
}

/// Some rows of a batch, for one thread.
pub(super) struct Part<'a> {
    pub(super) rows: Range<usize>,
    pub(super) keys: &'a mut [Key],
    pub(super) forms: &'a mut [Form],
    pub(super) sources: &'a mut [u8],
}

/// The text of a row in the column that its key comes from; empty if that is no text.
#[inline]
pub(super) fn text_of<'a>(documents: &Documents<'a>, source: u8, row: usize) -> &'a [u8] {
    let column: Option<&IdColumn<'a>> = documents.ids.get(usize::from(source));
    match column.map(|column| column.get(row)) {
        Some(Id::Text(text)) => text,
        _ => &[],
    }
}

/// A row range for each thread.
fn row_ranges(rows: usize, threads: usize) -> Vec<Range<usize>> {
    let parts = threads.clamp(1, rows.div_ceil(ROWS_PER_THREAD).max(1));
    let size = rows.div_ceil(parts).max(1);
    (0..parts).map(|part| (part * size).min(rows)..((part + 1) * size).min(rows)).collect()
}

impl Batch {
    /// Room for the keys of a batch whose columns are of one length.
    pub(crate) fn new(documents: &Documents) -> Result<Self> {
        check_lengths(documents)?;
        documents.check()?;
        let rows = documents.rows;
        Ok(Self {
            keys: vec![Key::default(); rows],
            forms: vec![Form::Absent; rows],
            sources: vec![u8::MAX; rows],
            suspects: Vec::new(),
        })
    }

    /// A batch with all its keys.
    pub(crate) fn identify(codec: &Codec, documents: &Documents) -> Result<Self> {
        let mut batch = Self::new(documents)?;
        for part in batch.parts(1) {
            part.identify(codec, documents);
        }
        Ok(batch)
    }

    /// The batch in parts of rows, one for each thread.
    pub(super) fn parts(&mut self, threads: usize) -> Vec<Part<'_>> {
        let (mut keys, mut forms, mut sources) = (&mut self.keys[..], &mut self.forms[..], &mut self.sources[..]);
        let mut parts = Vec::new();
        for range in row_ranges(keys.len(), threads) {
            let (key_part, form_part, source_part);
            (key_part, keys) = keys.split_at_mut(range.len());
            (form_part, forms) = forms.split_at_mut(range.len());
            (source_part, sources) = sources.split_at_mut(range.len());
            parts.push(Part { rows: range, keys: key_part, forms: form_part, sources: source_part });
        }
        parts
    }

    pub(crate) fn key_classes(&self) -> Vec<KeyClass> {
        let class = |form: &Form| match form {
            Form::Absent => KeyClass::Absent,
            Form::TooLong => KeyClass::TooLong,
            Form::Uuid | Form::Text => KeyClass::Usable,
        };
        self.forms.iter().map(class).collect()
    }

    /// The later rows of each key.
    pub(crate) fn copies(&self, documents: &Documents) -> Vec<Copy> {
        let text = |row: u32| self.text(documents, row);
        copies_among(&self.keys, &self.forms, &|a, b| text(a) == text(b), &self.suspects)
    }

    /// The text of a row's key; empty for rows without one.
    #[inline]
    pub(crate) fn text<'a>(&self, documents: &Documents<'a>, row: u32) -> &'a [u8] {
        text_of(documents, self.sources[row as usize], row as usize)
    }

    /// Run `work` with the keys as they are looked for.
    pub(crate) fn wanted<T>(&self, documents: &Documents<'_>, work: impl FnOnce(&Wanted) -> T) -> T {
        let text = |row: u32| self.text(documents, row);
        work(&Wanted { keys: &self.keys, forms: &self.forms, text: &text })
    }
}

impl Part<'_> {
    pub(super) fn identify(self, codec: &Codec, documents: &Documents) {
        identify(codec, &documents.ids, self.rows, self.keys, self.forms, self.sources);
    }
}

/// All columns must be as long as the batch says.
fn check_lengths(documents: &Documents) -> Result<()> {
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
