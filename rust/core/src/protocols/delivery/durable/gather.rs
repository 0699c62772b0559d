//! Merging the receipts of a poll that several processes decided, in the process that has the
//! inbox.

use std::collections::HashSet;
use std::sync::Arc;

use super::inbox::{Inbox, Inner, Taken};
use super::row::Row;
use super::share::{Decided, ShardPlan, ShardReceipt, Waiting};
use super::transaction::DeliveryBatch;
use crate::protocols::delivery::poll::{Change, Pending, Poll, Rows, StreamOutcome};
use crate::protocols::delivery::receive::receive_nothing;
use crate::protocols::delivery::state::{ReceiverState, Volatile};
use crate::types::transaction::{BatchRows, Meaning, Replays};
use crate::{Error, Result, Transaction};

impl Inbox {
    /// The plan for a poll that other processes decide, each all messages of some streams:
    /// [`decide_portion`](super::decide_portion). Changes nothing.
    pub fn plan(&self, now: i64, transaction: Option<&Transaction>, replays: Replays) -> Result<Vec<u8>> {
        let inner = self.lock();
        inner.check_ready()?;
        let batch = transaction.map(|transaction| DeliveryBatch::look_up(&*self.store, transaction)).transpose()?;
        let mut waiting = Vec::new();
        for (name, durable, volatile) in inner.table.all() {
            if !volatile.held.is_empty() {
                return Err(Error::State(format!(
                    "stream {name:?} holds messages here: go on to receive its polls here"
                )));
            }
            let known = Waiting::of(durable, volatile);
            if known != Waiting::of(durable, &Volatile::after_start(durable)) {
                waiting.push((name.to_owned(), known));
            }
        }
        let options = self.settings.options;
        let plan = ShardPlan {
            options,
            now,
            version: inner.table.version(),
            reopen: reopened_by(batch.as_ref(), replays)?,
            waiting,
        };
        Ok(plan.encode())
    }

    /// Merges the receipts that other processes made by this plan into one poll, and records what
    /// is about to be applied, as [`receive`](Self::receive) does: durable on return. Each stream
    /// of the poll is in one receipt.
    pub fn gather(
        &self,
        plan: &[u8],
        receipts: &[Vec<u8>],
        transaction: Option<&Transaction>,
        replays: Replays,
    ) -> Result<Taken> {
        let plan = ShardPlan::decode(plan)?;
        let mut inner = self.lock();
        inner.check_ready()?;
        let batch = transaction.map(|transaction| DeliveryBatch::look_up(&*self.store, transaction)).transpose()?;
        if plan.version != inner.table.version() || plan.reopen != reopened_by(batch.as_ref(), replays)? {
            return Err(Error::State("the streams have changed since this poll was planned; plan it again".into()));
        }
        let (mut decided, mut rows) = (Vec::new(), BatchRows::default());
        for receipt in receipts {
            let receipt = ShardReceipt::decode(receipt)?;
            if receipt.version != plan.version {
                return Err(Error::State("a receipt is of another poll".into()));
            }
            decided.extend(receipt.streams);
            rows.add(receipt.rows);
        }
        let (batch, meaning) = batch.map(|batch| batch.of(rows, replays)).transpose()?.unzip();
        decided.sort_by(|one, other| one.stream.cmp(&other.stream));
        inner.check_decided(&decided)?;
        let reopened = inner.reopened_whole(plan.reopen, &decided);
        inner.table.reopen(&reopened);
        let replay = meaning.map(Meaning::replay);
        match self.record(&inner, inner.poll_of(&decided, &plan), batch) {
            Ok(recorded) => Ok(inner.hand_out(recorded, replay)),
            Err(error) => {
                inner.table.mark_in_doubt(&reopened);
                Err(error)
            }
        }
    }
}

fn reopened_by(batch: Option<&DeliveryBatch>, replays: Replays) -> Result<u64> {
    batch.map_or(Ok(0), |batch| batch.reopens(replays))
}

impl Inner {
    /// Each stream must appear once, decided from the row known here, and every stream that waits
    /// for messages must be among them.
    fn check_decided(&self, decided: &[Decided]) -> Result<()> {
        if let Some(pair) = decided.windows(2).find(|pair| pair[0].stream == pair[1].stream) {
            return Err(Error::State(format!("stream {:?} was decided twice: it lay in two parts", pair[0].stream)));
        }
        for one in decided {
            let known = self.table.find(&one.stream).map(|id| self.rows[id as usize]);
            if known != one.found {
                let shown = |row: Option<Row<ReceiverState>>| {
                    row.map_or("not there".to_owned(), |row| format!("log_received {}", row.state.log_received))
                };
                return Err(Error::Overtaken(format!(
                    "another receiver has moved stream {:?}: it was {} when this one read it, and is {}; nothing of this \
                     poll was recorded; stop one of them, and open the delivery again",
                    one.stream,
                    shown(known),
                    shown(one.found)
                )));
            }
        }
        let there: HashSet<&str> = decided.iter().map(|one| one.stream.as_str()).collect();
        match self.table.all().find(|(name, _, volatile)| volatile.held_elsewhere > 0 && !there.contains(name)) {
            None => Ok(()),
            Some((name, ..)) => {
                Err(Error::State(format!("stream {name:?} waits with messages that did not come back with this poll")))
            }
        }
    }

    /// The streams that the batch with this mark left in doubt, and whose end is the same again.
    fn reopened_whole(&self, mark: u64, decided: &[Decided]) -> Vec<(u32, u64)> {
        let ended = decided.iter().filter_map(|one| {
            let id = self.table.find(&one.stream)?;
            let row = &self.rows[id as usize];
            let is_reopened = mark != 0 && row.transaction == mark && row.state.in_doubt().is_some();
            (is_reopened && one.after.log_received == row.state.applying_upto).then_some((id, row.state.applying_upto))
        });
        ended.collect()
    }

    fn poll_of(&self, decided: &[Decided], plan: &ShardPlan) -> Poll {
        let mut poll = Poll {
            rows: Rows { reasons: Vec::new(), transactions: Vec::new(), apply_ranks: Vec::new() },
            streams: Vec::new(),
            released: Vec::new(),
            dropped: Vec::new(),
            changes: Vec::new(),
            pending: Vec::new(),
            version: self.table.version(),
        };
        for one in decided {
            let known = self.table.find(&one.stream);
            let before = known.map(|id| *self.table.stream(id).1);
            // Only this process knows which confirmations came since the row was written.
            let confirm_received = before.map_or(one.after.confirm_received, |before| before.confirm_received);
            let after = ReceiverState { confirm_received, ..one.after };
            poll.add(one, known, before, after);
        }
        let seen: HashSet<u32> = poll.pending.iter().filter_map(|one| one.known).collect();
        let rest: Vec<u32> = self.table.attention().filter(|id| !seen.contains(id)).collect();
        poll.append(receive_nothing(&self.table, &rest, &plan.options, plan.now));
        poll
    }
}

impl Poll {
    fn add(&mut self, one: &Decided, known: Option<u32>, before: Option<ReceiverState>, after: ReceiverState) {
        let stream = self.streams.len() as u32;
        if before != Some(after) {
            // A new stream starts at its confirmed offset.
            let start = ReceiverState::starting_at(after.confirm_received);
            let applying = before.unwrap_or(ReceiverState { rereceive_count: one.began_in, ..start });
            let applying = ReceiverState { applying_upto: after.applying_upto, ..applying };
            self.changes.push(Change { stream, applying, after });
        }
        self.streams.push(StreamOutcome {
            stream: Arc::from(one.stream.as_str()),
            log_received: after.log_received,
            rereceive_count: after.rereceive_count,
            confirm: (after.log_received > after.confirm_received).then_some(after.log_received),
            resend: one.resend,
            patience: one.waiting.patience,
            held: one.waiting.held,
            buffered_parts: one.waiting.next,
        });
        self.pending.push(Pending { known, durable: after, volatile: one.waiting.volatile() });
    }

    /// Takes over the streams of another poll of the same table.
    fn append(&mut self, other: Self) {
        let first = self.streams.len() as u32;
        self.streams.extend(other.streams);
        self.pending.extend(other.pending);
        self.changes.extend(other.changes.into_iter().map(|one| Change { stream: one.stream + first, ..one }));
    }
}
