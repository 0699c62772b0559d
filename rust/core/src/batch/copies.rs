//! Documents whose id stands earlier in the same batch.
//!
//! Nearly every id of a batch is new to it, so the rows that cannot be copies are sorted out by bits first: a row whose bit
//! is set already *may* be a copy. The keys of those few rows make a second, smaller bitmap; whoever meets it (a copy, the
//! first of its key, or a chance hit) is compared exactly.

use crate::key::{Form, Key};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// A row whose key stands in an earlier row of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Copy {
    /// The later row.
    pub row: u32,
    /// The first row of that key.
    pub first: u32,
}

/// Whether the texts of two rows are equal; asked only when their keys are.
pub type SameText<'a> = &'a dyn Fn(u32, u32) -> bool;

/// Rows that are sorted out together: as many as a word has bits.
const GROUP: usize = 64;

/// Bits of the first bitmap for each row: few enough to stay in a cache.
const BITS_PER_ROW: usize = 16;

/// Bits of the second bitmap for each key that may repeat.
const BITS_PER_SUSPECT: usize = 64;

/// The most that a bitmap grows to; beyond, more rows are compared exactly.
const MAX_BITS: usize = 1 << 31;

/// All copies in a batch, sorted by row. UUIDs are equal when their keys are, texts when `same_text` says so as well, and a
/// UUID never equals a text. Rows without a usable key are no copies.
///
/// It asks no history, so it can run beside the look-up.
pub fn copies(keys: &[Key], forms: &[Form], same_text: SameText<'_>) -> Vec<Copy> {
    Batch { keys, forms, same_text }.copies()
}

/// A set of hashes, one bit each, that is sometimes wrong about what it holds and never about what it does not.
struct Bitmap {
    words: Vec<u64>,
    mask: u64,
}

impl Bitmap {
    fn new(entries: usize, bits_per_entry: usize) -> Self {
        let bits = entries.saturating_mul(bits_per_entry).clamp(64, MAX_BITS).next_power_of_two();
        Self { words: vec![0; bits / 64], mask: bits as u64 - 1 }
    }

    #[inline]
    fn place(&self, hash: u64) -> (usize, u32) {
        let bit = hash & self.mask;
        ((bit / 64) as usize, (bit % 64) as u32)
    }

    /// Whether a hash may be there.
    #[inline]
    fn holds(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        self.words[word] >> bit & 1 == 1
    }

    /// Adds a hash; whether it may have been there before.
    #[inline]
    fn add(&mut self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        let before = self.words[word];
        self.words[word] = before | 1 << bit;
        before >> bit & 1 == 1
    }
}

/// Which rows of a group are usable, as bits.
#[inline]
fn usable_in(forms: &[Form]) -> u64 {
    // Nearly always all are, and whether all are takes one comparison for many forms.
    if forms.len() == GROUP && forms.iter().fold(true, |all, form| all & form.is_usable()) {
        return u64::MAX;
    }
    bits(forms.iter().map(|form| form.is_usable()))
}

/// Up to 64 answers as bits, the first in the lowest.
#[inline]
fn bits(answers: impl Iterator<Item = bool>) -> u64 {
    (0..u64::BITS).zip(answers).fold(0, |bits, (place, answer)| bits | u64::from(answer) << place)
}

/// The places of the bits that are set, in order.
#[inline]
fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (place < GROUP).then_some(place)
    })
}

/// The columns of the batch.
#[derive(Clone, Copy)]
struct Batch<'a> {
    keys: &'a [Key],
    forms: &'a [Form],
    same_text: SameText<'a>,
}

impl Batch<'_> {
    fn copies(self) -> Vec<Copy> {
        let mut seen = Bitmap::new(self.keys.len(), BITS_PER_ROW);
        let suspects = self.rows_where(|key| seen.add(key.lo));
        if suspects.is_empty() {
            return Vec::new();
        }
        drop(seen);
        let mut suspected = Bitmap::new(suspects.len(), BITS_PER_SUSPECT);
        for row in suspects {
            suspected.add(self.keys[row as usize].hi);
        }
        self.exactly(&self.rows_where(|key| suspected.holds(key.hi)))
    }

    /// The usable rows that pass a test, in order. A group's answers are gathered as bits, so that no row's answer
    /// has to be awaited before the next row's question.
    #[inline]
    fn rows_where(&self, mut test: impl FnMut(Key) -> bool) -> Vec<u32> {
        let mut rows = Vec::new();
        for (group, (keys, forms)) in self.keys.chunks(GROUP).zip(self.forms.chunks(GROUP)).enumerate() {
            let usable = usable_in(forms);
            let passed = if usable == u64::MAX {
                bits(keys.iter().map(|key| test(*key)))
            } else {
                places(usable).fold(0, |passed, place| passed | u64::from(test(keys[place])) << place)
            };
            rows.extend(places(passed).map(|place| (group * GROUP + place) as u32));
        }
        rows
    }

    /// The copies among candidates, which hold the first row of each key that repeats.
    fn exactly(&self, candidates: &[u32]) -> Vec<Copy> {
        let mut firsts = HashTable::with_capacity(candidates.len());
        let mut copies = Vec::new();
        for &row in candidates {
            let hash = |row: &u32| self.keys[*row as usize].lo;
            match firsts.entry(hash(&row), |&first| self.are_equal(first, row), hash) {
                Entry::Occupied(first) => copies.push(Copy { row, first: *first.get() }),
                Entry::Vacant(place) => {
                    place.insert(row);
                }
            }
        }
        copies
    }

    fn are_equal(&self, first: u32, row: u32) -> bool {
        let (a, b) = (first as usize, row as usize);
        self.keys[a] == self.keys[b]
            && self.forms[a] == self.forms[b]
            && (self.forms[a] == Form::Uuid || (self.same_text)(first, row))
    }
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
