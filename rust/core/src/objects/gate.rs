//! Gates: whether commits of a block may have been collected, and whether the history is still the
//! one that a handle has open.
//!
//! All gates of a chain have one mark, so that a handle knows its chain by any of them: that of the
//! block in which it last looked may have been closed since.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::chance::drawn;
use super::commit::CommitId;
use crate::io::bytes::{Encoder, checked};
use crate::{Error, Result};

/// What an open gate begins with; its mark and a checksum follow.
const OPEN: &[u8] = b"open";
pub(super) const CLOSED: &[u8] = b"closed";

/// The state of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Absent,
    Open,
    Closed,
}

/// What ends a mark that all gates of a chain have. Earlier builds drew one for each gate.
const COMMON: &[u8] = b"=";

/// The content of a chain's first gate, with a mark of its own.
pub(super) fn first_gate() -> Result<Vec<u8>> {
    Ok(open_gate(&[&drawn()?, COMMON].concat()))
}

fn open_gate(mark: &[u8]) -> Vec<u8> {
    let mut open = Encoder::with_capacity(32);
    open.raw(OPEN).raw(mark).checksum();
    open.finish()
}

fn is_common(mark: &[u8]) -> bool {
    mark.len() == size_of::<CommitId>() + COMMON.len() && mark.ends_with(COMMON)
}

/// A block and the mark of its gate.
type Marked = (u64, Vec<u8>);

/// The mark of the newest gate that a handle has seen open.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(Arc<Mutex<Option<Marked>>>);

impl Marks {
    /// The state of the gate of `block`, whose object is called `name` and says `content`. It is
    /// fenced where the mark is not the one that was seen before.
    pub(super) fn state_of(&self, block: u64, name: &str, content: Option<&[u8]>) -> Result<Gate> {
        let Some(bytes) = content else { return Ok(Gate::Absent) };
        if bytes == CLOSED {
            return Ok(Gate::Closed);
        }
        // Those of earlier builds have neither mark nor checksum.
        let bytes = if bytes == OPEN { bytes } else { checked(bytes, Path::new(name))? };
        let Some(mark) = bytes.strip_prefix(OPEN) else {
            return Err(Error::corrupt(Path::new(name), 0, "neither open nor closed"));
        };
        self.compare(block, name, mark).map(|()| Gate::Open)
    }

    /// The content of the next gate of a chain, of which a gate was seen.
    pub(super) fn next_gate(&self) -> Result<Vec<u8>> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*seen {
            Some((_, mark)) if is_common(mark) => Ok(open_gate(mark)),
            _ => Ok(open_gate(&drawn()?)),
        }
    }

    fn compare(&self, block: u64, name: &str, mark: &[u8]) -> Result<()> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*seen {
            Some((newest, known)) if known != mark && (*newest == block || is_common(known) && is_common(mark)) => {
                Err(replaced(name))
            }
            Some((newest, _)) if *newest >= block => Ok(()),
            _ => {
                *seen = Some((block, mark.to_vec()));
                Ok(())
            }
        }
    }
}

/// The error for a gate that is not the one of the chain that a handle knows.
pub(super) fn replaced(name: &str) -> Error {
    let reason = "another history was put in the place of the one that this handle has open: it was made again, or a \
                  copy was restored; nothing was acknowledged, so open it again";
    Error::Fenced { path: name.into(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_known_by_its_mark() {
        let older = |mark: u8| open_gate(&[mark; 16]);
        let (marks, first, second) = (Marks::default(), older(1), older(2));
        let state = |block, content: &[u8]| marks.state_of(block, "gate", Some(content));
        assert!(matches!(marks.state_of(3, "gate", None), Ok(Gate::Absent)));
        assert!(matches!((state(3, &first), state(3, &first)), (Ok(Gate::Open), Ok(Gate::Open))));
        assert!(matches!(state(3, &second), Err(Error::Fenced { .. })));
        assert!(matches!(state(3, OPEN), Err(Error::Fenced { .. })));
        assert!(matches!((state(3, CLOSED), state(2, &second)), (Ok(Gate::Closed), Ok(Gate::Open))));
        assert!(matches!((state(4, OPEN), state(4, OPEN)), (Ok(Gate::Open), Ok(Gate::Open))));
        assert!(matches!(state(4, &first), Err(Error::Fenced { .. })));
    }

    #[test]
    fn all_gates_of_a_chain_have_one_mark() {
        let (marks, other) = (Marks::default(), first_gate().unwrap());
        let state = |block, content: &[u8]| marks.state_of(block, "gate", Some(content));
        assert!(matches!(state(0, &first_gate().unwrap()), Ok(Gate::Open)));
        let next = marks.next_gate().unwrap();
        for block in [0, 1, 7, 2] {
            assert!(matches!(state(block, &next), Ok(Gate::Open)), "{block}");
            assert!(matches!(state(block, &other), Err(Error::Fenced { .. })), "{block}");
        }
        // Behind one of an earlier build each has its own again.
        assert!(matches!(state(8, &open_gate(&[1; 16])), Ok(Gate::Open)));
        assert_ne!(marks.next_gate().unwrap(), marks.next_gate().unwrap());
    }

    #[test]
    fn a_damaged_gate_is_neither_open_nor_of_another_history() {
        let (marks, mut gate) = (Marks::default(), first_gate().unwrap());
        marks.state_of(0, "gate", Some(&gate)).unwrap();
        for bit in 0..gate.len() * 8 {
            gate[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(marks.state_of(0, "gate", Some(&gate)), Err(Error::Corrupt { .. })), "bit {bit}");
            gate[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
