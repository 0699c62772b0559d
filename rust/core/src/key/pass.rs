//! One column of ids over a range of rows: the loop that is compiled for each instruction set.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::uuid::UUID_TEXT_BYTES;
use super::uuid::UuidText;
use super::{Codec, Form, Key, too_long};
use crate::columns::{IdCell, IdColumn};

/// One column of the chain over one range of rows.
pub(super) struct Pass<'a> {
    pub(super) codec: &'a Codec,
    pub(super) source: u8,
    pub(super) rows: Range<usize>,
}

/// What a pass writes, one element a row.
pub(super) struct Out<'a> {
    pub(super) keys: &'a mut [Key],
    pub(super) forms: &'a mut [Form],
    pub(super) sources: &'a mut [u8],
}

/// Rows that the widest registers process at once.
#[cfg(target_arch = "x86_64")]
pub(super) const TOGETHER: usize = 16;

/// A column as the loop over rows reads it.
pub(super) trait Values {
    /// The values of `rows`, in order.
    fn of_rows(&self, rows: Range<usize>) -> impl Iterator<Item = IdCell<'_>>;

    /// The values of the first of these rows, as long as they lie side by side and each is as long
    /// as a UUID.
    #[cfg(target_arch = "x86_64")]
    fn side_by_side(&self, rows: Range<usize>) -> &[UuidText];
}

impl Values for IdColumn<'_> {
    #[inline]
    fn of_rows(&self, rows: Range<usize>) -> impl Iterator<Item = IdCell<'_>> {
        rows.map(|row| self.get(row))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn side_by_side(&self, _: Range<usize>) -> &[UuidText] {
        &[]
    }
}

/// Text without nulls, by its offsets: what most batches are.
pub(super) struct Dense<'a, O> {
    pub(super) offsets: &'a [O],
    pub(super) values: &'a [u8],
}

/// An offset of either width.
pub(super) trait Offset: Copy {
    fn place(self) -> usize;
}

impl Offset for i32 {
    #[inline]
    fn place(self) -> usize {
        self as usize
    }
}

impl Offset for i64 {
    #[inline]
    fn place(self) -> usize {
        self as usize
    }
}

impl<O: Offset> Values for Dense<'_, O> {
    #[inline]
    fn of_rows(&self, rows: Range<usize>) -> impl Iterator<Item = IdCell<'_>> {
        let offsets = &self.offsets[rows.start..];
        let ends = offsets.get(1..).unwrap_or_default();
        offsets
            .iter()
            .zip(ends)
            .take(rows.len())
            .map(|(start, end)| IdCell::Text(&self.values[start.place()..end.place()]))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn side_by_side(&self, rows: Range<usize>) -> &[UuidText] {
        let (starts, ends) = (&self.offsets[rows.start..rows.end], &self.offsets[rows.start + 1..=rows.end]);
        let Some(first) = starts.first() else { return &[] };
        let mut count = 0;
        for (starts, ends) in starts.chunks(TOGETHER).zip(ends.chunks(TOGETHER)) {
            // Without an early exit, so that many lengths are compared at once.
            let lengths = starts.iter().zip(ends).map(|(start, end)| end.place().wrapping_sub(start.place()));
            if lengths.fold(0, |other, length| other | (length ^ UUID_TEXT_BYTES)) != 0 {
                break;
            }
            count += starts.len();
        }
        let texts = self.values[first.place()..].as_chunks().0;
        &texts[..count.min(texts.len())]
    }
}

impl Pass<'_> {
    /// The loop over the rows, for one way to parse UUIDs. Rows that an earlier column settled stay
    /// as they are.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "is compiled again for each instruction set, together with its parse")]
    pub(super) fn run<V: Values>(&self, values: &V, out: &mut Out<'_>, parse: impl Fn(&UuidText) -> Option<[u64; 2]>) {
        self.part(0..out.keys.len(), values, out, &parse);
    }

    /// [`Pass::run`] for processors that read many UUIDs at once. `keys_of` writes the keys of the
    /// first texts while they are UUIDs and at least [`TOGETHER`] remain; it answers how many it
    /// wrote.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "is compiled again for each instruction set, together with its parse")]
    pub(super) fn run_together<V: Values>(
        &self,
        values: &V,
        out: &mut Out<'_>,
        keys_of: impl Fn(&Codec, &[UuidText], &mut [Key]) -> usize,
        parse: impl Fn(&UuidText) -> Option<[u64; 2]>,
    ) {
        let rows = out.keys.len();
        let (mut start, mut texts) = (0, &[][..]);
        while start < rows {
            // Where an earlier column may have settled some rows, each row is processed by itself.
            if texts.is_empty() && self.source == 0 {
                texts = values.side_by_side(self.rows.start + start..self.rows.end);
            }
            let done = keys_of(self.codec, texts, &mut out.keys[start..]);
            out.forms[start..start + done].fill(Form::Uuid);
            out.sources[start..start + done].fill(self.source);
            start += done;
            let end = (start + TOGETHER).min(rows);
            self.part(start..end, values, out, &parse);
            texts = texts.get(done + end - start..).unwrap_or_default();
            start = end;
        }
    }

    /// Some of the rows, counted from the first of this pass.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "is compiled again for each instruction set, together with its parse")]
    fn part<V: Values>(
        &self,
        part: Range<usize>,
        values: &V,
        out: &mut Out<'_>,
        parse: &impl Fn(&UuidText) -> Option<[u64; 2]>,
    ) {
        let rows = self.rows.start + part.start..self.rows.start + part.end;
        let keys = out.keys[part.clone()].iter_mut().zip(&mut out.forms[part.clone()]);
        for (((key, form), source), id) in keys.zip(&mut out.sources[part]).zip(values.of_rows(rows)) {
            if self.source > 0 && *form != Form::Absent {
                continue;
            }
            (*key, *form) = match id {
                IdCell::Null => continue,
                IdCell::Uuid(uuid) => (self.codec.mix(*uuid), Form::Uuid),
                IdCell::Text(text) => match text.try_into().ok().and_then(parse) {
                    Some(halves) => (self.codec.mix_halves(halves), Form::Uuid),
                    None if text.is_empty() => continue,
                    None => self.other_text(text),
                },
            };
            *source = self.source;
        }
    }

    fn other_text(&self, text: &[u8]) -> (Key, Form) {
        if too_long(text) { (Key::default(), Form::TooLong) } else { (self.codec.hash_text(text), Form::Text) }
    }
}
