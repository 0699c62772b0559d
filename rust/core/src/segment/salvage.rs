//! Reading the intact part of a damaged segment.

use std::path::Path;

use super::buckets::{key_bytes, whole_key};
use super::format::{KIND, Part, SegmentHeader};
use super::run::EntryRun;
use super::{Region, Segment};
use crate::Result;
use crate::io::FileSystem;
use crate::io::pages::Pages;

/// The readable part of a damaged segment.
#[derive(Debug)]
pub(crate) struct Salvaged {
    pub(crate) run: EntryRun,
    /// Bytes of pages that cannot be read.
    pub(crate) bytes: u64,
}

impl Segment {
    /// The entries of a damaged segment whose key, text and stamp are on pages that match their
    /// checksums. Its header has to be intact, without which nothing can be found.
    pub(crate) fn salvage(system: &dyn FileSystem, path: &Path, history: [u8; 16]) -> Result<Salvaged> {
        let segment = Self::open_damaged(system, path, history)?;
        let mut run = EntryRun::default();
        segment.salvage_keys([Part::UuidKeys, Part::UuidDirectory, Part::UuidStamps], &mut run);
        segment.salvage_keys([Part::TextKeys, Part::TextDirectory, Part::TextStamps], &mut run);
        Ok(Salvaged { run, bytes: segment.pages.damaged() })
    }

    /// The header page alone, and its checksum.
    pub(crate) fn head(system: &dyn FileSystem, path: &Path) -> Result<(SegmentHeader, u32)> {
        let (_, page, sum) = KIND.open(system, path, None)?;
        Ok((SegmentHeader::decode(&page, path)?, sum))
    }

    fn open_damaged(system: &dyn FileSystem, path: &Path, history: [u8; 16]) -> Result<Self> {
        let (file, page, sum) = KIND.open(system, path, Some(history))?;
        let header = SegmentHeader::decode(&page, path)?;
        let pages = Pages::open_damaged(file, header.pages)?;
        let section = header.section(Part::Filter);
        let filter = Region::new(section.offset, section.length);
        Ok(Self { header, sum, pages, filter })
    }

    /// Add the readable entries of one kind.
    fn salvage_keys(&self, [keys, directory, stamps]: [Part; 3], run: &mut EntryRun) {
        let is_uuid = matches!(keys, Part::UuidKeys);
        let (bits, count) = if is_uuid {
            (self.header.uuid_directory_bits, self.header.uuids)
        } else {
            (self.header.text_directory_bits, self.header.texts)
        };
        let width = key_bytes(bits);
        let mut scratch = Vec::new();
        for bucket in 0..1usize << bits {
            let Ok(places) = self.bucket(directory, count, bucket, &mut scratch) else { continue };
            for place in places {
                let stored = self.slice(keys, place * width as u64, width, &mut scratch);
                let Ok(key) = stored.map(|stored| whole_key(stored, bucket, bits)) else { continue };
                let Ok(stamp) = self.stamp_at(stamps, place, &mut scratch) else { continue };
                if is_uuid {
                    run.push_uuid(key, stamp);
                } else if let Ok(text) = self.text_at(place, &mut scratch) {
                    run.push_text(key, text, stamp);
                }
            }
        }
    }
}
