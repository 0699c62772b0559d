//! The messages of one poll, as columns.

use xxhash_rust::xxh3::Xxh3;

use super::header::{BadHeader, PartHeader};
use crate::columns::{IdCell, IdColumn, Validity};
use crate::error::{Error, Result};
use crate::key::{Form, Key};
use crate::types::transaction::BatchRows;

/// The stream index of a message that names no stream.
pub const NO_STREAM: u32 = u32::MAX;

/// The messages of one poll, in the order of arrival.
#[derive(Clone, Debug)]
pub struct HeaderColumns<'a> {
    /// Index into `names` of each message's stream, or [`NO_STREAM`].
    pub streams: &'a [u32],
    /// Names of the streams; a name may stand there twice.
    pub names: &'a [&'a str],
    /// The headers.
    pub headers: Headers<'a>,
}

/// Headers, as text or as numbers.
#[derive(Clone, Debug)]
pub enum Headers<'a> {
    /// `(resend_count-prev-cur-seq)`, in any layout of text; null is a damaged message.
    Text(IdColumn<'a>),
    /// One column a number; a null row is a damaged message.
    Numbers {
        /// Epochs.
        resend_count: &'a [u64],
        /// Offsets of the previous message's last COMMIT.
        prev: &'a [u64],
        /// Offsets of this message's last COMMIT.
        cur: &'a [u64],
        /// Numbers of the parts.
        seq: &'a [u32],
        /// Rows that have a header.
        validity: Validity<'a>,
    },
}

impl Headers<'_> {
    /// The header of `row`.
    #[inline]
    pub(super) fn get(&self, row: usize) -> std::result::Result<PartHeader, BadHeader> {
        match self {
            Self::Text(column) => match column.get(row) {
                IdCell::Text(text) => PartHeader::parse(text),
                IdCell::Null => Err(BadHeader::Missing),
                IdCell::Uuid(_) => Err(BadHeader::Malformed),
            },
            Self::Numbers { resend_count, prev, cur, seq, validity } => {
                if !validity.is_valid(row) {
                    return Err(BadHeader::Missing);
                }
                PartHeader::new(resend_count[row], prev[row], cur[row], seq[row])
            }
        }
    }

    /// The text of a header that cannot be used.
    fn damaged(&self, row: usize) -> &[u8] {
        match self {
            Self::Text(column) => match column.get(row) {
                IdCell::Text(text) => text,
                IdCell::Null | IdCell::Uuid(_) => &[],
            },
            Self::Numbers { .. } => &[],
        }
    }

    fn has_rows(&self, rows: usize) -> bool {
        match self {
            Self::Text(column) => column.len() == rows,
            Self::Numbers { resend_count, prev, cur, seq, .. } => {
                resend_count.len() == rows && prev.len() == rows && cur.len() == rows && seq.len() == rows
            }
        }
    }
}

impl HeaderColumns<'_> {
    /// A fingerprint that tells this poll's messages from those of another: their streams and
    /// headers.
    pub(super) fn batch_rows(&self) -> BatchRows {
        let mut rows = BatchRows::default();
        (0..self.streams.len()).for_each(|row| self.add_row(row, &mut rows));
        rows
    }

    /// Take one message in.
    pub(super) fn add_row(&self, row: usize, rows: &mut BatchRows) {
        let mut hash = Xxh3::new();
        match self.header(row) {
            Some(PartHeader { resend_count, prev, cur, seq }) => {
                for number in [resend_count, prev, cur, u64::from(seq)] {
                    hash.update(&number.to_le_bytes());
                }
            }
            None => hash.update(self.headers.damaged(row)),
        }
        let name = self.names.get(self.streams[row] as usize).copied().unwrap_or_default();
        hash.update(&[0xff]);
        hash.update(name.as_bytes());
        let digest = hash.digest128();
        rows.push(Form::Text, Key { hi: (digest >> 64) as u64, lo: digest as u64 });
    }

    /// The header of `row`, if it can be used.
    pub fn header(&self, row: usize) -> Option<PartHeader> {
        self.headers.get(row).ok()
    }

    /// Equal lengths, few enough rows for 32-bit row numbers, indices that point at a name.
    pub(super) fn check(&self) -> Result<()> {
        let rows = self.streams.len();
        if rows >= u32::MAX as usize {
            return Err(Error::Schema(format!("a poll takes fewer than {} messages, not {rows}", u32::MAX)));
        }
        if !self.headers.has_rows(rows) {
            return Err(Error::Schema(format!("the header columns do not have {rows} rows as the stream column has")));
        }
        match self.streams.iter().find(|&&s| s != NO_STREAM && s as usize >= self.names.len()) {
            Some(index) => {
                Err(Error::Schema(format!("stream index {index} points behind the {} names", self.names.len())))
            }
            None => Ok(()),
        }
    }
}
