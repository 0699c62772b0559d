//! Pins: objects that describe one state of a chain whole, for processes that read it and nothing
//! else. A collector leaves the files of a pin alone until it is removed, or its lease is over.

use std::collections::HashSet;
use std::path::Path;

use super::Listed;
use super::chain::Chain;
use super::change::{Change, NewManifest};
use super::names::Names;
use crate::io::bytes::{Decoder, Encoder, checked};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"DHPINNED";
const VERSION: u32 = 1;
/// Maximum lease of a pin in seconds, and that of a pin that names none.
const MOST_SECONDS: u64 = 7 * 24 * 3600;

/// A pinned state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pinned {
    pub(crate) history: [u8; 16],
    /// The commit that it is the state of.
    pub(crate) commit: u64,
    /// Its manifest, the first bytes of its log, which holds nothing else, and all its files.
    pub(crate) manifest: NewManifest,
}

impl Pinned {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        let change = Change { frames: None, manifest: Some(self.manifest.clone()) };
        out.raw(&MAGIC).u32(VERSION).u32(0).raw(&self.history).u64(self.commit).blob(&change.encode()).checksum();
        out.finish()
    }

    /// The pinned state of this history in an object called `name`.
    fn decode(bytes: &[u8], name: &str, history: [u8; 16]) -> Result<Self> {
        let path = Path::new(name);
        Decoder::new(bytes, path).preamble(MAGIC, VERSION)?;
        let mut from = Decoder::new(checked(bytes, path)?, path);
        from.preamble(MAGIC, VERSION)?;
        from.u32()?;
        let (of, commit) = (from.bytes16()?, from.u64()?);
        let change = Change::decode(from.blob()?, name)?;
        from.finish()?;
        match change.manifest {
            Some(manifest) if of == history && manifest.new_log.is_some() => Ok(Self { history, commit, manifest }),
            _ => Err(Error::corrupt(path, 16, "this pin belongs to another history, or names no state")),
        }
    }
}

/// The lease of the pin with this name in seconds: its fourth part. A name that says nothing has
/// the longest.
fn lease_of(name: &str) -> u64 {
    let seconds = name.split('-').nth(4).and_then(|part| part.parse().ok());
    seconds.unwrap_or(MOST_SECONDS).min(MOST_SECONDS)
}

impl Names {
    /// A pin; its own name begins as those of all pins do.
    pub(crate) fn pin(&self, name: &str) -> String {
        format!("{}{name}", self.all())
    }

    /// The own name of the pin in an object.
    fn pin_in<'a>(&self, object: &'a str) -> Option<&'a str> {
        object.strip_prefix(self.all()).filter(|name| name.starts_with("pin-"))
    }
}

impl Chain {
    /// Store a pin, under a name that nobody else uses.
    pub(crate) fn put_pin(&self, name: &str, pinned: &Pinned) -> Result<()> {
        self.put_new(&self.names().pin(name), &pinned.encode()).map(drop)
    }

    /// A pinned state; none if its pin is not there.
    pub(crate) fn pinned(&self, name: &str) -> Result<Option<Pinned>> {
        let object = self.names().pin(name);
        self.tried(|| {
            let bytes = self.store().get(&object)?;
            bytes.map(|bytes| Pinned::decode(&bytes, &object, self.history())).transpose()
        })
    }

    /// Remove a pin; one that is not there is fine.
    pub(crate) fn remove_pin(&self, name: &str) -> Result<()> {
        self.tried(|| self.store().delete(&self.names().pin(name)))
    }

    /// The names of all pins.
    pub(crate) fn pins(&self) -> Result<Vec<String>> {
        let listed = self.tried(|| self.store().list(&self.names().pin("pin-")))?;
        Ok(listed.iter().filter_map(|object| self.names().pin_in(&object.name).map(str::to_owned)).collect())
    }

    /// The objects that the listed pins keep. A pin whose lease is over by the store's clock is
    /// removed; one that cannot be read keeps everything, by an error.
    pub(super) fn kept_by_pins(&self, listed: &[Listed], now_us: i64) -> Result<HashSet<String>> {
        let mut kept = HashSet::new();
        for object in listed {
            let Some(name) = self.names().pin_in(&object.name) else { continue };
            let age_us = u64::try_from(now_us.saturating_sub(object.modified_us)).unwrap_or(0);
            if age_us / 1_000_000 >= lease_of(name) {
                self.remove_pin(name)?;
            } else if let Some(pinned) = self.pinned(name)? {
                kept.extend(pinned.manifest.files.into_iter().map(|(_, stored)| stored.object));
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::{LogBytes, Stored};
    use super::*;

    #[test]
    fn a_pin_is_read_back_and_a_flipped_bit_is_not() {
        let new_log = Some(LogBytes { log: 4, from: 0, bytes: vec![3; 8] });
        let files = vec![("segment-1".into(), Stored { object: "data-1".into(), bytes: 5, sum: 7 })];
        let manifest = NewManifest { number: 3, bytes: vec![1, 2], new_log, files };
        let pinned = Pinned { history: [1; 16], commit: 9, manifest };
        let mut bytes = pinned.encode();
        assert_eq!(Pinned::decode(&bytes, "pin", [1; 16]).unwrap(), pinned);
        assert!(Pinned::decode(&bytes, "pin", [2; 16]).is_err());
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Pinned::decode(&bytes, "pin", [1; 16]).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_lease_is_at_most_a_week() {
        assert_eq!(lease_of("pin-00000000000000000001-2f-9-60-0a"), 60);
        assert_eq!(lease_of("pin-00000000000000000001-2f-9"), MOST_SECONDS);
        assert_eq!(lease_of("pin-00000000000000000001-2f-9-99999999-0a"), MOST_SECONDS);
    }
}
