//! Writing a segment from entries in order: laid out, checksummed, written once and synced.

use std::path::Path;

use super::file::{Section, Sink, write_directory};
use super::format::{
    Layout, MOST_SOURCES, Mark, PARTS, Part, STAMP_BYTES, SegmentHeader, Stamp, filter_bits, key_bytes,
    key_directory_bits, ordered_bytes,
};
use super::pieces::pass_on;
use super::run::{EntryRun, UuidEntry};
use crate::Result;
use crate::filter;
use crate::io::FileSystem;
use crate::io::pages::PAGE;
use crate::key::Key;
use crate::sys::background::make_way;

/// Keys that are laid out and written at once. This number of keys fills whole pages, however wide
/// they are.
const PIECE: usize = if cfg!(feature = "small") { PAGE } else { 1 << 16 };

/// The place of a new segment.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) system: &'a dyn FileSystem,
    pub(crate) path: &'a Path,
    pub(crate) id: u64,
    pub(crate) history: [u8; 16],
    /// The segments that all its entries come from, if they come from segments.
    pub(crate) sources: &'a [u64],
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
    write_entries(target, &run.uuids, run, 1)
}

/// [`write`] for keys of one stamp, sorted and without duplicates. With more than one thread they
/// are laid out while they are written.
pub(crate) fn write_keys(
    target: Target,
    keys: &[Key],
    stamp: Stamp,
    threads: usize,
) -> Result<(SegmentHeader, u32, u64)> {
    let mut rest = EntryRun::default();
    rest.stamps.index(stamp);
    write_entries(target, keys, &rest, threads)
}

/// Write `run` with `uuids` instead of its own UUIDs.
fn write_entries<E: Entry>(
    target: Target,
    uuids: &[E],
    run: &EntryRun,
    threads: usize,
) -> Result<(SegmentHeader, u32, u64)> {
    let mut header = header_of(&target, uuids, run);
    let mut sink = Sink::create(target.system, target.path)?;
    let keys_end = write_uuid_keys(&mut sink, &header, uuids, threads)?;
    let mut image = Image { bytes: vec![0; header.pages as usize * PAGE - keys_end], start: keys_end };
    fill(&mut image, &header, uuids, run);
    sink.push(&image.bytes)?;
    let (sum, bytes) = sink.finish(|sums_crc| {
        header.sums_crc = sums_crc;
        header.encode()
    })?;
    Ok((header, sum, bytes))
}

fn header_of<E: Entry>(target: &Target, uuids: &[E], run: &EntryRun) -> SegmentHeader {
    let stamps = run.stamps.list();
    let times = || stamps.iter().map(|stamp| stamp.started_at);
    let is_open = |number: u32| run.stamps.get(number).mark == Mark::Open;
    let open = uuids.iter().filter(|entry| is_open(entry.stamp())).count()
        + run.texts.iter().filter(|entry| is_open(entry.stamp)).count();
    let entries = (uuids.len() + run.texts.len()) as u64;
    let mut header = SegmentHeader {
        id: target.id,
        history: target.history,
        min_started_at: times().min().unwrap_or(0),
        max_started_at: times().max().unwrap_or(0),
        uuids: uuids.len() as u64,
        texts: run.texts.len() as u64,
        stamps: stamps.len() as u32,
        open: open as u64,
        stamp_bits: (stamps.len().max(1) - 1).checked_ilog2().map_or(0, |bits| bits as u8 + 1),
        uuid_directory_bits: key_directory_bits(uuids.len() as u64),
        text_directory_bits: key_directory_bits(run.texts.len() as u64),
        filter_blocks: filter::blocks_for(entries, filter_bits(entries)),
        sections: [Section::default(); PARTS],
        pages: 0,
        sums_crc: 0,
        sources: if target.sources.len() > MOST_SOURCES { Vec::new() } else { target.sources.to_vec() },
    };
    let heap: u64 = run.texts.iter().map(|entry| u64::from(entry.length)).sum();
    header.sections[Part::TextHeap as usize].length = heap;
    let layout = Layout::of(&header);
    (header.sections, header.pages) = (layout.sections, layout.pages);
    header
}

/// The UUID keys stand behind the header, and are most of the file. Whole pieces of them are
/// written piece by piece, so that only a few pieces are in memory twice. Answers where the rest of
/// the file begins.
fn write_uuid_keys<E: Entry>(sink: &mut Sink, header: &SegmentHeader, uuids: &[E], threads: usize) -> Result<usize> {
    let width = key_bytes(header.uuid_directory_bits);
    let pieces = uuids.chunks_exact(PIECE);
    let end = PAGE + (uuids.len() - pieces.remainder().len()) * width;
    debug_assert_eq!((PIECE * width % PAGE, header.section(Part::UuidKeys).offset as usize), (0, PAGE));
    pass_on(sink, pieces, threads, |piece, buffer| {
        buffer.resize(PIECE * width, 0);
        write_keys_of(piece.iter().map(Entry::key), width, buffer);
    })?;
    Ok(end)
}

/// The last `width` bytes of each key, one after the other.
fn write_keys_of(keys: impl ExactSizeIterator<Item = Key>, width: usize, out: &mut [u8]) {
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

/// The content of the file from `start` on.
struct Image {
    bytes: Vec<u8>,
    start: usize,
}

impl Image {
    /// The part of a section that lies in this image.
    fn part(&mut self, header: &SegmentHeader, part: Part) -> &mut [u8] {
        let section = header.section(part);
        let place = |at: u64| (at as usize).saturating_sub(self.start);
        let range = place(section.offset)..place(section.offset + section.length);
        &mut self.bytes[range]
    }
}

fn fill<E: Entry>(image: &mut Image, header: &SegmentHeader, uuids: &[E], run: &EntryRun) {
    let last = uuids.chunks_exact(PIECE).remainder();
    let (bits, keys) = (header.uuid_directory_bits, image.part(header, Part::UuidKeys));
    write_keys_of(last.iter().map(Entry::key), key_bytes(bits), keys);
    write_directory(image.part(header, Part::UuidDirectory), bits, uuids.iter().map(Entry::key));
    pack(image.part(header, Part::UuidStamps), header.stamp_bits, uuids.iter().map(Entry::stamp));

    make_way();
    let (bits, keys) = (header.text_directory_bits, image.part(header, Part::TextKeys));
    write_keys_of(run.texts.iter().map(|entry| entry.key), key_bytes(bits), keys);
    write_directory(image.part(header, Part::TextDirectory), bits, run.texts.iter().map(|entry| entry.key));
    pack(image.part(header, Part::TextStamps), header.stamp_bits, run.texts.iter().map(|entry| entry.stamp));
    texts(image, header, run);

    let stamps = image.part(header, Part::Stamps);
    for (slot, stamp) in stamps.chunks_exact_mut(STAMP_BYTES).zip(run.stamps.list()) {
        slot[..8].copy_from_slice(&stamp.claim.to_le_bytes());
        slot[8..16].copy_from_slice(&stamp.started_at.to_le_bytes());
        slot[16] = stamp.mark as u8;
    }
    make_way();
    let filter = image.part(header, Part::Filter);
    filter::insert_all(filter, uuids.iter().map(Entry::key));
    filter::insert_all(filter, run.texts.iter().map(|entry| entry.key));
}

/// Numbers of `bits` bits each, one after the other, least significant bit first.
fn pack(out: &mut [u8], bits: u8, numbers: impl Iterator<Item = u32>) {
    if bits == 0 {
        return;
    }
    for (index, number) in numbers.enumerate() {
        let at = index * bits as usize;
        let mut word = [0; 8];
        word.copy_from_slice(&out[at >> 3..(at >> 3) + 8]);
        let merged = u64::from_le_bytes(word) | u64::from(number) << (at & 7);
        out[at >> 3..(at >> 3) + 8].copy_from_slice(&merged.to_le_bytes());
    }
}

/// The texts' offsets and bytes, in key order.
fn texts(image: &mut Image, header: &SegmentHeader, run: &EntryRun) {
    let offsets = image.part(header, Part::TextOffsets);
    let mut at = 0u64;
    for (slot, entry) in offsets.chunks_exact_mut(8).zip(run.texts.iter().map(Some).chain([None])) {
        slot.copy_from_slice(&at.to_le_bytes());
        at += entry.map_or(0, |entry| u64::from(entry.length));
    }
    let mut at = 0;
    let heap = image.part(header, Part::TextHeap);
    for entry in &run.texts {
        let text = run.text(entry);
        heap[at..at + text.len()].copy_from_slice(text);
        at += text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Disk;
    use crate::key::Codec;
    use crate::segment::Segment;

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
}
