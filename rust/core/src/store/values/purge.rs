//! Purging values: a mark in the manifest makes expired entries disappear at once; a file is
//! removed when all its entries are gone.

use super::Placed;
use super::lookup::Hit;
use super::write::Expiry;
use crate::Result;
use crate::format::manifest::{Manifest, ValueFileEntry};
use crate::segment::values::run::{FOREVER, GONE, ValueRun};
use crate::store::Writer;
use crate::store::view::View;
use crate::store::{KeySpace, Purge, Purged};

/// Entries of a file that are processed in one chunk.
const CHUNK: u32 = 8192;

impl KeySpace {
    /// Purge entries kept until now or less; pending entries only with `include_pending`.
    ///
    /// # Errors
    /// `Config` when the clock is doubtful.
    pub(crate) fn purge_values(&self, purge: Purge, include_pending: bool) -> Result<Purged> {
        let expiry_at = |upto| Expiry { upto, pending_upto: if include_pending { upto } else { i64::MIN } };
        let expiry = expiry_at(purge.now_us);
        if purge.dry_run || !self.exists()? {
            return self.read(|view| view.map_or(Ok(Purged::default()), |view| view.expired_values(expiry)));
        }
        self.write_again(Self::value_settings(), |writer| {
            let purged = match writer.space.present().as_ref() {
                Some(view) => {
                    let purged = view.expired_values(expiry)?;
                    // One microsecond less than forever: what has no end is never purged.
                    let all = || view.expired_values(expiry_at(FOREVER - 1)).map(|all| all.entries);
                    purge.check_clock(&view.manifest.name, &purged, all)?;
                    purged
                }
                None => Purged::default(),
            };
            if purged == Purged::default() {
                return Ok(purged);
            }
            // The log's entries go into files first: marks apply to files, so that entries written
            // later are not affected.
            writer.seal_all(i64::MIN, Some((&writer.recent(), expiry)), |manifest| mark(manifest, expiry))?;
            Ok(purged)
        })
    }
}

impl Writer<'_> {
    /// The entries of the log.
    fn recent(&self) -> crate::memtable::values::ValueMemtable {
        self.space.present().as_ref().map(|view| view.memtable.values.clone()).unwrap_or_default()
    }
}

/// Mark the purged entries of every file, and drop files without entries.
fn mark(manifest: &mut Manifest, expiry: Expiry) {
    for entry in &mut manifest.values {
        if entry.min_until <= expiry.upto {
            entry.purged_upto = entry.purged_upto.max(expiry.upto);
            entry.pending_purged_upto = entry.pending_purged_upto.max(expiry.pending_upto);
        }
    }
    for id in dropped(&manifest.values) {
        manifest.values.retain(|entry| entry.id != id);
    }
}

/// The files without entries. Files with later entries hide those of older files, so they go last,
/// oldest first.
fn dropped(entries: &[ValueFileEntry]) -> Vec<u64> {
    let is_empty = |entry: &ValueFileEntry| {
        let marks = entry.purged_upto.min(if entry.pending > 0 { entry.pending_purged_upto } else { i64::MAX });
        entry.max_until <= marks
    };
    let mut ordered: Vec<&ValueFileEntry> = entries.iter().collect();
    ordered.sort_by_key(|entry| (entry.is_later, entry.id));
    let mut ids = Vec::new();
    let mut is_older_left = false;
    for entry in ordered {
        if is_empty(entry) && !(entry.is_later && is_older_left) {
            ids.push(entry.id);
        } else {
            is_older_left = true;
        }
    }
    ids
}

impl View {
    /// What a purge removes.
    fn expired_values(&self, expiry: Expiry) -> Result<Purged> {
        let recent = &self.memtable.values.run;
        let in_log = recent.rows.iter().filter(|row| row.flags & GONE == 0 && expiry.takes(row)).count() as u64;
        let mut purged = Purged { entries: in_log, log_entries: in_log, ..Purged::default() };
        for (source, placed) in (1..).zip(&self.values) {
            if placed.entry.min_until <= expiry.upto {
                purged.entries += self.expired_in(source, placed, expiry)?;
            }
        }
        let mut after = Manifest { values: self.manifest.values.clone(), ..Manifest::default() };
        if purged.entries > 0 {
            mark(&mut after, expiry);
        }
        for entry in &self.manifest.values {
            if !after.values.iter().any(|kept| kept.id == entry.id) {
                purged.bytes = purged.bytes.saturating_add(entry.bytes);
                purged.segments += 1;
            }
        }
        Ok(purged)
    }

    /// The number of entries of a file that count and are expired.
    fn expired_in(&self, source: u32, placed: &Placed, expiry: Expiry) -> Result<u64> {
        let mut count = 0;
        for start in (0..placed.segment.header().rows as u32).step_by(CHUNK as usize) {
            let end = start.saturating_add(CHUNK).min(placed.segment.header().rows as u32);
            let (run, places) = self.counting(source, placed, start..end)?;
            count += run.rows.iter().zip(places).filter(|(row, _)| expiry.takes(row)).count() as u64;
        }
        Ok(count)
    }

    /// The entries at some places of a file that exist, and that no newer entry of the same id
    /// hides.
    pub(super) fn counting(
        &self,
        source: u32,
        placed: &Placed,
        places: std::ops::Range<u32>,
    ) -> Result<(ValueRun, Vec<u32>)> {
        let (mut run, mut kept) = (ValueRun::default(), Vec::new());
        for place in places {
            if placed.read(place, &mut run)? {
                kept.push(place);
            }
        }
        let hits = self.places_of(&run, true)?;
        let is_newest = |place: &u32, hit: &Hit| *hit == Hit { source, place: *place };
        let (mut newest, mut at) = (ValueRun::default(), Vec::new());
        for ((row, place), hit) in run.rows.iter().zip(kept).zip(hits) {
            if is_newest(&place, &hit) {
                newest.push_from(&run, row);
                at.push(place);
            }
        }
        Ok((newest, at))
    }
}

impl Placed {
    /// Append the entry at `place` to `run`, unless it is gone; answers whether it was.
    pub(in crate::store) fn read(&self, place: u32, run: &mut ValueRun) -> Result<bool> {
        let (mut scratch, mut text) = (Vec::new(), Vec::new());
        let record = self.segment.record(place, &mut scratch)?;
        if self.is_gone(record.flags, record.until) {
            return Ok(false);
        }
        let key = self.segment.key(place, &mut scratch)?;
        let text = self.segment.text(place, &mut text)?;
        let value = self.segment.value(record, &mut scratch)?;
        run.push(key, text, record.until, record.flags, value);
        Ok(true)
    }
}
