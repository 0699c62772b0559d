//! A sender and a receiver over a channel that loses, repeats, reorders, delays and damages
//! messages, with crashes of either side between any two steps. They must always end with the same
//! operations in the same order.
//!
//! `DELIVERY_SEED=17 cargo test delivery::tests::simulation` runs one seed and tells what happens.

mod channel;
mod receiver;
mod sender;

use super::Options;
use channel::{Channel, Random};
use receiver::Receiver;
use sender::Sender;

const RUNS: u64 = 12_000;

/// Offset of a commit, and how many messages carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transaction {
    end: u64,
    parts: u32,
}

/// What a message carries.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Payload {
    Whole(Vec<Transaction>),
    Part(Transaction, u32),
}

/// What goes back.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Confirm(u64),
    Resend(u64, u64),
}

#[derive(Default)]
struct Happened {
    lost: u32,
    requests: u32,
    sender_crashes: u32,
    receiver_crashes: u32,
    settled: u32,
    split: u32,
}

struct World {
    sender: Sender,
    receiver: Receiver,
    there: Channel<(super::PartHeader, Payload)>,
    back: Channel<Answer>,
    random: Random,
    happened: Happened,
    tells: bool,
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
    let mut world = World {
        sender: Sender::new(start),
        receiver: Receiver::new(start, options, random.chance(50)),
        there: Channel::bad(&mut random),
        back: Channel::bad(&mut random),
        random,
        happened: Happened::default(),
        tells,
    };
    let crashes = world.random.below(20);
    for _ in 0..10 + world.random.below(40) {
        world.round(crashes);
        world.sender.work(&mut world.random, 3);
    }
    world.calm_down(seed);
    world.happened
}

impl World {
    fn round(&mut self, crashes: u64) {
        let Self { sender, receiver, there, back, random, happened, .. } = self;
        sender.send(there, random, happened, crashes);
        if random.chance(80) {
            let arrivals = there.arrivals(random);
            receiver.poll(&arrivals, back, random, happened, crashes);
        }
        if random.chance(80) {
            for (answer, damaged) in back.arrivals(random) {
                if !damaged {
                    sender.hear(answer);
                }
            }
        }
        sender.maybe_crash(random, happened, crashes);
        assert!(receiver.applied.len() <= sender.log.len(), "nothing is applied that was not written");
        assert_eq!(receiver.applied[..], sender.log[..receiver.applied.len()], "in order, none missed, none twice");
        if self.tells {
            println!("sender {:?}\nreceiver {:?}", self.sender.state, self.receiver);
        }
    }

    /// The channel becomes good and nobody crashes. A message that nothing follows can be lost
    /// without a trace, so the sender goes on to write now and then, with quiet polls between.
    fn calm_down(&mut self, seed: u64) {
        let goal = self.sender.log.len();
        self.there.become_good();
        self.back.become_good();
        for round in 0..600 {
            if self.receiver.applied.len() >= goal {
                return;
            }
            if round % 8 == 0 {
                self.sender.work(&mut self.random, 1);
            }
            self.round(0);
        }
        panic!(
            "seed {seed}: stopped at {} of {goal}: {:?}\n{:?}",
            self.receiver.applied.len(),
            self.sender.state,
            self.receiver
        );
    }
}

#[test]
fn sender_and_receiver_always_end_with_the_same_operations() {
    if let Ok(seed) = std::env::var("DELIVERY_SEED") {
        run(seed.parse().unwrap(), true);
        return;
    }
    let mut all = Happened::default();
    for seed in 0..RUNS {
        let one = std::panic::catch_unwind(|| run(seed, false))
            .unwrap_or_else(|_| panic!("failed: run again with DELIVERY_SEED={seed}"));
        all.lost += one.lost;
        all.requests += one.requests;
        all.sender_crashes += one.sender_crashes;
        all.receiver_crashes += one.receiver_crashes;
        all.settled += one.settled;
        all.split += one.split;
    }
    for (what, count) in [
        ("lost messages", all.lost),
        ("resend requests", all.requests),
        ("crashes of the sender", all.sender_crashes),
        ("crashes of the receiver", all.receiver_crashes),
        ("ranges in doubt", all.settled),
        ("split transactions", all.split),
    ] {
        assert!(u64::from(count) > RUNS / 10, "only {count} {what} in all runs: the simulation tests too little");
    }
}
