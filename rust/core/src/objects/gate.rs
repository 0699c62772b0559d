//! Gates: whether commits of a block may have been collected, and whether the history is still the
//! one that a handle has open.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::chance::drawn;
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

/// The content of a new gate, with a mark of its own.
pub(super) fn open_gate() -> Result<Vec<u8>> {
    let mut open = Encoder::with_capacity(24);
    open.raw(OPEN).raw(&drawn()?).checksum();
    Ok(open.finish())
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

    fn compare(&self, block: u64, name: &str, mark: &[u8]) -> Result<()> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*seen {
            Some((newest, known)) if *newest == block && known != mark => {
                let reason = "another history was put in the place of the one that this handle has open: it was made \
                              again, or a copy was restored; nothing was acknowledged, so open it again";
                Err(Error::Fenced { path: name.into(), reason: reason.to_owned() })
            }
            Some((newest, _)) if *newest >= block => Ok(()),
            _ => {
                *seen = Some((block, mark.to_vec()));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_known_by_its_mark() {
        let (marks, first, second) = (Marks::default(), open_gate().unwrap(), open_gate().unwrap());
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
    fn a_damaged_gate_is_neither_open_nor_of_another_history() {
        let (marks, mut gate) = (Marks::default(), open_gate().unwrap());
        marks.state_of(0, "gate", Some(&gate)).unwrap();
        for bit in 0..gate.len() * 8 {
            gate[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(marks.state_of(0, "gate", Some(&gate)), Err(Error::Corrupt { .. })), "bit {bit}");
            gate[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
