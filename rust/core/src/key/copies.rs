//! Documents whose id stands earlier in the same batch.
//!
//! Nearly every id of a batch is new to it. So a first pass filters by bits, from a few bytes a
//! row: a row whose bits are all set already *may* be a copy. The bits of those few rows make a
//! second, smaller bitmap. A row that hits it (a copy, the first of its key, or a chance hit) is
//! compared exactly.

use std::cell::Cell;

use super::{Form, Key};
use crate::sys::scratch;
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

/// The part of a key that the filter needs: 32 of its bits, or [`NO_TAG`].
pub type Tag = u32;

/// The tag of a row without a usable key.
pub const NO_TAG: Tag = 0;

/// Whether the texts of two rows are equal; asked only when their keys are.
pub type SameText<'a> = &'a dyn Fn(u32, u32) -> bool;

/// Bits of the first bitmap for each row: few enough to stay in a cache.
const BITS_PER_ROW: usize = 16;

/// Bits of the second bitmap for each key that may repeat.
const BITS_PER_SUSPECT: usize = 64;

/// Up to this number of suspects, each row is compared with each of them: that is faster than
/// asking the bitmap.
const FEW_SUSPECTS: usize = 8;

/// Rows that are compared with a suspect at once.
const AT_ONCE: usize = 32;

/// Rows to compare are few if they are at most one in this number.
const FEW: usize = 16;

/// Maximum words of a bitmap; a larger batch has more rows compared exactly.
const MAX_WORDS: usize = 1 << 25;

/// Writes the tags of some rows.
pub fn write_tags(keys: &[Key], forms: &[Form], tags: &mut [Tag]) {
    for ((tag, key), form) in tags.iter_mut().zip(keys).zip(forms) {
        // Bits that no filter uses.
        let bits = ((key.lo >> 32) as Tag).max(NO_TAG + 1);
        *tag = if form.is_usable() { bits } else { NO_TAG };
    }
}

/// All copies in a batch, sorted by row. UUIDs are equal when their keys are, texts when
/// `same_text` says so as well, and a UUID never equals a text. Rows without a usable key are no
/// copies.
pub fn copies(keys: &[Key], forms: &[Form], same_text: SameText<'_>) -> Vec<Copy> {
    let mut tags = vec![NO_TAG; keys.len()];
    write_tags(keys, forms, &mut tags);
    let suspects = Seen::new(&tags, 0).suspects;
    let candidates = alike(&tags, Suspected::new(&tags, &suspects).rows(&tags, 0));
    let of = |row: &u32| (keys[*row as usize], forms[*row as usize]);
    let (keys, forms): (Vec<_>, Vec<_>) = candidates.iter().map(of).unzip();
    copies_among(&Candidates { rows: &candidates, keys: &keys, forms: &forms }, same_text)
}

/// The first pass, over some rows of a batch; threads do several at once. It finds which tags the
/// rows hold, and which of them may repeat one of the same rows. All but the first row of each key
/// are among the suspects of its own rows or in [`Seen::again`] of others.
#[derive(Debug)]
pub struct Seen {
    tags: Bitmap,
    /// Rows whose key may stand in an earlier one of these rows.
    pub suspects: Vec<u32>,
}

impl Seen {
    /// `tags` are those of the rows from `first_row` on.
    pub fn new(tags: &[Tag], first_row: u32) -> Self {
        let mut seen = Bitmap::new(words_for(tags.len(), BITS_PER_ROW));
        let mut suspects = Vec::new();
        rows_where(tags, first_row, |tag| seen.add(tag), &mut suspects);
        Self { tags: seen, suspects }
    }

    /// The later rows whose key may stand in one of these rows. `tags` are those of the rows from
    /// `first_row` on.
    pub fn again(&self, tags: &[Tag], first_row: u32) -> Vec<u32> {
        let mut rows = Vec::new();
        rows_where(tags, first_row, |tag| self.tags.holds(tag), &mut rows);
        rows
    }
}

/// The keys of the suspects.
#[derive(Debug)]
pub struct Suspected(Tags);

#[derive(Debug)]
enum Tags {
    /// Few: every row is compared with each of them.
    Few(Vec<Tag>),
    /// As bits.
    Many(Bitmap),
}

impl Suspected {
    /// The suspects among the rows of a batch.
    pub fn new(tags: &[Tag], suspects: &[u32]) -> Self {
        let of_suspects = suspects.iter().map(|row| tags[*row as usize]);
        if suspects.len() <= FEW_SUSPECTS {
            return Self(Tags::Few(of_suspects.collect()));
        }
        let mut bitmap = Bitmap::new(words_for(suspects.len(), BITS_PER_SUSPECT));
        of_suspects.for_each(|tag| {
            bitmap.add(tag);
        });
        Self(Tags::Many(bitmap))
    }

    /// The second pass: the rows to compare exactly, in order. `tags` are those of the rows from
    /// `first_row` on.
    pub fn rows(&self, tags: &[Tag], first_row: u32) -> Vec<u32> {
        let mut rows = Vec::new();
        match &self.0 {
            Tags::Few(few) => rows_among(tags, first_row, few, &mut rows),
            Tags::Many(bitmap) => rows_where(tags, first_row, |tag| bitmap.holds(tag), &mut rows),
        }
        rows
    }
}

/// The rows whose tag is one of a few, in order. Compares many rows at once, because hardly any
/// matches. None of the few is [`NO_TAG`].
fn rows_among(tags: &[Tag], first_row: u32, few: &[Tag], rows: &mut Vec<u32>) {
    for (chunk, first) in tags.chunks(AT_ONCE).zip((first_row..).step_by(AT_ONCE)) {
        let is_among = few.iter().any(|one| chunk.iter().fold(0, |found, tag| found | u32::from(tag == one)) != 0);
        if is_among {
            rows.extend((first..).zip(chunk).filter(|(_, tag)| few.contains(tag)).map(|(row, _)| row));
        }
    }
}

/// The rows to compare exactly, without those whose tag no other row has. Where the rows are few,
/// comparing tags is faster than reading their ids again, each from another place. Where they are
/// many, they are returned unchanged.
pub fn alike(tags: &[Tag], rows: Vec<u32>) -> Vec<u32> {
    if rows.len() > tags.len() / FEW {
        return rows;
    }
    let mut by_tag: Vec<(Tag, u32)> = rows.iter().map(|row| (tags[*row as usize], *row)).collect();
    by_tag.sort_unstable();
    let same = by_tag.chunk_by(|(a, _), (b, _)| a == b).filter(|same| same.len() > 1);
    let mut alike: Vec<u32> = same.flatten().map(|(_, row)| *row).collect();
    alike.sort_unstable();
    alike
}

/// Rows to compare: each column has one element a row.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// Numbers of the rows in their batch, in rising order.
    pub rows: &'a [u32],
    /// Their keys.
    pub keys: &'a [Key],
    /// What their ids are.
    pub forms: &'a [Form],
}

/// The last pass: the copies among candidates, which hold the first row of each key that repeats.
pub fn copies_among(candidates: &Candidates<'_>, same_text: SameText<'_>) -> Vec<Copy> {
    let Candidates { rows, keys, forms } = *candidates;
    let are_equal = |a: usize, b: usize| {
        keys[a] == keys[b] && forms[a] == forms[b] && (forms[a] == Form::Uuid || same_text(rows[a], rows[b]))
    };
    let mut firsts = HashTable::with_capacity(rows.len());
    let mut copies = Vec::new();
    for at in 0..rows.len() {
        let hash = |at: &usize| keys[*at].lo;
        match firsts.entry(hash(&at), |&first| are_equal(first, at), hash) {
            Entry::Occupied(first) => copies.push(Copy { row: rows[at], first: rows[*first.get()] }),
            Entry::Vacant(place) => {
                place.insert(at);
            }
        }
    }
    copies
}

/// Bit patterns as different as possible, three bits each: the bits that a tag sets in its word.
static PATTERNS: [u64; 1024] = patterns();

const fn patterns() -> [u64; 1024] {
    let (mut patterns, mut at) = ([0; 1024], 0);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while at < patterns.len() {
        let mut pattern = 0_u64;
        while pattern.count_ones() < 3 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            pattern |= 1 << (state >> 58);
        }
        patterns[at] = pattern;
        at += 1;
    }
    patterns
}

/// Number of words of a bitmap for `entries` entries.
fn words_for(entries: usize, bits_per_entry: usize) -> usize {
    (entries.saturating_mul(bits_per_entry) / 64).clamp(1, MAX_WORDS).next_power_of_two()
}

thread_local! {
    static WORDS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// A set of tags, three bits of one word each. It may report a tag that it does not hold, but never
/// misses one that it holds.
#[derive(Debug)]
struct Bitmap {
    words: Vec<u64>,
}

impl Drop for Bitmap {
    fn drop(&mut self) {
        scratch::keep(&WORDS, std::mem::take(&mut self.words));
    }
}

impl Bitmap {
    fn new(words: usize) -> Self {
        Self { words: scratch::cleared(&WORDS, words, 0) }
    }

    #[inline]
    fn word_of(&self, tag: Tag) -> usize {
        ((u64::from(tag) * self.words.len() as u64) >> 32) as usize
    }

    #[inline]
    fn bits_of(tag: Tag) -> u64 {
        // The word is chosen by the upper bits.
        PATTERNS[tag as usize % PATTERNS.len()]
    }

    /// Whether the set may hold a tag.
    #[inline]
    fn holds(&self, tag: Tag) -> bool {
        let bits = Self::bits_of(tag);
        self.words[self.word_of(tag)] & bits == bits
    }

    /// Adds a tag; answers whether the set may have held it before.
    #[inline]
    fn add(&mut self, tag: Tag) -> bool {
        let (at, bits) = (self.word_of(tag), Self::bits_of(tag));
        let word = &mut self.words[at];
        let before = *word;
        *word = before | bits;
        before & bits == bits
    }
}

/// The usable rows that pass a test, in order.
#[inline]
fn rows_where(tags: &[Tag], first_row: u32, mut test: impl FnMut(Tag) -> bool, rows: &mut Vec<u32>) {
    for (row, tag) in (first_row..).zip(tags) {
        // Hardly any row passes: the branch is always predicted.
        if test(*tag) && *tag != NO_TAG {
            rows.push(row);
        }
    }
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
