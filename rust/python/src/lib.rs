//! The extension module `dochistory._native`: Arrow in, Arrow out, errors, the GIL. No rule lives here.
#![forbid(unsafe_code)]

mod answers;
mod call;
mod claim;
mod clock;
mod columns;
mod entries;
mod errors;
mod finish;
mod handle;
mod history;
mod ids;
mod input;
mod keys;
mod messages;
mod one;
mod output;
mod resolver;
mod rows;
mod trigger;
mod upkeep;
mod verdicts;

use pyo3::prelude::*;

/// The engine of dochistory, for Python.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::claim::Claim;
    #[pymodule_export]
    use super::errors::{
        ConfigError, CorruptError, DocHistoryError, FailedError, FencedError, ForkedError, LockedError, OpenError,
        ReadOnlyError, SchemaError, StateError, StorageError, TransactionError, TransientError,
    };
    #[pymodule_export]
    use super::history::{History, open};
    #[pymodule_export]
    use super::one::DocumentClaim;
    #[pymodule_export]
    use super::trigger::Trigger;

    /// Version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
