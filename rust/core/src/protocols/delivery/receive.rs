//! One poll over many streams.

mod shared;

use std::sync::Arc;

use super::columns::HeaderColumns;
use super::decision::Reason;
use super::group::{Arrival, Group, group};
use super::header::MAX_JOINED_EPOCH;
use super::options::Options;
use super::poll::{Change, NOT_APPLIED, Pending, Poll, Rows, StreamOutcome};
use super::state::{ReceiverState, Volatile};
use super::stream::{Given, Outputs, Workspace};
use super::table::StreamTable;
use crate::error::{Error, Result};

/// Decides one poll: every message of `columns` in the order of arrival, each stream on its own,
/// then the end of the poll for each stream that had messages or waits for some. `now` is in
/// microseconds since 1970 UTC.
///
/// Nothing changes before [`StreamTable::commit`].
pub fn receive(table: &StreamTable, columns: &HeaderColumns<'_>, options: &Options, now: i64) -> Result<Poll> {
    receive_on(1, table, columns, options, now)
}

/// [`receive`] on several threads, which divide the streams; the outcome is the same.
pub fn receive_on(
    threads: usize,
    table: &StreamTable,
    columns: &HeaderColumns<'_>,
    options: &Options,
    now: i64,
) -> Result<Poll> {
    columns.check()?;
    if options.held_limit == 0 {
        return Err(Error::Config(
            "held_limit must be at least 1: the lowest held message shows what is missing".into(),
        ));
    }
    let mut grouped = group(columns, table);
    let mut had_messages = vec![false; table.len()];
    for id in grouped.groups.iter().filter_map(|one| one.known) {
        had_messages[id as usize] = true;
    }
    let transactions = std::mem::take(&mut grouped.transactions);
    let mut pass = if threads > 1 && grouped.groups.len() > 1 {
        shared::run(threads, table, columns, options, now, grouped)
    } else {
        let mut pass = Pass::new(table, options, now, grouped.reasons);
        for one in &grouped.groups {
            pass.group(one, columns.names[one.name as usize], &grouped.arrivals[one.start..one.end]);
        }
        pass
    };
    for id in table.attention().filter(|&id| !had_messages[id as usize]) {
        pass.known(id, &[]);
    }
    Ok(pass.into_poll(transactions))
}

/// The end of a poll without messages for these streams of the table.
pub(super) fn receive_nothing(table: &StreamTable, streams: &[u32], options: &Options, now: i64) -> Poll {
    let mut pass = Pass::new(table, options, now, Vec::new());
    for &id in streams {
        pass.known(id, &[]);
    }
    pass.into_poll(Vec::new())
}

struct Pass<'p> {
    table: &'p StreamTable,
    options: &'p Options,
    now: i64,
    streams: Vec<StreamOutcome>,
    pending: Vec<Pending>,
    changes: Vec<Change>,
    outputs: Outputs,
    workspace: Workspace,
}

impl<'p> Pass<'p> {
    fn new(table: &'p StreamTable, options: &'p Options, now: i64, reasons: Vec<Reason>) -> Self {
        let apply_ranks = vec![NOT_APPLIED; reasons.len()];
        Self {
            table,
            options,
            now,
            streams: Vec::new(),
            pending: Vec::new(),
            changes: Vec::new(),
            outputs: Outputs { reasons, apply_ranks, released: Vec::new(), dropped: Vec::new() },
            workspace: Workspace::default(),
        }
    }

    fn into_poll(self, transactions: Vec<u64>) -> Poll {
        Poll {
            rows: Rows { reasons: self.outputs.reasons, transactions, apply_ranks: self.outputs.apply_ranks },
            streams: self.streams,
            released: self.outputs.released,
            dropped: self.outputs.dropped,
            changes: self.changes,
            pending: self.pending,
            version: self.table.version(),
        }
    }

    fn group(&mut self, group: &Group, name: &str, arrivals: &[Arrival]) {
        match group.known {
            Some(id) => self.known(id, arrivals),
            None if self.options.first_contact => self.first_contact(name, arrivals),
            // Their reason says so already.
            None => {}
        }
    }

    fn known(&mut self, id: u32, arrivals: &[Arrival]) {
        let (name, durable, volatile) = self.table.stream(id);
        let (durable, volatile) = (*durable, volatile.clone());
        self.stream(Arc::clone(name), Some(id), durable, volatile, arrivals);
    }

    /// The stream starts at the lowest whole message or first part, in the epoch of that message.
    fn first_contact(&mut self, name: &str, arrivals: &[Arrival]) {
        let is_sound = |arrival: &&Arrival| arrival.seq == 0 && arrival.resend_count <= MAX_JOINED_EPOCH;
        let starts = arrivals.iter().filter(is_sound);
        let Some(lowest) = starts.min_by_key(|arrival| (arrival.prev, std::cmp::Reverse(arrival.resend_count))) else {
            debug_assert!(arrivals.iter().all(|a| self.outputs.reasons[a.row as usize] == Reason::UnknownStream));
            return;
        };
        let durable = ReceiverState { rereceive_count: lowest.resend_count, ..ReceiverState::starting_at(lowest.prev) };
        self.stream(name.into(), None, durable, Volatile::after_start(&durable), arrivals);
    }

    fn stream(
        &mut self,
        name: Arc<str>,
        known: Option<u32>,
        durable: ReceiverState,
        volatile: Volatile,
        arrivals: &[Arrival],
    ) {
        let stream = self.streams.len() as u32;
        let given = Given { stream, options: self.options, now: self.now, arrivals };
        let done = self.workspace.run(&given, durable, volatile, &mut self.outputs);
        let after = done.durable;
        if after != durable || known.is_none() {
            let applying = ReceiverState { applying_upto: after.applying_upto, ..durable };
            self.changes.push(Change { stream, applying, after });
        }
        self.streams.push(StreamOutcome {
            stream: name,
            log_received: after.log_received,
            rereceive_count: after.rereceive_count,
            confirm: (after.log_received > after.confirm_received).then_some(after.log_received),
            resend: done.resend,
            patience: done.volatile.patience,
            held: done.volatile.held.len() as u64,
            buffered_parts: done.volatile.next,
        });
        self.pending.push(Pending { known, durable: after, volatile: done.volatile });
    }
}
