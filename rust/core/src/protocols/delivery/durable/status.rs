//! All streams of a history, as a table shows them: the receiving and the sending side under one
//! name.

use std::collections::BTreeMap;

use super::row::{RECEIVING, Row, SENDING, names_of, stream_of};
use super::store::Rows;
use crate::Result;
use crate::protocols::delivery::send::SenderState;
use crate::protocols::delivery::state::ReceiverState;

/// One stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The publisher whose log is sent; empty for a receiving side, and for a publisher without a
    /// name.
    pub publisher: String,
    /// The stream that is received, or the subscriber.
    pub stream: String,
    /// The receiving side.
    pub received: Option<ReceiverState>,
    /// The sending side.
    pub sent: Option<SenderState>,
}

/// All streams, by publisher and name. A receiving side and a sending side of the same name are in
/// one row.
pub fn status(received: &dyn Rows, sent: &dyn Rows) -> Result<Vec<Status>> {
    let mut streams: BTreeMap<(String, String), Status> = BTreeMap::new();
    let mut entry = |publisher: String, stream: String, fill: &dyn Fn(&mut Status)| {
        let new = Status { publisher: publisher.clone(), stream: stream.clone(), ..Status::default() };
        fill(streams.entry((publisher, stream)).or_insert(new));
    };
    for (key, value) in received.scan(RECEIVING)? {
        let stream = stream_of(&key)?;
        let state = Row::<ReceiverState>::decode(&stream, &value)?.state;
        entry(String::new(), stream, &|row| row.received = Some(state));
    }
    for (key, value) in sent.scan(SENDING)? {
        let (publisher, subscriber) = names_of(&key)?;
        let state = Row::<SenderState>::decode(&subscriber, &value)?.state;
        entry(publisher, subscriber, &|row| row.sent = Some(state));
    }
    Ok(streams.into_values().collect())
}
