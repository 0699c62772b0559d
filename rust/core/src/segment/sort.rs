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
    let bits = (items.len() / 16).ilog2().min(16);
    let bucket = |item: &T| (key(item).hi >> (64 - bits)) as usize;
    let mut starts = vec![0u32; (1 << bits) + 1];
    for item in items.iter() {
        starts[bucket(item) + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut next = starts.clone();
    let mut sorted = vec![T::default(); items.len()];
    for item in items.iter() {
        let slot = &mut next[bucket(item)];
        sorted[*slot as usize] = *item;
        *slot += 1;
    }
    for pair in starts.windows(2) {
        sorted[pair[0] as usize..pair[1] as usize].sort_unstable_by(order);
    }
    *items = sorted;
}
