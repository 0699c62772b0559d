//! The exception tree, and the mapping from the engine's errors to it.

use dochistory_core::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;

create_exception!(dochistory, DocHistoryError, PyException, "Anything that goes wrong with a document history.");
create_exception!(
    dochistory,
    StorageError,
    DocHistoryError,
    "[DH-IO] The operating system refused a file operation; the text names the file."
);
create_exception!(
    dochistory,
    DescriptorsError,
    DocHistoryError,
    "[DH-DESCRIPTORS] Too many files are open, in this process or on this machine: nothing was decided."
);
create_exception!(
    dochistory,
    CorruptError,
    DocHistoryError,
    "[DH-CORRUPT] A file is not what was written; the text names the file and the byte."
);
create_exception!(
    dochistory,
    LockedError,
    DocHistoryError,
    "[DH-LOCKED] Another writer held the trigger for longer than lock_timeout; the text names it."
);
create_exception!(
    dochistory,
    FencedError,
    DocHistoryError,
    "[DH-FENCED] What this handle holds is not what stands under its path (the directory was replaced or restored), another \
     writer is in its turn (the file system's locks do not exclude each other), or has moved the stream that this one \
     receives or sends; the text says which. Nothing was acknowledged."
);
create_exception!(
    dochistory,
    RestoredError,
    DocHistoryError,
    "[DH-RESTORED] One side of a stream was restored to an older state than the other remembers: extract the subscription \
     again."
);
create_exception!(
    dochistory,
    TruncatedError,
    DocHistoryError,
    "[DH-TRUNCATED] A resend was asked for of what is no longer in the publisher's log: extract the subscription again."
);
create_exception!(
    dochistory,
    FailedError,
    DocHistoryError,
    "[DH-FAILED] An earlier write failed, so this handle writes no more: open the history again."
);
create_exception!(dochistory, ReadOnlyError, DocHistoryError, "[DH-READ-ONLY] The history was opened for reading.");
create_exception!(
    dochistory,
    OpenError,
    DocHistoryError,
    "[DH-OPEN] There is no history (create=True makes one), the directory is something else's, the path is no directory of \
     this machine (s3a://), or a snapshot was let go."
);
create_exception!(
    dochistory,
    SchemaError,
    DocHistoryError,
    "[DH-SCHEMA] The documents' columns are not as needed; the text names the column, what it is and what it may be."
);
create_exception!(
    dochistory,
    ConfigError,
    DocHistoryError,
    "[DH-CONFIG] A setting or argument makes no sense; the text names it and what is allowed."
);
create_exception!(
    dochistory,
    TransactionError,
    DocHistoryError,
    "[DH-TRANSACTION] The numbers of an application's batches went backwards, or a known number came with other rows."
);
create_exception!(
    dochistory,
    ConflictError,
    TransactionError,
    "[DH-CONFLICT] Others were first with documents of a staged claim, so nothing of it was begun: decide again."
);
create_exception!(
    dochistory,
    ClusterError,
    DocHistoryError,
    "[DH-CLUSTER] A worker sees another directory than the driver under the history's path; the text says what it sees."
);
create_exception!(
    dochistory,
    ObjectStoreError,
    StorageError,
    "[DH-OBJECTS] An object store refused a request or did not answer. More exact codes: [DH-BUCKET] no such bucket, \
     [DH-CREDENTIALS] expired, unknown or none, [DH-REGION], [DH-ENDPOINT], [DH-FORBIDDEN], [DH-CLOCK] clocks too far apart, \
     [DH-MISSING] an object is gone, [DH-STORE] the store does not keep its promises, [DH-EXTRA] a package is not installed."
);
create_exception!(
    dochistory,
    StateError,
    DocHistoryError,
    "[DH-STATE] The call does not fit its object: it is closed, or the rows are not the claim's."
);
create_exception!(
    dochistory,
    ForkedError,
    DocHistoryError,
    "[DH-FORKED] The history was opened before this process was forked off: open it again here."
);
create_exception!(
    dochistory,
    TransientError,
    PyException,
    "Raised by a resolver that cannot answer now but may be able to later: a database that is down."
);

/// Why a call failed: in the engine, or in Python.
#[derive(Debug)]
pub(crate) enum Failure {
    Engine(Error),
    Python(PyErr),
}

/// The result of the fallible functions of this crate.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn schema(text: impl Into<String>) -> Self {
        Self::Engine(Error::Schema(text.into()))
    }

    pub(crate) fn config(text: impl Into<String>) -> Self {
        Self::Engine(Error::Config(text.into()))
    }

    pub(crate) fn state(text: impl Into<String>) -> Self {
        Self::Engine(Error::State(text.into()))
    }

    pub(crate) fn forked(text: &str) -> Self {
        Self::Python(ForkedError::new_err(format!("[DH-FORKED] {text}")))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<pyo3_arrow::error::PyArrowError> for Failure {
    fn from(error: pyo3_arrow::error::PyArrowError) -> Self {
        Self::Python(error.into())
    }
}

impl From<crate::arrow::error::ArrowError> for Failure {
    fn from(error: crate::arrow::error::ArrowError) -> Self {
        Self::schema(error.to_string())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine(error) => exception(&error),
            Failure::Python(error) => error,
        }
    }
}

fn exception(error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Io { .. } => StorageError::new_err(text),
        Error::Descriptors { .. } => DescriptorsError::new_err(text),
        Error::Corrupt { .. } | Error::CorruptObject { .. } => CorruptError::new_err(text),
        Error::Locked { .. } | Error::Refused => LockedError::new_err(text),
        Error::Fenced { .. } | Error::Overtaken(_) => FencedError::new_err(text),
        Error::Restored(_) => RestoredError::new_err(text),
        Error::Truncated(_) => TruncatedError::new_err(text),
        Error::Failed(_) => FailedError::new_err(text),
        Error::ReadOnly(_) => ReadOnlyError::new_err(text),
        Error::Open { .. } => OpenError::new_err(text),
        Error::Schema(_) => SchemaError::new_err(text),
        Error::Config(_) => ConfigError::new_err(text),
        Error::Transaction(_) => TransactionError::new_err(text),
        Error::Conflict(_) => ConflictError::new_err(text),
        Error::Elsewhere(_) => ClusterError::new_err(text),
        Error::Objects { .. } | Error::ObjectStore(_) => ObjectStoreError::new_err(text),
        Error::State(_) => StateError::new_err(text),
        Error::Interrupted => crate::calls::raised().unwrap_or_else(|| PyKeyboardInterrupt::new_err(text)),
    }
}
