//! The common layout of the three kinds of checked files: a header page, sections behind it, and
//! the checksums of all pages at the end.

use std::ops::Range;
use std::path::Path;

use crate::io::bytes::{Decoder, Encoder};
use crate::io::pages::{PAGE, header_sum, open_header};
use crate::io::{FileSystem, NamedFile};
use crate::sys::background::make_way;
use crate::sys::buffer::{Buffer, buffer};
use crate::{Error, Result};

/// A section's place in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Lays sections of these lengths one behind the other; answers them and the file's pages. The last
/// one, the filter, starts on a page, so that a block's page follows from its number.
pub(crate) fn lay_out<const N: usize>(lengths: [u64; N]) -> ([Section; N], u64) {
    let mut at = PAGE as u64;
    let mut sections = [Section::default(); N];
    for (index, (section, length)) in sections.iter_mut().zip(lengths).enumerate() {
        let alignment = if index + 1 == N { PAGE as u64 } else { 64 };
        *section = Section { offset: at.next_multiple_of(alignment), length };
        at = section.offset.saturating_add(length).min(1 << 60);
    }
    (sections, at.div_ceil(PAGE as u64))
}

/// Which kind of file it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    /// Words for errors: "this segment belongs".
    pub(crate) belongs: &'static str,
}

impl Kind {
    /// A header's first fields.
    pub(crate) fn encoder(&self, id: u64, history: &[u8; 16]) -> Encoder {
        let mut out = Encoder::new();
        out.raw(&self.magic).u32(self.version).u32(PAGE as u32).u64(id).raw(history);
        out
    }

    /// Checks a whole header page; answers what follows, the file's number, and its history.
    pub(crate) fn decoder<'a>(&self, page: &'a [u8], path: &'a Path) -> Result<(Decoder<'a>, u64, [u8; 16])> {
        let mut from = Decoder::new(page, path);
        from.preamble(self.magic, self.version)?;
        if page.len() != PAGE || crc32c::crc32c(&page[..PAGE - 4]) != header_sum(page) {
            return Err(Error::corrupt(path, 0, "the header does not match its checksum"));
        }
        from.u32()?;
        let (id, history) = (from.u64()?, from.bytes16()?);
        Ok((from, id, history))
    }

    /// Open a file of this kind: the file, its header page, and the page's checksum. It must belong
    /// to `history`, if one is given.
    pub(crate) fn open(
        &self,
        system: &dyn FileSystem,
        path: &Path,
        history: Option<[u8; 16]>,
    ) -> Result<(NamedFile, Vec<u8>, u32)> {
        let (file, page) = open_header(system, path)?;
        let (_, _, found) = self.decoder(&page, path)?;
        if history.is_some_and(|history| history != found) {
            return Err(Error::corrupt(path, 24, format!("{} to another history", self.belongs)));
        }
        let sum = header_sum(&page);
        Ok((file, page, sum))
    }
}

/// Bytes that are handed to the disk at a time, three times at most before it has the first. More
/// would keep syncs of the log waiting.
const PIECE: usize = 128 << 10;

/// Writes a file: the pages behind the header in order, then their checksums, then the header.
pub(crate) struct Sink {
    file: NamedFile,
    at: u64,
    sums: Vec<u8>,
    /// What the disk was given last, and before that.
    under_way: [Range<u64>; 2],
}

impl Sink {
    pub(crate) fn create(system: &dyn FileSystem, path: &Path) -> Result<Self> {
        let start = PAGE as u64;
        // The header holds its own checksum: its entry is zero.
        Ok(Self { file: system.create_at(path)?, at: start, sums: vec![0; 4], under_way: [start..start, start..start] })
    }

    /// Append whole pages. If that fails, the file takes no room: on a full disk others need it.
    pub(crate) fn push(&mut self, pages: &[u8]) -> Result<()> {
        self.write(pages).inspect_err(|_| self.file.file.free())
    }

    fn write(&mut self, pages: &[u8]) -> Result<()> {
        self.sums.extend(pages.chunks(PAGE).map(crc32c::crc32c).flat_map(u32::to_le_bytes));
        for piece in pages.chunks(PIECE) {
            make_way();
            self.file.write(piece, self.at)?;
            self.at += piece.len() as u64;
            let [last, first] = &self.under_way;
            if self.at - last.end >= PIECE as u64 {
                let next = last.end..self.at;
                self.file.write_back(first.clone(), next.clone())?;
                self.under_way = [next, last.clone()];
            }
        }
        Ok(())
    }

    /// Complete the file. `header` makes the header from the checksum of the checksum table. The
    /// file's bytes are durable on return, its name is not. Answers the header's checksum and the
    /// file's size.
    pub(crate) fn finish(self, header: impl FnOnce(u32) -> Vec<u8>) -> Result<(u32, u64)> {
        let page = header(crc32c::crc32c(&self.sums));
        let written = self.file.write(&self.sums, self.at).and_then(|()| self.file.write(&page, 0));
        written.and_then(|()| self.file.sync()).inspect_err(|_| self.file.file.free())?;
        Ok((header_sum(&page), self.at + self.sums.len() as u64))
    }
}

/// Buffers what is written to a file: whole pages go to it, the rest stays.
pub(crate) struct Output {
    sink: Sink,
    buffer: Buffer<u8>,
}

impl Output {
    /// Bytes that are collected before they are written.
    const MOST: usize = 1 << 18;

    pub(crate) fn create(system: &dyn FileSystem, path: &Path) -> Result<Self> {
        Ok(Self { sink: Sink::create(system, path)?, buffer: buffer(0) })
    }

    /// Where the next byte will stand in the file.
    fn at(&self) -> u64 {
        self.sink.at + self.buffer.len() as u64
    }

    /// Append bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.is_empty() && bytes.len().is_multiple_of(PAGE) {
            return self.sink.push(bytes);
        }
        // Many bytes pass through the buffer: it is not to hold them all.
        bytes.chunks(Self::MOST).try_for_each(|piece| self.push_with(piece.len(), |out| out.copy_from_slice(piece)))
    }

    /// Append `length` bytes that `fill` makes from zeros.
    pub(crate) fn push_with(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let start = self.buffer.len();
        self.buffer.resize(start + length, 0);
        fill(&mut self.buffer[start..]);
        if self.buffer.len() >= Self::MOST { self.write(self.buffer.len() / PAGE * PAGE) } else { Ok(()) }
    }

    /// Append zeros up to a place.
    pub(crate) fn pad_to(&mut self, place: u64) -> Result<()> {
        self.push_with(place.saturating_sub(self.at()) as usize, |_| ())
    }

    /// Pad the last page with zeros and write it.
    pub(crate) fn end_page(&mut self) -> Result<()> {
        let length = self.buffer.len().next_multiple_of(PAGE);
        self.buffer.resize(length, 0);
        self.write(length)
    }

    /// What whole pages are written to; none while a part of one is waiting.
    pub(crate) fn whole_pages(&mut self) -> Option<&mut Sink> {
        self.buffer.is_empty().then_some(&mut self.sink)
    }

    fn write(&mut self, length: usize) -> Result<()> {
        self.sink.push(&self.buffer[..length])?;
        self.buffer.drain(..length);
        Ok(())
    }

    /// [`Sink::finish`], after a whole page.
    pub(crate) fn finish(self, header: impl FnOnce(u32) -> Vec<u8>) -> Result<(u32, u64)> {
        debug_assert!(self.buffer.is_empty(), "the last page is written");
        self.sink.finish(header)
    }
}
