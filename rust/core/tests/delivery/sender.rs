//! The publisher: its log is durable, its outboxes are in its history.

use dochistory_core::protocols::delivery::{Outbox, Transactions};

use super::channel::{Channel, Random};
use super::machine::Machine;
use super::{Answer, Happened, Message, STREAMS, Transaction};

#[derive(Debug)]
pub struct Sender {
    pub logs: [Vec<Transaction>; 2],
    pub machine: Machine,
    outboxes: Vec<Outbox>,
    start: u64,
    ends: [u64; 2],
}

impl Sender {
    pub fn new(seed: u64, start: u64, crashes: u64) -> Self {
        let mut machine = Machine::new(seed, crashes);
        let outboxes = open(&mut machine, start);
        Self { logs: [Vec::new(), Vec::new()], machine, outboxes, start, ends: [start; 2] }
    }

    /// Some transactions are committed.
    pub fn work(&mut self, random: &mut Random, most: u64) {
        for stream in 0..STREAMS.len() {
            for _ in 0..=random.below(most) {
                self.ends[stream] += 1 + random.below(50);
                let parts = if random.chance(25) { 2 + random.below(3) as u32 } else { 1 };
                self.logs[stream].push(Transaction { end: self.ends[stream], parts });
            }
        }
    }

    pub fn send(&mut self, channel: &mut Channel<Message>, random: &mut Random, happened: &mut Happened) {
        for stream in 0..STREAMS.len() {
            let offsets: Vec<u64> = self.logs[stream].iter().map(|one| one.end).collect();
            let parts: Vec<u32> = self.logs[stream].iter().map(|one| one.parts).collect();
            let transactions = Transactions {
                offsets: &offsets,
                parts: Some(&parts),
                per_message: 1 + random.below(3) as usize,
                max_messages: 1 + random.below(5) as usize,
            };
            self.machine.live_dangerously();
            let built = match self.outboxes[stream].build(&transactions, 1) {
                Ok(built) => built,
                Err(error) => {
                    self.machine.excuse(&error);
                    self.crash(happened);
                    continue;
                }
            };
            for (at, &header) in built.headers.iter().enumerate() {
                if self.machine.dies() {
                    self.crash(happened);
                    break;
                }
                let first = built.first[at] as usize;
                let carries = self.logs[stream][first..first + built.count[at] as usize].to_vec();
                happened.split += u64::from(header.is_open_part());
                let message = Message { stream, header, carries, part: header.seq };
                happened.lost += u64::from(!channel.send(&message, random));
            }
        }
    }

    /// The log is always truncated as far as it may be: no request may ask for more.
    pub fn hear(&mut self, answer: Answer, _random: &mut Random, happened: &mut Happened) {
        self.machine.live_dangerously();
        let heard = match answer {
            Answer::Confirm(stream, offset) => self.outboxes[stream].on_confirmation(offset),
            Answer::Resend(stream, epoch, from) => self.outboxes[stream].on_resend_request(epoch, from, None),
        };
        if let Err(error) = heard {
            self.machine.excuse(&error);
            self.crash(happened);
        }
    }

    fn crash(&mut self, happened: &mut Happened) {
        happened.sender_crashes += 1;
        self.outboxes = open(&mut self.machine, self.start);
    }
}

fn open(machine: &mut Machine, start: u64) -> Vec<Outbox> {
    machine.open(|history| {
        let open = |stream: &&str| Outbox::open(history.sent_streams(true)?, "log", stream, Some(start));
        STREAMS.iter().map(open).collect()
    })
}
