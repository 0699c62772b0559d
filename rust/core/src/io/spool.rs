//! Bytes that are put aside, and read again: few of them stay in memory, the others are in a file
//! without a name, which nobody can find after a crash.

use std::path::Path;

use super::{FileSystem, NamedFile, temporary_name};
use crate::Result;

/// Bytes that stay in memory, and that are written and read at a time.
const PIECE: usize = if cfg!(feature = "small") { 1 << 7 } else { 1 << 16 };

pub(crate) struct Spool<'a> {
    system: &'a dyn FileSystem,
    /// The file that these bytes are for: theirs stands beside it.
    path: &'a Path,
    file: Option<NamedFile>,
    written: u64,
    /// What is not in the file.
    rest: Vec<u8>,
}

impl<'a> Spool<'a> {
    pub(crate) fn new(system: &'a dyn FileSystem, path: &'a Path) -> Self {
        Self { system, path, file: None, written: 0, rest: Vec::new() }
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
        self.rest.clear();
        Ok(())
    }

    /// Pass all bytes, in order, some at a time.
    pub(crate) fn each(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut piece = Vec::new();
        for at in (0..self.len()).step_by(PIECE) {
            piece.resize((self.len() - at).min(PIECE as u64) as usize, 0);
            self.read(&mut piece, at)?;
            take(&piece)?;
        }
        Ok(())
    }

    /// Fill `piece` with the bytes from `at` on.
    pub(crate) fn read(&self, piece: &mut [u8], at: u64) -> Result<()> {
        let (of_file, others) = piece.split_at_mut((self.written.saturating_sub(at) as usize).min(piece.len()));
        if let Some(file) = self.file.as_ref().filter(|_| !of_file.is_empty()) {
            file.read(of_file, at)?;
        }
        let from = at.saturating_sub(self.written) as usize;
        others.copy_from_slice(&self.rest[from..from + others.len()]);
        Ok(())
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
            for at in [0, 1, PIECE - 1, PIECE, 2 * PIECE + 3].into_iter().filter(|at| *at < expected.len()) {
                let mut piece = vec![0; (expected.len() - at).min(PIECE + 2)];
                spool.read(&mut piece, at as u64).unwrap();
                assert!(piece == expected[at..at + piece.len()], "{} bytes from {at} on", piece.len());
            }
        }
    }
}
