//! The subscriber: its own data, and an inbox of both streams in its history.

use std::collections::HashMap;

use dochistory_core::Replays;
use dochistory_core::columns::{IdColumn, Validity};
use dochistory_core::protocols::delivery::{
    HeaderColumns, Headers, Inbox, Opening, Options, Place, Receiving, Settings, Status, Taken,
};

use super::channel::{Channel, Random};
use super::machine::Machine;
use super::{Answer, Happened, Message, STREAMS, Transaction};

#[derive(Debug)]
pub struct Receiver {
    /// The caller's own data, which knows how far it goes.
    pub applied: [Vec<Transaction>; 2],
    pub machine: Machine,
    start: u64,
    inbox: Inbox,
    kept: HashMap<(usize, u64, u32), Message>,
    settings: Settings,
    /// What was confirmed, and so has to be durable forever.
    confirmed: [u64; 2],
}

/// Columns of a poll.
struct Columns {
    streams: Vec<u32>,
    offsets: Vec<i32>,
    values: Vec<u8>,
}

impl Receiver {
    pub fn new(seed: u64, start: u64, options: Options, own_transaction: bool, crashes: u64) -> Self {
        let settings = Settings { options, own_transaction, only: None };
        let mut machine = Machine::new(seed ^ 0xabcd, crashes);
        let opening =
            Opening { starts: STREAMS.map(|stream| (stream.to_owned(), start)).to_vec(), applied: Vec::new() };
        let inbox = machine.open(|history| Inbox::open(history.received_streams(true)?, settings.clone(), &opening));
        let applied = [Vec::new(), Vec::new()];
        Self { applied, machine, start, inbox, kept: HashMap::new(), settings, confirmed: [start; 2] }
    }

    fn reached(&self, stream: usize) -> u64 {
        self.applied[stream].last().map_or(self.start, |last| last.end)
    }

    /// A crash and a new start. Where a range is in doubt, the data says how far it got.
    fn crash(&mut self, happened: &mut Happened) {
        happened.receiver_crashes += 1;
        self.kept.clear();
        let settings = self.settings.clone();
        let found = self.machine.open(|history| {
            Ok(Inbox::open(history.received_streams(true)?, settings.clone(), &Opening::default())?.states())
        });
        for (stream, state) in found {
            let stream = STREAMS.iter().position(|name| *name == stream).unwrap();
            assert!(state.log_received >= self.confirmed[stream], "what was confirmed is durable");
            assert!(state.log_received <= self.reached(stream), "what is not applied does not count as received");
            if !self.settings.own_transaction {
                assert!(state.applying_upto >= self.reached(stream), "what may be applied was recorded before");
                happened.in_doubt += u64::from(state.in_doubt().is_some());
            }
        }
        let applied = (0..STREAMS.len()).map(|stream| (STREAMS[stream].to_owned(), self.reached(stream))).collect();
        let opening = Opening { starts: Vec::new(), applied };
        self.inbox =
            self.machine.open(|history| Inbox::open(history.received_streams(true)?, settings.clone(), &opening));
    }

    pub fn poll(
        &mut self,
        arrivals: &[(Message, bool)],
        back: &mut Channel<Answer>,
        random: &mut Random,
        happened: &mut Happened,
    ) {
        let columns = Columns::new(arrivals);
        self.machine.live_dangerously();
        let taken = columns.with(|columns| {
            let how = Receiving { columns, now: 1, threads: 1, transaction: None, replays: Replays::default() };
            self.inbox.receive(&how)
        });
        let mut taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.machine.excuse(&error);
                return self.crash(happened);
            }
        };
        let Ok(done) = self.apply_and_end(&mut taken, arrivals, &columns, random, happened) else {
            return self.crash(happened);
        };
        if done {
            self.keep(&taken, arrivals);
            self.answer(&taken, back, random, happened);
        }
    }

    /// Applies what the poll hands out, all or a part, and ends it; whether it was committed. An
    /// error is a crash.
    fn apply_and_end(
        &mut self,
        taken: &mut Taken,
        arrivals: &[(Message, bool)],
        columns: &Columns,
        random: &mut Random,
        happened: &mut Happened,
    ) -> Result<bool, ()> {
        let handed = self.handed(taken, arrivals, columns);
        if !handed.is_empty() && random.chance(5) {
            happened.aborted += 1;
            return self.inbox.abort(taken).map(|()| false).map_err(|error| self.machine.excuse(&error));
        }
        let most = if random.chance(10) { random.below(handed.len() as u64 + 1) as usize } else { handed.len() };
        for (stream, transaction) in &handed[..most] {
            if self.machine.dies() {
                return Err(());
            }
            self.applied[*stream].push(*transaction);
        }
        if self.machine.dies() {
            return Err(());
        }
        let mut upto = HashMap::new();
        if most < handed.len() {
            happened.partly += 1;
            for (stream, _) in &handed {
                upto.insert(STREAMS[*stream].to_owned(), self.reached(*stream));
            }
        }
        let ended = columns.with(|columns| self.inbox.commit_upto(taken, columns, &upto));
        ended.map(|()| true).map_err(|error| self.machine.excuse(&error))
    }

    /// The transactions that the poll hands out, in order; each must be whole.
    fn handed(&self, taken: &Taken, arrivals: &[(Message, bool)], columns: &Columns) -> Vec<(usize, Transaction)> {
        let mut transactions = Vec::new();
        let mut parts: Vec<Transaction> = Vec::new();
        for one in columns.with(|columns| taken.poll.in_order(columns)) {
            let name = &taken.poll.streams[one.stream as usize].stream;
            let stream = STREAMS.iter().position(|stream| *stream == &**name).unwrap();
            let message = match one.place {
                Place::Row(row) => &arrivals[row as usize].0,
                Place::Released(at) => {
                    let released = taken.poll.released[at as usize];
                    &self.kept[&(stream, released.prev, released.seq)]
                }
            };
            assert_eq!((message.stream, message.header.prev), (stream, one.transaction));
            if message.header.seq == 0 && !message.header.is_open_part() {
                assert!(parts.is_empty(), "a whole message in the middle of a transaction");
                assert_eq!(message.carries.last().unwrap().end, one.commit);
                transactions.extend(message.carries.iter().map(|carried| (stream, *carried)));
                continue;
            }
            let of = message.carries[0];
            assert_eq!((message.part, one.commit), (parts.len() as u32, of.end), "parts in order");
            assert!(parts.iter().all(|other| *other == of), "parts of one transaction");
            parts.push(of);
            if !message.header.is_open_part() {
                assert_eq!(parts.len() as u32, of.parts, "all parts at once");
                transactions.push((stream, of));
                parts.clear();
            }
        }
        assert!(parts.is_empty(), "a transaction was handed out in part");
        transactions
    }

    fn keep(&mut self, taken: &Taken, arrivals: &[(Message, bool)]) {
        for (row, (message, _)) in arrivals.iter().enumerate() {
            if taken.poll.rows.apply_rank(row).is_none()
                && matches!(taken.poll.rows.status(row), Status::New | Status::Held)
            {
                self.kept.insert((message.stream, message.header.prev, message.header.seq), message.clone());
            }
        }
    }

    fn answer(&mut self, taken: &Taken, back: &mut Channel<Answer>, random: &mut Random, happened: &mut Happened) {
        for outcome in &taken.poll.streams {
            let stream = STREAMS.iter().position(|name| *name == &*outcome.stream).unwrap();
            if let Some(offset) = outcome.confirm {
                assert!(offset <= self.reached(stream), "confirmed before it was applied");
                self.confirmed[stream] = self.confirmed[stream].max(offset);
                back.send(&Answer::Confirm(stream, offset), random);
            }
            if let Some((epoch, from)) = outcome.resend {
                assert_eq!(from, self.reached(stream));
                happened.requests += 1;
                back.send(&Answer::Resend(stream, epoch, from), random);
            }
        }
    }
}

impl Columns {
    fn new(arrivals: &[(Message, bool)]) -> Self {
        let mut columns = Self { streams: Vec::new(), offsets: vec![0], values: Vec::new() };
        for (message, damaged) in arrivals {
            let mut text = message.header.to_string().into_bytes();
            if *damaged {
                text[3] = b'?';
            }
            columns.values.extend(text);
            columns.offsets.push(columns.values.len() as i32);
            columns.streams.push(message.stream as u32);
        }
        columns
    }

    fn with<T>(&self, work: impl FnOnce(&HeaderColumns<'_>) -> T) -> T {
        let (offsets, values) = (&self.offsets[..], &self.values[..]);
        let headers = Headers::Text(IdColumn::Utf8 { offsets, values, validity: Validity::all() });
        work(&HeaderColumns { streams: &self.streams, names: &STREAMS, headers })
    }
}
