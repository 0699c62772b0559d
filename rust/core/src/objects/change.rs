//! What a commit changes: the bytes of the log's frames, and a manifest with the objects of its
//! files.

use std::path::Path;

use crate::Result;
use crate::io::bytes::{Decoder, Encoder};

/// Frames appended to the log, or a new manifest, or both in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) frames: Option<LogBytes>,
    pub(crate) manifest: Option<NewManifest>,
}

/// A piece of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogBytes {
    /// The log's number.
    pub(crate) log: u64,
    /// Where in the log the bytes stand.
    pub(crate) from: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NewManifest {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    /// The first bytes of the log that begins with it. A commit with a new log is a base: nothing
    /// before it is needed.
    pub(crate) new_log: Option<LogBytes>,
    /// The names of files, and the objects that hold them: all files of a base, otherwise those
    /// that are new.
    pub(crate) files: Vec<(String, Stored)>,
}

/// An object that holds a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) object: String,
    pub(crate) bytes: u64,
    /// The checksum of all bytes.
    pub(crate) sum: u32,
}

impl Change {
    /// Whether the state can be read from this commit on.
    pub(crate) fn is_base(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.new_log.is_some())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        encode_log(&mut out, self.frames.as_ref());
        out.u8(u8::from(self.manifest.is_some()));
        if let Some(manifest) = &self.manifest {
            out.u64(manifest.number).blob(&manifest.bytes);
            encode_log(&mut out, manifest.new_log.as_ref());
            out.u32(manifest.files.len() as u32);
            for (file, stored) in &manifest.files {
                out.text(file).text(&stored.object).u64(stored.bytes).u32(stored.sum);
            }
        }
        out.finish()
    }

    /// The change in the commit called `name`.
    pub(crate) fn decode(bytes: &[u8], name: &str) -> Result<Self> {
        let mut from = Decoder::new(bytes, Path::new(name));
        let mut change = Self { frames: decode_log(&mut from)?, manifest: None };
        if from.u8()? != 0 {
            let (number, bytes) = (from.u64()?, from.blob()?.to_vec());
            let new_log = decode_log(&mut from)?;
            let count = from.count(20)?;
            let stored =
                |from: &mut Decoder| Result::Ok(Stored { object: from.text()?, bytes: from.u64()?, sum: from.u32()? });
            let files = (0..count).map(|_| Ok((from.text()?, stored(&mut from)?))).collect::<Result<_>>()?;
            change.manifest = Some(NewManifest { number, bytes, new_log, files });
        }
        from.finish()?;
        Ok(change)
    }
}

fn encode_log(out: &mut Encoder, log: Option<&LogBytes>) {
    out.u8(u8::from(log.is_some()));
    if let Some(LogBytes { log, from, bytes }) = log {
        out.u64(*log).u64(*from).blob(bytes);
    }
}

fn decode_log(from: &mut Decoder) -> Result<Option<LogBytes>> {
    if from.u8()? == 0 {
        return Ok(None);
    }
    Ok(Some(LogBytes { log: from.u64()?, from: from.u64()?, bytes: from.blob()?.to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_back_and_a_part_of_it_is_not() {
        let piece = |log| LogBytes { log, from: 64, bytes: vec![9; 5] };
        let files = vec![("segment-1".into(), Stored { object: "data-1".into(), bytes: 5, sum: 7 })];
        let manifest = NewManifest { number: 3, bytes: vec![1, 2], new_log: Some(piece(2)), files };
        let whole = Change { frames: Some(piece(1)), manifest: Some(manifest) };
        for change in [Change::default(), Change { manifest: None, ..whole.clone() }, whole] {
            let bytes = change.encode();
            assert_eq!(Change::decode(&bytes, "commit").unwrap(), change);
            for length in 0..bytes.len() {
                assert!(Change::decode(&bytes[..length], "commit").is_err(), "{length} bytes");
            }
        }
    }
}
