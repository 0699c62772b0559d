//! Every interleaving of a writer, two collectors and a reader that pins: a breadth-first search
//! over a model of `docs/object-storage.md`. Each request is one step. The request that makes the
//! pin may be executed late and twice; anybody may sleep before any step, for any time.
//!
//! That commits are what they seem is `model.rs`'s matter: here they simply follow each
//! other.

use crate::harness::search::search;

/// The files that the state of each commit names, a bit each; commit 1 is there from the start.
const NAMED: [u8; 6] = [0, 0b00001, 0b00011, 0b00010, 0b01100, 0b10000];
/// The last commit that may be the first to name each file.
const LAST: [u8; 5] = [1, 3, 5, 4, 5];
const NEWEST: u8 = 5;
const COLLECTORS: usize = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Collector {
    #[default]
    Idle,
    /// It listed the pins, and has no state yet. Only a planted mistake does.
    Listed { pins: u8 },
    /// It knows a state.
    Found { state: u8 },
    /// It listed pins and objects.
    Reads { state: u8, pins: u8, objects: u8 },
    /// It deletes these.
    Deletes { objects: u8 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Reader {
    /// It knows a state.
    #[default]
    Knows,
    /// It sent the request that makes the pin.
    Waits,
    /// It makes the commit whose state it has pinned.
    Commits,
    /// It looks whether the newest state names the pin's files.
    Checks,
    /// The pin holds.
    Holds,
    Removes,
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    head: u8,
    /// The files that are stored.
    objects: u8,
    /// The states that are pinned, a bit each; and requests to pin one that are on their way.
    pins: u8,
    late: [(u8, u8); 2],
    collectors: [Collector; COLLECTORS],
    reader: Reader,
    /// The state that the reader pins, and how often it did.
    pinned: u8,
    tries: u8,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is one rule of the protocol")]
struct Model {
    /// Whether a collector leaves the files of pins alone.
    heeds_pins: bool,
    /// Whether a collector lists the pins after it found its state.
    lists_after: bool,
    /// Whether the reader looks at the newest state after it pinned one.
    checks: bool,
    /// Whether the reader pins the state that its own commit is about to make.
    ahead: bool,
    /// Whether that commit waits until the pin is there.
    waits: bool,
    /// Whether a collector leaves alone what a later commit may be the first to name.
    heeds_numbers: bool,
    /// How many collectors there are.
    collectors: usize,
    /// How often the reader pins, each time a state that it knows.
    pins: u8,
}

const PROTOCOL: Model = Model {
    heeds_pins: true,
    lists_after: true,
    checks: true,
    ahead: false,
    waits: true,
    heeds_numbers: true,
    collectors: COLLECTORS,
    pins: 1,
};
const AHEAD: Model = Model { ahead: true, checks: false, ..PROTOCOL };

fn named(state: u8) -> u8 {
    NAMED[usize::from(state)]
}

impl State {
    fn start() -> Self {
        Self { head: 1, objects: named(1), pinned: 1, ..Self::default() }
    }

    fn check(mut self) -> Self {
        if self.reader == Reader::Holds && named(self.pinned) & !self.objects != 0 {
            self.broken.get_or_insert("a pinned file is gone");
        }
        if named(self.head) & !self.objects != 0 {
            self.broken.get_or_insert("a file of the newest state is gone");
        }
        self
    }
}

/// Takes a change that the present state allows.
type Push<'p> = dyn FnMut(&dyn Fn(&mut State)) + 'p;

impl Model {
    fn after(&self, state: &State, found: &mut Vec<(State, ())>) {
        let mut push = |change: &dyn Fn(&mut State)| {
            let mut after = *state;
            change(&mut after);
            found.push((after.check(), ()));
        };
        for place in 0..state.late.len() {
            if state.late[place].1 > 0 {
                push(&|after| {
                    let (pin, copies) = &mut after.late[place];
                    after.pins |= 1 << *pin;
                    *copies -= 1;
                });
            }
        }
        if state.head < NEWEST {
            let missing = named(state.head + 1) & !state.objects & !named(state.head);
            match (0..LAST.len()).find(|file| missing & 1 << file != 0) {
                Some(file) => push(&|after| after.objects |= 1 << file),
                None => push(&|after| after.head += 1),
            }
        }
        self.read(state, &mut push);
        for who in 0..self.collectors {
            self.collect(state, who, &mut push);
        }
    }

    fn read(&self, state: &State, push: &mut Push<'_>) {
        match state.reader {
            Reader::Knows => {
                let pinned = state.head + u8::from(self.ahead);
                if pinned <= NEWEST {
                    push(&|after| after.pinned = pinned);
                }
                if state.tries < self.pins {
                    push(&|after| {
                        after.late[usize::from(after.tries)] = (after.pinned, 2);
                        (after.reader, after.tries) = (Reader::Waits, after.tries + 1);
                    });
                }
            }
            // It has its answer once the pin is there.
            Reader::Waits if state.pins & 1 << state.pinned != 0 || !self.waits => {
                push(&|after| after.reader = if self.ahead { Reader::Commits } else { Reader::Checks });
            }
            // Of two writers one has the number; the other's pin has to go.
            Reader::Commits if state.head >= state.pinned => push(&|after| after.reader = Reader::Removes),
            Reader::Commits if named(state.pinned) & !named(state.head) & !state.objects == 0 => {
                push(&|after| (after.head, after.reader) = (after.pinned, Reader::Holds));
            }
            Reader::Checks => push(&|after| {
                let holds = !self.checks || named(after.pinned) & !named(after.head) == 0;
                after.reader = if holds { Reader::Holds } else { Reader::Removes };
            }),
            Reader::Holds => push(&|after| {
                (after.pins, after.reader) = (after.pins & !(1 << after.pinned), Reader::Over);
            }),
            Reader::Removes => push(&|after| {
                after.pins &= !(1 << after.pinned);
                (after.pinned, after.reader) = (after.head, Reader::Knows);
            }),
            Reader::Waits | Reader::Commits | Reader::Over => {}
        }
    }

    fn collect(&self, state: &State, who: usize, push: &mut Push<'_>) {
        let mut goes_to = |next: &dyn Fn(&State) -> Collector| push(&|after| after.collectors[who] = next(after));
        match state.collectors[who] {
            Collector::Idle if self.lists_after => goes_to(&|now| Collector::Found { state: now.head }),
            Collector::Idle => goes_to(&|now| Collector::Listed { pins: now.pins }),
            Collector::Listed { pins } => {
                goes_to(&|now| Collector::Reads { state: now.head, pins, objects: now.objects });
            }
            Collector::Found { state } => {
                goes_to(&|now| Collector::Reads { state, pins: now.pins, objects: now.objects });
            }
            Collector::Reads { state, pins, objects } => goes_to(&|now| {
                let is_of_pin = |pin: &u8| self.heeds_pins && pins & now.pins & 1 << pin != 0;
                let kept = (1..=NEWEST).filter(is_of_pin).fold(named(state), |kept, pin| kept | named(pin));
                let is_decided = |file: &usize| !self.heeds_numbers || LAST[*file] <= state;
                let decided = (0..LAST.len()).filter(is_decided).fold(0, |all, file| all | 1 << file);
                Collector::Deletes { objects: objects & decided & !kept }
            }),
            Collector::Deletes { objects: 0 } => goes_to(&|_| Collector::Idle),
            Collector::Deletes { objects } => push(&|after| {
                let first = objects & objects.wrapping_neg();
                after.objects &= !first;
                after.collectors[who] = Collector::Deletes { objects: objects & !first };
            }),
        }
    }

    /// What goes wrong first, if anything does, and how many states there are.
    fn search(&self) -> (Option<&'static str>, usize) {
        let (found, states) = search(State::start(), |state| state.broken, |state, found| self.after(state, found));
        (found.map(|(wrong, _)| wrong), states)
    }
}

#[test]
fn pinned_files_stay_in_any_interleaving() {
    let fewer = |model| Model { collectors: 1, pins: 2, ..model };
    for model in [PROTOCOL, fewer(PROTOCOL), AHEAD, fewer(AHEAD)] {
        let (broken, states) = model.search();
        println!("{model:?}: {states} states");
        assert_eq!(broken, None, "{model:?}");
        assert!(states > 50_000, "{states} states of {model:?}");
    }
}

#[test]
fn a_collector_that_ignores_pins_deletes_a_pinned_file() {
    assert_eq!(Model { heeds_pins: false, ..PROTOCOL }.search().0, Some("a pinned file is gone"));
}

#[test]
fn a_collector_that_lists_pins_too_early_deletes_a_file() {
    assert_eq!(Model { lists_after: false, ..PROTOCOL }.search().0, Some("a pinned file is gone"));
}

#[test]
fn a_pin_that_is_not_checked_comes_too_late() {
    assert_eq!(Model { checks: false, ..PROTOCOL }.search().0, Some("a pinned file is gone"));
}

#[test]
fn a_pin_that_comes_after_its_commit_comes_too_late() {
    assert_eq!(Model { waits: false, ..AHEAD }.search().0, Some("a pinned file is gone"));
}

#[test]
fn a_collector_that_ignores_numbers_deletes_what_is_named_next() {
    assert_eq!(Model { heeds_numbers: false, ..PROTOCOL }.search().0, Some("a file of the newest state is gone"));
}
