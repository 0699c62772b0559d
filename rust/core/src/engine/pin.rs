//! Snapshots that other processes read.

use crate::Result;
use crate::history::{History, snapshot_of};

impl History {
    /// Pin the present state of a trigger's history, so that any process that opens the history with the snapshot's name gives
    /// the same verdicts until it is unpinned. The snapshot speaks of no other trigger.
    pub fn pin(&self, trigger: &str) -> Result<String> {
        Ok(snapshot_of(trigger, &self.space(trigger)?.pin()?))
    }

    /// Let a pinned state go, so that its files can be purged.
    pub fn unpin(&self, trigger: &str, snapshot: &str) -> Result<()> {
        self.space(trigger)?.unpin(self.pin_in(snapshot, trigger)?)
    }
}
