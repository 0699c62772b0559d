//! Pinned snapshots: a manifest kept under a second name, so that other processes read the same state however often they ask.

use std::path::Path;

use super::view::{Environment, View};
use super::{KeySpace, SpaceSettings};
use crate::io::FileSystem;
use crate::manifest::Manifest;
use crate::{Error, Result};

pub(super) const PREFIX: &str = "pin-";
/// What a key space that does not exist yet is pinned as.
const EMPTY: &str = "empty";
/// Pins older than this were left behind by processes that died.
const MOST_AGE_US: i64 = 7 * 24 * 3600 * 1_000_000;

impl KeySpace {
    /// Pin the present state: the log is sealed first, so that only immutable files are read, and the files of this state
    /// stay until [`KeySpace::unpin`]. Answers the pin's name.
    pub(crate) fn pin(&self) -> Result<String> {
        if !self.exists()? {
            return Ok(EMPTY.into());
        }
        self.write(self.settings(), |space| {
            let is_touched = space.present().as_ref().is_some_and(|view| !view.tail.is_untouched(crate::log::START));
            if is_touched {
                space.seal()?;
            }
            space.pin_present()
        })
    }

    /// In our turn: keep the newest manifest under a second name.
    pub(super) fn pin_present(&self) -> Result<String> {
        let number = self.present().as_ref().map_or(0, |view| view.manifest.number);
        // Made in our turn, so the clock alone sets pins of one state apart.
        let name = format!("{PREFIX}{:020}-{:x}-{number}", crate::time::now_us(), std::process::id());
        let (from, to) = (super::view::manifest_path(&self.directory, number), self.directory.join(&name));
        match self.env.system.link(&from, &to) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => other.map_err(Error::io("link", &to))?,
        }
        self.env.system.sync_directory(&self.directory).map_err(Error::io("sync", &self.directory))?;
        Ok(name)
    }

    /// Let a pinned state go.
    pub(crate) fn unpin(&self, name: &str) -> Result<()> {
        if name == EMPTY {
            return Ok(());
        }
        check_name(name)?;
        remove(&*self.env.system, &self.directory.join(name))
    }

    /// Use the pinned state from now on: this handle sees nothing else.
    pub(crate) fn use_pin(&mut self, name: &str) -> Result<()> {
        self.is_pinned = true;
        if name != EMPTY {
            check_name(name)?;
            let view = View::open_pinned(&self.env, &self.directory, name)?;
            self.change(|slot| {
                *slot = Some(view);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The present state in a view of its own.
    pub(super) fn pinned_view(&self) -> Result<Option<View>> {
        self.read(|view| match view {
            Some(view) if self.is_pinned => View::open_pinned(&self.env, &self.directory, &view.source).map(Some),
            known => View::load(&self.env, &self.directory, known),
        })
    }

    pub(super) fn settings(&self) -> SpaceSettings {
        let time_to_live_us = self.present().as_ref().map_or(0, |view| view.manifest.time_to_live_us);
        SpaceSettings { time_to_live_us }
    }
}

pub(super) fn check_name(name: &str) -> Result<()> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_plain && name.starts_with(PREFIX) {
        Ok(())
    } else {
        Err(Error::Config(format!("{name:?} is no snapshot of a history")))
    }
}

/// The manifests that pins keep alive, and their file names.
pub(super) fn pinned(env: &Environment, directory: &Path, names: &[String]) -> Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for name in names.iter().filter(|name| name.starts_with(PREFIX)) {
        match super::view::read_manifest(env, &directory.join(name)) {
            Ok(manifest) => manifests.push(manifest),
            // Let go just now.
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(manifests)
}

/// Take away pins that nobody can need any more.
pub(super) fn take_away_forgotten(env: &Environment, directory: &Path, names: &[String], now_us: i64) -> Result<()> {
    for name in names {
        let made =
            name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()).and_then(|made| made.parse::<i64>().ok());
        if made.is_some_and(|made| now_us.saturating_sub(made) > MOST_AGE_US) {
            remove(&*env.system, &directory.join(name))?;
        }
    }
    Ok(())
}

fn remove(system: &dyn FileSystem, path: &Path) -> Result<()> {
    match system.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}
