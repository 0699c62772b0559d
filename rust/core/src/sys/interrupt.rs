//! Waits that hear the keyboard: whoever calls the engine may lend it an ear, which every wait asks
//! now and then.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// So often the ear is asked at most; waits are cut into slices of this length.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Answers whether the call is to end.
pub type Ear = fn() -> bool;

thread_local! {
    static EAR: Cell<Option<Ear>> = const { Cell::new(None) };
    static ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

struct Restored(Option<Ear>);

impl Drop for Restored {
    fn drop(&mut self) {
        EAR.set(self.0);
    }
}

/// Do `work`; what it waits for on this thread ends with [`Error::Interrupted`] once `ear` says so.
pub fn listening<T>(ear: Ear, work: impl FnOnce() -> T) -> T {
    let _restored = Restored(EAR.replace(Some(ear)));
    work()
}

/// An error if this call is to end. Cheap enough to be asked in a loop.
pub(crate) fn check() -> Result<()> {
    let Some(ear) = EAR.get() else { return Ok(()) };
    let now = Instant::now();
    if ASKED.get().is_some_and(|asked| now.duration_since(asked) < SLICE) {
        return Ok(());
    }
    ASKED.set(Some(now));
    if ear() { Err(Error::Interrupted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_fails_only_while_somebody_listens_and_says_so() {
        assert!(check().is_ok());
        let heard = listening(|| true, check);
        assert!(matches!(heard, Err(Error::Interrupted)));
        std::thread::sleep(SLICE);
        assert!(listening(|| false, check).is_ok());
        assert!(check().is_ok());
    }
}
