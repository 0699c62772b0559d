//! Opening a history.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dochistory_core::Error;
use dochistory_core::history::{DEFAULT_SHARDS, History as Engine, OpenOptions};
use dochistory_core::objects::{Cached, ObjectStore};
use pyo3::prelude::*;

use crate::arguments;
use crate::calls::InCall;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::history::History;
use crate::objects::{Client, Replica};
use crate::paths;

/// The part of a cache that outlives its handles.
const CACHED: &str = "dochistory-objects";
/// Its bound, unless another one is given.
const MOST_BYTES: u64 = 16 << 30;

/// Open the history in a directory, or in a bucket.
///
/// Args:
///     path: the directory; a relative path is made absolute now. Or the URL of a bucket
///         (`s3://bucket/orders.history`, `gs://`, `az://`, `abfss://`).
///     create: make the history if there is none.
///     read_only: never write, and need no right to write.
///     lock_timeout: how long to wait for another writer's operation: text ("30 s"), a timedelta,
///         or seconds.
///     snapshot: what `History.pin` answered: see that state, and never another.
///     shards: number of key ranges that Spark may divide a new history's work into; a power of two
///         up to 65,536. A history that exists keeps its own.
///     auto_maintain: put small files together, in a thread of its own, when `begin` has made many.
///     storage_options: credentials, region, endpoint and the like of a bucket, by the names of
///         delta-rs and Polars; what is absent comes from the environment, or the machine's role.
///     cache: a directory on a local disk, where the processes of a machine keep the files that
///         they fetched from the bucket, and this handle its copy of the rest; if absent, nothing
///         is kept, and the copy is where the system keeps temporary files.
///     cache_bytes: how many bytes of files are kept that no open handle uses; 16 GiB, if absent.
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
///     ObjectStoreError: [DH-OBJECTS], [DH-BUCKET], …: the bucket cannot be used; [DH-STORE] a
///         store on which a history would be made does not keep what it rests on.
#[pyfunction]
#[pyo3(
    signature = (
        path, create = false, read_only = false, lock_timeout = None, snapshot = None, shards = DEFAULT_SHARDS, *,
        auto_maintain = true, storage_options = None, cache = None, cache_bytes = None
    ),
    text_signature = "(path, create=False, read_only=False, lock_timeout='30 s', snapshot=None, shards=64, *, \
        auto_maintain=True, storage_options=None, cache=None, cache_bytes=None)"
)]
#[expect(clippy::too_many_arguments, reason = "users give them by name")]
pub(crate) fn open(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = arguments::create)] create: bool,
    #[pyo3(from_py_with = arguments::read_only)] read_only: bool,
    lock_timeout: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = arguments::snapshot)] snapshot: Option<String>,
    #[pyo3(from_py_with = arguments::shards)] shards: u32,
    #[pyo3(from_py_with = arguments::auto_maintain)] auto_maintain: bool,
    storage_options: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = arguments::cache)] cache: Option<PathBuf>,
    #[pyo3(from_py_with = arguments::cache_bytes)] cache_bytes: Option<u64>,
) -> Outcome<History> {
    let mut options = OpenOptions { create, read_only, snapshot, shards, ..OpenOptions::default() };
    if let Some(limit) = lock_timeout {
        let limit_us = clock::duration_us("lock_timeout", limit)?;
        let limit_us = u64::try_from(limit_us).map_err(|_| Failure::config("lock_timeout is less than nothing"))?;
        options.lock_timeout = Duration::from_micros(limit_us);
    }
    if let Some(url) = paths::bucket(path) {
        let cache = Cache { directory: cache, bytes: cache_bytes };
        return in_bucket(py, &url, &options, auto_maintain, storage_options, cache);
    }
    let has_options = storage_options.map(PyAnyMethods::is_truthy).transpose()?.unwrap_or(false);
    if has_options || cache.is_some() || cache_bytes.is_some() {
        let reason = "storage_options, cache and cache_bytes are for the URL of a bucket, and this is none";
        return Err(Failure::config(reason));
    }
    let path = paths::path(path)?;
    let history = crate::calls::outside(py, || Engine::open(&path, &options))?;
    Ok(History { handle: Arc::new(Handle::new(history, auto_maintain)) })
}

/// The arguments `cache` and `cache_bytes`.
struct Cache {
    directory: Option<PathBuf>,
    bytes: Option<u64>,
}

impl Cache {
    /// Put the cache before a client, if there is one.
    fn before(self, client: Client, url: &str) -> dochistory_core::Result<Arc<dyn ObjectStore>> {
        let Some(directory) = self.directory else { return Ok(Arc::new(client)) };
        let directory = directory.join(CACHED);
        match DirBuilder::new().recursive(true).mode(0o700).create(&directory) {
            Err(source) => Err(Error::Io { operation: "make a cache in", path: directory, source }),
            Ok(()) => Ok(Arc::new(Cached::new(client, url, &directory, self.bytes.unwrap_or(MOST_BYTES)))),
        }
    }
}

/// Open the history in a bucket.
fn in_bucket(
    py: Python<'_>,
    url: &str,
    options: &OpenOptions,
    auto_maintain: bool,
    storage_options: Option<&Bound<'_, PyAny>>,
    cache: Cache,
) -> Outcome<History> {
    let _call = InCall::enter(py);
    let client = Client::connect(py, url, storage_options)?;
    let (url, shared) = (client.url().to_owned(), client.shared(py));
    let identity = crate::calls::outside(py, || client.identity(options.snapshot.as_deref()))?;
    if identity.is_none() && options.create && !options.read_only {
        crate::calls::outside(py, || client.check_unused())?;
        client.check(py)?;
    } else if identity.is_none() {
        let reason = "there is no history here; create=True makes one".into();
        return Err(Error::Open { path: url.into(), reason }.into());
    }
    let (replica, history) = crate::calls::outside(py, || made(client, &url, identity, options, cache))?;
    Ok(History { handle: Arc::new(Handle::in_bucket(history, auto_maintain, replica, shared)) })
}

/// The history of this identity, or a new one, and its local copy.
fn made(
    client: Client,
    url: &str,
    identity: Option<Vec<u8>>,
    options: &OpenOptions,
    cache: Cache,
) -> dochistory_core::Result<(Replica, Engine)> {
    let replica = Replica::make(url, cache.directory.clone())?;
    let store = cache.before(client, url)?;
    let history = Engine::open_objects_of(store, identity, replica.directory(), options)?;
    Ok((replica, history))
}

/// Open a pinned state of a history in a bucket for reading, and fetch its files. Not public:
/// Spark's workers use it. The pin itself is not asked for, so the caller has to see that it is
/// there, and the same.
///
/// Args:
///     client: the client of the history's place.
///     trigger: the name of the trigger whose state it is.
///     snapshot: what `pin` answered.
///     name: the name of the pin's object.
///     described: what `History._described` said where the state was pinned.
///     cache: as for `open`.
///
/// Returns:
///     History: the open history.
///
/// Raises:
///     OpenError: [DH-OPEN] the pin was removed, and its files with it.
///     CorruptError: [DH-CORRUPT] what was said of it is damaged.
///     StorageError: [DH-IO] the operating system refused a file operation.
///     ObjectStoreError: [DH-OBJECTS], …: the bucket cannot be used.
#[pyfunction]
#[pyo3(signature = (client, trigger, snapshot, name, described, cache = None))]
pub(crate) fn _open_described(
    py: Python<'_>,
    client: Py<PyAny>,
    trigger: &str,
    snapshot: String,
    name: String,
    described: (Vec<u8>, Vec<u8>),
    #[pyo3(from_py_with = arguments::cache)] cache: Option<PathBuf>,
) -> Outcome<History> {
    let _call = InCall::enter(py);
    let (identity, pin) = described;
    let client = Client::described(py, client, name, pin)?;
    let (url, shared) = (client.url().to_owned(), client.shared(py));
    let options = OpenOptions { read_only: true, snapshot: Some(snapshot), ..OpenOptions::default() };
    let cache = Cache { directory: cache, bytes: None };
    let (replica, history) = crate::calls::outside(py, || {
        let (replica, history) = made(client, &url, Some(identity), &options, cache)?;
        history.fetch(trigger)?;
        Ok::<_, Error>((replica, history))
    })?;
    Ok(History { handle: Arc::new(Handle::in_bucket(history, false, replica, shared)) })
}
