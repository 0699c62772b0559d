//! The entries in parts of the key range: putting them into segments takes no copy of all of them.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use super::kept::AT_A_TIME;
use super::{Memtable, MemtableEntry, NONE};
use crate::key::Key;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::{EntryRun, Runs, Stamps, TextEntry, UuidEntry};
use crate::sys::background::make_way;

/// Entries that are chosen at a time.
const CHOSEN_AT_A_TIME: usize = 1 << 10;
/// The number of marks.
const MARKS: usize = 3;

/// What the entries of one time partition come to.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) uuids: u64,
    pub(crate) texts: u64,
    pub(crate) stamps: Stamps,
}

/// Where the entries of a claim that have the same mark belong.
#[derive(Clone, Copy)]
enum Place {
    /// In another time partition, or nowhere.
    Elsewhere,
    /// In this run, with the stamp of this number there.
    In { run: u32, stamp: u32 },
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

    /// The number of parts that weigh about `most`.
    pub(crate) fn parts(&self, most: usize) -> usize {
        self.weight().div_ceil(most).max(1)
    }

    /// The entries of `some` of this number of equal parts of the key range, in some time
    /// partitions of `width`, about `count` of them: for each part a run for each partition. The
    /// texts stay here ([`Memtable::texts`]).
    ///
    /// All entries are read in their order, and those of other parts passed over. To go from one
    /// entry of a part to the next takes longer: nearly each is another line of cold memory.
    pub(crate) fn part_runs(
        &self,
        (parts, some): (usize, Range<usize>),
        width: i64,
        (partitions, count): (&RangeInclusive<i64>, usize),
    ) -> Vec<Vec<(i64, EntryRun)>> {
        let room = self.entries.len() / (parts * count.max(1));
        let mut taken: Vec<PartRuns> = some.clone().map(|_| PartRuns::with_room(width, room + room / 16)).collect();
        let mut chosen = [0_u16; CHOSEN_AT_A_TIME];
        for (entries, first) in self.entries.chunks(CHOSEN_AT_A_TIME).zip((0..).step_by(CHOSEN_AT_A_TIME)) {
            make_way();
            for at in in_parts(entries, parts, &some, &mut chosen) {
                let (number, entry) = (first + u32::from(*at), &entries[usize::from(*at)]);
                let PartRuns { runs, last } = &mut taken[part_of(entry.key, parts) - some.start];
                let last = &mut last[entry.mark() as usize];
                if last.0 != entry.claim() {
                    let stamp = self.settled_stamp(number, entry);
                    let place = match stamp.filter(|stamp| partitions.contains(&stamp.started_at.div_euclid(width))) {
                        Some(stamp) => Place::of(runs, stamp),
                        None => Place::Elsewhere,
                    };
                    // Whether an entry is left of one that was released depends on more than these.
                    let is_of_all = stamp.is_some_and(|stamp| stamp.mark != Mark::Released);
                    *last = (if is_of_all { entry.claim() } else { NONE }, place);
                }
                last.1.add(runs, self.texts.place(entry), entry.key);
            }
        }
        taken.into_iter().map(|part| part.runs.into_parts()).collect()
    }
}

/// Choose the entries that are in `some` of the parts.
fn in_parts<'c>(entries: &[MemtableEntry], parts: usize, some: &Range<usize>, chosen: &'c mut [u16]) -> &'c [u16] {
    let mut count = 0;
    // No branch: which parts come next cannot be predicted.
    for (at, entry) in (0..).zip(entries) {
        chosen[count] = at;
        count += usize::from(some.contains(&part_of(entry.key, parts)));
    }
    &chosen[..count]
}

/// Which of this number of equal parts of the key range a key is in.
#[inline]
fn part_of(key: Key, parts: usize) -> usize {
    ((u128::from(key.hi) * parts as u128) >> 64) as usize
}

/// The runs of a part that is gathered.
struct PartRuns {
    runs: Runs,
    /// The claim whose entry came last with each mark, and where its entries belong: most belong to
    /// the same claim as the one before.
    last: [(u32, Place); MARKS],
}

impl PartRuns {
    fn with_room(width: i64, room: usize) -> Self {
        Self { runs: Runs::with_room(width, room), last: [(NONE, Place::Elsewhere); MARKS] }
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
            let parts = memtable.parts(most);
            let mut found = Vec::new();
            let mut before = None;
            let gathered = |at_once: usize| {
                let some = move |start: usize| start..parts.min(start + at_once);
                let starts = (0..parts).step_by(at_once);
                starts
                    .flat_map(|start| memtable.part_runs((parts, some(start)), WIDTH, (&(0..=9), 6)))
                    .collect::<Vec<_>>()
            };
            let at_once = if parts > 100 { parts / 3 } else { 3 };
            assert_eq!(gathered(at_once).len(), parts);
            for runs in gathered(at_once) {
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
            let some = memtable.part_runs((parts, 0..1), WIDTH, (&(2..=3), 2));
            assert!(some.iter().flatten().all(|(partition, _)| [2, 3].contains(partition)));
        }
        let empty = Memtable::default();
        assert!(empty.outlines(WIDTH).is_empty() && empty.parts(10) == 1);
        let with = |mark| expected.iter().filter(|(.., stamp)| stamp.mark == mark).count();
        assert!(with(Mark::Completed) > 0 && with(Mark::Released) == 40);
    }
}
