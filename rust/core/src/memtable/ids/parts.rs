//! The entries in parts of the key range: putting them into segments takes no copy of all of them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::kept::AT_A_TIME;
use super::{GROUP, Memtable, MemtableEntry};
use crate::key::Key;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::{EntryRun, Runs, Stamps, TextEntry, UuidEntry};
use crate::sys::background::make_way;
use crate::sys::prefetch;

/// The number of marks.
const MARKS: usize = 3;

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

/// Where the entries of a claim that have the same mark belong.
#[derive(Clone, Copy)]
enum Place {
    Unknown,
    /// In another time partition, or nowhere.
    Elsewhere,
    /// In this run, with the stamp of this number there.
    In {
        run: u32,
        stamp: u32,
    },
}

impl Place {
    fn of(runs: &mut Runs, stamp: Stamp) -> Self {
        let run = runs.place_of(stamp.started_at);
        Self::In { run: run as u32, stamp: runs.at(run).stamps.index(stamp) }
    }

    /// Add an entry there; `text` is where its text is held, and how long it is.
    #[inline]
    fn add(self, runs: &mut Runs, text: Option<(u64, u32)>, key: Key) {
        let Self::In { run, stamp } = self else { return };
        let run = runs.at(run as usize);
        match text {
            None => run.uuids.push(UuidEntry { key, stamp }),
            Some((start, length)) => run.texts.push(TextEntry { key, stamp, length, start }),
        }
    }
}

impl Memtable {
    /// What the entries of each time partition of `width` come to.
    pub(crate) fn outlines(&self, width: i64) -> BTreeMap<i64, Outline> {
        let mut outlines: BTreeMap<i64, Outline> = BTreeMap::new();
        // Most entries belong to the same claim as the one before, and have the same mark.
        let (mut last, mut outline) = (None, &mut Outline::default());
        for (number, entry) in (0..).zip(&self.entries) {
            if (number as usize).is_multiple_of(AT_A_TIME) {
                make_way();
            }
            if last != Some((entry.claim(), entry.mark())) {
                let Some(stamp) = self.settled_stamp(number, entry) else { continue };
                outline = outlines.entry(stamp.started_at.div_euclid(width)).or_default();
                outline.stamps.index(stamp);
                // Whether an entry is left of one that was released depends on more than these.
                last = (stamp.mark != Mark::Released).then_some((entry.claim(), entry.mark()));
            }
            match entry.text() {
                None => outline.uuids += 1,
                Some(_) => outline.texts += 1,
            }
        }
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
        // In the order of keys an entry's claim is any: it is looked up once for all of its
        // entries.
        let mut places = vec![Place::Unknown; self.claims.len() * MARKS];
        for (at, number) in numbers.iter().enumerate() {
            if at.is_multiple_of(AT_A_TIME) {
                make_way();
            }
            if let Some(later) = numbers.get(at + GROUP) {
                prefetch::item(&self.entries, *later as usize);
            }
            let entry = &self.entries[*number as usize];
            let known = &mut places[entry.claim() as usize * MARKS + entry.mark() as usize];
            if let Place::Unknown = known {
                let stamp = self.settled_stamp(*number, entry);
                let place = match stamp.filter(|stamp| partitions.contains(&stamp.started_at.div_euclid(width))) {
                    Some(stamp) => Place::of(&mut runs, stamp),
                    None => Place::Elsewhere,
                };
                // Whether an entry is left of one that was released depends on more than these.
                if stamp.is_some_and(|stamp| stamp.mark != Mark::Released) {
                    *known = place;
                }
                place.add(&mut runs, self.texts.place(entry), entry.key);
            } else {
                known.add(&mut runs, self.texts.place(entry), entry.key);
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
    use crate::key::Codec;
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
        // Of these claim 5 has begun none: what a claim left out is kept.
        memtable.apply(&frame(FrameKind::ReleaseKeys, 5, 9000..9040), 12);
        memtable.apply(&frame(FrameKind::CompleteKeys, 6, 3000..3100), 13);
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
        let with = |mark| expected.iter().filter(|(.., stamp)| stamp.mark == mark).count();
        assert!(with(Mark::Completed) > 0 && with(Mark::Released) == 40);
    }
}
