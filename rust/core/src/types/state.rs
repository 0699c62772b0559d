//! The state of an entry, and how a claim ended.

/// The state of a key in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HistoryState {
    /// No entry counts: the key was never begun, was released, or has expired.
    Absent = 0,
    /// The service began and has not ended.
    Processing = 1,
    /// The service ended, whether in success or failure.
    Completed = 2,
    /// The history cannot be read.
    Unavailable = 3,
}

impl HistoryState {
    /// Every state, in the order of its code.
    pub const ALL: [Self; 4] = [Self::Absent, Self::Processing, Self::Completed, Self::Unavailable];
}

/// How a whole claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Ending {
    /// Its work was undone.
    Released = 1,
    /// Its work is done.
    Completed = 2,
}

impl Ending {
    pub(crate) fn from_u8(value: u8) -> Option<Self> {
        [Self::Released, Self::Completed].into_iter().find(|ending| *ending as u8 == value)
    }
}
