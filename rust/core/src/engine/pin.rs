//! Snapshots that other processes read.

use crate::Result;
use crate::history::{History, PIN_OF_ALL, directory_name};

impl History {
    /// Pin the present state of a trigger's history, so that any process that opens the history with the snapshot's name gives
    /// the same verdicts until it is unpinned.
    pub fn pin(&self, trigger: &str, now_us: i64) -> Result<String> {
        Ok(format!("{}={}", directory_name(trigger), self.space(trigger)?.pin(now_us)?))
    }

    /// Pin the present state of every trigger, one after the other. A trigger that has no entries yet is pinned as empty.
    pub fn pin_all(&self, now_us: i64) -> Result<String> {
        let mut snapshot = String::from(PIN_OF_ALL);
        for trigger in self.triggers()? {
            snapshot.push(',');
            snapshot.push_str(&self.pin(&trigger, now_us)?);
        }
        Ok(snapshot)
    }

    /// Let a pinned state go, so that its files can be purged.
    pub fn unpin(&self, snapshot: &str) -> Result<()> {
        for trigger in self.triggers()? {
            if let Some(pin) = crate::history::pin_of(snapshot, &directory_name(&trigger)) {
                self.space(&trigger)?.unpin(pin)?;
            }
        }
        Ok(())
    }
}
