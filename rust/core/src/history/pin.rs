//! Snapshots that other processes read.

use super::{History, snapshot_of};
use crate::Result;
use crate::store::Pin;

impl History {
    /// Pin the present state of a trigger's history, so that any process that opens the history
    /// with the snapshot's name gives the same verdicts until it is unpinned. The snapshot speaks
    /// of no other trigger.
    pub fn pin(&self, trigger: &str) -> Result<String> {
        self.pin_for(trigger, None)
    }

    /// [`History::pin`] with a lease in microseconds, at most a week: maintenance removes the pin
    /// when the lease ends.
    pub fn pin_for(&self, trigger: &str, lease_us: Option<i64>) -> Result<String> {
        Ok(snapshot_of(trigger, &self.space(trigger)?.pin(lease_us)?))
    }

    /// The pinned states of a trigger, oldest first, under the names that [`History::unpin`] takes.
    pub fn pins(&self, trigger: &str) -> Result<Vec<Pin>> {
        let mut pins = self.space(trigger)?.pins()?;
        for pin in &mut pins {
            pin.name = snapshot_of(trigger, &pin.name);
        }
        Ok(pins)
    }

    /// Remove a pin, so that its files can be purged.
    pub fn unpin(&self, trigger: &str, snapshot: &str) -> Result<()> {
        self.space(trigger)?.unpin(self.pin_in(snapshot, trigger)?)
    }
}
