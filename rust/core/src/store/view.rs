//! A process's view of a key space: a manifest, its segments and filters, and the log up to a
//! position.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::environment::Environment;
use super::files::{of_newest, read_manifest};
use super::frozen::Frozen;
use super::values::Placed;
use super::writer_lock;

use crate::format::manifest::Manifest;
use crate::format::names::{FileKind, WRITER_LOCK};
use crate::io::FileId;
use crate::memtable::{Memtable, UnionFilter, YoungFilter};
use crate::segment::Segment;
use crate::segment::global::GlobalFilter;
use crate::wal::{Frames, Log, Next, Owner, START};
use crate::{Error, Result};

/// Maximum time to wait for a process that may be syncing the log, in milliseconds.
const WAITS: u32 = 20;

/// A global filter and the open segments it covers.
#[derive(Clone, Debug)]
pub(crate) struct Covered {
    pub(crate) global_filter: Arc<GlobalFilter>,
    /// By their number in the filter's index; none for those that are gone.
    pub(crate) segments: Vec<Option<Arc<Segment>>>,
}

/// A consistent state of a key space.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) directory: PathBuf,
    /// The file name that the manifest was read from.
    pub(crate) source: String,
    pub(crate) manifest: Manifest,
    /// Paths of the manifest and of the next one, which are checked repeatedly.
    own: PathBuf,
    next: PathBuf,
    /// Identities of the manifest and the writer lock: other files under their names are not ours.
    own_file: Option<FileId>,
    pub(crate) lock_file: Option<FileId>,
    /// Newest first.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) covered: Vec<Covered>,
    pub(crate) uncovered: Vec<Arc<Segment>>,
    /// The uncovered segments that the young filter covers, and those that are asked one by one.
    pub(crate) joined: Vec<Arc<Segment>>,
    pub(crate) apart: Vec<Arc<Segment>>,
    /// Files of values, in look-up order.
    pub(crate) values: Vec<Placed>,
    pub(crate) log: Log,
    /// The next log, which this process has made and is about to publish.
    pub(super) made: Option<Log>,
    pub(crate) memtable: Memtable,
    /// The entries of the log before, while they are not in segments.
    pub(crate) frozen: Option<Arc<Frozen>>,
    /// Its file, before its entries are read.
    pub(super) frozen_log: Option<Log>,
    /// The number after the last operation before the log and the frozen log that may have released
    /// single keys. Not all of them were read here.
    pub(super) released_before: u64,
    /// One filter over the log, the frozen log and the joined segments.
    pub(crate) young: YoungFilter,
    /// The first of the frozen log's entries that it does not hold yet.
    pub(super) lacks_young: Option<usize>,
    /// One filter over a global filter and what the young filter covers, for large look-ups.
    pub(super) union: Option<UnionFilter>,
    /// Whether many rows are looked up now: new entries are left out of the memtable's index, and
    /// the young filter is not filled beyond its capacity.
    pub(super) is_lazy: bool,
    /// A global filter that is about to be published, open and read.
    pub(super) warm: Option<Arc<GlobalFilter>>,
    /// The buffers of a memtable that was frozen and is gone.
    pub(super) spare: Option<Memtable>,
    /// The bytes before the memtable's position, which reveal a log that was overwritten.
    pub(crate) last: Option<[u8; 8]>,
    /// Bytes behind the last whole frame: a writer is writing, or died while writing.
    pub(crate) torn: u64,
    /// Whether parts of it went to a newer view that could not be read to its end.
    pub(super) is_spent: bool,
    /// The buffer for reading the log.
    buffer: Vec<u8>,
}

impl View {
    /// The newest state in `directory`; none if nothing was published there yet.
    pub(crate) fn load(env: &Environment, directory: &Path, known: Option<&View>) -> Result<Option<Self>> {
        let mut view = Self::load_files(env, directory, known)?;
        if let Some(view) = &mut view {
            view.read_frozen(None)?;
            view.build_young();
            view.read_log(env)?;
            if !view.is_newest(env)? {
                view.advance(env)?;
            }
        }
        Ok(view)
    }

    /// Everything except the frames of the log.
    fn load_files(env: &Environment, directory: &Path, known: Option<&View>) -> Result<Option<Self>> {
        env.check_own()?;
        of_newest(env, directory, |number| Self::open(env, directory, number, known))
    }

    fn open(env: &Environment, directory: &Path, number: u64, known: Option<&View>) -> Result<Self> {
        let path = FileKind::Manifest.path(directory, number);
        let manifest = read_manifest(env, &path)?;
        if manifest.number != number {
            return Err(Error::corrupt(&path, 16, format!("this is manifest {} under another name", manifest.number)));
        }
        if let Some(known) = known {
            known.check_successor(&manifest, &path)?;
        }
        let mut view = Self::of(env, directory, FileKind::Manifest.name(number), manifest, known)?;
        view.own_file = identify(env, &path)?;
        view.lock_file = identify(env, &directory.join(WRITER_LOCK))?;
        if known.is_some_and(|known| known.lock_file.is_some() && known.lock_file != view.lock_file) {
            return Err(Error::replaced(&directory.join(WRITER_LOCK)));
        }
        view.open_files(env, known)?;
        view.open_frozen(env, known)?;
        Ok(view)
    }

    /// Check that a manifest can follow ours: this detects an older history in the place of ours.
    fn check_successor(&self, manifest: &Manifest, path: &Path) -> Result<()> {
        let ours = &self.manifest;
        // A log that has ended has left all its operations in the manifest.
        let is_same_log = manifest.log.id == ours.log.id;
        let next_sequence = if is_same_log { ours.next_sequence } else { self.memtable.next_sequence };
        let is_later = manifest.number >= ours.number
            && manifest.next_file >= ours.next_file
            && manifest.next_sequence >= next_sequence;
        if is_later {
            return Ok(());
        }
        let reason = format!(
            "this is manifest {} with {} operations, but this handle knows manifest {} with {next_sequence} of this history: \
             an older copy was put in its place, and nothing was acknowledged; open the history again, and see what the \
             copy lacks",
            manifest.number, manifest.next_sequence, ours.number
        );
        Err(Error::Fenced { path: path.to_path_buf(), reason })
    }

    /// A pinned state: only immutable files, and nothing of the log, which was sealed before.
    pub(crate) fn open_pinned(env: &Environment, directory: &Path, name: &str) -> Result<Self> {
        let path = directory.join(name);
        let manifest = read_manifest(env, &path).map_err(|error| match error {
            Error::Io { .. } => Error::Open {
                path,
                reason: "this snapshot was removed, or it was pinned in a directory that this process does not see"
                    .into(),
            },
            other => other,
        })?;
        let mut view = Self::of(env, directory, name.to_owned(), manifest, None)?;
        view.open_files(env, None)?;
        view.sort_uncovered();
        Ok(view)
    }

    /// The state of a manifest before its files are opened and its log is read.
    fn of(
        env: &Environment,
        directory: &Path,
        source: String,
        manifest: Manifest,
        known: Option<&View>,
    ) -> Result<Self> {
        Ok(Self {
            directory: directory.to_path_buf(),
            source,
            own: FileKind::Manifest.path(directory, manifest.number),
            next: FileKind::Manifest.path(directory, manifest.number + 1),
            own_file: None,
            lock_file: None,
            segments: Vec::new(),
            covered: Vec::new(),
            uncovered: Vec::new(),
            joined: Vec::new(),
            apart: Vec::new(),
            values: Vec::new(),
            log: log_of(env, directory, &manifest, known)?,
            made: None,
            memtable: Memtable::new(&manifest, START),
            frozen: None,
            frozen_log: None,
            released_before: manifest.next_sequence,
            young: YoungFilter::default(),
            lacks_young: None,
            union: None,
            is_lazy: false,
            warm: None,
            spare: None,
            last: None,
            torn: 0,
            is_spent: false,
            buffer: Vec::new(),
            manifest,
        })
    }

    /// Open the segments and filters that the manifest names, except those that are open already.
    fn open_files(&mut self, env: &Environment, known: Option<&View>) -> Result<()> {
        for entry in &self.manifest.segments {
            let same = |segment: &&Arc<Segment>| segment.header().id == entry.id;
            let segment = match known.and_then(|known| known.segments.iter().find(same)) {
                Some(segment) => segment.clone(),
                None => Segment::open(&*env.system, &FileKind::Segment.path(&self.directory, entry.id), env.history)?,
            };
            if segment.sum() != entry.sum || segment.header().id != entry.id {
                return Err(Error::corrupt(segment.path(), 0, "this is not the segment that the manifest names"));
            }
            self.segments.push(segment);
        }
        self.segments.sort_by_key(|segment| std::cmp::Reverse((segment.header().max_started_at, segment.header().id)));
        for entry in &self.manifest.global_filters {
            let path = FileKind::GlobalFilter.path(&self.directory, entry.id);
            let same = |covered: &&Covered| covered.global_filter.sum() == entry.sum;
            let global_filter = match known.and_then(|known| known.covered.iter().find(same)) {
                Some(covered) => covered.global_filter.clone(),
                None => match known.and_then(|known| known.warm.clone()).filter(|warm| warm.sum() == entry.sum) {
                    Some(warm) => warm,
                    None => GlobalFilter::open(&*env.system, &path, env.history)?,
                },
            };
            if global_filter.sum() != entry.sum {
                return Err(Error::corrupt(&path, 0, "this is not the filter that the manifest names"));
            }
            if global_filter.slots() != entry.segments.len() {
                return Err(Error::corrupt(
                    &path,
                    0,
                    "this filter covers another number of segments than the manifest says",
                ));
            }
            let of_id = |id: &u64| self.segments.iter().find(|segment| segment.header().id == *id).cloned();
            let segments = entry.segments.iter().map(of_id).collect();
            self.covered.push(Covered { global_filter, segments });
        }
        let open = known.map_or(&[][..], |known| &known.values);
        self.values = Placed::open_all(env, &self.directory, &self.manifest.values, open)?;
        let uncovered = self.manifest.uncovered();
        let is_uncovered = |segment: &&Arc<Segment>| uncovered.iter().any(|entry| entry.id == segment.header().id);
        self.uncovered = self.segments.iter().filter(is_uncovered).cloned().collect();
        Ok(())
    }

    /// What a look-up in this view rests on: views of one history with the same mark answer alike.
    pub(crate) fn mark(&self) -> (Option<FileId>, u64, u64) {
        (self.own_file, self.manifest.number, self.memtable.position)
    }

    /// Whether nobody published or appended since, and all files are still under their names. Costs
    /// four cheap system calls.
    pub(crate) fn is_current(&self, env: &Environment) -> Result<bool> {
        let Some(last) = self.last.filter(|_| !self.log.is_closed && !self.is_spent) else { return Ok(false) };
        // A torn frame may have been one that was being written, and be whole by now.
        Ok(self.is_newest(env)?
            && self.torn == 0
            && self.log.is_in_place(&*env.system)?
            && self.log.ends_at(self.memtable.position, last)?)
    }

    pub(super) fn is_newest(&self, env: &Environment) -> Result<bool> {
        let Self { own, next, .. } = self;
        // Old manifests are removed oldest first: if ours is still there, so is the next, if there
        // is one.
        let superseded = env.system.has(next)?;
        if superseded {
            return Ok(false);
        }
        match identify(env, own)? {
            None => Ok(false),
            there if there == self.own_file => Ok(true),
            Some(_) => Err(Error::replaced(own)),
        }
    }

    /// Check that the log's file is under its name, holds what was read of it, and is open. Answers
    /// whether that is so; if not, a newer manifest, which may have ended this log, has come.
    fn hold_log(&mut self, env: &Environment) -> Result<bool> {
        if !self.log.is_in_place(&*env.system)? {
            return if self.is_newest(env)? { Err(Error::replaced(&self.log.file.path)) } else { Ok(false) };
        }
        if self.log.is_closed {
            let owner = Owner::new(env.history, &self.manifest.name);
            let opened = Log::open(&*env.system, &self.log.file.path, self.log.id, owner, !env.read_only)?;
            if opened.identity != self.log.identity {
                return Err(Error::replaced(&self.log.file.path));
            }
            self.log = opened;
        }
        self.check_read(&self.log).map(|()| true)
    }

    /// The part of a log that was read must not have changed.
    fn check_read(&self, log: &Log) -> Result<()> {
        match self.last {
            Some(_) if log.last_before(self.memtable.position)? != self.last => Err(Error::replaced(&log.file.path)),
            _ => Ok(()),
        }
    }

    /// Bring this view up to date: newer frames of the log, or a newer manifest. A frame may rest
    /// on a manifest that was published after this one was found to be the newest.
    pub(crate) fn advance(&mut self, env: &Environment) -> Result<()> {
        loop {
            let read = (self.log.id, self.memtable.position);
            self.advance_once(env)?;
            if read == (self.log.id, self.memtable.position) || self.is_newest(env)? {
                return Ok(());
            }
        }
    }

    fn advance_once(&mut self, env: &Environment) -> Result<()> {
        if self.is_newest(env)? && self.hold_log(env)? {
            return self.read_log(env);
        }
        let directory = self.directory.clone();
        let Some(mut newer) = Self::load_files(env, &directory, Some(self))? else {
            return Err(env.missing(&directory));
        };
        let is_log_the_same = newer.log.id == self.log.id && !self.log.is_closed && self.torn == 0;
        // Of a log that ended all frames are read if it is frozen now.
        if newer.log.id == self.log.id || newer.manifest.frozen.is_some_and(|frozen| frozen.id == self.log.id) {
            newer.released_before = self.released_upto();
        }
        self.is_spent = true;
        (newer.young, newer.is_lazy) = (std::mem::take(&mut self.young), self.is_lazy);
        (newer.spare, newer.union) = (self.spare.take(), self.union.take());
        if newer.log.id == self.log.id {
            if newer.log.identity != self.log.identity {
                return Err(Error::replaced(&self.log.file.path));
            }
            self.check_read(&newer.log)?;
            // The same log: the frames read of it stay valid.
            newer.last = self.last;
            newer.memtable = std::mem::take(&mut self.memtable);
            newer.memtable.learn(&newer.manifest);
        } else {
            self.retire_memtable(&mut newer)?;
        }
        newer.retire_frozen(self);
        *self = newer;
        self.sort_uncovered();
        self.complete_young();
        // The room behind the frames, which may be large, is read only where a frame came.
        match self.last {
            Some(last) if is_log_the_same && self.log.ends_at(self.memtable.position, last)? => self.check_end(env),
            _ => self.read_log(env),
        }
    }

    /// [`View::advance`] to what the holder of the lock has just published: it has read everything
    /// before.
    pub(super) fn advance_to_own(&mut self, env: &Environment) -> Result<()> {
        let released_upto = self.released_upto();
        self.advance(env)?;
        self.released_before = released_upto;
        Ok(())
    }

    /// The number after the last operation that may have released single keys.
    pub(crate) fn released_upto(&self) -> u64 {
        let frozen = self.frozen.as_ref().map_or(0, |frozen| frozen.memtable.released_upto);
        self.memtable.released_upto.max(frozen).max(self.released_before)
    }

    /// Apply the frames that were appended since.
    fn read_log(&mut self, env: &Environment) -> Result<()> {
        let length = self.log.len()?;
        let log = self.log.clone();
        let mut frames = Frames::reusing(&log, self.memtable.position, length, std::mem::take(&mut self.buffer));
        self.torn = 0;
        loop {
            match frames.next()? {
                Next::Frame(frame, end) => self.apply(&frame, end),
                Next::End => break,
                Next::Torn => {
                    self.torn = length - self.memtable.position;
                    break;
                }
            }
        }
        self.buffer = frames.into_buffer();
        self.last = log.last_before(self.memtable.position)?;
        if self.torn == 0 {
            // Room behind the frames that we found is not inherited.
            self.log.inherited = self.log.inherited.min(self.memtable.position);
        }
        self.check_end(env)
    }

    /// The log may end or be torn here only if nothing shows that it continued.
    fn check_end(&mut self, env: &Environment) -> Result<()> {
        let witness = writer_lock::watermark(&*env.system, &self.directory, self.log.id);
        let proven = self.memtable.durable.max(witness);
        let position = self.memtable.position;
        let damage = if self.torn > 0 {
            self.log.check_torn(position, proven)
        } else if position < proven {
            let reason = format!("the log ends here, but {proven} bytes of it were durable");
            Err(Error::corrupt(&self.log.file.path, position, reason))
        } else {
            Ok(())
        };
        let Err(damage) = damage else { return Ok(()) };
        // The log's end, or a torn frame, may have been a frame that was being written, and be
        // whole by now.
        match Frames::new(&self.log, self.memtable.position, self.log.len()?).next()? {
            Next::Frame(..) => self.read_log(env),
            Next::End | Next::Torn => Err(damage),
        }
    }

    /// Whether the log had frames when this process opened it that nothing shows to be durable.
    /// Their writer may be syncing them just now, so this waits a little, because otherwise they
    /// have to be rewritten.
    pub(crate) fn is_doubtful(&self, env: &Environment) -> bool {
        let end = self.log.inherited.min(self.memtable.position);
        // A replica's log is made of commits.
        if end <= self.memtable.durable || env.objects.is_some() {
            return false;
        }
        let waits = if env.read_only { 0 } else { WAITS };
        for wait in 0..=waits {
            if writer_lock::watermark(&*env.system, &self.directory, self.log.id) >= end {
                return false;
            }
            if wait == waits {
                break;
            }
            env.system.pause(std::time::Duration::from_millis(1));
        }
        true
    }

    /// How far this view knows the log to be durable.
    pub(crate) fn proven(&self) -> u64 {
        self.memtable.durable
    }
}

/// The log that a manifest names; the one that is open already, if it is the same.
fn log_of(env: &Environment, directory: &Path, manifest: &Manifest, known: Option<&View>) -> Result<Log> {
    if let Some(made) = known.and_then(|known| known.made.as_ref()).filter(|made| made.id == manifest.log.id)
        && made.is_in_place(&*env.system)?
    {
        return Ok(made.clone());
    }
    match known.filter(|known| known.log.id == manifest.log.id) {
        Some(known) if !known.log.is_closed => Ok(known.log.clone()),
        _ => {
            let path = FileKind::Log.path(directory, manifest.log.id);
            let owner = Owner::new(env.history, &manifest.name);
            Log::open(&*env.system, &path, manifest.log.id, owner, !env.read_only)
        }
    }
}

fn identify(env: &Environment, path: &Path) -> Result<Option<FileId>> {
    env.system.identity(path)
}
