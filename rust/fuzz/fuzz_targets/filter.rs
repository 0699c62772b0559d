#![no_main]
//! Drives `dochistory_core::fuzzing::filter`.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dochistory_core::fuzzing::filter(bytes));
