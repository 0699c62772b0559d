//! An open history that several Python objects use. It is closed once for all of them, and never
//! used in a forked process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use dochistory_core::history::History;
use pyo3::prelude::*;

use crate::background::Maintenance;
use crate::errors::{Failure, Outcome};
use crate::objects::Replica;

pub(crate) struct Handle {
    history: RwLock<Option<Arc<History>>>,
    /// The process that opened it.
    process: u32,
    /// The directory, or the URL of the bucket.
    pub(crate) path: PathBuf,
    /// The local copy of a history in a bucket, which ends with the handle.
    replica: Option<Replica>,
    /// The client of the bucket, for what Python keeps beside the history.
    client: Option<Py<PyAny>>,
    /// Whether `begin` starts maintenance.
    pub(crate) auto_maintain: bool,
    pub(crate) maintenance: Maintenance,
    /// Number of documents without an id that were begun, by trigger.
    without_id: Mutex<BTreeMap<String, u64>>,
}

impl Handle {
    pub(crate) fn new(history: History, auto_maintain: bool) -> Self {
        let path = history.path().to_path_buf();
        Self::made(history, auto_maintain, path, None, None)
    }

    /// A handle of a history in a bucket.
    pub(crate) fn in_bucket(history: History, auto_maintain: bool, replica: Replica, client: Py<PyAny>) -> Self {
        let path = PathBuf::from(replica.url());
        Self::made(history, auto_maintain, path, Some(replica), Some(client))
    }

    fn made(
        history: History,
        auto_maintain: bool,
        path: PathBuf,
        replica: Option<Replica>,
        client: Option<Py<PyAny>>,
    ) -> Self {
        Self {
            history: RwLock::new(Some(Arc::new(history))),
            process: std::process::id(),
            path,
            replica,
            client,
            auto_maintain,
            maintenance: Maintenance::default(),
            without_id: Mutex::default(),
        }
    }

    /// The client of the bucket; none for a directory.
    pub(crate) fn client(&self) -> Option<&Py<PyAny>> {
        self.client.as_ref()
    }

    /// Whether the local copy of a history in a bucket, if it is one, is there: somebody may have
    /// emptied the cache.
    pub(crate) fn has_replica(&self) -> bool {
        self.replica.as_ref().is_none_or(Replica::is_there)
    }

    /// An error if the history is in a bucket.
    pub(crate) fn check_directory(&self) -> Outcome<()> {
        if self.replica.is_none() {
            return Ok(());
        }
        Err(Failure::state(format!(
            "the history at {} is in a bucket, so it has no directory: ask for its url",
            self.path.display()
        )))
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

    /// Count documents of a trigger that were begun without an id; answers whether they are the
    /// first.
    pub(crate) fn count_without_id(&self, trigger: &str, count: u64) -> bool {
        let mut counted = self.without_id.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counted.entry(trigger.to_owned()).or_default();
        let is_first = *known == 0;
        *known += count;
        is_first
    }

    /// How many documents of a trigger were begun without an id.
    pub(crate) fn without_id(&self, trigger: &str) -> u64 {
        self.without_id.lock().unwrap_or_else(PoisonError::into_inner).get(trigger).copied().unwrap_or(0)
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
