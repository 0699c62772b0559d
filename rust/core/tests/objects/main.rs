//! Histories in a bucket: models of the protocol, and whole histories on simulated stores.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

mod copies;
mod documents;
#[path = "../harness/mod.rs"]
mod harness;
mod jobs;
mod maps;
mod model;
mod pins_model;
mod repair;
