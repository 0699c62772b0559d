//! Writing a segment: fold what a key has more than once, sort, lay out, checksum, one write, one sync.

use std::path::Path;

use super::format::{
    FILTER_BITS, Header, Layout, Mark, PARTS, Part, STAMP_BYTES, Section, Stamp, bucket_of, directory_bits, key_bytes,
    ordered_bytes,
};
use super::run::{Run, TextEntry, UuidEntry};
use super::sort;
use crate::Result;
use crate::filter;
use crate::io::{FileSystem, write_new};
use crate::key::Key;
use crate::pages::{PAGE, header_sum, page_sums};

/// More distinct stamps than this, and the start times of completed entries are rounded up.
const MOST_STAMPS: usize = 1 << 16;

/// Sort a run and fold entries that say the same of the same key: a completed one outweighs all others.
pub(crate) fn settle(run: &mut Run) {
    coarsen(run);
    let Run { uuids, texts, heap, stamps } = run;
    let mark = |number: u32| stamps.get(number);
    // Completed ones first, which have claim 0; then claim by claim, the strongest mark first.
    let strongest_first = |a: u32, b: u32| {
        let (a, b) = (mark(a), mark(b));
        let completed = |stamp: Stamp| stamp.mark == Mark::Completed;
        let by_claim = b.claim.cmp(&a.claim).then(b.mark.cmp(&a.mark)).then(b.started_at.cmp(&a.started_at));
        completed(b).cmp(&completed(a)).then(by_claim)
    };
    sort::by_key(uuids, |entry| entry.key, |a, b| strongest_first(a.stamp, b.stamp));
    let text = |entry: &TextEntry| &heap[entry.start as usize..entry.start as usize + entry.length as usize];
    let text_order =
        |a: &TextEntry, b: &TextEntry| text(a).cmp(text(b)).then_with(|| strongest_first(a.stamp, b.stamp));
    sort::by_key(texts, |entry| entry.key, text_order);
    uuids.dedup_by(|later, kept| later.key == kept.key && says_nothing_new(mark(kept.stamp), mark(later.stamp)));
    texts.dedup_by(|later, kept| {
        later.key == kept.key && text(later) == text(kept) && says_nothing_new(mark(kept.stamp), mark(later.stamp))
    });
}

/// Whether an entry adds nothing to one of the same key that sorts before it.
fn says_nothing_new(kept: Stamp, later: Stamp) -> bool {
    kept.mark == Mark::Completed || (kept.claim == later.claim && kept.mark >= later.mark)
}

/// Bound the number of distinct stamps by rounding the start times of completed entries up, never down: an entry may
/// live a little longer, but is not forgotten early.
fn coarsen(run: &mut Run) {
    if run.stamps.list().len() <= MOST_STAMPS {
        return;
    }
    let completed =
        || run.stamps.list().iter().filter(|stamp| stamp.mark == Mark::Completed).map(|stamp| stamp.started_at);
    let (Some(first), Some(last)) = (completed().min(), completed().max()) else { return };
    let step = (last - first) / (MOST_STAMPS as i64 / 2) + 1;
    let old = run.stamps.list().to_vec();
    run.stamps.replace(Vec::new());
    let round_up = |time: i64| (first + (time - first + step - 1) / step * step).min(last);
    let numbers: Vec<u32> = old
        .into_iter()
        .map(|mut stamp| {
            if stamp.mark == Mark::Completed {
                stamp.started_at = round_up(stamp.started_at);
            }
            run.stamps.index(stamp)
        })
        .collect();
    run.uuids.iter_mut().for_each(|entry| entry.stamp = numbers[entry.stamp as usize]);
    run.texts.iter_mut().for_each(|entry| entry.stamp = numbers[entry.stamp as usize]);
}

/// Write a settled run as segment file `id`; its bytes are durable on return, its name is not.
/// Answers the header, its checksum, and the file's size.
pub(crate) fn write(
    system: &dyn FileSystem,
    path: &Path,
    id: u64,
    history: [u8; 16],
    run: &Run,
) -> Result<(Header, u32, u64)> {
    let mut header = header_of(id, history, run);
    let mut image = vec![0; header.pages as usize * PAGE];
    fill(&mut image, &header, run);
    image[..PAGE].copy_from_slice(&header.encode());
    let sums = page_sums(&image);
    header.sums_crc = crc32c::crc32c(&sums);
    image[..PAGE].copy_from_slice(&header.encode());
    write_new(system, path, &[&image, &sums])?;
    Ok((header, header_sum(&image[..PAGE]), (image.len() + sums.len()) as u64))
}

fn header_of(id: u64, history: [u8; 16], run: &Run) -> Header {
    let stamps = run.stamps.list();
    let times = || stamps.iter().map(|stamp| stamp.started_at);
    let is_open = |number: u32| run.stamps.get(number).mark == Mark::Open;
    let open = run.uuids.iter().filter(|entry| is_open(entry.stamp)).count()
        + run.texts.iter().filter(|entry| is_open(entry.stamp)).count();
    let mut header = Header {
        id,
        history,
        min_started_at: times().min().unwrap_or(0),
        max_started_at: times().max().unwrap_or(0),
        uuids: run.uuids.len() as u64,
        texts: run.texts.len() as u64,
        stamps: stamps.len() as u32,
        open: open as u64,
        stamp_bits: (stamps.len().max(1) - 1).checked_ilog2().map_or(0, |bits| bits as u8 + 1),
        uuid_directory_bits: directory_bits(run.uuids.len() as u64),
        text_directory_bits: directory_bits(run.texts.len() as u64),
        filter_blocks: filter::blocks_for(run.len() as u64, FILTER_BITS),
        sections: [Section::default(); PARTS],
        pages: 0,
        sums_crc: 0,
    };
    let heap: u64 = run.texts.iter().map(|entry| u64::from(entry.length)).sum();
    header.sections[Part::TextHeap as usize].length = heap;
    let layout = Layout::of(&header);
    (header.sections, header.pages) = (layout.sections, layout.pages);
    header
}

fn fill(image: &mut [u8], header: &Header, run: &Run) {
    let uuid_key = |entry: &UuidEntry| (entry.key, entry.stamp);
    let text_key = |entry: &TextEntry| (entry.key, entry.stamp);
    keys(
        image,
        header,
        [Part::UuidKeys, Part::UuidDirectory, Part::UuidStamps],
        header.uuid_directory_bits,
        run.uuids.iter().map(uuid_key),
    );
    keys(
        image,
        header,
        [Part::TextKeys, Part::TextDirectory, Part::TextStamps],
        header.text_directory_bits,
        run.texts.iter().map(text_key),
    );
    texts(image, header, run);
    let stamps = part_mut(image, header, Part::Stamps);
    for (slot, stamp) in stamps.chunks_exact_mut(STAMP_BYTES).zip(run.stamps.list()) {
        slot[..8].copy_from_slice(&stamp.claim.to_le_bytes());
        slot[8..16].copy_from_slice(&stamp.started_at.to_le_bytes());
        slot[16] = stamp.mark as u8;
    }
    let filter = part_mut(image, header, Part::Filter);
    for key in run.uuids.iter().map(|entry| entry.key).chain(run.texts.iter().map(|entry| entry.key)) {
        filter::insert(filter, key);
    }
}

fn part_mut<'a>(image: &'a mut [u8], header: &Header, part: Part) -> &'a mut [u8] {
    let section = header.section(part);
    &mut image[section.offset as usize..(section.offset + section.length) as usize]
}

/// Keys, their directory and their stamp numbers.
fn keys(
    image: &mut [u8],
    header: &Header,
    parts: [Part; 3],
    bits: u8,
    entries: impl Iterator<Item = (Key, u32)> + Clone,
) {
    let out = part_mut(image, header, parts[0]);
    let width = key_bytes(bits);
    for (slot, (key, _)) in out.chunks_exact_mut(width).zip(entries.clone()) {
        slot.copy_from_slice(&ordered_bytes(key)[16 - width..]);
    }
    let mut counts = vec![0u32; (1 << bits) + 1];
    for (key, _) in entries.clone() {
        counts[bucket_of(key.hi, bits) + 1] += 1;
    }
    let out = part_mut(image, header, parts[1]);
    let mut sum = 0;
    for (slot, count) in out.chunks_exact_mut(4).zip(counts) {
        sum += count;
        slot.copy_from_slice(&sum.to_le_bytes());
    }
    pack(part_mut(image, header, parts[2]), header.stamp_bits, entries.map(|(_, stamp)| stamp));
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
fn texts(image: &mut [u8], header: &Header, run: &Run) {
    let offsets = part_mut(image, header, Part::TextOffsets);
    let mut at = 0u64;
    for (slot, entry) in offsets.chunks_exact_mut(8).zip(run.texts.iter().map(Some).chain([None])) {
        slot.copy_from_slice(&at.to_le_bytes());
        at += entry.map_or(0, |entry| u64::from(entry.length));
    }
    let mut at = 0;
    let heap = part_mut(image, header, Part::TextHeap);
    for entry in &run.texts {
        let text = run.text(entry);
        heap[at..at + text.len()].copy_from_slice(text);
        at += text.len();
    }
}
