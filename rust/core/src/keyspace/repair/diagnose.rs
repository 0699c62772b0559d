//! Looking at every byte of a key space, and saying what is wrong.

use std::path::Path;

use super::super::publish::entry_of;
use super::super::turn;
use super::super::view::{Environment, log_path, manifest_path, newest, read_manifest, rollup_path, segment_path};
use super::lost_manifest::{self, Basis};
use super::{Count, Diagnosis, Finding, Looked, Remedy, name_of};
use crate::bytes::checked;
use crate::io::FileSystem;
use crate::log::{Log, Owner, START};
use crate::manifest::{Manifest, SegmentEntry};
use crate::pages::PAGE;
use crate::rollup::Rollup;
use crate::segment::Segment;
use crate::tail::Tail;
use crate::{Error, Result};

/// The rest of the numbers that a lost log may have used.
const MANY: u64 = 1 << 32;
const DROPPED: &str =
    "an id that only this file held is new when it comes again, and a document whose end it told is in doubt";
const NOTHING: &str = "nothing is lost";

/// Look at a key space; none if nothing was ever written to it. `named` is the trigger's name as the caller knows it.
pub(crate) fn diagnose(
    env: &Environment,
    directory: &Path,
    named: Option<&str>,
    looked: Looked,
) -> Result<Option<Diagnosis>> {
    let names = env.system.list(directory).map_err(Error::io("list", directory))?;
    let number = newest(env, directory)?;
    let damage = match number {
        None => match env.check_new(directory) {
            Ok(()) => return Ok(None),
            Err(error) => error,
        },
        Some(number) => match whole_manifest(env, directory, number) {
            Ok(manifest) => return Doctor::new(env, directory, manifest).look(&names, looked).map(Some),
            Err(error) => {
                let path = manifest_path(directory, number);
                let damage = damage(&*env.system, error, &path, None)?;
                if is_foreign(env, &path)? {
                    return Ok(Some(foreign(env, directory, damage)));
                }
                damage
            }
        },
    };
    let basis = lost_manifest::basis(env, directory, &names, named)?;
    lost(env, directory, &names, damage, basis, looked).map(Some)
}

/// Whether a manifest is whole, but of another history: then rather the identity file is not the right one.
fn is_foreign(env: &Environment, path: &Path) -> Result<bool> {
    let file = env.system.open(path, false).map_err(Error::io("open", path))?;
    let mut bytes = vec![0; file.len().map_err(Error::io("look at", path))?.min(1 << 30) as usize];
    file.read_at(&mut bytes, 0).map_err(Error::io("read", path))?;
    Ok(Manifest::decode(&bytes, path).is_ok_and(|manifest| manifest.history != env.history))
}

fn foreign(env: &Environment, directory: &Path, damage: Error) -> Diagnosis {
    let mut doctor = Doctor::new(env, directory, Manifest::default());
    doctor.is_manifest_lost = true;
    doctor.find(damage, Remedy::Impossible, |finding| {
        finding.dropped = Count::Unknown;
        finding.meaning = "the identity file is of another history than this trigger: put the right one in its place";
    });
    doctor.finish(&[])
}

/// The newest manifest, if it is what was written, and this trigger's.
fn whole_manifest(env: &Environment, directory: &Path, number: u64) -> Result<Manifest> {
    let path = manifest_path(directory, number);
    let manifest = read_manifest(env, &path)?;
    if manifest.number != number {
        return Err(Error::corrupt(&path, 16, format!("this is manifest {} under another name", manifest.number)));
    }
    if crate::history::directory_name(&manifest.name) != name_of(directory) {
        return Err(Error::corrupt(&path, 40, format!("this is a manifest of trigger {:?}", manifest.name)));
    }
    Ok(manifest)
}

/// The error, if it is damage. A file of a newer version is not: its checksum, over its first `head` bytes or all, is right.
pub(crate) fn damage(system: &dyn FileSystem, error: Error, path: &Path, head: Option<usize>) -> Result<Error> {
    match error {
        Error::Corrupt { .. } => Ok(error),
        Error::Io { ref source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(Error::corrupt(path, 0, "the file is missing"))
        }
        Error::Open { ref reason, .. } => {
            let reason = reason.clone();
            let file = system.open(path, false).map_err(Error::io("open", path))?;
            let length = file.len().map_err(Error::io("look at", path))? as usize;
            let mut bytes = vec![0; head.unwrap_or(length).min(length)];
            file.read_at(&mut bytes, 0).map_err(Error::io("read", path))?;
            if checked(&bytes, path).is_ok() { Err(error) } else { Ok(Error::corrupt(path, 8, reason)) }
        }
        other => Err(other),
    }
}

/// A key space whose newest manifest is gone.
fn lost(
    env: &Environment,
    directory: &Path,
    names: &[String],
    damage: Error,
    basis: Basis,
    looked: Looked,
) -> Result<Diagnosis> {
    let mut doctor = Doctor::new(env, directory, basis.manifest);
    doctor.is_manifest_lost = true;
    doctor.skipped = MANY;
    let open: u64 = doctor.manifest.segments.iter().map(|entry| entry.open).sum();
    let meaning = if basis.is_named {
        "what the log no longer tells is forgotten of it: how claims ended whose entries are in segments (those entries are \
         in doubt), what was purged since, and the last batches of its applications"
    } else {
        "the trigger's name is lost with it: say it (--trigger NAME) to repair"
    };
    doctor.find(damage, if basis.is_named { Remedy::Rebuilt } else { Remedy::Impossible }, |finding| {
        finding.reopened = Count::AtMost(open);
        finding.meaning = meaning;
    });
    doctor.lacks_filters = names.iter().any(|name| name.starts_with("filter-"));
    doctor.retired.extend(names.iter().filter(|name| name.starts_with("filter-")).cloned());
    doctor.look(names, looked)
}

struct Doctor<'a> {
    env: &'a Environment,
    directory: &'a Path,
    manifest: Manifest,
    is_manifest_lost: bool,
    findings: Vec<Finding>,
    salvaged_segments: Vec<u64>,
    retired: Vec<String>,
    tail: Option<Tail>,
    skipped: u64,
    lacks_filters: bool,
}

impl<'a> Doctor<'a> {
    fn new(env: &'a Environment, directory: &'a Path, manifest: Manifest) -> Self {
        let (findings, retired, salvaged_segments) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            env,
            directory,
            manifest,
            is_manifest_lost: false,
            findings,
            salvaged_segments,
            retired,
            tail: None,
            skipped: 0,
            lacks_filters: false,
        }
    }

    fn find(&mut self, damage: Error, remedy: Remedy, tell: impl FnOnce(&mut Finding)) {
        let Error::Corrupt { path, offset, reason } = damage else { return };
        let trigger = if self.manifest.name.is_empty() && self.is_manifest_lost {
            name_of(self.directory)
        } else {
            self.manifest.name.clone()
        };
        let mut finding = Finding {
            trigger: Some(trigger),
            path,
            offset,
            reason,
            remedy,
            dropped: Count::Exactly(0),
            reopened: Count::Exactly(0),
            started_at: None,
            meaning: NOTHING,
        };
        tell(&mut finding);
        self.findings.push(finding);
    }

    fn look(mut self, names: &[String], looked: Looked) -> Result<Diagnosis> {
        let entries = std::mem::take(&mut self.manifest.segments);
        let total = entries.len() as u64 + self.manifest.rollups.len() as u64 + 1;
        for (done, entry) in entries.into_iter().enumerate() {
            looked(done as u64, total)?;
            self.look_at_segment(entry)?;
        }
        let rollups = std::mem::take(&mut self.manifest.rollups);
        for rollup in rollups {
            let path = rollup_path(self.directory, rollup.id);
            match self.whole_filter(&rollup, &path) {
                Ok(()) => self.manifest.rollups.push(rollup),
                Err(error) => {
                    let damage = damage(&*self.env.system, error, &path, Some(PAGE))?;
                    self.find(damage, Remedy::Rebuilt, |_| {});
                    self.retire(&path);
                    self.lacks_filters = true;
                }
            }
        }
        self.look_at_log(names)?;
        looked(total, total)?;
        self.look_at_pins(names)?;
        Ok(self.finish(names))
    }

    fn finish(self, names: &[String]) -> Diagnosis {
        let Self { findings, manifest, salvaged_segments, mut retired, tail, skipped, lacks_filters, .. } = self;
        if !findings.is_empty() {
            // They tell what the damaged files were.
            retired.extend(names.iter().filter(|name| name.starts_with("manifest-")).cloned());
        }
        retired.sort();
        retired.dedup();
        Diagnosis { findings, manifest, salvaged_segments, retired, tail, skipped, lacks_filters }
    }

    /// The file leaves its place.
    fn retire(&mut self, path: &Path) {
        self.retired.push(name_of(path));
    }

    fn look_at_segment(&mut self, entry: SegmentEntry) -> Result<()> {
        let path = segment_path(self.directory, entry.id);
        let opened = Segment::open(&*self.env.system, &path, self.env.history).and_then(|segment| {
            if segment.header().id != entry.id || (!self.is_manifest_lost && segment.sum() != entry.sum) {
                return Err(Error::corrupt(&path, 0, "this is not the segment that the manifest names"));
            }
            segment.verify(&mut |_| {}).map(|()| segment)
        });
        let error = match opened {
            Ok(segment) => {
                self.manifest.segments.push(entry_of(segment.header(), segment.sum(), segment.file_bytes()));
                return Ok(());
            }
            Err(error) => error,
        };
        let damage = damage(&*self.env.system, error, &path, Some(PAGE))?;
        let saved = Segment::salvage(&*self.env.system, &path, self.env.history).ok();
        let is_this = Segment::head(&*self.env.system, &path)
            .is_ok_and(|(header, sum)| header.id == entry.id && (self.is_manifest_lost || sum == entry.sum));
        let saved = saved.filter(|_| is_this);
        let lost = entry.entries - saved.as_ref().map_or(0, |(_, run)| run.len() as u64).min(entry.entries);
        let is_known = entry.bytes > 0;
        let remedy = match &saved {
            Some(_) if lost == 0 => Remedy::Rebuilt,
            Some(_) => Remedy::Salvaged,
            None => Remedy::Dropped,
        };
        self.find(damage, remedy, |finding| {
            finding.dropped = if is_known { Count::Exactly(lost) } else { Count::Unknown };
            finding.started_at = (is_known && lost > 0).then_some((entry.min_started_at, entry.max_started_at));
            finding.meaning = if is_known && lost == 0 { NOTHING } else { DROPPED };
        });
        self.retire(&path);
        if saved.is_some() {
            self.salvaged_segments.push(entry.id);
        }
        Ok(())
    }

    fn whole_filter(&self, entry: &crate::manifest::RollupEntry, path: &Path) -> Result<()> {
        let rollup = Rollup::open(&*self.env.system, path, self.env.history)?;
        if rollup.sum() != entry.sum || rollup.slots() != entry.segments.len() {
            return Err(Error::corrupt(path, 0, "this is not the filter that the manifest names"));
        }
        rollup.verify(&mut |_| {})
    }

    fn look_at_log(&mut self, names: &[String]) -> Result<()> {
        let owner = Owner::new(self.env.history, &self.manifest.name);
        let mut tail = Tail::new(&self.manifest, START);
        if self.is_manifest_lost {
            for id in lost_manifest::live_logs(self.env, self.directory, names, owner) {
                self.read_log(id, owner, &mut tail)?;
            }
            self.retired.extend(names.iter().filter(|name| name.starts_with("log-")).cloned());
            self.tail = Some(tail);
            return Ok(());
        }
        let id = self.manifest.log.id;
        if self.read_log(id, owner, &mut tail)? {
            self.retire(&log_path(self.directory, id));
            self.tail = Some(tail);
        }
        Ok(())
    }

    /// Take in what can be read of a log; answers whether it is damaged.
    fn read_log(&mut self, id: u64, owner: Owner, tail: &mut Tail) -> Result<bool> {
        let path = log_path(self.directory, id);
        let proven = self.manifest.log.proven.max(turn::watermark(&*self.env.system, self.directory, id));
        tail.position = START;
        let log = match Log::open(&*self.env.system, &path, id, owner, false) {
            Ok(log) => log,
            Err(error) => {
                let damage = damage(&*self.env.system, error, &path, Some(START as usize))?;
                self.skipped = MANY;
                self.find(damage, Remedy::Dropped, |finding| {
                    finding.dropped = Count::Unknown;
                    finding.meaning = DROPPED;
                });
                return Ok(true);
            }
        };
        let gaps = log.salvage(proven, &mut |frame, end| tail.apply(frame, end))?;
        for gap in &gaps {
            self.skipped = self.skipped.saturating_add(gap.operations());
            let reason = format!("no whole frame from here to byte {}", gap.end);
            self.find(Error::corrupt(&path, gap.start, reason), Remedy::Salvaged, |finding| {
                finding.dropped = if gap.is_exact { Count::Exactly(gap.keys) } else { Count::AtMost(gap.keys) };
                finding.started_at = gap.started_at.map(|started_at| (started_at, started_at));
                finding.meaning = DROPPED;
            });
        }
        Ok(!gaps.is_empty())
    }

    /// Snapshots that cannot be read, or name files that are no more.
    fn look_at_pins(&mut self, names: &[String]) -> Result<()> {
        for name in names.iter().filter(|name| name.starts_with("pin-")) {
            let path = self.directory.join(name);
            let found = match read_manifest(self.env, &path) {
                Ok(pinned) if self.is_whole(&pinned) => continue,
                Ok(_) => Error::corrupt(&path, 0, "a snapshot of files that are damaged"),
                Err(error) => damage(&*self.env.system, error, &path, None)?,
            };
            self.find(found, Remedy::Dropped, |finding| {
                finding.meaning = "whoever reads this snapshot has to take another"
            });
            self.retired.push(name.clone());
        }
        Ok(())
    }

    fn is_whole(&self, pinned: &Manifest) -> bool {
        let is_retired = |path: &Path| self.retired.contains(&name_of(path));
        !pinned.segments.iter().any(|entry| is_retired(&segment_path(self.directory, entry.id)))
            && !pinned.rollups.iter().any(|entry| is_retired(&rollup_path(self.directory, entry.id)))
            && !is_retired(&log_path(self.directory, pinned.log.id))
    }
}
