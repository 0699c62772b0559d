//! The write-ahead log of a key space: a header and frames, appended and never changed.

mod append;
pub(crate) mod frame;
pub(crate) mod recycle;
#[cfg(test)]
mod recycle_tests;
mod salvage;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use frame::{Frame, FrameHeader, FramePlace, HEADER};
pub(crate) use salvage::{Gap, Keys};

use crate::io::bytes::{Decoder, Encoder, checked};
use crate::io::{Closed, FileId, FileSystem, NamedFile, write_new};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"DHISTLOG";
/// Version 4 may hold frames that name keys of a claim by their places. Version 3 may hold frames
/// that record the rows of a batch. Version 2 has a mark that its frames
/// repeat. Logs of version 1 have none, and are continued as they are.
const VERSION: u32 = 4;
const WITHOUT_PLACES: u32 = 3;
const WITHOUT_ROWS: u32 = 2;
const WITHOUT_MARK: u32 = 1;
/// Bytes before the first frame.
pub(crate) const START: u64 = 64;
/// Bytes read at a time, at most and at first.
const CHUNK: usize = 1 << 20;
const FIRST_STEP: usize = 1 << 14;

/// An open log file.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) id: u64,
    pub(crate) file: NamedFile,
    /// The end of the log when this process opened it. Our syncs prove what is written later. Of
    /// the content before it an earlier sync may have failed, and the system reports that only to
    /// processes that had the file open then.
    pub(crate) inherited: u64,
    /// A random number of this log, which every frame repeats. So ids within a frame cannot pass
    /// for frames, as nobody who sends ids can know it. 0 in logs of version 1.
    pub(crate) mark: u64,
    /// What its frames may say.
    pub(crate) frames: FrameForms,
    /// The identity of the file: another one under its name is a different log.
    pub(crate) identity: FileId,
    /// Whether the file is closed until it is needed.
    pub(crate) is_closed: bool,
    /// The length of the file, as far as we know: the end of its room.
    room: Arc<AtomicU64>,
    /// Whether remains of the log before it stand in its room. Zeros follow each frame there.
    pub(crate) has_remains: bool,
}

/// What the frames of a log may say. Earlier versions refuse a log that may say more than they
/// know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameForms {
    /// The rows of a batch.
    pub(crate) rows: bool,
    /// Keys of a claim by their places.
    pub(crate) places: bool,
}

impl FrameForms {
    fn of_version(version: u32) -> Self {
        Self { rows: version > WITHOUT_ROWS, places: version > WITHOUT_PLACES }
    }

    /// The lowest version whose frames may say this.
    fn version(self) -> u32 {
        match self {
            Self { places: true, .. } => VERSION,
            Self { rows: true, .. } => WITHOUT_PLACES,
            Self { .. } => WITHOUT_ROWS,
        }
    }
}

/// The owner of a log, which tells it from logs of other triggers or histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) history: [u8; 16],
    trigger: u64,
}

impl Owner {
    pub(crate) fn new(history: [u8; 16], trigger: &str) -> Self {
        Self { history, trigger: xxhash_rust::xxh3::xxh3_64(trigger.as_bytes()) }
    }
}

/// The content at a position of a log.
#[derive(Debug)]
pub(crate) enum Next {
    /// A whole frame, and where it ends.
    Frame(Box<Frame>, u64),
    /// Nothing more: the end of the file, or room made ahead.
    End,
    /// Bytes that are no whole frame: a writer is writing, or died while writing.
    Torn,
}

impl Log {
    /// Make an empty log; its bytes are durable on return, its name is not.
    pub(crate) fn create(
        system: &dyn FileSystem,
        path: &Path,
        id: u64,
        owner: Owner,
        frames: FrameForms,
    ) -> Result<Self> {
        let mut drawn = [0; 8];
        system.randomness_for(path, &mut drawn)?;
        Self::create_as(system, path, id, owner, (frames.version(), u64::from_le_bytes(drawn) | 1))
    }

    /// [`Log::create`] with a given mark; 0 makes a log of version 1.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn create_with(system: &dyn FileSystem, path: &Path, id: u64, owner: Owner, mark: u64) -> Result<Self> {
        let version = if mark == 0 { WITHOUT_MARK } else { WITHOUT_ROWS };
        Self::create_as(system, path, id, owner, (version, mark))
    }

    fn create_as(
        system: &dyn FileSystem,
        path: &Path,
        id: u64,
        owner: Owner,
        (version, mark): (u32, u64),
    ) -> Result<Self> {
        let file = write_new(system, path, &[&header(id, owner, (version, mark), false)])?;
        recycle::hold(system, &file)?;
        let room = Arc::new(AtomicU64::new(START));
        let identity = file.identity()?;
        let (frames, is_closed) = (FrameForms::of_version(version), false);
        Ok(Self { id, file, inherited: START, mark, frames, identity, is_closed, room, has_remains: false })
    }

    pub(crate) fn open(system: &dyn FileSystem, path: &Path, id: u64, owner: Owner, write: bool) -> Result<Self> {
        let (log, whose) = Self::open_any(system, path, write)?;
        if whose != owner || log.id != id {
            return Err(Error::corrupt(path, 16, "this log belongs to another history or trigger"));
        }
        Ok(log)
    }

    /// [`Log::open`] for a log of anybody; answers whose it is.
    fn open_any(system: &dyn FileSystem, path: &Path, write: bool) -> Result<(Self, Owner)> {
        let file = system.open_at(path, write)?;
        recycle::hold(system, &file)?;
        let mut bytes = [0; START as usize];
        let length = file.length()?;
        if length < START {
            return Err(Error::corrupt(path, length, "shorter than its header"));
        }
        file.read(&mut bytes, 0)?;
        let mut from = Decoder::new(&bytes, path);
        let version = from.preamble(MAGIC, VERSION)?;
        checked(&bytes, path)?;
        from.u32()?;
        let (history, id, trigger) = (from.bytes16()?, from.u64()?, from.u64()?);
        let mark = if version == WITHOUT_MARK { 0 } else { from.u64()? };
        let has_remains = version != WITHOUT_MARK && from.u32()? != 0;
        let room = Arc::new(AtomicU64::new(length));
        let identity = file.identity()?;
        let (frames, is_closed) = (FrameForms::of_version(version), false);
        let log = Self { id, file, inherited: length, mark, frames, identity, is_closed, room, has_remains };
        Ok((log, Owner { history, trigger }))
    }

    /// Close the file until it is needed again. Nobody may be using it, and what this process wrote
    /// must be durable.
    pub(crate) fn close(&mut self) {
        (self.file.file, self.is_closed) = (Arc::new(Closed), true);
    }

    /// Whether the name of this log still refers to it.
    pub(crate) fn is_in_place(&self, system: &dyn FileSystem) -> Result<bool> {
        let there = system.identity(&self.file.path)?;
        Ok(there == Some(self.identity))
    }

    pub(crate) fn len(&self) -> Result<u64> {
        self.file.length()
    }

    /// Whether nothing was appended at `position`, where the frames ended with bytes `last` when we
    /// read them. Costs one cheap system call, or two where the file has no room behind its frames.
    pub(crate) fn ends_at(&self, position: u64, last: [u8; 8]) -> Result<bool> {
        // Read the last bytes that we know and the first ones that may follow: the file may have
        // become shorter, too.
        let mut bytes = [0; 16];
        let there = self.file.read_up_to(&mut bytes, position - 8)?;
        Ok((there == 8 || there == 16 && bytes[8..] == [0; 8]) && bytes[..8] == last)
    }

    /// The bytes before `position`; none if the file ends before it.
    pub(crate) fn last_before(&self, position: u64) -> Result<Option<[u8; 8]>> {
        let mut bytes = [0; 8];
        let there = self.file.read_up_to(&mut bytes, position - 8)?;
        Ok((there == 8).then_some(bytes))
    }

    /// The place that a frame at `position` of this log repeats.
    pub(crate) fn place(&self, position: u64) -> FramePlace {
        FramePlace { log: self.id, mark: self.mark, position }
    }

    /// Tell a torn end, which a crash leaves, from damage. The log cannot be torn where it is known
    /// to have been durable, by `proven` or by a later frame.
    pub(crate) fn check_torn(&self, position: u64, proven: u64) -> Result<()> {
        let damaged = |witness: &str| {
            let reason = format!("no whole frame here, although {witness} shows that this place was durable");
            Err(Error::corrupt(&self.file.path, position, reason))
        };
        if position < proven {
            return damaged("the store's record of the log");
        }
        if self.has_frame_behind(position, |header| header.durable > position)? {
            damaged("a later frame")
        } else {
            Ok(())
        }
    }

    /// Whether the header of such a frame stands anywhere behind a position.
    fn has_frame_behind(&self, position: u64, is_wanted: impl Fn(FrameHeader) -> bool) -> Result<bool> {
        let length = self.len()?;
        let mut at = position + 8;
        let mut buffer = vec![0; CHUNK + HEADER];
        while at + HEADER as u64 <= length {
            let take = (length - at).min(buffer.len() as u64) as usize;
            self.file.read(&mut buffer[..take], at)?;
            for step in (0..=take.saturating_sub(HEADER)).step_by(8) {
                let found = FrameHeader::decode(&buffer[step..take], self.place(at + step as u64));
                if found.is_some_and(&is_wanted) {
                    return Ok(true);
                }
            }
            at += (take.saturating_sub(HEADER) + 8) as u64 & !7;
        }
        Ok(false)
    }
}

/// Where the frames of a log file end, and its length. Where they end torn, or the file is damaged,
/// all of it counts.
pub(crate) fn extent(system: &dyn FileSystem, path: &Path) -> Result<(u64, u64)> {
    let (log, _) = match Log::open_any(system, path, false) {
        Err(Error::Corrupt { .. } | Error::Open { .. }) => {
            let length = system.open_at(path, false)?.length()?;
            return Ok((length, length));
        }
        log => log?,
    };
    let length = log.len()?;
    let (mut frames, mut at) = (Frames::new(&log, START, length), START);
    loop {
        match frames.next() {
            Ok(Next::Frame(_, end)) => at = end,
            Ok(Next::End) => return Ok((at, length)),
            Ok(Next::Torn) | Err(Error::Corrupt { .. }) => return Ok((length, length)),
            Err(error) => return Err(error),
        }
    }
}

/// The header of a log.
fn header(id: u64, owner: Owner, (version, mark): (u32, u64), has_remains: bool) -> Vec<u8> {
    let mut out = Encoder::new();
    out.raw(&MAGIC).u32(version).u32(0).raw(&owner.history).u64(id).u64(owner.trigger).u64(mark);
    out.u32(has_remains.into()).checksum();
    out.finish()
}

/// Reads frames one after the other: a little at first, as there may be none, then more at a time.
pub(crate) struct Frames<'a> {
    log: &'a Log,
    position: u64,
    length: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
    /// Bytes that are read next, at least.
    step: usize,
    /// Whether a frame may be lost in front of others.
    may_be_torn: bool,
}

impl<'a> Frames<'a> {
    /// From `position` up to the log's present `length`.
    pub(crate) fn new(log: &'a Log, position: u64, length: u64) -> Self {
        Self { log, position, length, buffer: Vec::new(), buffer_at: position, step: FIRST_STEP, may_be_torn: true }
    }

    /// [`Frames::new`] with a used buffer. What was appended since the log was opened here cannot
    /// be torn by a crash.
    pub(crate) fn reusing(log: &'a Log, position: u64, length: u64, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        let may_be_torn = log.inherited > position;
        Self { log, position, length, buffer, buffer_at: position, step: FIRST_STEP, may_be_torn }
    }

    /// The buffer, for the next use.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    pub(crate) fn next(&mut self) -> Result<Next> {
        if self.position >= self.length {
            return Ok(Next::End);
        }
        let position = self.position;
        let (place, path) = (self.log.place(position), &self.log.file.path);
        let head = self.fill((self.length - position).min(HEADER as u64) as usize)?;
        let Some(header) = FrameHeader::decode(head, place) else {
            return Ok(if is_free(head) && self.is_over()? { Next::End } else { Next::Torn });
        };
        if header.payload > self.length - position - HEADER as u64 {
            return Ok(Next::Torn);
        }
        let whole = HEADER + header.payload as usize;
        let payload = &self.fill(whole)?[HEADER..];
        if !header.matches(payload) {
            return Ok(Next::Torn);
        }
        let frame = header.frame(payload, path)?;
        self.position += whole as u64;
        Ok(Next::Frame(Box::new(frame), self.position))
    }

    /// Whether no frame follows the zeros at this position.
    fn is_over(&mut self) -> Result<bool> {
        if !self.log.has_remains {
            return self.is_rest_free();
        }
        Ok(!self.may_be_torn || !self.log.has_frame_behind(self.position, |_| true)?)
    }

    /// Whether only zeros follow: a crash that tore several frames may have lost the first one.
    fn is_rest_free(&mut self) -> Result<bool> {
        let (mut at, start) = (self.buffer_at + self.buffer.len() as u64, self.position - self.buffer_at);
        if !is_free(&self.buffer[start as usize..]) {
            return Ok(false);
        }
        let mut more = Vec::new();
        while at < self.length {
            more.resize((self.length - at).min(CHUNK as u64) as usize, 0);
            self.log.file.read(&mut more, at)?;
            if !is_free(&more) {
                return Ok(false);
            }
            at += more.len() as u64;
        }
        Ok(true)
    }

    /// `length` bytes from the present position.
    fn fill(&mut self, length: usize) -> Result<&[u8]> {
        let start = (self.position - self.buffer_at) as usize;
        if start + length > self.buffer.len() {
            let take = ((self.length - self.position) as usize).min(length.max(self.step));
            self.step = (2 * self.step).min(CHUNK);
            self.buffer.resize(take, 0);
            self.log.file.read(&mut self.buffer, self.position)?;
            self.buffer_at = self.position;
            return Ok(&self.buffer[..length]);
        }
        Ok(&self.buffer[start..start + length])
    }
}

/// Whether these bytes are room without a frame.
fn is_free(bytes: &[u8]) -> bool {
    // Many at a time: there is much more room than a frame takes.
    bytes.chunks(128).all(|some| some.iter().fold(0, |all, byte| all | byte) == 0)
}
