//! The messages between processes that decide one poll: the plan and the receipts.
//!
//! One process has the inbox. It makes a [`ShardPlan`]. Other processes decide the messages of some
//! streams each, by the streams' rows in the shared store. They change nothing; each answers with a
//! [`ShardReceipt`]. The process with the inbox merges the receipts of the successful attempts, and
//! from then on the poll is like any other. Each receipt holds the row that it was decided from,
//! with its generation, so a decision from an older state is detected. A receipt that is never
//! merged has no effect.

use std::path::Path;

use super::row::Row;
use crate::io::bytes::{Decoder, Encoder};
use crate::protocols::delivery::codec::Encoded;
use crate::protocols::delivery::options::Options;
use crate::protocols::delivery::poll::StreamOutcome;
use crate::protocols::delivery::state::{ReceiverState, Volatile};
use crate::types::transaction::BatchRows;
use crate::{Error, Result};

const PLAN: u64 = 0x0001_4e41_4c50_4844;
const RECEIPT: u64 = 0x0002_5443_4552_4844;
const NONE: u64 = u64::MAX;

/// The plan by which a process decides some streams of a poll.
#[derive(Debug)]
pub(super) struct ShardPlan {
    pub(super) options: Options,
    pub(super) now: i64,
    /// The version of the stream table in the process that merges.
    pub(super) version: u64,
    /// The batch whose range in doubt is handed out again; 0 for none.
    pub(super) reopen: u64,
    /// Streams whose state is not only in their rows.
    pub(super) waiting: Vec<(String, Waiting)>,
}

/// The volatile state of a stream, which a crash may lose, without the messages themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) confirm_received: u64,
    pub(super) next: u64,
    pub(super) held: u64,
    pub(super) patience: Option<u32>,
    pub(super) stale_polls: u32,
    pub(super) future: bool,
    pub(super) outstanding: bool,
}

impl Waiting {
    pub(super) fn of(durable: &ReceiverState, volatile: &Volatile) -> Self {
        Self {
            confirm_received: durable.confirm_received,
            next: volatile.next,
            held: volatile.held_elsewhere,
            patience: volatile.patience,
            stale_polls: volatile.stale_polls,
            future: volatile.future,
            outstanding: volatile.outstanding,
        }
    }

    /// Without the held messages.
    pub(super) fn volatile(&self) -> Volatile {
        Volatile {
            next: self.next,
            held_elsewhere: self.held,
            patience: self.patience,
            stale_polls: self.stale_polls,
            future: self.future,
            outstanding: self.outstanding,
            ..Volatile::default()
        }
    }

    fn write(&self, to: &mut Encoder) {
        to.u64(self.confirm_received);
        to.u64(self.next);
        to.u64(self.held);
        to.u64(self.patience.map_or(NONE, u64::from));
        to.u64(u64::from(self.stale_polls));
        to.u64(u64::from(self.future) | u64::from(self.outstanding) << 1);
    }

    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let [confirm_received, next, held] = [from.u64()?, from.u64()?, from.u64()?];
        let patience = match from.u64()? {
            NONE => None,
            left => Some(u32::try_from(left).map_err(|_| from.corrupt("out of range"))?),
        };
        let stale_polls = u32::try_from(from.u64()?).map_err(|_| from.corrupt("out of range"))?;
        let flags = from.u64()?;
        let (future, outstanding) = (flags & 1 == 1, flags & 2 == 2);
        Ok(Self { confirm_received, next, held, patience, stale_polls, future, outstanding })
    }
}

impl ShardPlan {
    pub(super) fn encode(&self) -> Vec<u8> {
        let Options { patience, batch_mode, reset_patience, first_contact, held_limit } = self.options;
        let mut to = Encoder::new();
        to.u64(PLAN);
        to.u64(u64::from(patience));
        to.u64(u64::from(batch_mode) | u64::from(reset_patience) << 1 | u64::from(first_contact) << 2);
        to.u64(held_limit as u64);
        to.u64(self.now as u64);
        to.u64(self.version);
        to.u64(self.reopen);
        to.u64(self.waiting.len() as u64);
        for (stream, waiting) in &self.waiting {
            to.blob(stream.as_bytes());
            waiting.write(&mut to);
        }
        to.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).map_err(|_| foreign("plan of a delivery"))
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let mut from = Decoder::new(bytes, Path::new("plan"));
        marked(&mut from, PLAN)?;
        let patience = u32::try_from(from.u64()?).map_err(|_| from.corrupt("out of range"))?;
        let flags = from.u64()?;
        let [batch_mode, reset_patience, first_contact] = [1, 2, 4].map(|bit| flags & bit != 0);
        let held_limit = usize::try_from(from.u64()?).map_err(|_| from.corrupt("out of range"))?;
        let options = Options { patience, batch_mode, reset_patience, first_contact, held_limit };
        let (now, version, reopen) = (from.u64()? as i64, from.u64()?, from.u64()?);
        let mut waiting = Vec::new();
        for _ in 0..from.u64()? {
            waiting.push((text(&mut from)?, Waiting::read(&mut from)?));
        }
        from.finish()?;
        Ok(Self { options, now, version, reopen, waiting })
    }
}

/// The decision about one stream.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) stream: String,
    /// The epoch in which a new stream begins.
    pub(super) began_in: u64,
    /// The row that it was decided from.
    pub(super) found: Option<Row<ReceiverState>>,
    /// The state once the poll is committed; its `confirm_received` may be out of date.
    pub(super) after: ReceiverState,
    pub(super) waiting: Waiting,
    pub(super) resend: Option<(u64, u64)>,
}

/// The streams that one process has decided.
#[derive(Debug)]
pub(super) struct ShardReceipt {
    pub(super) version: u64,
    /// The messages of this poll, without those of earlier polls.
    pub(super) rows: BatchRows,
    pub(super) streams: Vec<Decided>,
}

impl Decided {
    pub(super) fn new(
        outcome: &StreamOutcome,
        found: Option<Row<ReceiverState>>,
        after: ReceiverState,
        volatile: &Volatile,
    ) -> Self {
        let waiting = Waiting { held: outcome.held, ..Waiting::of(&after, volatile) };
        Self { stream: outcome.stream.to_string(), began_in: 0, found, after, waiting, resend: outcome.resend }
    }

    fn write(&self, to: &mut Encoder) {
        to.blob(self.stream.as_bytes());
        to.u64(self.began_in);
        to.blob(&self.found.as_ref().map(Row::encode).unwrap_or_default());
        to.blob(&self.after.to_bytes());
        self.waiting.write(to);
        to.u64(u64::from(self.resend.is_some()));
        let (epoch, from) = self.resend.unwrap_or_default();
        to.u64(epoch);
        to.u64(from);
    }

    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let stream = text(from)?;
        let began_in = from.u64()?;
        let found = match from.blob()? {
            [] => None,
            row => Some(Row::decode(&stream, row)?),
        };
        let after = ReceiverState::decode(from.blob()?).map_err(|_| from.corrupt("out of range"))?;
        let waiting = Waiting::read(from)?;
        let is_resent = from.u64()? == 1;
        let resend = (from.u64()?, from.u64()?);
        Ok(Self { stream, began_in, found, after, waiting, resend: is_resent.then_some(resend) })
    }
}

impl ShardReceipt {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::new();
        to.u64(RECEIPT);
        to.u64(self.version);
        for number in self.rows.numbers() {
            to.u64(number);
        }
        to.u64(self.streams.len() as u64);
        for one in &self.streams {
            one.write(&mut to);
        }
        to.finish()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).map_err(|_| foreign("receipt of a delivery"))
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let mut from = Decoder::new(bytes, Path::new("receipt"));
        marked(&mut from, RECEIPT)?;
        let version = from.u64()?;
        let rows = BatchRows::of_numbers([from.u64()?, from.u64()?, from.u64()?]);
        let mut streams = Vec::new();
        for _ in 0..from.u64()? {
            streams.push(Decided::read(&mut from)?);
        }
        from.finish()?;
        Ok(Self { version, rows, streams })
    }
}

/// Data that travels between processes begins with a mark that names its kind and version.
fn marked(from: &mut Decoder<'_>, mark: u64) -> Result<()> {
    if from.u64()? == mark { Ok(()) } else { Err(from.corrupt("another mark")) }
}

fn text(from: &mut Decoder<'_>) -> Result<String> {
    let text = std::str::from_utf8(from.blob()?).map(str::to_owned);
    text.map_err(|_| from.corrupt("no UTF-8"))
}

fn foreign(what: &str) -> Error {
    Error::State(format!("these bytes are no {what} of this version of dochistory"))
}
