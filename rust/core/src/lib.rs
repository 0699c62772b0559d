//! The engine of dochistory: the rules, the document history store, and the columnar path that joins both.
#![deny(unsafe_code)]

pub mod batch;
pub mod columns;
pub mod error;
pub mod filter;
pub mod key;

pub use error::{Error, Result};
