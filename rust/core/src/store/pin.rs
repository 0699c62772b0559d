//! Pinned snapshots: a manifest kept under a second name, so that other processes read the same
//! state however often they ask.

use std::path::Path;

use super::environment::Environment;
use super::view::View;
use super::{KeySpace, SpaceSettings};
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::store::Writer;
use crate::{Error, Result};

/// The pin of a key space that does not exist yet.
const EMPTY: &str = "empty";
/// Maximum age of a pin; older ones were left by processes that died. A pin's own lease may be
/// shorter.
pub(super) const MOST_AGE_US: i64 = 7 * 24 * 3600 * 1_000_000;

/// A pinned state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Under which name it is kept.
    pub name: String,
    /// When it was pinned, in microseconds since 1970.
    pub pinned_at: i64,
    /// When maintenance removes it, if nobody has before.
    pub ends_at: i64,
    /// The process that pinned it.
    pub process: u32,
    /// The number of the manifest that it keeps.
    pub manifest: u64,
}

impl Pin {
    /// The pin by its file name; none if the name is no pin's.
    /// (`pin-<microseconds>-<process>-<manifest>`, and `-<seconds>` of its lease.)
    pub(super) fn of(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(FileKind::Pin.prefix())?.split('-');
        let pinned_at: i64 = parts.next()?.parse().ok()?;
        let process = u32::from_str_radix(parts.next()?, 16).ok()?;
        let manifest = parts.next()?.parse().ok()?;
        let lease_us = match parts.next() {
            Some(seconds) => seconds.parse::<i64>().ok()?.saturating_mul(1_000_000).min(MOST_AGE_US),
            None => MOST_AGE_US,
        };
        Some(Self { name: name.into(), pinned_at, ends_at: pinned_at.saturating_add(lease_us), process, manifest })
    }
}

impl KeySpace {
    /// Pin the present state. The log is sealed first, so that only immutable files are read, and
    /// the files of this state stay until [`KeySpace::unpin`], or until the lease is over. Answers
    /// the pin's name.
    pub(crate) fn pin(&self, lease_us: Option<i64>) -> Result<String> {
        // A replica that holds a state was once of a space that is there, and a space stays.
        let is_known = self.mirror.is_some() && self.present().is_some();
        if !is_known && !self.exists()? {
            return Ok(EMPTY.into());
        }
        if let Some(mirror) = self.mirror.as_deref() {
            let (name, ()) = self.pin_objects(mirror, lease_us, SpaceSettings::STORED, |writer| {
                if writer.space.present().as_ref().is_some_and(|view| !view.is_log_untouched()) {
                    writer.seal()?;
                }
                Ok(())
            })?;
            return Ok(name);
        }
        self.write(SpaceSettings::STORED, |writer| {
            if writer.space.present().as_ref().is_some_and(|view| !view.is_log_untouched()) {
                writer.seal()?;
            }
            writer.pin_present(lease_us)
        })
    }

    /// The pinned states, oldest first.
    pub(crate) fn pins(&self) -> Result<Vec<Pin>> {
        if !self.exists()? {
            return Ok(Vec::new());
        }
        let names = match self.mirror.as_deref() {
            Some(mirror) => mirror.pins()?,
            None => self.env.system.names(&self.directory)?,
        };
        let mut pins: Vec<Pin> = names.iter().filter_map(|name| Pin::of(name)).collect();
        pins.sort_by_key(|pin| pin.pinned_at);
        Ok(pins)
    }

    /// Remove a pin.
    pub(crate) fn unpin(&self, name: &str) -> Result<()> {
        if name == EMPTY {
            return Ok(());
        }
        check_name(name)?;
        if let Some(mirror) = self.mirror.as_deref() {
            return self.unpin_objects(mirror, name);
        }
        self.env.system.remove_if_there(&self.directory.join(name))
    }

    /// Read only the pinned state from now on.
    pub(crate) fn use_pin(&mut self, name: &str) -> Result<()> {
        self.is_pinned = true;
        if name != EMPTY {
            check_name(name)?;
            let directory = self.directory_of_pin(name)?;
            let mut view = View::open_pinned(&self.env, &directory, name)?;
            // A pinned state has nothing in the log.
            view.log.close();
            self.change(|slot| {
                *slot = Some(view);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The present state in a view of its own.
    pub(super) fn pinned_view(&self) -> Result<Option<View>> {
        let loaded = || {
            self.read(|view| match view {
                Some(view) if self.is_pinned => View::open_pinned(&self.env, &view.directory, &view.source).map(Some),
                known => View::load(&self.env, &self.directory, known),
            })
        };
        let Some(mirror) = self.mirror.as_deref().filter(|_| !self.is_pinned) else { return loaded() };
        loop {
            // A replica also holds what this handle has not committed yet.
            let (generation, view) = (mirror.generation(), loaded()?);
            let Some(found) = &view else { return Ok(view) };
            match self.reach_commit(mirror, found.log.id, found.memtable.position, generation) {
                Err(Error::Refused) => {}
                reached => return reached.map(|()| view),
            }
        }
    }
}

impl Writer<'_> {
    /// Keep the newest manifest under a second name.
    pub(super) fn pin_present(&self, lease_us: Option<i64>) -> Result<String> {
        let number = self.space.present().as_ref().map_or(0, |view| view.manifest.number);
        let lease = lease_us.map_or(String::new(), |lease| format!("-{}", lease.max(0) / 1_000_000));
        // Only the holder of the lock makes pins, so the clock alone distinguishes pins of one
        // state.
        let name = format!(
            "{}{:020}-{:x}-{number}{lease}",
            FileKind::Pin.prefix(),
            crate::sys::time::now_us(),
            std::process::id()
        );
        let (from, to) = (FileKind::Manifest.path(&self.space.directory, number), self.space.directory.join(&name));
        self.space.env.system.link_if_free(&from, &to)?;
        self.space.env.system.sync_names(&self.space.directory)?;
        Ok(name)
    }
}

pub(super) fn check_name(name: &str) -> Result<()> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_plain && FileKind::Pin.has(name) {
        Ok(())
    } else {
        Err(Error::Config(format!("{name:?} is no snapshot of a history")))
    }
}

/// The manifests that pins keep alive, and their file names.
pub(super) fn pinned(env: &Environment, directory: &Path, names: &[String]) -> Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for name in names.iter().filter(|name| FileKind::Pin.has(name)) {
        match super::files::read_manifest(env, &directory.join(name)) {
            Ok(manifest) => manifests.push(manifest),
            // Removed just now.
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(manifests)
}
