//! From the id columns of a batch to keys: the first column that holds a value decides.

use std::ops::Range;

use super::pass::{Dense, Out, Pass};
use super::{Codec, Form, Key, simd};
use crate::columns::IdColumn;

/// The source of a row that has no id.
pub const NO_SOURCE: u8 = u8::MAX;

/// Identifies `rows` of a batch by the id columns, in the order of the key chain.
///
/// Null and "" are absent, blanks are a value; the first column that holds a value decides, even if
/// the value is too long. Row `rows.start + i` leaves its key in `keys[i]` (zero unless its form is
/// usable), what it is in `forms[i]` and which column it came from in `sources[i]` ([`NO_SOURCE`]
/// if absent). All three are as long as `rows`.
pub fn identify(
    codec: &Codec,
    ids: &[IdColumn<'_>],
    rows: Range<usize>,
    keys: &mut [Key],
    forms: &mut [Form],
    sources: &mut [u8],
) {
    keys.fill(Key::default());
    forms.fill(Form::Absent);
    sources.fill(NO_SOURCE);
    let mut out = Out { keys, forms, sources };
    for (source, column) in (0..NO_SOURCE).zip(ids) {
        let pass = Pass { codec, source, rows: rows.clone() };
        if source > 0 && !out.forms.contains(&Form::Absent) {
            return;
        }
        run(&pass, column, &mut out);
    }
}

/// Text without nulls, which most batches are, has a loop of its own.
fn run(pass: &Pass<'_>, column: &IdColumn<'_>, out: &mut Out<'_>) {
    match column {
        IdColumn::Utf8 { offsets, values, validity } if validity.is_all() => {
            simd::run(pass, &Dense { offsets, values }, out);
        }
        IdColumn::LargeUtf8 { offsets, values, validity } if validity.is_all() => {
            simd::run(pass, &Dense { offsets, values }, out);
        }
        other => simd::run(pass, other, out),
    }
}

#[cfg(test)]
#[path = "identify_tests.rs"]
mod tests;
