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

impl MemtableEntry {
    /// An entry without a text that is not indexed yet.
    #[inline]
    pub(super) fn of_uuid(key: Key, claim: u32, mark: Mark) -> Self {
        Self { key, tagged: tagged(claim, mark), link: NONE }
    }

    /// An entry with the text of this number that is not indexed yet.
    pub(super) fn of_text(key: Key, claim: u32, mark: Mark, text: u32) -> Self {
        Self { key, tagged: tagged(claim, mark) | TEXT, link: text }
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

    /// The number of its text.
    pub(super) fn text(&self) -> Option<usize> {
        (self.tagged & TEXT != 0).then_some(self.link as usize)
    }

    /// The entry of the same key before one without a text; [`NONE`] if it is the first.
    pub(super) fn previous(&self) -> u32 {
        self.link
    }

    /// Set the entry before one without a text.
    pub(super) fn set_previous(&mut self, previous: u32) {
        self.link = previous;
    }
}

fn tagged(claim: u32, mark: Mark) -> u32 {
    debug_assert!(claim < 1 << CLAIM_BITS, "a log has fewer claims than entries fit into memory");
    claim | (mark as u32) << CLAIM_BITS
}

#[cfg(test)]
mod tests {
    use super::super::texts::Texts;
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
