//! The pace of writers while a full log is put into segments. They wait little and early, so that
//! none of them has to wait long: the next log is to be full only once the one before it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::limits::{most_in_memtable, too_many_in_memtable};
use super::{KeySpace, View};

/// The whole of a log.
const WHOLE: u64 = 1024;

/// What of a log is filled before its writers wait for the one before it, of which nothing is in
/// segments yet.
const LEAD: u64 = WHOLE * 3 / 20;

/// What a call waits at most as long as the log is not far beyond full.
const SHORT_WAIT: Duration = Duration::from_micros(1_200);

/// What a call waits at most whose successor would put the log into segments itself, with the one
/// before it: that takes longer than the rest of the sealing, which it makes useless.
const LAST_WAIT: Duration = Duration::from_millis(250);

/// How much of the frozen log is in segments, as far as this handle puts it there; and what its
/// last batch weighs.
#[derive(Debug, Default)]
pub(super) struct SealProgress {
    done: AtomicU64,
    all: AtomicU64,
    batch: AtomicU64,
    /// Whether writers waited for it since the sealing thread looked last.
    pub(super) awaited: Arc<AtomicBool>,
}

impl SealProgress {
    /// Nothing of the `all` steps is done.
    pub(super) fn begin(&self, all: usize) {
        self.done.store(0, Ordering::Relaxed);
        self.all.store(all as u64, Ordering::Relaxed);
    }

    /// One step more is done.
    pub(super) fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// A batch of this weight was begun; the next one is probably like it.
    pub(super) fn began(&self, weight: usize) {
        self.batch.store(weight as u64, Ordering::Relaxed);
    }

    /// The part that is done of the whole.
    fn sealed(&self) -> u64 {
        WHOLE * self.done.load(Ordering::Relaxed) / self.all.load(Ordering::Relaxed).max(1)
    }
}

/// How long a call waits at most where the log is this full, this much of the one before it is
/// sealed, and the next batch fills so much.
fn wait(filled: u64, sealed: u64, batch: u64) -> Duration {
    let too_full = WHOLE * too_many_in_memtable() as u64 / most_in_memtable() as u64;
    if filled + batch > too_full {
        return LAST_WAIT;
    }
    if filled <= LEAD + sealed * 3 / 4 {
        return Duration::ZERO;
    }
    match 8 * filled / WHOLE {
        0..10 => SHORT_WAIT,
        eighths => Duration::from_millis(3 + 4 * (eighths - 8).min(8)),
    }
}

impl KeySpace {
    /// How long a call is to wait at most for the frozen log to be in segments. That becomes
    /// nothing as soon as its sealing has caught up with the writers.
    pub(crate) fn seal_wait(&self) -> Duration {
        let part = |weight: u64| WHOLE * weight / most_in_memtable() as u64;
        let is_frozen = |view: &&View| view.frozen.is_some();
        let Some(weight) = self.present().as_ref().filter(is_frozen).map(|view| view.memtable.weight()) else {
            return Duration::ZERO;
        };
        let wait = wait(part(weight as u64), self.sealed.sealed(), part(self.sealed.batch.load(Ordering::Relaxed)));
        if !wait.is_zero() {
            self.sealed.awaited.store(true, Ordering::Relaxed);
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::history::{History, OpenOptions};
    use crate::key::Key;
    use crate::store::SpaceSettings;
    use crate::store::writer::Beginning;
    use crate::sys::background;
    use crate::testing::simulated::Simulated;
    use crate::types::FrameKeys;

    fn sealed(done: usize, all: usize) -> u64 {
        let progress = SealProgress::default();
        progress.begin(all);
        (0..done).for_each(|_| progress.step());
        progress.sealed()
    }

    #[test]
    fn writers_behind_the_sealing_do_not_wait() {
        for done in 0..=10 {
            for filled in [0, WHOLE * done as u64 / 20, LEAD] {
                assert_eq!(wait(filled, sealed(done, 10), 0), Duration::ZERO, "{filled} of {WHOLE}, {done} of 10");
            }
        }
        assert_eq!(wait(WHOLE * 17 / 20, sealed(10, 10), 0), Duration::ZERO);
    }

    #[test]
    fn writers_ahead_of_the_sealing_wait_until_it_catches_up() {
        let half_full = WHOLE / 2;
        assert!(wait(half_full, sealed(3, 10), 0) > Duration::ZERO);
        assert_eq!(wait(half_full, sealed(5, 10), 0), Duration::ZERO);
        // A log that is full waits for the end of it.
        assert!(wait(WHOLE, sealed(10, 10), 0) > Duration::ZERO);
    }

    #[test]
    fn waits_are_short_until_the_log_is_far_beyond_full() {
        let waits: Vec<_> = (LEAD + 1..=2 * WHOLE).map(|filled| wait(filled, 0, 0)).collect();
        assert!(waits.is_sorted() && waits[0] < Duration::from_millis(2));
        assert_eq!(waits.iter().max(), Some(&Duration::from_millis(35)));
        assert!(wait(WHOLE * 5 / 4 - 1, 0, WHOLE / 2) < Duration::from_millis(2));
    }

    #[test]
    fn a_call_whose_successor_would_seal_waits_for_the_sealing() {
        let batch = WHOLE * 3 / 8;
        assert!(wait(2 * WHOLE - batch, 0, batch) <= Duration::from_millis(35));
        assert_eq!(wait(2 * WHOLE - batch + 1, 0, batch), LAST_WAIT);
        assert_eq!(wait(2 * WHOLE + 1, WHOLE, 0), LAST_WAIT);
    }

    #[test]
    fn writers_that_wait_are_known_to_the_thread_that_seals() {
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let history = History::open_on(Arc::new(Simulated::new(0)), Path::new("/history"), &options).unwrap();
        let space = history.space("orders").unwrap();
        let settings = SpaceSettings { time_to_live_us: 1 << 50, ..SpaceSettings::STORED };
        let mut number = 0_u128;
        let mut begin = || {
            let mut key = || {
                number += 1;
                Key::from_bytes(number.to_be_bytes())
            };
            let keys =
                FrameKeys { uuids: (0..most_in_memtable() / 16).map(|_| key()).collect(), ..FrameKeys::default() };
            let beginning = || Beginning { keys: keys.clone(), started_at: 1, ..Beginning::default() };
            space.write_together(settings, |writer| writer.begin(beginning()).map(drop)).unwrap();
        };
        let is_awaited = || space.sealed.awaited.swap(false, Ordering::Relaxed);
        while !space.is_seal_due() {
            assert!(space.seal_wait().is_zero() && !is_awaited());
            begin();
        }
        while space.seal_wait().is_zero() {
            assert!(!is_awaited());
            begin();
        }
        assert!(is_awaited());
        // The thread that seals takes note of it.
        background::enter();
        std::thread::sleep(Duration::from_millis(1));
        space.sealed.awaited.store(true, Ordering::Relaxed);
        space.seal_frozen().unwrap();
        assert!(space.seal_wait().is_zero() && !is_awaited());
    }
}
