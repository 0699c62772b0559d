//! The decoders of files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::format::manifest::Manifest;
use crate::format::names::WRITER_LOCK;
use crate::io::FileSystem;
use crate::io::pages::{PAGE, page_sums};
use crate::key::{Form, Key};
use crate::memtable::Memtable;
use crate::segment::global::GlobalFilter;
use crate::segment::merge::Merge;
use crate::segment::{Segment, Wanted};
use crate::store::writer_lock::{self, WriterLock};
use crate::testing::simulated::Simulated;
use crate::wal::frame::HEADER;
use crate::wal::{Log, Owner, START};

pub(super) const HISTORY: [u8; 16] = [42; 16];
const FILE: &str = "/file";

/// A machine with one file, or none if it did not accept it.
fn machine(content: &[u8]) -> Option<Simulated> {
    let system = Simulated::new(0);
    let file = system.create(Path::new(FILE)).ok()?;
    file.write_at(content, 0).ok()?;
    Some(system)
}

fn with_sum(bytes: &[u8]) -> Vec<u8> {
    let mut content = bytes.to_vec();
    content.extend(crc32c::crc32c(bytes).to_le_bytes());
    content
}

/// The identity file.
pub fn identity(bytes: &[u8]) {
    if let Some(system) = machine(&with_sum(bytes)) {
        drop(crate::history::read_identity(&system, Path::new(FILE)));
    }
}

/// A manifest; one that can be read is written unchanged.
pub fn manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(&with_sum(bytes), Path::new(FILE)) {
        let again = Manifest::decode(&manifest.encode(), Path::new(FILE));
        assert!(again.is_ok_and(|again| again == manifest));
        manifest.uncovered();
    }
}

/// A log; its frames' places, lengths and checksums are corrected if the first byte is even.
pub fn log(bytes: &[u8]) {
    let Some((how, frames)) = bytes.split_first() else { return };
    let frames = if how & 1 == 0 { with_heads(frames) } else { frames.to_vec() };
    let system = Simulated::new(0);
    let owner = Owner::new(HISTORY, "fuzzed");
    // Without a mark, which no fuzzer guesses.
    let Ok(made) = Log::create_with(&system, Path::new(FILE), 7, owner, 0) else { return };
    if made.file.write(&frames, START).is_err() {
        return;
    }
    let Ok(log) = Log::open(&system, Path::new(FILE), 7, owner, false) else { return };
    let manifest = Manifest { history: HISTORY, next_sequence: 1, partition_us: 1_000_000, ..Manifest::default() };
    let mut memtable = Memtable::new(&manifest, START);
    let proven = if how & 2 == 0 { START } else { START + frames.len() as u64 };
    let gaps = log.salvage(proven, &mut |frame, end| memtable.apply(frame, end));
    assert!(gaps.is_ok(), "a log that can be read can be salvaged");
    memtable.runs(manifest.partition_us, i64::MIN);
    memtable.outcomes();
    memtable.transactions();
}

/// Frames with valid fixed fields.
fn with_heads(frames: &[u8]) -> Vec<u8> {
    let mut frames = frames.to_vec();
    let mut at = 0;
    while at + HEADER <= frames.len() {
        let most = frames.len() - at - HEADER;
        let head = &mut frames[at..];
        let wanted = u64::from_le_bytes([head[56], head[57], 0, 0, 0, 0, 0, 0]) as usize;
        let payload = wanted.min(most) & !7;
        head[..4].copy_from_slice(b"DHFR");
        head[8..16].copy_from_slice(&7u64.to_le_bytes());
        head[16..24].copy_from_slice(&(START + at as u64).to_le_bytes());
        head[56..64].copy_from_slice(&(payload as u64).to_le_bytes());
        let sum = crc32c::crc32c(&head[HEADER..HEADER + payload]);
        head[72..76].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32c::crc32c(&head[..HEADER - 4]);
        head[HEADER - 4..HEADER].copy_from_slice(&sum.to_le_bytes());
        at += HEADER + payload;
    }
    frames
}

/// A file of pages with valid table and header checksums; `pages_at` and `sum_at` tell where its
/// header holds both.
fn paged(bytes: &[u8], pages_at: usize, sum_at: usize) -> Vec<u8> {
    let mut content = bytes.to_vec();
    content.truncate(16 * PAGE);
    content.resize(content.len().max(1).next_multiple_of(PAGE), 0);
    let pages = (content.len() / PAGE) as u64;
    let sums = page_sums(&content);
    content[24..40].copy_from_slice(&HISTORY);
    content[pages_at..pages_at + 8].copy_from_slice(&pages.to_le_bytes());
    content[sum_at..sum_at + 4].copy_from_slice(&crc32c::crc32c(&sums).to_le_bytes());
    let head = crc32c::crc32c(&content[..PAGE - 4]);
    content[PAGE - 4..PAGE].copy_from_slice(&head.to_le_bytes());
    content.extend(sums);
    content
}

/// Keys to look up, spread over the key range.
fn wanted(look: impl FnOnce(&Wanted)) {
    let keys: Vec<Key> = (0..32u64)
        .map(|number| number.wrapping_mul(0x0842_1084_2108_4211))
        .map(|hi| Key { hi, lo: hi.rotate_left(17) })
        .collect();
    let forms: Vec<Form> = (0..keys.len()).map(|row| if row % 2 == 0 { Form::Uuid } else { Form::Text }).collect();
    look(&Wanted { keys: &keys, forms: &forms, text: &|_| b"urn:fuzzed" });
}

/// A segment: opened, looked into, read in key order, salvaged.
pub fn segment(bytes: &[u8]) {
    let Some(system) = machine(&paged(bytes, 96, 104)) else { return };
    if let Ok(segment) = Segment::open(&system, Path::new(FILE), HISTORY) {
        wanted(|wanted| {
            drop(segment.may_contain(wanted, 0, &mut Vec::new()));
            let rows: Vec<u32> = (0..wanted.keys.len() as u32).collect();
            drop(segment.find(wanted, &rows, &mut |_, _| {}));
        });
        drop(segment.stamps());
        drop(segment.verify(&mut |_| {}));
        let segments = [Arc::clone(&segment)];
        let mut merge = Merge::in_parts(&segments, Merge::parts_of(&segments, 1 << 10));
        // Counts may promise more than such a file can hold: a few parts show as much as all.
        for _ in 0..4 {
            if !matches!(merge.next(Some), Ok(Some(_))) {
                break;
            }
        }
    }
    drop(Segment::salvage(&system, Path::new(FILE), HISTORY));
}

/// A global filter.
pub fn filter(bytes: &[u8]) {
    let Some(system) = machine(&paged(bytes, 64, 72)) else { return };
    // A view asks a filter only if it covers as many segments as the manifest lists, which has an
    // entry for each.
    let opened = GlobalFilter::open(&system, Path::new(FILE), HISTORY);
    if let Some(global_filter) = opened.ok().filter(|global_filter| global_filter.slots() < 1 << 12) {
        wanted(|wanted| {
            drop(global_filter.may_contain(wanted, 0, &mut Vec::new()));
            drop(global_filter.candidates(wanted));
        });
        drop(global_filter.verify(&mut |_| {}));
    }
}

/// A file of values: opened, looked into, read.
pub fn values(bytes: &[u8]) {
    let Some(system) = machine(&paged(bytes, 72, 80)) else { return };
    let Ok(segment) = crate::segment::values::segment::ValueSegment::open(&system, Path::new(FILE), HISTORY) else {
        return;
    };
    wanted(|wanted| {
        let rows: Vec<u32> = (0..wanted.keys.len() as u32).collect();
        drop(segment.may_contain(wanted, 0, &mut Vec::new()));
        drop(segment.find(wanted, &rows, &mut |_, _| {}));
    });
    let (mut texts, mut found) = (Vec::new(), Vec::new());
    for place in 0..segment.header().rows.min(8) as u32 {
        drop(segment.text(place, &mut texts));
        drop(segment.record(place, &mut texts).and_then(|record| segment.value(record, &mut found).map(drop)));
    }
    drop(segment.verify(&mut |_| {}));
}

/// The file of the writer lock, whose content is only advice.
pub fn writer_lock(bytes: &[u8]) {
    let system = Simulated::new(0);
    let (directory, other) = (Path::new("/"), system.process());
    let path = directory.join(WRITER_LOCK);
    let (Ok(lock), Ok(file)) = (WriterLock::open(&system, directory), system.open(&path, true)) else { return };
    let Ok(_guard) = lock.take(&system, Duration::ZERO, || ()) else { return };
    if file.write_at(bytes, 0).is_ok() {
        writer_lock::watermark(&system, directory, 7);
        writer_lock::has_failed(&system, directory, 7);
        // A caller that waits gets the holder's description in the error.
        let waited =
            WriterLock::open(&other, directory).and_then(|lock| lock.take(&other, Duration::ZERO, || ()).map(drop));
        assert!(matches!(waited, Err(crate::Error::Locked { .. })));
    }
}
