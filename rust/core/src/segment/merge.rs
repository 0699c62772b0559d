//! Walking the entries of segments in key order, and merging several segments.

use std::sync::Arc;

use super::Segment;
use super::buckets::{add_keys_of, bucket_of, key_bytes, upper_bytes};
use super::format::{Part, SegmentHeader, Stamp};
use super::run::{EntryRun, Stamps, TextEntry, UuidEntry};
use crate::key::Key;
use crate::sys::background::make_way;
use crate::{Error, Result};

/// Keys read at a time, about.
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
        // Many segments are read side by side: no chunk is to take much more than it holds.
        self.chunk.reserve_exact((CHUNK + CHUNK / 8).min(self.count.saturating_sub(self.at)) as usize);
        self.chunk_at = self.at;
        let width = key_bytes(self.bits);
        let all = 1usize << self.bits;
        // Buckets that hold about as many keys, read at once: each of them has only a few.
        let usual = ((CHUNK << self.bits) / self.count.max(1)).max(1) as usize;
        while self.at < self.count && (self.chunk.len() as u64) < CHUNK / 2 && self.bucket < all {
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
                add_keys_of(of_bucket, width, upper, &mut self.chunk);
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
        self.take_many(|key| key.hi < hi, |_| {}).map(drop)
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
        self.take_placed(within, |_, keys| {
            take(keys);
            Ok(())
        })
    }

    /// The error for keys that are in no order, which only a forged segment has.
    pub(crate) fn disordered(&self) -> Error {
        let offset = self.segment.header().section(self.keys).offset;
        Error::corrupt(self.segment.path(), offset, "the keys are in no order")
    }

    /// [`KeyCursor::take_many`] for what may fail; it is told the place of the first key, too.
    fn take_placed(
        &mut self,
        within: impl Fn(&Key) -> bool,
        mut take: impl FnMut(u64, &[Key]) -> Result<()>,
    ) -> Result<u64> {
        let start = self.at;
        while self.peek()?.is_some() {
            let rest = &self.chunk[(self.at - self.chunk_at) as usize..];
            let count = rest.partition_point(&within);
            take(self.at, &rest[..count])?;
            self.at += count as u64;
            if count < rest.len() {
                break;
            }
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

    /// Add the UUIDs that are `within` to a run, but for those whose stamps are dropped.
    fn take_uuids(
        &mut self,
        within: impl Fn(&Key) -> bool,
        EntryRun { uuids, stamps, .. }: &mut EntryRun,
        translate: &mut impl FnMut(Stamp) -> Option<Stamp>,
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let (segment, column, translated) = (self.cursor.segment, self.column, &mut self.translated);
        let mut numbers = Vec::new();
        let take = |place: u64, keys: &[Key]| {
            segment.stamp_numbers(column, place..place + keys.len() as u64, &mut numbers, scratch)?;
            for (key, number) in keys.iter().zip(&numbers) {
                let stamp = Translated::of((segment, translated), *number, stamps, translate)?;
                uuids.extend(stamp.map(|stamp| UuidEntry { key: *key, stamp }));
            }
            Ok(())
        };
        self.cursor.take_placed(within, take).map(drop)
    }

    /// Add the texts that are `within`.
    fn take_texts(
        &mut self,
        within: impl Fn(&Key) -> bool,
        run: &mut EntryRun,
        translate: &mut impl FnMut(Stamp) -> Option<Stamp>,
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let segment = self.cursor.segment;
        while let Some(key) = self.cursor.peek()?.filter(&within) {
            let number = segment.stamp_number(self.column, self.cursor.place(), scratch)?;
            if let Some(stamp) = Translated::of((segment, &mut self.translated), number, &mut run.stamps, translate)? {
                run.add_text(key, self.cursor.text(scratch)?, stamp);
            }
            self.cursor.advance();
        }
        Ok(())
    }
}

impl Translated {
    /// The number that a segment's stamp has among `stamps`; none if its entries are dropped.
    #[inline]
    fn of(
        (segment, all): (&Segment, &mut [Self]),
        number: u64,
        stamps: &mut Stamps,
        translate: &mut impl FnMut(Stamp) -> Option<Stamp>,
    ) -> Result<Option<u32>> {
        match all.get(number as usize) {
            Some(Self::As(translated)) => return Ok(Some(*translated)),
            Some(Self::Dropped) => return Ok(None),
            Some(Self::NotYet) | None => {}
        }
        let translated = translate(segment.stamp(number, &mut Vec::new())?).map(|stamp| stamps.index(stamp));
        if let Some(slot) = all.get_mut(number as usize) {
            *slot = translated.map_or(Self::Dropped, Self::As);
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
        let uuids: u64 = self.uuids.iter().map(|source| source.cursor.count).sum();
        // Of equal parts of the key range, some have a few keys more.
        let more = if self.slices > 1 { uuids / self.slices / SLACK } else { 0 };
        let mut run = EntryRun::with_room((uuids / self.slices + more) as usize);
        let mut scratch = Vec::new();
        for source in &mut self.uuids {
            source.forget();
            source.take_uuids(within, &mut run, &mut translate, &mut scratch)?;
        }
        for source in &mut self.texts {
            source.forget();
            source.take_texts(within, &mut run, &mut translate, &mut scratch)?;
        }
        Ok(Some(run))
    }
}
