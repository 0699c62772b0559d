//! Writing: the lock, the preparation by its holder, and frames appended to the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::mirror::{Along, Mirror};
use super::view::View;
use super::writer_lock::{Taken, WriterLock};
use super::{KeySpace, LookedUp, SpaceSettings};
use crate::format::names::WRITER_LOCK;
use crate::segment::values::run::ValueRun;
use crate::types::FrameKeys;
use crate::types::TransactionEntry;
use crate::types::transaction::NumberedBatch;
use crate::wal::frame::{Frame, FrameKind};
use crate::wal::{FrameForms, Log};
use crate::{Error, Result};

/// Number of new keys from which a batch goes into segments at once: as a frame it would be written
/// twice.
pub(super) const LARGE_BATCH: usize = if cfg!(feature = "small") { 20 } else { 128 << 10 };

/// The decisions of a `begin`, to be written.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    pub(crate) keys: FrameKeys,
    pub(crate) transaction: Option<NumberedBatch>,
    /// The open claim of the same transaction that this one replaces, and its start.
    pub(crate) replaces: Option<(u64, i64)>,
    pub(crate) started_at: i64,
    /// Threads to write a large batch with.
    pub(crate) threads: usize,
}

/// A key space whose writer lock is held. Appending, publishing, sealing and reserving are possible
/// only through it, and only [`KeySpace::write`] makes one.
#[derive(Debug)]
pub(crate) struct Writer<'s> {
    pub(super) space: &'s KeySpace,
    pub(super) held: Taken<'s>,
    /// The generation of what it appends, in a replica.
    pub(super) generation: u64,
    /// What goes along with the commit of its next manifest, in a bucket.
    pub(super) along: Along,
    /// Whether the present state was read under this lock, and can be written to.
    pub(super) is_prepared: bool,
    /// What the present operation has begun in the log weighs there.
    pub(super) begun: usize,
    /// Whether a sync is likely to follow the next frame: no other thread waits to append one, and
    /// the log is no copy of a bucket's, which nobody syncs.
    pub(super) is_last: bool,
    /// Whether a log that is full goes on: another call ends it.
    pub(super) leaves_log: bool,
}

impl<'s> Writer<'s> {
    /// A writer of `space`, whose lock `guard` holds.
    pub(super) fn holding(space: &'s KeySpace, guard: Taken<'s>) -> Self {
        Self {
            space,
            held: guard,
            generation: 0,
            along: Along::default(),
            is_prepared: false,
            begun: 0,
            is_last: space.mirror.is_none(),
            leaves_log: false,
        }
    }

    /// The key space, for reading.
    pub(crate) fn space(&self) -> &'s KeySpace {
        self.space
    }
}

impl KeySpace {
    /// The last transaction of an application in the state that this handle has seen last: the
    /// newest one for a writer, the pinned one for a snapshot.
    pub(crate) fn last_transaction(&self, application: &str) -> Option<TransactionEntry> {
        self.present().as_ref().and_then(|view| view.memtable.transaction(application)).cloned()
    }

    /// [`KeySpace::write_again`] for an operation that runs once: in an object store it is refused
    /// where another handle's commit came first.
    pub(crate) fn write<T>(
        &self,
        settings: SpaceSettings,
        operation: impl FnOnce(&mut Writer<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut operation = Some(operation);
        let once = |writer: &mut Writer<'_>| match operation.take() {
            Some(operation) => operation(writer),
            None => Err(Error::Refused),
        };
        self.write_rounds(settings, false, once)
    }

    /// Hold the lock for `operation`. What it appends is durable when this returns. In an object
    /// store it runs again where another handle's commit came first, and nothing of the first run
    /// stays.
    pub(crate) fn write_again<T>(
        &self,
        settings: SpaceSettings,
        operation: impl FnMut(&mut Writer<'_>) -> Result<T>,
    ) -> Result<T> {
        self.write_rounds(settings, true, operation)
    }

    /// [`KeySpace::write`] if no other process holds the lock: for what can wait as well.
    pub(super) fn write_if_free<T>(
        &self,
        settings: SpaceSettings,
        operation: impl FnOnce(&mut Writer<'_>) -> Result<T>,
    ) -> Result<T> {
        self.sync.check()?;
        let _in_use = self.files.enter();
        self.write_once(Duration::ZERO, settings, operation).inspect_err(|error| self.note(error))
    }

    fn write_rounds<T>(
        &self,
        settings: SpaceSettings,
        can_repeat: bool,
        mut operation: impl FnMut(&mut Writer<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.env.read_only || self.is_pinned {
            return Err(Error::ReadOnly(self.env.place()));
        }
        self.sync.check()?;
        let _in_use = self.files.enter();
        let Some(mirror) = &self.mirror else {
            return self.write_once(self.env.lock_timeout, settings, operation).inspect_err(|error| self.note(error));
        };
        let start = std::time::Instant::now();
        for round in 0.. {
            match self.write_once(self.env.lock_timeout, settings, &mut operation) {
                Err(Error::Refused) if can_repeat && start.elapsed() < self.env.lock_timeout => {}
                done => return done.inspect_err(|error| self.note(error)),
            }
            crate::sys::interrupt::check()?;
            mirror.back_off(round);
        }
        Err(Error::Refused)
    }

    /// After a failed write or sync this handle writes no more.
    pub(super) fn note(&self, error: &Error) {
        if error.is_failed_write() {
            self.sync.fail(error);
        }
    }

    fn write_once<T>(
        &self,
        limit: Duration,
        settings: SpaceSettings,
        operation: impl FnOnce(&mut Writer<'_>) -> Result<T>,
    ) -> Result<T> {
        let lock = self.writer_lock()?;
        // While another process holds the lock, its writes so far can be read.
        let taken = lock.take(&*self.env.system, limit, || drop(self.refresh()));
        let guard = taken.map_err(|error| self.or_away(error))?;
        let _at_work = self.mirror.as_deref().map(Mirror::at_work);
        let mut writer = Writer::holding(self, guard);
        if let Some(mirror) = &self.mirror {
            writer.generation = self.settle(mirror, &writer.held)?;
        }
        let before = self.place();
        let result = writer.prepare(settings).and_then(|()| {
            let result = operation(&mut writer)?;
            writer.seal_if_full()?;
            Ok(result)
        });
        let (log, position) = {
            let view = self.present();
            match view.as_ref() {
                Some(view) => (view.log.clone(), view.memtable.position),
                None => return result,
            }
        };
        let (generation, is_unchanged) = (writer.generation, self.place() == before);
        drop(writer);
        let result = match (result, &self.mirror) {
            // Also a refusal must rest on a state that counts.
            (Err(error), Some(mirror)) if !matches!(error, Error::Refused) => {
                return if mirror.is_proven()? { Err(error) } else { Err(Error::Refused) };
            }
            (result, _) => result?,
        };
        if let Some(mirror) = &self.mirror {
            self.reach_commit(mirror, log.id, position, generation)?;
            if is_unchanged {
                mirror.check_newest(generation)?;
            }
            return Ok(result);
        }
        self.reach(&log, position, true)?;
        self.check_in_place(&log).map_err(|error| self.or_away(error))?;
        Ok(result)
    }

    /// Where the view stands: manifest, log and position.
    fn place(&self) -> Option<(u64, u64, u64)> {
        self.present().as_ref().map(|view| (view.manifest.number, view.log.id, view.memtable.position))
    }

    /// A history that is missing as a whole, such as a file system that is not mounted, is not
    /// replaced: it is unavailable.
    pub(super) fn or_away(&self, error: Error) -> Error {
        if matches!(error, Error::Fenced { .. }) { self.env.check_present().err().unwrap_or(error) } else { error }
    }

    /// Before an acknowledgement: check that the written data belongs to the history under its
    /// path.
    pub(super) fn check_in_place(&self, log: &Log) -> Result<()> {
        if log.is_in_place(&*self.env.system)? {
            return Ok(());
        }
        // A writer that came after us may have ended the log: then the newest manifest follows
        // ours.
        self.refresh()?;
        let is_succeeded = self.present().as_ref().is_some_and(|view| view.log.id > log.id);
        if is_succeeded { Ok(()) } else { Err(Error::replaced(&log.file.path)) }
    }

    pub(super) fn writer_lock(&self) -> Result<Arc<WriterLock>> {
        if let Some(lock) = self.files.writer_lock() {
            return Ok(lock);
        }
        let system = &*self.env.system;
        self.make_room()?;
        system.make_directory(&self.directory)?;
        let lock = WriterLock::open(system, &self.directory)?;
        let known = self.present().as_ref().and_then(|view| view.lock_file);
        if known.is_some_and(|known| known != lock.file()) {
            return Err(Error::replaced(&self.directory.join(WRITER_LOCK)));
        }
        Ok(self.files.keep_writer_lock(lock))
    }
}

impl Writer<'_> {
    /// Whether entries that began at this time were purged.
    pub(crate) fn is_purged(&self, started_at: i64) -> bool {
        self.space.present().as_ref().is_some_and(|view| started_at <= view.manifest.purged_upto)
    }

    /// Whether entries of a claim that has not ended may be gone: a purge passed its start, or its
    /// batch was begun again since, which released it.
    pub(crate) fn may_lack(&self, (claim, started_at): (u64, i64), application: Option<&str>) -> bool {
        self.is_purged(started_at) || application.is_some_and(|application| self.is_superseded(claim, application))
    }

    /// Whether the last transaction of an application is another one than this claim's.
    fn is_superseded(&self, claim: u64, application: &str) -> bool {
        self.space.last_transaction(application).is_none_or(|last| last.claim != claim)
    }

    /// Read the present state, and create the key space if it does not exist. End a log that a dead
    /// writer left torn, that holds frames of others that nothing shows to be durable, or that
    /// another writer may be about to append to: its readable part is rewritten.
    pub(super) fn prepare(&mut self, settings: SpaceSettings) -> Result<()> {
        self.space.refresh()?;
        settings.check(self.space.present().as_ref())?;
        let must_end = self.held.must_end_log();
        let is_over =
            self.space.present().as_ref().map(|view| must_end || view.torn > 0 || view.is_doubtful(&self.space.env));
        match is_over {
            None => self.found(settings)?,
            Some(true) => self.seal()?,
            Some(false) => {}
        }
        self.held.ended_log();
        self.make_known()?;
        self.learn(settings)
    }

    /// Look up without a refresh, as nobody else can write now.
    pub(crate) fn look(&self, look: impl FnOnce(Option<&View>) -> Result<LookedUp>) -> Result<LookedUp> {
        Ok(self.space.asked.counted(look(self.space.present().as_ref())?))
    }

    /// Whether this is the last claim that was noted as fresh, and no manifest since can have named
    /// other entries of its keys, or purged it. Manifests that seal or compact leave it fresh.
    pub(super) fn is_fresh(&self, (claim, started_at): (u64, i64)) -> bool {
        let adds = |view: &View| view.manifest.next_sequence > claim;
        claim != 0
            && claim == self.space.fresh.load(Ordering::Relaxed)
            && !self.is_purged(started_at)
            && !self.space.present().as_ref().is_none_or(adds)
    }

    /// Nobody had begun any key of this claim before. In a bucket its number may become another's.
    pub(crate) fn note_fresh(&self, claim: u64) {
        if !self.space.is_in_bucket() {
            self.space.fresh.store(claim, Ordering::Relaxed);
        }
    }

    /// Append `processing` for a batch; answers the new claim and its keys.
    pub(crate) fn begin(&mut self, beginning: Beginning) -> Result<(u64, FrameKeys)> {
        if beginning.keys.len() >= LARGE_BATCH && beginning.replaces.is_none() {
            return self.begin_in_segments(beginning);
        }
        let Beginning { keys, transaction, replaces, started_at, .. } = beginning;
        let weight = |space: &KeySpace| space.present().as_ref().map_or(0, |view| view.memtable.weight());
        let before = weight(self.space);
        let begun = self.append(|sequence| Frame {
            kind: FrameKind::Begin,
            sequence,
            claim: sequence,
            started_at,
            replaces,
            durable: 0,
            transaction,
            keys,
            values: ValueRun::default(),
        })?;
        self.begun = weight(self.space).saturating_sub(before);
        self.space.sealed.began(self.begun);
        Ok((begun.claim, begun.keys))
    }

    /// Append one frame; `frame` makes it for its sequence number.
    pub(super) fn append(&mut self, frame: impl FnOnce(u64) -> Frame) -> Result<Frame> {
        let (sequence, forms) = {
            let view = self.space.present();
            let Some(view) = view.as_ref() else {
                return Err(Error::State("the key space is not there".into()));
            };
            (view.memtable.next_sequence, view.log.frames)
        };
        let mut frame = frame(sequence);
        if frame.rows().is_some() && !forms.rows {
            self.seal_for(FrameForms { rows: true, places: false })?;
        }
        let (bytes, log, position, starts) = {
            let view = self.space.present();
            let Some(view) = view.as_ref() else {
                return Err(Error::State("the key space is not there".into()));
            };
            frame.durable = self.space.sync.durable(view.log.id).min(view.memtable.position);
            let bytes = frame.encode(view.log.place(view.memtable.position));
            // A disk that is busy with a frozen log would keep us waiting here, under the lock.
            (bytes, view.log.clone(), view.memtable.position, self.is_last && view.frozen.is_none())
        };
        self.check_alone()?;
        log.append(&bytes, position)?;
        // The disk is at work while the frame is applied.
        if log.start_writing(position..position + bytes.len() as u64, starts) {
            self.space.sync.started();
        }
        // If somebody came meanwhile, it may not have seen this frame.
        self.check_alone()?;
        self.space.change(|slot| {
            if let Some(view) = slot {
                view.apply(&frame, position + bytes.len() as u64);
                view.last = bytes.last_chunk().copied();
            }
            Ok(frame)
        })
    }

    /// Before something is changed, and afterwards: no other process holds the lock, too.
    pub(super) fn check_alone(&self) -> Result<()> {
        self.held.check_alone()
    }

    /// How many file numbers are left out: a writer that may stand beside us makes its files under
    /// the next ones, and removes what it finds there.
    pub(super) fn skipped_files(&self) -> Result<u64> {
        let mut drawn = [0; 4];
        if self.held.must_end_log() {
            self.space.env.system.randomness_for(&self.space.directory, &mut drawn)?;
        }
        Ok(u64::from(u32::from_le_bytes(drawn)))
    }
}
