//! Columns come from outside. What they claim about themselves is checked once a batch, so that no
//! invalid offset, view or index is followed.

use super::{CountColumn, Documents, FlagColumn, IdColumn, Validity};
use crate::{Error, Result};

/// What is wrong with a column.
type Checked = std::result::Result<(), String>;

impl Documents<'_> {
    /// Make sure that every row of every column can be read.
    ///
    /// # Errors
    /// `Schema`, which names the column and what is wrong with it.
    pub fn check(&self) -> Result<()> {
        let bad =
            |column: String| move |what: String| Error::Schema(format!("{column} {what}: it is not valid Arrow data"));
        for (place, ids) in self.ids.iter().enumerate() {
            ids.check(self.rows).map_err(bad(format!("id column {}", place + 1)))?;
        }
        self.count.check(self.rows).map_err(bad("the column of counts".into()))?;
        self.eligible.check(self.rows).map_err(bad("the column of flags".into()))
    }
}

impl Validity<'_> {
    fn check(&self, rows: usize) -> Checked {
        match self.bits {
            Some((bits, offset)) => check_bits(bits, offset, rows),
            None => Ok(()),
        }
    }
}

impl IdColumn<'_> {
    fn check(&self, rows: usize) -> Checked {
        if self.len() != rows {
            return Err(format!("has {} rows where there are {rows}", self.len()));
        }
        match self {
            Self::Utf8 { offsets, values, validity } => {
                check_offsets(offsets, values.len())?;
                validity.check(rows)
            }
            Self::LargeUtf8 { offsets, values, validity } => {
                check_offsets(offsets, values.len())?;
                validity.check(rows)
            }
            Self::Utf8View { views, buffers, validity } => {
                validity.check(rows)?;
                let is_good = |(row, view): (usize, &u128)| !validity.is_valid(row) || is_within(*view, buffers);
                if views.iter().enumerate().all(is_good) { Ok(()) } else { Err("has a view past its buffers".into()) }
            }
            Self::Uuid { validity, .. } => validity.check(rows),
            Self::Dictionary { indices, values, validity } => {
                validity.check(rows)?;
                values.check(values.len())?;
                let most = values.len();
                let is_good = |(row, index): (usize, &u32)| (*index as usize) < most || !validity.is_valid(row);
                if indices.iter().all(|index| (*index as usize) < most) || indices.iter().enumerate().all(is_good) {
                    Ok(())
                } else {
                    Err(format!("has an index past its dictionary of {most}"))
                }
            }
        }
    }
}

/// Offsets that rise, from nothing below 0 to nothing past the values.
fn check_offsets<O: Copy + PartialOrd + Into<i64>>(offsets: &[O], bytes: usize) -> Checked {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Ok(()) };
    // No early exit: so the comparisons are done many at a time.
    let falls = offsets.windows(2).map(|pair| u32::from(pair[0] > pair[1])).fold(0, |falls, one| falls | one);
    let is_within = (*first).into() >= 0 && usize::try_from((*last).into()).is_ok_and(|last| last <= bytes);
    if falls == 0 && is_within { Ok(()) } else { Err(format!("has offsets that do not fit its {bytes} bytes")) }
}

/// Whether the text of a view lies in its buffer.
#[inline]
fn is_within(view: u128, buffers: &[&[u8]]) -> bool {
    let length = view as u32 as usize;
    let (buffer, start) = ((view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
    length <= 12 || buffers.get(buffer).is_some_and(|bytes| start + length <= bytes.len())
}

fn check_bits(bits: &[u8], offset: usize, rows: usize) -> Checked {
    let has = (bits.len() * 8).saturating_sub(offset);
    if has >= rows { Ok(()) } else { Err(format!("has a bitmap of {has} bits where there are {rows} rows")) }
}

impl CountColumn<'_> {
    fn check(&self, rows: usize) -> Checked {
        let (has, validity) = match self {
            Self::Absent => return Ok(()),
            Self::I8(values, validity) => (values.len(), validity),
            Self::I16(values, validity) => (values.len(), validity),
            Self::I32(values, validity) => (values.len(), validity),
            Self::I64(values, validity) => (values.len(), validity),
        };
        if has != rows {
            return Err(format!("has {has} rows where there are {rows}"));
        }
        validity.check(rows)
    }
}

impl FlagColumn<'_> {
    fn check(&self, rows: usize) -> Checked {
        match self {
            Self::Absent => Ok(()),
            Self::Bits { bits, offset, validity } => {
                check_bits(bits, *offset, rows)?;
                validity.check(rows)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(ids: IdColumn) -> String {
        let documents = Documents { rows: 2, ids: vec![ids], count: CountColumn::Absent, eligible: FlagColumn::Absent };
        documents.check().unwrap_err().to_string()
    }

    #[test]
    fn what_does_not_fit_its_buffers_is_refused() {
        let all = Validity::all();
        let text = |offsets| IdColumn::Utf8 { offsets, values: b"abcd", validity: all };
        for offsets in [&[0, 2, 5][..], &[0, 3, 2], &[-1, 2, 4], &[0, 4]] {
            refused(text(offsets));
        }
        let views = [13u128, 0xd | 1 << 64];
        refused(IdColumn::Utf8View { views: &views, buffers: vec![&[0; 13]], validity: all });
        let dictionary =
            |validity| IdColumn::Dictionary { indices: vec![0, 9], values: Box::new(text(&[0, 4])), validity };
        assert!(refused(dictionary(all)).contains("past its dictionary of 1"));
        refused(IdColumn::Uuid { values: &[0; 31], validity: all });
        refused(IdColumn::Uuid { values: &[0; 32], validity: Validity::new(&[0], 7) });
        let ids = vec![dictionary(Validity::new(&[1], 0))];
        let documents = Documents { rows: 2, ids, count: CountColumn::Absent, eligible: FlagColumn::Absent };
        assert!(documents.check().is_ok(), "what is null points nowhere");
    }
}
