//! Writing a segment from entries in order: laid out, checksummed, written once and synced.
//!
//! Entries come in one part, or in many: the keys of UUIDs, which are most of the file, go to it at
//! once, and what stands behind them is collected at a few bytes an entry. Texts and their keys
//! stand behind the UUIDs: they are put aside until those are all there.

use super::buckets::{bucket_of, key_bytes, key_directory_bits, write_keys_of};
use super::file::{Output, Section};
use super::format::{Layout, MOST_SOURCES, Mark, PARTS, Part, STAMP_BYTES, SegmentHeader, Stamp, filter_bits};
use super::pieces::pass_on;
use super::run::{EntryRun, HeldTexts, Stamps, UuidEntry};
use super::target::{AT_A_TIME, Target};
use super::texts::Texts;
use crate::filter;
use crate::io::pages::PAGE;
use crate::key::Key;
use crate::sys::background::make_way;
use crate::sys::memory::Zeroed;
use crate::{Error, Result};

/// Keys that are laid out and written at once. This number of keys fills whole pages, however wide
/// they are.
const PIECE: usize = if cfg!(feature = "small") { PAGE } else { 1 << 16 };

/// What a segment is going to hold.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// Its UUIDs and its texts, about.
    pub(crate) uuids: u64,
    pub(crate) texts: u64,
    /// Its distinct stamps, at most.
    pub(crate) stamps: usize,
}

/// An entry whose key is a packed UUID.
trait Entry {
    fn key(&self) -> Key;
    fn stamp(&self) -> u32;
}

impl Entry for UuidEntry {
    #[inline]
    fn key(&self) -> Key {
        self.key
    }

    #[inline]
    fn stamp(&self) -> u32 {
        self.stamp
    }
}

/// Keys that all have the only stamp.
impl Entry for Key {
    #[inline]
    fn key(&self) -> Key {
        *self
    }

    #[inline]
    fn stamp(&self) -> u32 {
        0
    }
}

/// Write a settled run; its bytes are durable on return, its name is not. Answers the header, its
/// checksum, and the file's size.
pub(crate) fn write(target: Target, run: &EntryRun) -> Result<(SegmentHeader, u32, u64)> {
    let (uuids, texts) = (run.uuids.len() as u64, run.texts.len() as u64);
    let mut writer = SegmentWriter::create(target, Expected { uuids, texts, stamps: run.stamps.list().len() })?;
    writer.push(run)?;
    writer.finish()
}

/// [`write`] for keys of one stamp, sorted and without duplicates. With more than one thread they
/// are laid out while they are written.
pub(crate) fn write_keys(
    target: Target,
    keys: &[Key],
    stamp: Stamp,
    threads: usize,
) -> Result<(SegmentHeader, u32, u64)> {
    let expected = Expected { uuids: keys.len() as u64, texts: 0, stamps: 1 };
    let mut writer = SegmentWriter::create(target, expected)?;
    let mut stamps = Stamps::default();
    stamps.index(stamp);
    writer.push_uuids(keys, &stamps, threads)?;
    writer.finish()
}

/// A segment that is being written.
pub(crate) struct SegmentWriter<'a> {
    target: Target<'a>,
    out: Output,
    uuids: Column,
    texts: Column,
    contents: Texts<'a>,
    stamps: Stamps,
    stamp_bits: u8,
    filter: Zeroed,
    open: u64,
}

/// What stands behind a column of keys.
struct Column {
    count: u64,
    /// Of each bucket of the directory, its keys, at the place after its own.
    counts: Vec<u32>,
    directory_bits: u8,
    /// Packed numbers of stamps, and zeros.
    numbers: Zeroed,
}

impl Column {
    /// For about `expected` keys, whose stamps have numbers of `bits` bits.
    fn of(expected: u64, bits: u8) -> Self {
        let directory_bits = key_directory_bits(expected);
        let numbers = Zeroed::of(packed_bytes(expected, bits));
        Self { count: 0, counts: vec![0; (1 << directory_bits) + 1], directory_bits, numbers }
    }

    /// Count keys, and append the numbers of their stamps, of `bits` bits each.
    fn add(&mut self, entries: impl ExactSizeIterator<Item = (Key, u32)>, bits: u8) {
        let all = self.count + entries.len() as u64;
        self.numbers.reach(packed_bytes(all, bits));
        let (counts, numbers, directory_bits) = (&mut self.counts[..], &mut self.numbers[..], self.directory_bits);
        for (place, (key, number)) in (self.count..).zip(entries) {
            counts[bucket_of(key.hi, directory_bits) + 1] += 1;
            pack(numbers, bits, place, number);
        }
        self.count = all;
    }

    /// Write where each bucket starts, and then the numbers of the stamps.
    fn finish(&mut self, out: &mut Output, bits: u8, [directory, stamps]: [Section; 2]) -> Result<()> {
        out.pad_to(directory.offset)?;
        let mut sum = 0;
        for counts in self.counts.chunks(PIECE) {
            make_way();
            for count in counts {
                sum += count;
                out.push(&u32::to_le_bytes(sum))?;
            }
        }
        self.counts = Vec::new();
        out.pad_to(stamps.offset)?;
        out.push(&std::mem::take(&mut self.numbers)[..packed_bytes(self.count, bits)])
    }
}

impl<'a> SegmentWriter<'a> {
    /// A segment of texts that stay in `held` until it is finished.
    pub(crate) fn create_held(target: Target<'a>, expected: Expected, held: &'a dyn HeldTexts) -> Result<Self> {
        let writer = Self::create(target, expected)?;
        Ok(Self { contents: Texts::held(held), ..writer })
    }

    pub(crate) fn create(target: Target<'a>, expected: Expected) -> Result<Self> {
        let Expected { uuids, texts, stamps } = expected;
        let blocks = filter::blocks_for(uuids + texts, filter_bits(uuids + texts));
        let stamp_bits = (stamps.max(1) - 1).checked_ilog2().map_or(0, |bits| bits as u8 + 1);
        Ok(Self {
            target,
            out: Output::create(target.system, target.path)?,
            uuids: Column::of(uuids, stamp_bits),
            texts: Column::of(texts, stamp_bits),
            contents: Texts::aside(target),
            stamps: Stamps::default(),
            stamp_bits,
            filter: Zeroed::of(blocks as usize * filter::BLOCK_BYTES),
            open: 0,
        })
    }

    /// Append a settled run, all of whose keys come after those before.
    pub(crate) fn push(&mut self, run: &EntryRun) -> Result<()> {
        self.push_uuids(&run.uuids, &run.stamps, 1)?;
        let numbers = self.numbers_of(run.texts.iter().map(|entry| entry.stamp), &run.stamps)?;
        self.contents.push(run, key_bytes(self.texts.directory_bits))?;
        self.texts.add(run.texts.iter().map(|entry| (entry.key, numbers[entry.stamp as usize])), self.stamp_bits);
        filter::insert_all(&mut self.filter, run.texts.iter().map(|entry| entry.key));
        Ok(())
    }

    fn push_uuids<E: Entry>(&mut self, uuids: &[E], stamps: &Stamps, threads: usize) -> Result<()> {
        let numbers = self.numbers_of(uuids.iter().map(Entry::stamp), stamps)?;
        let width = key_bytes(self.uuids.directory_bits);
        let mut rest = uuids;
        if let Some(sink) = self.out.whole_pages().filter(|_| threads > 1) {
            let pieces = uuids.chunks_exact(PIECE);
            rest = pieces.remainder();
            debug_assert_eq!(PIECE * width % PAGE, 0, "pieces fill pages");
            pass_on(sink, pieces, threads, |piece, buffer| {
                buffer.resize(PIECE * width, 0);
                write_keys_of(piece.iter().map(Entry::key), width, buffer);
            })?;
        }
        for piece in rest.chunks(AT_A_TIME) {
            self.out.push_with(piece.len() * width, |out| write_keys_of(piece.iter().map(Entry::key), width, out))?;
        }
        for piece in uuids.chunks(AT_A_TIME) {
            make_way();
            self.uuids.add(piece.iter().map(|entry| (entry.key(), numbers[entry.stamp() as usize])), self.stamp_bits);
            filter::insert_all(&mut self.filter, piece.iter().map(Entry::key));
        }
        Ok(())
    }

    /// The numbers that the stamps of a run have here, of those that its entries use.
    fn numbers_of(&mut self, used: impl Iterator<Item = u32>, stamps: &Stamps) -> Result<Vec<u32>> {
        let mut uses = vec![0_u32; stamps.list().len()];
        for number in used {
            uses[number as usize] += 1;
        }
        let mut numbers = vec![0; uses.len()];
        let used = stamps.list().iter().zip(&uses).zip(&mut numbers).filter(|((_, uses), _)| **uses > 0);
        for ((stamp, uses), number) in used {
            *number = self.stamps.index(*stamp);
            self.open += if stamp.mark == Mark::Open { u64::from(*uses) } else { 0 };
        }
        if self.stamps.list().len() > 1 << self.stamp_bits {
            return Err(Error::State("a segment has more stamps than were expected".into()));
        }
        Ok(numbers)
    }

    /// Write what stands behind the keys. The file's bytes are durable on return, its name is not.
    /// Answers the header, its checksum, and the file's size.
    pub(crate) fn finish(mut self) -> Result<(SegmentHeader, u32, u64)> {
        let mut header = self.header();
        let section = |part| header.section(part);
        let (out, contents) = (&mut self.out, &self.contents);
        self.uuids.finish(out, self.stamp_bits, [section(Part::UuidDirectory), section(Part::UuidStamps)])?;
        out.pad_to(section(Part::TextKeys).offset)?;
        contents.write_keys(key_bytes(header.text_directory_bits), out)?;
        self.texts.finish(out, self.stamp_bits, [section(Part::TextDirectory), section(Part::TextStamps)])?;
        out.pad_to(section(Part::TextOffsets).offset)?;
        contents.write_starts(out)?;
        out.pad_to(section(Part::TextHeap).offset)?;
        contents.write_heap(out)?;
        out.pad_to(section(Part::Stamps).offset)?;
        for stamp in self.stamps.list() {
            out.push(&encoded(stamp))?;
        }
        out.pad_to(section(Part::Filter).offset)?;
        make_way();
        out.push(&self.filter)?;
        out.end_page()?;
        let (sum, bytes) = self.out.finish(|sums_crc| {
            header.sums_crc = sums_crc;
            header.encode()
        })?;
        Ok((header, sum, bytes))
    }

    fn header(&self) -> SegmentHeader {
        let times = || self.stamps.list().iter().map(|stamp| stamp.started_at);
        let Target { id, history, sources, .. } = self.target;
        let mut header = SegmentHeader {
            id,
            history,
            min_started_at: times().min().unwrap_or(0),
            max_started_at: times().max().unwrap_or(0),
            uuids: self.uuids.count,
            texts: self.texts.count,
            stamps: self.stamps.list().len() as u32,
            open: self.open,
            stamp_bits: self.stamp_bits,
            uuid_directory_bits: self.uuids.directory_bits,
            text_directory_bits: self.texts.directory_bits,
            filter_blocks: (self.filter.len() / filter::BLOCK_BYTES) as u64,
            sections: [Section::default(); PARTS],
            pages: 0,
            sums_crc: 0,
            sources: if sources.len() > MOST_SOURCES { Vec::new() } else { sources.to_vec() },
        };
        header.sections[Part::TextHeap as usize].length = self.contents.bytes();
        let layout = Layout::of(&header);
        (header.sections, header.pages) = (layout.sections, layout.pages);
        header
    }
}

/// Bytes of `count` numbers of `bits` bits each: the last one, too, is in a whole word.
fn packed_bytes(count: u64, bits: u8) -> usize {
    (count * u64::from(bits)).div_ceil(8) as usize + 8
}

/// Put a number of `bits` bits at its place behind others, least significant bit first.
#[inline]
fn pack(out: &mut [u8], bits: u8, place: u64, number: u32) {
    let at = place as usize * usize::from(bits);
    if let Some(word) = out.get_mut(at >> 3..).and_then(<[u8]>::first_chunk_mut) {
        *word = (u64::from_le_bytes(*word) | u64::from(number) << (at & 7)).to_le_bytes();
    }
}

fn encoded(stamp: &Stamp) -> [u8; STAMP_BYTES] {
    let mut bytes = [0; STAMP_BYTES];
    bytes[..8].copy_from_slice(&stamp.claim.to_le_bytes());
    bytes[8..16].copy_from_slice(&stamp.started_at.to_le_bytes());
    bytes[16] = stamp.mark as u8;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Disk;
    use crate::key::Codec;
    use crate::segment::Segment;
    use crate::segment::merge::Merge;
    use crate::segment::run::TextEntry;

    #[test]
    fn keys_of_one_stamp_write_the_same_file_as_entries() {
        let directory = tempfile::tempdir().unwrap();
        let stamp = Stamp { claim: 7, started_at: 1_000, mark: Mark::Open };
        for count in [1, 1000, 4095, 4096, 4097, 12_288, 20_000] {
            let mut keys: Vec<Key> =
                (0..count).map(|number: u128| Codec::new(&[5; 32]).mix(number.to_be_bytes())).collect();
            keys.sort_unstable();
            let mut run = EntryRun::default();
            for key in &keys {
                run.push_uuid(*key, stamp);
            }
            let place = |name: &str| directory.path().join(format!("{name}-{count}"));
            let (header, sum, bytes) =
                write(Target { system: &Disk, path: &place("entries"), id: 3, history: [9; 16], sources: &[] }, &run)
                    .unwrap();
            let expected = std::fs::read(place("entries")).unwrap();
            assert_eq!((expected.len() as u64, header.entries()), (bytes, count as u64));
            Segment::open(&Disk, &place("entries"), [9; 16]).unwrap().verify(&mut |_| ()).unwrap();
            for threads in [1, 2, 3] {
                let path = place(&format!("keys-{threads}"));
                let target = Target { system: &Disk, path: &path, id: 3, history: [9; 16], sources: &[] };
                let written = write_keys(target, &keys, stamp, threads).unwrap();
                assert_eq!((written.1, written.2), (sum, bytes));
                assert_eq!(std::fs::read(&path).unwrap(), expected, "{count} keys, {threads} threads");
            }
        }
    }

    /// UUIDs and texts under a few claims, with the marks of all kinds.
    fn mixed_run(count: u64) -> EntryRun {
        let codec = Codec::new(&[5; 32]);
        let mut run = EntryRun::default();
        for number in 0..count {
            let mark = [Mark::Completed, Mark::Open, Mark::Released][(number % 3) as usize];
            let stamp = Stamp { claim: 1 + number % 7, started_at: (number % 11) as i64, mark };
            let key = codec.mix(u128::from(number).to_be_bytes());
            match number % 4 {
                0 => run.push_text(key, format!("text {number}").as_bytes(), stamp),
                _ => run.push_uuid(key, stamp),
            }
        }
        run.settle();
        run
    }

    /// All entries, by key.
    fn entries_of(run: &EntryRun) -> Vec<(Key, Option<&[u8]>, Stamp)> {
        let uuids = run.uuids.iter().map(|entry| (entry.key, None, run.stamps.get(entry.stamp)));
        let texts = run.texts.iter().map(|entry| (entry.key, Some(run.text(entry)), run.stamps.get(entry.stamp)));
        uuids.chain(texts).collect()
    }

    #[test]
    fn segment_written_in_parts_holds_what_one_written_at_once_does() {
        let directory = tempfile::tempdir().unwrap();
        for (count, parts) in [(1, 1), (1000, 3), (9000, 1), (20_000, 7), (100_000, 2)] {
            let run = mixed_run(count);
            let path = directory.path().join(format!("{count}-{parts}"));
            let target = Target { system: &Disk, path: &path, id: 3, history: [9; 16], sources: &[1, 2] };
            // What is expected may be somewhat off; of stamps it is the most.
            let expected = Expected { uuids: count, texts: count / 5, stamps: run.stamps.list().len() };
            let mut writer = SegmentWriter::create(target, expected).unwrap();
            for part in 0..parts {
                writer.push(&run.take_range(part, parts)).unwrap();
            }
            let (header, _, bytes) = writer.finish().unwrap();
            assert_eq!((header.entries(), bytes), (run.len() as u64, std::fs::metadata(&path).unwrap().len()));
            let segment = Segment::open(&Disk, &path, [9; 16]).unwrap();
            segment.verify(&mut |_| ()).unwrap();
            let segments = [segment];
            let read = Merge::in_parts(&segments, 1).next(Some).unwrap().unwrap();
            assert_eq!(entries_of(&read), entries_of(&run), "{count} entries in {parts} parts");
            let open = entries_of(&run).iter().filter(|(.., stamp)| stamp.mark == Mark::Open).count();
            assert_eq!((header.open, header.sources), (open as u64, vec![1, 2]));
        }
    }

    fn target(path: &std::path::Path) -> Target<'_> {
        Target { system: &Disk, path, id: 3, history: [9; 16], sources: &[] }
    }

    /// Texts of which a run knows only the places.
    #[derive(Debug)]
    struct Heap(Vec<u8>);

    impl HeldTexts for Heap {
        fn text(&self, entry: &TextEntry) -> &[u8] {
            &self.0[entry.start as usize..][..entry.length as usize]
        }

        fn fetch(&self, _entry: &TextEntry) {}
    }

    #[test]
    fn segment_of_held_texts_is_the_same_as_one_of_copied_ones() {
        let directory = tempfile::tempdir().unwrap();
        for count in [1, 9, 1000, 40_000] {
            let mut run = mixed_run(count);
            let [copied, held] = ["copied", "held"].map(|name| directory.path().join(format!("{name}-{count}")));
            let of_copied = write(target(&copied), &run).unwrap();
            let heap = Heap(std::mem::take(&mut run.heap));
            run.settle_held(&heap);
            let (uuids, texts) = (run.uuids.len() as u64, run.texts.len() as u64);
            let expected = Expected { uuids, texts, stamps: run.stamps.list().len() };
            let mut writer = SegmentWriter::create_held(target(&held), expected, &heap).unwrap();
            writer.push(&run).unwrap();
            let of_held = writer.finish().unwrap();
            assert_eq!((of_copied.1, of_copied.2), (of_held.1, of_held.2));
            assert!(std::fs::read(copied).unwrap() == std::fs::read(held).unwrap(), "{count} entries");
        }
        // What was put aside for copied texts had no name for long.
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 8);
    }

    #[test]
    fn more_stamps_than_were_expected_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let target = Target { system: &Disk, path: &path, id: 3, history: [9; 16], sources: &[] };
        let mut writer = SegmentWriter::create(target, Expected { uuids: 9000, texts: 0, stamps: 2 }).unwrap();
        assert!(matches!(writer.push(&mixed_run(9000)), Err(Error::State(_))));
    }
}
