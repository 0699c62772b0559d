//! The files of a map of values: the readable part of damaged ones, and the ids of which an earlier
//! entry counts again.
//!
//! Newer entries hide older ones, so an older entry may return when one is lost. The report of a
//! loss says so, by id where ids can be read. A stream that is received waits in doubt until
//! somebody says how far it is applied.

use super::damage::{NOTHING, Unsure, damage};
use super::diagnosing::Diagnosing;
use super::older::{Damage, Layer, Loss};
use super::{Count, Remedy};
use crate::format::manifest::ValueFileEntry;
use crate::format::names::FileKind;
use crate::io::pages::PAGE;
use crate::memtable::values::ValueMemtable;
use crate::segment::values::run::{GONE, ValueRun};
use crate::segment::values::salvage::Salvaged;
use crate::segment::values::segment::ValueSegment;
use crate::store::values::Placed;
use crate::{Error, Result};

const DROPPED: &str = "an id that only this file told of is not there any more";
const RETURNED: &str =
    "ids of which this file held the last state are not there any more, or count as they were before";

impl Diagnosing<'_> {
    /// Checks the files; `looked` gets the number of remaining files.
    pub(super) fn look_at_values(&mut self, looked: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let mut entries = std::mem::take(&mut self.manifest.values);
        entries.sort_by_key(|entry| std::cmp::Reverse((entry.is_later, entry.id)));
        let (mut layers, mut damages) = self.layers_of_log();
        let mut folds = false;
        let count = entries.len() as u64;
        for (done, entry) in (1..).zip(entries) {
            looked(count - done)?;
            match self.open_values(entry) {
                Ok(placed) => {
                    self.manifest.values.push(placed.entry);
                    layers.push(Layer::File(placed));
                }
                Err(error) => {
                    let (layer, loss) = self.salvage_values(entry, error)?;
                    folds |= entry.is_later;
                    layers.push(layer);
                    damages.push(Damage { level: layers.len(), loss });
                }
            }
        }
        let told = super::older::tell(self.case, &layers, damages)?;
        for told in told.losses {
            let finding = &mut self.findings[told.finding];
            // Where there is no better number, the one from the manifest or from the log's frame
            // stays.
            if let Some(dropped) = told.dropped {
                finding.dropped = dropped;
            }
            if finding.remedy == Remedy::Salvaged
                && finding.dropped == Count::Exactly(0)
                && told.returned == Count::Exactly(0)
            {
                (finding.remedy, finding.meaning, finding.kept_until) = (Remedy::Rebuilt, NOTHING, None);
            }
            finding.returned = told.returned;
            finding.ids = told.ids;
        }
        self.write_anew(&layers, folds, &told.mended)
    }

    /// The log's entries, divided where some of them are lost.
    fn layers_of_log(&mut self) -> (Vec<Layer>, Vec<Damage>) {
        let mut layers = vec![Layer::Log(std::mem::take(&mut self.in_log))];
        let mut damages = Vec::new();
        if let Some(damage) = self.log_damage.take() {
            let loss = Loss {
                finding: damage.finding,
                lost: Vec::new(),
                unknown: damage.most.or(Some(u64::MAX)),
                told: false,
            };
            damages.push(Damage { level: 1, loss });
            layers.push(Layer::Log(damage.before));
        }
        if let Some(Unsure { finding }) = self.unsure {
            // Any entry that is not in the log may be an earlier one.
            let loss = Loss { finding, lost: Vec::new(), unknown: Some(u64::MAX), told: false };
            damages.push(Damage { level: layers.len(), loss });
        }
        (layers, damages)
    }

    fn open_values(&self, entry: ValueFileEntry) -> Result<Placed> {
        let env = self.case.env;
        let path = FileKind::Values.path(self.case.directory, entry.id);
        let segment = ValueSegment::open(&*env.system, &path, env.history)?;
        let is_undescribed = self.is_manifest_lost && entry.bytes == 0;
        if segment.header().id != entry.id || (segment.sum() != entry.sum && !is_undescribed) {
            return Err(Error::corrupt(&path, 0, "these are not the values that the manifest names"));
        }
        segment.verify(&mut |_| {})?;
        let entry = if is_undescribed { segment.describe(entry.is_later)? } else { entry };
        Ok(Placed { segment, entry })
    }

    /// The readable part of a damaged file, and its loss.
    fn salvage_values(&mut self, entry: ValueFileEntry, error: Error) -> Result<(Layer, Loss)> {
        let env = self.case.env;
        let path = FileKind::Values.path(self.case.directory, entry.id);
        let damage = damage(&*env.system, error, &path, Some(PAGE))?;
        let is_this = |saved: &Salvaged| saved.header.id == entry.id && (entry.sum == 0 || saved.sum == entry.sum);
        let saved = ValueSegment::salvage(&*env.system, &path, env.history).ok().filter(is_this);
        let rows = if entry.rows > 0 { Count::AtMost(entry.rows) } else { Count::Unknown };
        let finding = self.findings.len();
        let until = (entry.bytes > 0).then_some((entry.min_until, entry.max_until));
        let remedy = if saved.is_some() { Remedy::Salvaged } else { Remedy::Dropped };
        self.find(damage, remedy, |finding| {
            finding.dropped = rows;
            finding.kept_until = until;
            finding.bytes = saved.as_ref().map_or(entry.bytes, |saved| saved.bytes);
            finding.meaning = if entry.is_later { RETURNED } else { DROPPED };
        });
        self.retire(&path);
        let Some(saved) = saved else {
            let unknown = if entry.rows > 0 { entry.rows } else { u64::MAX };
            let loss = Loss { finding, lost: Vec::new(), unknown: Some(unknown), told: false };
            return Ok((Layer::Saved(ValueRun::default(), entry), loss));
        };
        let unknown = (saved.unknown > 0).then_some(saved.unknown);
        Ok((Layer::Saved(saved.run, entry), Loss { finding, lost: saved.lost, unknown, told: true }))
    }

    /// Collect the entries to write. The readable part of plain files is written as plain entries.
    /// One file that is newer than all others gets the log's entries, if the log goes; the later
    /// files', if one of them is damaged; and the entries that are put in doubt.
    fn write_anew(&mut self, layers: &[Layer], folds: bool, mended: &ValueRun) -> Result<()> {
        let takes_log = self.memtable.is_some();
        let mut later = ValueMemtable::default();
        for layer in layers {
            let takes = match layer {
                Layer::Log(_) => takes_log,
                Layer::File(placed) => folds && placed.entry.is_later,
                Layer::Saved(run, entry) if !entry.is_later => {
                    run.rows.iter().filter(|row| !entry.is_gone(row.flags, row.until)).for_each(|row| {
                        self.values.plain.push_from(run, row);
                    });
                    false
                }
                Layer::Saved(..) => true,
            };
            if takes {
                let mut run = ValueRun::default();
                layer.each(&mut |row| {
                    let value = if row.flags & GONE == 0 { row.value } else { &[] };
                    run.push(row.key, row.text, row.until, row.flags, value);
                    Ok(())
                })?;
                later.apply_older(&run);
            }
        }
        later.apply(mended);
        self.values.later = later;
        if folds {
            let folded: Vec<u64> =
                self.manifest.values.iter().filter(|entry| entry.is_later).map(|entry| entry.id).collect();
            self.manifest.values.retain(|entry| !entry.is_later);
            for id in folded {
                self.retire(&FileKind::Values.path(self.case.directory, id));
            }
        }
        Ok(())
    }
}
