//! Little-endian fields, written and read in order; reading checks every bound.

use std::path::Path;

use crate::{Error, Result};

/// Appends fields to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A text of up to 4 GiB with its length before it.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.u32(text.len() as u32).raw(text.as_bytes())
    }

    /// Bytes with their length, 64 bits, before them.
    pub(crate) fn blob(&mut self, bytes: &[u8]) -> &mut Self {
        self.u64(bytes.len() as u64).raw(bytes)
    }

    /// Zeros up to the next multiple of `alignment`.
    pub(crate) fn align(&mut self, alignment: usize) -> &mut Self {
        let length = self.bytes.len().next_multiple_of(alignment);
        self.bytes.resize(length, 0);
        self
    }

    pub(crate) fn zeros(&mut self, count: usize) -> &mut Self {
        self.bytes.resize(self.bytes.len() + count, 0);
        self
    }

    /// Pairs of numbers.
    pub(crate) fn pairs(&mut self, pairs: impl ExactSizeIterator<Item = (u64, u64)>) -> &mut Self {
        let start = self.bytes.len();
        self.zeros(pairs.len() * 16);
        for (slot, (first, second)) in self.bytes[start..].as_chunks_mut::<16>().0.iter_mut().zip(pairs) {
            slot[..8].copy_from_slice(&first.to_le_bytes());
            slot[8..].copy_from_slice(&second.to_le_bytes());
        }
        self
    }

    /// The checksum of all so far.
    pub(crate) fn checksum(&mut self) -> &mut Self {
        let sum = crc32c::crc32c(&self.bytes);
        self.u32(sum)
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Takes fields from a file's bytes; every shortage is a corruption error with file and offset.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    path: &'a Path,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8], path: &'a Path) -> Self {
        Self { bytes, at: 0, path }
    }

    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> Error {
        Error::corrupt(self.path, self.at as u64, reason)
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.corrupt(format!("ends {length} bytes before its content does")));
        };
        let part = &self.bytes[self.at..end];
        self.at = end;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn bytes16(&mut self) -> Result<[u8; 16]> {
        self.array()
    }

    pub(crate) fn bytes32(&mut self) -> Result<[u8; 32]> {
        self.array()
    }

    pub(crate) fn blob(&mut self) -> Result<&'a [u8]> {
        let length = self.u64()?;
        self.raw(usize::try_from(length).map_err(|_| self.corrupt("a length of more than an address"))?)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        let length = self.u32()? as usize;
        let bytes = self.raw(length)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.corrupt("a text that is not UTF-8"))
    }

    /// Step over the zeros up to the next multiple of `alignment`.
    pub(crate) fn align(&mut self, alignment: usize) -> Result<()> {
        self.raw(self.at.next_multiple_of(alignment) - self.at).map(drop)
    }

    /// Make sure that `count` items of `size` bytes are there, so that a damaged count cannot ask
    /// for memory.
    pub(crate) fn expect(&self, count: usize, size: usize) -> Result<()> {
        if count.saturating_mul(size) > self.bytes.len() - self.at {
            return Err(self.corrupt(format!("a list of {count} is longer than the file")));
        }
        Ok(())
    }

    /// A count that the remaining bytes can hold at `size` bytes each, so that a damaged one cannot
    /// ask for memory.
    pub(crate) fn count(&mut self, size: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        self.expect(count, size)?;
        Ok(count)
    }

    /// Check the magic and the format version that every file begins with.
    pub(crate) fn preamble(&mut self, magic: [u8; 8], newest: u32) -> Result<u32> {
        if self.array::<8>()? != magic {
            self.at = 0;
            return Err(self.corrupt("not a file of this kind (wrong magic)"));
        }
        let version = self.u32()?;
        if version == 0 || version > newest {
            return Err(Error::Open {
                path: self.path.to_path_buf(),
                reason: format!(
                    "written in format version {version}; this build reads up to {newest}: install a newer dochistory"
                ),
            });
        }
        Ok(version)
    }

    pub(crate) fn finish(&self) -> Result<()> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.corrupt("bytes after the end of the content")) }
    }
}

/// Split off the checksum at the end and check it.
pub(crate) fn checked<'a>(bytes: &'a [u8], path: &Path) -> Result<&'a [u8]> {
    let Some((content, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::corrupt(path, 0, "shorter than a checksum"));
    };
    if crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
        return Err(Error::corrupt(path, content.len() as u64, "the checksum does not match the content"));
    }
    Ok(content)
}
