//! Open files are scarce. A holder of files between two calls registers here, and those that were
//! idle longest are closed first.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Maximum number of holders with open files where the system does not tell its limit.
const MOST: usize = 128;
/// Fraction of the process's limit. A holder has two files, so all holders use at most a quarter of
/// what the process may open: the rest is the caller's.
const OF_LIMIT: usize = 8;
/// Lower and upper bound of the number of holders.
const BOUNDS: (usize, usize) = (8, 1024);

/// An object that keeps files open between two calls.
pub(crate) trait Holder: std::fmt::Debug + Send + Sync {
    /// When it was last used, by the clock of all holders.
    fn last_used(&self) -> u64;
    /// Close the files, unless they are in use; answers whether none is open now. The next use
    /// opens them again.
    fn close_if_idle(&self) -> bool;
}

type Holders = Vec<Weak<dyn Holder>>;

/// All holders of a process, and those of a process that it forked off: a thread of the parent may
/// have had the lock at the fork, and nobody would release it in the child.
struct OfProcess {
    /// 0 before the first.
    process: AtomicU32,
    holders: Mutex<Holders>,
    child: OnceLock<Box<Self>>,
}

impl OfProcess {
    const fn new() -> Self {
        Self { process: AtomicU32::new(0), holders: Mutex::new(Vec::new()), child: OnceLock::new() }
    }
}

/// Those of the first process.
static HOLDERS: OfProcess = OfProcess::new();

/// The holders of this process.
fn holders() -> MutexGuard<'static, Holders> {
    let process = std::process::id();
    let mut of = &HOLDERS;
    loop {
        let known = of.process.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire);
        if known.is_ok() || known == Err(process) {
            return of.holders.lock().unwrap_or_else(PoisonError::into_inner);
        }
        of = of.child.get_or_init(|| Box::new(OfProcess::new()));
    }
}

/// Registers `holder`, which has opened files. If too many are open now, those that were idle
/// longest are closed.
pub(crate) fn note(holder: Weak<dyn Holder>) {
    let mut holders = holders();
    holders.push(holder);
    let most = most();
    if holders.len() > most {
        // Close more than one, so that the next call need not do it again.
        close(&mut holders, most - most / 8);
    }
}

/// Close all files that are not in use, because the system refuses to open more.
pub(crate) fn release() {
    close(&mut holders(), 0);
}

/// Close files until at most `left` holders have open ones; those in use stay.
fn close(holders: &mut Holders, left: usize) {
    let mut there: Vec<Arc<dyn Holder>> = holders.iter().filter_map(Weak::upgrade).collect();
    // They are used meanwhile: each is asked once.
    there.sort_by_cached_key(|holder| holder.last_used());
    let mut surplus = there.len().saturating_sub(left);
    there.retain(|holder| {
        let is_closed = surplus > 0 && holder.close_if_idle();
        surplus -= usize::from(is_closed);
        !is_closed
    });
    *holders = there.iter().map(Arc::downgrade).collect();
}

/// Whether the system refused because too many files are open, in this process or in total.
pub(crate) fn is_exhausted(error: &std::io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// Maximum number of holders with open files.
fn most() -> usize {
    static MOST_HELD: OnceLock<usize> = OnceLock::new();
    *MOST_HELD.get_or_init(|| {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        open_files(&limits).map_or(MOST, |limit| (limit / OF_LIMIT).clamp(BOUNDS.0, BOUNDS.1))
    })
}

/// The limit of open files of a process, from the system's description of its limits.
fn open_files(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        soft => soft.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Used all the time by others.
    #[derive(Debug)]
    struct Restless(AtomicU32);

    impl Holder for Restless {
        fn last_used(&self) -> u64 {
            u64::from(self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9))
        }

        fn close_if_idle(&self) -> bool {
            true
        }
    }

    #[test]
    fn holders_may_be_used_while_they_are_compared() {
        let there: Vec<Arc<dyn Holder>> = (0..300).map(|at| Arc::new(Restless(AtomicU32::new(at * at))) as _).collect();
        let mut holders: Holders = there.iter().map(Arc::downgrade).collect();
        close(&mut holders, 100);
        assert_eq!(holders.len(), 100);
    }

    #[test]
    fn the_limit_of_open_files_is_the_soft_one() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             127235               127235               processes \n\
                      Max open files            1024                 1048576              files     \n";
        assert_eq!(open_files(limits), Some(1024));
        assert_eq!(
            open_files("Max open files            unlimited            unlimited            files"),
            Some(usize::MAX)
        );
        assert_eq!(open_files(""), None);
    }
}
