//! Opening a history.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dochistory_core::history::{DEFAULT_SHARDS, History as Engine, OpenOptions};
use pyo3::prelude::*;

use crate::arguments;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::history::History;

/// Open the history in a directory.
///
/// Args:
///     path: the directory; a relative path is made absolute now.
///     create: make the history if there is none.
///     read_only: never write, and need no right to write.
///     lock_timeout: how long to wait for another writer's operation: text ("30 s"), a timedelta,
///         or seconds.
///     snapshot: what `History.pin` answered: see that state, and never another.
///     shards: number of key ranges that Spark may divide a new history's work into; a power of two
///         up to 65,536. A history that exists keeps its own.
///     auto_maintain: put small files together, in a thread of its own, when `begin` has made many.
///
/// Returns:
///     History: the open history; leaving a `with` block closes it.
///
/// Raises:
///     OpenError: [DH-OPEN] there is no history and `create` is not set, or the directory holds
///         other files.
///     CorruptError: [DH-CORRUPT] the history's identity file is damaged.
///     StorageError: [DH-IO] the operating system refused a file operation.
///     FencedError: [DH-FENCED] the file system gives a lock to two at a time, so several writers
///         would not exclude each other.
///     ConfigError: [DH-CONFIG] an argument makes no sense.
#[pyfunction]
#[pyo3(
    signature = (
        path, create = false, read_only = false, lock_timeout = None, snapshot = None, shards = DEFAULT_SHARDS, *,
        auto_maintain = true
    ),
    text_signature = "(path, create=False, read_only=False, lock_timeout='30 s', snapshot=None, shards=64, *, \
        auto_maintain=True)"
)]
#[expect(clippy::too_many_arguments, reason = "users give them by name")]
pub(crate) fn open(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::path)] path: PathBuf,
    create: bool,
    read_only: bool,
    lock_timeout: Option<&Bound<'_, PyAny>>,
    snapshot: Option<String>,
    #[pyo3(from_py_with = arguments::shards)] shards: u32,
    auto_maintain: bool,
) -> Outcome<History> {
    let mut options = OpenOptions { create, read_only, snapshot, shards, ..OpenOptions::default() };
    if let Some(limit) = lock_timeout {
        let limit_us = clock::duration_us("lock_timeout", limit)?;
        let limit_us = u64::try_from(limit_us).map_err(|_| Failure::config("lock_timeout is less than nothing"))?;
        options.lock_timeout = Duration::from_micros(limit_us);
    }
    let history = crate::calls::outside(py, || Engine::open(&path, &options))?;
    Ok(History { handle: Arc::new(Handle::new(history, auto_maintain)) })
}
