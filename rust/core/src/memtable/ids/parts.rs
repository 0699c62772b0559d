//! The entries in parts of the key range: putting them into segments takes no copy of all of them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{AT_A_TIME, GROUP, Memtable, MemtableEntry};
use crate::segment::format::Stamp;
use crate::segment::run::{EntryRun, Runs, Stamps};
use crate::sys::background::make_way;
use crate::sys::prefetch;

/// What the entries of one time partition come to.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) uuids: u64,
    pub(crate) texts: u64,
    pub(crate) stamps: Stamps,
}

/// Which entries are in each of several equal parts of the key range.
#[derive(Debug)]
pub(crate) struct KeyParts {
    /// The numbers of the entries, part by part.
    order: Vec<u32>,
    /// Where each part ends.
    ends: Vec<usize>,
}

impl Memtable {
    /// What the entries of each time partition of `width` come to.
    pub(crate) fn outlines(&self, width: i64) -> BTreeMap<i64, Outline> {
        let mut outlines: BTreeMap<i64, Outline> = BTreeMap::new();
        // Most entries belong to the same partition as the one before.
        let (mut last, mut outline) = (None, Outline::default());
        for (number, (_, text, stamp)) in self.entries().enumerate() {
            if number.is_multiple_of(AT_A_TIME) {
                make_way();
            }
            let partition = stamp.started_at.div_euclid(width);
            if last != Some(partition) {
                if let Some(last) = last.replace(partition) {
                    outlines.insert(last, std::mem::take(&mut outline));
                }
                outline = outlines.remove(&partition).unwrap_or_default();
            }
            match text {
                None => outline.uuids += 1,
                Some(_) => outline.texts += 1,
            }
            outline.stamps.index(stamp);
        }
        outlines.extend(last.map(|last| (last, outline)));
        outlines
    }

    /// Divide the entries into parts that weigh about `most`.
    pub(crate) fn key_parts(&self, most: usize) -> KeyParts {
        let parts = self.weight().div_ceil(most).max(1);
        let part_of = |entry: &MemtableEntry| ((u128::from(entry.key.hi) * parts as u128) >> 64) as usize;
        let mut ends = vec![0; parts];
        self.entries.iter().for_each(|entry| ends[part_of(entry)] += 1);
        let mut next = Vec::with_capacity(parts);
        let mut sum = 0;
        for end in &mut ends {
            next.push(sum);
            sum += *end;
            *end = sum;
        }
        let mut order = vec![0; sum];
        for (entries, first) in self.entries.chunks(AT_A_TIME).zip((0..).step_by(AT_A_TIME)) {
            make_way();
            for (number, entry) in (first..).zip(entries) {
                let slot = &mut next[part_of(entry)];
                order[*slot] = number;
                *slot += 1;
            }
        }
        KeyParts { order, ends }
    }

    /// The entries of one of the parts in some time partitions of `width`: a run for each
    /// partition. The texts stay here ([`Memtable::texts`]).
    pub(crate) fn part_runs(
        &self,
        (parts, part): (&KeyParts, usize),
        width: i64,
        partitions: &RangeInclusive<i64>,
    ) -> Vec<(i64, EntryRun)> {
        let numbers = parts.of(part);
        let mut runs = Runs::with_room(width, numbers.len());
        let entries = self.settled(numbers.iter().enumerate().map(|(at, number)| {
            if let Some(later) = numbers.get(at + GROUP) {
                prefetch::item(&self.entries, *later as usize);
            }
            (*number, &self.entries[*number as usize])
        }));
        let is_within = |stamp: &Stamp| partitions.contains(&stamp.started_at.div_euclid(width));
        for (number, (entry, stamp)) in entries.filter(|(_, stamp)| is_within(stamp)).enumerate() {
            if number.is_multiple_of(AT_A_TIME) {
                make_way();
            }
            let run = runs.of(stamp.started_at);
            match self.texts.place(entry) {
                None => run.push_uuid(entry.key, stamp),
                Some(place) => run.push_held(entry.key, place, stamp),
            }
        }
        runs.into_parts()
    }
}

impl KeyParts {
    /// The number of parts.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn of(&self, part: usize) -> &[u32] {
        let start = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.order[start..self.ends[part]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Codec, Key};
    use crate::segment::format::Mark;
    use crate::segment::run::TextEntry;
    use crate::segment::values::run::ValueRun;
    use crate::types::FrameKeys;
    use crate::wal::frame::{Frame, FrameKind};

    const WIDTH: i64 = 100;

    fn frame(kind: FrameKind, claim: u64, numbers: std::ops::Range<u64>) -> Frame {
        let codec = Codec::new(&[5; 32]);
        let mut keys = FrameKeys::default();
        for number in numbers {
            let key = codec.mix(u128::from(number).to_be_bytes());
            match number % 3 {
                0 => keys.push_text(key, number.to_string().as_bytes()),
                _ => keys.uuids.push(key),
            }
        }
        let (started_at, values) = (claim as i64 * 60, ValueRun::default());
        Frame { kind, sequence: claim, claim, started_at, replaces: None, durable: 0, transaction: None, keys, values }
    }

    fn listed<'t>(
        partition: i64,
        run: &EntryRun,
        text: impl Fn(&TextEntry) -> &'t [u8],
    ) -> Vec<(i64, Key, Vec<u8>, Stamp)> {
        let stamp = |number| run.stamps.get(number);
        let uuids = run.uuids.iter().map(|entry| (partition, entry.key, Vec::new(), stamp(entry.stamp)));
        let texts = run.texts.iter().map(|entry| (partition, entry.key, text(entry).to_vec(), stamp(entry.stamp)));
        uuids.chain(texts).collect()
    }

    #[test]
    fn parts_are_the_whole_and_the_outlines_count_them() {
        let mut memtable = Memtable::default();
        for claim in 1..=9 {
            memtable.apply(&frame(FrameKind::Begin, claim, claim * 500..claim * 500 + 700), claim);
        }
        memtable.apply(&frame(FrameKind::CompleteClaim, 4, 0..0), 10);
        memtable.apply(&frame(FrameKind::ReleaseKeys, 5, 2500..2600), 11);
        memtable.apply(&frame(FrameKind::CompleteKeys, 6, 3000..3100), 12);
        let mut whole = Runs::new(WIDTH);
        memtable.fill(&mut whole, i64::MIN);
        let whole = whole.into_parts();
        assert_eq!(whole.len(), 6);
        let outlines = memtable.outlines(WIDTH);
        for ((partition, run), (outlined, outline)) in whole.iter().zip(&outlines) {
            assert_eq!((partition, run.uuids.len() as u64), (outlined, outline.uuids));
            assert_eq!((run.texts.len() as u64, run.stamps.list()), (outline.texts, outline.stamps.list()));
        }
        let mut expected: Vec<_> =
            whole.iter().flat_map(|(partition, run)| listed(*partition, run, |entry| run.text(entry))).collect();
        expected.sort_by(|a, b| (a.0, a.1, &a.2, a.3).cmp(&(b.0, b.1, &b.2, b.3)));
        for most in [1 << 20, 1000, 64, 1] {
            let parts = memtable.key_parts(most);
            let mut found = Vec::new();
            let mut before = None;
            for part in 0..parts.len() {
                let runs = memtable.part_runs((&parts, part), WIDTH, &(0..=9));
                let of_part: Vec<_> = {
                    let held = |entry: &TextEntry| memtable.texts().text(entry);
                    runs.iter().flat_map(|(partition, run)| listed(*partition, run, held)).collect()
                };
                let keys = || of_part.iter().map(|(_, key, ..)| *key);
                assert!(keys().min() > before || keys().count() == 0, "parts of {most} follow the order of keys");
                before = keys().max().or(before);
                found.extend(of_part);
            }
            found.sort_by(|a, b| (a.0, a.1, &a.2, a.3).cmp(&(b.0, b.1, &b.2, b.3)));
            assert_eq!(found, expected, "parts of {most}");
            // Some time partitions only.
            let some = memtable.part_runs((&parts, 0), WIDTH, &(2..=3));
            assert!(some.iter().all(|(partition, _)| [2, 3].contains(partition)));
        }
        let empty = Memtable::default();
        assert!(empty.outlines(WIDTH).is_empty() && empty.key_parts(10).len() == 1);
        assert!(expected.iter().any(|(.., stamp)| stamp.mark == Mark::Completed));
    }
}
