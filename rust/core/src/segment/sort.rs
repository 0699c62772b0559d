//! Sorting by key. Keys are uniform, so after two passes into buckets almost no comparisons are
//! left.

use std::cmp::Ordering;

use crate::Result;
use crate::key::Key;
use crate::sys::background::make_way;
use crate::sys::buffer::copied;
use crate::sys::threads::together;

/// Bits of one pass: the lines of this number of buckets stay in the cache.
const MOST_BITS: u32 = 10;
/// Fewer items than this are sorted by comparison.
const FEW: usize = 16;
/// Items distributed, or sorted, at a time.
const AT_A_TIME: usize = 1 << 13;
/// A bucket with more than this multiple of its usual size shows that keys are not uniform; it is
/// sorted by comparison.
const CROWDED: usize = 8;

/// Sort by key, and equal keys by `tie`.
pub(crate) fn by_key<T: Copy + Default>(items: &mut [T], key: impl Fn(&T) -> Key, tie: impl Fn(&T, &T) -> Ordering) {
    let order = |a: &T, b: &T| key(a).cmp(&key(b)).then_with(|| tie(a, b));
    if items.len() < FEW {
        items.sort_unstable_by(order);
        return;
    }
    // A part of the key range is spread over all buckets, too.
    let (least, most) = items.iter().fold((u64::MAX, 0), |(least, most), item| {
        let upper = key(item).hi;
        (upper.min(least), upper.max(most))
    });
    let shared = (most - least).leading_zeros();
    let upper = |item: &T| (key(item).hi - least).checked_shl(shared).unwrap_or(0);
    let (bits, mut starts) = (bits_for(items.len()), Vec::new());
    spread(&copied(items), items, (bits, 0), &upper, &mut starts);
    // What is left there is where each bucket ends.
    starts.insert(0, 0);
    sort_buckets(items, &starts, bits, &upper, &order);
}

/// A sorted copy of keys, made by `threads` threads.
pub(crate) fn sorted_keys(keys: &[Key], threads: usize) -> Result<Vec<Key>> {
    let bits = bits_for(keys.len());
    let (mut sorted, mut starts) = (vec![Key::default(); keys.len()], Vec::new());
    find_starts(keys, (bits, 0), &|key| key.hi, &mut starts);
    let mut left = &mut sorted[..];
    let buckets = starts.len() - 1;
    let shares = threads.clamp(1, buckets);
    let jobs = (0..shares).map(|share| {
        let (first, end) = (share * buckets / shares, (share + 1) * buckets / shares);
        let own;
        (own, left) = std::mem::take(&mut left).split_at_mut((starts[end] - starts[first]) as usize);
        let starts: Vec<u32> = starts[first..=end].iter().map(|start| start - starts[first]).collect();
        move || {
            let mut next = starts.clone();
            for key in keys {
                // Keys of other threads wrap around to places that do not exist.
                if let Some(slot) = next.get_mut(bucket(key.hi, bits, 0).wrapping_sub(first))
                    && let Some(place) = own.get_mut(*slot as usize)
                {
                    *place = *key;
                    *slot += 1;
                }
            }
            sort_buckets(own, &starts, bits, &|key| key.hi, &Key::cmp);
            Ok(())
        }
    });
    together(jobs)?;
    Ok(sorted)
}

/// Order by key, except within groups of a few neighbouring keys.
pub(crate) fn roughly_by_key<T: Copy + Default>(items: &mut Vec<T>, key: impl Fn(&T) -> Key) {
    if items.len() < FEW {
        items.sort_unstable_by_key(|item| key(item).hi);
        return;
    }
    let mut sorted = vec![T::default(); items.len()];
    spread(items, &mut sorted, (bits_for(items.len() / 4), 0), &|item| key(item).hi, &mut Vec::new());
    *items = sorted;
}

/// Sort the items within buckets made of the first `bits` bits: a second pass puts nearly all in
/// their places.
fn sort_buckets<T: Copy + Default>(
    items: &mut [T],
    starts: &[u32],
    bits: u32,
    upper: &impl Fn(&T) -> u64,
    order: &impl Fn(&T, &T) -> Ordering,
) {
    let usual = items.len() / (starts.len() - 1).max(1) + 1;
    let (mut room, mut places, mut turn) = (Vec::new(), Vec::new(), 0);
    for pair in starts.windows(2) {
        if pair[1] as usize > turn + AT_A_TIME {
            turn = pair[1] as usize;
            make_way();
        }
        let bucket = &mut items[pair[0] as usize..pair[1] as usize];
        if bucket.len() < FEW || bucket.len() > CROWDED * usual {
            bucket.sort_unstable_by(order);
            continue;
        }
        room.clear();
        room.extend_from_slice(bucket);
        spread(&room, bucket, (bits_for(bucket.len()), bits), upper, &mut places);
        insertion_sort(bucket, order);
    }
}

/// For items that are nearly sorted.
fn insertion_sort<T: Copy>(items: &mut [T], order: &impl Fn(&T, &T) -> Ordering) {
    // Keys that agree in all the examined bits would make this slow; only a few are tolerated.
    let mut moves = items.len() * CROWDED;
    for at in 1..items.len() {
        let item = items[at];
        let mut place = at;
        while place > 0 && order(&item, &items[place - 1]).is_lt() {
            items[place] = items[place - 1];
            place -= 1;
        }
        items[place] = item;
        moves = moves.saturating_sub(at - place);
        if moves == 0 {
            items.sort_unstable_by(order);
            return;
        }
    }
}

/// Number of bits, so that about one item falls into each bucket.
fn bits_for(items: usize) -> u32 {
    items.max(2).ilog2().clamp(1, MOST_BITS)
}

#[inline]
fn bucket(upper: u64, bits: u32, skipped: u32) -> usize {
    ((upper << skipped) >> (64 - bits)) as usize
}

/// Where each bucket starts, and the last one ends: by `bits` bits, after the first `skipped`.
fn find_starts<T>(from: &[T], (bits, skipped): (u32, u32), upper: &impl Fn(&T) -> u64, starts: &mut Vec<u32>) {
    starts.clear();
    starts.resize((1 << bits) + 1, 0);
    for item in from {
        starts[bucket(upper(item), bits, skipped) + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
}

/// Distribute items into buckets by `bits` bits of their keys, after the first `skipped`. `places`
/// is room for this; what is left there is where each bucket ends.
fn spread<T: Copy>(
    from: &[T],
    to: &mut [T],
    (bits, skipped): (u32, u32),
    upper: &impl Fn(&T) -> u64,
    places: &mut Vec<u32>,
) {
    find_starts(from, (bits, skipped), upper, places);
    for some in from.chunks(AT_A_TIME) {
        // To ask for the time takes as long as a few items.
        if some.len() == AT_A_TIME {
            make_way();
        }
        for item in some {
            let slot = &mut places[bucket(upper(item), bits, skipped)];
            to[*slot as usize] = *item;
            *slot += 1;
        }
    }
    places.pop();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some keys come twice, some agree in their upper half, some are all alike above.
    fn key_of(item: u64) -> Key {
        let mix = |number: u64| {
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        match item % 7 {
            0 => Key { hi: mix(item / 14), lo: 7 },
            1 => Key { hi: 1 << 40, lo: mix(item) },
            _ => Key { hi: mix(item), lo: mix(item + 1) },
        }
    }

    #[test]
    fn any_number_of_items_is_sorted_by_key_and_then_by_the_tie() {
        for count in [0, 1, 2, 63, 64, 65, 1000, 70_000, 300_000] {
            let mut items: Vec<u64> = (0..count).collect();
            by_key(&mut items, |item| key_of(*item), |a, b| b.cmp(a));
            let mut expected: Vec<u64> = (0..count).collect();
            expected.sort_by(|a, b| key_of(*a).cmp(&key_of(*b)).then(b.cmp(a)));
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn any_number_of_threads_sorts_keys_alike() {
        for count in [0, 1, 2, 65, 1000, 70_000] {
            let keys: Vec<Key> = (0..count).map(key_of).collect();
            let mut expected = keys.clone();
            expected.sort_unstable();
            for threads in [1, 2, 3, 64] {
                assert_eq!(sorted_keys(&keys, threads).unwrap(), expected);
            }
        }
    }

    #[test]
    fn keys_of_a_part_of_the_range_are_sorted_as_others_are() {
        for (start, width) in [(0, 1), (7, 2), (u64::MAX - 900, 900), (1 << 63, 1 << 40), (3 << 60, 1 << 61)] {
            let of_part = |item: u64| Key { hi: start + key_of(item).hi % width, ..key_of(item) };
            let mut items: Vec<u64> = (0..5000).collect();
            by_key(&mut items, |item| of_part(*item), u64::cmp);
            let mut expected: Vec<u64> = (0..5000).collect();
            expected.sort_by_key(|item| (of_part(*item), *item));
            assert_eq!(items, expected, "{width} from {start}");
        }
    }

    #[test]
    fn keys_that_agree_in_what_is_looked_at_are_sorted_too() {
        let mut keys: Vec<Key> = (0..5000).rev().map(|lo| Key { hi: lo % 3, lo }).collect();
        by_key(&mut keys, |key| *key, |_, _| Ordering::Equal);
        assert!(keys.is_sorted());
    }
}
