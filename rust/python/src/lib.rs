//! The extension module `dochistory._native`: Arrow in, Arrow out, errors, the GIL. No rule lives
//! here.
#![deny(unsafe_code)]
#![expect(clippy::doc_markdown, reason = "what stands over Python's classes and methods is read in Python")]
#![expect(clippy::needless_pass_by_value, reason = "Python's arguments come by value")]

mod answers;
mod arguments;
mod arrow;
mod audit;
mod background;
mod call;
mod calls;
mod claim;
mod clock;
mod columns;
mod counts;
mod delivery;
mod document_claim;
mod ending;
mod entries;
mod errors;
mod exported;
mod given_keys;
mod handle;
mod history;
mod ids;
mod input;
mod jobs;
mod keys;
mod load;
mod maintenance;
mod mapper;
mod messages;
mod objects;
mod open;
mod output;
mod paths;
mod progress;
mod pyarrow;
mod repair;
mod resolver;
mod rows;
mod shards;
mod staged_claim;
mod staging;
mod trigger;
mod unchecked;
mod verdict_codes;
mod verdicts;
mod wrong_column;

use pyo3::prelude::*;

/// The engine of dochistory, for Python.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::calls::_close;
    #[pymodule_export]
    use super::claim::Claim;
    #[pymodule_export]
    use super::clock::_seconds;
    #[pymodule_export]
    use super::counts::count_verdicts;
    #[pymodule_export]
    use super::delivery::{DeliveryOutbox, DeliveryPoll, GuaranteedDelivery};
    #[pymodule_export]
    use super::document_claim::DocumentClaim;
    #[pymodule_export]
    use super::errors::{
        ClusterError, ConfigError, ConflictError, CorruptError, DescriptorsError, DocHistoryError, FailedError,
        FencedError, ForkedError, LockedError, ObjectStoreError, OpenError, ReadOnlyError, RestoredError, SchemaError,
        StateError, StorageError, TransactionError, TransientError, TruncatedError,
    };
    #[pymodule_export]
    use super::history::History;
    #[pymodule_export]
    use super::mapper::{MapperSend, MapperTaken, MessageIdMapper, UnitOfWork};
    #[pymodule_export]
    use super::objects::copies::{_copy_from_bucket, _copy_to_bucket};
    #[pymodule_export]
    use super::open::{_open_described, open};
    #[pymodule_export]
    use super::paths::{_is_there, _log_extent, local_path};
    #[pymodule_export]
    use super::repair::repair;
    #[pymodule_export]
    use super::shards::Shards;
    #[pymodule_export]
    use super::staged_claim::StagedClaim;
    #[pymodule_export]
    use super::staging::{Job, Staged, read_receipt};
    #[pymodule_export]
    use super::trigger::Trigger;
    #[pymodule_export]
    use super::verdict_codes::verdict_words;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Hooks run in reverse order: those of modules that are imported later run before this one.
        module.py().import("atexit")?.call_method1("register", (module.getattr("_close")?,)).map(drop)
    }

    /// Version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
