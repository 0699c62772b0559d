//! Pinned states in a bucket. The pin is an object that describes the whole state. A reader
//! has a directory of its own for it beside the replica's files.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::along::Lease;
use super::commit::named;
use super::pin_name::pin_name;
use super::{Committed, Mirror};
use crate::format::names::FileKind;
use crate::io::{publish, write_new};
use crate::objects::change::{NewManifest, Stored};
use crate::objects::pins::Pinned;
use crate::objects::side_by_side::side_by_side;
use crate::store::pin::check_name;
use crate::store::{KeySpace, SpaceSettings, Writer};
use crate::wal::START;
use crate::{Error, Result};

/// How the directory of a pinned state begins.
const AT: &str = "at-";

/// A state that is to be pinned.
enum Ahead {
    /// It was, before it was committed.
    Pinned(String, Arc<Pinned>),
    /// It is the present one.
    Present(Pinned),
}

impl KeySpace {
    /// Pin the state that `prepare` leaves, whose log must hold nothing. Answers the pin's name.
    ///
    /// A collector lists the pins after it has found a state. One that listed before this pin was
    /// there knows no state that came after it. So the pin holds if a state that comes after it
    /// names all its files, as all states between the two do: the commit of `prepare`, before which
    /// the pin was stored; or else a state that is read after it was stored.
    pub(in crate::store) fn pin_objects<T>(
        &self,
        mirror: &Mirror,
        lease_us: Option<i64>,
        settings: SpaceSettings,
        mut prepare: impl FnMut(&mut Writer<'_>) -> Result<T>,
    ) -> Result<(String, T)> {
        let start = Instant::now();
        for round in 0.. {
            let (prepared, pinned) = match self.prepare_pin(mirror, lease_us, settings, &mut prepare)? {
                (prepared, Ahead::Pinned(name, pinned)) => {
                    mirror.note_pin(&name, pinned);
                    return Ok((name, prepared));
                }
                (prepared, Ahead::Present(pinned)) => (prepared, pinned),
            };
            let name = pin_name(pinned.manifest.number, lease_us)?;
            mirror.chain.put_pin(&name, &pinned)?;
            self.catch_up()?;
            if mirror.still_names(&pinned.manifest.files) {
                mirror.note_pin(&name, Arc::new(pinned));
                return Ok((name, prepared));
            }
            mirror.chain.remove_pin(&name)?;
            crate::sys::interrupt::check()?;
            if start.elapsed() > self.env.lock_timeout {
                break;
            }
            mirror.back_off(round);
        }
        Err(Error::Refused)
    }

    /// Prepare a state, and store the pin before the commit that makes it.
    fn prepare_pin<T>(
        &self,
        mirror: &Mirror,
        lease_us: Option<i64>,
        settings: SpaceSettings,
        mut prepare: impl FnMut(&mut Writer<'_>) -> Result<T>,
    ) -> Result<(T, Ahead)> {
        let (mut last, mut others) = (None, Vec::new());
        let written = self.write_again(settings, |writer| {
            // That of a commit that was refused.
            others.extend(last.take());
            writer.along.lease = Some(Lease(lease_us));
            let prepared = prepare(writer);
            let mut stored = std::mem::take(&mut writer.along.stored);
            if prepared.is_ok() {
                last = stored.pop();
            }
            others.append(&mut stored);
            let prepared = prepared?;
            Ok((prepared, if last.is_none() { Some(describe(writer, mirror)?) } else { None }))
        });
        if written.is_err() {
            others.extend(last.take());
        }
        mirror.remove_pins(others.iter().map(|(name, _)| name));
        let (prepared, present) = written?;
        match (last, present) {
            (Some((name, pinned)), _) => Ok((prepared, Ahead::Pinned(name, pinned))),
            (None, Some(pinned)) => Ok((prepared, Ahead::Present(pinned))),
            (None, None) => Err(Error::State("a state was neither pinned nor described".into())),
        }
    }

    /// The directory of a pinned state, with its manifest under the pin's name: that of the space,
    /// or one of its own in a replica.
    pub(in crate::store) fn directory_of_pin(&self, pin: &str) -> Result<PathBuf> {
        let Some(mirror) = self.mirror.as_deref() else { return Ok(self.directory.clone()) };
        let directory = self.own_directory_of(pin)?;
        let path = directory.join(pin);
        let _alone = mirror.pinning.lock().unwrap_or_else(PoisonError::into_inner);
        // Its manifest comes last.
        if self.env.system.has(&path)? {
            return Ok(directory);
        }
        let pinned = mirror.pinned_before(pin)?;
        let manifest = &pinned.manifest;
        if let Some(head) = &manifest.new_log {
            let log = FileKind::Log.path(&directory, head.log);
            self.env.system.remove_if_there(&log)?;
            write_new(&*self.env.system, &log, &[&head.bytes])?;
        }
        let (chain, lanes) = (&mirror.chain, mirror.chain.store().lanes());
        let missing = self.linked(mirror, &directory, &manifest.files)?;
        let fetched =
            side_by_side(lanes, missing, |(name, stored)| self.fetch_one(chain, &directory.join(name), stored));
        if let Err(error) = fetched {
            // The pin may have ended meanwhile.
            mirror.pinned(pin)?;
            return Err(error);
        }
        publish(&*self.env.system, &path, &manifest.bytes)?;
        Ok(directory)
    }

    /// The directory in a replica for what belongs to a pin.
    pub(in crate::store) fn own_directory_of(&self, pin: &str) -> Result<PathBuf> {
        check_name(pin)?;
        let directory = self.directory.join(format!("{AT}{pin}"));
        self.env.system.make_directory(&self.directory)?;
        self.env.system.make_directory(&directory)?;
        Ok(directory)
    }

    /// Give the files of a pin that the replica has a name in its directory; answers the others.
    fn linked<'a>(
        &self,
        mirror: &Mirror,
        directory: &std::path::Path,
        files: &'a [(String, Stored)],
    ) -> Result<Vec<&'a (String, Stored)>> {
        let mut missing = Vec::new();
        // Held, so that no file is replaced.
        let known = mirror.lock();
        for file in files {
            let (from, to) = (self.directory.join(&file.0), directory.join(&file.0));
            let is_here = known.is_loaded && known.files.get(&file.0) == Some(&file.1);
            self.env.system.remove_if_there(&to)?;
            if !(is_here && self.env.system.has(&from)? && self.env.system.link_if_free(&from, &to)?) {
                missing.push(file);
            }
        }
        Ok(missing)
    }

    /// The object of a pin that this handle stored or read last; none in a directory.
    pub(crate) fn described(&self, pin: &str) -> Option<Vec<u8>> {
        let (_, pinned) = self.mirror.as_deref()?.last_pin().filter(|(name, _)| name == pin)?;
        Some(pinned.encode())
    }

    /// Remove a pin, and what this replica has of it.
    pub(in crate::store) fn unpin_objects(&self, mirror: &Mirror, pin: &str) -> Result<()> {
        mirror.chain.remove_pin(pin)?;
        self.forget_pin(mirror, pin)
    }

    /// Remove what this replica has of a pin.
    pub(in crate::store) fn forget_pin(&self, mirror: &Mirror, pin: &str) -> Result<()> {
        *mirror.last_pin.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let directory = self.directory.join(format!("{AT}{pin}"));
        for name in self.env.system.names_if_any(&directory)? {
            self.env.system.remove_if_there(&directory.join(name))?;
        }
        Ok(())
    }
}

impl Mirror {
    /// Whether the newest state that is known names all these files.
    fn still_names(&self, files: &[(String, Stored)]) -> bool {
        let known = self.lock();
        let is_proven = known.is_loaded && !known.is_unproven;
        is_proven && files.iter().all(|(name, stored)| known.files.get(name) == Some(stored))
    }

    /// The state of a pin, which is there.
    pub(super) fn pinned(&self, pin: &str) -> Result<Arc<Pinned>> {
        let reason = "this snapshot is over: its pin was removed, or its lease has ended; take a new one".to_owned();
        let path = self.chain.full_name(&self.chain.names().pin(pin));
        let pinned = Arc::new(self.chain.pinned(pin)?.ok_or_else(|| Error::Open { path: path.into(), reason })?);
        self.note_pin(pin, pinned.clone());
        Ok(pinned)
    }

    /// The state of a pin, without a request where this handle stored or read it last. It may be
    /// removed by now, and its files with it.
    pub(super) fn pinned_before(&self, pin: &str) -> Result<Arc<Pinned>> {
        match self.last_pin().filter(|(name, _)| name == pin) {
            Some((_, pinned)) => Ok(pinned),
            None => self.pinned(pin),
        }
    }

    /// The commit whose state is pinned.
    pub(in crate::store) fn commit_of_pin(&self, pin: &str) -> Result<u64> {
        Ok(self.pinned_before(pin)?.commit)
    }

    /// The pin that was stored or read last.
    fn last_pin(&self) -> Option<(String, Arc<Pinned>)> {
        self.last_pin.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_pin(&self, pin: &str, pinned: Arc<Pinned>) {
        *self.last_pin.lock().unwrap_or_else(PoisonError::into_inner) = Some((pin.to_owned(), pinned));
    }

    /// Whether a pin is there.
    pub(in crate::store) fn has_pin(&self, pin: &str) -> Result<bool> {
        self.chain.has(&self.chain.names().pin(pin))
    }

    /// The names of all pins.
    pub(in crate::store) fn pins(&self) -> Result<Vec<String>> {
        self.chain.pins()
    }
}

/// The present state, whose log holds nothing.
fn describe(writer: &Writer<'_>, mirror: &Mirror) -> Result<Pinned> {
    let space = writer.space();
    let known = mirror.lock();
    let manifest = space.present().as_ref().map(|view| view.manifest.clone());
    let manifest = manifest.ok_or_else(|| Error::State("the key space is not there".into()))?;
    if known.committed != (Committed { log: manifest.log.id, position: START }) {
        return Err(Error::State("a state whose log holds frames cannot be pinned".into()));
    }
    let stored = |name: String| known.files.get(&name).map(|stored| (name.clone(), stored.clone()));
    let files: Vec<_> = named(&manifest).filter_map(stored).collect();
    if files.len() != named(&manifest).count() {
        return Err(Error::State("some of the manifest's files are in no object".into()));
    }
    let new_log = Some(space.log_head(manifest.log.id)?);
    let manifest = NewManifest { number: manifest.number, bytes: manifest.encode(), new_log, files };
    Ok(Pinned { history: space.env.history, commit: known.chain.head().number, manifest })
}
