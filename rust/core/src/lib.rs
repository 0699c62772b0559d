//! The engine of dochistory: the rules, the document history store, and the columnar path that joins both.
#![deny(unsafe_code)]

pub mod columns;
pub mod error;
pub mod rules;

pub use error::{Error, Result};
