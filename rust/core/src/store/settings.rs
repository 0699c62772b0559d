//! The settings of a trigger that its key space stores. They change only on purpose.

use super::KeySpace;
use super::publish::partition_width;
use super::view::View;
use crate::format::manifest::Manifest;
use crate::store::Writer;
use crate::types::Kind;
use crate::types::duration::duration_text;
use crate::{Error, Result};

const TWO_HOURS_US: i64 = 2 * 3600 * 1_000_000;
const THIRTY_DAYS_US: i64 = 30 * 24 * 3600 * 1_000_000;

/// The settings of a call that a key space stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceSettings {
    /// 0 for a call without one.
    pub(crate) time_to_live_us: i64,
    pub(crate) kind: Option<Kind>,
}

impl SpaceSettings {
    /// The settings of a call without any: the stored ones apply.
    pub(crate) const STORED: Self = Self { time_to_live_us: 0, kind: None };

    /// Check that these are the stored ones, where both are known.
    pub(crate) fn check(self, view: Option<&View>) -> Result<()> {
        let Some(manifest) = view.map(|view| &view.manifest) else { return Ok(()) };
        self.check_kind(manifest)?;
        let (stored, given) = (manifest.time_to_live_us, self.time_to_live_us);
        if stored <= 0 || given <= 0 || stored == given {
            return Ok(());
        }
        let (stored_text, given_text) = (duration_text(stored), duration_text(given));
        // The default changed with version 0.2.0, so a program that names no time to live meets
        // this.
        let why = if (stored, given) == (TWO_HOURS_US, THIRTY_DAYS_US) {
            " (each is the default of a version: 2 hours before 0.2.0, 30 days since)"
        } else {
            ""
        };
        Err(Error::Config(format!(
            "trigger {name:?} has a history_time_to_live of {stored_text} in this history, and is opened with \
             {given_text}{why}: keep what is stored, with history_time_to_live={stored_text:?}, or change that on \
             purpose, with History.change(trigger) or `dochistory change --trigger {name:?} --time-to-live {given_text:?}`",
            name = manifest.name,
        )))
    }

    fn check_kind(self, manifest: &Manifest) -> Result<()> {
        match (manifest.kind, self.kind) {
            (Some(stored), Some(given)) if stored != given => Err(Error::Config(format!(
                "trigger {:?} is of kind {stored} in this history, and is opened as {given}: the kind of a trigger never \
                 changes, so give the other one a name of its own",
                manifest.name
            ))),
            _ => Ok(()),
        }
    }

    /// The settings that this manifest does not know yet; none if it knows all.
    fn taught(self, manifest: &Manifest) -> Option<(i64, Option<Kind>)> {
        let stored = (manifest.time_to_live_us, manifest.kind);
        let time_to_live_us = if stored.0 > 0 { stored.0 } else { self.time_to_live_us };
        let known = (time_to_live_us, stored.1.or(self.kind));
        (known != stored).then_some(known)
    }
}

impl KeySpace {
    /// Store another time to live; answers the previous one. Partitions become as wide as a longer
    /// one needs, so that their number stays small; the narrow ones are compacted. They never
    /// become narrower: a frozen log has numbers for as many files as it had partitions.
    pub(crate) fn change_settings(&self, settings: SpaceSettings) -> Result<i64> {
        if !self.exists()? {
            return Err(Error::Config(format!(
                "there is no trigger {:?} in this history whose settings could be changed",
                self.name
            )));
        }
        self.write_again(SpaceSettings::STORED, |writer| {
            let mut manifest = writer.successor()?;
            settings.check_kind(&manifest)?;
            let before = (manifest.time_to_live_us, manifest.partition_us);
            let wanted = (settings.time_to_live_us, before.1.max(partition_width(settings.time_to_live_us)));
            if before != wanted {
                (manifest.time_to_live_us, manifest.partition_us) = wanted;
                manifest.kind = settings.kind;
                writer.publish(&manifest)?;
            }
            Ok(before.0)
        })
    }
}

impl Writer<'_> {
    /// Store the settings that are not known here yet: of stores that older versions wrote, and of
    /// repaired ones.
    pub(super) fn learn(&mut self, settings: SpaceSettings) -> Result<()> {
        let taught = self.space.present().as_ref().and_then(|view| settings.taught(&view.manifest));
        let Some((time_to_live_us, kind)) = taught else { return Ok(()) };
        let mut manifest = self.successor()?;
        (manifest.time_to_live_us, manifest.kind) = (time_to_live_us, kind);
        self.publish(&manifest)
    }
}
