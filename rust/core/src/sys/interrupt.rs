//! Waits that an interrupt from the keyboard can end. The caller of the engine may lend it a check,
//! which every wait runs now and then.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Minimum time between two checks; waits are cut into slices of this length.
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

/// Do `work`; its waits on this thread end with [`Error::Interrupted`] once `ear` says so.
pub fn listening<T>(ear: Ear, work: impl FnOnce() -> T) -> T {
    let _restored = Restored(EAR.replace(Some(ear)));
    work()
}

/// An error if this call is to end. Cheap enough for a loop.
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
