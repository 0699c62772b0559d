//! Reading the intact part of a damaged log.

use super::frame::{Frame, FrameHeader, HEADER};
use super::{CHUNK, Frames, Log, Next, START};
use crate::{Error, Result};

/// Minimum bytes of a key in a frame.
const LEAST_KEY: u64 = 16;

/// The number of keys in a damaged stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Exactly this number, each written by the `Begin` whose head can be read.
    Exactly(u64),
    /// At most this number: the stretch ends at a whole frame, and this is what fits in it.
    AtMost(u64),
    /// At least this number. How many followed is unknown: the length of a log is recorded only in
    /// the log.
    AtLeast(u64),
}

/// A stretch of a log without a readable frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) keys: Keys,
    /// Whether it holds only new keys.
    pub(crate) is_begin: bool,
    /// When the service of that frame's claim began.
    pub(crate) started_at: Option<i64>,
}

impl Gap {
    fn unknown(start: u64, end: u64) -> Self {
        let keys = Keys::AtMost((end - start) / LEAST_KEY);
        Self { start, end, keys, is_begin: false, started_at: None }
    }

    /// No whole frame follows: the log may have continued, however far it is known to have been
    /// durable.
    fn open_ended(self) -> Self {
        let least = if let Keys::Exactly(keys) = self.keys { keys } else { 0 };
        Self { keys: Keys::AtLeast(least), is_begin: false, started_at: None, ..self }
    }

    /// Maximum number of operations that the stretch can have held; none if unknown.
    pub(crate) fn operations(&self) -> Option<u64> {
        (!matches!(self.keys, Keys::AtLeast(_))).then_some((self.end - self.start) / HEADER as u64 + 1)
    }
}

impl Log {
    /// Hand every whole frame to `take`, in order, and skip damage. `proven` is how far the log is
    /// known to have been durable: only behind that may it end in a torn frame.
    pub(crate) fn salvage(&self, proven: u64, take: &mut dyn FnMut(&Frame, u64)) -> Result<Vec<Gap>> {
        let length = self.len()?;
        let mut gaps = Vec::new();
        let (mut position, mut sequence) = (START, 0);
        loop {
            match Frames::new(self, position, length).next() {
                Ok(Next::Frame(frame, end)) => {
                    take(&frame, end);
                    (position, sequence) = (end, frame.sequence);
                    continue;
                }
                Ok(Next::End) if position >= proven => break,
                Ok(Next::End) => {
                    gaps.push(Gap::unknown(position, proven));
                    position = proven;
                    break;
                }
                Ok(Next::Torn) if self.check_torn(position, proven).is_ok() => break,
                Ok(Next::Torn) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
            let gap = self.gap(position, length, proven, sequence)?;
            gaps.push(gap);
            position = gap.end;
            if position >= length {
                break;
            }
        }
        if let Some(last) = gaps.last_mut().filter(|last| last.end == position) {
            *last = last.open_ended();
        }
        Ok(gaps)
    }

    /// The damaged stretch that starts at `position`.
    fn gap(&self, position: u64, length: u64, proven: u64, sequence: u64) -> Result<Gap> {
        let mut head = vec![0; (length - position).min(HEADER as u64) as usize];
        self.file.read(&mut head, position)?;
        if let Some(header) = FrameHeader::decode(&head, self.place(position)) {
            // Its head tells where it ends. The bytes in between are not searched, because they
            // hold ids from outside.
            let (keys, started_at) = header.keys_and_start();
            let end = (position + HEADER as u64).saturating_add(header.payload).min(length.max(proven));
            let is_begin = header.is_begin();
            // The end of a claim names keys that other places may hold as well.
            let keys = if is_begin { Keys::Exactly(keys) } else { Keys::AtMost(keys) };
            return Ok(Gap { start: position, end, keys, is_begin, started_at: Some(started_at) });
        }
        let end = match self.next_frame(position + 8, length, sequence)? {
            Some(next) => next,
            // Over remains of another log, only this tells where the lost frames ended.
            None if self.has_remains && proven > position => proven,
            None => self.end_of_bytes(position + 8, length)?.max(proven),
        };
        Ok(Gap::unknown(position, end))
    }

    /// The next place where a whole frame starts that comes after operation `sequence` and is
    /// followed by the end of the log or by another frame.
    fn next_frame(&self, from: u64, length: u64, sequence: u64) -> Result<Option<u64>> {
        let mut at = from;
        let mut buffer = vec![0; CHUNK + HEADER];
        while at + HEADER as u64 <= length {
            let take = (length - at).min(buffer.len() as u64) as usize;
            self.file.read(&mut buffer[..take], at)?;
            for step in (0..=take - HEADER).step_by(8) {
                let place = at + step as u64;
                let is_head = FrameHeader::decode(&buffer[step..take], self.place(place)).is_some();
                if is_head && self.is_frame(place, length, sequence)? {
                    return Ok(Some(place));
                }
            }
            at += (take - HEADER + 8) as u64 & !7;
        }
        Ok(None)
    }

    /// The end of the last bytes behind `from` that are not room made ahead.
    fn end_of_bytes(&self, from: u64, length: u64) -> Result<u64> {
        let mut end = length;
        let mut buffer = [0; 4096];
        while end > from {
            let part = &mut buffer[..(end - from).min(4096) as usize];
            self.file.read(part, end - part.len() as u64)?;
            if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
                return Ok((end - (part.len() - 1 - last) as u64).next_multiple_of(8).min(length));
            }
            end -= part.len() as u64;
        }
        Ok(from.min(length))
    }

    fn is_frame(&self, place: u64, length: u64, sequence: u64) -> Result<bool> {
        match Frames::new(self, place, length).next() {
            Ok(Next::Frame(frame, end)) if frame.sequence > sequence && frame.durable <= place => {
                let mut head = vec![0; (length - end).min(HEADER as u64) as usize];
                self.file.read(&mut head, end)?;
                let is_end = || Ok(matches!(Frames::new(self, end, length).next(), Ok(Next::End)));
                if FrameHeader::decode(&head, self.place(end)).is_some() { Ok(true) } else { is_end() }
            }
            Ok(_) | Err(Error::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
