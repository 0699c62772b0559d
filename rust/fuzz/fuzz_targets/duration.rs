#![no_main]
//! Drives `dochistory_core::testing::fuzzing::duration`.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dochistory_core::testing::fuzzing::duration(bytes));
