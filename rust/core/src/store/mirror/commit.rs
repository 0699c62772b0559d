//! Making durable what was appended: commits of frames, and of manifests.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::along::Along;
use super::{Committed, Known, MOST_TOOK, Mirror};
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::objects::Put;
use crate::objects::chain::{Attempt, Beside, Followed};
use crate::objects::chance::drawn;
use crate::objects::change::{Change, LogBytes, NewManifest, Stored};
use crate::objects::pins::Pinned;
use crate::objects::side_by_side::side_by_side;
use crate::store::KeySpace;
use crate::wal::START;
use crate::{Error, Result};

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// What is stored before a commit.
enum Request<'a> {
    File(&'a Stored, &'a Path),
    Pin(&'a str, &'a Pinned),
}

impl Mirror {
    /// Store a file in its object.
    fn store(&self, stored: &Stored, path: &Path) -> Result<()> {
        // Under a random name only our own earlier request can have been first.
        let (Put::Created | Put::Exists) = self.chain.put_file(&stored.object, path)?;
        Ok(())
    }

    /// An operation that wrote nothing rests on what was known when it began: check that it was the
    /// newest state.
    pub(in crate::store) fn check_newest(&self, generation: u64) -> Result<()> {
        let mut known = self.lock();
        if self.generation() != generation {
            return Err(Error::Refused);
        }
        if known.newer.is_empty() && !self.look_for_newer(&mut known)? {
            return Ok(());
        }
        Err(Error::Refused)
    }

    /// Read what others committed; answers whether there is anything to apply.
    pub(super) fn look_for_newer(&self, known: &mut Known) -> Result<bool> {
        let followed = known.chain.follow()?;
        known.is_unproven = false;
        Ok(self.take_over(known, followed))
    }

    /// The same for a writer, whose next commit proves it.
    pub(super) fn read_on(&self, known: &mut Known) -> Result<bool> {
        let followed = known.chain.read_on()?;
        // Also where there is none: a collector may have passed.
        known.is_unproven |= matches!(followed, Followed::Newer(_));
        Ok(self.take_over(known, followed))
    }

    /// Prove what was read for a commit that was not made; answers whether it counts. Otherwise the
    /// state has to be found again.
    pub(in crate::store) fn is_proven(&self) -> Result<bool> {
        let mut known = self.lock();
        if known.is_unproven && known.is_loaded {
            if known.chain.is_proven()? {
                known.is_unproven = false;
            } else {
                known.is_loaded = false;
                self.break_off(&mut known);
            }
        }
        Ok(!known.is_unproven)
    }

    fn take_over(&self, known: &mut Known, followed: Followed) -> bool {
        match followed {
            Followed::Newer(newer) if newer.is_empty() => return false,
            Followed::Newer(newer) => {
                Self::meet(known);
                known.newer = newer;
            }
            Followed::Lost => known.is_loaded = false,
        }
        self.break_off(known);
        true
    }

    /// A commit without a change; answers whether it was made: somebody else's serves as well.
    pub(super) fn commit_nothing(&self) -> Result<bool> {
        let mut known = self.lock();
        if !known.is_loaded || known.is_broken || !known.newer.is_empty() {
            return Ok(false);
        }
        match self.put(&mut known, &Change::default(), Some(&|| {})) {
            Err(Error::Refused) => Ok(false),
            put => {
                put?;
                self.note_settled(&mut known);
                Ok(true)
            }
        }
    }

    fn put(&self, known: &mut Known, change: &Change, beside: Option<Beside<'_>>) -> Result<()> {
        let start = Instant::now();
        let attempt = known.chain.commit(change.encode(), change.is_base(), beside);
        (known.took, known.last) = (start.elapsed().min(MOST_TOOK), Some(Instant::now()));
        match attempt {
            Ok(Attempt::Won) => {
                known.is_unproven = beside.is_none();
                known.won += 1;
                self.note_length(known);
                Ok(())
            }
            Ok(refused @ (Attempt::Refused | Attempt::Lost)) => {
                known.is_loaded &= refused == Attempt::Refused;
                Self::meet(known);
                self.break_off(known);
                Err(Error::Refused)
            }
            Err(error) => {
                self.break_off(known);
                Err(error)
            }
        }
    }
}

impl KeySpace {
    /// Return once the log is committed up to `end`, as generation `generation` wrote it.
    pub(in crate::store) fn reach_commit(&self, mirror: &Mirror, log: u64, end: u64, generation: u64) -> Result<()> {
        let _waiting = mirror.wait();
        let mut known = mirror.lock();
        // A commit of another thread may have taken our frames along, while we waited.
        if mirror.generation() != generation {
            let ended = known.ended.get(&generation).copied().unwrap_or_default();
            return if ended.covers(log, end) { Ok(()) } else { Err(Error::Refused) };
        }
        if known.committed.covers(log, end) {
            return Ok(());
        }
        if !known.newer.is_empty() {
            mirror.break_off(&mut known);
            return Err(Error::Refused);
        }
        mirror.gather(&mut known);
        mirror.give_way(&mut known);
        let frames = self.uncommitted(&known)?;
        let Some(to) = frames.as_ref().map(|frames| frames.from + frames.bytes.len() as u64) else {
            return Err(Error::State("the log does not hold what was appended".into()));
        };
        let change = Change { frames, manifest: None };
        mirror.put(&mut known, &change, Some(&|| {}))?;
        known.committed.position = to;
        mirror.note_settled(&mut known);
        Ok(())
    }

    /// Commit a manifest and the frames before it, and `publish` it in the replica. The writer lock
    /// is held.
    pub(in crate::store) fn commit_manifest(
        &self,
        mirror: &Mirror,
        generation: u64,
        manifest: &Manifest,
        along: &mut Along,
        publish: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        // Readers, and commits of frames, do not wait for the files.
        let files = self.upload(mirror, manifest, along)?;
        let mut known = mirror.lock();
        let number = known.chain.head().number + 1;
        let is_late = files.iter().any(|(_, (last, _))| *last < number);
        if mirror.generation() != generation || known.is_broken || !known.newer.is_empty() || is_late {
            return Err(Error::Refused);
        }
        let files: Vec<_> = files.into_iter().map(|(name, (_, stored))| (name, stored)).collect();
        let is_base = manifest.log.id != known.committed.log;
        let new_log = if is_base { Some(self.log_head(manifest.log.id)?) } else { None };
        // Frames of a log that ends stand in the manifest and its segments.
        let frames = if is_base { None } else { self.uncommitted(&known)? };
        let position = match (&new_log, &frames) {
            (Some(_), _) => START,
            (None, Some(frames)) => frames.from + frames.bytes.len() as u64,
            (None, None) => known.committed.position,
        };
        let is_new = |file: &&(String, Stored)| is_base || !known.files.contains_key(&file.0);
        let listed = files.iter().filter(is_new).cloned().collect();
        let manifest_bytes = manifest.encode();
        let change = Change {
            frames,
            manifest: Some(NewManifest { number: manifest.number, bytes: manifest_bytes, new_log, files: listed }),
        };
        let hint = is_base.then_some(number);
        along.beside(&mirror.chain, hint, |beside| mirror.put(&mut known, &change, beside))?;
        known.committed = Committed { log: manifest.log.id, position };
        known.staged.retain(|file, _| !is_named(manifest, file));
        known.files.extend(files);
        known.files.retain(|file, _| is_named(manifest, file));
        // Before anybody reads on: what others may have read of the chain by now is in the view.
        let published = publish().inspect_err(|_| known.is_loaded = false);
        mirror.note_settled(&mut known);
        published
    }

    /// Store files outside the lock that a manifest is about to name, each under the name that it
    /// will have. No other handle may use these names.
    pub(in crate::store) fn stage_files(&self, files: &[(PathBuf, String)]) -> Result<()> {
        let Some(mirror) = self.mirror.as_deref() else { return Ok(()) };
        let mut bytes = 0;
        for (path, _) in files {
            bytes += self.env.system.open_at(path, false)?.length()?;
        }
        let last = mirror.head() + mirror.ahead(bytes);
        for (path, name) in files {
            let stored = self.store_file(mirror, last, path, name)?;
            mirror.lock().staged.insert(name.clone(), (last, stored));
        }
        Ok(())
    }

    /// Store a file for a commit whose number is at most `last`: after it, a collector knows that
    /// nobody names it any more.
    pub(super) fn store_file(&self, mirror: &Mirror, last: u64, path: &Path, name: &str) -> Result<Stored> {
        let stored = self.to_store(mirror, last, path, name)?;
        mirror.store(&stored, path)?;
        Ok(stored)
    }

    /// The object that a file is about to be stored in.
    fn to_store(&self, mirror: &Mirror, last: u64, path: &Path, name: &str) -> Result<Stored> {
        let mark = drawn()?.first_chunk().map_or(0, |mark| u64::from_le_bytes(*mark));
        let object = mirror.chain.names().data(last, mark, name);
        let (bytes, sum) = self.sum_of(path)?;
        Ok(Stored { object, bytes, sum })
    }

    /// The frames that no commit holds yet.
    fn uncommitted(&self, known: &Known) -> Result<Option<LogBytes>> {
        let (file, log, to) = {
            let view = self.present();
            let Some(view) = view.as_ref() else { return Ok(None) };
            (view.log.file.clone(), view.log.id, view.memtable.position)
        };
        let Committed { log: committed, position: from } = known.committed;
        if log != committed || to <= from {
            return Ok(None);
        }
        let mut bytes = vec![0; (to - from) as usize];
        file.read(&mut bytes, from)?;
        Ok(Some(LogBytes { log, from, bytes }))
    }

    /// What a new log begins with.
    pub(super) fn log_head(&self, id: u64) -> Result<LogBytes> {
        let mut bytes = vec![0; START as usize];
        self.env.system.open_at(&FileKind::Log.path(&self.directory, id), false)?.read(&mut bytes, 0)?;
        Ok(LogBytes { log: id, from: 0, bytes })
    }

    /// The length and the checksum of a file.
    pub(super) fn sum_of(&self, path: &Path) -> Result<(u64, u32)> {
        let file = self.env.system.open_at(path, false)?;
        let (length, mut sum, mut at) = (file.length()?, 0, 0);
        let mut piece = vec![0; (PIECE as u64).min(length) as usize];
        while at < length {
            let take = (PIECE as u64).min(length - at) as usize;
            file.read(&mut piece[..take], at)?;
            sum = crc32c::crc32c_append(sum, &piece[..take]);
            at += take as u64;
        }
        Ok((length, sum))
    }

    /// Store the files of a manifest that are in no object yet, and the pin that goes along;
    /// answers all its files with their objects, and the last commit that may be the first to name
    /// each.
    fn upload(&self, mirror: &Mirror, manifest: &Manifest, along: &mut Along) -> Result<Vec<(String, (u64, Stored))>> {
        let (known, staged, number, committed) = {
            let known = mirror.lock();
            (known.files.clone(), known.staged.clone(), known.chain.head().number + 1, known.committed)
        };
        // A commit of frames that waits now may come first.
        let last = number + 1;
        let one = |name: String| {
            let path = self.directory.join(&name);
            let (until, stored, path) = match (known.get(&name), staged.get(&name)) {
                (Some(stored), _) => (u64::MAX, stored.clone(), None),
                (None, Some((until, stored))) if *until >= last => (*until, stored.clone(), None),
                _ => (last, self.to_store(mirror, last, &path, &name)?, Some(path)),
            };
            Ok((name, until, stored, path))
        };
        let lanes = mirror.chain.store().lanes();
        let all = side_by_side(lanes, named(manifest).collect(), one)?;
        let files: Vec<_> = all.iter().map(|(name, _, stored, _)| (name.clone(), stored.clone())).collect();
        let pin = self.foreseen(along, manifest, number, committed, &files)?;
        along.stored.extend(pin.clone());
        let new = all.iter().filter_map(|(_, _, stored, path)| Some(Request::File(stored, path.as_deref()?)));
        let pin = pin.iter().map(|(name, pinned)| Request::Pin(name, pinned));
        side_by_side(lanes, new.chain(pin).collect(), |request| match request {
            Request::File(stored, path) => mirror.store(stored, path),
            Request::Pin(name, pinned) => mirror.chain.put_pin(name, pinned),
        })?;
        Ok(all.into_iter().map(|(name, until, stored, _)| (name, (until, stored))).collect())
    }
}

/// The names of a manifest's files.
pub(super) fn named(manifest: &Manifest) -> impl Iterator<Item = String> + '_ {
    let segments = manifest.segments.iter().map(|entry| FileKind::Segment.name(entry.id));
    let filters = manifest.global_filters.iter().map(|entry| FileKind::GlobalFilter.name(entry.id));
    let values = manifest.values.iter().map(|entry| FileKind::Values.name(entry.id));
    segments.chain(filters).chain(values)
}

pub(super) fn is_named(manifest: &Manifest, file: &str) -> bool {
    named(manifest).any(|name| name == file)
}
