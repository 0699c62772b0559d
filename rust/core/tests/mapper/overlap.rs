//! Senders of two processes that overlap on few ids, with copies in their batches and decisions by
//! hand in between; either process dies, or the power goes, at any change. The map is always what a
//! naive model says, and nobody gets an id as new that may have been sent.
//!
//! `MAPPER_SEED=17 cargo test --all-features --test mapper overlap` plays one run again;
//! `MAPPER_RUNS` says how many to play.

use dochistory_core::protocols::mapper::rules::{Policy, Qos};
use dochistory_core::protocols::mapper::{Mapper, Messages, Send, Texts};
use dochistory_core::testing::simulated::Simulated;
use dochistory_core::{Error, Purge};

use crate::harness::{DAY, Ids, START, uuid};
use crate::model::Model;
use crate::{UNTIL, mapper};

const RUNS: u64 = 400;
const STEPS: u64 = 40;
const IDS: usize = 3;
const POLICIES: [Policy; 3] = [Policy::Error, Policy::Process, Policy::Duplicate];

fn id(number: usize) -> String {
    if number == 0 { uuid(7) } else { format!("urn:message:{number}") }
}

/// xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }

    fn id(&mut self) -> usize {
        self.below(IDS as u64) as usize
    }
}

#[derive(Clone, Debug)]
enum Step {
    Begin(Vec<usize>, Policy),
    /// The number of a send, and a row.
    Complete(usize, usize, String),
    Abort(usize, usize, bool),
    Resolve(usize, Policy),
    Create(usize, String),
    Remove(usize),
    Purge,
}

/// A send that lives: its number in the model, whose it is, and its ids.
struct Live {
    number: usize,
    by: usize,
    send: Send,
    ids: Ids,
}

/// What an id is mapped to, and which send has it pending, with what was decided about that.
type Found = (Option<Option<String>>, Option<(usize, Option<Policy>)>);

struct World {
    random: Random,
    machine: Simulated,
    processes: [Simulated; 2],
    model: Model,
    live: Vec<Live>,
    met: Vec<&'static str>,
}

impl World {
    fn new(seed: u64) -> Self {
        let machine = Simulated::new(seed);
        let processes = [machine.process(), machine.process()];
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        processes[random.below(2) as usize].crash_at(1 + random.below(150));
        Self { random, machine, processes, model: Model::new(IDS), live: Vec::new(), met: Vec::new() }
    }

    fn choose(&mut self, by: usize, at: u64) -> Step {
        let ends: Vec<(usize, usize)> = self
            .live
            .iter()
            .filter(|live| live.by == by)
            .flat_map(|live| {
                let rows = &self.model.sends[live.number];
                (0..rows.len()).filter(|row| rows[*row].can_end()).map(|row| (live.number, row))
            })
            .collect();
        let random = &mut self.random;
        match random.below(20) {
            4..14 if !ends.is_empty() => {
                let (send, row) = ends[random.below(ends.len() as u64) as usize];
                match random.below(5) {
                    0 | 1 => Step::Complete(send, row, format!("sent-{at}")),
                    2 | 3 => Step::Abort(send, row, true),
                    _ => Step::Abort(send, row, false),
                }
            }
            14..17 => Step::Resolve(random.id(), POLICIES[random.below(3) as usize]),
            17 => Step::Create(random.id(), format!("by-hand-{at}")),
            18 => Step::Remove(random.id()),
            19 if random.below(4) == 0 => Step::Purge,
            _ => {
                let ids = (0..=random.below(3)).map(|_| random.id()).collect();
                Step::Begin(ids, if random.below(3) == 0 { POLICIES[random.below(3) as usize] } else { Policy::Error })
            }
        }
    }

    /// Do a step on the store.
    fn act(&self, by: usize, step: &Step) -> Result<Option<Live>, Error> {
        let column = |ids: &[usize]| Ids::new(&ids.iter().map(|number| id(*number)).collect::<Vec<_>>());
        let policy = if let Step::Begin(_, policy) = step { *policy } else { Policy::Error };
        let mapper = mapper(&self.processes[by], policy)?;
        let live = |number: &usize| self.live.iter().find(|live| live.number == *number).unwrap();
        match step {
            Step::Begin(ids, _) => {
                let ids = column(ids);
                let (qos, queues) = (vec![Qos::ExactlyOnce; ids.documents().ids[0].len()], [0; 8]);
                let messages = Messages { qos: &qos, queues: &queues[..qos.len()] };
                let documents = ids.documents();
                let now = START + self.model.sends.len() as i64;
                let send =
                    mapper.begin_send(&mapper.values().ids(&documents.ids[0]), messages, UNTIL, now, None, false)?;
                drop(documents);
                return Ok(Some(Live { number: self.model.sends.len(), by, send, ids }));
            }
            Step::Complete(number, row, value) => {
                let Live { send, ids, .. } = live(number);
                let (documents, value) = (ids.documents(), Ids::new(&[value]));
                let value = Texts::of(Some(&value.documents().ids[0]), 1)?;
                send.complete(&mapper.values().ids(&documents.ids[0]), &[*row as u32], &value, UNTIL, 0)?;
            }
            Step::Abort(number, row, definite) => {
                let Live { send, ids, .. } = live(number);
                let documents = ids.documents();
                send.abort(&mapper.values().ids(&documents.ids[0]), &[*row as u32], *definite)?;
            }
            Step::Resolve(id, policy) => {
                drop(mapper.resolve(&mapper.values().ids(&column(&[*id]).documents().ids[0]), *policy)?);
            }
            Step::Create(id, value) => {
                let value = Ids::new(&[value]);
                let value = Texts::of(Some(&value.documents().ids[0]), 1)?;
                let ids = column(&[*id]);
                drop(mapper.create(&mapper.values().ids(&ids.documents().ids[0]), &value, UNTIL, START)?);
            }
            Step::Remove(id) => {
                let ids = column(&[*id]);
                drop(mapper.remove(&mapper.values().ids(&ids.documents().ids[0]), START)?);
            }
            Step::Purge => drop(mapper.purge_by(Purge::at(START + 99 * DAY), true)?),
        }
        Ok(None)
    }

    /// The model after a step.
    fn after(&self, step: &Step) -> Model {
        let mut model = self.model.clone();
        match step {
            Step::Begin(ids, policy) => model.begin(ids, *policy),
            Step::Complete(send, row, value) => model.complete(*send, *row, value),
            Step::Abort(send, row, definite) => model.abort(*send, *row, *definite),
            Step::Resolve(id, policy) => model.resolve(*id, *policy),
            Step::Create(id, value) => model.create(*id, value),
            Step::Remove(id) => model.remove(*id),
            Step::Purge => model.purge(),
        }
        model
    }

    /// What a process finds of every id. Each send began at a time of its own, which tells whose a
    /// pending entry is.
    fn found(&self, by: usize) -> Result<Vec<Found>, Error> {
        let ids = Ids::new(&(0..IDS).map(id).collect::<Vec<_>>());
        let mapper: Mapper = mapper(&self.processes[by], Policy::Error)?;
        let known = mapper.lookup(&mapper.values().ids(&ids.documents().ids[0]), START)?;
        let value = |row: usize| known.values.get(row).map(|value| String::from_utf8_lossy(value).into_owned());
        let pending = |row: usize| ((known.since[row] - START) as usize, known.resolved[row]);
        let one = |row: usize| (known.mapped[row].then(|| value(row)), known.pending[row].then(|| pending(row)));
        Ok((0..IDS).map(one).collect())
    }

    fn is(found: &[Found], model: &Model) -> bool {
        model.ids.iter().zip(found).all(|(said, found)| (&said.mapped, &said.pending) == (&found.0, &found.1))
    }

    /// After a crash: who was on that machine is gone; what was under way is done whole, or not at
    /// all.
    fn recover(&mut self, by: usize, step: Option<&Step>) {
        self.met.push("crash");
        let power = self.random.below(2) == 0;
        if power {
            self.machine.lose_power(self.random.below(1 << 40));
        }
        for process in 0..2 {
            if power || process == by {
                self.processes[process] = self.machine.process();
                self.live.retain(|live| live.by != process);
            }
        }
        let found = self.found(by).unwrap();
        if Self::is(&found, &self.model) {
            return;
        }
        let after = step.map(|step| self.after(step)).filter(|after| Self::is(&found, after));
        self.model = after.unwrap_or_else(|| panic!("{found:?} after {step:?} on {:?}", self.model));
    }

    fn step(&mut self, at: u64) {
        let by = self.random.below(2) as usize;
        let step = self.choose(by, at);
        if std::env::var_os("MAPPER_SEED").is_some() {
            eprintln!("process {by}: {step:?}; dead: {:?}", self.processes.each_ref().map(Simulated::is_dead));
        }
        match self.act(by, &step) {
            Ok(live) => {
                self.model = self.after(&step);
                self.live.extend(live);
            }
            Err(error) if self.processes[by].is_dead() => {
                drop(error);
                return self.recover(by, Some(&step));
            }
            Err(error) => panic!("{step:?}: {error}"),
        }
        for live in &self.live {
            let rules: Vec<&str> = live.send.rules().iter().map(|rule| rule.code()).collect();
            let said: Vec<&str> = self.model.sends[live.number].iter().map(|row| row.rule).collect();
            assert_eq!(rules, said, "after {step:?}");
            self.met.extend(said);
        }
        match self.found(1 - by) {
            Ok(found) => assert!(Self::is(&found, &self.model), "{found:?} after {step:?}: {:?}", self.model),
            Err(error) => {
                assert!(self.processes[1 - by].is_dead(), "{error}");
                self.recover(1 - by, None);
            }
        }
    }
}

#[test]
fn senders_that_overlap_and_crash_leave_what_the_model_says() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = number("MAPPER_SEED").map_or(0..number("MAPPER_RUNS").unwrap_or(RUNS), |seed| seed..seed + 1);
    let is_one = seeds.end - seeds.start == 1;
    let mut met = Vec::new();
    for seed in seeds {
        let played = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..STEPS).for_each(|at| world.step(at));
            world.met
        });
        met.extend(played.unwrap_or_else(|_| panic!("play it again: MAPPER_SEED={seed}")));
        met.sort_unstable();
        met.dedup();
    }
    let all = ["M1", "M1+batch", "M1+hold", "M1>failed", "M1>unknown", "M2", "M3", "M4", "M5", "crash"];
    assert!(is_one || all.iter().all(|rule| met.contains(rule)), "not all was met: {met:?}");
}
