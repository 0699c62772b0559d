//! The state of a delivery that its polls use, too.

use std::sync::{Arc, Mutex, PoisonError};

use dochistory_core::protocols::delivery::Inbox;

use super::held_rows::Kept;
use crate::handle::Handle;

/// The state of a delivery that its polls use.
pub(super) struct Shared {
    pub(super) handle: Arc<Handle>,
    pub(super) inbox: Inbox,
    pub(super) keep_rows: bool,
    pub(super) kept: Mutex<Kept>,
}

impl Shared {
    /// The held rows. The lock is never taken by a thread that holds Python while another one waits
    /// for Python with the lock.
    pub(super) fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn only(&self) -> Option<&str> {
        self.inbox.settings().only.as_deref()
    }
}
