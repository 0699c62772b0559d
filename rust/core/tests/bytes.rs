//! A fixed workload writes fixed bytes (`common/bytes.rs`); `values.rs` has the same test for
//! entries with values.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::rig::Rig;

#[test]
fn a_fixed_workload_of_ids_writes_fixed_bytes() {
    common::bytes::writes_what_it_wrote::<Rig>("/history", "bytes.txt");
}
