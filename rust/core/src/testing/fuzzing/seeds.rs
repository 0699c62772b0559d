//! Seeds for fuzzers: intact files, so that mutations reach states that random bytes never do.

use std::path::Path;
use std::sync::Arc;

use super::files::HISTORY;
use crate::format::manifest::{EndedClaim, GlobalFilterEntry, LogEntry, Manifest, SegmentEntry, ValueFileEntry};
use crate::io::FileSystem;
use crate::key::Key;
use crate::segment::Segment;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::EntryRun;
use crate::segment::target::Target;
use crate::segment::values::run::{self as values, GONE, PENDING};
use crate::segment::writer;
use crate::testing::simulated::Simulated;
use crate::types::FrameKeys;
use crate::types::transaction::{BatchRows, NumberedBatch, Transaction};
use crate::types::{Ending, TransactionEntry};
use crate::wal::START;
use crate::wal::frame::{Frame, FrameKind, FramePlace};

/// Valid inputs of a target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "identity" => vec![[&b"DHISTORY\x01\0\0\0\x40\0\0\0"[..], &[7; 48], &[0; 8]].concat()],
        "manifest" => vec![without_sum(Manifest::default().encode()), without_sum(manifest().encode())],
        "log" => vec![[&[0][..], &log()].concat(), [&[2][..], &log()].concat(), [&[1][..], &log()].concat()],
        "segment" => vec![segment(3).unwrap_or_default(), segment(300).unwrap_or_default()],
        "filter" => vec![filter().unwrap_or_default()],
        "writer_lock" => {
            vec![b"DHTN\0\0\0\0".repeat(8), [&[0; 64][..], b"host process 12 since 1790000000000000"].concat()]
        }
        "values" => vec![value_file(3).unwrap_or_default(), value_file(300).unwrap_or_default()],
        "delivery" => delivery(),
        "duration" => ["30 days", "1 day 12 hours", "PT2H", "P1DT0.5S", "500 ms"].map(Into::into).to_vec(),
        _ => (0..12u8).map(|kind| (0..160u8).map(|at| at.wrapping_mul(kind).rotate_left(3)).collect()).collect(),
    }
}

fn without_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len().saturating_sub(4));
    bytes
}

fn manifest() -> Manifest {
    let transaction = Transaction { application: "stream".into(), batch: 4 };
    Manifest {
        number: 7,
        history: HISTORY,
        name: "orders".into(),
        partition_us: 86_400_000_000,
        time_to_live_us: 1 << 41,
        next_sequence: 9,
        next_file: 12,
        log: LogEntry { id: 7, proven: START },
        segments: vec![SegmentEntry { id: 3, entries: 5, bytes: 99, ..SegmentEntry::default() }],
        global_filters: vec![GlobalFilterEntry {
            id: 4,
            entries: 5,
            segments: vec![3, 0],
            ..GlobalFilterEntry::default()
        }],
        outcomes: vec![EndedClaim { claim: 2, started_at: 5, outcome: Ending::Completed }],
        transactions: vec![TransactionEntry {
            transaction,
            rows: Some(BatchRows::of_numbers([5, 6, 7])),
            claim: 2,
            started_at: 5,
            outcome: None,
        }],
        values: vec![ValueFileEntry { id: 5, rows: 3, pending: 1, bytes: 99, ..ValueFileEntry::default() }],
        ..Manifest::default()
    }
}

fn key(number: u64) -> Key {
    let hi = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Key { hi, lo: hi.rotate_left(29) }
}

fn log() -> Vec<u8> {
    let mut keys = FrameKeys { uuids: (0..4).map(key).collect(), ..FrameKeys::default() };
    keys.push_text(key(9), b"urn:nine");
    let claims = Some(vec![(1, 5); 5]);
    let transaction = Transaction { application: "stream".into(), batch: 4 };
    let transaction = Some(NumberedBatch { transaction, rows: Some(BatchRows::of_numbers([5, 6, 7])) });
    let kinds = [
        FrameKind::Begin,
        FrameKind::CompleteKeys,
        FrameKind::ReleaseKeys,
        FrameKind::CompleteClaim,
        FrameKind::ReleaseClaim,
    ];
    let kinds = kinds.into_iter().chain([FrameKind::Values, FrameKind::ValuesAndComplete]);
    let mut entries = values::ValueRun::default();
    entries.push(key(1), b"", 1 << 50, 0, b"value");
    entries.push(key(9), b"urn:nine", i64::MAX, PENDING, b"");
    entries.push(key(2), b"", i64::MIN, GONE, b"");
    let mut bytes = Vec::new();
    for (kind, sequence) in kinds.zip(1..) {
        let keys = match kind {
            FrameKind::Begin => keys.clone(),
            FrameKind::CompleteKeys | FrameKind::ReleaseKeys => FrameKeys { claims: claims.clone(), ..keys.clone() },
            _ => FrameKeys::default(),
        };
        let of_values = matches!(kind, FrameKind::Values | FrameKind::ValuesAndComplete);
        let values = if of_values { entries.clone() } else { values::ValueRun::default() };
        let transaction = transaction.clone().filter(|_| kind == FrameKind::Begin);
        let (replaces, durable) = (None, 0);
        let frame = Frame { kind, sequence, claim: 1, started_at: 5, replaces, durable, transaction, keys, values };
        bytes.extend(frame.encode(FramePlace { log: 7, mark: 0, position: START + bytes.len() as u64 }));
    }
    bytes
}

fn run(entries: u64) -> EntryRun {
    let mut run = EntryRun::default();
    for number in 0..entries {
        let mark = [Mark::Open, Mark::Completed, Mark::Released][number as usize % 3];
        let stamp = Stamp { claim: 1 + number % 5, started_at: 1_000 + number as i64, mark };
        run.push_uuid(key(number), stamp);
        run.push_text(key(number + 1_000), format!("urn:{number}").as_bytes(), stamp);
    }
    run.settle();
    run
}

fn read(system: &Simulated, path: &Path) -> Option<Vec<u8>> {
    let file = system.open(path, false).ok()?;
    let mut bytes = vec![0; file.len().ok()? as usize];
    file.read_at(&mut bytes, 0).ok()?;
    // The target adds the table of checksums.
    bytes.truncate(bytes.len() / (crate::io::pages::PAGE + 4) * crate::io::pages::PAGE);
    Some(bytes)
}

fn segment(entries: u64) -> Option<Vec<u8>> {
    let (system, path) = (Simulated::new(0), Path::new("/segment"));
    writer::write(Target { system: &system, path, id: 3, history: HISTORY, sources: &[] }, &run(entries)).ok()?;
    read(&system, path)
}

fn filter() -> Option<Vec<u8>> {
    let (system, path) = (Simulated::new(0), Path::new("/segment"));
    writer::write(Target { system: &system, path, id: 3, history: HISTORY, sources: &[] }, &run(50)).ok()?;
    let segments = [Segment::open(&system, path, HISTORY).ok()?];
    let group: &[Arc<Segment>] = &segments;
    let path = Path::new("/filter");
    crate::segment::global::build(&system, path, 4, HISTORY, group, &mut |_| Ok(())).ok()?;
    read(&system, path)
}

fn value_file(entries: u64) -> Option<Vec<u8>> {
    let (system, path) = (Simulated::new(0), Path::new("/values"));
    let mut run = values::ValueRun::default();
    for number in 0..entries {
        run.push(key(number), b"", i64::MAX, 0, format!("value {number}").as_bytes());
        run.push(key(number + 1_000), format!("urn:{number}").as_bytes(), 5, PENDING, b"");
    }
    run.sort();
    let named = crate::segment::values::writer::FileIdentity { id: 3, history: HISTORY, is_later: false };
    crate::segment::values::writer::write(&system, path, named, &run).ok()?;
    read(&system, path)
}

fn delivery() -> Vec<Vec<u8>> {
    let state = |kind: u8| {
        let numbers = [3u64, 4, 3, 2, 1, 5].map(u64::to_le_bytes).concat();
        [&[1, kind, 0, 0, 0, 0, 0, 0][..], &numbers].concat()
    };
    let header = crate::protocols::delivery::PartHeader::new(0, 0, 4, 1).map(|header| header.to_string().into_bytes());
    [Some(state(1)), Some(state(2)), header.ok()].into_iter().flatten().collect()
}
