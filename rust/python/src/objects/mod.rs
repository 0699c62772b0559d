//! Object storage: the engine's requests go to the client in `dochistory.objects`, in Python.
//!
//! The engine works outside Python. Each request enters Python for the call alone, and the client
//! lets go of Python again while it waits for the store.

pub(crate) mod copies;
mod failures;
mod replica;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use dochistory_core::objects::{Listed, ObjectStore, Put};
use dochistory_core::{Error, Result};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Outcome;

/// Requests that one caller sends at the same time.
const LANES: usize = 8;
/// The object that says which history this is.
pub(crate) const IDENTITY: &str = "HISTORY";
/// What the names of all others begin with.
const ROOMS: [&str; 2] = ["known/", "triggers/"];
/// How snapshots of mappers and of delivery begin, whose objects are not those of triggers.
const MAYBE_ELSEWHERE: [&str; 2] = ["mapper-", "delivery-"];
pub(crate) use replica::Replica;

/// A client of one place in an object store.
#[derive(Debug)]
pub(crate) struct Client {
    client: Py<PyAny>,
    /// The URL, in the one spelling of its place.
    url: String,
    /// An object that was fetched before the engine asks for it, until it does.
    early: Mutex<Option<(String, Option<Vec<u8>>)>>,
}

/// The object of a snapshot's pin, as far as its name tells.
fn pin_of(snapshot: &str) -> Option<String> {
    let (space, pin) = snapshot.split_once('=')?;
    let is_elsewhere = MAYBE_ELSEWHERE.iter().any(|prefix| space.starts_with(prefix));
    (pin.starts_with("pin-") && !is_elsewhere).then(|| format!("triggers/{space}/{pin}"))
}

impl Client {
    /// The client for a URL. Sends no request.
    pub(crate) fn connect(py: Python<'_>, url: &str, options: Option<&Bound<'_, PyAny>>) -> Outcome<Self> {
        let client = py.import("dochistory.objects")?.getattr("open_client")?.call1((url, options))?;
        let url = client.getattr("location")?.getattr("url")?.extract()?;
        Ok(Self { client: client.unbind(), url, early: Mutex::default() })
    }

    /// A client of Python's, with an object that need not be fetched the first time.
    pub(crate) fn described(py: Python<'_>, client: Py<PyAny>, name: String, bytes: Vec<u8>) -> Outcome<Self> {
        let url = client.bind(py).getattr("location")?.getattr("url")?.extract()?;
        Ok(Self { client, url, early: Mutex::new(Some((name, Some(bytes)))) })
    }

    /// The URL, in the one spelling of its place.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The client as Python has it.
    pub(crate) fn shared(&self, py: Python<'_>) -> Py<PyAny> {
        self.client.clone_ref(py)
    }

    /// The identity file of the history; none if there is no history. The pin of a snapshot that is
    /// to be read is fetched meanwhile.
    pub(crate) fn identity(&self, snapshot: Option<&str>) -> Result<Option<Vec<u8>>> {
        let Some(pin) = snapshot.and_then(pin_of).filter(|_| self.takes_threads()) else { return self.get(IDENTITY) };
        thread::scope(|scope| {
            let fetched = thread::Builder::new().spawn_scoped(scope, || self.get(&pin));
            let identity = self.get(IDENTITY);
            // Whatever went wrong comes again when the engine asks.
            if let Ok(Ok(Ok(found))) = fetched.map(ScopedJoinHandle::join) {
                *self.early() = Some((pin.clone(), found));
            }
            identity
        })
    }

    fn early(&self) -> MutexGuard<'_, Option<(String, Option<Vec<u8>>)>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuse a store that does not keep what a history rests on.
    pub(crate) fn check(&self, py: Python<'_>) -> Outcome<()> {
        py.import("dochistory.objects")?.getattr("quick_check")?.call1((&self.client,))?;
        Ok(())
    }

    /// Refuse to make a history where one seems to have been: its ids would be NEW again.
    pub(crate) fn check_unused(&self) -> Result<()> {
        for room in ROOMS {
            let Some(remnant) = self.list(room)?.into_iter().next() else { continue };
            // Another process may have made it meanwhile.
            if self.identity(None)?.is_some() {
                return Ok(());
            }
            let reason = format!(
                "the object HISTORY is missing, and {} is there: this was a history, whose objects were deleted by hand \
                 or by a lifecycle rule, or an unfinished copy; nothing was made: restore them from a copy or an older \
                 version, or name another place",
                remnant.name
            );
            return Err(Error::Open { path: self.url.clone().into(), reason });
        }
        Ok(())
    }

    /// Call the client from outside Python.
    fn ask<T>(&self, request: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>) -> Result<T> {
        crate::calls::inside(|py| request(self.client.bind(py)).map_err(|error| failures::engine(py, error)))
    }
}

impl ObjectStore for Client {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.ask(|client| {
            let bytes = PyBytes::new(client.py(), bytes);
            put(&client.call_method1(intern!(client.py(), "put_new"), (name, bytes))?)
        })
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.ask(|client| {
            let bytes = PyBytes::new(client.py(), bytes);
            client.call_method1(intern!(client.py(), "put"), (name, bytes)).map(drop)
        })
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if let Some((_, early)) = self.early().take_if(|(early, _)| early.as_str() == name) {
            return Ok(early);
        }
        self.ask(|client| bytes(&client.call_method1(intern!(client.py(), "get"), (name,))?))
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>> {
        self.ask(|client| bytes(&client.call_method1(intern!(client.py(), "get_range"), (name, offset, length))?))
    }

    fn put_file(&self, name: &str, path: &Path) -> Result<Put> {
        self.ask(|client| put(&client.call_method1(intern!(client.py(), "put_file"), (name, path))?))
    }

    fn get_file(&self, name: &str, path: &Path, bytes: u64) -> Result<bool> {
        self.ask(|client| client.call_method1(intern!(client.py(), "get_file"), (name, path, bytes))?.extract())
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.ask(|client| {
            let found = client.call_method1(intern!(client.py(), "list"), (prefix,))?;
            found.try_iter()?.map(|one| listed(&one?)).collect()
        })
    }

    fn place(&self) -> String {
        self.url.clone()
    }

    fn lanes(&self) -> usize {
        // Threads that the caller waits for could not enter Python while it is inside.
        if self.takes_threads() { LANES } else { 1 }
    }

    fn takes_threads(&self) -> bool {
        crate::calls::is_outside()
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.ask(|client| client.call_method1(intern!(client.py(), "delete"), (name,)).map(drop))
    }
}

fn put(answer: &Bound<'_, PyAny>) -> PyResult<Put> {
    match answer.extract::<&str>()? {
        "created" => Ok(Put::Created),
        "exists" => Ok(Put::Exists),
        other => Err(pyo3::exceptions::PyTypeError::new_err(format!("the client answers {other:?} to a put"))),
    }
}

fn bytes(answer: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    if answer.is_none() {
        return Ok(None);
    }
    Ok(Some(answer.cast::<PyBytes>()?.as_bytes().to_vec()))
}

fn listed(one: &Bound<'_, PyAny>) -> PyResult<Listed> {
    let py = one.py();
    Ok(Listed {
        name: one.getattr(intern!(py, "name"))?.extract()?,
        size: one.getattr(intern!(py, "size"))?.extract()?,
        modified_us: one.getattr(intern!(py, "changed_us"))?.extract()?,
    })
}
