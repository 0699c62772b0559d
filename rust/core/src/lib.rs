//! The engine of dochistory: the rules, the document history store, and the columnar path that joins both.
#![deny(unsafe_code)]

pub mod batch;
mod bytes;
pub mod columns;
pub mod error;
pub mod filter;
pub mod io;
pub mod key;
mod keyspace;
mod log;
mod manifest;
mod pages;
mod rollup;
pub mod rules;
mod segment;
mod tail;
pub mod time;

pub use error::{Error, Result};
