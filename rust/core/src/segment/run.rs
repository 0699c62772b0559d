//! Entries to be written to a segment, in memory and in any order.

use hashbrown::HashMap;

use super::format::{Mark, Stamp};
use crate::key::Key;
use crate::sys::buffer::{Buffer, buffer};
use crate::types::FrameKeys;

/// An entry whose key is a packed UUID.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UuidEntry {
    pub(crate) key: Key,
    /// Index into the run's stamps.
    pub(crate) stamp: u32,
}

/// An entry whose key is text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextEntry {
    pub(crate) key: Key,
    pub(crate) stamp: u32,
    /// Length of the text in the run's heap, or where it is held.
    pub(crate) length: u32,
    /// Where it starts there.
    pub(crate) start: u64,
}

/// Texts that stay where they are while a segment is written: the run has none of its own.
pub(crate) trait HeldTexts: std::fmt::Debug {
    /// The text of an entry.
    fn text(&self, entry: &TextEntry) -> &[u8];

    /// Prefetch it.
    fn fetch(&self, entry: &TextEntry);
}

/// Entries of one time partition.
#[derive(Debug)]
pub(crate) struct EntryRun {
    pub(crate) uuids: Buffer<UuidEntry>,
    pub(crate) texts: Buffer<TextEntry>,
    pub(crate) heap: Vec<u8>,
    pub(crate) stamps: Stamps,
}

impl Default for EntryRun {
    fn default() -> Self {
        Self::with_room(0)
    }
}

impl EntryRun {
    /// An empty one with room for some UUIDs.
    pub(crate) fn with_room(uuids: usize) -> Self {
        Self { uuids: buffer(uuids), texts: buffer(0), heap: Vec::new(), stamps: Stamps::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.uuids.len() + self.texts.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries of one stamp.
    pub(crate) fn of_keys(keys: &FrameKeys, stamp: Stamp) -> Self {
        let mut run = Self { heap: keys.heap.clone(), ..Self::default() };
        let stamp = run.stamps.index(stamp);
        run.uuids.extend(keys.uuids.iter().map(|key| UuidEntry { key: *key, stamp }));
        let mut start = 0;
        for (key, length) in keys.texts.iter().zip(&keys.lengths) {
            run.texts.push(TextEntry { key: *key, stamp, length: u32::from(*length), start });
            start += u64::from(*length);
        }
        run
    }

    pub(crate) fn push_uuid(&mut self, key: Key, stamp: Stamp) {
        let stamp = self.stamps.index(stamp);
        self.uuids.push(UuidEntry { key, stamp });
    }

    pub(crate) fn push_text(&mut self, key: Key, text: &[u8], stamp: Stamp) {
        let stamp = self.stamps.index(stamp);
        self.add_text(key, text, stamp);
    }

    /// [`EntryRun::push_text`] with a stamp of the run, by its number.
    pub(crate) fn add_text(&mut self, key: Key, text: &[u8], stamp: u32) {
        let start = self.heap.len() as u64;
        self.heap.extend_from_slice(text);
        self.texts.push(TextEntry { key, stamp, length: text.len() as u32, start });
    }

    pub(crate) fn text(&self, entry: &TextEntry) -> &[u8] {
        &self.heap[entry.start as usize..entry.start as usize + entry.length as usize]
    }
}

/// Entries of several time partitions, a run for each.
#[derive(Debug)]
pub(crate) struct Runs {
    width: i64,
    list: Vec<(i64, EntryRun)>,
    /// How many UUIDs each run has room for at first.
    room: usize,
    places: HashMap<i64, usize, std::hash::RandomState>,
    /// The run that was asked for last, and its range of times: most entries belong to the same run
    /// as the one before.
    last: (std::ops::Range<i64>, usize),
}

impl Runs {
    /// An empty set; partitions are `width` microseconds wide.
    pub(crate) fn new(width: i64) -> Self {
        Self::with_room(width, 0)
    }

    /// The same, each run with room for some UUIDs.
    pub(crate) fn with_room(width: i64, room: usize) -> Self {
        Self { width, list: Vec::new(), room, places: HashMap::default(), last: (0..0, 0) }
    }

    /// The run of entries that began at this time.
    #[inline]
    pub(crate) fn of(&mut self, started_at: i64) -> &mut EntryRun {
        let place = self.place_of(started_at);
        self.at(place)
    }

    /// Which of the runs that is.
    #[inline]
    pub(crate) fn place_of(&mut self, started_at: i64) -> usize {
        if !self.last.0.contains(&started_at) {
            self.look_for(started_at);
        }
        self.last.1
    }

    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> &mut EntryRun {
        &mut self.list[place].1
    }

    fn look_for(&mut self, started_at: i64) {
        let partition = started_at.div_euclid(self.width);
        let place = *self.places.entry(partition).or_insert(self.list.len());
        if place == self.list.len() {
            self.list.push((partition, EntryRun::with_room(self.room)));
        }
        let from = partition.saturating_mul(self.width);
        self.last = (from..from.saturating_add(self.width), place);
    }

    /// All runs, by time.
    pub(crate) fn into_list(self) -> Vec<EntryRun> {
        self.into_parts().into_iter().map(|(_, run)| run).collect()
    }

    /// The same, each with the number of its partition.
    pub(crate) fn into_parts(mut self) -> Vec<(i64, EntryRun)> {
        self.list.sort_by_key(|(partition, _)| *partition);
        self.list
    }
}

/// The distinct stamps of a run, numbered in order of appearance.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    list: Vec<Stamp>,
    numbers: HashMap<Stamp, u32, std::hash::RandomState>,
    last: Option<(Stamp, u32)>,
}

impl Stamps {
    /// The number of `stamp`. A completed entry no longer needs its claim, so that entries of
    /// several claims have the same stamp.
    pub(crate) fn index(&mut self, mut stamp: Stamp) -> u32 {
        if stamp.mark == Mark::Completed {
            stamp.claim = 0;
        }
        if let Some((last, number)) = self.last
            && last == stamp
        {
            return number;
        }
        let next = self.list.len() as u32;
        let number = *self.numbers.entry(stamp).or_insert(next);
        if number == next {
            self.list.push(stamp);
        }
        self.last = Some((stamp, number));
        number
    }

    pub(crate) fn list(&self) -> &[Stamp] {
        &self.list
    }

    pub(crate) fn get(&self, number: u32) -> Stamp {
        self.list[number as usize]
    }

    /// Give all open stamps this claim.
    pub(crate) fn number_open_claims(&mut self, claim: u64) {
        self.list.iter_mut().filter(|stamp| stamp.mark == Mark::Open).for_each(|stamp| stamp.claim = claim);
        self.numbers.clear();
        self.last = None;
    }

    /// Put other stamps in place of the present ones; `numbers[old]` is the new number.
    pub(crate) fn replace(&mut self, list: Vec<Stamp>) {
        self.numbers.clear();
        self.last = None;
        self.list = list;
    }
}

impl EntryRun {
    /// A copy of the entries whose keys lie in part `part` of `parts` equal parts of the key range.
    pub(crate) fn take_range(&self, part: u64, parts: u64) -> Self {
        let is_within = |key: Key| (u128::from(key.hi) * u128::from(parts)) >> 64 == u128::from(part);
        let mut taken = Self::default();
        for entry in self.uuids.iter().filter(|entry| is_within(entry.key)) {
            taken.push_uuid(entry.key, self.stamps.get(entry.stamp));
        }
        for entry in self.texts.iter().filter(|entry| is_within(entry.key)) {
            taken.push_text(entry.key, self.text(entry), self.stamps.get(entry.stamp));
        }
        taken
    }
}
