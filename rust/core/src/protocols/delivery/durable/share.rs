//! A poll that several processes decide together: what travels to them, and what comes back.
//!
//! One process has the inbox. It makes a [`Plan`]; others decide the messages of some streams each,
//! by the streams' rows in the shared store, and change nothing: they answer a [`Receipt`]. Who has
//! the inbox gathers the receipts of the answers that count, and from there on it is a poll like
//! any other. Each receipt says which row it was decided from, generation and all, so what was
//! decided from an older state is found out. An answer that nobody gathers has never been.

use super::bytes::{Packed, Unpacked};
use super::row::Row;
use crate::Result;
use crate::protocols::delivery::codec::Encoded;
use crate::protocols::delivery::options::Options;
use crate::protocols::delivery::poll::StreamOutcome;
use crate::protocols::delivery::state::{ReceiverState, Volatile};
use crate::types::transaction::BatchRows;

const PLAN: u64 = 0x0001_4e41_4c50_4844;
const RECEIPT: u64 = 0x0002_5443_4552_4844;
const NONE: u64 = u64::MAX;

/// What a process has to know to decide some streams of a poll.
#[derive(Debug)]
pub(super) struct ShardPlan {
    pub(super) options: Options,
    pub(super) now: i64,
    /// The state of the table of who gathers.
    pub(super) version: u64,
    /// The batch whose range in doubt is handed out again; 0 for none.
    pub(super) reopen: u64,
    /// Streams of which more is known than their rows say.
    pub(super) waiting: Vec<(String, Waiting)>,
}

/// What a crash may take of a stream, beside the messages themselves.
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

    /// Without the messages that are held.
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

    fn write(&self, to: &mut Packed) {
        to.number(self.confirm_received);
        to.number(self.next);
        to.number(self.held);
        to.number(self.patience.map_or(NONE, u64::from));
        to.number(u64::from(self.stale_polls));
        to.number(u64::from(self.future) | u64::from(self.outstanding) << 1);
    }

    fn read(from: &mut Unpacked<'_>) -> Result<Self> {
        let [confirm_received, next, held] = [from.number()?, from.number()?, from.number()?];
        let patience = match from.number()? {
            NONE => None,
            left => Some(u32::try_from(left).map_err(|_| from.foreign())?),
        };
        let stale_polls = u32::try_from(from.number()?).map_err(|_| from.foreign())?;
        let flags = from.number()?;
        let (future, outstanding) = (flags & 1 == 1, flags & 2 == 2);
        Ok(Self { confirm_received, next, held, patience, stale_polls, future, outstanding })
    }
}

impl ShardPlan {
    pub(super) fn encode(&self) -> Vec<u8> {
        let Options { patience, batch_mode, reset_patience, first_contact, held_limit } = self.options;
        let mut to = Packed::default();
        to.number(PLAN);
        to.number(u64::from(patience));
        to.number(u64::from(batch_mode) | u64::from(reset_patience) << 1 | u64::from(first_contact) << 2);
        to.number(held_limit as u64);
        to.number(self.now as u64);
        to.number(self.version);
        to.number(self.reopen);
        to.number(self.waiting.len() as u64);
        for (stream, waiting) in &self.waiting {
            to.bytes(stream.as_bytes());
            waiting.write(&mut to);
        }
        to.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = Unpacked::new("plan of a delivery", PLAN, bytes)?;
        let patience = u32::try_from(from.number()?).map_err(|_| from.foreign())?;
        let flags = from.number()?;
        let [batch_mode, reset_patience, first_contact] = [1, 2, 4].map(|bit| flags & bit != 0);
        let held_limit = usize::try_from(from.number()?).map_err(|_| from.foreign())?;
        let options = Options { patience, batch_mode, reset_patience, first_contact, held_limit };
        let (now, version, reopen) = (from.number()? as i64, from.number()?, from.number()?);
        let mut waiting = Vec::new();
        for _ in 0..from.number()? {
            waiting.push((from.text()?.to_owned(), Waiting::read(&mut from)?));
        }
        from.end()?;
        Ok(Self { options, now, version, reopen, waiting })
    }
}

/// What was decided about one stream.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) stream: String,
    /// The epoch in which a stream begins that is not known yet.
    pub(super) began_in: u64,
    /// The row that it was decided from.
    pub(super) found: Option<Row<ReceiverState>>,
    /// Once the poll is committed; `confirm_received` is not to be relied on.
    pub(super) after: ReceiverState,
    pub(super) waiting: Waiting,
    pub(super) resend: Option<(u64, u64)>,
}

/// The streams that one process has decided.
#[derive(Debug)]
pub(super) struct ShardReceipt {
    pub(super) version: u64,
    /// The messages that arrived, without those of earlier polls.
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

    fn write(&self, to: &mut Packed) {
        to.bytes(self.stream.as_bytes());
        to.number(self.began_in);
        to.bytes(&self.found.as_ref().map(Row::encode).unwrap_or_default());
        to.bytes(&self.after.to_bytes());
        self.waiting.write(to);
        to.number(u64::from(self.resend.is_some()));
        let (epoch, from) = self.resend.unwrap_or_default();
        to.number(epoch);
        to.number(from);
    }

    fn read(from: &mut Unpacked<'_>) -> Result<Self> {
        let stream = from.text()?.to_owned();
        let began_in = from.number()?;
        let found = match from.bytes()? {
            [] => None,
            row => Some(Row::decode(&stream, row)?),
        };
        let after = ReceiverState::decode(from.bytes()?).map_err(|_| from.foreign())?;
        let waiting = Waiting::read(from)?;
        let is_resent = from.number()? == 1;
        let resend = (from.number()?, from.number()?);
        Ok(Self { stream, began_in, found, after, waiting, resend: is_resent.then_some(resend) })
    }
}

impl ShardReceipt {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Packed::default();
        to.number(RECEIPT);
        to.number(self.version);
        for number in self.rows.numbers() {
            to.number(number);
        }
        to.number(self.streams.len() as u64);
        for one in &self.streams {
            one.write(&mut to);
        }
        to.0
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = Unpacked::new("receipt of a delivery", RECEIPT, bytes)?;
        let version = from.number()?;
        let rows = BatchRows::of_numbers([from.number()?, from.number()?, from.number()?]);
        let mut streams = Vec::new();
        for _ in 0..from.number()? {
            streams.push(Decided::read(&mut from)?);
        }
        from.end()?;
        Ok(Self { version, rows, streams })
    }
}
