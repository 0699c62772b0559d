//! Walking the entries of segments in key order, and merging several segments.

use std::sync::Arc;

use super::Segment;
use super::format::{Part, Stamp, bucket_of, key_bytes, whole_key};
use super::run::EntryRun;
use crate::Result;
use crate::key::Key;

/// Keys read at a time.
const CHUNK: u64 = 2048;

/// Walks one key column of a segment, bucket by bucket.
pub(crate) struct KeyCursor<'a> {
    segment: &'a Segment,
    keys: Part,
    directory: Part,
    bits: u8,
    count: u64,
    /// The present place.
    at: u64,
    /// The whole keys of the places from `chunk_at`.
    chunk: Vec<Key>,
    chunk_at: u64,
    /// The next bucket to read.
    bucket: usize,
    scratch: Vec<u8>,
}

impl<'a> KeyCursor<'a> {
    pub(crate) fn new(segment: &'a Segment, keys: Part) -> Self {
        let header = segment.header();
        let (directory, bits, count) = match keys {
            Part::UuidKeys => (Part::UuidDirectory, header.uuid_directory_bits, header.uuids),
            _ => (Part::TextDirectory, header.text_directory_bits, header.texts),
        };
        Self {
            segment,
            keys,
            directory,
            bits,
            count,
            at: 0,
            chunk: Vec::new(),
            chunk_at: 0,
            bucket: 0,
            scratch: Vec::new(),
        }
    }

    /// Cursors over the UUIDs and over the texts of a segment.
    pub(crate) fn both(segment: &'a Arc<Segment>) -> [Self; 2] {
        [Self::new(segment, Part::UuidKeys), Self::new(segment, Part::TextKeys)]
    }

    /// The key at the present place.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<Option<Key>> {
        if let Some(key) = self.chunk.get((self.at - self.chunk_at) as usize) {
            return Ok(Some(*key));
        }
        self.read_on()?;
        Ok(self.chunk.first().copied())
    }

    /// Read the keys of the next buckets; none are left at the end.
    fn read_on(&mut self) -> Result<()> {
        self.chunk.clear();
        self.chunk_at = self.at;
        let width = key_bytes(self.bits);
        while self.at < self.count && (self.chunk.len() as u64) < CHUNK && self.bucket < 1 << self.bits {
            let places = self.segment.bucket(self.directory, self.count, self.bucket, &mut self.scratch)?;
            let length = (places.end - places.start) as usize * width;
            let bytes = self.segment.slice(self.keys, places.start * width as u64, length, &mut self.scratch)?;
            let (bucket, bits) = (self.bucket, self.bits);
            self.chunk.extend(bytes.chunks_exact(width).map(|stored| whole_key(stored, bucket, bits)));
            self.bucket += 1;
        }
        Ok(())
    }

    /// Go to a place.
    pub(crate) fn seek(&mut self, place: u64) -> Result<()> {
        self.chunk.clear();
        (self.at, self.chunk_at, self.bucket) = (0, 0, 0);
        let buckets = 1usize << self.bits;
        // The last bucket that starts at or before the place.
        let (mut low, mut high) = (0, buckets);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            let start = self.segment.bucket(self.directory, self.count, middle, &mut self.scratch)?.start;
            if start <= place { low = middle } else { high = middle }
        }
        self.bucket = low;
        self.at = self.segment.bucket(self.directory, self.count, low, &mut self.scratch)?.start;
        self.read_on()?;
        self.at = place;
        Ok(())
    }

    /// Go to the first key whose upper half is at least `hi`.
    pub(crate) fn seek_key(&mut self, hi: u64) -> Result<()> {
        let bucket = bucket_of(hi, self.bits);
        let start = self.segment.bucket(self.directory, self.count, bucket, &mut self.scratch)?.start;
        self.seek(start)?;
        self.take_while(|key| key.hi < hi).map(drop)
    }

    pub(crate) fn place(&self) -> u64 {
        self.at
    }

    pub(crate) fn advance(&mut self) {
        self.at += 1;
    }

    /// Hand keys to `take` until it refuses one; answers how many it took.
    pub(crate) fn take_while(&mut self, mut take: impl FnMut(Key) -> bool) -> Result<u64> {
        let start = self.at;
        while let Some(key) = self.peek()? {
            if !take(key) {
                break;
            }
            self.at += 1;
        }
        Ok(self.at - start)
    }
}

/// Merges segments of one time partition, a bounded part of the key range at a time.
pub(crate) struct Merge<'a> {
    uuids: Vec<KeyCursor<'a>>,
    texts: Vec<KeyCursor<'a>>,
    /// Number of equal parts of the key range.
    slices: u64,
    next: u64,
}

impl<'a> Merge<'a> {
    /// Merge in enough parts to keep each at about `most` entries.
    pub(crate) fn new(segments: &'a [Arc<Segment>], most: usize) -> Self {
        let entries: u64 = segments.iter().map(|segment| segment.header().entries()).sum();
        let cursors = |part| segments.iter().map(|segment| KeyCursor::new(segment, part)).collect();
        let slices = entries.div_ceil(most as u64).max(1);
        Self { uuids: cursors(Part::UuidKeys), texts: cursors(Part::TextKeys), slices, next: 0 }
    }

    pub(crate) fn parts(&self) -> u64 {
        self.slices
    }

    /// The next part, not yet settled; none after the last. `stamp` translates each stamp, or drops
    /// its entry.
    pub(crate) fn next(&mut self, mut stamp: impl FnMut(Stamp) -> Option<Stamp>) -> Result<Option<EntryRun>> {
        if self.next == self.slices {
            return Ok(None);
        }
        self.next += 1;
        // Part n takes the keys below n / slices of the whole range.
        let limit = (self.next < self.slices).then(|| ((u128::from(self.next) << 64) / u128::from(self.slices)) as u64);
        let within = |key: Key| limit.is_none_or(|limit| key.hi < limit);
        let mut run = EntryRun::default();
        let mut scratch = Vec::new();
        for cursor in &mut self.uuids {
            while let Some(key) = cursor.peek()?.filter(|key| within(*key)) {
                if let Some(stamp) = stamp(cursor.segment.stamp_at(Part::UuidStamps, cursor.place(), &mut scratch)?) {
                    run.push_uuid(key, stamp);
                }
                cursor.advance();
            }
        }
        for cursor in &mut self.texts {
            while let Some(key) = cursor.peek()?.filter(|key| within(*key)) {
                if let Some(stamp) = stamp(cursor.segment.stamp_at(Part::TextStamps, cursor.place(), &mut scratch)?) {
                    run.push_text(key, cursor.segment.text_at(cursor.place(), &mut scratch)?, stamp);
                }
                cursor.advance();
            }
        }
        Ok(Some(run))
    }
}
