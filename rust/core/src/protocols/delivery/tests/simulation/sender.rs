//! A sender: its log and its state are durable, its place within a split transaction is not.

use super::channel::{Channel, Random};
use super::{Answer, Happened, Payload, Transaction};
use crate::protocols::delivery::tests::{Confirmation, PartHeader, Resend, SenderState, truncation_point};

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) log: Vec<Transaction>,
    pub(super) state: SenderState,
    /// The next part of the transaction after `log_sent`.
    part: u32,
    end: u64,
}

impl Sender {
    pub(super) fn new(start: u64) -> Self {
        Self { log: Vec::new(), state: SenderState::starting_at(start), part: 0, end: start }
    }

    /// Some transactions are committed.
    pub(super) fn work(&mut self, random: &mut Random, most: u64) {
        for _ in 0..=random.below(most) {
            self.end += 1 + random.below(50);
            let parts = if random.chance(25) { 2 + random.below(3) as u32 } else { 1 };
            self.log.push(Transaction { end: self.end, parts });
        }
        self.state = self.state.offer(self.end);
    }

    /// Sends some messages. The state is durable before each of them leaves, so a crash between
    /// loses the message.
    pub(super) fn send(
        &mut self,
        channel: &mut Channel<(PartHeader, Payload)>,
        random: &mut Random,
        happened: &mut Happened,
        crashes: u64,
    ) {
        for _ in 0..=random.below(5) {
            if !self.state.has_to_send() {
                return;
            }
            let (message, state) = self.build(random);
            happened.split += u32::from(message.0.is_open_part());
            self.state = SenderState::decode(&state.encode()).unwrap();
            if random.chance(crashes) {
                self.crash(happened);
                continue;
            }
            happened.lost += u32::from(!channel.send(&message, random));
            self.part = if message.0.is_open_part() { self.part + 1 } else { 0 };
        }
    }

    /// The next message: a part, or several whole transactions.
    fn build(&self, random: &mut Random) -> ((PartHeader, Payload), SenderState) {
        let at = self.log.partition_point(|one| one.end <= self.state.log_sent);
        let first = self.log[at];
        if first.parts > 1 {
            let payload = Payload::Part(first, self.part);
            let last = self.part + 1 == first.parts;
            let (header, state) =
                if last { self.state.message(first.end, self.part, 1) } else { self.state.part(self.part, 1) }.unwrap();
            return ((header, payload), state);
        }
        let most = 1 + random.below(3) as usize;
        let some: Vec<_> = self.log[at..].iter().take_while(|one| one.parts == 1).take(most).copied().collect();
        let (header, state) = self.state.message(some[some.len() - 1].end, 0, 1).unwrap();
        ((header, Payload::Whole(some)), state)
    }

    /// The log is always truncated as far as it may be: no request may ask for more.
    pub(super) fn hear(&mut self, answer: Answer) {
        let log_start = truncation_point([&self.state]).unwrap();
        match answer {
            Answer::Confirm(offset) => {
                if let Confirmation::Advanced(state) = self.state.confirm(offset).unwrap() {
                    self.state = state;
                }
            }
            Answer::Resend(epoch, from) => {
                if let Resend::Restart(state) = self.state.resend(epoch, from, log_start).unwrap() {
                    (self.state, self.part) = (state, 0);
                }
            }
        }
    }

    pub(super) fn maybe_crash(&mut self, random: &mut Random, happened: &mut Happened, crashes: u64) {
        if random.chance(crashes) {
            self.crash(happened);
        }
    }

    fn crash(&mut self, happened: &mut Happened) {
        self.part = 0;
        happened.sender_crashes += 1;
    }
}
