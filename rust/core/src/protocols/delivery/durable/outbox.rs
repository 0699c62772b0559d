//! The sending side of a stream, kept in a store: a publisher's messages for one subscriber.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::row::{Row, exchange, names_of, publisher_prefix, sending_key};
use super::store::Rows;
use crate::protocols::delivery::header::PartHeader;
use crate::protocols::delivery::send::{Confirmation, Resend, SenderState, truncation_point};
use crate::{Error, Result};

/// Transactions to send, in the order of the log.
#[derive(Clone, Copy, Debug)]
pub struct Transactions<'a> {
    /// Log offset of each COMMIT.
    pub offsets: &'a [u64],
    /// Messages that each takes; one each, if absent. The number must depend on the transaction
    /// only.
    pub parts: Option<&'a [u32]>,
    /// Maximum number of whole transactions in one message.
    pub per_message: usize,
    /// Maximum number of messages of a call; a transaction's parts are never split over two calls.
    pub max_messages: usize,
}

/// Messages that were built, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// What to send with each.
    pub headers: Vec<PartHeader>,
    /// The first transaction of each message, as an index into the offsets.
    pub first: Vec<u32>,
    /// How many transactions it carries; 1 for a part.
    pub count: Vec<u32>,
}

/// The sending side of one stream.
#[derive(Debug)]
pub struct Outbox {
    store: Arc<dyn Rows>,
    publisher: String,
    subscriber: String,
    row: Mutex<Row<SenderState>>,
}

impl Outbox {
    /// Reads the stream's row; a new stream starts at `start`, up to which the subscriber has
    /// everything.
    pub fn open(store: Arc<dyn Rows>, publisher: &str, subscriber: &str, start: Option<u64>) -> Result<Self> {
        let key = sending_key(publisher, subscriber);
        let row = match (store.get(&key)?, start) {
            (Some(bytes), _) => Row::decode(subscriber, &bytes)?,
            (None, Some(offset)) => {
                let row = Row::after(None, SenderState::starting_at(offset), 0);
                let made = store.exchange(&[exchange(key, None, Some(&row))])?;
                made.map_err(|_| Error::Overtaken(format!("another sender has started {subscriber:?} meanwhile")))?;
                row
            }
            (None, None) => {
                return Err(Error::State(format!(
                    "{subscriber:?} is no subscriber yet: say with start= up to which log offset it has everything"
                )));
            }
        };
        let (publisher, subscriber) = (publisher.to_owned(), subscriber.to_owned());
        Ok(Self { store, publisher, subscriber, row: Mutex::new(row) })
    }

    /// Who publishes, and who subscribes.
    pub fn names(&self) -> (&str, &str) {
        (&self.publisher, &self.subscriber)
    }

    /// The state as of the last call.
    pub fn state(&self) -> SenderState {
        self.lock().state
    }

    /// The messages for transactions after `log_sent`; earlier ones are skipped. Durable on return,
    /// so that no message leaves before its sender remembers it.
    pub fn build(&self, transactions: &Transactions<'_>, now: i64) -> Result<Built> {
        check(transactions)?;
        let mut row = self.lock();
        let Some(&last) = transactions.offsets.last() else { return Ok(Built::default()) };
        let mut state = row.state.offer(last);
        let mut built = Built::default();
        let mut at = transactions.offsets.partition_point(|&offset| offset <= state.log_sent);
        while at < transactions.offsets.len() {
            let parts = transactions.parts_of(at);
            if built.headers.len() + parts as usize > transactions.max_messages.max(parts as usize)
                && !built.headers.is_empty()
            {
                break;
            }
            let count = if parts > 1 { 1 } else { transactions.whole_from(at) };
            for part in 0..parts {
                let is_last = part + 1 == parts;
                let (header, next) = if is_last {
                    state.message(transactions.offsets[at + count - 1], part, now)?
                } else {
                    state.part(part, now)?
                };
                state = next;
                built.headers.push(header);
                built.first.push(at as u32);
                built.count.push(count as u32);
            }
            at += count;
        }
        if state != row.state {
            self.write(&mut row, state)?;
        }
        Ok(built)
    }

    /// The subscriber confirms everything up to `offset`; answers whether that is new. Durable on
    /// return.
    pub fn on_confirmation(&self, offset: u64) -> Result<bool> {
        let mut row = self.lock();
        match row.state.confirm(offset)? {
            Confirmation::Ignored => Ok(false),
            Confirmation::Advanced(state) => self.write(&mut row, state).map(|()| true),
        }
    }

    /// The subscriber asks for everything after `offset` under `epoch`; answers whether that is
    /// new. If it is, the messages built and not sent are void, and everything after `log_sent` has
    /// to be built again. `log_start` is the oldest offset in the log; if absent, the log is
    /// assumed to be truncated as far as allowed.
    pub fn on_resend_request(&self, epoch: u64, offset: u64, log_start: Option<u64>) -> Result<bool> {
        let log_start = match log_start {
            Some(offset) => offset,
            None => self.truncation_point()?,
        };
        let mut row = self.lock();
        match row.state.resend(epoch, offset, log_start)? {
            Resend::Ignored => Ok(false),
            Resend::Restart(state) => self.write(&mut row, state).map(|()| true),
        }
    }

    /// The publisher's log may be truncated up to here: every subscriber has confirmed it.
    pub fn truncation_point(&self) -> Result<u64> {
        let mut states = Vec::new();
        for (key, value) in self.store.scan(&publisher_prefix(&self.publisher))? {
            let (publisher, subscriber) = names_of(&key)?;
            debug_assert_eq!(publisher, self.publisher);
            states.push(Row::<SenderState>::decode(&subscriber, &value)?.state);
        }
        truncation_point(&states)
            .ok_or_else(|| Error::State(format!("{:?} is no subscriber any more", self.subscriber)))
    }

    /// Removes the subscriber: the log is no longer kept for it.
    pub fn remove(&self) -> Result<()> {
        let row = self.lock();
        let change = exchange(sending_key(&self.publisher, &self.subscriber), Some(&*row), None);
        self.store.exchange(&[change])?.map_err(|_| self.overtaken())
    }

    fn write(&self, row: &mut Row<SenderState>, state: SenderState) -> Result<()> {
        let new = Row::after(Some(row), state, 0);
        let change = exchange(sending_key(&self.publisher, &self.subscriber), Some(row), Some(&new));
        self.store.exchange(&[change])?.map_err(|_| self.overtaken())?;
        *row = new;
        Ok(())
    }

    fn overtaken(&self) -> Error {
        Error::Overtaken(format!(
            "another sender has moved the stream to {:?} since this one read it; only one may send to a subscriber at a \
             time, and nothing of this call was recorded; stop one of them, and open the outbox again",
            self.subscriber
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Row<SenderState>> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transactions<'_> {
    fn parts_of(&self, at: usize) -> u32 {
        self.parts.map_or(1, |parts| parts[at])
    }

    /// How many consecutive transactions of one message each, from `at`, may share a message.
    fn whole_from(&self, at: usize) -> usize {
        (at..self.offsets.len()).take(self.per_message).take_while(|&at| self.parts_of(at) == 1).count()
    }
}

fn check(transactions: &Transactions<'_>) -> Result<()> {
    let Transactions { offsets, parts, per_message, max_messages } = transactions;
    if *per_message == 0 || *max_messages == 0 {
        return Err(Error::Config("per_message and max_messages are at least 1".into()));
    }
    if let Some(row) = offsets.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(Error::Schema(format!(
            "row {}: offset {} does not come after {}; transactions are in the order of the log",
            row + 1,
            offsets[row + 1],
            offsets[row]
        )));
    }
    match parts {
        Some(parts) if parts.len() != offsets.len() => {
            Err(Error::Schema(format!("there are {} numbers of parts for {} offsets", parts.len(), offsets.len())))
        }
        Some(parts) => match parts.iter().position(|&parts| parts == 0) {
            Some(row) => Err(Error::Schema(format!("row {row}: parts is 0; a transaction takes at least one message"))),
            None => Ok(()),
        },
        None => Ok(()),
    }
}
