//! A fixed workload writes fixed bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use harness::simulated::bytes::writes_what_it_wrote;
use harness::{Maps, Triggers};

#[test]
fn a_fixed_workload_of_ids_writes_fixed_bytes() {
    writes_what_it_wrote::<Triggers>("bytes.txt");
}

#[test]
fn a_fixed_workload_of_values_writes_fixed_bytes() {
    writes_what_it_wrote::<Maps>("value_bytes.txt");
}
