//! A machine with a history on it, whose process dies now and then, and sometimes the power with
//! it.

use std::path::Path;
use std::sync::Arc;

use dochistory_core::history::{History, OpenOptions};
use dochistory_core::testing::simulated::Simulated;
use dochistory_core::{Error, Result};

use super::channel::Random;

#[derive(Debug)]
pub struct Machine {
    system: Simulated,
    process: Simulated,
    crashes: u64,
    random: Random,
}

impl Machine {
    pub fn new(seed: u64, crashes: u64) -> Self {
        let system = Simulated::new(seed);
        Self { process: system.process(), system, crashes, random: Random::new(!seed) }
    }

    pub fn calm(&mut self) {
        self.crashes = 0;
        self.process.crash_at(u64::MAX);
    }

    /// Perhaps the process dies at one of the changes that it makes next.
    pub fn live_dangerously(&mut self) {
        if self.random.chance(self.crashes) {
            self.process.crash_at(self.process.changes() + 1 + self.random.below(6));
        }
    }

    /// Perhaps the process dies right here.
    pub fn dies(&mut self) -> bool {
        if self.random.chance(self.crashes / 2) {
            self.process.kill();
        }
        self.process.is_dead()
    }

    /// A new process opens the history, however often it dies over that.
    pub fn open<T>(&mut self, open: impl Fn(&History) -> Result<T>) -> T {
        loop {
            if self.process.is_dead() {
                if self.random.chance(70) {
                    self.system.lose_power(self.random.below(u64::MAX));
                }
                self.process = self.system.process();
            }
            self.live_dangerously();
            let options = OpenOptions { create: true, ..OpenOptions::default() };
            let system = Arc::new(self.process.clone());
            match History::open_on(system, Path::new("/h"), &options).and_then(|history| open(&history)) {
                Ok(opened) => return opened,
                Err(error) => self.excuse(&error),
            }
        }
    }

    /// An error is fine if the process is dead.
    pub fn excuse(&self, error: &Error) {
        assert!(self.process.is_dead(), "nobody died, but {error}");
    }
}
