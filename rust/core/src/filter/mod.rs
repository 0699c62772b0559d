//! A split-block Bloom filter: one cache line tells whether a key can be in a segment at all.
//!
//! A filter is blocks of 32 bytes, each eight little-endian lanes of 32 bits. A key sets one bit in
//! every lane of one block. The block follows the order of the keys, so that sorted keys fill a
//! filter from front to back.

mod probe;
mod simd;
#[cfg(target_arch = "x86_64")]
mod simd_avx2;
#[cfg(target_arch = "aarch64")]
mod simd_neon;

pub use probe::Pages;
pub use simd::probe;

use crate::key::Key;
use crate::sys::prefetch;

/// Bytes in a block.
pub const BLOCK_BYTES: usize = 32;

/// Bytes in a page, the unit in which a filter is verified.
pub const PAGE_BYTES: u64 = 4096;

const BLOCK_BITS: u64 = 8 * BLOCK_BYTES as u64;

/// One odd multiplier a lane; the top five bits of the product choose the lane's bit. Part of the
/// format.
pub(crate) const SALTS: [u32; 8] =
    [0x9e37_79b1, 0x6c8e_9cf5, 0xd1b5_4a33, 0x3c79_ac4b, 0xb492_b66f, 0x5851_f42d, 0xe703_7ed1, 0x2545_f491];

/// How many blocks a filter of `keys` keys needs; at least one.
pub fn blocks_for(keys: u64, bits_per_key: u32) -> u64 {
    keys.saturating_mul(u64::from(bits_per_key)).div_ceil(BLOCK_BITS).max(1)
}

/// The block of a key in a filter of `blocks` blocks. Grows with the key.
#[inline]
pub fn block_of(key: Key, blocks: u64) -> u64 {
    ((u128::from(key.hi) * u128::from(blocks)) >> 64) as u64
}

/// The blocks of a filter, without an incomplete one at its end.
#[inline]
fn blocks_in(data: &[u8]) -> u64 {
    (data.len() / BLOCK_BYTES) as u64
}

/// The bit of each lane that a key sets.
#[inline]
fn lanes_of(key: Key) -> [u32; 8] {
    SALTS.map(|salt| 1 << ((key.lo as u32).wrapping_mul(salt) >> 27))
}

/// Puts a key into a filter. (A filter without a block takes nothing, and rules nothing out.)
#[inline]
pub fn insert(data: &mut [u8], key: Key) {
    let start = block_of(key, blocks_in(data)) as usize * BLOCK_BYTES;
    if let Some(block) = data.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        set_bits(block, key);
    }
}

/// Fetches the block of a key.
#[inline]
pub(crate) fn fetch(data: &[u8], key: Key) {
    prefetch::line(data, block_of(key, blocks_in(data)) as usize * BLOCK_BYTES);
}

/// Puts keys into a filter, as [`insert`] does; fastest if they are sorted.
pub fn insert_all(data: &mut [u8], keys: impl Iterator<Item = Key>) {
    let blocks = blocks_in(data);
    simd::insert_all(data, 0, blocks, keys);
}

/// [`insert_all`] for the part `data` of a filter of `blocks` blocks that begins with its block
/// `first`; keys of other parts are left out.
pub fn insert_part(data: &mut [u8], first: u64, blocks: u64, keys: impl Iterator<Item = Key>) {
    simd::insert_all(data, first, blocks, keys);
}

/// [`insert_all`], compiled for the instructions of its caller.
#[inline(always)]
#[expect(clippy::inline_always, reason = "is compiled again for each instruction set")]
fn insert_each(data: &mut [u8], first: u64, count: u64, keys: impl Iterator<Item = Key>) {
    let blocks = data.as_chunks_mut::<BLOCK_BYTES>().0;
    for key in keys {
        if let Some(block) = blocks.get_mut(block_of(key, count).wrapping_sub(first) as usize) {
            set_bits(block, key);
        }
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "is compiled again for each instruction set, as part of its loop")]
fn set_bits(block: &mut [u8; BLOCK_BYTES], key: Key) {
    for (lane, bit) in block.as_chunks_mut::<4>().0.iter_mut().zip(lanes_of(key)) {
        *lane = (u32::from_le_bytes(*lane) | bit).to_le_bytes();
    }
}

/// Whether a key can be among those that set the bits of its block.
#[inline]
pub fn contains_block(block: &[u8; BLOCK_BYTES], key: Key) -> bool {
    let lanes = block.as_chunks::<4>().0.iter().map(|lane| u32::from_le_bytes(*lane));
    lanes.zip(lanes_of(key)).fold(0, |missing, (lane, bit)| missing | (!lane & bit)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Codec;
    use proptest::prelude::*;

    fn contains(data: &[u8], key: Key) -> bool {
        let start = block_of(key, blocks_in(data)) as usize * BLOCK_BYTES;
        contains_block(data[start..].first_chunk().unwrap(), key)
    }

    fn key(number: u64) -> Key {
        Codec::new(&[5; 32]).mix(u128::from(number).to_be_bytes())
    }

    #[test]
    fn few_keys_that_are_not_there_pass() {
        // Per thousand probes, for each size a filter may have.
        for (bits_per_key, at_most) in [(8, 35), (10, 15), (12, 8), (16, 3)] {
            let mut data = vec![0; blocks_for(20_000, bits_per_key) as usize * BLOCK_BYTES];
            (0..20_000).for_each(|number| insert(&mut data, key(number)));
            let passed = (1_000_000..1_100_000).filter(|&number| contains(&data, key(number))).count();
            assert!(passed <= at_most * 100, "{passed} of 100000 at {bits_per_key} bits a key");
        }
    }

    #[test]
    fn blocks_follow_the_order_of_the_keys() {
        let mut keys: Vec<_> = (0..1000).map(key).collect();
        keys.sort_unstable();
        let blocks: Vec<_> = keys.iter().map(|&key| block_of(key, 77)).collect();
        assert!(blocks.is_sorted());
        assert_eq!((blocks[0], blocks[999]), (0, 76));
    }

    #[test]
    fn a_filter_has_at_least_one_block() {
        assert_eq!(blocks_for(0, 10), 1);
        assert_eq!(blocks_for(256, 10), 10);
        assert_eq!(blocks_for(257, 10), 11);
    }

    #[test]
    fn the_bits_of_a_key_stay_where_they_are() {
        // They are on disk: a change here is a new format version.
        let mut data = vec![0; 32];
        insert(&mut data, Key { hi: 0, lo: 0x0123_4567_89ab_cdef });
        let lanes: Vec<u32> = data.chunks_exact(4).map(|lane| u32::from_le_bytes(lane.try_into().unwrap())).collect();
        assert_eq!(lanes, [4, 16, 25, 3, 10, 8, 0, 24].map(|bit| 1 << bit));
    }

    proptest! {
        #[test]
        fn every_key_that_was_put_in_passes(keys: Vec<(u64, u64)>, blocks in 1..50_usize) {
            let empty = vec![0; blocks * BLOCK_BYTES + 5];
            let (mut data, mut together) = (empty.clone(), empty);
            let keys: Vec<_> = keys.into_iter().map(|(hi, lo)| Key { hi, lo }).collect();
            for &key in &keys {
                insert(&mut data, key);
            }
            prop_assert!(keys.iter().all(|&key| contains(&data, key)));
            insert_all(&mut together, keys.iter().copied());
            prop_assert_eq!(&data, &together);
            let (mut parts, middle) = (vec![0; blocks * BLOCK_BYTES], blocks / 2);
            let (lower, upper) = parts.split_at_mut(middle * BLOCK_BYTES);
            insert_part(lower, 0, blocks as u64, keys.iter().copied());
            insert_part(upper, middle as u64, blocks as u64, keys.iter().copied());
            prop_assert_eq!(&data[..parts.len()], &parts);
        }
    }
}
