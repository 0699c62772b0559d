//! Entries that are not in the index yet. To index an entry takes ten times as long as to read it.
//! So a large batch that is looked up, or begun, leaves new entries out of the index: they are read
//! one by one until that has cost as much, or until a small batch is looked up.

use std::sync::atomic::Ordering;

use super::{GROUP, Index, Memtable, MemtableEntry, NONE};
use crate::key::Key;
use crate::segment::Wanted;
use crate::segment::format::Stamp;

/// What indexing an entry costs, in entries read.
const INDEXING: usize = 8;
/// Entries whose first bit is asked before the second of any is.
const AT_A_TIME: usize = 1 << 10;
/// Bits for each key that is looked for: few other entries pass, and all of them stay in the cache.
const BITS: usize = 32;

impl Memtable {
    /// Put the entries into the index that are not there yet.
    pub(crate) fn index_pending(&mut self) {
        let Self { entries, index, indexed, pending, texts, claims, .. } = self;
        index.reserve(entries.len() - *indexed);
        for at in *indexed..entries.len() {
            if let Some(later) = entries.get(at + GROUP) {
                index.fetch(later.key.lo);
            }
            let MemtableEntry { key, .. } = entries[at];
            let text = texts.of(&entries[at]);
            let is_same = |other: u32| texts.is_of(&entries[other as usize], key, text);
            let previous = index.put(key.lo, at as u32, is_same);
            let claim = entries[at].claim();
            if previous.is_some_and(|previous| entries[previous as usize].claim() == claim) {
                claims[claim as usize].has_copies = true;
            }
            texts.set_previous(&mut entries[at], previous);
        }
        *indexed = entries.len();
        pending.clear();
        *self.scanned.get_mut() = 0;
    }

    /// Whether look-ups have read entries for as long as indexing them takes.
    pub(crate) fn is_index_due(&self) -> bool {
        self.scanned.load(Ordering::Relaxed) > INDEXING * self.pending.len()
    }

    /// Whether there are entries that are not indexed.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// [`Memtable::find`] among the entries that are not indexed.
    pub(super) fn scan(&self, wanted: &Wanted, first_row: u32, hit: &mut dyn FnMut(u32, Stamp)) {
        // The keys that are looked for are indexed instead.
        self.scanned.fetch_add(self.pending.len() + INDEXING * wanted.keys.len(), Ordering::Relaxed);
        let sought = Sought::new(wanted);
        sought.each_likely(&self.pending, |at| {
            let entry = &self.entries[self.indexed + at];
            sought.each_row(entry.key, |row| {
                let text = wanted.text_of(row as usize);
                if self.texts.is_of(entry, entry.key, text) {
                    hit(first_row + row, self.stamp(entry));
                }
            });
        });
    }
}

/// The keys of a batch, to ask about each of many entries whether it is one of them.
struct Sought<'w, 'a> {
    wanted: &'w Wanted<'a>,
    /// Two bits a key, which rule out nearly all entries: to read one costs a line of cold memory.
    bits: Vec<u64>,
    /// The last row of each key, and of each row the one before it with the same key.
    index: Index,
    before: Vec<u32>,
}

impl<'w, 'a> Sought<'w, 'a> {
    fn new(wanted: &'w Wanted<'a>) -> Self {
        let keys = wanted.keys;
        let words = (keys.len() * BITS / 64).next_power_of_two();
        let (mut bits, mut index, mut before) = (vec![0; words], Index::default(), vec![NONE; keys.len()]);
        index.reserve(keys.len());
        for (row, key) in keys.iter().enumerate().filter(|(row, _)| wanted.forms[*row].is_usable()) {
            for (word, bit) in places_of(part_of(*key), words) {
                bits[word] |= bit;
            }
            let is_same = |other: u32| keys[other as usize] == *key;
            before[row] = index.put(key.lo, row as u32, is_same).unwrap_or(NONE);
        }
        Self { wanted, bits, index, before }
    }

    /// Pass the places of those parts that may be of a key that is looked for.
    fn each_likely(&self, parts: &[u32], mut each: impl FnMut(usize)) {
        let has = |(word, bit): (usize, u64)| self.bits[word] & bit != 0;
        let mut likely = [0_u16; AT_A_TIME];
        for (start, parts) in (0..).step_by(AT_A_TIME).zip(parts.chunks(AT_A_TIME)) {
            // No branch: which of them pass cannot be predicted.
            let mut count = 0;
            for (at, part) in (0..).zip(parts) {
                likely[count] = at;
                count += usize::from(has(places_of(*part, self.bits.len())[0]));
            }
            let likely = likely[..count].iter().map(|at| usize::from(*at));
            likely.filter(|at| has(places_of(parts[*at], self.bits.len())[1])).for_each(|at| each(start + at));
        }
    }

    fn each_row(&self, key: Key, mut each: impl FnMut(u32)) {
        let is_same = |row: u32| self.wanted.keys[row as usize] == key;
        let mut next = self.index.find(key.lo, is_same).unwrap_or(NONE);
        while next != NONE {
            each(next);
            next = self.before[next as usize];
        }
    }
}

/// A part of a key that the index does not use.
#[inline]
pub(super) fn part_of(key: Key) -> u32 {
    key.lo as u32
}

/// The words and the bits of a key's part: of its lower and of its upper end.
#[inline]
fn places_of(part: u32, words: usize) -> [(usize, u64); 2] {
    [part, part.reverse_bits()].map(|part| ((part >> 6) as usize & (words - 1), 1 << (part & 63)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Form;
    use crate::segment::format::Mark;
    use crate::segment::values::run::ValueRun;
    use crate::types::FrameKeys;
    use crate::wal::frame::{Frame, FrameKind};

    /// Keys of which many share all that the bits and the index ask first.
    fn key(number: u64) -> Key {
        Key { hi: number, lo: ((number % 40) << 32) | (number % 90) }
    }

    fn frame(kind: FrameKind, claim: u64, numbers: impl Iterator<Item = u64>) -> Frame {
        let mut keys = FrameKeys::default();
        for number in numbers {
            match number % 3 {
                0 => keys.push_text(key(number / 6), number.to_string().as_bytes()),
                _ => keys.uuids.push(key(number)),
            }
        }
        let (replaces, transaction, values) = (None, None, ValueRun::default());
        Frame { kind, sequence: claim, claim, started_at: 7, replaces, durable: 0, transaction, keys, values }
    }

    /// What a look-up for keys, texts and rows without an id finds.
    fn found(memtable: &Memtable) -> Vec<(u32, u64, Mark)> {
        let keys: Vec<Key> = (0..900).map(|row| key(if row % 3 == 0 { row / 6 } else { row })).collect();
        let form = |row: usize| [Form::Text, Form::Uuid, Form::Uuid, Form::Text, Form::Uuid, Form::Absent][row % 6];
        let forms: Vec<Form> = (0..900).map(form).collect();
        let texts: Vec<String> = (0..900).map(|row| row.to_string()).collect();
        let wanted = Wanted { keys: &keys, forms: &forms, text: &|row| texts[row as usize].as_bytes() };
        let mut found = Vec::new();
        memtable.find(&wanted, 100, &mut |row, stamp| found.push((row, stamp.claim, stamp.mark)));
        found.sort();
        found
    }

    #[test]
    fn entries_are_found_alike_before_and_after_they_are_indexed() {
        let mut memtable = Memtable::default();
        memtable.apply(&frame(FrameKind::Begin, 1, 0..300), 10);
        memtable.index_pending();
        // Half of these keys began before, some of them are completed by name, and one is new.
        memtable.apply(&frame(FrameKind::Begin, 2, 150..450), 20);
        assert!(memtable.has_pending());
        let before = found(&memtable);
        memtable.index_pending();
        assert!(!memtable.has_pending() && !before.is_empty());
        assert_eq!(found(&memtable), before);
        let of_row = |row: u32| before.iter().filter(|(found, ..)| *found == 100 + row).count();
        assert_eq!([1, 200, 300, 448, 460, 201, 203].map(of_row), [1, 2, 1, 1, 0, 2, 0]);
        // Another claim, which is scanned while an end by name puts all into the index.
        memtable.apply(&frame(FrameKind::Begin, 3, 400..500), 30);
        memtable.apply(&frame(FrameKind::CompleteKeys, 3, 450..501), 40);
        assert!(!memtable.has_pending());
        let ended = found(&memtable).iter().filter(|(_, claim, mark)| (*claim, *mark) == (3, Mark::Completed)).count();
        assert_eq!(ended, (450..501).filter(|row| row % 6 != 5).count());
    }

    #[test]
    fn indexing_is_due_once_looking_without_has_cost_as_much() {
        let mut memtable = Memtable::default();
        memtable.apply(&frame(FrameKind::Begin, 1, 0..300), 10);
        let look = |memtable: &Memtable, rows: usize| {
            let keys = vec![key(1); rows];
            let wanted = Wanted { keys: &keys, forms: &vec![Form::Uuid; rows], text: &|_| b"" };
            memtable.find(&wanted, 0, &mut |_, _| {});
        };
        for after in 0..INDEXING {
            assert!(!memtable.is_index_due(), "after {after} looks");
            look(&memtable, 1);
        }
        assert!(memtable.is_index_due());
        memtable.index_pending();
        assert!(!memtable.is_index_due());
        memtable.clear();
        assert!(!memtable.has_pending() && found(&memtable).is_empty());
        // As many keys as there are entries cost as much at once.
        memtable.apply(&frame(FrameKind::Begin, 2, 0..300), 20);
        look(&memtable, 299);
        assert!(memtable.is_index_due());
    }
}
