//! Bytes that are put aside, and read again: few of them stay in memory, the others are in a file
//! without a name, which nobody can find after a crash.

use std::io;
use std::path::Path;

use super::{FileSystem, NamedFile, temporary_name};
use crate::{Error, Result};

/// Bytes that stay in memory, and that are written and read at a time.
const PIECE: usize = if cfg!(feature = "small") { 1 << 7 } else { 1 << 16 };

pub(crate) struct Spool<'a> {
    system: &'a dyn FileSystem,
    /// The file that these bytes are for: theirs stands beside it.
    path: &'a Path,
    file: Option<NamedFile>,
    written: u64,
    /// Where each part ends that was written at once, and its checksum.
    parts: Vec<(u64, u32)>,
    /// What is not in the file.
    rest: Vec<u8>,
}

/// Reads the bytes of a spool in order.
pub(crate) struct SpoolReader<'s> {
    spool: &'s Spool<'s>,
    /// Number of parts that were read.
    parts: usize,
    /// The last of them, and how much of it was passed on.
    part: Vec<u8>,
    passed: usize,
}

impl<'a> Spool<'a> {
    pub(crate) fn new(system: &'a dyn FileSystem, path: &'a Path) -> Self {
        Self { system, path, file: None, written: 0, parts: Vec::new(), rest: Vec::new() }
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.rest.len() as u64
    }

    /// Append bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.rest.is_empty() && self.rest.len() + bytes.len() > PIECE {
            self.write()?;
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(nameless(self.system, self.path)?),
        };
        file.write(&self.rest, self.written)?;
        self.written += self.rest.len() as u64;
        self.parts.push((self.written, crc32c::crc32c(&self.rest)));
        self.rest.clear();
        Ok(())
    }

    /// Pass all bytes, in order, some at a time.
    pub(crate) fn each(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut reader = self.reader();
        while reader.next_part()? {
            take(&reader.part)?;
        }
        Ok(())
    }

    /// Read from the start on.
    pub(crate) fn reader(&self) -> SpoolReader<'_> {
        SpoolReader { spool: self, parts: 0, part: Vec::new(), passed: 0 }
    }
}

impl SpoolReader<'_> {
    /// Fill a buffer with the next bytes.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.passed == self.part.len() && !self.next_part()? {
                return Err(self.changed("ends too early"));
            }
            let some = (self.part.len() - self.passed).min(buffer.len() - filled);
            buffer[filled..filled + some].copy_from_slice(&self.part[self.passed..self.passed + some]);
            (self.passed, filled) = (self.passed + some, filled + some);
        }
        Ok(())
    }

    /// Go on to the next part; answers whether there is one.
    fn next_part(&mut self) -> Result<bool> {
        let spool = self.spool;
        let start = self.parts.checked_sub(1).map_or(0, |before| spool.parts.get(before).map_or(0, |(end, _)| *end));
        self.passed = 0;
        self.parts += 1;
        match (spool.parts.get(self.parts - 1), &spool.file) {
            (Some((end, sum)), Some(file)) => {
                self.part.resize((end - start) as usize, 0);
                file.read(&mut self.part, start)?;
                if crc32c::crc32c(&self.part) == *sum { Ok(true) } else { Err(self.changed("came back changed")) }
            }
            _ => {
                self.part.clear();
                if self.parts == spool.parts.len() + 1 {
                    self.part.extend_from_slice(&spool.rest);
                }
                Ok(!self.part.is_empty())
            }
        }
    }

    fn changed(&self, how: &str) -> Error {
        let reason = format!("what was put aside for it {how}");
        Error::io("write", self.spool.path)(io::Error::new(io::ErrorKind::InvalidData, reason))
    }
}

/// A new file that loses its name at once.
fn nameless(system: &dyn FileSystem, beside: &Path) -> Result<NamedFile> {
    let name = temporary_name(beside);
    let file = system.create_at(&name)?;
    // Somebody who collects temporary files may have been faster.
    system.remove_if_there(&name)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Disk;

    #[test]
    fn bytes_come_back_in_order_and_leave_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        for (length, count) in [(0, 3), (1, 5), (7, PIECE), (PIECE, 1), (PIECE, 2), (PIECE + 1, 3), (3 * PIECE, 2)] {
            let mut spool = Spool::new(&Disk, &path);
            let mut expected = Vec::new();
            for number in 0..count {
                let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
                spool.push(&bytes).unwrap();
                expected.extend(bytes);
            }
            assert_eq!(spool.len(), expected.len() as u64);
            assert_eq!(spool.file.is_some(), length * count > PIECE, "{count} times {length} bytes");
            assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
            let mut found = Vec::new();
            let collect = |bytes: &[u8]| {
                found.extend_from_slice(bytes);
                Ok(())
            };
            spool.each(collect).unwrap();
            assert!(found == expected, "{count} times {length} bytes");
            let mut reader = spool.reader();
            for some in [1, PIECE - 1, PIECE + 3, 2 * PIECE].into_iter().scan(0, |at, some| {
                let range = *at..(*at + some).min(expected.len());
                *at = range.end;
                Some(range)
            }) {
                let mut piece = vec![0; some.len()];
                reader.fill(&mut piece).unwrap();
                assert!(piece == expected[some.clone()], "{some:?}");
            }
        }
    }

    #[test]
    fn bytes_that_come_back_changed_are_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment");
        let mut spool = Spool::new(&Disk, &path);
        for number in 0..5 {
            spool.push(&[number; PIECE]).unwrap();
        }
        spool.file.as_ref().unwrap().write(&[7], PIECE as u64 + 9).unwrap();
        let mut passed = 0;
        let changed = spool.each(|bytes| {
            passed += bytes.len();
            Ok(())
        });
        assert!(matches!(changed, Err(Error::Io { .. })) && passed == PIECE, "{changed:?}");
        assert!(spool.reader().fill(&mut [0; PIECE + 1]).is_err());
        assert!(spool.reader().fill(&mut [0; PIECE]).is_ok());
    }
}
