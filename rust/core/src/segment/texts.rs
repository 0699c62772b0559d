//! The texts of a segment that is being written. They and their keys stand behind the UUIDs: until
//! those are all there they are put aside, or stay where they are.

use super::buckets::write_keys_of;
use super::file::Output;
use super::run::{EntryRun, HeldTexts, TextEntry};
use super::target::{AT_A_TIME, Target};
use crate::Result;
use crate::io::Spool;
use crate::sys::background::make_way;

/// How many texts ahead one is prefetched.
const AHEAD: usize = 16;

pub(super) enum Texts<'a> {
    /// The keys, where each text starts, and the texts.
    Aside(Box<[Spool<'a>; 3]>),
    /// The entries, whose texts others hold, and the bytes of those. They are in pieces: the
    /// allocator keeps what it gets back of larger ones.
    Held { held: &'a dyn HeldTexts, pieces: Vec<Vec<TextEntry>>, bytes: u64 },
}

impl<'a> Texts<'a> {
    pub(super) fn aside(target: Target<'a>) -> Self {
        let spool = || Spool::new(target.system, target.path);
        Self::Aside(Box::new([spool(), spool(), spool()]))
    }

    /// Texts in `held`.
    pub(super) fn held(held: &'a dyn HeldTexts) -> Self {
        Self::Held { held, pieces: Vec::new(), bytes: 0 }
    }

    /// Append those of a settled run; `width` bytes of each key are written.
    pub(super) fn push(&mut self, run: &EntryRun, width: usize) -> Result<()> {
        match self {
            Self::Held { pieces, bytes, .. } => {
                pieces.extend(run.texts.chunks(AT_A_TIME).map(<[_]>::to_vec));
                *bytes += run.texts.iter().map(|entry| u64::from(entry.length)).sum::<u64>();
                Ok(())
            }
            Self::Aside(aside) => {
                let [keys, starts, heap] = &mut **aside;
                each_keys(&run.texts, width, |entries, some| {
                    keys.push(some)?;
                    for entry in entries {
                        starts.push(&heap.len().to_le_bytes())?;
                        heap.push(run.text(entry))?;
                    }
                    Ok(())
                })
            }
        }
    }

    /// The bytes of all texts.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Aside(aside) => aside[2].len(),
            Self::Held { bytes, .. } => *bytes,
        }
    }

    /// Write `width` bytes of each key.
    pub(super) fn write_keys(&self, width: usize, out: &mut Output) -> Result<()> {
        match self {
            Self::Aside(aside) => aside[0].each(|some| out.push(some)),
            Self::Held { pieces, .. } => {
                pieces.iter().try_for_each(|piece| each_keys(piece, width, |_, some| out.push(some)))
            }
        }
    }

    /// Write where each text starts, and where the last one ends.
    pub(super) fn write_starts(&self, out: &mut Output) -> Result<()> {
        match self {
            Self::Aside(aside) => aside[1].each(|some| out.push(some))?,
            Self::Held { pieces, .. } => {
                let mut start = 0;
                for entry in pieces.iter().flatten() {
                    out.push(&u64::to_le_bytes(start))?;
                    start += u64::from(entry.length);
                }
            }
        }
        out.push(&self.bytes().to_le_bytes())
    }

    pub(super) fn write_heap(&self, out: &mut Output) -> Result<()> {
        match self {
            Self::Aside(aside) => aside[2].each(|some| out.push(some)),
            Self::Held { held, pieces, .. } => {
                for piece in pieces {
                    make_way();
                    for (at, entry) in piece.iter().enumerate() {
                        if let Some(later) = piece.get(at + AHEAD) {
                            held.fetch(later);
                        }
                        out.push(held.text(entry))?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Pass entries, some at a time, with `width` bytes of the key of each.
fn each_keys(
    entries: &[TextEntry],
    width: usize,
    mut take: impl FnMut(&[TextEntry], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut keys = vec![0; AT_A_TIME.min(entries.len()) * width];
    for entries in entries.chunks(AT_A_TIME) {
        make_way();
        let keys = &mut keys[..entries.len() * width];
        write_keys_of(entries.iter().map(|entry| entry.key), width, keys);
        take(entries, keys)?;
    }
    Ok(())
}
