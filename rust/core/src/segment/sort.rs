//! Sorting by key. Keys are uniform, so one pass into buckets leaves next to nothing to sort.

use crate::key::Key;

/// Sort by key, and equal keys by `tie`.
pub(crate) fn by_key<T: Copy + Default>(
    items: &mut Vec<T>,
    key: impl Fn(&T) -> Key,
    tie: impl Fn(&T, &T) -> std::cmp::Ordering,
) {
    let order = |a: &T, b: &T| key(a).cmp(&key(b)).then_with(|| tie(a, b));
    if items.len() < 256 {
        items.sort_unstable_by(order);
        return;
    }
    let (mut sorted, starts) = in_buckets(items, &key);
    for pair in starts.windows(2) {
        sorted[pair[0] as usize..pair[1] as usize].sort_unstable_by(order);
    }
    *items = sorted;
}

/// Put neighbours together: the order of keys, but for a few at a time.
pub(crate) fn roughly_by_key<T: Copy + Default>(items: &mut Vec<T>, key: impl Fn(&T) -> Key) {
    if items.len() >= 256 {
        (*items, _) = in_buckets(items, &key);
    }
}

/// The items in buckets of about 16, which follow the order of keys; and where each bucket starts and the last one ends.
fn in_buckets<T: Copy + Default>(items: &[T], key: &impl Fn(&T) -> Key) -> (Vec<T>, Vec<u32>) {
    let bits = (items.len() / 16).max(1).ilog2().min(16);
    let bucket = |item: &T| (key(item).hi >> 1 >> (63 - bits)) as usize;
    let mut starts = vec![0u32; (1 << bits) + 1];
    for item in items {
        starts[bucket(item) + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut next = starts.clone();
    let mut sorted = vec![T::default(); items.len()];
    for item in items {
        let slot = &mut next[bucket(item)];
        sorted[*slot as usize] = *item;
        *slot += 1;
    }
    (sorted, starts)
}
