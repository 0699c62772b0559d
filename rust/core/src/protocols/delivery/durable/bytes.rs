//! Numbers and text one after the other, for what travels between processes of one program.

use crate::{Error, Result};

/// Writes to the end of `self`.
#[derive(Debug, Default)]
pub(super) struct Packed(pub(super) Vec<u8>);

impl Packed {
    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// Reads from the front.
#[derive(Debug)]
pub(super) struct Unpacked<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Unpacked<'a> {
    /// `what` it is, for errors; `mark` is its first number.
    pub(super) fn new(what: &'static str, mark: u64, bytes: &'a [u8]) -> Result<Self> {
        let mut unpacked = Self { what, rest: bytes };
        if unpacked.number()? == mark { Ok(unpacked) } else { Err(unpacked.foreign()) }
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        let (number, rest) = self.rest.split_first_chunk().ok_or_else(|| self.foreign())?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.number()?;
        let cut = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let (bytes, rest) = cut.ok_or_else(|| self.foreign())?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.foreign())
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.foreign()) }
    }

    pub(super) fn foreign(&self) -> Error {
        Error::State(format!("these bytes are no {} of this version of dochistory", self.what))
    }
}
