//! The bytes of a log file: its frames, and the room behind them.

use std::path::Path;

/// Where the frames of a log start.
pub fn frames(log: &[u8]) -> Vec<usize> {
    let mut starts = starts_and_end(log);
    starts.pop();
    starts
}

/// Where the frames of a log start, and where the last of them ends.
fn starts_and_end(log: &[u8]) -> Vec<usize> {
    let mut starts = vec![64];
    while let Some(last) = starts.last().copied().filter(|last| log[*last..].starts_with(b"DHFR")) {
        let payload = u64::from_le_bytes(log[last + 56..last + 64].try_into().unwrap());
        starts.push(last + 96 + payload as usize);
    }
    starts
}

/// How many bytes of a file say something: of a log those up to the end of its frames, of any other
/// all.
pub fn used(path: &Path, bytes: &[u8]) -> usize {
    let is_log = path.file_name().unwrap().to_string_lossy().starts_with("log-");
    if is_log { starts_and_end(bytes).pop().unwrap() } else { bytes.len() }
}

/// Some places behind that.
pub fn room(path: &Path, bytes: &[u8]) -> Vec<usize> {
    let (used, length) = (used(path, bytes), bytes.len());
    [used, used + 7, used + 8, used + 96, length.saturating_sub(1)]
        .into_iter()
        .filter(|at| (used..length).contains(at))
        .collect()
}
