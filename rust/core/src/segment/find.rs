//! Looking keys up exactly in a segment.

use std::ops::Range;

use super::buckets::{bucket_of, key_bytes};
use super::format::{Part, Stamp};
use super::{Segment, Wanted};
use crate::Result;
use crate::key::{Form, Key};
use crate::sys::prefetch;

/// Rows whose lines are fetched in one group.
const GROUP: usize = 64;
/// A guess within a bucket of at most this number of keys is off by one or two of them.
const SMALL_BUCKET: usize = 16;

/// The sections of the keys of one form.
#[derive(Clone, Copy)]
struct Sorted {
    keys: Part,
    directory: Part,
    stamps: Part,
    /// Bits of the directory, and bytes that are kept of a key.
    bits: u8,
    width: usize,
    /// Number of keys.
    count: u64,
}

impl Segment {
    fn sorted(&self, form: Form) -> Option<Sorted> {
        let header = &self.header;
        let ([keys, directory, stamps], bits, count) = match form {
            Form::Uuid => {
                ([Part::UuidKeys, Part::UuidDirectory, Part::UuidStamps], header.uuid_directory_bits, header.uuids)
            }
            Form::Text => {
                ([Part::TextKeys, Part::TextDirectory, Part::TextStamps], header.text_directory_bits, header.texts)
            }
            Form::Absent | Form::TooLong => return None,
        };
        Some(Sorted { keys, directory, stamps, bits, width: key_bytes(bits), count })
    }

    /// Look `rows` up exactly; `hit` gets each entry found. The lines of a group of rows are
    /// fetched before the first is read.
    pub(crate) fn find(&self, wanted: &Wanted, rows: &[u32], hit: &mut dyn FnMut(u32, Stamp)) -> Result<()> {
        let mut scratch = Vec::new();
        for group in rows.chunks(GROUP) {
            self.fetch_directory(wanted, group);
            let mut buckets = [(0, 0); GROUP];
            for (bucket, row) in buckets.iter_mut().zip(group) {
                let key = wanted.keys[*row as usize];
                let Some(sorted) = self.sorted(wanted.forms[*row as usize]) else { continue };
                let places =
                    self.bucket(sorted.directory, sorted.count, bucket_of(key.hi, sorted.bits), &mut scratch)?;
                self.fetch_entry(&sorted, &places, key);
                *bucket = (places.start, places.end);
            }
            for ((start, end), row) in buckets.iter().zip(group) {
                let Some(sorted) = self.sorted(wanted.forms[*row as usize]) else { continue };
                for place in self.places(&sorted, *start..*end, wanted.keys[*row as usize], &mut scratch)? {
                    if let Some(text) = wanted.text_of(*row as usize)
                        && self.text_at(place, &mut scratch)? != text
                    {
                        continue;
                    }
                    hit(*row, self.stamp_at(sorted.stamps, place, &mut scratch)?);
                }
            }
        }
        Ok(())
    }

    /// Fetch the lines of the directory that looking up these rows reads first.
    fn fetch_directory(&self, wanted: &Wanted, rows: &[u32]) {
        let Some(content) = self.pages.mapped() else { return };
        for row in rows {
            let Some(sorted) = self.sorted(wanted.forms[*row as usize]) else { continue };
            let bucket = bucket_of(wanted.keys[*row as usize].hi, sorted.bits);
            prefetch::line(content, self.header.section(sorted.directory).offset as usize + bucket * 4);
        }
    }

    /// Fetch the lines of a key and its stamp, by where its bucket starts and ends.
    fn fetch_entry(&self, sorted: &Sorted, bucket: &Range<u64>, key: Key) {
        let Some(content) = self.pages.mapped() else { return };
        let place = |part: Part, at: usize| self.header.section(part).offset as usize + at;
        let count = (bucket.end - bucket.start) as usize;
        let guess = bucket.start as usize + guess_within(key, sorted.bits, count);
        // The guess is off by a few entries, so the neighbouring line may be read instead of, or
        // beside, this one.
        let at = place(sorted.keys, guess * sorted.width);
        let off = if count > SMALL_BUCKET { 40 } else { 20 };
        prefetch::line(content, at.saturating_sub(off));
        prefetch::line(content, at + off);
        prefetch::line(content, place(sorted.stamps, guess * usize::from(self.header.stamp_bits) / 8));
    }

    /// The places of `key` among those of its bucket: by interpolation, then along equal keys.
    fn places(&self, sorted: &Sorted, bucket: Range<u64>, key: Key, scratch: &mut Vec<u8>) -> Result<Range<u64>> {
        let (width, count) = (sorted.width, (bucket.end - bucket.start) as usize);
        let keys = self.slice(sorted.keys, bucket.start * width as u64, count * width, scratch)?;
        let (from, to) = equal_range(keys, count, key, sorted);
        Ok(bucket.start + from as u64..bucket.start + to as u64)
    }
}

/// The place of a key among the `count` keys of its bucket, by proportion: keys are uniform.
#[inline]
fn guess_within(key: Key, bits: u8, count: usize) -> usize {
    let within = key.hi.checked_shl(u32::from(bits)).unwrap_or(0);
    ((u128::from(within) * count as u128) >> 64) as usize
}

/// The range of entries equal to `key` in a bucket's sorted keys. The first guess lands within a
/// cache line or two; the search from there is exact for any keys.
#[inline]
fn equal_range(keys: &[u8], count: usize, key: Key, sorted: &Sorted) -> (usize, usize) {
    let width = sorted.width;
    let wanted = ends_of(key, width);
    let at = |index: usize| ends(&keys[index * width..(index + 1) * width]);
    let mut from = guess_within(key, sorted.bits, count).min(count);
    while from > 0 && at(from - 1) >= wanted {
        from -= 1;
    }
    while from < count && at(from) < wanted {
        from += 1;
    }
    let mut to = from;
    while to < count && at(to) == wanted {
        to += 1;
    }
    (from, to)
}

/// The first and the last eight bytes of a stored key, which has 12 to 16 bytes. The pair holds the
/// whole key and sorts like it: the bytes that both numbers hold are equal whenever the first
/// numbers are equal.
#[inline]
fn ends(key: &[u8]) -> (u64, u64) {
    let first = key.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    let last = key.last_chunk().map_or(0, |last| u64::from_be_bytes(*last));
    (first, last)
}

/// The same of a key that `width` bytes are kept of. Its bytes are shifted, not stored and loaded
/// at another place: that load would wait for the stores.
#[inline]
fn ends_of(key: Key, width: usize) -> (u64, u64) {
    let whole = u128::from(key.hi) << 64 | u128::from(key.lo);
    ((whole << (8 * (16 - width)) >> 64) as u64, key.lo)
}

#[cfg(test)]
mod tests {
    use super::super::buckets::ordered_bytes;
    use super::*;

    #[test]
    fn ends_of_a_key_are_those_of_its_bytes() {
        let key = Key { hi: 0xf1e2_d3c4_b5a6_9788, lo: 0x796a_5b4c_3d2e_1f01 };
        for width in 12..=16 {
            assert_eq!(ends_of(key, width), ends(&ordered_bytes(key)[16 - width..]), "{width} bytes");
        }
    }
}
