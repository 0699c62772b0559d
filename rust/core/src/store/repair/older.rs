//! Finds the ids of which an earlier entry counts again when later ones are lost.

use std::collections::BTreeMap;

use super::{Case, Count, MOST_NAMED};
use crate::Result;
use crate::format::manifest::ValueFileEntry;
use crate::key::Key;
use crate::memtable::values::ValueMemtable;
use crate::segment::values::columns::id_text;
use crate::segment::values::run::FOREVER;
use crate::segment::values::run::{GONE, ValueRun};
use crate::segment::values::salvage::LostId;
use crate::store::values::Placed;

/// Entries of a map, older than those of the previous layers.
pub(super) enum Layer {
    Log(ValueMemtable),
    /// An intact file.
    File(Placed),
    /// The readable part of a damaged file, and the manifest's entry for it.
    Saved(ValueRun, ValueFileEntry),
}

/// An entry; `GONE` if it was removed or purged.
pub(super) struct LayerRow<'a> {
    pub(super) key: Key,
    pub(super) text: &'a [u8],
    pub(super) until: i64,
    pub(super) flags: u8,
    pub(super) value: &'a [u8],
}

/// The loss at one damaged place.
pub(super) struct Loss {
    /// Its finding.
    pub(super) finding: usize,
    /// Ids that can be read, but whose entries cannot.
    pub(super) lost: Vec<LostId>,
    /// Maximum number of entries of which nothing can be read.
    pub(super) unknown: Option<u64>,
    /// Whether the number of dropped entries follows from this.
    pub(super) told: bool,
}

/// A loss, and the number of layers that are not older than it.
pub(super) struct Damage {
    pub(super) level: usize,
    pub(super) loss: Loss,
}

/// The effect of a loss.
pub(super) struct LossReport {
    pub(super) finding: usize,
    pub(super) dropped: Option<Count>,
    pub(super) returned: Count,
    pub(super) ids: Vec<String>,
}

/// The effect of all losses, and the entries that replace lost ones.
pub(super) struct Settled {
    pub(super) losses: Vec<LossReport>,
    pub(super) mended: ValueRun,
}

impl Layer {
    fn is_plain(&self) -> bool {
        match self {
            Self::Log(_) => false,
            Self::File(placed) => !placed.entry.is_later,
            Self::Saved(_, entry) => !entry.is_later,
        }
    }

    pub(super) fn each(&self, take: &mut dyn FnMut(LayerRow) -> Result<()>) -> Result<()> {
        let in_run = |run: &ValueRun, entry: Option<&ValueFileEntry>, take: &mut dyn FnMut(LayerRow) -> Result<()>| {
            for row in &run.rows {
                let is_gone = entry.is_some_and(|entry| entry.is_gone(row.flags, row.until));
                let flags = if is_gone { GONE } else { row.flags };
                let until = if flags & GONE == 0 { row.until } else { i64::MIN };
                take(LayerRow { key: row.key, text: run.text(row), until, flags, value: run.value(row) })?;
            }
            Ok(())
        };
        match self {
            Self::Log(recent) => in_run(&recent.run, None, take),
            Self::Saved(run, entry) => in_run(run, Some(entry), take),
            Self::File(placed) => placed.each_row(&mut |run| in_run(run, None, take)),
        }
    }
}

struct Search<'a> {
    case: Case<'a>,
    /// The ids of newer layers.
    hidden: ValueMemtable,
    /// The lost ids that no newer layer holds, and the loss of each.
    lost: BTreeMap<(Key, Vec<u8>), usize>,
    /// Losses that may have held any id.
    unknown: Vec<usize>,
    told: Vec<LossReport>,
    returned: Vec<u64>,
    mended: ValueRun,
}

/// Go through the layers, newest first.
pub(super) fn tell(case: Case, layers: &[Layer], damages: Vec<Damage>) -> Result<Settled> {
    let is_needed = !damages.is_empty();
    let mut search = Search {
        case,
        hidden: ValueMemtable::default(),
        lost: BTreeMap::new(),
        unknown: Vec::new(),
        told: Vec::new(),
        returned: Vec::new(),
        mended: ValueRun::default(),
    };
    let mut damages = damages.into_iter().peekable();
    for (level, layer) in (0..=layers.len()).zip(layers.iter().map(Some).chain([None])) {
        while let Some(damage) = damages.next_if(|damage| damage.level <= level) {
            search.meet(damage, layers);
        }
        if let Some(layer) = layer.filter(|_| is_needed) {
            search.pass(layer)?;
        }
    }
    Ok(search.end())
}

impl Search<'_> {
    fn meet(&mut self, damage: Damage, layers: &[Layer]) {
        let number = self.told.len();
        let Loss { finding, lost, unknown, told } = damage.loss;
        for id in lost {
            if self.hidden.find(id.key, &id.text).is_none() {
                self.lost.entry((id.key, id.text)).or_insert(number);
            }
        }
        let concerned = self.lost.values().filter(|other| **other == number).count() as u64;
        let dropped = match unknown {
            None => Count::Exactly(concerned),
            Some(more) => Count::AtMost(concerned.saturating_add(more)),
        };
        let is_plain = layers.get(damage.level - 1).is_some_and(Layer::is_plain);
        // No two plain files hold the same id, so no older entry returns for one of theirs.
        if unknown.is_some() && !is_plain {
            self.unknown.push(number);
        }
        let most = unknown.filter(|_| !is_plain);
        let returned = match most {
            Some(u64::MAX) => Count::Unknown,
            Some(most) => Count::AtMost(most),
            None => Count::Exactly(0),
        };
        self.told.push(LossReport { finding, dropped: told.then_some(dropped), returned, ids: Vec::new() });
        self.returned.push(0);
    }

    fn pass(&mut self, layer: &Layer) -> Result<()> {
        let is_plain = layer.is_plain();
        let mut passed = ValueRun::default();
        layer.each(&mut |row| {
            if self.hidden.find(row.key, row.text).is_some() {
                return Ok(());
            }
            if row.flags & GONE == 0 {
                let known = self.lost.remove(&(row.key, row.text.to_vec()));
                if let Some(number) = known.or(self.unknown.last().copied()) {
                    self.comes_back(number, known.is_some(), &row);
                }
            }
            if !is_plain {
                passed.push(row.key, row.text, row.until, row.flags, &[]);
            }
            Ok(())
        })?;
        self.hidden.apply_older(&passed);
        Ok(())
    }

    fn comes_back(&mut self, number: usize, is_certain: bool, row: &LayerRow) {
        self.returned[number] += 1;
        let told = &mut self.told[number];
        if is_certain && let Some(Count::Exactly(dropped)) = &mut told.dropped {
            *dropped -= 1;
        }
        self.name(number, row.key, row.text);
        self.mend(row.key, row.text, Some(row.value));
    }

    fn name(&mut self, number: usize, key: Key, text: &[u8]) {
        let ids = &mut self.told[number].ids;
        if ids.len() < MOST_NAMED {
            ids.push(id_text(self.case.codec, key, text));
        }
    }

    fn mend(&mut self, key: Key, text: &[u8], old: Option<&[u8]>) {
        if let Some(room) = self.case.room
            && let Some(row) = (self.case.stand_in)(room, text, old)
        {
            self.mended.push(key, text, FOREVER, 0, &row);
        }
    }

    fn end(mut self) -> Settled {
        for ((key, text), number) in std::mem::take(&mut self.lost) {
            self.name(number, key, &text);
            self.mend(key, &text, None);
        }
        for (told, found) in self.told.iter_mut().zip(&self.returned) {
            told.returned = match told.returned {
                Count::Exactly(_) => Count::Exactly(*found),
                Count::AtMost(most) => Count::AtMost(most.min(*found)),
                Count::AtLeast(_) | Count::Unknown => Count::AtMost(*found),
            };
            told.ids.sort();
        }
        Settled { losses: self.told, mended: self.mended }
    }
}
