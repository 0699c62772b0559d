//! The streams that a receiver knows, and the commit of a poll.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::poll::Poll;
use super::state::{ReceiverState, Volatile};
use crate::error::{Error, Result};

#[derive(Debug)]
struct Stream {
    name: Arc<str>,
    durable: ReceiverState,
    volatile: Volatile,
}

/// The receiving state of many streams: the durable rows, and in memory the part that a crash may
/// lose.
#[derive(Debug, Default)]
pub struct StreamTable {
    streams: Vec<Stream>,
    ids: HashMap<Arc<str>, u32>,
    /// Streams that the end of a poll concerns even when nothing arrives for them.
    attention: BTreeSet<u32>,
    /// Counts the changes, so that a poll decided before another one's commit is refused.
    version: u64,
}

impl StreamTable {
    /// A table without streams.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of streams.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Adds a stream with its durable state, or [`ReceiverState::starting_at`].
    pub fn insert(&mut self, name: &str, durable: ReceiverState) -> Result<()> {
        if self.ids.contains_key(name) {
            return Err(Error::State(format!("stream {name:?} is in the table already")));
        }
        if durable.confirm_received > durable.log_received || durable.applying_upto < durable.log_received {
            return Err(Error::State(format!("stream {name:?}: {durable:?} does not keep K <= L <= A")));
        }
        self.push(name.into(), durable, Volatile::after_start(&durable));
        Ok(())
    }

    /// The state of a stream as of the last commit.
    pub fn state(&self, name: &str) -> Option<&ReceiverState> {
        self.find(name).map(|id| &self.streams[id as usize].durable)
    }

    /// All streams.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ReceiverState)> {
        self.streams.iter().map(|stream| (&*stream.name, &stream.durable))
    }

    /// Settles a range in doubt: everything up to `log_received`, which lies in that range, was
    /// applied before the crash. Returns the state to make durable. A caller that keeps L in one
    /// transaction with its own data passes it here on open.
    pub fn settle(&mut self, name: &str, log_received: u64) -> Result<ReceiverState> {
        let settled = self.settled(name, log_received)?;
        if let Some(id) = self.find(name) {
            self.replace(id, settled);
        }
        Ok(settled)
    }

    /// The result of [`settle`](Self::settle) for the stream.
    pub(super) fn settled(&self, name: &str, log_received: u64) -> Result<ReceiverState> {
        let durable = *self.state(name).ok_or_else(|| Error::State(format!("stream {name:?} is not in the table")))?;
        if log_received < durable.log_received || log_received > durable.applying_upto {
            return Err(Error::Restored(format!(
                "stream {name:?}: {log_received} is outside of {}..={}, which may have been applied; if this data or its \
                 history was restored from a copy, extract the subscription again",
                durable.log_received, durable.applying_upto
            )));
        }
        Ok(ReceiverState { log_received, applying_upto: log_received, ..durable })
    }

    /// Sets a stream's state; held messages stay.
    pub(super) fn replace(&mut self, id: u32, durable: ReceiverState) {
        self.streams[id as usize].durable = durable;
        self.version += 1;
        self.watch(id);
    }

    /// Takes streams in doubt as not begun.
    pub(super) fn reopen(&mut self, streams: &[(u32, u64)]) {
        for &(id, _) in streams {
            let durable = self.streams[id as usize].durable;
            self.replace(id, ReceiverState { applying_upto: durable.log_received, ..durable });
        }
    }

    /// Marks streams as in doubt up to an offset.
    pub(super) fn mark_in_doubt(&mut self, streams: &[(u32, u64)]) {
        for &(id, applying_upto) in streams {
            let durable = self.streams[id as usize].durable;
            self.replace(id, ReceiverState { applying_upto, ..durable });
        }
    }

    /// Whether the streams are still as they were when this poll was decided.
    pub(super) fn check(&self, poll: &Poll) -> Result<()> {
        if poll.version == self.version {
            return Ok(());
        }
        Err(Error::State("the streams have changed since this poll was decided; decide it again".into()))
    }

    /// Makes the outcome of a poll the state of the table, once it is durable. From here on its
    /// confirmations count as given.
    #[expect(clippy::needless_pass_by_value, reason = "a poll is used up by its commit")]
    pub fn commit(&mut self, poll: Poll) -> Result<()> {
        self.accept(&poll)
    }

    /// [`commit`](Self::commit) for a poll that the caller still uses.
    pub(super) fn accept(&mut self, poll: &Poll) -> Result<()> {
        self.check(poll)?;
        for (outcome, pending) in poll.streams.iter().zip(&poll.pending) {
            let mut durable = pending.durable;
            durable.confirm_received = outcome.confirm.unwrap_or(durable.confirm_received);
            match pending.known {
                None => self.push(Arc::clone(&outcome.stream), durable, pending.volatile.clone()),
                Some(id) => {
                    let stream = &mut self.streams[id as usize];
                    (stream.durable, stream.volatile) = (durable, pending.volatile.clone());
                    self.watch(id);
                }
            }
        }
        self.version += 1;
        Ok(())
    }

    /// All streams with their volatile state.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &ReceiverState, &Volatile)> {
        self.streams.iter().map(|stream| (&*stream.name, &stream.durable, &stream.volatile))
    }

    /// [`insert`](Self::insert) of a stream that waits for messages.
    pub(super) fn insert_waiting(&mut self, name: &str, durable: ReceiverState, volatile: Volatile) -> Result<()> {
        self.insert(name, durable)?;
        if let Some(stream) = self.streams.last_mut() {
            stream.volatile = volatile;
            self.watch(self.streams.len() as u32 - 1);
        }
        Ok(())
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    pub(super) fn stream(&self, id: u32) -> (&Arc<str>, &ReceiverState, &Volatile) {
        let stream = &self.streams[id as usize];
        (&stream.name, &stream.durable, &stream.volatile)
    }

    pub(super) fn attention(&self) -> impl Iterator<Item = u32> {
        self.attention.iter().copied()
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    fn push(&mut self, name: Arc<str>, durable: ReceiverState, volatile: Volatile) {
        let id = self.streams.len() as u32;
        self.ids.insert(Arc::clone(&name), id);
        self.streams.push(Stream { name, durable, volatile });
        self.version += 1;
        self.watch(id);
    }

    fn watch(&mut self, id: u32) {
        let stream = &self.streams[id as usize];
        if stream.volatile.needs_attention(&stream.durable) {
            self.attention.insert(id);
        } else {
            self.attention.remove(&id);
        }
    }
}
