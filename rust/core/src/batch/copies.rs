//! Documents whose id stands earlier in the same batch.
//!
//! Nearly every id of a batch is new to it, so the rows that cannot be copies are sorted out by bits first: a row whose bit
//! is set already *may* be a copy. The keys of those few rows make a second, smaller bitmap; whoever meets it (a copy, the
//! first of its key, or a chance hit) is compared exactly.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

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
    let sieve = Sieve::new(keys.len(), false);
    let mut suspects = Vec::new();
    sieve.see(keys, forms, 0, &mut suspects);
    copies_among(keys, forms, same_text, &suspects)
}

/// The copies in a batch whose rows a [`Sieve`] has seen: `suspects` are the rows it named.
pub fn copies_among(keys: &[Key], forms: &[Form], same_text: SameText<'_>, suspects: &[u32]) -> Vec<Copy> {
    if suspects.is_empty() {
        return Vec::new();
    }
    let suspected = Bitmap::new(suspects.len(), BITS_PER_SUSPECT);
    for row in suspects {
        suspected.add(keys[*row as usize].hi);
    }
    let mut candidates = Vec::new();
    rows_where(keys, forms, 0, |key| suspected.holds(key.hi), &mut candidates);
    Batch { keys, forms, same_text }.exactly(&candidates)
}

/// The first pass: names the rows whose hash was there before. Chunks may be seen in any order and by several threads; of
/// the rows of one key all but one are named, whichever comes first.
#[derive(Debug)]
pub struct Sieve {
    seen: Bitmap,
    is_shared: bool,
}

impl Sieve {
    /// For a batch of so many rows; `is_shared` if several threads will see parts of it.
    pub fn new(rows: usize, is_shared: bool) -> Self {
        Self { seen: Bitmap::new(rows, BITS_PER_ROW), is_shared }
    }

    /// See a chunk whose first row is `first_row` of the batch.
    pub fn see(&self, keys: &[Key], forms: &[Form], first_row: u32, suspects: &mut Vec<u32>) {
        if self.is_shared {
            rows_where(keys, forms, first_row, |key| self.seen.add_shared(key.lo), suspects);
        } else {
            rows_where(keys, forms, first_row, |key| self.seen.add(key.lo), suspects);
        }
    }
}

/// A set of hashes, one bit each, that is sometimes wrong about what it holds and never about what it does not.
#[derive(Debug)]
struct Bitmap {
    words: Vec<AtomicU64>,
    mask: u64,
}

impl Bitmap {
    fn new(entries: usize, bits_per_entry: usize) -> Self {
        let bits = entries.saturating_mul(bits_per_entry).clamp(64, MAX_BITS).next_power_of_two();
        Self { words: std::iter::repeat_with(AtomicU64::default).take(bits / 64).collect(), mask: bits as u64 - 1 }
    }

    #[inline]
    fn place(&self, hash: u64) -> (&AtomicU64, u32) {
        let bit = hash & self.mask;
        (&self.words[(bit / 64) as usize], (bit % 64) as u32)
    }

    /// Whether a hash may be there.
    #[inline]
    fn holds(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        word.load(Relaxed) >> bit & 1 == 1
    }

    /// Adds a hash; whether it may have been there before. For one thread: a load and a store, no locked instruction.
    #[inline]
    fn add(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        let before = word.load(Relaxed);
        word.store(before | 1 << bit, Relaxed);
        before >> bit & 1 == 1
    }

    /// As [`Bitmap::add`], for several threads at once.
    #[inline]
    fn add_shared(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        word.fetch_or(1 << bit, Relaxed) >> bit & 1 == 1
    }
}

/// The usable rows that pass a test, in order. A group's answers are gathered as bits, so that no row's answer has to be
/// awaited before the next row's question.
#[inline]
fn rows_where(keys: &[Key], forms: &[Form], first_row: u32, mut test: impl FnMut(Key) -> bool, rows: &mut Vec<u32>) {
    for (group, (keys, forms)) in keys.chunks(GROUP).zip(forms.chunks(GROUP)).enumerate() {
        let usable = usable_in(forms);
        let passed = if usable == u64::MAX {
            bits(keys.iter().map(|key| test(*key)))
        } else {
            places(usable).fold(0, |passed, place| passed | u64::from(test(keys[place])) << place)
        };
        rows.extend(places(passed).map(|place| first_row + (group * GROUP + place) as u32));
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
