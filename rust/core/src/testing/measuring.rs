//! Single parts of the store, for benchmarks. Their input is made beforehand.

use std::path::Path;
use std::sync::Arc;

use crate::Result;
use crate::io::Disk;
use crate::key::{Form, Key};
use crate::segment::format::{Mark, Stamp};
use crate::segment::merge::Merge;
use crate::segment::run::EntryRun;
use crate::segment::target::Target;
use crate::segment::writer;
use crate::segment::{Segment, Wanted};
use crate::types::FrameKeys;
use crate::wal::frame::{Frame, FrameHeader, FrameKind, FramePlace, HEADER};

const HISTORY: [u8; 16] = [7; 16];
/// Where a measured frame stands.
const PLACE: FramePlace = FramePlace { log: 1, mark: 0, position: 0 };
const STAMP: Stamp = Stamp { claim: 0, started_at: 0, mark: Mark::Completed };

/// Segments of completed UUIDs.
#[derive(Debug)]
pub struct Segments(Vec<Arc<Segment>>);

impl Segments {
    /// Write one segment into `directory` for each of `all`.
    ///
    /// # Errors
    /// `Io` where the directory cannot be written to.
    pub fn write(directory: &Path, all: &[&[Key]]) -> Result<Self> {
        let mut open = Vec::new();
        for (id, keys) in (1..).zip(all) {
            let path = directory.join(format!("{id}"));
            let mut run = run(keys);
            run.settle();
            writer::write(Target { system: &Disk, path: &path, id, history: HISTORY, sources: &[] }, &run)?;
            open.push(Segment::open(&Disk, &path, HISTORY)?);
        }
        Ok(Self(open))
    }

    /// Look keys up in the first segment, by interpolation; answers how many entries they have.
    ///
    /// # Errors
    /// `Corrupt` for a damaged file.
    pub fn find(&self, keys: &[Key]) -> Result<usize> {
        let (forms, rows) = (vec![Form::Uuid; keys.len()], (0..keys.len() as u32).collect::<Vec<_>>());
        let wanted = Wanted { keys, forms: &forms, text: &|_| &[] };
        let mut found = 0;
        self.0[0].find(&wanted, &rows, &mut |_, _| found += 1)?;
        Ok(found)
    }

    /// Merge all segments, up to what would be written; answers the number of entries.
    ///
    /// # Errors
    /// `Corrupt` for a damaged file.
    pub fn merge(&self) -> Result<usize> {
        let mut merge = Merge::in_parts(&self.0, 1);
        let mut entries = 0;
        while let Some(mut run) = merge.next(Some)? {
            run.settle();
            entries += run.len();
        }
        Ok(entries)
    }
}

/// Sort keys as a segment holds them; answers how many are left.
pub fn settle(keys: &[Key]) -> usize {
    let mut run = run(keys);
    run.settle();
    run.len()
}

fn run(keys: &[Key]) -> EntryRun {
    EntryRun::of_keys(&FrameKeys { uuids: keys.to_vec(), ..FrameKeys::default() }, STAMP)
}

/// A frame of the log that begins keys.
#[derive(Debug)]
pub struct BeginFrame(Frame);

impl BeginFrame {
    /// A frame for these keys.
    pub fn of(uuids: Vec<Key>) -> Self {
        let keys = FrameKeys { uuids, ..FrameKeys::default() };
        let (kind, replaces, transaction) = (FrameKind::Begin, None, None);
        Self(Frame {
            kind,
            sequence: 1,
            claim: 1,
            started_at: 0,
            replaces,
            durable: 0,
            transaction,
            keys,
            values: crate::segment::values::run::ValueRun::default(),
        })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode(PLACE)
    }

    /// Decode such bytes; answers the number of keys, 0 if they are no whole frame.
    ///
    /// # Errors
    /// `Corrupt` where they contradict themselves.
    pub fn decode(bytes: &[u8]) -> Result<usize> {
        let payload = bytes.get(HEADER..).unwrap_or_default();
        match FrameHeader::decode(bytes, PLACE).filter(|header| header.matches(payload)) {
            Some(header) => Ok(header.frame(payload, Path::new("frame"))?.keys.len()),
            None => Ok(0),
        }
    }
}
