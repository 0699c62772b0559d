//! The engine of dochistory: the rules, the document history store, and the columnar path that joins both.
#![deny(unsafe_code)]

pub mod columns;
pub mod delivery;
pub mod error;
pub mod mapper;

pub use error::{Error, Result};
