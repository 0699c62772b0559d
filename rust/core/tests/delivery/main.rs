//! Publishers and a subscriber, each with a history on a machine of its own, over a channel that
//! loses, repeats, reorders, delays and damages messages. Either machine's process dies, or its
//! power goes, at any change that it makes to its file system, also while it recovers. All streams
//! must always end with the operations of their logs, in order, none missed, none twice; no
//! transaction is ever applied in part; what was confirmed is durable.
//!
//! `DELIVERY_SEED=17 cargo test --all-features --test delivery` plays one run again;
//! `DELIVERY_RUNS` says how many to play.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(unreachable_pub, missing_docs, reason = "parts of one test")]

#[path = "../../src/protocols/delivery/tests/simulation/channel.rs"]
mod channel;
mod machine;
mod receiver;
mod sender;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use channel::{Channel, Random};
use dochistory_core::protocols::delivery::{Options, PartHeader};
use receiver::Receiver;
use sender::Sender;

const RUNS: u64 = 10_000;
const STREAMS: [&str; 2] = ["one", "two"];

/// Offset of a commit, and how many messages carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub end: u64,
    pub parts: u32,
}

/// What goes there: the stream's number, the header, and what the message carries (the part, if it
/// is one of several).
#[derive(Clone, Debug)]
pub struct Message {
    pub stream: usize,
    pub header: PartHeader,
    pub carries: Vec<Transaction>,
    pub part: u32,
}

/// What goes back.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Confirm(usize, u64),
    Resend(usize, u64, u64),
}

#[derive(Default, Debug)]
pub struct Happened {
    pub lost: u64,
    pub requests: u64,
    pub sender_crashes: u64,
    pub receiver_crashes: u64,
    pub in_doubt: u64,
    pub split: u64,
    pub partly: u64,
    pub aborted: u64,
}

struct World {
    sender: Sender,
    receiver: Receiver,
    there: Channel<Message>,
    back: Channel<Answer>,
    random: Random,
    happened: Happened,
}

fn run(seed: u64, tells: bool) -> Happened {
    let mut random = Random::new(seed);
    let options = Options {
        patience: random.below(4) as u32,
        batch_mode: random.chance(10),
        reset_patience: random.chance(70),
        first_contact: false,
        held_limit: if random.chance(25) { 1 + random.below(4) as usize } else { 1 << 20 },
    };
    let start = random.below(1000);
    let crashes = random.below(20);
    let mut world = World {
        sender: Sender::new(seed, start, crashes),
        receiver: Receiver::new(seed, start, options, random.chance(50), crashes),
        there: Channel::bad(&mut random),
        back: Channel::bad(&mut random),
        random,
        happened: Happened::default(),
    };
    for _ in 0..5 + world.random.below(20) {
        world.sender.work(&mut world.random, 3);
        world.round();
        if tells {
            println!("{:?}\n{:?}", world.sender, world.receiver);
        }
    }
    world.calm_down(seed);
    world.happened
}

impl World {
    fn round(&mut self) {
        let Self { sender, receiver, there, back, random, happened } = self;
        sender.send(there, random, happened);
        if random.chance(80) {
            let arrivals = there.arrivals(random);
            receiver.poll(&arrivals, back, random, happened);
        }
        if random.chance(80) {
            for (answer, damaged) in back.arrivals(random) {
                if !damaged {
                    sender.hear(answer, random, happened);
                }
            }
        }
        for stream in 0..STREAMS.len() {
            let (applied, log) = (&receiver.applied[stream], &sender.logs[stream]);
            assert!(applied.len() <= log.len(), "nothing is applied that was not written");
            assert_eq!(applied[..], log[..applied.len()], "in order, none missed, none twice");
        }
    }

    /// The channel becomes good and nobody crashes. A message that nothing follows can be lost
    /// without a trace, so the sender goes on to write now and then, with quiet polls between.
    fn calm_down(&mut self, seed: u64) {
        let goals: Vec<usize> = self.sender.logs.iter().map(Vec::len).collect();
        self.there.become_good();
        self.back.become_good();
        self.sender.machine.calm();
        self.receiver.machine.calm();
        for round in 0..600 {
            if self.receiver.applied.iter().zip(&goals).all(|(applied, goal)| applied.len() >= *goal) {
                return;
            }
            if round % 8 == 0 {
                self.sender.work(&mut self.random, 1);
            }
            self.round();
        }
        panic!("seed {seed}: stopped short of {goals:?}: {:?}\n{:?}", self.sender, self.receiver);
    }
}

#[test]
fn crashes_of_either_side_keep_all_streams_equal() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("DELIVERY_SEED") {
        println!("{:?}", run(seed, true));
        return;
    }
    let runs = number("DELIVERY_RUNS").unwrap_or(RUNS);
    let (next, all) = (AtomicU64::new(0), Mutex::new(Happened::default()));
    let failed = Mutex::new(Vec::new());
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= runs || failed.lock().unwrap().len() >= 5 {
            break;
        }
        match std::panic::catch_unwind(|| run(seed, false)) {
            Err(_) => failed.lock().unwrap().push(seed),
            Ok(one) => all.lock().unwrap().add(&one),
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |threads| threads.get().min(4)) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "run again with DELIVERY_SEED=, one of {failed:?}");
    let all = all.into_inner().unwrap();
    eprintln!("{runs} runs: {all:?}");
    all.check(runs);
}

impl Happened {
    fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.requests += other.requests;
        self.sender_crashes += other.sender_crashes;
        self.receiver_crashes += other.receiver_crashes;
        self.in_doubt += other.in_doubt;
        self.split += other.split;
        self.partly += other.partly;
        self.aborted += other.aborted;
    }

    fn check(&self, runs: u64) {
        for (what, count) in [
            ("lost messages", self.lost),
            ("resend requests", self.requests),
            ("crashes of the sender", self.sender_crashes),
            ("crashes of the receiver", self.receiver_crashes),
            ("ranges in doubt", self.in_doubt),
            ("split transactions", self.split),
            ("polls that were applied in part", self.partly),
            ("polls that were aborted", self.aborted),
        ] {
            assert!(count > runs / 20, "only {count} {what} in all runs: the simulation tests too little");
        }
    }
}
