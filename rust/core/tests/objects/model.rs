//! Every interleaving of writers, readers and a collector on a bucket: a breadth-first search over
//! a model of `docs/object-storage.md`. Each request is one step. A request may be executed late,
//! twice, or both; its answer may be lost; anybody may sleep before any step, for any time.

use crate::harness::search::search;

/// Commits are numbered from 1; number 1 is there from the start.
const NUMBERS: usize = 5;
const WRITERS: usize = 3;
const REQUESTS: usize = 2;

/// A commit: which one it is, which one it follows, and the ids that the history holds with it.
/// Token 0 stands for no commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Commit {
    token: u8,
    follows: u8,
    ids: u8,
}

/// A commit and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Head {
    number: u8,
    commit: Commit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Gate {
    #[default]
    Absent,
    Open,
    Closed,
}

/// A create-if-absent on its way, and how often it may still be executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Request {
    copies: u8,
    number: u8,
    commit: Commit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Next {
    #[default]
    Idle,
    /// Read the commit that follows the head, until there is none.
    Walk,
    CheckWalk,
    /// It lost its place: it begins at any commit that it finds, as a stale hint would have it.
    Find,
    OpenGate,
    Put,
    Wait,
    ReadBack,
    Check,
    Close,
    Delete,
}

/// A writer, or the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Actor {
    next: Next,
    /// What it has accepted.
    known: Head,
    /// What it has read since, and has not accepted.
    head: Head,
    /// What it was asked to do so far.
    turn: u8,
    /// The ids that were acknowledged when it began to read, and the newest commit then.
    acknowledged: u8,
    newest: u8,
    /// Whether the head was read for a commit that proves it, and is not proved yet.
    is_unproven: bool,
    /// Where the collector is.
    at: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    commits: [Commit; NUMBERS],
    gates: [Gate; NUMBERS],
    /// The first commit that ever had a number: the history as it happened.
    first: [u8; NUMBERS],
    requests: [Request; REQUESTS],
    writers: [Actor; WRITERS],
    collector: Actor,
    /// Ids that were acknowledged as NEW.
    acknowledged: u8,
    duplicates: u8,
    broken: Option<&'static str>,
}

/// What follows a create, and what ends a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    None,
    /// The commit before it still stands, and is the one that was known.
    Predecessor,
    /// The gate of its block is open.
    Gate,
}

#[derive(Clone, Copy, Debug)]
struct Model {
    check: Check,
    /// Commits that share a gate.
    block: u8,
    /// Requests that are executed twice.
    duplicates: u8,
    /// Whether the collector closes a gate before it deletes behind it.
    closes: bool,
    /// Whether a writer answers DUPLICATE by what it read for a commit, without a proof.
    believes: bool,
    /// Whether a writer also reads in between.
    reads: bool,
    /// The ids that each writer begins, one after the other.
    turns: [&'static [u8]; WRITERS],
}

const PROTOCOL: Model = Model {
    check: Check::Gate,
    block: 1,
    duplicates: 1,
    closes: true,
    believes: false,
    reads: true,
    turns: [&[0, 1], &[1], &[]],
};
/// The writer that also reads in between.
const READER: usize = 1;

type Step = (u8, Next);

impl State {
    fn start() -> Self {
        let mut state = Self::default();
        let commit = Commit { token: 1, follows: 0, ids: 0 };
        (state.commits[0], state.first[0], state.gates[0]) = (commit, 1, Gate::Open);
        let actor = Actor { known: Head { number: 1, commit }, ..Actor::default() };
        (state.writers, state.collector) = ([actor; WRITERS], actor);
        state
    }

    /// Two writers have slept since commit 1, the first after it sent a request for number 2. By
    /// now there is commit 4, and those before it are collected.
    fn slept(model: &Model) -> Self {
        let mut state = Self::start();
        let first = state.writers[0];
        state.first = [1, 101, 102, 103, 0];
        let newest = Commit { token: 103, follows: 102, ids: 1 << 1 };
        state.commits = [0, 0, 0, 1, 0].map(|is_there| if is_there == 1 { newest } else { Commit::default() });
        state.gates = [Gate::Closed, Gate::Closed, Gate::Closed, Gate::Open, Gate::Absent];
        state.acknowledged = newest.ids;
        state.writers[0].next = Next::Wait;
        state.writers[READER].known = Head { number: 4, commit: newest };
        state.requests[REQUESTS - 1] = Request { copies: 1, number: 2, commit: model.own(first, 0) };
        state
    }

    fn get(&self, number: u8) -> Commit {
        self.commits.get(usize::from(number) - 1).copied().unwrap_or_default()
    }

    fn newest(&self) -> u8 {
        self.first.iter().rposition(|token| *token != 0).map_or(0, |at| at as u8 + 1)
    }

    /// A create-if-absent is executed.
    fn create(&mut self, number: u8, commit: Commit) {
        let at = usize::from(number) - 1;
        if self.commits[at].token == 0 {
            self.commits[at] = commit;
            if self.first[at] == 0 {
                self.first[at] = commit.token;
            }
        }
    }

    fn gate(&mut self, model: &Model, number: u8) -> &mut Gate {
        &mut self.gates[usize::from((number - 1) / model.block)]
    }

    fn actor(&mut self, who: usize) -> &mut Actor {
        if who < WRITERS { &mut self.writers[who] } else { &mut self.collector }
    }

    fn begin_walk(&mut self, who: usize, is_unproven: bool) {
        let (acknowledged, newest) = (self.acknowledged, self.newest());
        let own = self.actor(who);
        *own = Actor { next: Next::Walk, head: own.known, acknowledged, newest, is_unproven, ..*own };
    }

    fn blame(&mut self, what: &'static str) {
        self.broken.get_or_insert(what);
    }
}

impl Model {
    fn after(&self, state: &State, found: &mut Vec<(State, Step)>) {
        for place in 0..REQUESTS {
            if state.requests[place].copies > 0 {
                let mut after = *state;
                let Request { number, commit, .. } = after.requests[place];
                after.create(number, commit);
                after.requests[place].copies -= 1;
                if after.requests[place].copies == 0 {
                    after.requests[place] = Request::default();
                }
                // In any order: the place does not matter.
                after.requests.sort_by_key(|request| (request.number, request.commit.token));
                found.push((after, (9, Next::Put)));
            }
        }
        for who in 0..=WRITERS {
            self.step(state, who, found);
        }
    }

    fn step(&self, state: &State, who: usize, found: &mut Vec<(State, Step)>) {
        let own = *state.writers.get(who).unwrap_or(&state.collector);
        let mut push = |change: &dyn Fn(&mut State)| {
            let mut after = *state;
            change(&mut after);
            found.push((after, (who as u8, own.next)));
        };
        let goes_to = |next: Next| move |state: &mut State| state.actor(who).next = next;
        match own.next {
            // It may sleep with what it knows now, for as long as it likes.
            Next::Idle if who == WRITERS => push(&|state| {
                let number = state.newest();
                let known = Head { number, commit: state.get(number) };
                *state.actor(who) = Actor { next: Next::Close, known, ..own };
            }),
            Next::Idle => {
                if who == READER && self.reads {
                    push(&|state| state.begin_walk(who, false));
                }
                if let Some(id) = self.turns[who].get(usize::from(own.turn)) {
                    push(&|state| self.decide(state, who, *id));
                }
            }
            Next::Find if self.check == Check::Predecessor => {}
            Next::Find => {
                for number in 1..=NUMBERS as u8 {
                    let commit = state.get(number);
                    if commit.token != 0 {
                        push(&|state| {
                            let (acknowledged, newest, head) =
                                (state.acknowledged, state.newest(), Head { number, commit });
                            let is_unproven = false;
                            *state.actor(who) =
                                Actor { next: Next::Walk, head, known: head, acknowledged, newest, is_unproven, ..own };
                        });
                    }
                }
            }
            Next::Walk => push(&|state| {
                let commit = state.get(own.head.number + 1);
                let (head, next) = match commit.token {
                    0 => (own.head, Next::CheckWalk),
                    _ if commit.follows != own.head.commit.token => (own.head, Next::Find),
                    _ => (Head { number: own.head.number + 1, commit }, Next::Walk),
                };
                *state.actor(who) = Actor { next, head, ..own };
            }),
            Next::CheckWalk => push(&|state| self.accept(state, who, own)),
            Next::OpenGate => push(&|state| {
                let gate = state.gate(self, own.known.number + 1);
                *gate = if *gate == Gate::Absent { Gate::Open } else { *gate };
                state.actor(who).next = Next::Put;
            }),
            Next::Put => {
                let Some(free) = state.requests.iter().position(|request| request.copies == 0) else { return };
                for duplicates in 0..=u8::from(state.duplicates < self.duplicates) {
                    push(&|state| {
                        state.requests[free] = Request {
                            copies: 1 + duplicates,
                            number: own.known.number + 1,
                            commit: self.own(own, who),
                        };
                        state.requests.sort_by_key(|request| (request.number, request.commit.token));
                        state.duplicates += duplicates;
                        state.actor(who).next = Next::Wait;
                    });
                }
            }
            // The answer came, or nobody waits for it any longer: what is there decides.
            Next::Wait => push(&goes_to(Next::ReadBack)),
            Next::ReadBack => {
                let commit = state.get(own.known.number + 1);
                if commit.token == self.own(own, who).token {
                    push(&goes_to(Next::Check));
                } else if commit.token != 0 {
                    // Its next commit proves what it reads.
                    push(&|state| state.begin_walk(who, true));
                } else {
                    // It is given up: the documents stay in doubt. (A request that is sent again is
                    // one that is executed twice.)
                    push(&|state| *state.actor(who) = Actor { next: Next::Idle, turn: own.turn + 1, ..own });
                }
            }
            Next::Check => push(&|state| self.acknowledge(state, who, own)),
            Next::Close => {
                if self.block_of(own.at + 1) >= self.block_of(own.known.number) {
                    push(&|state| *state.actor(who) = Actor { next: Next::Idle, at: 0, ..own });
                } else {
                    push(&|state| {
                        if self.closes {
                            *state.gate(self, own.at + 1) = Gate::Closed;
                        }
                        state.actor(who).next = Next::Delete;
                    });
                }
            }
            Next::Delete => push(&|state| {
                state.commits[usize::from(own.at)] = Commit::default();
                *state.actor(who) = Actor { next: Next::Close, at: own.at + 1, ..own };
            }),
        }
    }

    fn block_of(&self, number: u8) -> u8 {
        number.saturating_sub(1) / self.block
    }

    /// The commit that a writer is about to put.
    fn own(&self, own: Actor, who: usize) -> Commit {
        let id = self.turns[who].get(usize::from(own.turn)).copied().unwrap_or(7);
        let token = 2 + (who as u8) * 64 + own.turn * 8 + own.known.number;
        Commit { token, follows: own.known.commit.token, ids: own.known.commit.ids | 1 << id }
    }

    fn decide(&self, state: &mut State, who: usize, id: u8) {
        let first = state.first;
        let own = state.actor(who);
        if own.known.commit.ids & 1 << id != 0 {
            if own.is_unproven && !self.believes {
                return state.begin_walk(who, false);
            }
            // DUPLICATE.
            own.turn += 1;
            if first[usize::from(own.known.number) - 1] != own.known.commit.token {
                state.blame("a DUPLICATE rests on a commit that never counted");
            }
        } else if usize::from(own.known.number) < NUMBERS {
            let is_first = self.block_of(own.known.number + 1) > self.block_of(own.known.number);
            own.next = if is_first { Next::OpenGate } else { Next::Put };
        }
    }

    fn holds(&self, state: &mut State, of: Head, stands: Head) -> bool {
        match self.check {
            Check::None => true,
            Check::Predecessor => state.get(stands.number) == stands.commit,
            Check::Gate => *state.gate(self, of.number) == Gate::Open,
        }
    }

    /// The end of a walk.
    fn accept(&self, state: &mut State, who: usize, own: Actor) {
        if own.is_unproven {
            let (known, head) = (own.head, Head::default());
            *state.actor(who) = Actor { next: Next::Idle, known, head, acknowledged: 0, newest: 0, ..own };
            return;
        }
        if !self.holds(state, own.head, own.known) {
            state.actor(who).next = Next::Find;
            return;
        }
        let head = own.head;
        if state.first[usize::from(head.number) - 1] != head.commit.token {
            state.blame("a commit that never counted is taken for the history");
        }
        if own.acknowledged & !head.commit.ids != 0 || head.number < own.newest {
            state.blame("a reader misses what was acknowledged");
        }
        *state.actor(who) =
            Actor { next: Next::Idle, known: head, head: Head::default(), acknowledged: 0, newest: 0, ..own };
    }

    /// The create is known to have been executed.
    fn acknowledge(&self, state: &mut State, who: usize, own: Actor) {
        if !self.holds(state, own.known, own.known) {
            state.actor(who).next = Next::Find;
            return;
        }
        let commit = self.own(own, who);
        let id = commit.ids & !own.known.commit.ids;
        if state.acknowledged & id != 0 {
            state.blame("an id is NEW twice");
        }
        state.acknowledged |= id;
        let known = Head { number: own.known.number + 1, commit };
        *state.actor(who) = Actor { next: Next::Idle, turn: own.turn + 1, known, is_unproven: false, ..own };
    }

    /// The shortest way to a broken state, if there is one, and how many states there are.
    fn search(&self) -> (Option<(&'static str, Vec<Step>)>, usize) {
        search(State::start(), |state| state.broken, |state, found| self.after(state, found))
    }
}

#[test]
fn the_protocol_loses_nothing_in_any_interleaving() {
    for model in [PROTOCOL, Model { block: 2, ..PROTOCOL }] {
        let (way, states) = model.search();
        assert_eq!(way, None, "{model:?}");
        assert!(states > 100_000, "{states} states of {model:?}");
        println!("{model:?}: {states} states");
    }
}

#[test]
fn what_is_read_for_a_commit_is_proved_before_it_is_answered() {
    let found =
        |model: &Model| search(State::slept(model), |state| state.broken, |state, found| model.after(state, found));
    let sleepers = Model { duplicates: 0, reads: false, turns: [&[0], &[], &[0]], ..PROTOCOL };
    let (way, states) = found(&sleepers);
    assert_eq!(way, None);
    assert!(states > 10_000, "{states} states");
    let (what, way) = found(&Model { believes: true, ..sleepers }).0.unwrap();
    println!("{what}: {way:?}");
    assert!(way.iter().any(|(who, step)| (*who, *step) == (2, Next::ReadBack)), "{way:?}");
}

#[test]
fn without_the_check_after_the_create_an_id_is_new_twice() {
    let (way, _) = Model { check: Check::None, duplicates: 0, ..PROTOCOL }.search();
    let (what, way) = way.unwrap();
    println!("{what}: {way:?}");
    assert!(way.iter().any(|(_, step)| *step == Next::Delete), "{way:?}");
}

#[test]
fn a_collector_that_closes_no_gate_loses_an_id() {
    let (way, _) = Model { closes: false, duplicates: 0, ..PROTOCOL }.search();
    assert!(way.is_some());
}

#[test]
fn a_look_at_the_predecessor_fails_if_a_request_comes_twice() {
    let looks = Model { check: Check::Predecessor, turns: [&[0, 1, 2], &[1], &[]], ..PROTOCOL };
    let (way, _) = looks.search();
    let (what, way) = way.unwrap();
    println!("{what}: {way:?}");
    assert!(way.iter().any(|(_, step)| *step == Next::Delete), "{way:?}");
}
