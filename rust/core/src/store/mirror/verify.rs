//! Checking that the bucket holds what its commits say.

use std::path::Path;

use super::Mirror;
use crate::objects::change::Stored;
use crate::store::{KeySpace, Progress};
use crate::{Error, Result};

/// Bytes fetched at a time.
const PIECE: usize = 16 << 20;

impl KeySpace {
    /// Read every commit of the state, and every object that it names; answers how many bytes the
    /// objects have.
    pub(in crate::store) fn verify_objects(&self, progress: Progress) -> Result<u64> {
        let Some(mirror) = self.mirror.as_deref().filter(|_| !self.is_pinned) else { return Ok(0) };
        let (mut chain, files) = {
            let known = mirror.lock();
            (known.chain.clone(), known.files.clone())
        };
        chain.find()?;
        let total = files.values().map(|stored| stored.bytes).sum();
        let mut done = 0;
        for (name, stored) in &files {
            match check(mirror, stored, &mut |more| {
                done += more;
                progress(done, total)
            }) {
                Err(Error::Objects { .. } | Error::Corrupt { .. }) if !self.still_needs(mirror, name, stored)? => {}
                checked => checked?,
            }
        }
        Ok(total)
    }

    /// Whether the newest state names this object: others may have replaced and collected it.
    fn still_needs(&self, mirror: &Mirror, name: &str, stored: &Stored) -> Result<bool> {
        self.catch_up()?;
        Ok(mirror.lock().files.get(name) == Some(stored))
    }
}

fn check(mirror: &Mirror, stored: &Stored, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    let (mut at, mut sum) = (0, 0);
    while at < stored.bytes {
        let take = (PIECE as u64).min(stored.bytes - at) as usize;
        let piece = mirror.chain.tried(|| mirror.chain.store().get_range(&stored.object, at, take))?;
        let Some(piece) = piece else { return Err(mirror.chain.lost(&stored.object)) };
        if piece.len() != take {
            break;
        }
        sum = crc32c::crc32c_append(sum, &piece);
        at += take as u64;
        progress(take as u64)?;
    }
    if (at, sum) == (stored.bytes, stored.sum) {
        Ok(())
    } else {
        Err(other_bytes(&mirror.chain.full_name(&stored.object)))
    }
}

/// The error for an object whose bytes are not those that were stored.
pub(super) fn other_bytes(name: &str) -> Error {
    let reason = "the object does not hold the bytes that its commit says: restore it from a copy or an older version \
                  of it; nothing was changed";
    Error::corrupt(Path::new(name), 0, reason)
}
