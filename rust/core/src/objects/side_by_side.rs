//! Requests at the same time.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::{Error, Result};

/// Do `work` with each of `items`, in up to `threads` threads; the first error ends it.
pub(crate) fn side_by_side<T: Send, U: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> Result<U> + Sync,
) -> Result<Vec<U>> {
    if threads < 2 || items.len() < 2 {
        return items.into_iter().map(work).collect();
    }
    let count = items.len();
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let drain = || -> Result<Vec<(usize, U)>> {
        let mut done = Vec::new();
        while let Some((at, item)) = next() {
            done.push((at, work(item)?));
        }
        Ok(done)
    };
    let mut done = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.min(count)).map(|_| scope.spawn(drain)).collect();
        let mut all = Vec::with_capacity(count);
        for thread in threads {
            let part = thread.join().map_err(|_| Error::State("a thread that asks the store failed".into()))?;
            all.extend(part?);
        }
        Ok::<_, Error>(all)
    })?;
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, item)| item).collect())
}
