//! Publishing: first make the data durable, then the manifest that names it, then remove the old
//! files.

use std::path::PathBuf;

use super::values::Expiry;
use super::view::View;
use super::{Beginning, KeySpace, SpaceSettings};
use crate::format::manifest::{LogEntry, Manifest, SegmentEntry};
use crate::format::names::FileKind;
use crate::io::{put_in_place, write_temporary};
use crate::memtable::values::ValueMemtable;
use crate::segment::format::{MOST_ENTRIES, Mark, SegmentHeader, Stamp};
use crate::segment::run::EntryRun;
use crate::segment::sort::sorted_keys;
use crate::segment::target::Target;
use crate::segment::writer;
use crate::store::Writer;
use crate::types::FrameKeys;
use crate::types::TransactionEntry;
use crate::wal::{FrameForms, Log, Owner, START};
use crate::{Error, Result};

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;

/// Possible widths of a time partition: the greatest that gives a time to live at least 24
/// partitions is used.
const WIDTHS: [i64; 7] = [24 * HOUR, 6 * HOUR, HOUR, 15 * MINUTE, 5 * MINUTE, MINUTE, 1_000_000];

/// For the shortest times to live.
const LEAST_WIDTH: i64 = 100_000;

pub(super) fn partition_width(time_to_live_us: i64) -> i64 {
    WIDTHS.into_iter().find(|width| time_to_live_us / 24 >= *width).unwrap_or(LEAST_WIDTH)
}

/// Whether a time partition can be this wide.
pub(super) fn is_partition_width(width: i64) -> bool {
    WIDTHS.contains(&width) || width == LEAST_WIDTH
}

/// A finished file: of which kind its name is, and will be, and its number.
pub(super) type Adopted = (FileKind, FileKind, u64);

impl KeySpace {
    /// Store files in the bucket, if the history is in one, before [`Writer::adopt`] names them.
    pub(super) fn store_early(&self, files: &[Adopted]) -> Result<()> {
        let named = |(from, to, id): &Adopted| (from.path(&self.directory, *id), to.name(*id));
        self.stage_files(&files.iter().map(named).collect::<Vec<_>>())
    }

    /// Remove the old names of adopted files that are still there.
    pub(super) fn forget_adopted(&self, files: &[Adopted]) -> Result<()> {
        if self.mirror.is_none() {
            return Ok(());
        }
        files.iter().try_for_each(|(from, _, id)| self.env.system.remove_if_there(&from.path(&self.directory, *id)))
    }

    /// Write keys of one stamp as segments that `manifest` will name.
    fn write_keys(&self, manifest: &mut Manifest, keys: &FrameKeys, stamp: Stamp, threads: usize) -> Result<()> {
        if !keys.texts.is_empty() || keys.uuids.len() > MOST_ENTRIES {
            return self.write_run(manifest, &mut EntryRun::of_keys(keys, stamp));
        }
        let mut sorted = sorted_keys(&keys.uuids, threads)?;
        sorted.dedup();
        let (id, path) = self.new_segment(&mut manifest.next_file)?;
        let (header, sum, bytes) = writer::write_keys(self.segment_at(&path, id), &sorted, stamp, threads)?;
        manifest.segments.push(entry_of(&header, sum, bytes));
        Ok(())
    }

    /// Settle a run and write it as segments that `manifest` will name.
    pub(super) fn write_run(&self, manifest: &mut Manifest, run: &mut EntryRun) -> Result<()> {
        run.settle();
        for part in split(run) {
            manifest.segments.push(self.write_segment(&mut manifest.next_file, &part)?);
        }
        Ok(())
    }

    /// Write a settled run under the next file number; its bytes are durable, its name is not.
    fn write_segment(&self, next_file: &mut u64, run: &EntryRun) -> Result<SegmentEntry> {
        let (id, path) = self.new_segment(next_file)?;
        let (header, sum, bytes) = writer::write(self.segment_at(&path, id), run)?;
        Ok(entry_of(&header, sum, bytes))
    }

    /// The target of a segment of this space that is about to be written.
    pub(super) fn segment_at<'a>(&'a self, path: &'a std::path::Path, id: u64) -> Target<'a> {
        Target { system: &*self.env.system, path, id, history: self.env.history, sources: &[] }
    }

    /// The number and the free name of the next segment.
    fn new_segment(&self, next_file: &mut u64) -> Result<(u64, PathBuf)> {
        let id = *next_file;
        *next_file += 1;
        let path = FileKind::Segment.path(&self.directory, id);
        // A writer that died may have left a file of this number, which no manifest names.
        self.env.system.remove_if_there(&path)?;
        Ok((id, path))
    }

    pub(super) fn new_log(&self, id: u64, frames: FrameForms) -> Result<Log> {
        let path = FileKind::Log.path(&self.directory, id);
        self.env.system.remove_if_there(&path)?;
        let owner = Owner::new(self.env.history, &self.name);
        let log = match self.recycled_log(&path, id, owner, frames)? {
            Some(log) => log,
            None => Log::create(&*self.env.system, &path, id, owner, frames)?,
        };
        // What was made here is not read again.
        self.change(|slot| {
            if let Some(view) = slot {
                view.made = Some(log.clone());
            }
            Ok(())
        })?;
        Ok(log)
    }
}

impl Writer<'_> {
    /// The next manifest over the same log, to be changed and published.
    pub(super) fn successor(&self) -> Result<Manifest> {
        let view = self.space.present();
        view.as_ref().map(View::same_log_successor).ok_or_else(|| Error::State("the key space is not there".into()))
    }

    /// [`View::next_of_same_log`], to be changed and published.
    pub(super) fn next_of_same_log(&self) -> Result<Manifest> {
        let view = self.space.present();
        view.as_ref().map(View::next_of_same_log).ok_or_else(|| Error::State("the key space is not there".into()))
    }

    /// Give finished files the names that the next manifest uses.
    pub(super) fn adopt(&mut self, files: &[Adopted]) -> Result<()> {
        let KeySpace { env, directory, .. } = self.space;
        for (from, to, id) in files {
            let (from, to) = (from.path(directory, *id), to.path(directory, *id));
            if self.space.mirror.is_some() {
                // An earlier try may have made it. The old name stays for the next one.
                env.system.remove_if_there(&to)?;
                self.name_own(env.system.link_at(&from, &to))?;
            } else {
                self.name_own(env.system.link_at(&from, &to))?;
                env.system.remove_if_there(&from)?;
            }
        }
        Ok(())
    }

    /// The result of naming a file that this writer made.
    fn name_own<T>(&self, named: Result<T>) -> Result<T> {
        named.map_err(|error| self.space.or_away(error.of_naming()))
    }

    fn seal_as(
        &mut self,
        frames: FrameForms,
        expired: i64,
        values: Option<(&ValueMemtable, Expiry)>,
        change: impl FnOnce(&mut Manifest),
    ) -> Result<()> {
        let mut written = Vec::new();
        let mut manifest = {
            let view = self.space.present();
            let Some(view) = view.as_ref() else { return Ok(()) };
            let mut manifest = view.successor();
            manifest.next_file += self.skipped_files()?;
            manifest.frozen = None;
            let mut runs = view.runs(expired);
            for run in &mut runs {
                self.space.write_run(&mut manifest, run)?;
            }
            written.extend(manifest.segments[view.manifest.segments.len()..].iter().map(|entry| entry.id));
            let (recent, expiry) = values.unwrap_or((&view.memtable.values, Expiry::NONE));
            self.seal_values(view, &mut manifest, recent, expiry)?;
            manifest
        };
        let log = self.space.new_log(manifest.next_file, self.forms_after(&manifest, frames))?;
        manifest.next_file += 1;
        manifest.log = LogEntry { id: log.id, proven: START };
        manifest.forget_dropped();
        change(&mut manifest);
        self.publish(&manifest)?;
        self.space.change(|slot| {
            if let Some(view) = slot {
                view.cover_written(&written);
            }
            Ok(())
        })
    }

    /// Publish the first manifest of a new key space.
    pub(super) fn found(&mut self, settings: SpaceSettings) -> Result<()> {
        if settings.time_to_live_us <= 0 {
            return Err(Error::State("the key space is not there".into()));
        }
        let parent = self.space.directory.parent().unwrap_or(&self.space.directory);
        self.space.env.system.sync_names(parent)?;
        let first = 1 + self.skipped_files()?;
        let log = self.space.new_log(first, FrameForms::default())?;
        let manifest = Manifest {
            number: 1,
            history: self.space.env.history,
            name: self.space.name.clone(),
            partition_us: partition_width(settings.time_to_live_us),
            time_to_live_us: settings.time_to_live_us,
            kind: settings.kind,
            next_sequence: 1,
            next_file: first + 1,
            purged_upto: i64::MIN,
            log: LogEntry { id: log.id, proven: START },
            ..Manifest::default()
        };
        self.publish(&manifest)
    }

    /// Put the log's entries into segments and start a new log.
    pub(super) fn seal(&mut self) -> Result<()> {
        self.seal_with(i64::MIN, |_| {})
    }

    /// Put the log's entries into segments, without those that began at or before
    /// `expired`, start a new log, and publish this with another `change`.
    pub(super) fn seal_with(&mut self, expired: i64, change: impl FnOnce(&mut Manifest)) -> Result<()> {
        self.seal_all(expired, None, change)
    }

    /// [`Writer::seal_with`], with other values than the log's.
    pub(super) fn seal_all(
        &mut self,
        expired: i64,
        values: Option<(&ValueMemtable, Expiry)>,
        change: impl FnOnce(&mut Manifest),
    ) -> Result<()> {
        self.seal_as(FrameForms::default(), expired, values, change)
    }

    /// Put the log's entries into segments and start a log whose frames may say more. Earlier
    /// versions refuse such a log by its version, instead of taking its frames as damage.
    pub(super) fn seal_for(&mut self, frames: FrameForms) -> Result<()> {
        self.seal_as(frames, i64::MIN, None, |_| {})
    }

    /// What the frames of the next log may say: what this manifest needs, and places if those of
    /// the present log may.
    pub(super) fn forms_after(&self, manifest: &Manifest, wanted: FrameForms) -> FrameForms {
        let places = self.space.present().as_ref().is_some_and(|view| view.log.frames.places);
        FrameForms { rows: wanted.rows || manifest.has_rows(), places: wanted.places || places }
    }

    /// Write `processing` for a large batch as segments of its own, which one manifest adds to the
    /// history.
    pub(super) fn begin_in_segments(&mut self, beginning: Beginning) -> Result<(u64, FrameKeys)> {
        let Beginning { keys, transaction, started_at, threads, .. } = beginning;
        let (mut manifest, claim) = {
            let view = self.space.present();
            let Some(view) = view.as_ref() else { return Err(Error::State("the key space is not there".into())) };
            (view.same_log_successor(), view.memtable.next_sequence)
        };
        manifest.next_sequence = claim + 1;
        if let Some(batch) = transaction {
            manifest.set_transaction(TransactionEntry::begun(batch, claim, started_at));
        }
        let stamp = Stamp { claim, started_at, mark: Mark::Open };
        let result = self.space.write_keys(&mut manifest, &keys, stamp, threads).and_then(|()| self.publish(&manifest));
        if let Err(error) = result {
            // It is unknown whether the manifest is on disk. In an object store the chain tells.
            if self.space.mirror.is_none() {
                self.space.sync.fail(&error);
            }
            return Err(error);
        }
        Ok((claim, keys))
    }

    /// The width of this key space's time partitions.
    pub(crate) fn partition_us(&self) -> i64 {
        self.space.present().as_ref().map_or(i64::MAX, |view| view.manifest.partition_us)
    }

    /// Publish a manifest and read it; then remove files that only older ones name.
    pub(super) fn publish(&mut self, manifest: &Manifest) -> Result<()> {
        match self.space.mirror.clone() {
            None => self.publish_in_place(manifest)?,
            Some(mirror) => {
                let (space, generation, mut along) = (self.space, self.generation, std::mem::take(&mut self.along));
                let publish = || self.publish_in_place(manifest);
                let committed = space.commit_manifest(&mirror, generation, manifest, &mut along, publish);
                self.along = along;
                committed?;
            }
        }
        self.collect_garbage(manifest)
    }

    pub(super) fn publish_in_place(&mut self, manifest: &Manifest) -> Result<()> {
        let system = &*self.space.env.system;
        let path = FileKind::Manifest.path(&self.space.directory, manifest.number);
        let temporary = write_temporary(system, &path, &manifest.encode())?;
        // Names that the manifest names are durable before its own. A file system with a journal
        // has just written them with the temporary file.
        system.sync_names(&self.space.directory)?;
        self.check_alone()?;
        if !self.name_own(put_in_place(system, &temporary, &path))? {
            self.held.lost();
            return Err(Error::not_alone(&path, "another writer published this while this one held the lock"));
        }
        self.check_alone()?;
        self.space.change(|slot| match slot {
            Some(view) if !view.is_spent => view.advance_to_own(&self.space.env),
            _ => {
                *slot = View::load(&self.space.env, &self.space.directory, None)?;
                Ok(())
            }
        })?;
        self.space.sync.learn(manifest.log.id, manifest.log.proven);
        Ok(())
    }
}

impl View {
    /// The next manifest over the same log: its frames stay where they are.
    pub(super) fn same_log_successor(&self) -> Manifest {
        let mut manifest = self.manifest.clone();
        manifest.number += 1;
        manifest.log.proven = manifest.log.proven.max(self.proven());
        manifest
    }

    /// [`View::same_log_successor`] with claim numbers above those of the log's frames, for a
    /// manifest that begins a claim, or adds entries that the log's claims did not know.
    pub(super) fn next_of_same_log(&self) -> Manifest {
        let mut manifest = self.same_log_successor();
        manifest.next_sequence = manifest.next_sequence.max(self.memtable.next_sequence);
        manifest
    }

    /// The manifest that follows: with the log's operations, and the same files.
    pub(super) fn successor(&self) -> Manifest {
        let mut manifest = self.manifest.clone();
        manifest.number += 1;
        manifest.next_sequence = self.memtable.next_sequence;
        manifest.outcomes = self.memtable.outcomes();
        manifest.transactions = self.memtable.transactions();
        manifest
    }
}

pub(super) fn entry_of(header: &SegmentHeader, sum: u32, bytes: u64) -> SegmentEntry {
    let (min_started_at, max_started_at) = (header.min_started_at, header.max_started_at);
    SegmentEntry {
        id: header.id,
        sum,
        entries: header.entries(),
        open: header.open,
        bytes,
        min_started_at,
        max_started_at,
    }
}

/// The parts of a run, each at most [`MOST_ENTRIES`], in key order.
pub(super) fn split(run: &mut EntryRun) -> Vec<EntryRun> {
    if run.len() <= MOST_ENTRIES {
        return vec![std::mem::take(run)];
    }
    let parts = run.len().div_ceil(MOST_ENTRIES) as u64;
    (0..parts).map(|part| run.take_range(part, parts)).collect()
}
