//! Putting the entries of a frozen log into segments, a part of the key range at a time.

use std::path::PathBuf;

use super::KeySpace;
use super::frozen::Frozen;
use super::publish::entry_of;
use crate::format::manifest::SegmentEntry;
use crate::format::names::FileKind;
use crate::memtable::{Memtable, Outline};
use crate::segment::settle::{Coarse, bounded};
use crate::segment::writer::{Expected, SegmentWriter};
use crate::{Error, Result};

/// Entries that are sorted at a time, about: few enough to stay in a cache.
const MOST_IN_PART: usize = if cfg!(feature = "small") { 1 << 6 } else { 1 << 16 };
/// Files that are written side by side.
const MOST_FILES: usize = if cfg!(feature = "small") { 2 } else { 16 };

/// Parts that are gathered at the same time, at most. Each time all entries are read once.
const AT_ONCE: usize = 2;

/// A file that is going to hold the entries of a time partition.
struct Planned {
    partition: i64,
    id: u64,
    path: PathBuf,
    expected: Expected,
    coarse: Option<Coarse>,
}

impl KeySpace {
    /// Write the entries of a frozen log under the numbers that are reserved for it.
    pub(super) fn write_frozen(&self, frozen: &Frozen, width: i64) -> Result<Vec<SegmentEntry>> {
        let mut numbers = frozen.log.first_file..frozen.log.first_file.saturating_add(frozen.log.files);
        let mut planned = Vec::new();
        for (partition, Outline { uuids, texts, stamps }) in frozen.memtable.outlines(width) {
            let Some(id) = numbers.next() else {
                return Err(Error::State("a frozen log has more time partitions than files were reserved for".into()));
            };
            let path = FileKind::Segment.path(&self.directory, id);
            // One who died before may have left it.
            self.env.system.remove_if_there(&path)?;
            let (stamps, coarse) = bounded(&stamps);
            planned.push(Planned { partition, id, path, expected: Expected { uuids, texts, stamps }, coarse });
        }
        let parts = frozen.memtable.parts(MOST_IN_PART);
        let mut written = Vec::new();
        let steps = parts + parts.div_ceil(AT_ONCE);
        self.sealed.begin(steps * planned.len().div_ceil(MOST_FILES));
        for files in planned.chunks(MOST_FILES) {
            written.extend(self.write_files((&frozen.memtable, parts), width, files)?);
        }
        Ok(written)
    }

    /// Write files of consecutive time partitions.
    fn write_files<'a>(
        &'a self,
        (memtable, parts): (&'a Memtable, usize),
        width: i64,
        files: &'a [Planned],
    ) -> Result<Vec<SegmentEntry>> {
        let (Some(first), Some(last)) = (files.first(), files.last()) else { return Ok(Vec::new()) };
        let partitions = first.partition..=last.partition;
        let create = |file: &'a Planned| {
            SegmentWriter::create_held(self.segment_at(&file.path, file.id), file.expected, memtable.texts())
        };
        let mut writers = files.iter().map(create).collect::<Result<Vec<_>>>()?;
        for start in (0..parts).step_by(AT_ONCE) {
            let some = start..parts.min(start + AT_ONCE);
            let gathered = memtable.part_runs((parts, some), width, (&partitions, files.len()));
            self.sealed.step();
            for runs in gathered {
                for (partition, mut run) in runs {
                    let Ok(at) = files.binary_search_by_key(&partition, |file| file.partition) else {
                        let reason = format!("a frozen log has no file for its time partition {partition}");
                        return Err(Error::State(reason));
                    };
                    if let Some(coarse) = &files[at].coarse {
                        run.round(coarse);
                    }
                    run.settle_held(memtable.texts());
                    writers[at].push(&run)?;
                }
                self.sealed.step();
            }
        }
        let finish = |writer: SegmentWriter| writer.finish().map(|(header, sum, bytes)| entry_of(&header, sum, bytes));
        writers.into_iter().map(finish).collect()
    }
}
