#![no_main]
//! Drives `dochistory_core::fuzzing::columns`.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dochistory_core::fuzzing::columns(bytes));
