//! A map of values of a history, and the change that looks it up and writes to it in one step.

pub use crate::format::names::Room;
pub use crate::segment::values::columns::{FoundValues, Id, Ids};
pub use crate::segment::values::run::{FOREVER, MOST_ID_BYTES, MOST_VALUE_BYTES};
pub use crate::store::values::{ValueCursor, ValueStatistics};
use std::collections::HashMap;
use std::sync::Arc;

use super::History;
use crate::columns::IdColumn;
use crate::key::{Codec, Form, Key};
use crate::segment::Wanted;
use crate::segment::values::columns::id_text;
use crate::segment::values::run::{GONE, NULL, PENDING, Row, ValueRun};
use crate::store::values::ValueChange;
use crate::store::{KeySpace, Maintained, Progress, Purge, Purged, Writer};
pub use crate::types::Ending;
use crate::types::TransactionEntry;
use crate::types::transaction::{BatchRows, Last, NumberedBatch, Transaction};
use crate::{Error, Result};

/// The entry to write for an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewValue<'v> {
    /// The value; an entry may have none.
    pub value: Option<&'v [u8]>,
    /// The earliest time at which it may be purged, in microseconds since 1970; [`FOREVER`] for
    /// never.
    pub persist_until: i64,
    /// Not purged by time alone.
    pub pending: bool,
}

/// The last transaction of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastTransaction {
    /// Number of its batch.
    pub batch: i64,
    /// The claim it began.
    pub claim: u64,
    /// How it ended, once it has.
    pub ending: Option<Ending>,
    /// The rows of its batch; none if an earlier version wrote it.
    pub rows: Option<BatchRows>,
}

/// An open value space. All its methods may be called by many threads at once.
#[derive(Clone, Debug)]
pub struct ValueMap {
    space: Arc<KeySpace>,
    codec: Codec,
}

/// A change of a space before it is written.
pub struct ValueEdit<'a> {
    writer: &'a Writer<'a>,
    found: FoundValues,
    run: ValueRun,
    /// The last change of each id, of those that were indexed.
    last: HashMap<Key, usize>,
    indexed: usize,
    transaction: Option<NumberedBatch>,
    replaces: Option<u64>,
    ending: Option<(u64, Ending)>,
}

impl std::fmt::Debug for ValueEdit<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Work").field("changes", &self.run.len()).finish_non_exhaustive()
    }
}

impl ValueEdit<'_> {
    /// The entries of the ids that the change was opened with.
    pub fn found(&self) -> &FoundValues {
        &self.found
    }

    /// The entries of some rows of other ids, in this order, without the changes made here.
    pub fn look_at(&self, ids: &Ids, rows: &[u32]) -> Result<FoundValues> {
        ids.wanted_at(rows, |wanted| self.writer.values_of(wanted))
    }

    /// The entry of one id, with the changes made here.
    pub fn present(&mut self, id: Id) -> Result<FoundValues> {
        let changes = self.run.rows[self.indexed..].iter().zip(self.indexed..);
        self.last.extend(changes.map(|(row, at)| (row.key, at)));
        self.indexed = self.run.len();
        let is_same = |row: &&Row| self.run.text(row) == id.text;
        let Some(row) = self.last.get(&id.key).map(|at| &self.run.rows[*at]).filter(is_same) else {
            return self.writer.values_of(&Wanted { keys: &[id.key], forms: &[id.form], text: &|_| id.text });
        };
        let mut found = FoundValues::with_capacity(1);
        if row.flags & GONE == 0 {
            found.push(row.flags, row.until, self.run.value(row));
        } else {
            found.push_none();
        }
        Ok(found)
    }

    /// Write an entry; it replaces an older one of the same id.
    pub fn put(&mut self, id: Id, entry: NewValue) -> Result<()> {
        check(id)?;
        let value = entry.value.unwrap_or_default();
        if value.len() > MOST_VALUE_BYTES {
            return Err(Error::Schema(format!("a value of {} bytes; the most is {MOST_VALUE_BYTES}", value.len())));
        }
        let null = if entry.value.is_none() { NULL } else { 0 };
        let pending = if entry.pending { PENDING } else { 0 };
        self.run.push(id.key, id.text, entry.persist_until, null | pending, value);
        Ok(())
    }

    /// Remove an entry, whether or not it exists.
    pub fn remove(&mut self, id: Id) -> Result<()> {
        check(id)?;
        // The earliest of all times, so that it keeps no file from being purged.
        self.run.push(id.key, id.text, i64::MIN, GONE, &[]);
        Ok(())
    }

    /// The last transaction of an application.
    pub fn transaction(&self, application: &str) -> Option<LastTransaction> {
        self.writer.space().last_transaction(application).as_ref().map(LastTransaction::of)
    }

    /// Write these changes as the beginning of a transaction. It replaces `replaces`, an open claim
    /// of the same transaction, if one is given. `rows` are those of its batch. The claim's number
    /// is [`ValueEdit::claim`].
    pub fn begin(&mut self, transaction: Transaction, rows: Option<BatchRows>, replaces: Option<u64>) {
        self.transaction = Some(NumberedBatch { transaction, rows });
        self.replaces = replaces;
    }

    /// The number of the claim that these changes begin.
    pub fn claim(&self) -> u64 {
        self.writer.sequence()
    }

    /// Write these changes as the end of a claim.
    pub fn end(&mut self, claim: u64, ending: Ending) {
        self.ending = Some((claim, ending));
    }
}

impl LastTransaction {
    /// The part of this entry that a repeated batch number is compared with.
    pub(crate) fn last(&self) -> Last {
        Last { batch: self.batch, rows: self.rows, outcome: self.ending }
    }

    fn of(entry: &TransactionEntry) -> Self {
        Self { batch: entry.transaction.batch, claim: entry.claim, ending: entry.outcome, rows: entry.rows }
    }
}

fn check(id: Id) -> Result<()> {
    match id.form {
        Form::Uuid | Form::Text => Ok(()),
        Form::Absent => Err(Error::Schema("an entry without an id".into())),
        Form::TooLong => {
            Err(Error::Schema(format!("an id of more than {} bytes", crate::segment::values::run::MOST_ID_BYTES)))
        }
    }
}

impl History {
    /// The value space of a name. Nothing is created before the first change.
    pub fn values(&self, room: Room, name: &str) -> Result<ValueMap> {
        Ok(ValueMap { space: self.value_space(room, name)?, codec: self.codec().clone() })
    }
}

impl ValueMap {
    /// Identify a column of ids.
    pub fn ids<'a>(&self, column: &'a IdColumn<'a>) -> Ids<'a> {
        Ids::new(&self.codec, column)
    }

    /// A fingerprint that tells a batch of ids from another one.
    pub(crate) fn batch_rows(&self, ids: &Ids) -> BatchRows {
        ids.batch_rows(&self.codec)
    }

    /// The id that these bytes stand for.
    pub fn id<'a>(&self, bytes: &'a [u8]) -> Id<'a> {
        Id::new(&self.codec, bytes)
    }

    /// The entries of some ids. Every answer is durable.
    pub fn look(&self, ids: &Ids) -> Result<FoundValues> {
        ids.wanted(|wanted| self.space.look_values(wanted))
    }

    /// Look ids up and change the space in one step: nobody else changes it in between. The puts
    /// and removes of `work` are written as one atomic frame after it returns. They are durable
    /// when this returns; if it fails, nothing is written. In an object store `work` runs again
    /// where another handle's commit came first, and nothing of the first run stays.
    ///
    /// # Errors
    /// Those of `work`; `Locked` when another writer takes too long, `ReadOnly`, `Failed` after a
    /// failed write.
    pub fn change<T>(&self, ids: &Ids, mut work: impl FnMut(&mut ValueEdit) -> Result<T>) -> Result<T> {
        self.space.write_again(KeySpace::value_settings(), |writer| {
            let found = ids.wanted(|wanted| writer.values_of(wanted))?;
            let (run, last) = (ValueRun::default(), HashMap::new());
            let (transaction, replaces, ending) = (None, None, None);
            let mut edit = ValueEdit { writer, found, run, last, indexed: 0, transaction, replaces, ending };
            let done = work(&mut edit)?;
            let ValueEdit { run, transaction, replaces, ending, .. } = edit;
            if !run.is_empty() || transaction.is_some() || ending.is_some() {
                writer.write_values(ValueChange { run, transaction, replaces, ending })?;
            }
            Ok(done)
        })
    }

    /// [`Values::change`] about no ids in particular.
    pub fn write<T>(&self, work: impl FnMut(&mut ValueEdit) -> Result<T>) -> Result<T> {
        self.change(&Ids::none(), work)
    }

    /// A random number that is never 0.
    pub(crate) fn random_number(&self) -> Result<u64> {
        self.space.random_number()
    }

    /// Whether other handles write here that no lock keeps out: those of an object store.
    pub(crate) fn is_shared(&self) -> bool {
        self.space.is_in_bucket()
    }

    /// Wait for a named lock of this space. It does not block writers, only others that want the
    /// same lock. In an object store it is a lock among the users of this handle.
    pub(crate) fn hold(&self, name: &str) -> Result<crate::store::values::Held> {
        self.space.hold(name)
    }

    /// All entries of the present state, in no order; later changes do not show.
    pub fn entries(&self) -> Result<Entries> {
        Ok(Entries { codec: self.codec.clone(), cursor: self.space.value_cursor()? })
    }

    /// [`ValueMap::purge`] by a now that may be checked against the machine's clock.
    ///
    /// # Errors
    /// `Config` when the clock is doubtful.
    pub fn purge_by(&self, purge: Purge, include_pending: bool) -> Result<Purged> {
        self.space.purge_values(purge, include_pending)
    }

    /// Compact segments where it pays; with `all`, as far as possible.
    pub fn maintain(&self, all: bool, progress: Progress) -> Result<Maintained> {
        self.space.maintain(all, progress)
    }

    /// [`ValueMap::maintain`] until nothing is due, for a thread of its own.
    pub fn maintain_while_due(&self, progress: Progress) -> Result<()> {
        self.space.maintain_while_due(progress)
    }

    /// Delete the objects that no state needs and that are older than `grace`, if the history is in
    /// an object store. Answers how many went.
    #[doc(hidden)]
    pub fn collect_objects(&self, grace: std::time::Duration) -> Result<u64> {
        self.space.exists()?;
        self.space.collect_objects(grace)
    }

    /// Whether maintenance is due.
    pub fn is_maintenance_due(&self) -> bool {
        self.space.is_maintenance_due()
    }

    /// The space's figures.
    pub fn statistics(&self) -> Result<ValueStatistics> {
        self.space.value_statistics()
    }

    /// Check every byte; answers the number of bytes checked.
    pub fn verify(&self, progress: Progress) -> Result<u64> {
        self.space.verify(progress)
    }

    /// Pin the present state. Any process that opens the history with the returned snapshot reads
    /// this state until it is unpinned.
    pub fn pin(&self) -> Result<String> {
        Ok(super::snapshot_of(self.space.name(), &self.space.pin(None)?))
    }

    /// Remove a pin, so that its files can be purged.
    pub fn unpin(&self, snapshot: &str) -> Result<()> {
        self.space.unpin(super::pin_of(snapshot, self.space.name())?)
    }
}

/// The entries of a space, batch by batch.
#[derive(Debug)]
pub struct Entries {
    codec: Codec,
    cursor: ValueCursor,
}

/// Some entries, as columns.
#[derive(Clone, Debug, Default)]
pub struct EntryBatch {
    /// The ids, as they came.
    pub ids: Vec<String>,
    /// Their entries.
    pub found: FoundValues,
}

impl Entries {
    /// The next entries; none after the last. A batch may be empty.
    pub fn next_batch(&mut self) -> Result<Option<EntryBatch>> {
        let codec = &self.codec;
        let mut ids = Vec::new();
        let found = self.cursor.next(&mut |key, text| ids.push(id_text(codec, key, text)))?;
        Ok(found.map(|found| EntryBatch { ids, found }))
    }
}
