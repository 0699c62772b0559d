//! A checked file: 4 KiB pages whose checksums stand at the file's end, each verified when it is
//! first touched.
//!
//! Opening costs the header and the checksum table only. A flipped bit anywhere is an error, never
//! a wrong answer.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Closed, FileSystem, Mapping, NamedFile};
use crate::{Error, Result};

/// Bytes of a page: what one checksum covers.
pub(crate) const PAGE: usize = 4096;

/// The pages of an immutable file, and which of them are verified.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Closed, where it is mapped.
    file: NamedFile,
    pages: u64,
    /// Content and checksum table.
    map: Option<Mapping>,
    /// The checksum table, where nothing is mapped.
    table: Vec<u8>,
    verified: Box<[AtomicU64]>,
}

/// The page checksums of a file's content, as they stand behind it. The first page holds the
/// checksum of this table, so it holds its own checksum (its last four bytes) and its entry here is
/// zero.
pub(crate) fn page_sums(content: &[u8]) -> Vec<u8> {
    let rest = content.chunks(PAGE).skip(1).map(crc32c::crc32c);
    std::iter::once(0).chain(rest).flat_map(u32::to_le_bytes).collect()
}

/// Fill a header up to a whole page that ends with its own checksum.
pub(crate) fn header_page(mut header: Vec<u8>) -> Vec<u8> {
    header.resize(PAGE - 4, 0);
    let sum = crc32c::crc32c(&header);
    header.extend_from_slice(&sum.to_le_bytes());
    header
}

/// Open a file that begins with a header page, and read that page.
pub(crate) fn open_header(system: &dyn FileSystem, path: &Path) -> Result<(NamedFile, Vec<u8>)> {
    let file = system.open_at(path, false)?;
    let length = file.length()?;
    if length < PAGE as u64 {
        return Err(Error::corrupt(path, length, "shorter than a header"));
    }
    let mut page = vec![0; PAGE];
    file.read(&mut page, 0)?;
    Ok((file, page))
}

/// The checksum that a header page ends with.
pub(crate) fn header_sum(page: &[u8]) -> u32 {
    page.last_chunk::<4>().map_or(0, |sum| u32::from_le_bytes(*sum))
}

/// The pages of some bytes; the page of the offset where there are none.
#[inline]
fn pages_of(offset: u64, length: usize) -> RangeInclusive<u64> {
    offset / PAGE as u64..=(offset + (length as u64).max(1) - 1) / PAGE as u64
}

impl Pages {
    /// Take a file of `pages` whole pages followed by their checksums, whose own checksum is
    /// `sums_crc`.
    pub(crate) fn open(mut file: NamedFile, pages: u64, sums_crc: u32) -> Result<Self> {
        let content = pages.checked_mul(PAGE as u64);
        let expected = content.and_then(|content| content.checked_add(pages * 4));
        let length = file.length()?;
        let (Some(content), true) = (content, expected == Some(length)) else {
            return Err(Error::corrupt(
                &file.path,
                length,
                format!("{length} bytes long, but its header says {expected:?}"),
            ));
        };
        // Where mapping is refused (an address-space limit), pages are read one by one.
        let map = file.file.map(length).ok();
        let mut table = Vec::new();
        if map.is_some() {
            // A mapping stays without a descriptor, and a trigger may have many files.
            file.file = Arc::new(Closed);
        } else {
            table.resize(pages as usize * 4, 0);
            file.read(&mut table, content)?;
        }
        let words = (pages as usize).div_ceil(64);
        let verified = (0..words).map(|_| AtomicU64::new(0)).collect();
        let opened = Self { file, pages, map, table, verified };
        if crc32c::crc32c(opened.table()) != sums_crc {
            return Err(Error::corrupt(
                opened.path(),
                content,
                "the table of page checksums does not match its own checksum",
            ));
        }
        Ok(opened)
    }

    /// Take a file whose checksum table is damaged: a page counts if it matches the remaining entry
    /// of the table.
    pub(crate) fn open_damaged(file: NamedFile, pages: u64) -> Result<Self> {
        let length = file.length()?;
        let content = pages.checked_mul(PAGE as u64).filter(|content| *content <= length);
        let Some(content) = content else {
            return Err(Error::corrupt(&file.path, length, "the checksums of its pages are gone"));
        };
        let mut table = vec![0; pages as usize * 4];
        let left = (length - content).min(table.len() as u64) as usize;
        file.read(&mut table[..left], content)?;
        Ok(Self { file, pages, map: None, table, verified: Box::default() })
    }

    /// Bytes of pages that do not match their checksums.
    pub(crate) fn damaged(&self) -> u64 {
        (0..self.count()).filter(|page| self.verify(*page).is_err()).count() as u64 * PAGE as u64
    }

    fn table(&self) -> &[u8] {
        self.map.as_ref().map_or(&self.table[..], |map| &map[self.pages as usize * PAGE..])
    }

    /// The file has this name from now on.
    pub(crate) fn rename(&mut self, path: &Path) {
        self.file.path = path.to_path_buf();
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    pub(crate) fn count(&self) -> u64 {
        self.pages
    }

    /// Bytes of the file, checksums included.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.count() * (PAGE as u64 + 4)
    }

    /// The whole content, where it is mapped; its pages are not verified by this.
    pub(crate) fn mapped(&self) -> Option<&[u8]> {
        self.map.as_ref().map(|map| &map[..self.pages as usize * PAGE])
    }

    #[inline]
    pub(crate) fn is_verified(&self, page: u64) -> bool {
        (self.verified[(page >> 6) as usize].load(Ordering::Relaxed) >> (page & 63)) & 1 == 1
    }

    /// Verify one page, once.
    #[cold]
    pub(crate) fn verify(&self, page: u64) -> Result<()> {
        let at = page * PAGE as u64;
        let good = match &self.map {
            Some(map) => self.matches(page, &map[at as usize..at as usize + PAGE]),
            None => self.matches(page, &self.read_page(page)?),
        };
        if !good {
            return Err(Error::corrupt(&self.file.path, at, "a page does not match its checksum"));
        }
        if self.map.is_some() {
            self.verified[(page >> 6) as usize].fetch_or(1 << (page & 63), Ordering::Relaxed);
        }
        Ok(())
    }

    fn matches(&self, page: u64, bytes: &[u8]) -> bool {
        if page == 0 {
            return crc32c::crc32c(&bytes[..PAGE - 4]) == header_sum(bytes);
        }
        let at = page as usize * 4;
        self.table()[at..at + 4] == crc32c::crc32c(bytes).to_le_bytes()
    }

    fn read_page(&self, page: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; PAGE];
        self.file.read(&mut bytes, page * PAGE as u64)?;
        Ok(bytes)
    }

    /// `length` verified bytes from `offset`: borrowed from the mapping, or read into `scratch`.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, offset: u64, length: usize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let pages = pages_of(offset, length);
        if let Some(map) = &self.map
            && *pages.end() < self.pages
            && pages.clone().all(|page| self.is_verified(page))
        {
            return Ok(&map[offset as usize..offset as usize + length]);
        }
        self.verified(pages, offset, length, scratch)
    }

    /// The same for pages that are touched first.
    #[cold]
    fn verified<'a>(
        &'a self,
        pages: RangeInclusive<u64>,
        offset: u64,
        length: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        if *pages.end() >= self.pages {
            return Err(Error::corrupt(&self.file.path, offset, "a section reaches past the end of the file"));
        }
        let Some(map) = &self.map else {
            return self.read(pages, offset, length, scratch);
        };
        for page in pages {
            if !self.is_verified(page) {
                self.verify(page)?;
            }
        }
        Ok(&map[offset as usize..offset as usize + length])
    }

    /// The path for machines that refuse a mapping: read the pages and check them each time.
    fn read<'a>(
        &self,
        pages: RangeInclusive<u64>,
        offset: u64,
        length: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        let start = pages.start() * PAGE as u64;
        scratch.resize((pages.end() - pages.start() + 1) as usize * PAGE, 0);
        self.file.read(scratch, start)?;
        for (page, bytes) in pages.zip(scratch.chunks_exact(PAGE)) {
            if !self.matches(page, bytes) {
                return Err(Error::corrupt(&self.file.path, page * PAGE as u64, "a page does not match its checksum"));
            }
        }
        let within = (offset - start) as usize;
        Ok(&scratch[within..within + length])
    }

    /// Verify every page; `progress` gets the number of pages done.
    pub(crate) fn verify_all(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        for page in 0..self.count() {
            // Verified or not: the file may have changed since.
            self.verify(page)?;
            crate::sys::interrupt::check()?;
            progress(1);
        }
        Ok(())
    }
}
