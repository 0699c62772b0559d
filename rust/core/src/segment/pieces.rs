//! Writing a large file piece by piece: one piece is written while the next is made.

use std::sync::mpsc;

use super::file::Sink;
use crate::{Error, Result};

/// Pieces that are in memory at a time.
const PIECES: usize = 3;

/// Make each piece and pass it to `sink`; with more than one thread the next is made meanwhile.
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
                // After the last piece nobody needs another buffer.
                drop(written.send(buffer));
                Ok(())
            })
        });
        for piece in pieces {
            // If the writer has ended, it tells why.
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
