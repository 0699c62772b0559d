//! One key under one claim. Entries are the largest part of a writer's memory: each takes 24 bytes.

use super::NONE;
use crate::key::Key;
use crate::segment::format::Mark;

/// Bits of the claim's index. Above them stand the mark, and whether the entry has a text.
const CLAIM_BITS: u32 = 29;
const TEXT: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
pub(super) struct MemtableEntry {
    pub(super) key: Key,
    tagged: u32,
    /// The entry of the same key before this one, once it is indexed; with a text, the number of
    /// that, which stands beside it there.
    link: u32,
}

/// The text of an entry.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    previous: u32,
    length: u16,
}

/// The texts of entries whose ids are no UUIDs.
#[derive(Debug, Default)]
pub(super) struct Texts {
    places: Vec<Place>,
    heap: Vec<u8>,
}

impl MemtableEntry {
    /// An entry without a text that is not indexed yet.
    #[inline]
    pub(super) fn of_uuid(key: Key, claim: u32, mark: Mark) -> Self {
        Self { key, tagged: tagged(claim, mark), link: NONE }
    }

    /// Index into the claims.
    #[inline]
    pub(super) fn claim(&self) -> u32 {
        self.tagged & ((1 << CLAIM_BITS) - 1)
    }

    #[inline]
    pub(super) fn mark(&self) -> Mark {
        match (self.tagged & !TEXT) >> CLAIM_BITS {
            0 => Mark::Open,
            1 => Mark::Released,
            _ => Mark::Completed,
        }
    }

    /// A stronger mark outweighs the present one.
    pub(super) fn raise(&mut self, mark: Mark) {
        self.tagged = tagged(self.claim(), self.mark().max(mark)) | self.tagged & TEXT;
    }

    fn text(&self) -> Option<usize> {
        (self.tagged & TEXT != 0).then_some(self.link as usize)
    }
}

fn tagged(claim: u32, mark: Mark) -> u32 {
    debug_assert!(claim < 1 << CLAIM_BITS, "a log has fewer claims than entries fit into memory");
    claim | (mark as u32) << CLAIM_BITS
}

impl Texts {
    /// An entry with this text that is not indexed yet.
    pub(super) fn entry(&mut self, key: Key, text: &[u8], claim: u32, mark: Mark) -> MemtableEntry {
        let link = self.places.len() as u32;
        self.places.push(Place { start: self.heap.len() as u32, previous: NONE, length: text.len() as u16 });
        self.heap.extend_from_slice(text);
        MemtableEntry { key, tagged: tagged(claim, mark) | TEXT, link }
    }

    /// The text of an entry; none for a UUID.
    pub(super) fn of(&self, entry: &MemtableEntry) -> Option<&[u8]> {
        let place = self.places.get(entry.text()?)?;
        self.heap.get(place.start as usize..place.start as usize + usize::from(place.length))
    }

    /// Whether an entry is of this key, and of this text if it is not a UUID.
    #[inline]
    pub(super) fn is_of(&self, entry: &MemtableEntry, key: Key, text: Option<&[u8]>) -> bool {
        entry.key == key && self.of(entry) == text
    }

    /// The entry of the same key before this one; none if it is the first.
    #[inline]
    pub(super) fn previous(&self, entry: &MemtableEntry) -> Option<u32> {
        let previous = entry.text().map_or(entry.link, |text| self.places[text].previous);
        (previous != NONE).then_some(previous)
    }

    pub(super) fn set_previous(&mut self, entry: &mut MemtableEntry, previous: Option<u32>) {
        let previous = previous.unwrap_or(NONE);
        match entry.text() {
            Some(text) => self.places[text].previous = previous,
            None => entry.link = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_an_entry_do_not_touch_each_other() {
        assert_eq!(size_of::<MemtableEntry>(), 24);
        let (key, mut texts) = (Key { hi: 1, lo: 2 }, Texts::default());
        texts.entry(key, b"before", 0, Mark::Open);
        for claim in [0, 7, (1 << CLAIM_BITS) - 1] {
            for text in [None, Some(&b"a text"[..])] {
                let mut entry = match text {
                    None => MemtableEntry::of_uuid(key, claim, Mark::Open),
                    Some(text) => texts.entry(key, text, claim, Mark::Open),
                };
                for (mark, expected) in
                    [(Mark::Open, Mark::Open), (Mark::Completed, Mark::Completed), (Mark::Released, Mark::Completed)]
                {
                    entry.raise(mark);
                    assert_eq!((entry.claim(), entry.mark(), texts.of(&entry)), (claim, expected, text));
                }
                for previous in [None, Some(0), Some(NONE - 1)] {
                    texts.set_previous(&mut entry, previous);
                    assert_eq!((texts.previous(&entry), texts.of(&entry)), (previous, text));
                }
                assert!(texts.is_of(&entry, key, text) && !texts.is_of(&entry, key, Some(b"another")));
                assert!(!texts.is_of(&entry, Key { hi: 1, lo: 3 }, text));
            }
        }
        let mut released = MemtableEntry::of_uuid(key, 3, Mark::Released);
        released.raise(Mark::Open);
        assert_eq!((released.mark(), released.claim()), (Mark::Released, 3));
    }
}
