//! The entries of the log's frames, in memory: what was appended since the last segment was
//! written.

mod entry;
mod kept;
mod parts;
mod pending;
mod places;
mod texts;

use std::hash::RandomState;
use std::sync::atomic::AtomicUsize;

pub(crate) use parts::Outline;

use entry::MemtableEntry;
use texts::Texts;

use super::index::Index;
use hashbrown::HashMap;

use crate::format::manifest::{EndedClaim, Manifest};
use crate::key::{Form, Key};
use crate::memtable::values::ValueMemtable;
use crate::segment::Wanted;
use crate::segment::format::{Mark, Stamp};
use crate::sys::prefetch;
use crate::types::{Ending, TransactionEntry};
use crate::wal::frame::{Frame, FrameKind};

const NONE: u32 = u32::MAX;
/// Bytes of an entry, and of its place in the index.
const ENTRY_BYTES: usize = size_of::<MemtableEntry>() + 16;
/// How many keys ahead their lines are prefetched.
const GROUP: usize = 16;
/// The same of keys that are looked up, for which nothing is written.
const SOUGHT: usize = 64;

/// A claim that some frame names.
#[derive(Clone, Copy, Debug)]
struct Claim {
    number: u64,
    started_at: i64,
    /// Whether its `Begin` is in this log; else its entries are in segments.
    began_here: bool,
    /// The first of the entries that its `Begin` made, which stand in the order of its keys, and
    /// their number.
    first: u32,
    count: u32,
    /// Whether it has begun a key twice, as far as its entries are indexed.
    has_copies: bool,
}

impl Claim {
    /// Whether its `Begin` made the entry of this number.
    fn has_begun(&self, at: u32) -> bool {
        self.began_here && at.checked_sub(self.first).is_some_and(|place| place < self.count)
    }
}

/// The state of the log up to a position.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    /// End of the last frame applied.
    pub(crate) position: u64,
    /// Number of the next operation.
    pub(crate) next_sequence: u64,
    /// How far the log was durable, according to its own frames.
    pub(crate) durable: u64,
    /// The number after the last operation that released single keys.
    pub(crate) released_upto: u64,
    /// Whether a claim or keys of one were ever released.
    has_released: bool,
    entries: Vec<MemtableEntry>,
    /// How many entries will probably come in all.
    expected: usize,
    /// The newest entry of each key among the first `indexed` entries.
    index: Index,
    indexed: usize,
    /// A part of the key of each other entry, in their order.
    pending: Vec<u32>,
    /// Entries that look-ups have read one by one because they are not indexed yet.
    scanned: AtomicUsize,
    texts: Texts,
    claims: Vec<Claim>,
    claim_index: HashMap<(u64, i64), u32, RandomState>,
    outcomes: HashMap<u64, (Ending, i64), RandomState>,
    transactions: HashMap<String, TransactionEntry, RandomState>,
    /// Entries with values.
    pub(crate) values: ValueMemtable,
}

impl Memtable {
    /// Before the first frame of the manifest's log.
    pub(crate) fn new(manifest: &Manifest, position: u64) -> Self {
        let outcome = |entry: &EndedClaim| (entry.claim, (entry.outcome, entry.started_at));
        let transaction = |entry: &TransactionEntry| (entry.transaction.application.clone(), entry.clone());
        Self {
            position,
            has_released: manifest.outcomes.iter().any(|entry| entry.outcome == Ending::Released),
            next_sequence: manifest.next_sequence,
            durable: manifest.log.proven,
            outcomes: manifest.outcomes.iter().map(outcome).collect(),
            transactions: manifest.transactions.iter().map(transaction).collect(),
            ..Self::default()
        }
    }

    /// Reuse the buffers of a retired memtable: fresh memory costs more than the work done with it.
    pub(crate) fn reuse(&mut self, mut old: Self) {
        if self.entries.capacity() < old.entries.capacity() {
            old.clear();
            (self.entries, self.index, self.texts) = (old.entries, old.index, old.texts);
        }
    }

    /// The log will probably get as many entries as the one before it. What they take is asked of
    /// the system with the first of them.
    pub(crate) fn expect(&mut self, entries: usize) {
        self.expected = entries;
        self.index.expect(entries);
    }

    /// Forget the entries, and keep their buffers.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.index.clear();
        self.indexed = 0;
        self.pending.clear();
        self.texts.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What the entries take, in entries without a text; a claim counts as one of them at least, as
    /// a numbered batch may begin none.
    pub(crate) fn weight(&self) -> usize {
        self.entries.len().max(self.claims.len()) + self.texts.bytes() / ENTRY_BYTES
    }

    /// The keys of the entries from number `from` on.
    pub(crate) fn keys_from(&self, from: usize) -> impl ExactSizeIterator<Item = Key> {
        self.entries[from.min(self.entries.len())..].iter().map(|entry| entry.key)
    }

    /// Whether no frame was applied.
    pub(crate) fn is_untouched(&self, start: u64) -> bool {
        self.position == start
    }

    /// Apply one frame, which ends at `end`. A frame that was applied before changes nothing.
    pub(crate) fn apply(&mut self, frame: &Frame, end: u64) {
        match frame.kind {
            FrameKind::Begin => self.begin(frame),
            FrameKind::CompleteClaim => {
                self.finish_claim(frame.claim, frame.started_at, Ending::Completed);
                self.finish_keys(frame, Mark::Completed);
            }
            FrameKind::ReleaseClaim => {
                self.finish_claim(frame.claim, frame.started_at, Ending::Released);
                self.finish_keys(frame, Mark::Released);
            }
            FrameKind::CompleteKeys => self.finish_keys(frame, Mark::Completed),
            FrameKind::ReleaseKeys => {
                self.finish_keys(frame, Mark::Released);
                self.released_upto = self.released_upto.max(frame.sequence + 1);
            }
            FrameKind::Values => self.change_values(frame, None),
            FrameKind::ValuesAndComplete => self.change_values(frame, Some(Ending::Completed)),
            FrameKind::ValuesAndRelease => self.change_values(frame, Some(Ending::Released)),
        }
        self.position = end;
        self.durable = self.durable.max(frame.durable);
        self.next_sequence = self.next_sequence.max(frame.sequence + 1);
    }

    fn begin(&mut self, frame: &Frame) {
        let claim = self.claim(frame.claim, frame.started_at);
        let known = &mut self.claims[claim as usize];
        if std::mem::replace(&mut known.began_here, true) {
            return;
        }
        (known.first, known.count) = (self.entries.len() as u32, frame.keys.len() as u32);
        self.reserve(frame.keys.len());
        self.texts.reserve(frame.keys.texts.len());
        let of_uuid = |key: &Key| MemtableEntry::of_uuid(*key, claim, Mark::Open);
        self.pending.extend(frame.keys.uuids.iter().map(|key| pending::part_of(*key)));
        self.entries.extend(frame.keys.uuids.iter().map(of_uuid));
        for (key, text) in frame.keys.each_text() {
            self.push(key, Some(text), claim, Mark::Open);
        }
        self.begin_transaction(frame);
    }

    fn begin_transaction(&mut self, frame: &Frame) {
        if let Some(batch) = &frame.transaction {
            if let Some((claim, started_at)) = frame.replaces {
                self.finish_claim(claim, started_at, Ending::Released);
            }
            self.know(TransactionEntry::begun(batch.clone(), frame.claim, frame.started_at));
        }
    }

    fn change_values(&mut self, frame: &Frame, ending: Option<Ending>) {
        self.values.apply(&frame.values);
        self.begin_transaction(frame);
        if let Some(outcome) = ending {
            self.finish_claim(frame.claim, frame.started_at, outcome);
        }
    }

    /// Remember a transaction, unless a later one of its application is known. A manifest can be
    /// ahead of the log's frames.
    fn know(&mut self, entry: TransactionEntry) {
        let known = self.transactions.get(&entry.transaction.application);
        if known.is_none_or(|known| known.claim < entry.claim) {
            self.transactions.insert(entry.transaction.application.clone(), entry);
        }
    }

    /// Continue under a newer manifest of the same log.
    pub(crate) fn learn(&mut self, manifest: &Manifest) {
        self.next_sequence = self.next_sequence.max(manifest.next_sequence);
        // Only manifests record loads.
        self.transactions.retain(|_, entry| !entry.is_load());
        for entry in &manifest.transactions {
            self.know(entry.clone());
        }
        // A staged claim that replaces another ends that one by its manifest.
        for entry in &manifest.outcomes {
            self.finish_claim(entry.claim, entry.started_at, entry.outcome);
        }
    }

    fn finish_claim(&mut self, claim: u64, started_at: i64, outcome: Ending) {
        self.has_released |= outcome == Ending::Released;
        let slot = self.outcomes.entry(claim).or_insert((outcome, started_at));
        // Completed outweighs released, whatever came first.
        if outcome == Ending::Completed {
            slot.0 = outcome;
        }
        let outcome = slot.0;
        for entry in self.transactions.values_mut().filter(|entry| entry.claim == claim) {
            // The entry may remember a completion whose outcome is no longer kept.
            entry.outcome = entry.outcome.max(Some(outcome));
        }
    }

    /// Make room for entries by a quarter at a time: a memtable is the largest part of a writer's
    /// memory.
    fn reserve(&mut self, more: usize) {
        if self.entries.capacity() - self.entries.len() < more {
            let expected = self.expected.saturating_sub(self.entries.len());
            self.entries.reserve_exact(more.max(self.entries.len() / 4).max(expected));
        }
    }

    fn finish_keys(&mut self, frame: &Frame, mark: Mark) {
        self.has_released |= mark == Mark::Released;
        if let Some(places) = &frame.keys.places {
            self.finish_places((frame.claim, frame.started_at), places, mark);
            return;
        }
        if frame.keys.len() == 0 {
            return;
        }
        self.index_pending();
        let (one, is_of_any) = ((frame.claim, frame.started_at), frame.keys.claims.is_some());
        for (place, (key, text)) in frame.keys.each().enumerate() {
            if let Some(later) = frame.keys.uuids.get(place + GROUP) {
                self.index.fetch(later.lo);
            }
            let (claim, started_at) = frame.keys.claims.as_ref().map_or(one, |claims| claims[place]);
            let claim = self.claim(claim, started_at);
            if !self.raise((key, text), claim, mark, is_of_any) {
                self.push(key, text, claim, mark);
                self.index_pending();
            }
        }
    }

    /// Mark one entry of a key under a claim, or all of them; answers whether there is any. The
    /// rows of a claim are ended one by one, and a key that is named without them as a whole.
    fn raise(&mut self, key: (Key, Option<&[u8]>), claim: u32, mark: Mark, all: bool) -> bool {
        let mut is_known = false;
        while let Some(at) = self.weaker(key, claim, mark, &mut is_known) {
            self.entries[at as usize].raise(mark);
            if !all || !self.claims[claim as usize].has_copies {
                break;
            }
        }
        is_known
    }

    /// The newest entry of a key under a claim that has a weaker mark; tells whether there is any.
    fn weaker(&self, (key, text): (Key, Option<&[u8]>), claim: u32, mark: Mark, any: &mut bool) -> Option<u32> {
        let entry = |at: &u32| &self.entries[*at as usize];
        let of_claim = self.chain(key, text).filter(|at| entry(at).claim() == claim);
        of_claim.inspect(|_| *any = true).find(|at| entry(at).mark() < mark)
    }

    fn claim(&mut self, number: u64, started_at: i64) -> u32 {
        let next = self.claims.len() as u32;
        let index = *self.claim_index.entry((number, started_at)).or_insert(next);
        if index == next {
            self.claims.push(Claim { number, started_at, began_here: false, first: 0, count: 0, has_copies: false });
        }
        index
    }

    /// Add an entry, which is not indexed yet.
    fn push(&mut self, key: Key, text: Option<&[u8]>, claim: u32, mark: Mark) {
        let entry = match text {
            None => MemtableEntry::of_uuid(key, claim, mark),
            Some(text) => self.texts.entry(key, text, claim, mark),
        };
        self.pending.push(pending::part_of(key));
        self.entries.push(entry);
    }

    /// The indexed entries of a key, newest first.
    fn chain(&self, key: Key, text: Option<&[u8]>) -> impl Iterator<Item = u32> {
        let is_same = |other: u32| self.texts.is_of(&self.entries[other as usize], key, text);
        let newest = self.index.find(key.lo, is_same);
        std::iter::successors(newest, |at| self.texts.previous(&self.entries[*at as usize]))
    }

    /// Look every usable row up; `hit` gets each entry found, with rows counted from `first_row`.
    pub(crate) fn find(&self, wanted: &Wanted, first_row: u32, hit: &mut dyn FnMut(u32, Stamp)) {
        if self.has_pending() {
            self.scan(wanted, first_row, hit);
        }
        if self.indexed == 0 {
            return;
        }
        for start in (0..wanted.keys.len()).step_by(SOUGHT) {
            let group = start..(start + SOUGHT).min(wanted.keys.len());
            for key in &wanted.keys[group.clone()] {
                self.index.fetch(key.lo);
            }
            for at in wanted.keys[group.clone()].iter().filter_map(|key| self.index.likely(key.lo)) {
                prefetch::item(&self.entries, at as usize);
            }
            for row in group {
                let text = match wanted.forms[row] {
                    Form::Uuid => None,
                    Form::Text => Some((wanted.text)(row as u32)),
                    Form::Absent | Form::TooLong => continue,
                };
                for at in self.chain(wanted.keys[row], text) {
                    hit(first_row + row as u32, self.stamp(&self.entries[at as usize]));
                }
            }
        }
    }

    fn stamp(&self, entry: &MemtableEntry) -> Stamp {
        let claim = self.claims[entry.claim() as usize];
        Stamp { claim: claim.number, started_at: claim.started_at, mark: entry.mark() }
    }

    /// The mark of a stamp after the outcome of its claim is applied.
    #[inline]
    pub(crate) fn effective(&self, stamp: Stamp) -> Mark {
        match stamp.mark {
            Mark::Completed => Mark::Completed,
            mark @ (Mark::Open | Mark::Released) => folded(mark, self.outcomes.get(&stamp.claim)),
        }
    }

    /// Entries that no frame ended, at most.
    pub(crate) fn open(&self) -> u64 {
        let is_open = |entry: &&MemtableEntry| {
            let outcome = self.outcomes.get(&self.claims[entry.claim() as usize].number);
            folded(entry.mark(), outcome) == Mark::Open
        };
        self.entries.iter().filter(is_open).count() as u64
    }

    /// How a claim as a whole ended.
    pub(crate) fn outcome(&self, claim: u64) -> Option<Ending> {
        self.outcomes.get(&claim).map(|(outcome, _)| *outcome)
    }

    pub(crate) fn transaction(&self, application: &str) -> Option<&TransactionEntry> {
        self.transactions.get(application)
    }

    pub(crate) fn transactions(&self) -> Vec<TransactionEntry> {
        let mut list: Vec<_> = self.transactions.values().cloned().collect();
        list.sort_by(|a, b| a.transaction.application.cmp(&b.transaction.application));
        list
    }

    /// The outcomes that segments may need: those of claims that did not begin in this log.
    pub(crate) fn outcomes(&self) -> Vec<EndedClaim> {
        let began_here = |claim: u64, started_at: i64| {
            self.claim_index.get(&(claim, started_at)).is_some_and(|at| self.claims[*at as usize].began_here)
        };
        let mut list: Vec<_> = self
            .outcomes
            .iter()
            .filter(|(claim, (_, started_at))| !began_here(**claim, *started_at))
            .map(|(claim, (outcome, started_at))| EndedClaim {
                claim: *claim,
                started_at: *started_at,
                outcome: *outcome,
            })
            .collect();
        list.sort_by_key(|entry| entry.claim);
        list
    }

    /// The earliest start time among the entries.
    pub(crate) fn oldest(&self) -> Option<i64> {
        self.entries.iter().map(|entry| self.claims[entry.claim() as usize].started_at).min()
    }
}

/// A mark after the outcome of its claim is applied.
#[inline]
fn folded(mark: Mark, outcome: Option<&(Ending, i64)>) -> Mark {
    match outcome {
        // A key that was released by itself stays released when the rest of its claim completes.
        Some((Ending::Completed, _)) if mark == Mark::Open => Mark::Completed,
        Some((Ending::Released, _)) if mark != Mark::Completed => Mark::Released,
        _ => mark,
    }
}
