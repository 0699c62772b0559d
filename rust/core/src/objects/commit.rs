//! One commit of a chain, as an object (`docs/object-storage.md`, "Objects").

use std::path::Path;

use crate::io::bytes::{Decoder, Encoder, checked};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"DHCOMMIT";
const VERSION: u32 = 1;

/// A random number that tells a commit from every other one of its number.
pub(crate) type CommitId = [u8; 16];

/// A commit: what changed, behind the one that it follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) history: [u8; 16],
    pub(crate) number: u64,
    pub(crate) id: CommitId,
    /// The id of the commit before it; zeros for the first.
    pub(crate) follows: CommitId,
    /// The number of the newest commit, itself included, from which the state can be read.
    pub(crate) base: u64,
    pub(crate) change: Vec<u8>,
}

impl Commit {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(self.change.len() + 96);
        out.raw(&MAGIC).u32(VERSION).u32(0).raw(&self.history).u64(self.number).raw(&self.id).raw(&self.follows);
        out.u64(self.base).blob(&self.change).checksum();
        out.finish()
    }

    /// The commit of this history in an object called `name`, which must be number `number`.
    pub(crate) fn decode(bytes: &[u8], name: &str, history: [u8; 16], number: u64) -> Result<Self> {
        let path = Path::new(name);
        Decoder::new(bytes, path).preamble(MAGIC, VERSION)?;
        let mut from = Decoder::new(checked(bytes, path)?, path);
        from.preamble(MAGIC, VERSION)?;
        from.u32()?;
        let commit = Self {
            history: from.bytes16()?,
            number: from.u64()?,
            id: from.bytes16()?,
            follows: from.bytes16()?,
            base: from.u64()?,
            change: from.blob()?.to_vec(),
        };
        from.finish()?;
        if commit.history != history || commit.number != number {
            return Err(Error::corrupt(path, 16, "this commit belongs to another history, or has another number"));
        }
        if commit.base == 0 || commit.base > number {
            return Err(Error::corrupt(path, 72, "the number of its base is out of range"));
        }
        Ok(commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_read_back_and_a_flipped_bit_is_not() {
        let (history, id, follows) = ([1; 16], [2; 16], [3; 16]);
        let commit = Commit { history, number: 7, id, follows, base: 5, change: b"frames".to_vec() };
        let mut bytes = commit.encode();
        assert_eq!(Commit::decode(&bytes, "commit-7", history, 7).unwrap(), commit);
        assert!(matches!(Commit::decode(&bytes, "commit-8", history, 8), Err(Error::Corrupt { .. })));
        assert!(matches!(Commit::decode(&bytes, "commit-7", [0; 16], 7), Err(Error::Corrupt { .. })));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Commit::decode(&bytes, "commit-7", history, 7).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
