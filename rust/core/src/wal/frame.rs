//! One frame of the write-ahead log: one operation on a batch (docs/format.md, "Log").

use crate::types::{FrameKeys, Places};
use std::path::Path;

use crate::Result;
use crate::format::manifest::MOST_NUMBER;
use crate::io::bytes::{Decoder, Encoder};
use crate::key::Key;
use crate::segment::values::run::ValueRun;
use crate::types::transaction::{BatchRows, NumberedBatch, Transaction};

const MAGIC: u32 = u32::from_le_bytes(*b"DHFR");
/// Bytes of a frame's header.
pub(crate) const HEADER: usize = 96;
const HAS_TRANSACTION: u8 = 1;
const HAS_CLAIMS: u8 = 2;
/// Only in logs of version 3 or later.
const HAS_ROWS: u8 = 4;
/// Only in logs of version 4.
const HAS_PLACES: u8 = 8;

/// What a frame does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// Write `processing` for its keys, under a new claim.
    Begin = 1,
    /// Everything of a claim ended.
    CompleteClaim = 2,
    /// Everything of a claim was rolled back.
    ReleaseClaim = 3,
    /// Single keys ended.
    CompleteKeys = 4,
    /// Single keys were rolled back.
    ReleaseKeys = 5,
    /// Entries with values were written or removed.
    Values = 6,
    /// The same, and everything of a claim ended.
    ValuesAndComplete = 7,
    /// The same, and everything of a claim was rolled back.
    ValuesAndRelease = 8,
}

impl FrameKind {
    fn from_u8(value: u8) -> Option<Self> {
        use FrameKind::{Begin, CompleteClaim, CompleteKeys, ReleaseClaim, ReleaseKeys};
        use FrameKind::{Values, ValuesAndComplete, ValuesAndRelease};
        let of_keys = [Begin, CompleteClaim, ReleaseClaim, CompleteKeys, ReleaseKeys];
        of_keys.into_iter().chain([Values, ValuesAndComplete, ValuesAndRelease]).find(|kind| *kind as u8 == value)
    }

    fn is_of_values(self) -> bool {
        self as u8 >= Self::Values as u8
    }
}

/// A frame.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    /// Number of this operation in its key space.
    pub(crate) sequence: u64,
    /// The claim it begins or ends.
    pub(crate) claim: u64,
    /// When the claim's service began, in microseconds since 1970.
    pub(crate) started_at: i64,
    /// The open claim of the same transaction that this one replaces, and its start.
    pub(crate) replaces: Option<(u64, i64)>,
    /// Up to where the log was durable when the frame was written.
    pub(crate) durable: u64,
    pub(crate) transaction: Option<NumberedBatch>,
    pub(crate) keys: FrameKeys,
    /// The content of a frame of values.
    pub(crate) values: ValueRun,
}

/// The place of a frame: its header repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FramePlace {
    pub(crate) log: u64,
    /// The log's mark.
    pub(crate) mark: u64,
    pub(crate) position: u64,
}

/// The fixed part of a frame, as read back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHeader {
    kind: u8,
    flags: u8,
    sequence: u64,
    claim: u64,
    started_at: i64,
    replaces: u64,
    pub(crate) durable: u64,
    pub(crate) payload: u64,
    uuids: u32,
    texts: u32,
    payload_crc: u32,
}

impl Frame {
    /// The frame's bytes for a place.
    pub(crate) fn encode(&self, place: FramePlace) -> Vec<u8> {
        let FramePlace { log, mark, position } = place;
        let mut flags = 0;
        flags |= if self.transaction.is_some() { HAS_TRANSACTION } else { 0 };
        flags |= if self.rows().is_some() { HAS_ROWS } else { 0 };
        flags |= if self.keys.claims.is_some() { HAS_CLAIMS } else { 0 };
        flags |= if self.keys.places.is_some() { HAS_PLACES } else { 0 };
        let is_of_values = self.kind.is_of_values();
        let of_keys = match &self.keys.places {
            Some(places) => (places.count(), 0),
            None => (self.keys.uuids.len(), self.keys.texts.len()),
        };
        let (uuids, texts) = if is_of_values { (self.values.len(), 0) } else { of_keys };
        // The header is put before the payload, which it has a checksum of.
        let mut bytes = self.payload_after(HEADER);
        let payload = &bytes[HEADER..];
        let mut out = Encoder::with_capacity(HEADER);
        out.u32(MAGIC).u8(self.kind as u8).u8(flags).u16(HEADER as u16);
        out.u64(log).u64(position).u64(self.durable).u64(self.sequence).u64(self.claim).i64(self.started_at);
        out.u64(payload.len() as u64).u32(uuids as u32).u32(texts as u32);
        out.u32(crc32c::crc32c(payload)).u32(mark as u32);
        out.u64(self.replaces.map_or(0, |(claim, _)| claim)).u32((mark >> 32) as u32).checksum();
        bytes[..HEADER].copy_from_slice(&out.finish());
        bytes
    }

    /// The rows of the batch that it begins, if recorded.
    pub(crate) fn rows(&self) -> Option<BatchRows> {
        self.transaction.as_ref().and_then(|batch| batch.rows)
    }

    /// The payload behind `before` zeros, a multiple of eight.
    fn payload_after(&self, before: usize) -> Vec<u8> {
        let keys = &self.keys;
        let of_values = self.values.len() * 32 + self.values.heap_bytes();
        let of_claims = keys.claims.as_ref().map_or(0, Vec::len) * 16;
        let of_keys = keys.len() * 16 + keys.lengths.len() * 2 + keys.heap.len() + of_claims;
        let mut out = Encoder::with_capacity(before + of_keys + of_values + 96);
        out.zeros(before);
        if let Some((_, started_at)) = self.replaces {
            out.i64(started_at);
        }
        if let Some(NumberedBatch { transaction, rows }) = &self.transaction {
            out.i64(transaction.batch).text(&transaction.application).align(8);
            if let Some(rows) = rows {
                rows.encode(&mut out);
            }
        }
        if self.kind.is_of_values() {
            self.values.encode(&mut out);
            return out.finish();
        }
        if let Some(places) = &keys.places {
            for word in places.words() {
                out.u64(*word);
            }
            return out.finish();
        }
        let halves = |key: &Key| (key.hi, key.lo);
        out.pairs(keys.uuids.iter().map(halves)).pairs(keys.texts.iter().map(halves));
        for length in &keys.lengths {
            out.u16(*length);
        }
        out.align(8).raw(&keys.heap).align(8);
        for (claim, started_at) in keys.claims.iter().flatten() {
            out.u64(*claim).i64(*started_at);
        }
        out.finish()
    }
}

impl FrameHeader {
    /// Read a header that must stand at this place; none if these bytes are no such header.
    pub(crate) fn decode(bytes: &[u8], place: FramePlace) -> Option<Self> {
        let FramePlace { log, mark, position } = place;
        let bytes = bytes.get(..HEADER)?;
        let (content, sum) = bytes.split_last_chunk::<4>()?;
        let u32_at = |at: usize| content.get(at..)?.first_chunk().map(|field| u32::from_le_bytes(*field));
        let u64_at = |at: usize| content.get(at..)?.first_chunk().map(|field| u64::from_le_bytes(*field));
        // The cheap comparisons first: most bytes are no header.
        if u32_at(0)? != MAGIC || u64_at(8)? != log || u64_at(16)? != position {
            return None;
        }
        if u32_at(76)? != mark as u32 || u32_at(88)? != (mark >> 32) as u32 {
            return None;
        }
        if crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
            return None;
        }
        Some(Self {
            kind: content[4],
            flags: content[5],
            durable: u64_at(24)?,
            sequence: u64_at(32)?,
            claim: u64_at(40)?,
            started_at: u64_at(48)? as i64,
            payload: u64_at(56)?,
            uuids: u32_at(64)?,
            texts: u32_at(68)?,
            payload_crc: u32_at(72)?,
            replaces: u64_at(80)?,
        })
    }

    /// How many keys it names, and when their claim's service began.
    pub(crate) fn keys_and_start(&self) -> (u64, i64) {
        (u64::from(self.uuids) + u64::from(self.texts), self.started_at)
    }

    /// Whether it does nothing but write new keys.
    pub(crate) fn is_begin(&self) -> bool {
        self.kind == FrameKind::Begin as u8 && self.replaces == 0
    }

    pub(crate) fn matches(&self, payload: &[u8]) -> bool {
        crc32c::crc32c(payload) == self.payload_crc
    }

    /// The frame, after its payload was verified; `path` is for errors.
    pub(crate) fn frame(&self, payload: &[u8], path: &Path) -> Result<Frame> {
        let mut from = Decoder::new(payload, path);
        let Some(kind) = FrameKind::from_u8(self.kind) else {
            return Err(from.corrupt(format!("a frame of unknown kind {}", self.kind)));
        };
        if self.sequence >= MOST_NUMBER {
            return Err(from.corrupt("invalid sequence number: out of range"));
        }
        let replaces = if self.replaces == 0 { None } else { Some((self.replaces, from.i64()?)) };
        let transaction = if self.flags & HAS_TRANSACTION != 0 {
            let batch = from.i64()?;
            let application = from.text()?;
            from.align(8)?;
            let rows = if self.flags & HAS_ROWS != 0 { Some(BatchRows::decode(&mut from)?) } else { None };
            Some(NumberedBatch { transaction: Transaction { application, batch }, rows })
        } else {
            None
        };
        let (mut keys, mut values) = (FrameKeys::default(), ValueRun::default());
        if kind.is_of_values() {
            values = ValueRun::decode(&mut from, self.uuids as usize)?;
            from.finish()?;
        } else if self.flags & HAS_PLACES != 0 {
            from.expect((self.uuids as usize).div_ceil(64), 8)?;
            let words = (0..self.uuids.div_ceil(64)).map(|_| from.u64()).collect::<Result<_>>()?;
            from.finish()?;
            keys.places = Places::of_words(self.uuids as usize, words);
            if keys.places.is_none() {
                return Err(from.corrupt("a place behind the last key of a claim"));
            }
        } else {
            keys = self.keys(&mut from)?;
        }
        let Self { sequence, claim, started_at, durable, .. } = *self;
        Ok(Frame { kind, sequence, claim, started_at, replaces, durable, transaction, keys, values })
    }

    fn keys(&self, from: &mut Decoder) -> Result<FrameKeys> {
        let (uuids, texts) = (self.uuids as usize, self.texts as usize);
        let mut keys =
            FrameKeys { uuids: read_keys(from, uuids)?, texts: read_keys(from, texts)?, ..FrameKeys::default() };
        keys.lengths =
            from.raw(texts * 2)?.chunks_exact(2).map(|length| u16::from_le_bytes([length[0], length[1]])).collect();
        from.align(8)?;
        let heap: usize = keys.lengths.iter().map(|length| usize::from(*length)).sum();
        keys.heap = from.raw(heap)?.to_vec();
        from.align(8)?;
        if self.flags & HAS_CLAIMS != 0 {
            from.expect(uuids.saturating_add(texts), 16)?;
            let claims = (0..uuids + texts).map(|_| Ok((from.u64()?, from.i64()?))).collect::<Result<_>>()?;
            keys.claims = Some(claims);
        }
        from.finish()?;
        Ok(keys)
    }
}

fn read_keys(from: &mut Decoder, count: usize) -> Result<Vec<Key>> {
    let bytes = from.raw(count.saturating_mul(16))?;
    let half = |bytes: &[u8]| bytes.first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
    Ok(bytes.chunks_exact(16).map(|key| Key { hi: half(key), lo: half(&key[8..]) }).collect())
}
