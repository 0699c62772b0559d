//! What a trigger's settings mean for its key space.

use super::rules::{Expiry, Trigger};
use crate::Result;
use crate::history::History;
use crate::store::{Purge, Purged, SpaceSettings};

impl SpaceSettings {
    pub(crate) fn of(trigger: &Trigger) -> Self {
        Self { time_to_live_us: trigger.history_time_to_live_us, kind: Some(trigger.kind) }
    }

    /// Those on which the answer to a reader rests. Who does not ask what has expired needs no time
    /// to live.
    pub(crate) fn to_read(trigger: &Trigger) -> Self {
        match trigger.expiry {
            Expiry::Exact => Self::of(trigger),
            Expiry::UntilPurged => Self { time_to_live_us: 0, ..Self::of(trigger) },
        }
    }
}

impl History {
    /// Drop what began a time to live before now, in whole files.
    ///
    /// # Errors
    /// `Config` when the trigger's settings are not those that are stored, or the clock is
    /// doubtful.
    pub fn purge(&self, trigger: &Trigger, purge: Purge) -> Result<Purged> {
        self.space(&trigger.name)?.purge(SpaceSettings::of(trigger), purge)
    }

    /// Store another time to live for a trigger that is there; answers the one before, in
    /// microseconds. Its next purge goes by the new one, and whoever opens it with the old one is
    /// told.
    ///
    /// # Errors
    /// `Config` when the trigger is not there, or of another kind.
    pub fn change(&self, trigger: &Trigger) -> Result<i64> {
        trigger.validate()?;
        self.space(&trigger.name)?.change_settings(SpaceSettings::of(trigger))
    }
}
