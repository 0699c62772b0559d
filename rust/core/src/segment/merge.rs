//! Walking the entries of segments in key order, and merging several segments.

use std::sync::Arc;

use super::Segment;
use super::buckets::{bucket_of, key_bytes, key_of, upper_bytes};
use super::format::{Part, SegmentHeader, Stamp};
use super::run::{EntryRun, Stamps, TextEntry, UuidEntry};
use crate::Result;
use crate::key::Key;
use crate::sys::background::make_way;

/// Keys read at a time.
const CHUNK: u64 = 2048;
/// What part more of the keys than its share there is room for in a part of a merge.
const SLACK: u64 = 64;

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
    /// Where some of the buckets start.
    starts: Vec<u32>,
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
            starts: Vec::new(),
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
        make_way();
        self.chunk.clear();
        self.chunk_at = self.at;
        let width = key_bytes(self.bits);
        let all = 1usize << self.bits;
        // Buckets that hold about as many keys, read at once: each of them has only a few.
        let usual = ((CHUNK << self.bits) / self.count.max(1)).max(1) as usize;
        while self.at < self.count && (self.chunk.len() as u64) < CHUNK && self.bucket < all {
            let buckets = self.bucket..all.min(self.bucket.saturating_add(usual));
            self.bucket = buckets.end;
            let starts = &mut self.starts;
            let places = self.segment.starts(self.directory, self.count, buckets.clone(), starts, &mut self.scratch)?;
            let length = (places.end - places.start) as usize * width;
            let mut rest = self.segment.slice(self.keys, places.start * width as u64, length, &mut self.scratch)?;
            for (bucket, pair) in buckets.zip(starts.windows(2)) {
                let (of_bucket, behind) = rest.split_at((pair[1] - pair[0]) as usize * width);
                rest = behind;
                let upper = upper_bytes(bucket, self.bits, width);
                self.chunk.extend(of_bucket.chunks_exact(width).map(|stored| key_of(stored, upper)));
            }
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

    /// The text at the present place of a column of texts.
    fn text<'s>(&'s self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        self.segment.text_at(self.at, scratch)
    }

    /// Hand keys to `take`, many at a time, up to the first that is not `within`; answers how many.
    pub(crate) fn take_many(&mut self, within: impl Fn(&Key) -> bool, mut take: impl FnMut(&[Key])) -> Result<u64> {
        let start = self.at;
        while self.peek()?.is_some() {
            let rest = &self.chunk[(self.at - self.chunk_at) as usize..];
            let count = rest.partition_point(&within);
            take(&rest[..count]);
            self.at += count as u64;
            if count < rest.len() {
                break;
            }
        }
        Ok(self.at - start)
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
    uuids: Vec<Source<'a>>,
    texts: Vec<Source<'a>>,
    /// Number of equal parts of the key range.
    slices: u64,
    next: u64,
}

/// A column of keys that is merged.
struct Source<'a> {
    cursor: KeyCursor<'a>,
    column: Part,
    /// What became of each of the segment's stamps in the present part: keys are in no order of
    /// stamps, and translating one takes longer than all the rest.
    translated: Vec<Translated>,
}

#[derive(Clone, Copy)]
enum Translated {
    NotYet,
    Dropped,
    As(u32),
}

impl<'a> Source<'a> {
    fn new(segment: &'a Segment, keys: Part) -> Self {
        let column = if keys == Part::UuidKeys { Part::UuidStamps } else { Part::TextStamps };
        Self { cursor: KeyCursor::new(segment, keys), column, translated: Vec::new() }
    }

    /// Before the first entry of a part.
    fn forget(&mut self) {
        self.translated.clear();
        self.translated.resize(self.cursor.segment.header().stamps as usize, Translated::NotYet);
    }

    /// The number that the present entry's stamp has among `stamps`; none if the entry is dropped.
    #[inline]
    fn stamp(
        &mut self,
        stamps: &mut Stamps,
        translate: &mut impl FnMut(Stamp) -> Option<Stamp>,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<u32>> {
        let segment = self.cursor.segment;
        let number = segment.stamp_number(self.column, self.cursor.place(), scratch)?;
        match self.translated.get(number as usize) {
            Some(Translated::As(translated)) => return Ok(Some(*translated)),
            Some(Translated::Dropped) => return Ok(None),
            Some(Translated::NotYet) | None => {}
        }
        let translated = translate(segment.stamp(number, scratch)?).map(|stamp| stamps.index(stamp));
        if let Some(slot) = self.translated.get_mut(number as usize) {
            *slot = translated.map_or(Translated::Dropped, Translated::As);
        }
        Ok(translated)
    }
}

impl<'a> Merge<'a> {
    /// Merge in `slices` equal parts of the key range.
    pub(crate) fn in_parts(segments: &'a [Arc<Segment>], slices: u64) -> Self {
        let sources = |part| segments.iter().map(|segment| Source::new(segment, part)).collect();
        Self { uuids: sources(Part::UuidKeys), texts: sources(Part::TextKeys), slices, next: 0 }
    }

    /// The number of parts that keep each at about `most` entries.
    pub(crate) fn parts_of(segments: &[Arc<Segment>], most: usize) -> u64 {
        let entries: u64 = segments.iter().map(|segment| segment.header().entries()).sum();
        entries.div_ceil(most as u64).max(1)
    }

    /// The number of parts that keep what each takes in memory at that of about `most` UUIDs.
    pub(crate) fn small_parts_of(segments: &[Arc<Segment>], most: usize) -> u64 {
        let bytes_of = |header: &SegmentHeader| {
            let fixed = header.uuids * size_of::<UuidEntry>() as u64 + header.texts * size_of::<TextEntry>() as u64;
            fixed + header.section(Part::TextHeap).length
        };
        let bytes: u64 = segments.iter().map(|segment| bytes_of(segment.header())).sum();
        bytes.div_ceil((most * size_of::<UuidEntry>()) as u64).max(1)
    }

    /// The next part, not yet settled; none after the last. Its keys are as many sorted runs as
    /// there are segments. `translate` translates each stamp, or drops its entries.
    pub(crate) fn next(&mut self, mut translate: impl FnMut(Stamp) -> Option<Stamp>) -> Result<Option<EntryRun>> {
        if self.next == self.slices {
            return Ok(None);
        }
        self.next += 1;
        // Part n takes the keys below n / slices of the whole range.
        let limit = (self.next < self.slices).then(|| ((u128::from(self.next) << 64) / u128::from(self.slices)) as u64);
        let within = |key: &Key| limit.is_none_or(|limit| key.hi < limit);
        let mut run = EntryRun::default();
        let uuids: u64 = self.uuids.iter().map(|source| source.cursor.count).sum();
        // Of equal parts of the key range, some have a few keys more.
        let more = if self.slices > 1 { uuids / self.slices / SLACK } else { 0 };
        run.uuids.reserve_exact((uuids / self.slices + more) as usize);
        let mut scratch = Vec::new();
        for source in &mut self.uuids {
            source.forget();
            while let Some(key) = source.cursor.peek()?.filter(within) {
                if let Some(stamp) = source.stamp(&mut run.stamps, &mut translate, &mut scratch)? {
                    run.uuids.push(UuidEntry { key, stamp });
                }
                source.cursor.advance();
            }
        }
        for source in &mut self.texts {
            source.forget();
            while let Some(key) = source.cursor.peek()?.filter(within) {
                if let Some(stamp) = source.stamp(&mut run.stamps, &mut translate, &mut scratch)? {
                    run.add_text(key, source.cursor.text(&mut scratch)?, stamp);
                }
                source.cursor.advance();
            }
        }
        Ok(Some(run))
    }
}
