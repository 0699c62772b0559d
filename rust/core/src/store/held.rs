//! The files that a key space keeps open between two calls: its log and its lock file. They are
//! closed while no call uses them, if others need the descriptors, and opened again with the next
//! use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use super::view::View;
use super::writer_lock::WriterLock;
use crate::sys::descriptors::{self, Holder};

/// The clock by which holders are compared.
static CLOCK: AtomicU64 = AtomicU64::new(1);

/// The files, and the calls that use them.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) view: RwLock<Option<View>>,
    writer_lock: Mutex<Option<Arc<WriterLock>>>,
    used: Mutex<Used>,
    last_used: AtomicU64,
}

#[derive(Debug, Default)]
struct Used {
    /// Calls in progress.
    users: usize,
    /// Whether this space is registered as one with open files.
    is_noted: bool,
}

/// The files stay open while this lives.
#[derive(Debug)]
pub(super) struct InUse<'a>(&'a Files);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.used().users -= 1;
    }
}

impl Files {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begin a call; calls may be nested.
    pub(super) fn enter(self: &Arc<Self>) -> InUse<'_> {
        let is_noted = {
            let mut used = self.used();
            used.users += 1;
            std::mem::replace(&mut used.is_noted, true)
        };
        self.last_used.store(CLOCK.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let in_use = InUse(self);
        if !is_noted {
            let holder: Arc<dyn Holder> = self.clone();
            descriptors::note(Arc::downgrade(&holder));
        }
        in_use
    }

    fn lock_slot(&self) -> MutexGuard<'_, Option<Arc<WriterLock>>> {
        self.writer_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock file, if it is open.
    pub(super) fn writer_lock(&self) -> Option<Arc<WriterLock>> {
        self.lock_slot().clone()
    }

    /// Keep the lock file open; another thread may have opened it first.
    pub(super) fn keep_writer_lock(&self, lock: WriterLock) -> Arc<WriterLock> {
        self.lock_slot().get_or_insert_with(|| Arc::new(lock)).clone()
    }
}

impl Holder for Files {
    fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    fn close_if_idle(&self) -> bool {
        let mut used = match self.used.try_lock() {
            Ok(used) => used,
            Err(TryLockError::Poisoned(used)) => used.into_inner(),
            // A call is starting.
            Err(TryLockError::WouldBlock) => return false,
        };
        if used.users > 0 {
            return false;
        }
        if let Some(view) = self.view.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
            view.log.close();
        }
        *self.lock_slot() = None;
        used.is_noted = false;
        true
    }
}
