//! One poll of one stream: its messages in the order of arrival, rules 1 to 8.

use super::arrivals::{EARLIER, Front, Shelf, Source};
use super::decision::{Match, Position, Reason, decide};
use super::group::Arrival;
use super::header::PartHeader;
use super::held::Message;
use super::options::Options;
use super::poll::{Dropped, Released};
use super::state::{ReceiverState, Volatile};

/// The output of the streams of a poll.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) reasons: Vec<Reason>,
    pub(super) apply_ranks: Vec<u32>,
    pub(super) released: Vec<Released>,
    pub(super) dropped: Vec<Dropped>,
}

/// The input of a stream's pass.
pub(super) struct Given<'p> {
    /// Index into the poll's streams.
    pub(super) stream: u32,
    pub(super) options: &'p Options,
    pub(super) now: i64,
    pub(super) arrivals: &'p [Arrival],
}

/// How a stream stands at the end of the poll.
pub(super) struct Done {
    pub(super) durable: ReceiverState,
    pub(super) volatile: Volatile,
    pub(super) resend: Option<(u64, u64)>,
}

/// Buffers that are used for one stream after the other.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    shelf: Shelf,
    /// Sources of the parts that were buffered in this poll.
    parts: Vec<Source>,
}

impl Workspace {
    pub(super) fn run(
        &mut self,
        given: &Given<'_>,
        durable: ReceiverState,
        mut volatile: Volatile,
        outputs: &mut Outputs,
    ) -> Done {
        self.shelf.reset(std::mem::take(&mut volatile.held));
        self.parts.clear();
        let mut pass = Pass {
            given,
            shelf: &mut self.shelf,
            parts: &mut self.parts,
            earlier_parts: volatile.next,
            blocked: durable.in_doubt().is_some(),
            durable,
            volatile,
            outputs,
            rank: 0,
            seen: Seen::default(),
        };
        // A held message can be due without an arrival: after the range in doubt was settled.
        pass.release();
        for place in 0..given.arrivals.len() {
            pass.take_in(place);
        }
        let resend = pass.end();
        Done { durable: pass.durable, volatile: pass.volatile, resend }
    }
}

pub(super) struct Pass<'p> {
    pub(super) given: &'p Given<'p>,
    pub(super) shelf: &'p mut Shelf,
    parts: &'p mut Vec<Source>,
    /// Parts that were buffered in earlier polls; they come before `parts`.
    earlier_parts: u64,
    /// A crash left open what is applied: hold everything until that is settled.
    pub(super) blocked: bool,
    pub(super) durable: ReceiverState,
    pub(super) volatile: Volatile,
    pub(super) outputs: &'p mut Outputs,
    rank: u32,
    pub(super) seen: Seen,
}

/// What the end of the poll needs to know about the arrivals.
#[derive(Default)]
pub(super) struct Seen {
    /// A message came that is neither stale nor applied or kept already.
    pub(super) news: bool,
    /// A stale message came.
    pub(super) stale: bool,
    /// A message came that is not stale.
    pub(super) current: bool,
    /// The furthest end of a message that overlaps what is applied.
    pub(super) overlap_upto: u64,
}

impl Pass<'_> {
    #[inline]
    fn take_in(&mut self, place: usize) {
        let Arrival { resend_count, prev, cur, seq, row } = self.given.arrivals[place];
        let header = PartHeader { resend_count, prev, cur, seq };
        let mut found = self.decide(&header, place);
        let adopted = found == Match::Adopt;
        if adopted {
            self.adopt(resend_count);
            found = self.decide(&header, place);
        }
        if found == Match::Damaged {
            self.outputs.reasons[row as usize] = Reason::Malformed;
            return;
        }
        if found == Match::Stale {
            self.seen.stale = true;
        } else {
            self.seen.current = true;
            // A joined epoch still needs a second witness: if it was a damaged number, repeating
            // the request repairs it.
            self.volatile.outstanding &= found == Match::Future || adopted;
            self.seen.news |= matches!(found, Match::Future | Match::Hold | Match::Part | Match::Apply);
        }
        let reason = match found {
            Match::Damaged => Reason::Malformed,
            Match::Stale => Reason::Stale,
            // A joined epoch is this side's own, so `decide` never finds it twice.
            Match::Future | Match::Adopt => {
                self.volatile.future = true;
                Reason::Future
            }
            Match::AlreadyApplied => Reason::AlreadyApplied,
            Match::Overlap => {
                self.seen.overlap_upto = self.seen.overlap_upto.max(cur);
                Reason::Overlap
            }
            Match::AlreadyKept => Reason::AlreadyKept,
            Match::Conflict => Reason::Conflict,
            Match::Hold => self.hold(place, Reason::Held),
            Match::Part | Match::Apply if self.blocked => self.hold(place, Reason::InDoubtRange),
            Match::Part => self.advance(header, row, [Reason::Part, Reason::AdoptedPart][usize::from(adopted)]),
            Match::Apply => self.advance(header, row, [Reason::Applied, Reason::AdoptedApplied][usize::from(adopted)]),
        };
        self.outputs.reasons[row as usize] = reason;
        if matches!(found, Match::Part | Match::Apply) {
            self.release();
        }
    }

    #[inline]
    fn decide(&self, header: &PartHeader, place: usize) -> Match {
        let at = Position {
            rereceive_count: self.durable.rereceive_count,
            log_received: self.durable.log_received,
            next: self.volatile.next,
        };
        decide(header, &at, || self.shelf.find(place, self.given.arrivals))
    }

    fn hold(&mut self, place: usize, reason: Reason) -> Reason {
        self.shelf.hold(place, self.given.arrivals, self.durable.log_received);
        reason
    }

    /// Rules 7 and 8, for the message that is expected next.
    fn advance(&mut self, header: PartHeader, source: Source, reason: Reason) -> Reason {
        let PartHeader { prev, cur, seq, .. } = header;
        if header.is_open_part() {
            self.parts.push(source);
            self.volatile.next += 1;
            return reason;
        }
        for part in 0..self.earlier_parts {
            self.apply(Message { prev, cur: prev, seq: part as u32 }, EARLIER);
        }
        for place in 0..self.parts.len() {
            let part = self.earlier_parts as u32 + place as u32;
            self.apply(Message { prev, cur: prev, seq: part }, self.parts[place]);
        }
        self.apply(Message { prev, cur, seq }, source);
        self.forget_parts();
        (self.durable.log_received, self.durable.applying_upto) = (cur, cur);
        self.durable.time_received = self.given.now;
        reason
    }

    fn apply(&mut self, message: Message, source: Source) {
        let Message { prev, cur, seq } = message;
        if source == EARLIER {
            let (stream, apply_rank) = (self.given.stream, self.rank);
            self.outputs.released.push(Released { stream, prev, cur, seq, apply_rank });
        } else {
            self.outputs.apply_ranks[source as usize] = self.rank;
        }
        self.rank += 1;
        self.durable.receive_count += 1;
    }

    /// Releases held messages: the expected one is buffered or applied, then the next.
    #[inline]
    fn release(&mut self) {
        if self.blocked {
            return;
        }
        while let Some(front) = self.shelf.take(self.durable.log_received, self.volatile.next) {
            match front {
                Front::Expected(Message { prev, cur, seq }, source) => {
                    let header = PartHeader { resend_count: self.durable.rereceive_count, prev, cur, seq };
                    let reason = if header.is_open_part() { Reason::HeldPart } else { Reason::HeldApplied };
                    self.advance(header, source, reason);
                    if source != EARLIER {
                        self.outputs.reasons[source as usize] = reason;
                    }
                }
                Front::Passed(message, source) => {
                    let overlaps = message.cur > self.durable.log_received;
                    if overlaps {
                        self.seen.overlap_upto = self.seen.overlap_upto.max(message.cur);
                    }
                    let reason = if overlaps { Reason::HeldOverlap } else { Reason::HeldCovered };
                    forget(self.outputs, self.given.stream, message, source, reason);
                }
            }
        }
    }

    /// Rule 2: joins the later epoch of a message that starts where this side stands.
    fn adopt(&mut self, epoch: u64) {
        self.durable.rereceive_count = epoch;
        self.volatile.outstanding = true;
        self.drop_kept();
    }

    /// Drops what is held and buffered.
    pub(super) fn drop_kept(&mut self) {
        let (outputs, stream, prev) = (&mut *self.outputs, self.given.stream, self.durable.log_received);
        for part in 0..self.volatile.next {
            let source = part.checked_sub(self.earlier_parts).map_or(EARLIER, |place| self.parts[place as usize]);
            let message = Message { prev, cur: prev, seq: part as u32 };
            forget(outputs, stream, message, source, Reason::PartDropped);
        }
        self.shelf.clear(prev, |message, source| {
            forget(outputs, stream, message, source, Reason::HeldDropped);
        });
        self.forget_parts();
        self.volatile.future = false;
        self.volatile.patience = None;
    }

    fn forget_parts(&mut self) {
        self.parts.clear();
        self.earlier_parts = 0;
        self.volatile.next = 0;
    }
}

/// Drops a kept message without applying it.
pub(super) fn forget(outputs: &mut Outputs, stream: u32, message: Message, source: Source, reason: Reason) {
    if source == EARLIER {
        outputs.dropped.push(Dropped { stream, prev: message.prev, seq: message.seq });
    } else {
        outputs.reasons[source as usize] = reason;
    }
}
