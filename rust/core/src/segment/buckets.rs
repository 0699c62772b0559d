//! Buckets of sorted keys: their number, and the bytes of a key that they spare.

use crate::key::Key;

/// Entries a directory bucket holds on average.
pub(crate) const BUCKET: u64 = 32;

/// Bits of the directory for `count` entries.
pub(crate) fn directory_bits(count: u64) -> u8 {
    (count / BUCKET).checked_ilog2().unwrap_or(0) as u8
}

/// Bits of the directory for `count` keys of which the section keeps [`key_bytes`]. More and
/// smaller buckets take less room where they spare each key a byte.
pub(crate) fn key_directory_bits(count: u64) -> u8 {
    let bits = directory_bits(count);
    let wider = bits.next_multiple_of(8);
    let bytes = |bits: u8| (4 << bits) + count * key_bytes(bits) as u64;
    if bytes(wider) < bytes(bits) { wider } else { bits }
}

/// Bytes of a key in its section: whole bytes that the directory's bucket implies are left out.
pub(crate) fn key_bytes(bits: u8) -> usize {
    16 - usize::from(bits / 8)
}

/// A key as 16 bytes in key order (big-endian), of which a section keeps the last ones.
#[inline]
pub(crate) fn ordered_bytes(key: Key) -> [u8; 16] {
    ((u128::from(key.hi) << 64) | u128::from(key.lo)).to_be_bytes()
}

/// The bucket of a key whose upper half is `hi`.
#[inline]
pub(crate) fn bucket_of(hi: u64, bits: u8) -> usize {
    if bits == 0 { 0 } else { (hi >> (64 - bits)) as usize }
}

/// The whole key, from the last bytes that a section keeps: the missing upper bytes are those of
/// the number of its bucket.
#[inline]
pub(crate) fn whole_key(stored: &[u8], bucket: usize, bits: u8) -> Key {
    let width = stored.len().min(16);
    key_of(&stored[..width], upper_bytes(bucket, bits, width))
}

/// What a bucket's keys, of which the section keeps `width` bytes, have in their upper half
/// besides.
#[inline]
pub(crate) fn upper_bytes(bucket: usize, bits: u8, width: usize) -> u64 {
    let upper = (bucket as u64).checked_shl(64 - u32::from(bits.min(64))).unwrap_or(0);
    upper & (!0u64).checked_shl(width.saturating_sub(8) as u32 * 8).unwrap_or(0)
}

/// The key of which a section keeps these bytes, at most 16. Two loads of eight bytes that overlap
/// are several times as fast as a copy whose length is not known.
#[inline]
pub(crate) fn key_of(stored: &[u8], upper: u64) -> Key {
    let (Some(first), Some(last)) = (stored.first_chunk(), stored.last_chunk()) else {
        // No section keeps fewer than eight; a damaged header may say so.
        return Key { hi: upper, lo: stored.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)) };
    };
    let missing = 8 * (16 - stored.len()) as u32;
    let hi = u64::from_be_bytes(*first).checked_shr(missing).unwrap_or(0);
    Key { hi: hi | upper, lo: u64::from_be_bytes(*last) }
}

/// The keys of a bucket, of which the section keeps `width` bytes each. Most sections keep one of
/// these widths, and a loop for one takes half the time.
#[inline]
pub(crate) fn add_keys_of(stored: &[u8], width: usize, upper: u64, keys: &mut Vec<Key>) {
    match width {
        13 => add_keys::<13>(stored, upper, keys),
        14 => add_keys::<14>(stored, upper, keys),
        15 => add_keys::<15>(stored, upper, keys),
        16 => add_keys::<16>(stored, upper, keys),
        _ => keys.extend(stored.chunks_exact(width).map(|stored| key_of(stored, upper))),
    }
}

#[inline]
fn add_keys<const WIDTH: usize>(stored: &[u8], upper: u64, keys: &mut Vec<Key>) {
    keys.extend(stored.as_chunks::<WIDTH>().0.iter().map(|stored| key_of(stored, upper)));
}

/// The last `width` bytes of each key, one after the other.
pub(super) fn write_keys_of(keys: impl ExactSizeIterator<Item = Key>, width: usize, out: &mut [u8]) {
    let shift = (16 - width) * 8;
    let count = keys.len();
    for (index, key) in keys.enumerate() {
        let at = index * width;
        // The next key overwrites the bytes written too far.
        let bytes = ((u128::from(key.hi) << 64 | u128::from(key.lo)) << shift).to_be_bytes();
        match out.get_mut(at..at + 16) {
            Some(place) if index + 1 < count => place.copy_from_slice(&bytes),
            _ => out[at..at + width].copy_from_slice(&ordered_bytes(key)[16 - width..]),
        }
    }
}

/// Where each bucket of sorted keys starts.
pub(crate) fn write_directory(out: &mut [u8], bits: u8, keys: impl Iterator<Item = Key>) {
    let mut counts = vec![0u32; (1 << bits) + 1];
    for key in keys {
        counts[bucket_of(key.hi, bits) + 1] += 1;
    }
    let mut sum = 0;
    for (slot, count) in out.chunks_exact_mut(4).zip(counts) {
        sum += count;
        slot.copy_from_slice(&sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_bucket_come_back_for_each_width() {
        for width in 8..=16 {
            let stored: Vec<u8> = (1..=5 * width as u8).collect();
            let mut keys = vec![Key { hi: 1, lo: 2 }];
            add_keys_of(&stored, width, 0xf100_0000_0000_0000, &mut keys);
            let each = stored.chunks(width).map(|stored| key_of(stored, 0xf100_0000_0000_0000));
            let expected: Vec<_> = std::iter::once(Key { hi: 1, lo: 2 }).chain(each).collect();
            assert_eq!(keys, expected, "{width} bytes");
        }
    }

    #[test]
    fn key_comes_back_from_the_bytes_that_its_bucket_leaves_out() {
        let key = Key { hi: 0xf1e2_d3c4_b5a6_9788, lo: 0x796a_5b4c_3d2e_1f01 };
        for bits in 0..=64 {
            let bucket = bucket_of(key.hi, bits);
            let stored = &ordered_bytes(key)[16 - key_bytes(bits)..];
            assert_eq!(whole_key(stored, bucket, bits), key, "{bits} bits");
        }
        // No section keeps fewer than eight bytes; a damaged header may say so.
        assert_eq!(whole_key(&[7, 9], 0, 0), Key { hi: 0, lo: 0x0709 });
    }

    #[test]
    fn keys_take_less_room_with_a_wider_directory_or_keep_theirs() {
        let bytes = |count: u64, bits: u8| (4 << bits) + count * key_bytes(bits) as u64;
        let mut saved = 0;
        for count in [0, 1, 31, 1_000, 8_191, 8_192, 100_000, 300_000, 786_432, 2_097_152, 4 << 20] {
            let (narrow, bits) = (directory_bits(count), key_directory_bits(count));
            assert!(bits == narrow || bytes(count, bits) < bytes(count, narrow), "{count} keys");
            saved = saved.max(bytes(count, narrow) - bytes(count, bits));
        }
        assert_eq!(key_directory_bits(786_432), 16);
        assert!(saved > 500_000, "a segment of a full log keeps a byte less of each key: {saved}");
    }
}
