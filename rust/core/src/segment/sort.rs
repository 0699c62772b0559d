//! Sorting by key. Keys are uniform, so passes into buckets leave next to nothing to compare.

use std::cmp::Ordering;

use crate::key::Key;

/// Buckets of one pass: as many lines are written to at a time as stay in the cache.
const MOST_BITS: u32 = 10;
/// Fewer are sorted by comparing them.
const FEW: usize = 64;

/// Sort by key, and equal keys by `tie`.
pub(crate) fn by_key<T: Copy + Default>(items: &mut Vec<T>, key: impl Fn(&T) -> Key, tie: impl Fn(&T, &T) -> Ordering) {
    let order = |a: &T, b: &T| key(a).cmp(&key(b)).then_with(|| tie(a, b));
    let upper = |item: &T| key(item).hi;
    if items.len() < FEW {
        items.sort_unstable_by(order);
        return;
    }
    let mut sorted = vec![T::default(); items.len()];
    let starts = spread(items, &mut sorted, bits_for(items.len()), 0, &upper);
    for pair in starts.windows(2) {
        let range = pair[0] as usize..pair[1] as usize;
        let (bucket, room) = (&mut sorted[range.clone()], &mut items[range]);
        if bucket.len() < FEW {
            bucket.sort_unstable_by(order);
            continue;
        }
        // A second pass leaves them there in order but for their neighbours, and they go back sorted.
        let parts = spread(bucket, room, bits_for(bucket.len()), bits_for_first(&starts), &upper);
        for part in parts.windows(2) {
            room[part[0] as usize..part[1] as usize].sort_unstable_by(order);
        }
        bucket.copy_from_slice(room);
    }
    *items = sorted;
}

/// So many buckets that a few items fall into each.
fn bits_for(items: usize) -> u32 {
    (items / 4).max(1).ilog2().clamp(1, MOST_BITS)
}

/// The bits of the pass that made these buckets.
fn bits_for_first(starts: &[u32]) -> u32 {
    (starts.len() - 1).ilog2()
}

/// Put items into buckets by `bits` bits of their keys, behind the first `skipped`; answers where each bucket starts.
fn spread<T: Copy>(from: &[T], to: &mut [T], bits: u32, skipped: u32, upper: &impl Fn(&T) -> u64) -> Vec<u32> {
    let bucket = |item: &T| ((upper(item) << skipped) >> (64 - bits)) as usize;
    let mut starts = vec![0u32; (1 << bits) + 1];
    for item in from {
        starts[bucket(item) + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut next = starts.clone();
    for item in from {
        let slot = &mut next[bucket(item)];
        to[*slot as usize] = *item;
        *slot += 1;
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_items_is_sorted_by_key_and_then_by_the_tie() {
        for count in [0, 1, 2, 63, 64, 65, 1000, 70_000, 300_000] {
            let mix = |number: u64| {
                number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xbf58_476d_1ce4_e5b9)
            };
            // Some keys come twice, some agree in their upper half, some are all alike above.
            let key = |item: &u64| match item % 7 {
                0 => Key { hi: mix(item / 14), lo: 7 },
                1 => Key { hi: 1 << 40, lo: mix(*item) },
                _ => Key { hi: mix(*item), lo: mix(item + 1) },
            };
            let mut items: Vec<u64> = (0..count).collect();
            by_key(&mut items, key, |a, b| b.cmp(a));
            let mut expected: Vec<u64> = (0..count).collect();
            expected.sort_by(|a, b| key(a).cmp(&key(b)).then(b.cmp(a)));
            assert_eq!(items, expected);
        }
    }
}
