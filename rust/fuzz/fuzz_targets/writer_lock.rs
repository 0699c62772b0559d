#![no_main]
//! Drives `dochistory_core::testing::fuzzing::writer_lock`.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dochistory_core::testing::fuzzing::writer_lock(bytes));
