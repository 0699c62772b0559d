//! The parts of a diagnosis: segments and filters are checked one after the other, and their
//! findings collected.

use std::path::Path;

use super::damage::{DROPPED, LogDamage, Mended, NOTHING, Unsure, damage};
use super::{Case, Count, Diagnosis, Finding, Looked, Remedy, name_of};
use crate::format::manifest::{GlobalFilterEntry, Manifest, SegmentEntry};
use crate::format::names::FileKind;
use crate::io::pages::PAGE;
use crate::memtable::Memtable;
use crate::memtable::values::ValueMemtable;
use crate::segment::Segment;
use crate::segment::global::GlobalFilter;
use crate::store::publish::entry_of;
use crate::{Error, Result};

pub(super) struct Diagnosing<'a> {
    pub(super) case: Case<'a>,
    pub(super) manifest: Manifest,
    pub(super) is_manifest_lost: bool,
    pub(super) findings: Vec<Finding>,
    salvaged_segments: Vec<u64>,
    /// Entries that stay and have no end of their own; an entry that lost its end is one of them.
    pub(super) open_entries: u64,
    /// The findings that may have cost entries their end, and the maximum number of these entries.
    ends_lost: Vec<(usize, u64)>,
    pub(super) retired: Vec<String>,
    pub(super) memtable: Option<Memtable>,
    pub(super) skipped: u64,
    pub(super) lacks_filters: bool,
    /// For a map: the log's entries that were written before any loss, and those older than a loss.
    pub(super) in_log: ValueMemtable,
    pub(super) log_damage: Option<LogDamage>,
    /// For a map whose manifest is lost: whether files are counted that should not be.
    pub(super) unsure: Option<Unsure>,
    pub(super) values: Mended,
}

impl<'a> Diagnosing<'a> {
    pub(super) fn new(case: Case<'a>, manifest: Manifest) -> Self {
        Self {
            case,
            manifest,
            is_manifest_lost: false,
            findings: Vec::new(),
            salvaged_segments: Vec::new(),
            open_entries: 0,
            ends_lost: Vec::new(),
            retired: Vec::new(),
            memtable: None,
            skipped: 0,
            lacks_filters: false,
            in_log: ValueMemtable::default(),
            log_damage: None,
            unsure: None,
            values: Mended::default(),
        }
    }

    pub(super) fn find(&mut self, damage: Error, remedy: Remedy, tell: impl FnOnce(&mut Finding)) {
        let Error::Corrupt { path, offset, reason } = damage else { return };
        let name =
            if self.manifest.name.is_empty() { name_of(self.case.directory) } else { self.manifest.name.clone() };
        let map = self.case.room.map(|room| {
            let short = name.strip_prefix(room.prefix()).unwrap_or(&name).to_owned();
            (room, short)
        });
        let mut finding = Finding {
            trigger: if map.is_none() { Some(name) } else { None },
            map,
            path,
            offset,
            reason,
            remedy,
            dropped: Count::Exactly(0),
            reopened: Count::Exactly(0),
            started_at: None,
            returned: Count::Exactly(0),
            kept_until: None,
            ids: Vec::new(),
            bytes: 0,
            meaning: NOTHING,
        };
        tell(&mut finding);
        self.findings.push(finding);
    }

    /// Records that the loss of the next finding may have ended entries that stay: `most` at most,
    /// or any number if unknown.
    pub(super) fn ends_lost(&mut self, most: Option<u64>) {
        self.ends_lost.push((self.findings.len(), most.unwrap_or(u64::MAX)));
    }

    pub(super) fn look(mut self, names: &[String], looked: Looked) -> Result<Diagnosis> {
        let entries = std::mem::take(&mut self.manifest.segments);
        let total = (entries.len() + self.manifest.global_filters.len() + self.manifest.values.len() + 1) as u64;
        for (done, entry) in entries.into_iter().enumerate() {
            looked(done as u64, total)?;
            self.look_at_segment(entry)?;
        }
        let global_filters = std::mem::take(&mut self.manifest.global_filters);
        for global_filter in global_filters {
            self.look_at_filter(global_filter)?;
        }
        self.look_at_log(names)?;
        if self.case.room.is_some() {
            self.look_at_values(&mut |remnants| looked(total - 1 - remnants, total))?;
        }
        looked(total, total)?;
        self.look_at_pins(names)?;
        Ok(self.finish(names))
    }

    pub(super) fn finish(self, names: &[String]) -> Diagnosis {
        let Self { mut findings, manifest, salvaged_segments, mut retired, memtable, skipped, .. } = self;
        let (lacks_filters, values) = (self.lacks_filters, self.values);
        for (finding, most) in self.ends_lost {
            findings[finding].reopened = Count::AtMost(most.min(self.open_entries));
        }
        if !findings.is_empty() {
            // They show what the damaged files were.
            retired.extend(names.iter().filter(|name| FileKind::Manifest.has(name)).cloned());
        }
        retired.sort();
        retired.dedup();
        let is_gone = false;
        Diagnosis { findings, manifest, salvaged_segments, retired, memtable, skipped, lacks_filters, values, is_gone }
    }

    /// Take the file out of use.
    pub(super) fn retire(&mut self, path: &Path) {
        self.retired.push(name_of(path));
    }

    /// Reports a staged file with the name of a segment, of which nothing shows that its commit was
    /// completed.
    pub(super) fn is_not_committed(&mut self, entry: &SegmentEntry) {
        let path = FileKind::Segment.path(self.case.directory, entry.id);
        let reason = "a staged file of which nothing shows that its job was committed";
        self.find(Error::corrupt(&path, 0, reason), Remedy::Dropped, |finding| {
            finding.dropped = Count::AtMost(entry.entries);
            finding.started_at = Some((entry.min_started_at, entry.max_started_at));
            finding.bytes = entry.bytes;
            finding.meaning = "its documents are new when they come again, unless its job is committed again";
        });
        self.retire(&path);
    }

    fn look_at_segment(&mut self, entry: SegmentEntry) -> Result<()> {
        let env = self.case.env;
        let path = FileKind::Segment.path(self.case.directory, entry.id);
        let opened = Segment::open(&*env.system, &path, env.history).and_then(|segment| {
            if segment.header().id != entry.id || (!self.is_manifest_lost && segment.sum() != entry.sum) {
                return Err(Error::corrupt(&path, 0, "this is not the segment that the manifest names"));
            }
            segment.verify(&mut |_| {}).map(|()| segment)
        });
        let error = match opened {
            Ok(segment) => {
                self.open_entries += segment.header().open;
                self.manifest.segments.push(entry_of(segment.header(), segment.sum(), segment.file_bytes()));
                return Ok(());
            }
            Err(error) => error,
        };
        let damage = damage(&*env.system, error, &path, Some(PAGE))?;
        let saved = Segment::salvage(&*env.system, &path, env.history).ok();
        let is_this = Segment::head(&*env.system, &path)
            .is_ok_and(|(header, sum)| header.id == entry.id && (self.is_manifest_lost || sum == entry.sum));
        let saved = saved.filter(|_| is_this);
        let lost = entry.entries - saved.as_ref().map_or(0, |saved| saved.run.len() as u64).min(entry.entries);
        let is_known = entry.bytes > 0;
        let remedy = match &saved {
            Some(_) if lost == 0 => Remedy::Rebuilt,
            Some(_) => Remedy::Salvaged,
            None => Remedy::Dropped,
        };
        if lost > 0 || !is_known {
            self.ends_lost(is_known.then_some(lost));
        }
        self.open_entries += saved.as_ref().map_or(0, |saved| saved.run.len() as u64);
        self.find(damage, remedy, |finding| {
            finding.dropped = if is_known { Count::Exactly(lost) } else { Count::Unknown };
            finding.started_at = (is_known && lost > 0).then_some((entry.min_started_at, entry.max_started_at));
            finding.bytes = saved.as_ref().map_or(entry.bytes, |saved| saved.bytes);
            finding.meaning = if is_known && lost == 0 { NOTHING } else { DROPPED };
        });
        self.retire(&path);
        if saved.is_some() {
            self.salvaged_segments.push(entry.id);
        }
        Ok(())
    }

    fn look_at_filter(&mut self, entry: GlobalFilterEntry) -> Result<()> {
        let path = FileKind::GlobalFilter.path(self.case.directory, entry.id);
        let opened =
            GlobalFilter::open(&*self.case.env.system, &path, self.case.env.history).and_then(|global_filter| {
                if global_filter.sum() != entry.sum || global_filter.slots() != entry.segments.len() {
                    return Err(Error::corrupt(&path, 0, "this is not the filter that the manifest names"));
                }
                global_filter.verify(&mut |_| {})
            });
        match opened {
            Ok(()) => self.manifest.global_filters.push(entry),
            Err(error) => {
                let damage = damage(&*self.case.env.system, error, &path, Some(PAGE))?;
                self.find(damage, Remedy::Rebuilt, |_| {});
                self.retire(&path);
                self.lacks_filters = true;
            }
        }
        Ok(())
    }
}
