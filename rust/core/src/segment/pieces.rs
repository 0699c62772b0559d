//! Writing a large file piece by piece: while one is written the next can be made.

use std::sync::mpsc;

use crate::io::NamedFile;
use crate::io::pages::PAGE;
use crate::{Error, Result};

/// Pieces that are in memory at a time.
const PIECES: usize = 3;

/// Takes the pages behind a header, in order, and their checksums.
pub(super) struct Sink<'a> {
    file: &'a NamedFile,
    at: u64,
    sums: Vec<u8>,
}

impl<'a> Sink<'a> {
    /// The header vouches for itself: its entry is zero.
    pub(super) fn behind_header(file: &'a NamedFile) -> Self {
        Self { file, at: PAGE as u64, sums: vec![0; 4] }
    }

    /// Append whole pages.
    pub(super) fn push(&mut self, pages: &[u8]) -> Result<()> {
        self.sums.extend(pages.chunks(PAGE).map(crc32c::crc32c).flat_map(u32::to_le_bytes));
        self.file.write(pages, self.at)?;
        self.at += pages.len() as u64;
        Ok(())
    }

    /// The checksums of all pages, as they stand behind them.
    pub(super) fn into_sums(self) -> Vec<u8> {
        self.sums
    }
}

/// Make each piece and pass it on to `sink`; with more than one thread the next is made meanwhile.
pub(super) fn pass_on<T>(
    sink: &mut Sink,
    pieces: impl ExactSizeIterator<Item = T>,
    threads: usize,
    mut make: impl FnMut(T, &mut Vec<u8>),
) -> Result<()> {
    if threads < 2 || pieces.len() < PIECES {
        let mut buffer = Vec::new();
        return pieces.into_iter().try_for_each(|piece| {
            make(piece, &mut buffer);
            sink.push(&buffer)
        });
    }
    std::thread::scope(|scope| {
        let (made, to_write) = mpsc::sync_channel::<Vec<u8>>(PIECES);
        let (written, to_make) = mpsc::sync_channel(PIECES);
        (0..PIECES).for_each(|_| drop(written.send(Vec::new())));
        let writer = scope.spawn(move || {
            to_write.into_iter().try_for_each(|buffer| {
                sink.push(&buffer)?;
                // Nobody makes another once the last is made.
                drop(written.send(buffer));
                Ok(())
            })
        });
        for piece in pieces {
            // If the writer has gone, it says why.
            let Ok(mut buffer) = to_make.recv() else { break };
            make(piece, &mut buffer);
            if made.send(buffer).is_err() {
                break;
            }
        }
        drop(made);
        writer.join().unwrap_or_else(|_| Err(Error::State("a thread that wrote a file failed".into())))
    })
}
