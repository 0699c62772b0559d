//! Every interleaving of a few writers whose lock is given to all who ask: a breadth-first search
//! over a model of `store/alone.rs`. Each read and write of the registers, the log or a manifest's
//! name is one step. A writer may pause or die before any step.
#![allow(clippy::unwrap_used, clippy::panic, clippy::struct_excessive_bools, missing_docs, reason = "tests")]

#[path = "harness/search.rs"]
#[expect(unreachable_pub, reason = "other files of tests use it as well")]
mod search;

use search::search;

const CELLS: usize = 6;
const MOST: usize = 3;

/// What stands in `LATEST`: a writer, and the visit in which it wrote this.
type Visit = (u8, u8);

/// What stands in `WITHIN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Within {
    #[default]
    Zeros,
    In(u8),
    /// Nobody, but the next writer is not clean.
    Refused,
    /// Who left, as it stood in `LATEST`, and in which of its visits.
    Left(Visit, u8),
}

/// What a writer does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Next {
    #[default]
    Arrive,
    Come,
    LookAgain,
    Sign,
    ReadLog,
    CheckSeal,
    Seal,
    Check,
    Append,
    Recheck,
    Leave,
    LookBeforeLeaving,
    ClearAfterLook,
    Acknowledge,
    Dead,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Writer {
    next: Next,
    turn: u8,
    visit: Visit,
    /// It saw that nobody can be within.
    is_clean: bool,
    is_sure: bool,
    is_new: bool,
    seen: Within,
    number: u8,
    log: u8,
    known: u8,
    end: u8,
}

/// Writers are 1, 2, …; turn t of each begins id t.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    latest: Visit,
    within: Within,
    /// The newest manifest, the log that it names, and the ids that stand in segments.
    number: u8,
    log: u8,
    sealed: u8,
    /// The live log's frames: an id and one, or 0.
    frames: [u8; CELLS],
    acknowledged: u8,
    is_twice: bool,
    deaths: u8,
    writers: [Writer; MOST],
}

/// What is modelled.
#[derive(Clone, Copy, Debug)]
struct Model {
    writers: usize,
    turns: u8,
    deaths: u8,
    /// Nobody can tell whether a process is alive: a writer that pauses passes for dead.
    is_blind: bool,
    /// A writer that is not sure to be alone ends the log first.
    seals: bool,
    /// The registers are read once more after the append.
    rechecks: bool,
    /// What stands in `WITHIN` afterwards names the visit.
    names_turns: bool,
}

const MENDED: Model =
    Model { writers: 2, turns: 2, deaths: 1, is_blind: true, seals: true, rechecks: true, names_turns: true };

impl State {
    fn log_end(&self) -> usize {
        self.frames.iter().position(|frame| *frame == 0).unwrap_or(CELLS)
    }

    /// The ids that a reader finds now.
    fn readable(&self) -> u8 {
        self.frames[..self.log_end()].iter().fold(self.sealed, |ids, frame| ids | 1 << (frame - 1))
    }

    fn is_broken(&self) -> bool {
        self.is_twice || self.acknowledged & !self.readable() != 0
    }
}

impl Model {
    /// All states that may follow, each with what was done.
    fn after(&self, state: &State, found: &mut Vec<(State, (u8, Next))>) {
        for at in 0..self.writers {
            let next = state.writers[at].next;
            if next == Next::Dead || state.writers[at].turn >= self.turns {
                continue;
            }
            let step = (at as u8 + 1, next);
            let mut after = *state;
            self.step(&mut after, at, false);
            found.push((after, step));
            if self.is_blind {
                let mut after_watch = *state;
                self.step(&mut after_watch, at, true);
                found.push((after_watch, step));
            }
            if state.deaths < self.deaths && next != Next::Arrive {
                let mut dead = *state;
                dead.deaths += 1;
                dead.writers[at] = Writer { next: Next::Dead, ..Writer::default() };
                found.push((dead, (at as u8 + 1, Next::Dead)));
            }
        }
    }

    /// `passes_for_dead`: the writer in `WITHIN` is taken to be dead, rightly or not.
    fn step(&self, state: &mut State, at: usize, passes_for_dead: bool) {
        let me = at as u8 + 1;
        let mut own = state.writers[at];
        match own.next {
            Next::Arrive => {
                let (turn, visit) = (own.turn, own.visit);
                own = Writer { turn, visit, seen: state.within, ..Writer::default() };
                own.is_clean = match state.within {
                    Within::Left(visit, _) => visit == state.latest,
                    Within::Zeros => !self.seals || state.latest == (0, 0),
                    Within::In(_) | Within::Refused => false,
                };
                own.next = Next::Come;
                if state.latest.0 == me && state.latest == own.visit {
                    own.next = self.decide(state, &mut own, me, passes_for_dead);
                }
            }
            Next::Come => {
                own.visit = (me, if self.names_turns { own.turn + 1 } else { 1 });
                (state.latest, own.next) = (own.visit, Next::LookAgain);
            }
            Next::LookAgain => own.next = self.decide(state, &mut own, me, passes_for_dead),
            Next::Sign => (state.within, own.next) = (Within::In(me), Next::ReadLog),
            Next::ReadLog => {
                (own.number, own.log, own.known) = (state.number, state.log, state.readable());
                own.end = state.log_end() as u8;
                own.next = if own.is_clean { Self::look_up(&own) } else { Next::CheckSeal };
            }
            Next::CheckSeal => own.next = Self::checked(state, &mut own, Next::Seal),
            Next::Seal => {
                // The name of the next manifest is given once.
                own.next = if state.number == own.number { Self::seal(state, &mut own) } else { Next::Leave };
            }
            Next::Check => own.next = Self::checked(state, &mut own, Next::Append),
            Next::Append => {
                if state.log == own.log {
                    state.frames[usize::from(own.end)] = own.turn + 1;
                }
                own.is_new = true;
                own.next = if self.rechecks { Next::Recheck } else { Next::Leave };
            }
            Next::Recheck => own.next = Self::checked(state, &mut own, Next::Leave),
            Next::Leave => {
                if own.is_sure && own.is_clean {
                    self.clear(state, &mut own);
                } else {
                    own.next = Next::LookBeforeLeaving;
                }
            }
            Next::LookBeforeLeaving => {
                own.is_sure = state.latest == own.visit;
                let is_ours = state.within == Within::In(me) && (own.is_sure || self.seals);
                own.next = if is_ours { Next::ClearAfterLook } else { Next::Acknowledge };
            }
            Next::ClearAfterLook => self.clear(state, &mut own),
            Next::Acknowledge => {
                if own.is_new {
                    let id = 1 << own.turn;
                    state.is_twice |= state.acknowledged & id != 0;
                    state.acknowledged |= id;
                }
                own = Writer { turn: own.turn + 1, visit: own.visit, ..Writer::default() };
            }
            Next::Dead => {}
        }
        state.writers[at] = own;
    }

    /// The second look at the registers.
    fn decide(&self, state: &State, own: &mut Writer, me: u8, passes_for_dead: bool) -> Next {
        let refused = Next::Acknowledge;
        own.is_clean &= !self.seals || state.within == own.seen;
        if let Within::In(who) = state.within {
            let is_dead = state.writers[usize::from(who) - 1].next == Next::Dead;
            if who != me && !is_dead && !passes_for_dead {
                return refused;
            }
            own.is_clean = !self.seals;
        } else if !self.seals {
            own.is_clean = true;
        }
        Next::Sign
    }

    fn checked(state: &State, own: &mut Writer, then: Next) -> Next {
        own.is_sure = state.latest == own.visit;
        if own.is_sure {
            return then;
        }
        own.is_new = false;
        Next::Leave
    }

    fn look_up(own: &Writer) -> Next {
        if own.known & 1 << own.turn == 0 { Next::Check } else { Next::Leave }
    }

    fn seal(state: &mut State, own: &mut Writer) -> Next {
        (state.sealed, state.frames) = (own.known, [0; CELLS]);
        (state.number, state.log) = (state.number + 1, state.log + 1);
        (own.number, own.log, own.end, own.is_clean) = (state.number, state.log, 0, true);
        Self::look_up(own)
    }

    fn clear(&self, state: &mut State, own: &mut Writer) {
        let turn = if self.names_turns { own.turn } else { 0 };
        state.within = match (self.seals, own.is_sure && own.is_clean) {
            (false, _) => Within::Zeros,
            (true, true) => Within::Left(own.visit, turn),
            (true, false) => Within::Refused,
        };
        own.next = Next::Acknowledge;
    }

    /// The shortest way to a broken state, if there is one, and how many states there are.
    fn search(&self) -> (Option<Vec<(u8, Next)>>, usize) {
        let wrong = |state: &State| state.is_broken().then_some(());
        let (found, states) = search(State::default(), wrong, |state, found| self.after(state, found));
        (found.map(|((), way)| way), states)
    }
}

#[test]
fn mended_registers_lose_nothing_in_any_interleaving() {
    let of_three = Model { writers: 3, turns: 1, deaths: 0, is_blind: false, ..MENDED };
    for model in [MENDED, of_three, Model { is_blind: false, ..MENDED }] {
        let (way, states) = model.search();
        assert_eq!(way, None, "{model:?}");
        assert!(states > 10_000, "{states} states of {model:?}");
    }
}

#[test]
fn registers_without_the_second_look_lose_an_acknowledged_id() {
    let (way, _) = Model { rechecks: false, ..MENDED }.search();
    let way = way.unwrap();
    assert_eq!(way.last(), Some(&(2, Next::Seal)), "{way:?}");
}

#[test]
fn registers_that_end_no_log_lose_an_acknowledged_id() {
    // Nobody dies, and all can be asked whether they live.
    let (way, _) = Model { seals: false, is_blind: false, deaths: 0, ..MENDED }.search();
    let way = way.unwrap();
    assert_eq!(way.last(), Some(&(2, Next::Append)), "{way:?}");
}
