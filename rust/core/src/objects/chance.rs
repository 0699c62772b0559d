//! Random names, and pauses of random length: handles that met should not meet again.

use std::time::Duration;

use crate::{Error, Result};

/// The pause after a first failure; it doubles each time.
const PAUSE: Duration = Duration::from_millis(20);

/// How long to wait before round `round` is tried again.
pub(crate) fn pause_of(round: u32) -> Duration {
    PAUSE.saturating_mul(1 << round.min(6)).mul_f64(0.25 + 0.75 * share())
}

/// A number from 0 to 1, drawn at random.
pub(crate) fn share() -> f64 {
    drawn().map_or(1.0, |drawn| f64::from(drawn[0]) / 255.0)
}

/// Sixteen random bytes.
pub(crate) fn drawn() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::State(format!("no random numbers: {error}")))?;
    Ok(bytes)
}
