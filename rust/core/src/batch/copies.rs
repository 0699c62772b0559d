//! Documents whose id stands earlier in the same batch.
//!
//! Nearly every id of a batch is new to it, so the rows that cannot be copies are sorted out by bits first: a row whose bit
//! is set already *may* be a copy. The keys of those few rows make a second, smaller bitmap; whoever meets it (a copy, the
//! first of its key, or a chance hit) is compared exactly.

use crate::key::{Form, Key};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::thread;

/// A row whose key stands in an earlier row of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Copy {
    /// The later row.
    pub row: u32,
    /// The first row of that key.
    pub first: u32,
}

/// Whether the texts of two rows are equal; asked only when their keys are.
pub type SameText<'a> = &'a (dyn Fn(u32, u32) -> bool + Sync);

/// Rows that are sorted out together.
const GROUP: usize = 256;

/// Below this, a second thread costs more than it saves.
const ROWS_PER_THREAD: usize = 1 << 16;

/// Bits of the first bitmap for each row, and of the second for each key that may repeat.
const BITS_PER_ROW: usize = 16;
const BITS_PER_SUSPECT: usize = 32;

/// The most that a bitmap grows to; beyond, more rows are compared exactly.
const MAX_BITS: usize = 1 << 31;

/// All copies in a batch, sorted by row. UUIDs are equal when their keys are, texts when `same_text` says so as well, and a
/// UUID never equals a text. Rows without a usable key are no copies.
pub fn copies(keys: &[Key], forms: &[Form], same_text: SameText<'_>, threads: usize) -> Vec<Copy> {
    let batch = Batch { keys, forms, same_text };
    let parts = threads.min(keys.len() / ROWS_PER_THREAD).clamp(1, 64);
    if parts == 1 {
        return batch.copies(Everything);
    }
    let mut all = thread::scope(|scope| {
        let part = |number| Part { number, parts: parts as u64 };
        let others: Vec<_> = (1..parts as u64).map(|number| scope.spawn(move || batch.copies(part(number)))).collect();
        let mut all = batch.copies(part(0));
        for other in others {
            match other.join() {
                Ok(copies) => all.extend(copies),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable();
    all
}

/// Which keys one thread looks at. Copies share a key, so they meet in one thread.
trait Share: std::marker::Copy {
    /// How many such shares make the whole.
    fn parts(self) -> usize;
    /// Whether a key belongs to this share.
    fn takes(self, key: Key) -> bool;
}

/// The only share there is.
#[derive(Clone, Copy)]
struct Everything;

impl Share for Everything {
    #[inline]
    fn parts(self) -> usize {
        1
    }

    #[inline]
    fn takes(self, _: Key) -> bool {
        true
    }
}

/// One of several shares.
#[derive(Clone, Copy)]
struct Part {
    number: u64,
    parts: u64,
}

impl Share for Part {
    #[inline]
    fn parts(self) -> usize {
        self.parts as usize
    }

    #[inline]
    fn takes(self, key: Key) -> bool {
        // Bits that neither bitmap uses.
        ((key.lo >> 40) * self.parts) >> 24 == self.number
    }
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

    #[inline]
    fn holds(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        self.words[word] >> bit & 1 == 1
    }

    /// Adds a hash; whether its bit was set before.
    #[inline]
    fn add(&mut self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        let before = self.words[word];
        self.words[word] = before | 1 << bit;
        before >> bit & 1 == 1
    }
}

/// The columns of the batch.
#[derive(Clone, Copy)]
struct Batch<'a> {
    keys: &'a [Key],
    forms: &'a [Form],
    same_text: SameText<'a>,
}

impl Batch<'_> {
    fn copies(self, share: impl Share) -> Vec<Copy> {
        let mut seen = Bitmap::new(self.keys.len() / share.parts(), BITS_PER_ROW);
        let suspects = self.rows_where(share, |key| seen.add(key.lo));
        if suspects.is_empty() {
            return Vec::new();
        }
        drop(seen);
        let mut suspected = Bitmap::new(suspects.len(), BITS_PER_SUSPECT);
        for row in suspects {
            suspected.add(self.keys[row as usize].hi);
        }
        self.exactly(&self.rows_where(share, |key| suspected.holds(key.hi)))
    }

    /// The rows of a share that pass a test, in order. The rows themselves decide nothing about the next instruction.
    #[inline]
    fn rows_where(&self, share: impl Share, mut test: impl FnMut(Key) -> bool) -> Vec<u32> {
        let mut rows = Vec::new();
        for (group, (keys, forms)) in self.keys.chunks(GROUP).zip(self.forms.chunks(GROUP)).enumerate() {
            let first = (group * GROUP) as u32;
            let mut mine = [0_u32; GROUP];
            let mut count = 0;
            for ((row, key), form) in (0..).zip(keys).zip(forms) {
                mine[count] = row;
                count += usize::from(form.is_usable() & share.takes(*key));
            }
            let mut passed = [0_u32; GROUP];
            let mut passes = 0;
            for &row in &mine[..count] {
                passed[passes] = first + row;
                passes += usize::from(test(keys[row as usize]));
            }
            rows.extend_from_slice(&passed[..passes]);
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
