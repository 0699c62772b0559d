//! Streams whose last state is lost in a damaged file. A repair leaves them in doubt, so that
//! nothing is applied to them before somebody says how far they were.

use super::row::{RECEIVING, Row};
use crate::protocols::delivery::state::ReceiverState;

/// Distance that no generation of a lost row has to the remaining row.
const MANY: u64 = 1 << 32;

/// The row to put for a key whose last row is lost; `old` is an earlier one, if any remains. None
/// where nothing has to be done: a sending side that goes back resends messages that the receiving
/// sides know, and they apply them once.
pub(crate) fn in_doubt(key: &[u8], old: Option<&[u8]>) -> Option<Vec<u8>> {
    if !key.starts_with(RECEIVING.as_bytes()) {
        return None;
    }
    let old = old.and_then(|bytes| Row::<ReceiverState>::decode("a row", bytes).ok());
    let before = old.map_or(ReceiverState::starting_at(0), |row| row.state);
    let state = ReceiverState { applying_upto: u64::MAX, ..before };
    let row = Row { state, generation: old.map_or(0, |row| row.generation) + MANY, transaction: 0 };
    Some(row.encode())
}
