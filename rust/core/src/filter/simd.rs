//! Chooses the instructions that test blocks, once a probe.

use super::contains_block;
use super::probe::{Pages, Probe, Rows};
use crate::Result;

/// Runs a probe with the best instructions that this processor has.
pub(super) fn run<P: Pages>(probe: &Probe<'_, P>, rows: &impl Rows, survivors: &mut Vec<u32>) -> Result<()> {
    probe.run(rows, survivors, |_| (), contains_block)
}
