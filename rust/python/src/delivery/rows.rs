//! The streams' rows in a history, with maintenance in a thread of its own: no commit waits for it.

use std::fmt;
use std::sync::Arc;

use dochistory_core::history::values::{Room, ValueMap};
use dochistory_core::protocols::delivery::{Exchange, KeyAndValue, Overtaken, StateRows};
use pyo3::types::{PyAnyMethods, PyModule};

use crate::errors::Outcome;
use crate::handle::Handle;

/// The rows of one side of the streams.
struct KeptUp {
    rows: Arc<dyn StateRows>,
    values: ValueMap,
    name: String,
    handle: Arc<Handle>,
}

/// The rows of the receiving sides.
pub(super) fn received(handle: &Arc<Handle>) -> Outcome<Arc<dyn StateRows>> {
    kept_up(handle, handle.get()?.received_streams(false)?, "received")
}

/// The rows of the sending sides.
pub(super) fn sent(handle: &Arc<Handle>) -> Outcome<Arc<dyn StateRows>> {
    kept_up(handle, handle.get()?.sent_streams(false)?, "sent")
}

fn kept_up(handle: &Arc<Handle>, rows: Arc<dyn StateRows>, name: &str) -> Outcome<Arc<dyn StateRows>> {
    let history = handle.get()?;
    if !handle.auto_maintain || history.is_read_only() {
        return Ok(rows);
    }
    let values = history.values(Room::Delivery, name)?;
    Ok(Arc::new(KeptUp { rows, values, name: name.to_owned(), handle: handle.clone() }))
}

impl fmt::Debug for KeptUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KeptUp").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl StateRows for KeptUp {
    fn scan(&self, prefix: &str) -> dochistory_core::Result<Vec<KeyAndValue>> {
        self.rows.scan(prefix)
    }

    fn get(&self, key: &str) -> dochistory_core::Result<Option<Vec<u8>>> {
        self.rows.get(key)
    }

    fn get_all(&self, keys: &[String]) -> dochistory_core::Result<Vec<Option<Vec<u8>>>> {
        self.rows.get_all(keys)
    }

    fn exchange(&self, changes: &[Exchange]) -> dochistory_core::Result<Result<(), Overtaken>> {
        let done = self.rows.exchange(changes)?;
        // The requested change is done and durable. Failed maintenance is logged, and due again the
        // next time.
        let what = format!("delivery '{}'", self.name);
        if let Some((what, error)) = self.handle.maintenance.start_for_values(&self.values, &what) {
            crate::calls::inside(|py| {
                let logged = PyModule::import(py, "logging").and_then(|logging| {
                    let log = logging.call_method1("getLogger", ("dochistory",))?;
                    log.call_method1("warning", ("maintenance of %s: %s", what, error))
                });
                drop(logged);
            });
        }
        Ok(done)
    }
}
