//! An open history that several Python objects use. It is closed once for all of them, and never
//! used in a forked process.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use dochistory_core::history::History;

use crate::background::Maintenance;
use crate::errors::{Failure, Outcome};

pub(crate) struct Handle {
    history: RwLock<Option<Arc<History>>>,
    /// The process that opened it.
    process: u32,
    pub(crate) path: PathBuf,
    /// Whether `begin` starts maintenance.
    pub(crate) auto_maintain: bool,
    pub(crate) maintenance: Maintenance,
}

impl Handle {
    pub(crate) fn new(history: History, auto_maintain: bool) -> Self {
        let path = history.path().to_path_buf();
        let maintenance = Maintenance::default();
        Self {
            history: RwLock::new(Some(Arc::new(history))),
            process: std::process::id(),
            path,
            auto_maintain,
            maintenance,
        }
    }

    /// The history, as long as it is open.
    pub(crate) fn get(&self) -> Outcome<Arc<History>> {
        self.check_process()?;
        let history = self.history.read().unwrap_or_else(PoisonError::into_inner);
        history.clone().ok_or_else(|| Failure::state(format!("the history at {} is closed", self.path.display())))
    }

    /// Close the history, after the calls of other threads have ended.
    pub(crate) fn close(&self) {
        // In a forked process another thread may have held the lock at the fork, and the files are
        // the parent's.
        if self.check_process().is_ok() {
            self.maintenance.close();
            self.history.write().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.get().is_ok()
    }

    /// Locks and threads do not survive a fork.
    pub(crate) fn check_process(&self) -> Outcome<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(Failure::forked(&format!(
            "the history at {} was opened by process {}: open it again in this one",
            self.path.display(),
            self.process
        )))
    }
}
