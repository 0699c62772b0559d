//! What a commit of a manifest takes along, so that nobody waits for it alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::pin_name::pin_name;
use super::{Committed, Mirror};
use crate::format::manifest::Manifest;
use crate::objects::chain::{Beside, Chain};
use crate::objects::change::{NewManifest, Stored};
use crate::objects::pins::Pinned;
use crate::store::KeySpace;
use crate::store::view::View;
use crate::wal::START;
use crate::{Error, Result};

/// What goes along with the next commit of a writer's manifest.
#[derive(Debug, Default)]
pub(in crate::store) struct Along {
    /// The lease of a pin of the state that the commit makes.
    pub(super) lease: Option<Lease>,
    /// The pins that were stored so: the last one is of the last commit, and those of commits that
    /// were refused have to go.
    pub(super) stored: Vec<(String, Arc<Pinned>)>,
    /// Whether the commit is left to be proved, by [`Mirror::prove`].
    pub(super) is_proved_later: bool,
    /// A pin that nobody needs any more once the commit is there.
    unneeded: Option<String>,
    is_removed: bool,
}

/// The lease of a pin in microseconds; the longest if there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease(pub(super) Option<i64>);

impl Along {
    /// Remove a pin while the commit is checked.
    pub(in crate::store) fn remove(&mut self, pin: &str) {
        self.unneeded = Some(pin.to_owned());
    }

    /// Leave the commit to be proved.
    pub(in crate::store) fn prove_later(&mut self) {
        self.is_proved_later = true;
    }

    /// Whether that pin was removed, whatever became of the commit.
    pub(in crate::store) fn is_removed(&self) -> bool {
        self.is_removed
    }

    /// Do `commit` with what may be done while it is checked: give a hint, and remove the pin.
    pub(super) fn beside<T>(
        &mut self,
        chain: &Chain,
        hint: Option<u64>,
        commit: impl FnOnce(Option<Beside<'_>>) -> T,
    ) -> T {
        if self.is_proved_later {
            return commit(None);
        }
        let (pin, is_removed) = (self.unneeded.take(), AtomicBool::new(false));
        let done = commit(Some(&|| {
            // Nobody relies on either.
            if let Some(base) = hint {
                drop(chain.give_hint(base));
            }
            if let Some(pin) = &pin {
                is_removed.store(true, Ordering::Relaxed);
                drop(chain.remove_pin(pin));
            }
        }));
        self.is_removed = is_removed.into_inner();
        done
    }
}

impl KeySpace {
    /// The pin that goes along: of the state that a manifest over these files makes as commit
    /// `number`, if its log holds nothing.
    pub(super) fn foreseen(
        &self,
        along: &Along,
        manifest: &Manifest,
        number: u64,
        committed: Committed,
        files: &[(String, Stored)],
    ) -> Result<Option<(String, Arc<Pinned>)>> {
        let Some(Lease(lease_us)) = along.lease else { return Ok(None) };
        let is_untouched = || self.present().as_ref().is_some_and(View::is_log_untouched);
        let is_same_log = manifest.log.id == committed.log;
        if is_same_log && !(committed.position == START && is_untouched()) {
            return Ok(None);
        }
        let new_log = Some(self.log_head(manifest.log.id)?);
        let manifest =
            NewManifest { number: manifest.number, bytes: manifest.encode(), new_log, files: files.to_vec() };
        let name = pin_name(manifest.number, lease_us)?;
        Ok(Some((name, Arc::new(Pinned { history: self.env.history, commit: number, manifest }))))
    }
}

impl Mirror {
    /// Prove a commit of this handle that was left to be proved.
    pub(in crate::store) fn prove(&self, number: u64) -> Result<()> {
        let is_base = self.lock().chain.head().base == number;
        let give_hint = || {
            if is_base {
                drop(self.chain.give_hint(number));
            }
        };
        let is_genuine = self.chain.is_genuine_beside(number, &give_hint)?;
        let mut known = self.lock();
        if is_genuine {
            known.is_unproven &= known.chain.head().number != number;
            return Ok(());
        }
        known.is_loaded = false;
        self.break_off(&mut known);
        let reason = "what it had reserved was collected, because this process slept while others wrote: decide again, \
                      from a new job";
        Err(Error::Conflict(reason.into()))
    }

    /// Remove pins of commits that were refused.
    pub(super) fn remove_pins<'a>(&self, names: impl IntoIterator<Item = &'a String>) {
        for name in names {
            // Where that fails, a collector does it when the lease is over.
            drop(self.chain.remove_pin(name));
        }
    }
}
