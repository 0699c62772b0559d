//! Dividing a batch among threads.

use std::ops::Range;

use crate::{Error, Result};

/// Minimum rows for one thread.
const ROWS_PER_THREAD: usize = 1 << 16;

/// A row range for each thread.
pub(crate) fn parts_of(rows: usize, threads: usize) -> Vec<Range<usize>> {
    let parts = threads.clamp(1, rows.div_ceil(ROWS_PER_THREAD).max(1));
    let size = rows.div_ceil(parts).max(1);
    (0..parts).map(|part| (part * size).min(rows)..((part + 1) * size).min(rows)).collect()
}

/// Run all jobs at once, the first of them on this thread; answers their results in order.
pub(crate) fn together<T: Send>(jobs: impl Iterator<Item = impl FnOnce() -> Result<T> + Send>) -> Result<Vec<T>> {
    let mut jobs = jobs;
    let Some(first) = jobs.next() else { return Ok(Vec::new()) };
    let Some(second) = jobs.next() else { return Ok(vec![first()?]) };
    std::thread::scope(|scope| {
        let running: Vec<_> = std::iter::once(second).chain(jobs).map(|job| scope.spawn(job)).collect();
        let mut done = vec![first()];
        for thread in running {
            done.push(thread.join().unwrap_or_else(|_| Err(Error::State("a thread of this call failed".into()))));
        }
        done.into_iter().collect()
    })
}
