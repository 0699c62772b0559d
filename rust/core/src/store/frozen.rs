//! A log that is full is frozen: it ends, another one takes its place, and its entries stay in
//! memory while they are put into segments outside the lock. To everyone who reads, a frozen log
//! is like segments: it is durable, no frame follows, and only its own frames tell how its entries
//! ended.

use std::sync::Arc;
use std::time::Duration;

use super::environment::Environment;
use super::limits::{most_in_memtable, too_many_in_memtable};
use super::lock::Lock;
use super::mirror::Mirror;
use super::publish_beside::Change;
use super::view::View;
use super::{KeySpace, SpaceSettings};
use crate::format::manifest::{FrozenLog, LogEntry, Manifest};
use crate::format::names::{FileKind, SEAL_LOCK};
use crate::memtable::Memtable;
use crate::segment::Wanted;
use crate::segment::format::Stamp;
use crate::segment::run::{EntryRun, Runs};
use crate::store::Writer;
use crate::sys::background;
use crate::wal::{FrameForms, Frames, Log, Next, Owner, START};
use crate::{Error, Result};

/// The entries of a frozen log.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) log: FrozenLog,
    pub(crate) memtable: Memtable,
}

impl View {
    /// Open the frozen log's file, unless its entries are known already.
    pub(super) fn open_frozen(&mut self, env: &Environment, known: Option<&Self>) -> Result<()> {
        let Some(frozen) = self.manifest.frozen else { return Ok(()) };
        self.frozen = known.and_then(|known| known.frozen.clone()).filter(|known| known.log.id == frozen.id);
        if self.frozen.is_none() {
            let path = FileKind::Log.path(&self.directory, frozen.id);
            let owner = Owner::new(env.history, &self.manifest.name);
            self.frozen_log = Some(Log::open(&*env.system, &path, frozen.id, owner, false)?);
        }
        Ok(())
    }

    /// Read the entries of the frozen log, of which `memtable` holds a part.
    pub(super) fn read_frozen(&mut self, memtable: Option<Memtable>) -> Result<()> {
        let (Some(frozen), Some(log)) = (self.manifest.frozen, self.frozen_log.take()) else { return Ok(()) };
        // Large batches of this process were left out of the index, and will soon be in segments.
        let is_indexed = memtable.is_none() && !self.is_lazy;
        let mut memtable = memtable.unwrap_or_default();
        memtable.position = memtable.position.max(START);
        let mut frames = Frames::new(&log, memtable.position, frozen.end.min(log.len()?));
        while memtable.position < frozen.end {
            self.lacks_young.get_or_insert(memtable.len());
            match frames.next()? {
                Next::Frame(frame, end) => memtable.apply(&frame, end),
                Next::End | Next::Torn => return Err(incomplete(&log, memtable.position, frozen)),
            }
        }
        if is_indexed {
            memtable.index_pending();
        }
        self.frozen = Some(Arc::new(Frozen { log: frozen, memtable }));
        Ok(())
    }

    /// The memtable of a log that has ended becomes the frozen one of the `newer` view, or its
    /// buffers are used again.
    pub(super) fn retire_memtable(&mut self, newer: &mut Self) -> Result<()> {
        let old = std::mem::take(&mut self.memtable);
        let entries = old.len();
        if newer.manifest.frozen.is_some_and(|frozen| frozen.id == self.log.id) && newer.frozen_log.is_some() {
            newer.read_frozen(Some(old))?;
            newer.memtable.expect(entries);
        } else {
            newer.spare = Some(old);
            newer.read_frozen(None)?;
        }
        if let Some(spare) = newer.spare.take() {
            newer.memtable.reuse(spare);
        }
        Ok(())
    }

    /// After a newer manifest was read: the young filter covers the segments that hold the entries
    /// of a frozen log, and the buffers of its memtable can be used again.
    pub(super) fn retire_frozen(&mut self, old: &mut Self) {
        let is_over = |old: &Arc<Frozen>| self.frozen.as_ref().is_none_or(|frozen| frozen.log.id != old.log.id);
        let Some(frozen) = old.frozen.take().filter(is_over) else { return };
        // Also those that were compacted meanwhile, from which other segments come.
        frozen.log.reserved().for_each(|id| self.hold_written(id));
        self.spare = Arc::try_unwrap(frozen).ok().map(|frozen| frozen.memtable);
    }

    /// Read all frames of the frozen log again; answers their bytes.
    pub(super) fn verify_frozen(&self, env: &Environment) -> Result<u64> {
        let Some(frozen) = &self.frozen else { return Ok(0) };
        let path = FileKind::Log.path(&self.directory, frozen.log.id);
        let owner = Owner::new(env.history, &self.manifest.name);
        let log = match Log::open(&*env.system, &path, frozen.log.id, owner, false) {
            // Its entries have come into segments meanwhile.
            Err(error) if error.is_missing() && !self.is_newest(env)? => return Ok(frozen.log.end),
            log => log?,
        };
        let (mut frames, mut at) = (Frames::new(&log, START, frozen.log.end.min(log.len()?)), START);
        while at < frozen.log.end {
            match frames.next()? {
                Next::Frame(_, end) => at = end,
                Next::End | Next::Torn => return Err(incomplete(&log, at, frozen.log)),
            }
        }
        Ok(at)
    }

    /// Look every usable row up in the log and in the frozen log; `hit` gets each entry found, and
    /// whether it is in the log.
    pub(crate) fn find_in_memory(&self, wanted: &Wanted, hit: &mut dyn FnMut(u32, Stamp, bool)) {
        self.memtable.find(wanted, 0, &mut |row, stamp| hit(row, stamp, true));
        if let Some(frozen) = &self.frozen {
            frozen.memtable.find(wanted, 0, &mut |row, stamp| {
                let mark = frozen.memtable.effective(stamp);
                hit(row, Stamp { mark, ..stamp }, false);
            });
        }
    }

    /// Whether entries in memory are not indexed.
    pub(crate) fn has_pending(&self) -> bool {
        self.memtable.has_pending() || self.frozen.as_ref().is_some_and(|frozen| frozen.memtable.has_pending())
    }

    /// Index all entries in memory; those of a frozen log only while nobody else reads them.
    pub(super) fn index_pending(&mut self) {
        self.memtable.index_pending();
        if let Some(frozen) = self.frozen.as_mut().and_then(Arc::get_mut) {
            frozen.memtable.index_pending();
        }
    }

    /// The earliest start time among the entries in memory.
    pub(crate) fn oldest_in_memory(&self) -> Option<i64> {
        self.memtable.oldest().into_iter().chain(self.frozen.as_ref().and_then(|frozen| frozen.memtable.oldest())).min()
    }

    /// Whether neither the log nor a frozen log before it holds any frame.
    pub(crate) fn is_log_untouched(&self) -> bool {
        self.frozen.is_none() && self.memtable.is_untouched(START)
    }

    /// The entries in memory as runs, one for each time partition, without those that began at or
    /// before `expired`.
    pub(super) fn runs(&self, expired: i64) -> Vec<EntryRun> {
        let mut runs = Runs::new(self.manifest.partition_us);
        if let Some(frozen) = &self.frozen {
            frozen.memtable.fill(&mut runs, expired);
        }
        self.memtable.fill(&mut runs, expired);
        runs.into_list()
    }
}

fn incomplete(log: &Log, at: u64, frozen: FrozenLog) -> Error {
    let reason = format!("no whole frame here, but {} bytes of this log were durable", frozen.end);
    Error::corrupt(&log.file.path, at, reason)
}

impl Writer<'_> {
    /// Make room in a log that is full: freeze it, or put its entries into segments where the one
    /// before it is frozen still. What was begun just now may make it full: its end, which probably
    /// comes next, takes least in the same log.
    pub(super) fn seal_if_full(&mut self) -> Result<()> {
        if self.leaves_log {
            return Ok(());
        }
        if let Some(mirror) = self.space.mirror.as_deref() {
            return if self.is_seal_due_in(mirror) { self.seal() } else { Ok(()) };
        }
        let is_full_of_values = |view: &View| KeySpace::is_log_full_of_values(view);
        let state = self.space.present().as_ref().map(|view| {
            let has_values = !view.memtable.values.run.is_empty();
            (view.memtable.weight(), view.frozen.is_some() || has_values, is_full_of_values(view))
        });
        match state {
            Some((_, _, true)) => self.seal(),
            Some((weight, is_taken, _)) if weight > too_many_in_memtable() && is_taken => self.seal(),
            Some((weight, false, _)) if weight.saturating_sub(self.begun) > most_in_memtable() => self.freeze(),
            _ => Ok(()),
        }
    }

    /// Whether a log in a bucket is full, or took many commits: a new reader fetches each of them.
    /// It is not frozen, as a replica belongs to one handle.
    fn is_seal_due_in(&self, mirror: &Mirror) -> bool {
        let is_full =
            |view: &View| view.memtable.weight() > most_in_memtable() || KeySpace::is_log_full_of_values(view);
        let has_frames = |view: &View| !view.memtable.is_untouched(START);
        let is_due = |view: &View| is_full(view) || mirror.is_long() && has_frames(view);
        self.space.present().as_ref().is_some_and(is_due)
    }

    /// End the log, and start another one beside it.
    fn freeze(&mut self) -> Result<()> {
        let (log, position) = {
            let view = self.space.present();
            let Some(view) = view.as_ref() else { return Ok(()) };
            (view.log.clone(), view.memtable.position)
        };
        // Nobody appends meanwhile. What the manifest says of this log is durable first.
        self.space.reach(&log, position, true)?;
        let mut manifest = {
            let view = self.space.present();
            let Some(view) = view.as_ref() else { return Ok(()) };
            let mut manifest = view.successor();
            manifest.next_file += self.skipped_files()?;
            let (first_file, files) = (manifest.next_file, view.memtable.partitions(manifest.partition_us));
            manifest.frozen = Some(FrozenLog { id: log.id, end: position, first_file, files });
            manifest.next_file += files;
            manifest
        };
        let log = self.space.new_log(manifest.next_file, self.forms_after(&manifest, FrameForms::default()))?;
        manifest.next_file += 1;
        manifest.log = LogEntry { id: log.id, proven: START };
        manifest.forget_dropped();
        // What only older manifests name goes with the next one, which names this log's segments:
        // to remove a file takes as long as a sync, and the writer would wait for it.
        self.publish_in_place(&manifest)
    }
}

impl KeySpace {
    /// Whether a frozen log waits to be put into segments.
    pub(crate) fn is_seal_due(&self) -> bool {
        self.present().as_ref().is_some_and(|view| view.frozen.is_some())
    }

    /// Put the entries of a frozen log into segments, unless somebody is at it.
    pub(crate) fn seal_frozen(&self) -> Result<()> {
        self.seal_frozen_within(Duration::ZERO)
    }

    /// Put the entries of a frozen log into segments. Only publishing needs the writer lock; one
    /// process at a time does it, for which this one waits for `limit` at most.
    pub(super) fn seal_frozen_within(&self, limit: Duration) -> Result<()> {
        if self.read(|view| Ok(view.is_none_or(|view| view.frozen.is_none())))? {
            return Ok(());
        }
        let lock = Lock::open(&*self.env.system, &self.directory.join(SEAL_LOCK))?;
        let Some(_guard) = lock.take(limit, || {})? else { return Ok(()) };
        let Some((frozen, width)) =
            self.read(|view| Ok(view.and_then(|view| Some((view.frozen.clone()?, view.manifest.partition_us)))))?
        else {
            return Ok(());
        };
        let log = frozen.log;
        self.sealed.begin(1);
        let written = background::awaited(&self.sealed.awaited, || self.write_frozen(&frozen, width))?;
        // Its buffers are used again once nobody holds it.
        drop(frozen);
        let change = |manifest: &mut Manifest| {
            manifest.frozen = None;
            manifest.segments.extend(&written);
        };
        // Somebody else may have put the log into segments meanwhile; these files go then.
        let is_due = |manifest: &Manifest| manifest.frozen.is_some_and(|frozen| frozen.id == log.id);
        let change = Change { is_due: &is_due, ..Change::of_manifest(&change) };
        self.publish_beside(SpaceSettings::STORED, &change)?;
        self.clear_spare()?;
        // The next log may be full by now, and perhaps nobody writes any more. The one after it
        // takes the buffers over.
        let is_full = |view: &View| view.memtable.weight() > most_in_memtable();
        if self.present().as_ref().is_some_and(is_full) {
            self.write(SpaceSettings::STORED, |_| Ok(()))
        } else {
            Ok(())
        }
    }

    /// Clear the buffers that the next log's memtable takes over, so that the writer that freezes
    /// this one need not.
    fn clear_spare(&self) -> Result<()> {
        let spare = self.change(|slot| Ok(slot.as_mut().and_then(|view| view.spare.take())))?;
        let Some(mut spare) = spare else { return Ok(()) };
        spare.clear();
        self.change(|slot| {
            if let Some(view) = slot {
                view.spare.get_or_insert(spare);
            }
            Ok(())
        })
    }
}
