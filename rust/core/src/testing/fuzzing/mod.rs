//! Fuzz targets: every decoder of data on disk, and the columns that come from outside. Checksums
//! are corrected, so that the bytes behind them are reached. Any bytes may give an error, but never
//! a panic or a wrong read.

#![expect(clippy::missing_panics_doc, reason = "a panic is how a fuzzer hears of a failure")]

mod columns;
mod files;
mod seeds;

pub use columns::columns;
pub use files::{filter, identity, log, manifest, segment, values, writer_lock};
pub use seeds::seeds;

/// A fuzz target: its name, and the function that takes any bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 10] = [
    ("identity", identity),
    ("manifest", manifest),
    ("log", log),
    ("segment", segment),
    ("filter", filter),
    ("writer_lock", writer_lock),
    ("values", values),
    ("delivery", delivery),
    ("duration", duration),
    ("columns", columns),
];

/// The state of a stream and the header of a message.
pub fn delivery(bytes: &[u8]) {
    use crate::protocols::delivery::{PartHeader, ReceiverState, SenderState};
    if let Ok(state) = ReceiverState::decode(bytes) {
        assert_eq!(state.encode()[..], *bytes);
    }
    if let Ok(state) = SenderState::decode(bytes) {
        assert_eq!(state.encode()[..], *bytes);
    }
    if let Ok(header) = PartHeader::parse(bytes) {
        let again = PartHeader::parse(header.to_string().as_bytes());
        assert!(again.is_ok_and(|again| again == header));
    }
}

/// A duration as people write it.
pub fn duration(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(us) = crate::protocols::trigger::rules::parse_duration_us("fuzzed", text)
    {
        assert!(us >= 0, "{text:?} is {us} us");
    }
}
