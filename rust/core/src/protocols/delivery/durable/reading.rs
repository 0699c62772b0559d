//! The rows of the receiving sides in the store, and the error for a row that another process
//! changed.

use super::row::{RECEIVING, Row, receiving_key, stream_of};
use super::store::{Exchange, Overtaken, Rows};
use crate::protocols::delivery::state::ReceiverState;
use crate::{Error, Result};

/// The rows of one stream, or of all.
pub(super) fn load(store: &dyn Rows, only: Option<&str>) -> Result<Vec<(String, Row<ReceiverState>)>> {
    let found = match only {
        None => store.scan(RECEIVING)?,
        Some(stream) => {
            let key = receiving_key(stream);
            store.get(&key)?.map(|value| (key, value)).into_iter().collect()
        }
    };
    let decoded = found.iter().map(|(key, value)| {
        let stream = stream_of(key)?;
        let row = Row::decode(&stream, value)?;
        Ok((stream, row))
    });
    decoded.collect()
}

/// The error for a row that is not as expected.
pub(super) fn overtaken_error(changes: &[Exchange], overtaken: &Overtaken) -> Error {
    let change = &changes[overtaken.at];
    let Ok(stream) = stream_of(&change.key) else {
        return Error::Overtaken(format!(
            "another process has handed out a batch of the same application meanwhile ({})",
            change.key
        ));
    };
    let read = |bytes: &Option<Vec<u8>>| {
        let row = bytes.as_ref().and_then(|bytes| Row::<ReceiverState>::decode(&stream, bytes).ok());
        row.map_or("not there".to_owned(), |row| {
            format!("log_received {}, applying_upto {}", row.state.log_received, row.state.applying_upto)
        })
    };
    Error::Overtaken(format!(
        "another receiver has moved stream {stream:?}: it was {} when this one read it, and is {}; only one may receive a \
         stream at a time, and nothing of this call was recorded; stop one of them, and open the delivery again",
        read(&change.expected),
        read(&overtaken.found)
    ))
}
