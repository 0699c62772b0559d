//! The receiving side of streams, kept in a store.
//!
//! A poll that applies messages is recorded before it is handed out (`applying_upto`), unless the
//! caller keeps `log_received` in one transaction with its data. After a crash the recorded range
//! is in doubt. Each row carries a generation. A row that this side did not write ends the
//! operation, so of several receivers of one stream exactly one continues.
//!
//! Held and buffered messages, and the wait for missing ones, are in memory only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::reading::{load, overtaken_error};
use super::row::{Row, exchange, receiving_key};
use super::store::{Exchange, Rows};
use super::transaction::DeliveryBatch;
use crate::protocols::delivery::columns::HeaderColumns;
use crate::protocols::delivery::options::Options;
use crate::protocols::delivery::poll::{Change, Poll};
use crate::protocols::delivery::receive::receive_on;
use crate::protocols::delivery::state::ReceiverState;
use crate::protocols::delivery::table::StreamTable;
use crate::types::transaction::{Meaning, Replay, Replays};
use crate::{Error, Result, Transaction};

/// How streams are received.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How to wait for what is missing.
    pub options: Options,
    /// The caller keeps `log_received` in one transaction with its data, and passes it on open.
    pub own_transaction: bool,
    /// This stream alone; all streams, if none.
    pub only: Option<String>,
}

/// What the caller knows of streams when it opens them: names and offsets.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// The start of streams that are not known yet.
    pub starts: Vec<(String, u64)>,
    /// The applied offset of each stream, according to the caller's own data.
    pub applied: Vec<(String, u64)>,
}

/// The parameters of one poll.
#[derive(Clone, Debug)]
pub struct Receiving<'a> {
    /// The messages.
    pub columns: &'a HeaderColumns<'a>,
    /// In microseconds since 1970.
    pub now: i64,
    /// Threads to use.
    pub threads: usize,
    /// The batch that this poll is.
    pub transaction: Option<&'a Transaction>,
    /// What to do with a number that comes again.
    pub replays: Replays,
}

/// A poll that was handed out: to be committed, or aborted if nothing of it was applied.
#[derive(Debug)]
pub struct Taken {
    /// The decisions.
    pub poll: Poll,
    /// Whether its batch was known; none without one.
    pub replay: Option<Replay>,
    pub(super) ticket: u64,
    /// Whether what it applies was recorded.
    pub(super) is_recorded: bool,
    /// The rows of [`Poll::changes`] as they stand in the store.
    pub(super) rows: Vec<Option<Row<ReceiverState>>>,
    pub(super) batch: Option<DeliveryBatch>,
}

/// The receiving side of one stream or of many.
#[derive(Debug)]
pub struct Inbox {
    pub(super) store: Arc<dyn Rows>,
    pub(super) settings: Settings,
    pub(super) inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) table: StreamTable,
    /// The row of each stream of the table, by its number there.
    pub(super) rows: Vec<Row<ReceiverState>>,
    /// The poll that is recorded and neither committed nor aborted.
    pub(super) open_poll: Option<u64>,
    polls: u64,
}

impl Inbox {
    /// Reads the streams' rows, starts new streams, and settles streams by the offsets that the
    /// caller gives.
    pub fn open(store: Arc<dyn Rows>, settings: Settings, opening: &Opening) -> Result<Self> {
        let mut inner = Inner { table: StreamTable::new(), rows: Vec::new(), open_poll: None, polls: 0 };
        for (stream, row) in load(&*store, settings.only.as_deref())? {
            inner.table.insert(&stream, row.state)?;
            inner.rows.push(row);
        }
        let inbox = Self { store, settings, inner: Mutex::new(inner) };
        let mut changes = inbox.lock().settle_all(&opening.applied, inbox.settings.own_transaction)?;
        changes.extend(inbox.lock().start_all(&opening.starts)?);
        if !changes.is_empty() {
            inbox.exchange(&changes)?;
        }
        Ok(inbox)
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Each stream's name and state, as of the last commit.
    pub fn states(&self) -> Vec<(String, ReceiverState)> {
        self.lock().table.iter().map(|(name, state)| (name.to_owned(), *state)).collect()
    }

    /// Decides a poll, and records what is about to be applied: durable on return. Confirmations
    /// and requests may only be sent after [`Inbox::commit`].
    pub fn receive(&self, how: &Receiving<'_>) -> Result<Taken> {
        let mut inner = self.lock();
        inner.check_ready()?;
        if inner.table.all().any(|(_, _, volatile)| volatile.held_elsewhere > 0) {
            return Err(Error::State("other processes hold messages of this delivery: they decide its polls".into()));
        }
        let batch = how.transaction.map(|transaction| DeliveryBatch::look_up(&*self.store, transaction)).transpose()?;
        let mark = batch.as_ref().map(|batch| batch.reopens(how.replays)).transpose()?;
        let known = batch.map(|batch| batch.of(how.columns.batch_rows(), how.replays)).transpose()?;
        let (batch, meaning) = known.unzip();
        let replay = meaning.map(Meaning::replay);
        let reopened = mark.filter(|mark| *mark != 0).map(|mark| inner.reopen(mark)).unwrap_or_default();
        let taken = self.decide(&mut inner, how, batch, &reopened);
        if taken.is_err() {
            inner.table.mark_in_doubt(&reopened);
        }
        Ok(inner.hand_out(taken?, replay))
    }

    /// Decides, decides again without the streams that a rerun would not bring to where they were,
    /// and records the result.
    fn decide(
        &self,
        inner: &mut Inner,
        how: &Receiving<'_>,
        batch: Option<DeliveryBatch>,
        reopened: &[(u32, u64)],
    ) -> Result<Recorded> {
        let receive =
            |table: &StreamTable| receive_on(how.threads, table, how.columns, &self.settings.options, how.now);
        let poll = decide_again(&mut inner.table, reopened, receive)?;
        self.record(inner, poll, batch)
    }

    /// Records what a poll is about to apply: durable on return.
    pub(super) fn record(&self, inner: &Inner, poll: Poll, batch: Option<DeliveryBatch>) -> Result<Recorded> {
        let mut rows: Vec<_> = poll.changes.iter().map(|change| inner.row_of(&poll, change)).collect();
        let applies = |change: &Change| change.after.log_received > change.applying.log_received;
        if self.settings.own_transaction || !poll.changes.iter().any(applies) {
            return Ok(Recorded { poll, rows, is_recorded: false, batch });
        }
        let mark = batch.as_ref().map_or(0, |batch| batch.mark);
        let mut changes = Vec::new();
        for (row, change) in rows.iter_mut().zip(&poll.changes).filter(|(_, change)| applies(change)) {
            let new = Row::after(row.as_ref(), change.applying, mark);
            changes.push(exchange(
                receiving_key(&poll.streams[change.stream as usize].stream),
                row.as_ref(),
                Some(&new),
            ));
            *row = Some(new);
        }
        let batch = batch.map(|batch| {
            let (change, noted) = batch.note(None);
            changes.push(change);
            noted
        });
        self.exchange(&changes)?;
        Ok(Recorded { poll, rows, is_recorded: true, batch })
    }

    /// Says how far a stream was applied whose range is in doubt. Durable on return.
    pub fn settle(&self, stream: &str, log_received: u64) -> Result<()> {
        let mut inner = self.lock();
        if inner.open_poll.is_some() {
            return Err(Error::State(
                "a poll is handed out: commit it, or abort it, before anything is settled".into(),
            ));
        }
        let state = inner.table.settled(stream, log_received)?;
        let id = inner.table.find(stream).map_or(0, |id| id as usize);
        let new = Row::after(Some(&inner.rows[id]), state, 0);
        self.exchange(&[exchange(receiving_key(stream), Some(&inner.rows[id]), Some(&new))])?;
        inner.rows[id] = new;
        inner.table.settle(stream, log_received).map(drop)
    }

    /// Changes rows; an error says which stream another process has moved.
    pub(super) fn exchange(&self, changes: &[Exchange]) -> Result<()> {
        self.store.exchange(changes)?.map_err(|overtaken| overtaken_error(changes, &overtaken))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides, and decides again without the reopened streams that would not end where they ended
/// before.
pub(super) fn decide_again(
    table: &mut StreamTable,
    reopened: &[(u32, u64)],
    receive: impl Fn(&StreamTable) -> Result<Poll>,
) -> Result<Poll> {
    let poll = receive(table)?;
    let ends = if reopened.is_empty() { HashMap::new() } else { poll.ends() };
    let astray: Vec<_> = reopened.iter().copied().filter(|(id, upto)| ends.get(id) != Some(upto)).collect();
    if astray.is_empty() {
        return Ok(poll);
    }
    table.mark_in_doubt(&astray);
    receive(table)
}

/// A poll whose beginning is on disk, if it applies anything.
pub(super) struct Recorded {
    poll: Poll,
    rows: Vec<Option<Row<ReceiverState>>>,
    is_recorded: bool,
    batch: Option<DeliveryBatch>,
}

impl Inner {
    /// Whether another poll may begin.
    pub(super) fn check_ready(&self) -> Result<()> {
        if self.open_poll.is_none() {
            return Ok(());
        }
        Err(Error::State(
            "an earlier poll was handed out and may have been applied: commit it, abort it if nothing of it was applied, \
             or open the delivery again, which makes it in doubt"
                .into(),
        ))
    }

    pub(super) fn hand_out(&mut self, recorded: Recorded, replay: Option<Replay>) -> Taken {
        let Recorded { poll, rows, is_recorded, batch } = recorded;
        self.polls += 1;
        let ticket = self.polls;
        self.open_poll = is_recorded.then_some(ticket);
        Taken { poll, replay, ticket, is_recorded, rows, batch }
    }

    /// The row of a changed stream; none for one that this poll adds.
    fn row_of(&self, poll: &Poll, change: &Change) -> Option<Row<ReceiverState>> {
        poll.pending[change.stream as usize].known.map(|id| self.rows[id as usize])
    }

    /// Takes the streams that the batch with this mark left in doubt as not begun. Answers which
    /// these are, and how far they may have been applied.
    fn reopen(&mut self, mark: u64) -> Vec<(u32, u64)> {
        let doubtful = |row: &Row<ReceiverState>| row.transaction == mark && row.state.in_doubt().is_some();
        let found = self.rows.iter().enumerate().filter(|(_, row)| doubtful(row));
        let reopened: Vec<_> = found.map(|(id, row)| (id as u32, row.state.applying_upto)).collect();
        self.table.reopen(&reopened);
        reopened
    }

    fn settle_all(&mut self, applied: &[(String, u64)], own_transaction: bool) -> Result<Vec<Exchange>> {
        let mut changes = Vec::new();
        let mut unknown = Vec::new();
        for (stream, upto) in applied {
            let Some(id) = self.table.find(stream) else {
                unknown.push((stream.clone(), *upto));
                continue;
            };
            let id = id as usize;
            let before = self.rows[id].state;
            if before.log_received == *upto && before.in_doubt().is_none() {
                continue;
            }
            let state = if own_transaction && *upto > before.applying_upto {
                // The caller's transaction ended, but the process died before the commit here.
                ReceiverState { log_received: *upto, applying_upto: *upto, ..before }
            } else {
                self.table.settled(stream, *upto)?
            };
            let new = Row::after(Some(&self.rows[id]), state, 0);
            changes.push(exchange(receiving_key(stream), Some(&self.rows[id]), Some(&new)));
            self.rows[id] = new;
            self.table.replace(id as u32, state);
        }
        changes.extend(self.start_all(&unknown)?);
        Ok(changes)
    }

    /// Known streams stay as they are.
    fn start_all(&mut self, starts: &[(String, u64)]) -> Result<Vec<Exchange>> {
        let mut changes = Vec::new();
        for (stream, offset) in starts {
            if self.table.find(stream).is_some() {
                continue;
            }
            let row = Row::after(None, ReceiverState::starting_at(*offset), 0);
            changes.push(exchange(receiving_key(stream), None, Some(&row)));
            self.table.insert(stream, row.state)?;
            self.rows.push(row);
        }
        Ok(changes)
    }
}

/// Which streams the caller names, for the binding's checks.
impl Opening {
    /// Offsets by stream.
    pub fn new(starts: HashMap<String, u64>, applied: HashMap<String, u64>) -> Self {
        let sorted = |offsets: HashMap<String, u64>| {
            let mut offsets: Vec<_> = offsets.into_iter().collect();
            offsets.sort();
            offsets
        };
        Self { starts: sorted(starts), applied: sorted(applied) }
    }
}
