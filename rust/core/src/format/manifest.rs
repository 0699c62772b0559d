//! The manifest of a key space: a full, immutable, numbered snapshot (docs/format.md, "Manifest").

use crate::types::{Ending, TransactionEntry};
use std::path::Path;

use crate::Result;
use crate::io::bytes::{Decoder, Encoder, checked};
use crate::types::Kind;
use crate::types::transaction::{BatchRows, Last, NumberedBatch, Transaction};

const MAGIC: [u8; 8] = *b"DHMANIFS";
/// Version 4 names a frozen log; version 3 says which rows the last batches had; version 2 lists
/// files of values. A manifest is written in the lowest version that can hold it.
const VERSION: u32 = 4;
const WITHOUT_FROZEN: u32 = 3;
const WITHOUT_ROWS: u32 = 2;
const WITHOUT_VALUES: u32 = 1;
/// Upper limit of the numbers of manifests, files and operations.
pub(crate) const MOST_NUMBER: u64 = 1 << 62;

/// Everything that makes up a key space at one moment, except the frames of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Its own number; each is published once, by one writer.
    pub(crate) number: u64,
    pub(crate) history: [u8; 16],
    /// The trigger's name.
    pub(crate) name: String,
    /// Width of a time partition in microseconds.
    pub(crate) partition_us: i64,
    /// The trigger's time to live in microseconds; 0 while it is not known.
    pub(crate) time_to_live_us: i64,
    /// The trigger's kind; none while it is not known, and for values.
    pub(crate) kind: Option<Kind>,
    /// Number of the next operation not yet in a segment.
    pub(crate) next_sequence: u64,
    /// Number of the next file.
    pub(crate) next_file: u64,
    /// Entries that began at or before this time were purged.
    pub(crate) purged_upto: i64,
    pub(crate) log: LogEntry,
    /// The log before it, whose entries are not in segments yet.
    pub(crate) frozen: Option<FrozenLog>,
    pub(crate) segments: Vec<SegmentEntry>,
    pub(crate) global_filters: Vec<GlobalFilterEntry>,
    /// Outcomes of claims whose entries stand open in segments.
    pub(crate) outcomes: Vec<EndedClaim>,
    /// The last transaction of each application.
    pub(crate) transactions: Vec<TransactionEntry>,
    pub(crate) values: Vec<ValueFileEntry>,
}

/// The live log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) id: u64,
    /// Up to here the log was durable when the manifest was published.
    pub(crate) proven: u64,
}

/// A log that was full. It is durable and no frame follows; its entries are being put into
/// segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrozenLog {
    pub(crate) id: u64,
    /// The end of its last frame.
    pub(crate) end: u64,
    /// The file numbers that are reserved for its segments.
    pub(crate) first_file: u64,
    pub(crate) files: u64,
}

impl FrozenLog {
    /// Whether a file number is reserved for its segments.
    pub(crate) fn reserves(&self, id: u64) -> bool {
        id >= self.first_file && id - self.first_file < self.files
    }

    /// The numbers of these files.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = u64> {
        (self.first_file..).take(self.files as usize)
    }
}

/// A segment file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) id: u64,
    /// Checksum of its header page, which holds all others.
    pub(crate) sum: u32,
    pub(crate) entries: u64,
    /// Entries that follow the outcome of their claim.
    pub(crate) open: u64,
    pub(crate) bytes: u64,
    pub(crate) min_started_at: i64,
    pub(crate) max_started_at: i64,
}

/// A file of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueFileEntry {
    pub(crate) id: u64,
    /// Checksum of its header page, which holds all others.
    pub(crate) sum: u32,
    /// Whether its ids stood in older files when it was written.
    pub(crate) is_later: bool,
    pub(crate) rows: u64,
    /// Entries that are not purged by time alone.
    pub(crate) pending: u64,
    pub(crate) bytes: u64,
    pub(crate) min_until: i64,
    pub(crate) max_until: i64,
    /// Entries that are kept until this time or less are gone; pending ones have a mark of their
    /// own.
    pub(crate) purged_upto: i64,
    pub(crate) pending_purged_upto: i64,
}

/// A global filter over several segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GlobalFilterEntry {
    pub(crate) id: u64,
    pub(crate) sum: u32,
    pub(crate) entries: u64,
    /// The segments it covers, in the order of its index; 0 stands for one that is gone.
    pub(crate) segments: Vec<u64>,
}

/// The outcome of one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedClaim {
    pub(crate) claim: u64,
    pub(crate) started_at: i64,
    pub(crate) outcome: Ending,
}

impl TransactionEntry {
    /// A batch that a claim has begun.
    pub(crate) fn begun(batch: NumberedBatch, claim: u64, started_at: i64) -> Self {
        let NumberedBatch { transaction, rows } = batch;
        Self { transaction, rows, claim, started_at, outcome: None }
    }

    /// The part of this entry that a repeated batch number is compared with.
    pub(crate) fn last(&self) -> Last {
        Last { batch: self.transaction.batch, rows: self.rows, outcome: self.outcome }
    }
}

impl Manifest {
    /// Filters cover only segments that exist. A filter that covers none is removed.
    pub(crate) fn forget_dropped(&mut self) {
        let there: Vec<u64> = self.segments.iter().map(|entry| entry.id).collect();
        for global_filter in &mut self.global_filters {
            global_filter.segments.iter_mut().filter(|id| !there.contains(id)).for_each(|id| *id = 0);
        }
        self.global_filters.retain(|global_filter| global_filter.segments.iter().any(|id| *id != 0));
        if self.frozen.is_some() {
            // Its entries are not in segments yet.
            return;
        }
        // An outcome has served once no segment holds open entries of that time.
        let holds_open = |time: i64| {
            let mut segments = self.segments.iter().filter(|entry| entry.open > 0);
            segments.any(|entry| (entry.min_started_at..=entry.max_started_at).contains(&time))
        };
        self.outcomes.retain(|entry| holds_open(entry.started_at));
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        let version = self.version();
        out.raw(&MAGIC)
            .u32(version)
            .u32(number_of_kind(self.kind))
            .u64(self.number)
            .raw(&self.history)
            .text(&self.name);
        out.i64(self.partition_us).i64(self.time_to_live_us).u64(self.next_sequence).u64(self.next_file);
        out.i64(self.purged_upto).u64(self.log.id).u64(self.log.proven);
        out.u32(self.segments.len() as u32);
        for segment in &self.segments {
            out.u64(segment.id).u32(segment.sum).u64(segment.entries).u64(segment.open).u64(segment.bytes);
            out.i64(segment.min_started_at).i64(segment.max_started_at);
        }
        out.u32(self.global_filters.len() as u32);
        for global_filter in &self.global_filters {
            out.u64(global_filter.id)
                .u32(global_filter.sum)
                .u64(global_filter.entries)
                .u32(global_filter.segments.len() as u32);
            for segment in &global_filter.segments {
                out.u64(*segment);
            }
        }
        out.u32(self.outcomes.len() as u32);
        for entry in &self.outcomes {
            out.u64(entry.claim).i64(entry.started_at).u8(entry.outcome as u8);
        }
        out.u32(self.transactions.len() as u32);
        for entry in &self.transactions {
            out.text(&entry.transaction.application).i64(entry.transaction.batch).u64(entry.claim);
            out.i64(entry.started_at).u8(entry.outcome.map_or(0, |outcome| outcome as u8));
            if version > WITHOUT_ROWS {
                out.u8(u8::from(entry.rows.is_some()));
                entry.rows.unwrap_or_default().encode(&mut out);
            }
        }
        if version > WITHOUT_VALUES {
            self.encode_values(&mut out);
        }
        if let Some(frozen) = self.frozen {
            out.u64(frozen.id).u64(frozen.end).u64(frozen.first_file).u64(frozen.files);
        }
        out.checksum();
        out.finish()
    }

    /// Remember the last batch of its application.
    pub(crate) fn set_transaction(&mut self, entry: TransactionEntry) {
        self.transactions.retain(|other| other.transaction.application != entry.transaction.application);
        self.transactions.push(entry);
    }

    /// Whether it records the rows of any batch.
    pub(crate) fn has_rows(&self) -> bool {
        self.transactions.iter().any(|entry| entry.rows.is_some())
    }

    fn version(&self) -> u32 {
        match self {
            _ if self.frozen.is_some() => VERSION,
            _ if self.has_rows() => WITHOUT_FROZEN,
            _ if self.values.is_empty() => WITHOUT_VALUES,
            _ => WITHOUT_ROWS,
        }
    }

    fn encode_values(&self, out: &mut Encoder) {
        out.u32(self.values.len() as u32);
        for entry in &self.values {
            out.u64(entry.id).u32(entry.sum).u8(u8::from(entry.is_later)).u64(entry.rows).u64(entry.pending);
            out.u64(entry.bytes).i64(entry.min_until).i64(entry.max_until);
            out.i64(entry.purged_upto).i64(entry.pending_purged_upto);
        }
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        Decoder::new(bytes, path).preamble(MAGIC, VERSION)?;
        let mut from = Decoder::new(checked(bytes, path)?, path);
        let version = from.preamble(MAGIC, VERSION)?;
        let kind = from.u32()?;
        let kind = kind_of_number(kind, &from)?;
        let mut manifest =
            Self { number: from.u64()?, history: from.bytes16()?, name: from.text()?, kind, ..Self::default() };
        (manifest.partition_us, manifest.time_to_live_us) = (from.i64()?, from.i64()?);
        (manifest.next_sequence, manifest.next_file) = (from.u64()?, from.u64()?);
        manifest.purged_upto = from.i64()?;
        manifest.log = LogEntry { id: from.u64()?, proven: from.u64()? };
        let count = from.count(52)?;
        manifest.segments = (0..count).map(|_| read_segment(&mut from)).collect::<Result<_>>()?;
        let count = from.count(24)?;
        manifest.global_filters = (0..count).map(|_| read_global_filter(&mut from)).collect::<Result<_>>()?;
        let count = from.count(17)?;
        manifest.outcomes = (0..count).map(|_| read_outcome(&mut from)).collect::<Result<_>>()?;
        let count = from.count(29)?;
        let has_rows = version > WITHOUT_ROWS;
        manifest.transactions = (0..count).map(|_| read_transaction(&mut from, has_rows)).collect::<Result<_>>()?;
        if version > WITHOUT_VALUES {
            let count = from.count(69)?;
            manifest.values = (0..count).map(|_| read_values(&mut from)).collect::<Result<_>>()?;
        }
        if version > WITHOUT_FROZEN {
            let (id, end) = (from.u64()?, from.u64()?);
            let frozen = FrozenLog { id, end, first_file: from.u64()?, files: from.u64()? };
            if frozen.first_file.saturating_add(frozen.files) > manifest.next_file {
                return Err(from.corrupt("invalid number: out of range"));
            }
            manifest.frozen = Some(frozen);
        }
        from.finish()?;
        if [manifest.number, manifest.next_file, manifest.next_sequence].iter().any(|number| *number >= MOST_NUMBER) {
            return Err(from.corrupt("invalid number: out of range"));
        }
        if manifest.partition_us <= 0 {
            return Err(from.corrupt("a partition width that is not positive"));
        }
        Ok(manifest)
    }

    /// The segments that no global filter covers.
    pub(crate) fn uncovered(&self) -> Vec<SegmentEntry> {
        let covered = |id: u64| self.global_filters.iter().any(|global_filter| global_filter.segments.contains(&id));
        self.segments.iter().filter(|segment| !covered(segment.id)).copied().collect()
    }
}

/// Before kinds were kept, this number was always 0.
fn number_of_kind(kind: Option<Kind>) -> u32 {
    match kind {
        None => 0,
        Some(Kind::Messaging) => 1,
        Some(Kind::Jms) => 2,
    }
}

fn kind_of_number(number: u32, from: &Decoder) -> Result<Option<Kind>> {
    let known = [None, Some(Kind::Messaging), Some(Kind::Jms)].into_iter();
    let mut found = known.filter(|kind| number_of_kind(*kind) == number);
    found.next().ok_or_else(|| from.corrupt("an unknown kind of trigger"))
}

pub(crate) fn read_segment(from: &mut Decoder) -> Result<SegmentEntry> {
    Ok(SegmentEntry {
        id: from.u64()?,
        sum: from.u32()?,
        entries: from.u64()?,
        open: from.u64()?,
        bytes: from.u64()?,
        min_started_at: from.i64()?,
        max_started_at: from.i64()?,
    })
}

pub(crate) fn read_values(from: &mut Decoder) -> Result<ValueFileEntry> {
    Ok(ValueFileEntry {
        id: from.u64()?,
        sum: from.u32()?,
        is_later: from.u8()? != 0,
        rows: from.u64()?,
        pending: from.u64()?,
        bytes: from.u64()?,
        min_until: from.i64()?,
        max_until: from.i64()?,
        purged_upto: from.i64()?,
        pending_purged_upto: from.i64()?,
    })
}

fn read_global_filter(from: &mut Decoder) -> Result<GlobalFilterEntry> {
    let mut global_filter =
        GlobalFilterEntry { id: from.u64()?, sum: from.u32()?, entries: from.u64()?, segments: Vec::new() };
    let count = from.count(8)?;
    global_filter.segments = (0..count).map(|_| from.u64()).collect::<Result<_>>()?;
    Ok(global_filter)
}

fn read_outcome(from: &mut Decoder) -> Result<EndedClaim> {
    let (claim, started_at, outcome) = (from.u64()?, from.i64()?, Ending::from_u8(from.u8()?));
    let outcome = outcome.ok_or_else(|| from.corrupt("an unknown outcome of a claim"))?;
    Ok(EndedClaim { claim, started_at, outcome })
}

fn read_transaction(from: &mut Decoder, has_rows: bool) -> Result<TransactionEntry> {
    let transaction = Transaction { application: from.text()?, batch: from.i64()? };
    let (claim, started_at, outcome) = (from.u64()?, from.i64()?, from.u8()?);
    if outcome > Ending::Completed as u8 {
        return Err(from.corrupt("an unknown outcome of a transaction"));
    }
    let mut rows = None;
    if has_rows {
        let (is_there, found) = (from.u8()? != 0, BatchRows::decode(from)?);
        rows = is_there.then_some(found);
    }
    Ok(TransactionEntry { transaction, rows, claim, started_at, outcome: Ending::from_u8(outcome) })
}
