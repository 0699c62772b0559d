//! The one error type of the engine. Each kind has a stable code that stands in its text, because
//! Spark hands on the text only.

use std::path::{Path, PathBuf};

use crate::sys::descriptors::is_exhausted;

/// What every fallible call of the engine returns.
pub type Result<T> = std::result::Result<T, Error>;

/// All that can go wrong, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("[DH-IO] cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb ("read", "sync").
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file is not what the store wrote.
    #[error("[DH-CORRUPT] {} at byte {offset}: {reason}; nothing was changed: restore the history from a copy, or let `dochistory repair` say what it can save", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// Where in the file the damage shows.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// An object that no repair can do without is not what the store wrote.
    #[error(
        "[DH-CORRUPT] {name} at byte {offset}: {reason}; nothing was changed: restore this object, or an older version of it, from a copy; without it nothing can be repaired"
    )]
    CorruptObject {
        /// The damaged object, with its bucket where that is known.
        name: String,
        /// Where in the object the damage shows.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// Another writer holds the trigger's writer lock for longer than the limit.
    #[error("[DH-LOCKED] waited {waited_ms} ms for the writer lock of {}; it is held by {holder}", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long the caller waited, in milliseconds.
        waited_ms: u64,
        /// Host, process and time of the holder, as it wrote them.
        holder: String,
    },
    /// Too many files are open, in this process or on this machine.
    #[error("[DH-DESCRIPTORS] cannot {operation} {}: {source}; nothing was decided: close what is not needed, or raise the limit of open files (`ulimit -n`)", path.display())]
    Descriptors {
        /// What was tried, as a verb ("open", "sync").
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// This handle's files are not the ones under its path, or another writer holds the lock too:
    /// nothing is acknowledged.
    #[error("[DH-FENCED] {}: {reason}", path.display())]
    Fenced {
        /// The file that shows it.
        path: PathBuf,
        /// What it shows, and what to do.
        reason: String,
    },
    /// Another process has moved a row that this answer rests on.
    #[error("[DH-FENCED] {0}")]
    Overtaken(String),
    /// One side of a stream was restored to an older state than the other remembers.
    #[error("[DH-RESTORED] {0}")]
    Restored(String),
    /// The requested part is no longer in the publisher's log.
    #[error("[DH-TRUNCATED] {0}")]
    Truncated(String),
    /// An earlier write or sync failed: this handle accepts no further writes.
    #[error("[DH-FAILED] an earlier write failed ({0}); reopen the history to go on")]
    Failed(String),
    /// The history was opened for reading.
    #[error("[DH-READ-ONLY] the history at {} was opened read-only", .0.display())]
    ReadOnly(PathBuf),
    /// There is no history there, or there is one already.
    #[error("[DH-OPEN] {}: {reason}", path.display())]
    Open {
        /// The directory asked for.
        path: PathBuf,
        /// Why it cannot be opened, and what to do.
        reason: String,
    },
    /// The documents' columns are invalid.
    #[error("[DH-SCHEMA] {0}")]
    Schema(String),
    /// A setting is not valid.
    #[error("[DH-CONFIG] {0}")]
    Config(String),
    /// A transaction number went backwards.
    #[error("[DH-TRANSACTION] {0}")]
    Transaction(String),
    /// Another process was first with documents of a staged claim.
    #[error("[DH-CONFLICT] {0}")]
    Conflict(String),
    /// A task and the commit use the same path, but not the same directory.
    #[error("[DH-CLUSTER] {0}")]
    Elsewhere(String),
    /// An object store did not do what it was asked for.
    #[error("[{}] cannot {operation} {name}: {reason}", code_of(operation))]
    Objects {
        /// What was tried, as a verb ("read", "create").
        operation: &'static str,
        /// The object, with its bucket where that is known.
        name: String,
        /// The store's answer, without any secret, and what to do.
        reason: String,
    },
    /// An object store refused a request, or did not answer. The text begins with the code of the
    /// client, which tells missing buckets from wrong credentials.
    #[error("{0}")]
    ObjectStore(String),
    /// Another handle's commit came first: the operation decides again.
    #[error("[DH-LOCKED] another commit came first, or one before this in the same process failed: try again")]
    Refused,
    /// The call does not fit the state of its object.
    #[error("[DH-STATE] {0}")]
    State(String),
    /// The caller wants the call to end: an interrupt from the keyboard.
    #[error("[DH-INTERRUPTED] the call was interrupted while it waited")]
    Interrupted,
}

/// The code of an error about an object: some are about objects that are gone.
fn code_of(operation: &str) -> &'static str {
    if ["find", "rely on"].contains(&operation) { "DH-MISSING" } else { "DH-OBJECTS" }
}

impl Error {
    /// The stable code, as it stands in the text.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "DH-IO",
            Self::Descriptors { .. } => "DH-DESCRIPTORS",
            Self::Corrupt { .. } | Self::CorruptObject { .. } => "DH-CORRUPT",
            Self::Locked { .. } | Self::Refused => "DH-LOCKED",
            Self::Fenced { .. } | Self::Overtaken(_) => "DH-FENCED",
            Self::Restored(_) => "DH-RESTORED",
            Self::Truncated(_) => "DH-TRUNCATED",
            Self::Failed(_) => "DH-FAILED",
            Self::ReadOnly(_) => "DH-READ-ONLY",
            Self::Open { .. } => "DH-OPEN",
            Self::Schema(_) => "DH-SCHEMA",
            Self::Config(_) => "DH-CONFIG",
            Self::Transaction(_) => "DH-TRANSACTION",
            Self::Conflict(_) => "DH-CONFLICT",
            Self::Elsewhere(_) => "DH-CLUSTER",
            Self::Objects { operation, .. } => code_of(operation),
            Self::ObjectStore(_) => "DH-OBJECTS",
            Self::State(_) => "DH-STATE",
            Self::Interrupted => "DH-INTERRUPTED",
        }
    }

    /// Whether this error leaves the content of the files open: a handle that met it writes no
    /// more.
    pub(crate) fn is_failed_write(&self) -> bool {
        let (Self::Io { operation, .. } | Self::Descriptors { operation, .. }) = self else { return false };
        matches!(*operation, "write" | "append to" | "sync" | "link")
    }

    /// Whether this error means that a file does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }

    /// What the failure to name a file means that this process has just made: where the file is
    /// gone, somebody else removed it, and nothing depends on it yet.
    pub(crate) fn of_naming(self) -> Self {
        match self {
            Self::Io { operation: "link", path, source } if source.kind() == std::io::ErrorKind::NotFound => {
                let reason = "somebody else removed a file that this process was about to name so, and nothing was \
                              acknowledged: the directory was replaced or cleaned up under this handle, or locks on this \
                              file system do not exclude each other; run `dochistory doctor`, and open the history again";
                Self::Fenced { path, reason: reason.into() }
            }
            other => other,
        }
    }

    /// Whether this error means that a name is taken.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists)
    }

    /// Whether an object store does not allow a request.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::ObjectStore(said) if said.starts_with("[DH-FORBIDDEN]"))
    }

    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| {
            if is_exhausted(&source) {
                Self::Descriptors { operation, path, source }
            } else {
                Self::Io { operation, path, source }
            }
        }
    }

    /// Another file stands under the name of one that a handle knows.
    pub(crate) fn replaced(path: &Path) -> Self {
        let reason = "this is not the file that this handle has read and written: the directory was replaced or restored \
                      under it, and nothing was acknowledged; open the history again";
        Self::Fenced { path: path.to_path_buf(), reason: reason.into() }
    }

    /// The replica of a history in a bucket was deleted under its handle.
    pub(crate) fn copy_is_gone(identity: &Path) -> Self {
        let reason = "the local copy of this history was deleted while it was in use, and nothing was acknowledged; open \
                      the history again";
        Self::Fenced { path: identity.parent().unwrap_or(identity).to_path_buf(), reason: reason.into() }
    }

    /// Two writers work at the same time.
    pub(crate) fn not_alone(path: &Path, what: &str) -> Self {
        let reason = format!(
            "{what}: locks on this file system do not exclude each other, and nothing was acknowledged; let one process \
             at a time write there, or move the history to a file system with working locks (`flock`)"
        );
        Self::Fenced { path: path.to_path_buf(), reason }
    }

    pub(crate) fn corrupt(path: &Path, offset: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_path_buf(), offset, reason: reason.into() }
    }
}
