//! The settings of a trigger that its key space stores.

use super::rules::{Expiry, Trigger};
use crate::Result;
use crate::history::History;
use crate::store::{Purge, Purged, SpaceSettings};

impl SpaceSettings {
    pub(crate) fn of(trigger: &Trigger) -> Self {
        Self { time_to_live_us: trigger.history_time_to_live_us, kind: Some(trigger.kind) }
    }

    /// The settings that a read depends on. A caller that does not ask for expired entries needs no
    /// time to live.
    pub(crate) fn to_read(trigger: &Trigger) -> Self {
        match trigger.expiry {
            Expiry::Exact => Self::of(trigger),
            Expiry::UntilPurged => Self { time_to_live_us: 0, ..Self::of(trigger) },
        }
    }
}

impl History {
    /// Drop everything that began at least a time to live before now, in whole files.
    ///
    /// # Errors
    /// `Config` when the trigger's settings are not those that are stored, or the clock is
    /// doubtful.
    pub fn purge(&self, trigger: &Trigger, purge: Purge) -> Result<Purged> {
        self.space(&trigger.name)?.purge(SpaceSettings::of(trigger), purge)
    }

    /// Store another time to live for an existing trigger; answers the previous one, in
    /// microseconds. The next purge uses the new one, and a caller that opens the trigger with the
    /// old one gets an error.
    ///
    /// # Errors
    /// `Config` when the trigger does not exist, or is of another kind.
    pub fn change(&self, trigger: &Trigger) -> Result<i64> {
        trigger.validate()?;
        self.space(&trigger.name)?.change_settings(SpaceSettings::of(trigger))
    }
}
