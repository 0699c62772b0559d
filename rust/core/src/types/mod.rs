//! Plain data used by many modules: keys of a batch, states of an entry, transactions.

pub(crate) mod duration;
mod keys;
mod places;
mod state;
pub(crate) mod transaction;
pub(crate) mod words;

pub(crate) use keys::FrameKeys;
pub(crate) use places::Places;
pub use state::{Ending, HistoryState};
pub(crate) use transaction::TransactionEntry;
pub use words::Kind;
pub(crate) use words::word_setting;
