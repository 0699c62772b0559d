//! A batch of documents after identification: its keys, forms and copies.

use crate::batch::{Copy, copies};
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
}

/// A row range for each thread.
pub(crate) fn row_ranges(rows: usize, threads: usize) -> Vec<std::ops::Range<usize>> {
    let parts = threads.clamp(1, rows.div_ceil(ROWS_PER_THREAD).max(1));
    let size = rows.div_ceil(parts).max(1);
    (0..parts).map(|part| (part * size).min(rows)..((part + 1) * size).min(rows)).collect()
}

impl Batch {
    pub(crate) fn identify(codec: &Codec, documents: &Documents, threads: usize) -> Result<Self> {
        check_lengths(documents)?;
        let rows = documents.rows;
        let mut batch =
            Self { keys: vec![Key::default(); rows], forms: vec![Form::Absent; rows], sources: vec![u8::MAX; rows] };
        let ids = &documents.ids[..];
        let ranges = row_ranges(rows, threads);
        if ranges.len() == 1 {
            identify(codec, ids, 0..rows, &mut batch.keys, &mut batch.forms, &mut batch.sources);
            return Ok(batch);
        }
        std::thread::scope(|scope| {
            let (mut keys, mut forms, mut sources) =
                (&mut batch.keys[..], &mut batch.forms[..], &mut batch.sources[..]);
            for range in ranges {
                let (key_part, key_rest) = keys.split_at_mut(range.len());
                let (form_part, form_rest) = forms.split_at_mut(range.len());
                let (source_part, source_rest) = sources.split_at_mut(range.len());
                (keys, forms, sources) = (key_rest, form_rest, source_rest);
                scope.spawn(move || identify(codec, ids, range, key_part, form_part, source_part));
            }
        });
        Ok(batch)
    }

    pub(crate) fn key_classes(&self) -> Vec<KeyClass> {
        let class = |form: &Form| match form {
            Form::Absent => KeyClass::Absent,
            Form::TooLong => KeyClass::TooLong,
            Form::Uuid | Form::Text => KeyClass::Usable,
        };
        self.forms.iter().map(class).collect()
    }

    pub(crate) fn copies(&self, documents: &Documents, threads: usize) -> Vec<Copy> {
        let text = |row: u32| self.text(documents, row);
        copies(&self.keys, &self.forms, &|a, b| text(a) == text(b), threads)
    }

    /// The text of a row's key; empty for rows without one.
    #[inline]
    pub(crate) fn text<'a>(&self, documents: &Documents<'a>, row: u32) -> &'a [u8] {
        let column: Option<&IdColumn<'a>> = documents.ids.get(usize::from(self.sources[row as usize]));
        match column.map(|column| column.get(row as usize)) {
            Some(Id::Text(text)) => text,
            _ => &[],
        }
    }

    /// Run `work` with the keys of `range` as they are looked for; rows count from the range's start.
    pub(crate) fn wanted<T>(
        &self,
        documents: &Documents<'_>,
        range: std::ops::Range<usize>,
        work: impl FnOnce(&Wanted) -> T,
    ) -> T {
        let first = range.start as u32;
        let text = |row: u32| self.text(documents, first + row);
        work(&Wanted { keys: &self.keys[range.clone()], forms: &self.forms[range], text: &text })
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
