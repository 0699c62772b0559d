//! Open files are few: whoever holds some between two calls says so here, and those that were idle
//! longest give theirs back first.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// So many holders keep files open where the system does not tell its limit.
const MOST: usize = 128;
/// A holder has two files. Together they use a quarter of what the process may open, at most: the
/// rest is the caller's.
const OF_LIMIT: usize = 8;
/// Never fewer than that, and never more than the other.
const BOUNDS: (usize, usize) = (8, 1024);

/// Somebody who keeps files open between two calls.
pub(crate) trait Holder: std::fmt::Debug + Send + Sync {
    /// When it was last used, by a clock that all holders share.
    fn last_used(&self) -> u64;
    /// Close the files, unless they are in use; answers whether none is held now. They are opened
    /// again with the next use.
    fn close_if_idle(&self) -> bool;
}

/// Everybody who holds files.
static HOLDERS: Mutex<Vec<Weak<dyn Holder>>> = Mutex::new(Vec::new());

/// `holder` has opened files: if there are too many now, those that were idle longest are closed.
pub(crate) fn note(holder: Weak<dyn Holder>) {
    let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    holders.push(holder);
    let most = most();
    if holders.len() > most {
        // Some more than one, so that this is not done again with the next.
        close(&mut holders, most - most / 8);
    }
}

/// Close all files that are not in use: the system gives no more.
pub(crate) fn release() {
    close(&mut HOLDERS.lock().unwrap_or_else(PoisonError::into_inner), 0);
}

/// Close until at most `left` hold files; those in use stay.
fn close(holders: &mut Vec<Weak<dyn Holder>>, left: usize) {
    let mut there: Vec<Arc<dyn Holder>> = holders.iter().filter_map(Weak::upgrade).collect();
    there.sort_by_key(|holder| holder.last_used());
    let mut surplus = there.len().saturating_sub(left);
    there.retain(|holder| {
        let is_closed = surplus > 0 && holder.close_if_idle();
        surplus -= usize::from(is_closed);
        !is_closed
    });
    *holders = there.iter().map(Arc::downgrade).collect();
}

/// Whether the system refused because too many files are open, in this process or in all.
pub(crate) fn is_exhausted(error: &std::io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// So many holders may keep their files.
fn most() -> usize {
    static MOST_HELD: OnceLock<usize> = OnceLock::new();
    *MOST_HELD.get_or_init(|| {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        open_files(&limits).map_or(MOST, |limit| (limit / OF_LIMIT).clamp(BOUNDS.0, BOUNDS.1))
    })
}

/// How many files a process may open, by what the system says of its limits.
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
