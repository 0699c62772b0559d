//! How pins in a bucket are named.

use crate::Result;
use crate::format::names::FileKind;
use crate::objects::chance::drawn;
use crate::store::pin::MOST_AGE_US;

/// A name that no other handle gives a pin (`pin-<microseconds>-<process>-<manifest>-<seconds of
/// its lease>-<random>`).
pub(super) fn pin_name(manifest: u64, lease_us: Option<i64>) -> Result<String> {
    let random = drawn()?.first_chunk().map_or(0, |mark| u64::from_le_bytes(*mark));
    let seconds = lease_us.unwrap_or(MOST_AGE_US).clamp(0, MOST_AGE_US) / 1_000_000;
    let (now_us, process) = (crate::sys::time::now_us(), std::process::id());
    Ok(format!("{}{now_us:020}-{process:x}-{manifest}-{seconds}-{random:016x}", FileKind::Pin.prefix()))
}
