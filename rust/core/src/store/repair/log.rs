//! The readable part of a damaged log, and the snapshots that have become useless.

use super::damage::{DROPPED, LogDamage, MANY, damage};
use super::diagnosing::Diagnosing;
use super::{Count, Remedy, lost_manifest, name_of};
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::memtable::Memtable;
use crate::store::files::read_manifest;
use crate::store::writer_lock;
use crate::wal::{Gap, Keys, Log, Owner, START};
use crate::{Error, Result};

const DROPPED_OF_MAP: &str = "an id that only this place told of is not there any more, or counts as it was before; the last batch that it told of is not \
     known for one that was";

impl Diagnosing<'_> {
    pub(super) fn look_at_log(&mut self, names: &[String]) -> Result<()> {
        let owner = Owner::new(self.case.env.history, &self.manifest.name);
        let mut memtable = Memtable::new(&self.manifest, START);
        if self.is_manifest_lost {
            for id in lost_manifest::live_logs(self.case, names, owner) {
                self.read_log(id, owner, &mut memtable)?;
            }
            self.retired.extend(names.iter().filter(|name| FileKind::Log.has(name)).cloned());
            self.memtable = Some(memtable);
            return Ok(());
        }
        let logs: Vec<u64> =
            self.manifest.frozen.iter().map(|frozen| frozen.id).chain([self.manifest.log.id]).collect();
        let mut is_damaged = false;
        for id in &logs {
            is_damaged |= self.read_log(*id, owner, &mut memtable)?;
        }
        if is_damaged {
            for id in &logs {
                self.retire(&FileKind::Log.path(self.case.directory, *id));
            }
            self.memtable = Some(memtable);
        }
        Ok(())
    }

    /// Add the readable frames of a log; answers whether it is damaged.
    fn read_log(&mut self, id: u64, owner: Owner, memtable: &mut Memtable) -> Result<bool> {
        let (env, path) = (self.case.env, FileKind::Log.path(self.case.directory, id));
        let proven = match self.manifest.frozen.filter(|frozen| frozen.id == id) {
            Some(frozen) => frozen.end,
            None => self.manifest.log.proven.max(writer_lock::watermark(&*env.system, self.case.directory, id)),
        };
        memtable.position = START;
        let log = match Log::open(&*env.system, &path, id, owner, false) {
            Ok(log) => log,
            Err(error) => {
                let damage = damage(&*env.system, error, &path, Some(START as usize))?;
                self.skipped = MANY;
                self.lose_in_log(None);
                if self.case.room.is_none() {
                    self.ends_lost(None);
                }
                let meaning = self.meaning();
                let bytes = env.system.open(&path, false).and_then(|file| file.len()).unwrap_or(0);
                self.find(damage, Remedy::Dropped, |finding| {
                    (finding.dropped, finding.bytes, finding.meaning) = (Count::Unknown, bytes, meaning);
                });
                return Ok(true);
            }
        };
        let known_open = memtable.open();
        let gaps = log.salvage(proven, &mut |frame, end| memtable.apply(frame, end))?;
        self.open_entries = self.open_entries.saturating_add(memtable.open().saturating_sub(known_open));
        self.tell_of(&log, &gaps);
        if self.case.room.is_some() {
            self.take_in(&log, proven, gaps.first())?;
        }
        Ok(!gaps.is_empty())
    }

    fn meaning(&self) -> &'static str {
        if self.case.room.is_some() { DROPPED_OF_MAP } else { DROPPED }
    }

    fn tell_of(&mut self, log: &Log, gaps: &[Gap]) {
        let (meaning, is_of_map) = (self.meaning(), self.case.room.is_some());
        for gap in gaps {
            self.skipped = self.skipped.saturating_add(gap.operations().unwrap_or(MANY));
            let (dropped, most) = match gap.keys {
                // A later entry may hide a map's entry.
                Keys::Exactly(keys) if !is_of_map => (Count::Exactly(keys), Some(keys)),
                Keys::Exactly(keys) | Keys::AtMost(keys) => (Count::AtMost(keys), Some(keys)),
                Keys::AtLeast(0) => (Count::Unknown, None),
                Keys::AtLeast(keys) => (Count::AtLeast(keys), None),
            };
            self.lose_in_log(most);
            let behind = if most.is_none() { ", and nothing tells how far the log went" } else { "" };
            let reason = format!("no whole frame from here to byte {}{behind}", gap.end);
            if !gap.is_begin && !is_of_map {
                self.ends_lost(None);
            }
            self.find(Error::corrupt(&log.file.path, gap.start, reason), Remedy::Salvaged, |finding| {
                finding.dropped = dropped;
                finding.started_at = gap.started_at.filter(|_| !is_of_map).map(|started_at| (started_at, started_at));
                finding.bytes = gap.end - gap.start;
                finding.meaning = meaning;
            });
        }
    }

    /// Records that the next finding reports at most `most` lost entries of a map's log.
    fn lose_in_log(&mut self, most: Option<u64>) {
        if self.case.room.is_none() {
            return;
        }
        match &mut self.log_damage {
            None => {
                let (finding, before) = (self.findings.len(), std::mem::take(&mut self.in_log));
                self.log_damage = Some(LogDamage { finding, most, before });
            }
            Some(known) => known.most = known.most.zip(most).map(|(known, more)| known.saturating_add(more)),
        }
    }

    /// The content of a map's log, divided into entries before the first loss and entries after it.
    fn take_in(&mut self, log: &Log, proven: u64, first: Option<&Gap>) -> Result<()> {
        let is_new = self.log_damage.as_ref().is_some_and(|_| first.is_some());
        let (in_log, damage) = (&mut self.in_log, &mut self.log_damage);
        log.salvage(proven, &mut |frame, end| match (first, damage.as_mut()) {
            (Some(gap), Some(damage)) if is_new && end <= gap.start => damage.before.apply(&frame.values),
            _ => in_log.apply(&frame.values),
        })?;
        Ok(())
    }

    /// Snapshots that cannot be read, or name missing files.
    pub(super) fn look_at_pins(&mut self, names: &[String]) -> Result<()> {
        for name in names.iter().filter(|name| FileKind::Pin.has(name)) {
            let path = self.case.directory.join(name);
            let found = match read_manifest(self.case.env, &path) {
                Ok(pinned) if self.is_whole(&pinned) => continue,
                Ok(_) => Error::corrupt(&path, 0, "a snapshot of files that are damaged"),
                Err(error) => damage(&*self.case.env.system, error, &path, None)?,
            };
            self.find(found, Remedy::Dropped, |finding| {
                finding.meaning = "readers of this snapshot have to take another";
            });
            self.retired.push(name.clone());
        }
        Ok(())
    }

    /// Only the head of a snapshot's log is read: the log was sealed before.
    fn has_log(&self, pinned: &Manifest) -> bool {
        let (path, owner) =
            (FileKind::Log.path(self.case.directory, pinned.log.id), Owner::new(self.case.env.history, &pinned.name));
        Log::open(&*self.case.env.system, &path, pinned.log.id, owner, false).is_ok()
    }

    fn is_whole(&self, pinned: &Manifest) -> bool {
        let directory = self.case.directory;
        let is_retired = |path: &std::path::Path| self.retired.contains(&name_of(path));
        !pinned.segments.iter().any(|entry| is_retired(&FileKind::Segment.path(directory, entry.id)))
            && !pinned.global_filters.iter().any(|entry| is_retired(&FileKind::GlobalFilter.path(directory, entry.id)))
            && !pinned.values.iter().any(|entry| is_retired(&FileKind::Values.path(directory, entry.id)))
            && self.has_log(pinned)
    }
}
