//! What the rules decide about a batch.

use super::outcome::Outcome;
use super::reason::Reason;

/// A row that waits for the resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// Its number.
    pub row: u32,
    /// The rule that left it undecided.
    pub reason: Reason,
}

/// The decisions for a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// One outcome a row. An undecided row has its outcome for step S7 (in doubt) until the
    /// resolver's answer is applied.
    pub outcomes: Vec<Outcome>,
    /// The rows to ask the resolver about, in rising order.
    pub undecided: Vec<Undecided>,
}

/// Rows that are searched at once for undecided or suspended ones: few, because one in a thousand
/// is usual.
pub(super) const SEARCH_ROWS: usize = 128;
