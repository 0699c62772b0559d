//! The shard of a poll that one of several processes decides.

use std::collections::{HashMap, HashSet};

use super::inbox::decide_again;
use super::row::{Row, receiving_key};
use super::share::{Decided, ShardPlan, ShardReceipt, Waiting};
use super::store::Rows;
use crate::protocols::delivery::columns::{HeaderColumns, NO_STREAM};
use crate::protocols::delivery::decision::Reason;
use crate::protocols::delivery::held::{Message, Runs};
use crate::protocols::delivery::order::Place;
use crate::protocols::delivery::poll::{NOT_APPLIED, Poll};
use crate::protocols::delivery::receive::receive;
use crate::protocols::delivery::state::{ReceiverState, Volatile};
use crate::protocols::delivery::table::StreamTable;
use crate::types::transaction::BatchRows;
use crate::{Error, Result};

/// The decisions about the messages of some streams. They have no effect before their receipt is
/// merged.
#[derive(Debug)]
pub struct Portion {
    /// One a message, those of earlier polls included.
    pub reasons: Vec<Reason>,
    /// `prev` of each message.
    pub transactions: Vec<u64>,
    /// The place in the order of application within the stream, or [`NOT_APPLIED`].
    pub apply_ranks: Vec<u32>,
    /// Where each applied message leaves its stream once its transaction is complete.
    pub commits: Vec<u64>,
    /// Whether the message has to be handed in again with the next poll, as one of an earlier poll.
    pub keep: Vec<bool>,
    /// For [`Inbox::gather`](super::Inbox::gather).
    pub receipt: Vec<u8>,
}

/// Decides all messages of some streams: those of the poll, and those kept from earlier polls,
/// which `kept` marks. Reads the streams' rows in `store`, and changes nothing there.
pub fn decide_portion(store: &dyn Rows, plan: &[u8], columns: &HeaderColumns<'_>, kept: &[bool]) -> Result<Portion> {
    let plan = ShardPlan::decode(plan)?;
    columns.check()?;
    if kept.len() != columns.streams.len() {
        return Err(Error::Schema(format!(
            "{} rows, and {} say whether they were kept",
            columns.streams.len(),
            kept.len()
        )));
    }
    let mut streams = columns.streams.to_vec();
    let mut returned = Returned::default();
    for row in (0..streams.len()).filter(|&row| kept[row]) {
        let name = std::mem::replace(&mut streams[row], NO_STREAM);
        let header = columns.header(row).filter(|_| name != NO_STREAM);
        let header =
            header.ok_or_else(|| Error::State(format!("row {row} was kept, and has no header or no stream")))?;
        let message = Message { prev: header.prev, cur: header.cur, seq: header.seq };
        returned.add(columns.names[name as usize], message, row as u32)?;
    }
    let (mut table, rows) = load(store, &plan, &named(columns), &returned)?;
    let of_mark = |row: &Row<ReceiverState>| plan.reopen != 0 && row.transaction == plan.reopen;
    let reopened: Vec<(u32, u64)> = (0..)
        .zip(&rows)
        .filter(|(_, row)| of_mark(row) && row.state.in_doubt().is_some())
        .map(|(id, row)| (id, row.state.applying_upto))
        .collect();
    table.reopen(&reopened);
    let arrived = HeaderColumns { streams: &streams, names: columns.names, headers: columns.headers.clone() };
    let poll = decide_again(&mut table, &reopened, |table| receive(table, &arrived, &plan.options, plan.now))?;
    let decided = poll.streams.iter().zip(&poll.pending).map(|(outcome, pending)| {
        let found = pending.known.map(|id| rows[id as usize]);
        Decided::new(outcome, found, pending.durable, &pending.volatile)
    });
    let mut decided: Vec<Decided> = decided.collect();
    for change in &poll.changes {
        decided[change.stream as usize].began_in = change.applying.rereceive_count;
    }
    let mut rows = BatchRows::default();
    (0..kept.len()).filter(|&row| !kept[row]).for_each(|row| columns.add_row(row, &mut rows));
    let receipt = ShardReceipt { version: plan.version, rows, streams: decided }.encode();
    Ok(whole(&poll, &arrived, &returned, kept, receipt))
}

/// Messages and their rows by `prev` and `seq`.
type ByPlace = HashMap<(u64, u32), (Message, u32)>;

/// The messages of earlier polls that came back.
#[derive(Debug, Default)]
struct Returned<'a> {
    of_stream: HashMap<&'a str, ByPlace>,
}

impl<'a> Returned<'a> {
    fn add(&mut self, stream: &'a str, message: Message, row: u32) -> Result<()> {
        match self.of_stream.entry(stream).or_default().insert(message.key(), (message, row)) {
            None => Ok(()),
            Some(_) => Err(Error::State(format!("stream {stream:?}: {:?} was kept twice", message.key()))),
        }
    }

    fn row(&self, stream: &str, prev: u64, seq: u32) -> Option<usize> {
        self.of_stream.get(stream)?.get(&(prev, seq)).map(|(_, row)| *row as usize)
    }

    /// The volatile state that the stream waits with: its held messages, without the buffered ones.
    fn volatile(&self, stream: &str, durable: &ReceiverState, waiting: Option<&Waiting>) -> Result<Volatile> {
        let mut volatile = waiting.map_or_else(|| Volatile::after_start(durable), Waiting::volatile);
        let is_buffered = |one: &Message| one.prev == durable.log_received && u64::from(one.seq) < volatile.next;
        let all = self.of_stream.get(stream).into_iter().flat_map(HashMap::values).map(|(message, _)| *message);
        let (buffered, mut held): (Vec<_>, Vec<_>) = all.partition(is_buffered);
        if (buffered.len() as u64, held.len() as u64) != (volatile.next, volatile.held_elsewhere) {
            return Err(Error::State(format!(
                "stream {stream:?} waits with {} held messages and {} parts, and {} and {} came back",
                volatile.held_elsewhere,
                volatile.next,
                held.len(),
                buffered.len()
            )));
        }
        held.sort_unstable_by_key(Message::key);
        volatile.held = Runs::default();
        volatile.held.add(held);
        Ok(volatile)
    }
}

/// The streams that have messages, each once.
fn named<'a>(columns: &HeaderColumns<'a>) -> Vec<&'a str> {
    let mut is_used = vec![false; columns.names.len()];
    for &name in columns.streams.iter().filter(|&&name| name != NO_STREAM) {
        is_used[name as usize] = true;
    }
    let mut seen = HashSet::new();
    let used = columns.names.iter().zip(is_used).filter(|(_, is_used)| *is_used).map(|(name, _)| *name);
    used.filter(|name| seen.insert(*name)).collect()
}

/// The rows of the streams, and what the plan knows beyond them.
fn load(
    store: &dyn Rows,
    plan: &ShardPlan,
    names: &[&str],
    returned: &Returned<'_>,
) -> Result<(StreamTable, Vec<Row<ReceiverState>>)> {
    let waiting: HashMap<&str, &Waiting> = plan.waiting.iter().map(|(name, one)| (name.as_str(), one)).collect();
    let keys: Vec<String> = names.iter().map(|name| receiving_key(name)).collect();
    let mut table = StreamTable::new();
    let mut rows = Vec::new();
    for (&name, value) in names.iter().zip(store.get_all(&keys)?) {
        let Some(value) = value else { continue };
        let row = Row::<ReceiverState>::decode(name, &value)?;
        let waiting = waiting.get(name).copied();
        let confirm_received = waiting.map_or(row.state.confirm_received, |one| one.confirm_received);
        let durable = ReceiverState { confirm_received: confirm_received.min(row.state.log_received), ..row.state };
        let volatile = returned.volatile(name, &durable, waiting)?;
        table.insert_waiting(name, durable, volatile)?;
        rows.push(row);
    }
    Ok((table, rows))
}

/// One answer for every row, those that were kept included.
fn whole(
    poll: &Poll,
    columns: &HeaderColumns<'_>,
    returned: &Returned<'_>,
    kept: &[bool],
    receipt: Vec<u8>,
) -> Portion {
    let of = |stream: u32, prev, seq| returned.row(&poll.streams[stream as usize].stream, prev, seq);
    let order = poll.in_order(columns);
    let mut reasons = poll.rows.reasons.clone();
    let mut keep: Vec<bool> = (0..reasons.len()).map(|row| poll.rows.is_kept(row)).collect();
    let (mut transactions, mut apply_ranks) = (poll.rows.transactions.clone(), poll.rows.apply_ranks.clone());
    for row in (0..kept.len()).filter(|&row| kept[row]) {
        (reasons[row], keep[row]) = (Reason::Held, true);
        transactions[row] = columns.header(row).map_or(0, |header| header.prev);
        apply_ranks[row] = NOT_APPLIED;
    }
    for row in poll.dropped.iter().filter_map(|one| of(one.stream, one.prev, one.seq)) {
        (reasons[row], keep[row]) = (Reason::HeldDropped, false);
    }
    let mut commits = vec![0; reasons.len()];
    for one in &order {
        let row = match one.place {
            Place::Row(row) => Some(row as usize),
            Place::Released(at) => {
                let released = &poll.released[at as usize];
                of(released.stream, released.prev, released.seq)
            }
        };
        let Some(row) = row else { continue };
        (apply_ranks[row], commits[row], keep[row]) = (one.apply_rank, one.commit, false);
        if kept[row] {
            reasons[row] = Reason::HeldApplied;
        }
    }
    Portion { reasons, transactions, apply_ranks, commits, keep, receipt }
}
