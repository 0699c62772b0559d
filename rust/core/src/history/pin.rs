//! Snapshots that other processes read.

use super::{History, identity_bytes, snapshot_of};
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

    /// Have a trigger's state at hand, in a handle of a snapshot.
    #[doc(hidden)]
    pub fn fetch(&self, trigger: &str) -> Result<()> {
        self.space(trigger).map(drop)
    }

    /// The objects of the identity and of a pin, for processes that need not fetch them then: of a
    /// bucket, and where this handle pinned or read the state last.
    #[doc(hidden)]
    pub fn described(&self, trigger: &str, snapshot: &str) -> Result<Option<Described>> {
        let Some(pin) = self.space(trigger)?.described(self.pin_in(snapshot, trigger)?) else { return Ok(None) };
        Ok(Some(Described { identity: identity_bytes(&*self.env.system, &self.env.identity)?, pin }))
    }
}

/// What a reader of a pinned state in a bucket begins with.
#[doc(hidden)]
#[derive(Debug)]
pub struct Described {
    /// The object `HISTORY`.
    pub identity: Vec<u8>,
    /// The pin's object.
    pub pin: Vec<u8>,
}
