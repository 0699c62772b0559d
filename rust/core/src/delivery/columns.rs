//! What one poll brought, as columns.

use super::header::{BadHeader, Header};
use crate::columns::{Id, IdColumn, Validity};
use crate::error::{Error, Result};

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
    pub(super) fn get(&self, row: usize) -> std::result::Result<Header, BadHeader> {
        match self {
            Self::Text(column) => match column.get(row) {
                Id::Text(text) => Header::parse(text),
                Id::Null => Err(BadHeader::Missing),
                Id::Uuid(_) => Err(BadHeader::Malformed),
            },
            Self::Numbers { resend_count, prev, cur, seq, validity } => {
                if !validity.is_valid(row) {
                    return Err(BadHeader::Missing);
                }
                Header::new(resend_count[row], prev[row], cur[row], seq[row])
            }
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
    /// The header of `row`, if it can be used.
    pub fn header(&self, row: usize) -> Option<Header> {
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
