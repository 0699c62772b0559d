//! Bringing the replica up to date: undoing what was not committed, and applying newer commits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::commit::{is_named, named};
use super::verify::other_bytes;
use super::{Committed, Known, Mirror};
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::io::{publish, write_new};
use crate::objects::chain::{Chain, MISSING};
use crate::objects::change::{Change, LogBytes, NewManifest, Stored};
use crate::objects::commit::Commit;
use crate::objects::side_by_side::side_by_side;
use crate::store::KeySpace;
use crate::store::view::View;
use crate::store::writer_lock::Taken;
use crate::{Error, Result};

/// How often a state is looked for whose files were collected meanwhile.
const TRIES: u32 = 5;

impl KeySpace {
    /// For a reader: the replica is up to date when this returns, unless this thread is changing
    /// it.
    pub(in crate::store) fn catch_up(&self) -> Result<()> {
        let Some(mirror) = self.mirror.as_deref().filter(|mirror| !mirror.is_own_work() && !self.is_pinned) else {
            return Ok(());
        };
        if mirror.is_newest()? { Ok(()) } else { self.follow(mirror) }
    }

    /// The replica is not, or perhaps not, the newest state: make it so.
    pub(super) fn follow(&self, mirror: &Mirror) -> Result<()> {
        {
            let mut known = mirror.lock();
            let is_settled = known.is_loaded && !known.is_broken && known.newer.is_empty() && mirror.is_ready();
            if is_settled && !mirror.look_for_newer(&mut known)? {
                return Ok(());
            }
        }
        let lock = self.writer_lock()?;
        let held = lock.take(&*self.env.system, self.env.lock_timeout, || {})?;
        loop {
            self.settle(mirror, &held)?;
            if mirror.is_proven()? {
                return Ok(());
            }
        }
    }

    /// Make the replica one of the chain's states; answers the generation of what is appended next.
    pub(in crate::store) fn settle(&self, mirror: &Mirror, _held: &Taken<'_>) -> Result<u64> {
        // While another thread's commit is under way, this one appends to the next. Where that
        // commit is refused, the generation tells.
        let generation = mirror.generation();
        if mirror.is_settled.load(Ordering::Acquire) {
            return Ok(generation);
        }
        let mut known = mirror.lock();
        let known = &mut *known;
        let mut tries = 0;
        while !(known.is_loaded && !known.is_broken && known.newer.is_empty() && mirror.is_ready()) {
            match self.settle_once(mirror, known) {
                // Collected while it was fetched: a newer state does not need it.
                Err(Error::Objects { operation: MISSING, .. }) if tries < TRIES => tries += 1,
                done => done?,
            }
        }
        mirror.note_settled(known);
        Ok(mirror.generation())
    }

    fn settle_once(&self, mirror: &Mirror, known: &mut Known) -> Result<()> {
        if !mirror.is_ready() {
            known.is_loaded = false;
        }
        if known.is_loaded && known.newer.is_empty() {
            // The less time before the next commit, the less often others come first.
            mirror.read_on(known)?;
        }
        if !known.is_loaded {
            known.newer = mirror.find(known)?;
            known.committed = Committed::default();
            known.files.clear();
        }
        let newer = std::mem::take(&mut known.newer);
        // Nobody reads the view while its files are replaced.
        self.change(|slot| {
            mirror.is_ready.store(false, Ordering::Release);
            mirror.is_settled.store(false, Ordering::Release);
            known.is_loaded = false;
            let is_ahead = |view: &View| !known.committed.covers(view.log.id, view.memtable.position);
            let can_stay = known.committed != Committed::default()
                && slot.as_ref().is_some_and(|view| !is_ahead(view) && !view.is_spent);
            if known.committed == Committed::default() {
                self.clear_replica()?;
            } else if !can_stay {
                self.undo(known.committed)?;
            }
            self.apply(known, &newer)?;
            match slot {
                Some(view) if can_stay => view.advance(&self.env)?,
                _ => *slot = View::load(&self.env, &self.directory, None)?,
            }
            if let Some(view) = slot {
                self.check_name(view)?;
            }
            mirror.note_length(known);
            (known.is_loaded, known.is_broken) = (true, false);
            mirror.is_ready.store(true, Ordering::Release);
            Ok(())
        })
    }

    /// Remove all files of the replica but the locks.
    fn clear_replica(&self) -> Result<()> {
        for name in self.env.system.names(&self.directory)? {
            if FileKind::of(&name).is_some() {
                self.env.system.remove_if_there(&self.directory.join(name))?;
            }
        }
        Ok(())
    }

    /// Drop the frames behind the committed ones.
    fn undo(&self, Committed { log, position }: Committed) -> Result<()> {
        let path = FileKind::Log.path(&self.directory, log);
        let mut bytes = vec![0; position as usize];
        self.env.system.open_at(&path, false)?.read(&mut bytes, 0)?;
        self.env.system.remove_at(&path)?;
        write_new(&*self.env.system, &path, &[&bytes]).map(drop)
    }

    fn apply(&self, known: &mut Known, newer: &[Commit]) -> Result<()> {
        let mut objects = known.files.clone();
        let Some(last) = self.replay(known, newer, &mut objects)? else { return Ok(()) };
        let path = FileKind::Manifest.path(&self.directory, last.number);
        let manifest = Manifest::decode(&last.bytes, &path)?;
        self.fetch(known, &manifest, &objects)?;
        self.env.system.remove_if_there(&path)?;
        publish(&*self.env.system, &path, &last.bytes)?;
        self.remove_others(&manifest)
    }

    /// Write the logs of some commits, and note which objects hold their files. Answers the last of
    /// their manifests: only that one is needed, and the files that it names.
    pub(super) fn replay(
        &self,
        known: &mut Known,
        newer: &[Commit],
        objects: &mut BTreeMap<String, Stored>,
    ) -> Result<Option<NewManifest>> {
        let mut last: Option<NewManifest> = None;
        for commit in newer {
            let name = known.chain.names().commit(commit.number);
            let Change { frames, manifest } = Change::decode(&commit.change, &name)?;
            if let Some(frames) = frames {
                self.append_frames(known, &frames, &name)?;
            }
            let Some(manifest) = manifest else { continue };
            if let Some(head) = &manifest.new_log {
                let path = FileKind::Log.path(&self.directory, head.log);
                self.env.system.remove_if_there(&path)?;
                write_new(&*self.env.system, &path, &[&head.bytes])?;
                known.committed = Committed { log: head.log, position: head.bytes.len() as u64 };
                objects.clear();
            }
            objects.extend(manifest.files.iter().cloned());
            last = Some(manifest);
        }
        Ok(last)
    }

    fn append_frames(&self, known: &mut Known, frames: &LogBytes, name: &str) -> Result<()> {
        let Committed { log, position } = known.committed;
        if (frames.log, frames.from) != (log, position) {
            let reason = format!(
                "these frames are for byte {} of log {}, but the commits before end at byte {position} of log {log}",
                frames.from, frames.log
            );
            return Err(Error::corrupt(Path::new(name), 0, reason));
        }
        let file = self.env.system.open_at(&FileKind::Log.path(&self.directory, log), true)?;
        file.write(&frames.bytes, position)?;
        known.committed.position += frames.bytes.len() as u64;
        Ok(())
    }

    /// Fetch the files of a manifest that are not here.
    fn fetch(&self, known: &mut Known, manifest: &Manifest, objects: &BTreeMap<String, Stored>) -> Result<()> {
        let mut files = BTreeMap::new();
        for name in named(manifest) {
            let Some(stored) = objects.get(&name) else {
                let reason =
                    format!("manifest {} names this file, and no commit says which object holds it", manifest.number);
                return Err(Error::corrupt(&self.directory.join(name), 0, reason));
            };
            files.insert(name, stored.clone());
        }
        let missing = files.iter().filter(|(name, stored)| known.files.get(*name) != Some(*stored)).collect();
        let (chain, lanes) = (&known.chain, known.chain.store().lanes());
        side_by_side(lanes, missing, |(name, stored)| self.fetch_one(chain, &self.directory.join(name), stored))?;
        known.files = files;
        Ok(())
    }

    pub(super) fn fetch_one(&self, chain: &Chain, path: &Path, stored: &Stored) -> Result<()> {
        for _ in 0..TRIES {
            // A file of our own under this number was never committed.
            self.env.system.remove_if_there(path)?;
            if !chain.get_file(stored, path)? {
                return Err(chain.lost(&stored.object));
            }
            // Bytes may be damaged on the way.
            if self.sum_of(path)? == (stored.bytes, stored.sum) {
                return Ok(());
            }
            chain.store().forget(&stored.object);
        }
        Err(other_bytes(&chain.full_name(&stored.object)))
    }

    /// Remove what the newest manifest does not name.
    fn remove_others(&self, manifest: &Manifest) -> Result<()> {
        for name in self.env.system.names(&self.directory)? {
            let is_needed = match FileKind::of(&name) {
                Some(FileKind::Manifest) => name == FileKind::Manifest.name(manifest.number),
                Some(FileKind::Log) => name == FileKind::Log.name(manifest.log.id),
                Some(FileKind::Segment | FileKind::GlobalFilter | FileKind::Values) => is_named(manifest, &name),
                _ => true,
            };
            if !is_needed {
                self.env.system.remove_if_there(&self.directory.join(name))?;
            }
        }
        Ok(())
    }
}
