//! Chooses the instructions that read UUIDs, once a chunk.

use super::identify::{Out, Pass, Values};

/// Runs a pass with the best instructions that this processor has.
pub(super) fn run<V: Values>(pass: &Pass<'_>, values: &V, out: &mut Out<'_>) {
    pass.run(values, out, super::uuid::halves);
}
