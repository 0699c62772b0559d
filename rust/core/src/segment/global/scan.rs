//! Comparing entries of the index with a tag, 64 at a time and without a branch on any of them.

/// Bytes of the entries that are compared in one step.
pub(super) const WINDOW: usize = WORDS * 8;
/// Words of four entries, compared as lanes of 16 bits.
const WORDS: usize = 16;

/// The places of the entries that have this tag above their lowest `slot_bits` bits, in any order.
#[inline]
pub(super) fn with_tag(entries: &[u8; WINDOW], slot_bits: u32, tag: u16) -> impl Iterator<Item = usize> {
    let in_all_lanes = |lane: u16| u64::from(lane) * 0x0001_0001_0001_0001;
    let (tags, tag_bits) = (in_all_lanes(tag << slot_bits), in_all_lanes(u16::MAX << slot_bits));
    let below_top = in_all_lanes(0x7fff);
    let words = entries.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    // Bit `w` of a lane tells whether the entry in this lane of word `w` has the tag.
    let mut same = words.enumerate().fold(0, |same, (word, lanes)| {
        let other = (lanes ^ tags) & tag_bits;
        // The top bit of a lane is set where any bit of it is.
        let differs = ((other & below_top) + below_top) | other;
        same | (!differs & !below_top) >> (15 - word)
    });
    std::iter::from_fn(move || {
        let bit = (same != 0).then(|| same.trailing_zeros() as usize)?;
        same &= same - 1;
        Some(bit % WORDS * 4 + bit / WORDS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_with_the_tag_are_found_and_no_others(
            slot_bits in 0u32..=12,
            tag: u16,
            others in prop::collection::vec((0u16..4, any::<u16>()), 64),
        ) {
            let tag = tag >> slot_bits;
            let entry = |(kind, other): &(u16, u16)| match kind {
                0 => tag << slot_bits | other & ((1 << slot_bits) - 1),
                // Nearly the tag's.
                1 => tag << slot_bits ^ 1 << (other % 16),
                _ => *other,
            };
            let entries: Vec<u16> = others.iter().map(entry).collect();
            let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
            let mut found: Vec<usize> = with_tag(bytes.first_chunk().unwrap(), slot_bits, tag).collect();
            found.sort_unstable();
            prop_assert_eq!(found, (0..64).filter(|at| entries[*at] >> slot_bits == tag).collect::<Vec<_>>());
        }
    }
}
