//! A receiver: what it has applied and its durable state survive a crash, the table and kept
//! messages do not.

use std::collections::HashMap;

use super::channel::{Channel, Random};
use super::{Answer, Happened, Payload, Transaction};
use crate::columns::{IdColumn, Validity};
use crate::protocols::delivery::tests::{
    ENCODED_LEN, HeaderColumns, Headers, Options, PartHeader, Poll, ReceiverState, Status, StreamTable, receive,
};

#[derive(Debug)]
pub(super) struct Receiver {
    /// The caller's own data, which knows how far it goes.
    pub(super) applied: Vec<Transaction>,
    start: u64,
    durable: [u8; ENCODED_LEN],
    table: StreamTable,
    kept: HashMap<(u64, u32), Payload>,
    options: Options,
    /// Data and state are written in one transaction; else one transaction of data after the other,
    /// then the state.
    joined: bool,
}

impl Receiver {
    pub(super) fn new(start: u64, options: Options, joined: bool) -> Self {
        let durable = ReceiverState::starting_at(start).encode();
        let mut new = Self {
            applied: Vec::new(),
            start,
            durable,
            table: StreamTable::new(),
            kept: HashMap::new(),
            options,
            joined,
        };
        new.open();
        new
    }

    fn open(&mut self) {
        self.kept.clear();
        self.table = StreamTable::new();
        self.table.insert("s", ReceiverState::decode(&self.durable).unwrap()).unwrap();
    }

    /// A crash and a new start. Where a range is in doubt, the data says how far it got.
    fn crash(&mut self, happened: &mut Happened) {
        happened.receiver_crashes += 1;
        self.open();
        if ReceiverState::decode(&self.durable).unwrap().in_doubt().is_some() {
            let reached = self.applied.last().map_or(self.start, |last| last.end);
            self.durable = self.table.settle("s", reached).unwrap().encode();
            happened.settled += 1;
        }
    }

    pub(super) fn poll(
        &mut self,
        arrivals: &[((PartHeader, Payload), bool)],
        back: &mut Channel<Answer>,
        random: &mut Random,
        happened: &mut Happened,
        crashes: u64,
    ) {
        let poll = self.decide(arrivals);
        let messages = self.keep_and_order(&poll, arrivals);
        if random.chance(crashes) {
            return self.crash(happened);
        }
        let transactions = whole_transactions(messages);
        let Some(outcome) = poll.streams.first().cloned() else {
            return self.table.commit(poll).unwrap();
        };
        if let Some(change) = poll.changes.first() {
            if self.joined {
                self.applied.extend(&transactions);
            } else {
                self.durable = change.applying.encode();
                for one in &transactions {
                    if random.chance(crashes / 2) {
                        return self.crash(happened);
                    }
                    self.applied.push(*one);
                }
                if random.chance(crashes) {
                    return self.crash(happened);
                }
            }
            self.durable = change.after.encode();
        }
        if random.chance(crashes) {
            return self.crash(happened);
        }
        self.table.commit(poll).unwrap();
        if outcome.resend.is_some() {
            self.kept.clear();
        }
        if random.chance(crashes) {
            return self.crash(happened);
        }
        self.answer(outcome.confirm.map(Answer::Confirm), back, random);
        self.answer(outcome.resend.map(|(epoch, from)| Answer::Resend(epoch, from)), back, random);
        happened.requests += u32::from(outcome.resend.is_some());
    }

    fn answer(&self, answer: Option<Answer>, back: &mut Channel<Answer>, random: &mut Random) {
        let durable = ReceiverState::decode(&self.durable).unwrap();
        match answer {
            None => return,
            Some(Answer::Confirm(offset)) => assert!(offset <= durable.log_received, "confirmed before it was durable"),
            Some(Answer::Resend(epoch, from)) => {
                assert_eq!((epoch, from), (durable.rereceive_count, durable.log_received));
            }
        }
        if let Some(answer) = answer {
            back.send(&answer, random);
        }
    }

    fn decide(&self, arrivals: &[((PartHeader, Payload), bool)]) -> Poll {
        let (mut offsets, mut values) = (vec![0], Vec::new());
        for ((header, _), damaged) in arrivals {
            let mut text = header.to_string().into_bytes();
            if *damaged {
                text[3] = b'?';
            }
            values.extend(text);
            offsets.push(values.len() as i32);
        }
        let headers = Headers::Text(IdColumn::Utf8 { offsets: &offsets, values: &values, validity: Validity::all() });
        let streams = vec![0; arrivals.len()];
        receive(&self.table, &HeaderColumns { streams: &streams, names: &["s"], headers }, &self.options, 1).unwrap()
    }

    /// The messages to apply, in order; the others that will be needed are kept.
    fn keep_and_order(
        &mut self,
        poll: &Poll,
        arrivals: &[((PartHeader, Payload), bool)],
    ) -> Vec<(PartHeader, Payload)> {
        let mut ranked = Vec::new();
        for (row, (message, _)) in arrivals.iter().enumerate() {
            let place = (message.0.prev, message.0.seq);
            match (poll.rows.apply_rank(row), poll.rows.status(row)) {
                (Some(rank), _) => ranked.push((rank, message.clone())),
                (None, Status::New | Status::Held) => {
                    self.kept.insert(place, message.1.clone());
                }
                _ => {}
            }
        }
        for one in &poll.released {
            let payload = self.kept[&(one.prev, one.seq)].clone();
            let header = PartHeader { resend_count: 0, prev: one.prev, cur: one.cur, seq: one.seq };
            ranked.push((one.apply_rank, (header, payload)));
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        assert!(ranked.iter().enumerate().all(|(at, (rank, _))| at as u32 == *rank));
        ranked.into_iter().map(|(_, message)| message).collect()
    }
}

/// What the messages carry. A split transaction must be there with all its parts, one after the
/// other.
fn whole_transactions(messages: Vec<(PartHeader, Payload)>) -> Vec<Transaction> {
    let mut transactions = Vec::new();
    let mut parts: Vec<Transaction> = Vec::new();
    for (header, payload) in messages {
        match payload {
            Payload::Whole(some) => {
                assert!(parts.is_empty(), "a whole message in the middle of a transaction");
                assert_eq!((header.seq, header.cur), (0, some[some.len() - 1].end));
                transactions.extend(some);
            }
            Payload::Part(of, part) => {
                assert_eq!((part, header.seq), (parts.len() as u32, parts.len() as u32), "parts in order");
                assert!(parts.iter().all(|other| *other == of), "parts of one transaction");
                parts.push(of);
                if !header.is_open_part() {
                    assert_eq!((parts.len() as u32, header.cur), (of.parts, of.end), "all parts at once");
                    transactions.push(of);
                    parts.clear();
                }
            }
        }
    }
    assert!(parts.is_empty(), "a transaction was applied in part");
    transactions
}
