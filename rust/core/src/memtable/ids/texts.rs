//! The texts of entries whose ids are no UUIDs, in pieces: more of them move none, and the next log
//! uses the same memory.

use super::NONE;
use super::entry::MemtableEntry;
use crate::key::Key;
use crate::segment::format::Mark;
use crate::segment::run::{HeldTexts, TextEntry};
use crate::sys::memory::Zeroed;
use crate::sys::prefetch;

/// Bytes of a piece. No text crosses its end, and none is longer.
const PIECE: usize = if cfg!(feature = "small") { 1 << 16 } else { 1 << 18 };
/// Pieces that are kept for the next log.
const MOST_KEPT: usize = 64;

/// The text of an entry.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    /// The entry of the same key before this one.
    previous: u32,
    length: u16,
}

#[derive(Debug, Default)]
pub(super) struct Texts {
    places: Vec<Place>,
    pieces: Vec<Zeroed>,
    /// Where the last text ends.
    end: usize,
}

impl Texts {
    /// Forget all texts, and keep memory for others.
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.pieces.truncate(MOST_KEPT);
        self.end = 0;
    }

    /// What they take, in bytes, with what putting them into segments takes beside them.
    pub(super) fn bytes(&self) -> usize {
        self.end + self.places.len() * (size_of::<Place>() + size_of::<TextEntry>())
    }

    /// Make room for `more` texts.
    pub(super) fn reserve(&mut self, more: usize) {
        if self.places.capacity() - self.places.len() < more {
            self.places.reserve_exact(more.max(self.places.len() / 4));
        }
    }

    /// An entry with this text that is not indexed yet.
    pub(super) fn entry(&mut self, key: Key, text: &[u8], claim: u32, mark: Mark) -> MemtableEntry {
        let number = self.places.len() as u32;
        let start = if self.end % PIECE + text.len() > PIECE { self.end.next_multiple_of(PIECE) } else { self.end };
        if start / PIECE == self.pieces.len() {
            self.pieces.push(Zeroed::of(PIECE));
        }
        self.pieces[start / PIECE][start % PIECE..][..text.len()].copy_from_slice(text);
        self.places.push(Place { start: start as u32, previous: NONE, length: text.len() as u16 });
        self.end = start + text.len();
        MemtableEntry::of_text(key, claim, mark, number)
    }

    /// Where the text of an entry starts, and its length; none for a UUID.
    #[inline]
    pub(super) fn place(&self, entry: &MemtableEntry) -> Option<(u64, u32)> {
        let place = self.places.get(entry.text()?)?;
        Some((u64::from(place.start), u32::from(place.length)))
    }

    /// The text of an entry; none for a UUID.
    #[inline]
    pub(super) fn of(&self, entry: &MemtableEntry) -> Option<&[u8]> {
        self.at(self.place(entry)?)
    }

    #[inline]
    fn at(&self, (start, length): (u64, u32)) -> Option<&[u8]> {
        let start = start as usize;
        self.pieces.get(start / PIECE)?.get(start % PIECE..start % PIECE + length as usize)
    }

    /// Whether an entry is of this key, and of this text if it is not a UUID.
    #[inline]
    pub(super) fn is_of(&self, entry: &MemtableEntry, key: Key, text: Option<&[u8]>) -> bool {
        entry.key == key && self.of(entry) == text
    }

    /// The entry of the same key before this one; none if it is the first.
    #[inline]
    pub(super) fn previous(&self, entry: &MemtableEntry) -> Option<u32> {
        let previous = entry.text().map_or_else(|| entry.previous(), |text| self.places[text].previous);
        (previous != NONE).then_some(previous)
    }

    pub(super) fn set_previous(&mut self, entry: &mut MemtableEntry, previous: Option<u32>) {
        let previous = previous.unwrap_or(NONE);
        match entry.text() {
            Some(text) => self.places[text].previous = previous,
            None => entry.set_previous(previous),
        }
    }
}

impl HeldTexts for Texts {
    fn text(&self, entry: &TextEntry) -> &[u8] {
        let start = entry.start as usize;
        &self.pieces[start / PIECE][start % PIECE..][..entry.length as usize]
    }

    fn fetch(&self, entry: &TextEntry) {
        let start = entry.start as usize;
        if let Some(piece) = self.pieces.get(start / PIECE) {
            prefetch::line(piece, start % PIECE);
            prefetch::line(piece, start % PIECE + entry.length as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_come_back_whole_also_after_others() {
        let key = Key { hi: 1, lo: 2 };
        let lengths = [0, 1, 65, 65_535, 65_535, 65_535, 2, 65_535, 0, 65_535, 1000];
        let texts: Vec<Vec<u8>> =
            lengths.iter().map(|length| (0..*length).map(|at| (at % 251) as u8).collect()).collect();
        let mut memory = Texts::default();
        for round in 0..3 {
            let entries: Vec<_> = texts.iter().map(|text| memory.entry(key, text, 7, Mark::Open)).collect();
            for (entry, text) in entries.iter().zip(&texts) {
                assert!(memory.of(entry) == Some(&text[..]), "round {round}");
            }
            let bytes = texts.iter().map(Vec::len).sum::<usize>();
            assert!((bytes..bytes + 4 * PIECE).contains(&memory.bytes()));
            memory.clear();
            assert_eq!(memory.bytes(), 0);
            assert!(memory.of(&entries[2]).is_none() && memory.pieces.len() > 1);
        }
    }

    #[test]
    fn text_that_ends_with_its_piece_is_followed_by_the_next() {
        let (key, mut memory) = (Key { hi: 1, lo: 2 }, Texts::default());
        let whole = vec![3; PIECE / 8];
        let entries: Vec<_> = (0..17).map(|_| memory.entry(key, &whole, 0, Mark::Open)).collect();
        assert!(entries.iter().all(|entry| memory.of(entry) == Some(&whole[..])));
        assert_eq!(memory.pieces.len(), 3);
    }
}
