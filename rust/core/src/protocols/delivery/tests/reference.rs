//! The rules once more, one message at a time over a tree, without a thought for speed; and both
//! compared on random polls.
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A row of this poll, or none for an earlier one.
type From = Option<usize>;

#[derive(Clone, Debug, Default, PartialEq)]
struct Naive {
    l: u64,
    rr: u64,
    k: u64,
    count: u64,
    held: BTreeMap<(u64, u32), (u64, From)>,
    parts: Vec<From>,
    patience: Option<u32>,
    future: bool,
    outstanding: bool,
    stale_polls: u32,
}

#[derive(Debug, Default, PartialEq)]
struct Told {
    rows: BTreeMap<usize, (Decision, Status)>,
    order: Vec<(u64, u64, u32)>,
    dropped: Vec<(u64, u32)>,
    confirm: Option<u64>,
    resend: Option<(u64, u64)>,
}

impl Naive {
    fn start(l: u64, rr: u64, k: u64) -> Self {
        Self { l, rr, k, outstanding: rr > 0, ..Self::default() }
    }

    fn poll(&mut self, rows: &[(usize, Option<PartHeader>)], options: &Options) -> Told {
        let mut told = Told::default();
        let (mut news, mut stale, mut other, mut overlap) = (false, false, false, 0);
        for &(row, header) in rows {
            let is_sound =
                |h: &PartHeader| h.cur >= h.prev && (h.resend_count <= self.rr || h.resend_count < 2_147_483_647);
            let Some(h) = header.filter(is_sound) else {
                told.rows.insert(row, (Decision::Corrupt, Status::InDoubt));
                continue;
            };
            let mut joined = false;
            if h.resend_count > self.rr && h.prev == self.l && h.seq == 0 {
                self.rr = h.resend_count;
                self.forget_all(&mut told);
                (self.outstanding, joined) = (true, true);
            }
            let outcome = self.one(h, row, &mut told, &mut overlap);
            told.rows.insert(row, outcome);
            if matches!(outcome.0, Decision::Part | Decision::Apply) {
                self.look_at_held(&mut told, &mut overlap);
            }
            stale |= outcome.0 == Decision::Stale;
            other |= outcome.0 != Decision::Stale;
            news |= matches!(outcome.0, Decision::Future | Decision::Hold | Decision::Part | Decision::Apply);
            if !joined && h.resend_count == self.rr {
                self.outstanding = false;
            }
        }
        self.finish(&mut told, options, news, stale, other, overlap);
        told
    }

    fn one(&mut self, h: PartHeader, row: usize, told: &mut Told, overlap: &mut u64) -> (Decision, Status) {
        use Decision as D;
        use Status as S;
        let next = self.parts.len() as u32;
        if h.resend_count < self.rr {
            (D::Stale, S::Duplicate)
        } else if h.resend_count > self.rr {
            self.future = true;
            (D::Future, S::InDoubt)
        } else if (h.cur > h.prev && h.cur <= self.l) || (h.cur == h.prev && h.prev < self.l) {
            (D::Duplicate, S::Duplicate)
        } else if h.prev < self.l {
            *overlap = (*overlap).max(h.cur);
            (D::Overlap, S::InDoubt)
        } else if h.prev == self.l && h.seq < next {
            if h.cur == h.prev { (D::Duplicate, S::Duplicate) } else { (D::Conflict, S::InDoubt) }
        } else if let Some((cur, _)) = self.held.get(&(h.prev, h.seq)) {
            if *cur == h.cur { (D::Duplicate, S::Duplicate) } else { (D::Conflict, S::InDoubt) }
        } else if h.prev > self.l || h.seq > next {
            self.held.insert((h.prev, h.seq), (h.cur, Some(row)));
            (D::Hold, S::Held)
        } else {
            self.take(h.prev, h.cur, h.seq, Some(row), told);
            (if h.cur == h.prev { D::Part } else { D::Apply }, S::New)
        }
    }

    fn take(&mut self, prev: u64, cur: u64, seq: u32, from: From, told: &mut Told) {
        self.parts.push(from);
        if cur > prev {
            for part in 0..seq {
                told.order.push((prev, prev, part));
            }
            told.order.push((prev, cur, seq));
            self.count += self.parts.len() as u64;
            self.parts.clear();
            self.l = cur;
        }
    }

    fn look_at_held(&mut self, told: &mut Told, overlap: &mut u64) {
        while let Some((&(prev, seq), &(cur, from))) = self.held.first_key_value() {
            let expected = (self.l, self.parts.len() as u32);
            if (prev, seq) > expected {
                return;
            }
            self.held.remove(&(prev, seq));
            if (prev, seq) == expected {
                self.take(prev, cur, seq, from, told);
                from.map(|row| told.rows.insert(row, (Decision::Hold, Status::New)));
            } else {
                let covered = cur <= self.l;
                *overlap = (*overlap).max(if covered { 0 } else { cur });
                drop_one(
                    told,
                    prev,
                    seq,
                    from,
                    (Decision::Hold, if covered { Status::Duplicate } else { Status::InDoubt }),
                );
            }
        }
    }

    fn forget_all(&mut self, told: &mut Told) {
        for (part, from) in std::mem::take(&mut self.parts).into_iter().enumerate() {
            drop_one(told, self.l, part as u32, from, (Decision::Part, Status::InDoubt));
            // A part that was held first stays a held one.
        }
        for ((prev, seq), (_, from)) in std::mem::take(&mut self.held) {
            drop_one(told, prev, seq, from, (Decision::Hold, Status::InDoubt));
        }
        (self.future, self.patience) = (false, None);
    }

    fn finish(&mut self, told: &mut Told, options: &Options, news: bool, stale: bool, other: bool, overlap: u64) {
        let missing = !self.held.is_empty() || self.future;
        self.patience = match self.patience {
            _ if !missing => None,
            Some(left) if !(news && options.reset_patience) => Some(left.saturating_sub(1)),
            _ => Some(options.patience),
        };
        let go_back = overlap > self.l || missing && (options.batch_mode || self.patience == Some(0));
        if go_back {
            self.rr += 1;
            self.forget_all(told);
            self.outstanding = true;
            told.resend = Some((self.rr, self.l));
        }
        while self.held.len() > options.held_limit {
            let ((prev, seq), (_, from)) = self.held.pop_last().unwrap();
            drop_one(told, prev, seq, from, (Decision::Hold, Status::InDoubt));
        }
        if go_back || other || !self.outstanding {
            self.stale_polls = 0;
        } else if stale {
            self.stale_polls += 1;
            if self.stale_polls > options.patience {
                self.stale_polls = 0;
                told.resend = Some((self.rr, self.l));
            }
        }
        told.confirm = (self.l > self.k).then_some(self.l);
        self.k = self.l;
        self.held.values_mut().for_each(|(_, from)| *from = None);
        self.parts.iter_mut().for_each(|from| *from = None);
        told.dropped.sort_unstable();
    }
}

fn drop_one(told: &mut Told, prev: u64, seq: u32, from: From, outcome: (Decision, Status)) {
    match from {
        None => told.dropped.push((prev, seq)),
        Some(row) => {
            told.rows.insert(row, outcome);
        }
    }
}

fn columnar(poll: &Poll, arrivals: &[Arriving<'_>], stream: &str) -> Told {
    let rows = arrivals.iter().enumerate().filter(|(_, (of, _))| *of == stream);
    let mut told = Told {
        rows: rows.map(|(row, _)| (row, (poll.rows.decision(row), poll.rows.status(row)))).collect(),
        order: applied(poll, arrivals, stream),
        ..Told::default()
    };
    if let Some(at) = poll.streams.iter().position(|one| &*one.stream == stream) {
        let dropped = poll.dropped.iter().filter(|one| one.stream as usize == at);
        told.dropped = dropped.map(|one| (one.prev, one.seq)).collect();
        told.dropped.sort_unstable();
        told.confirm = poll.streams[at].confirm;
        told.resend = poll.streams[at].resend;
    }
    told
}

/// Messages in so small a world that all rules meet.
fn any_arrival() -> impl Strategy<Value = (usize, Option<PartHeader>)> {
    let epoch = prop_oneof![8 => Just(0_u64), 2 => Just(1), 1 => 0..4_u64];
    let seq = prop_oneof![4 => Just(0_u32), 2 => 0..4_u32];
    let header =
        (epoch, 0..9_u64, 0..3_u64, seq).prop_map(|(epoch, prev, step, seq)| header(epoch, prev, prev + step, seq));
    (0..3_usize, prop::option::weighted(0.95, header))
}

fn any_options() -> impl Strategy<Value = Options> {
    let limit = prop_oneof![3 => Just(1 << 20), 1 => 1..4_usize];
    (0..4_u32, prop::bool::weighted(0.1), prop::bool::weighted(0.7), limit).prop_map(
        |(patience, batch_mode, reset_patience, held_limit)| Options {
            patience,
            batch_mode,
            reset_patience,
            held_limit,
            first_contact: false,
        },
    )
}

/// What happens after a poll was decided.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Commit,
    Forget,
    Crash,
}

const STREAMS: [&str; 3] = ["a", "b", "c"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn the_columnar_rules_say_what_the_naive_ones_say(
        options in any_options(),
        starts in prop::array::uniform3((0..4_u64, 0..2_u64)),
        polls in prop::collection::vec(
            (
                prop::collection::vec(any_arrival(), 0..24),
                prop_oneof![8 => Just(Then::Commit), 1 => Just(Then::Forget), 1 => Just(Then::Crash)],
            ),
            1..8,
        ),
    ) {
        let mut table = StreamTable::new();
        let mut naive = Vec::new();
        for (name, (l, rr)) in STREAMS.iter().zip(starts) {
            table.insert(name, ReceiverState { rereceive_count: rr, ..ReceiverState::starting_at(l) }).unwrap();
            naive.push(Naive::start(l, rr, l));
        }
        for (arrivals, then) in polls {
            let arrivals: Vec<Arriving<'_>> = arrivals.into_iter().map(|(of, header)| (STREAMS[of], header)).collect();
            let poll = poll_headers(&table, &arrivals, &options);
            let mut after = naive.clone();
            for (of, name) in STREAMS.iter().enumerate() {
                let rows: Vec<_> =
                    arrivals.iter().enumerate().filter(|(_, (s, _))| s == name).map(|(row, (_, h))| (row, *h)).collect();
                let mut told = after[of].poll(&rows, &options);
                let found = columnar(&poll, &arrivals, name);
                // Whether a dropped message was a part or held when it came is told by its own row
                // only.
                soften(&mut told, &found);
                prop_assert_eq!(&found, &told, "stream {}, {:?}", name, rows);
            }
            match then {
                Then::Forget => {}
                Then::Commit => {
                    naive = after;
                    table.commit(poll).unwrap();
                }
                Then::Crash => {
                    table.commit(poll).unwrap();
                    let states: Vec<_> = STREAMS.iter().map(|name| *table.state(name).unwrap()).collect();
                    table = StreamTable::new();
                    for ((name, state), model) in STREAMS.iter().zip(states).zip(&mut naive) {
                        table.insert(name, ReceiverState::decode(&state.encode()).unwrap()).unwrap();
                        *model = Naive::start(state.log_received, state.rereceive_count, state.confirm_received);
                        model.count = state.receive_count;
                    }
                    for (model, reached) in naive.iter().zip(&after) {
                        prop_assert_eq!((model.l, model.rr, model.k, model.count), (reached.l, reached.rr, reached.k, reached.count));
                    }
                }
            }
        }
    }
}

/// The reference does not remember how a dropped part arrived.
fn soften(told: &mut Told, found: &Told) {
    for (row, (decision, status)) in &mut told.rows {
        if let (Decision::Part, Status::InDoubt, Some((Decision::Hold, _))) = (*decision, *status, found.rows.get(row))
        {
            *decision = Decision::Hold;
        }
    }
}
