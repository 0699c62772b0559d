//! Sender direction: the check, the message and the mapping are one unit of work (rules N1 to N5).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::known::Known;
use super::mappings::RowError;
use super::rules::{Attempt, MapperBatch, NO_ID, Qos, Rule, SenderFacts, decide_sender};
use super::send::Messages;
use super::texts::{Texts, Untils};
use super::unit_mirrors::Mirrors;
use super::{Mapper, same_length};
use crate::segment::values::columns::Ids;
use crate::store::values::Held;
use crate::{Error, Result};

/// Units of work that take ids of different stripes do not wait for each other.
const STRIPES: u64 = 16;

/// A change that becomes durable with the unit.
#[derive(Clone, Debug)]
enum Change {
    /// Map an id that is not mapped.
    Create {
        value: Option<Vec<u8>>,
        until: i64,
    },
    /// Map an id that is mapped.
    Update {
        value: Option<Vec<u8>>,
        until: i64,
    },
    Remove,
}

/// A change, and the call of [`Unit::take`] that made it; none for a change by hand.
#[derive(Clone, Debug)]
struct Made {
    change: Change,
    by: Option<u32>,
    /// What the id was mapped to in the store when the unit changed it first.
    found: Option<Vec<u8>>,
}

/// A unit of work: the messages that it takes in are mapped when it commits, all or none. While it
/// is open, other callers that take one of its ids wait for its end. It is rolled back when it is
/// dropped, or its process dies.
///
/// In an object store only callers of the same handle wait. Of units of several handles that change
/// the same id, the first to commit wins; the commit of the others fails, and writes nothing.
#[derive(Debug)]
pub struct Unit {
    mapper: Mapper,
    /// The ids' locks, by stripe.
    held: BTreeMap<u64, Held>,
    changes: HashMap<Vec<u8>, Made>,
    /// The ids that it took, and then called duplicates in a later call of [`Unit::take`].
    repeated: HashSet<Vec<u8>>,
    /// Number of calls of [`Unit::take`].
    takes: u32,
}

/// Messages that a unit took in.
#[derive(Debug)]
pub struct Taken {
    /// The rule of each row.
    pub rules: Vec<Rule>,
    /// The mapper's knowledge, with the changes of the unit.
    pub known: Known,
    /// The number of the call of [`Unit::take`].
    number: u32,
    qos: Vec<Qos>,
    first_copies: Vec<u32>,
    queues: Vec<u32>,
    attempts: Vec<Attempt>,
}

impl Mapper {
    /// Begin a unit of work.
    pub fn unit_of_work(&self) -> Unit {
        let (held, changes, repeated) = (BTreeMap::new(), HashMap::new(), HashSet::new());
        Unit { mapper: self.clone(), held, changes, repeated, takes: 0 }
    }
}

impl Unit {
    /// Judge messages that come in. Those to process are mapped from their ids to `message_ids`
    /// when the unit commits. Waits for other open units that have taken the same ids.
    pub fn take(
        &mut self,
        ids: &Ids,
        message_ids: &Texts,
        messages: Messages,
        untils: Untils,
        now_us: i64,
    ) -> Result<Taken> {
        same_length("qos", messages.qos.len(), ids.len())?;
        same_length("queue", messages.queues.len(), ids.len())?;
        same_length("message_id", message_ids.len(), ids.len())?;
        untils.check(ids.len())?;
        let checked = |row: &usize| messages.qos[*row] != Qos::BestEffort && ids.is_usable(*row);
        self.hold((0..ids.len()).filter(checked).map(|row| ids.id(row).stripe(STRIPES)).collect())?;
        self.takes += 1;
        let mut taken = Taken {
            rules: Vec::new(),
            number: self.takes,
            known: self.known(ids, now_us)?,
            qos: messages.qos.to_vec(),
            first_copies: ids.first_copies(NO_ID),
            queues: messages.queues.to_vec(),
            attempts: vec![Attempt::Open; ids.len()],
        };
        taken.decide()?;
        taken.know_copies(message_ids);
        for (row, _) in taken.rules.iter().enumerate().filter(|(_, rule)| **rule == Rule::N3) {
            let key = key(ids, row);
            if self.changes.get(&key).is_some_and(|made| made.by.is_some()) {
                self.repeated.insert(key);
            }
        }
        for (row, rule) in taken.rules.iter().enumerate().filter(|(_, rule)| **rule == Rule::N2) {
            debug_assert!(rule.outcome().on_success == super::rules::Change::MapInUnit);
            let value = message_ids.get(row).map(<[u8]>::to_vec);
            self.record(ids, row, Change::Create { value, until: untils.get(row) }, Some(taken.number), None);
        }
        Ok(taken)
    }

    /// These rows failed: they are not mapped when the unit commits, and later rows of their queues
    /// and of their ids are held until they are taken again. A mapping made by hand since stays.
    ///
    /// # Errors
    /// `State` when a row was not to be processed, or a later call of [`Unit::take`] called a copy
    /// of it a duplicate: that copy may be acknowledged, so only the whole unit can be rolled back.
    pub fn fail(&mut self, taken: &mut Taken, ids: &Ids, rows: &[u32]) -> Result<()> {
        same_length("ids", ids.len(), taken.rules.len())?;
        let is_processed = |row: &u32| {
            let rule = taken.rules.get(*row as usize);
            rule.is_some_and(|rule| matches!(rule, Rule::N1 | Rule::N2 | Rule::N4 | Rule::N1Failed))
        };
        if let Some(row) = rows.iter().find(|row| !is_processed(row)) {
            return Err(Error::State(format!("row {row} is not among the rows to process")));
        }
        let (before, attempts) = (taken.rules.clone(), taken.attempts.clone());
        for row in rows {
            taken.attempts[*row as usize] = Attempt::Failed;
        }
        taken.decide()?;
        let mut undone = (0..before.len()).filter(|row| before[*row] == Rule::N2 && taken.rules[*row] != Rule::N2);
        if let Some(row) = undone.find(|row| self.repeated.contains(&key(ids, *row))) {
            (taken.rules, taken.attempts) = (before, attempts);
            return Err(Error::State(format!(
                "row {row}: a copy of it was taken later in this unit of work and called a duplicate, to be acknowledged; \
                 roll back the unit"
            )));
        }
        for (row, (was, is)) in before.into_iter().zip(&taken.rules).enumerate() {
            let key = key(ids, row);
            let is_own = self.changes.get(&key).is_some_and(|made| made.by == Some(taken.number));
            if was != Rule::N2 || *is == Rule::N2 || !is_own {
                continue;
            }
            // A change that replaced a removal restores the removal.
            if let Some(Made { change: Change::Update { .. }, found, .. }) = self.changes.remove(&key) {
                self.changes.insert(key, Made { change: Change::Remove, by: None, found });
            }
        }
        taken.forget_copies();
        Ok(())
    }

    /// Map ids when the unit commits.
    pub fn create(&mut self, ids: &Ids, values: &Texts, untils: Untils, now_us: i64) -> Result<Vec<Option<RowError>>> {
        same_length("external_ids", values.len(), ids.len())?;
        untils.check(ids.len())?;
        let change = |row: usize| Change::Create { value: values.get(row).map(<[u8]>::to_vec), until: untils.get(row) };
        let refuse = |is_mapped: bool| is_mapped.then_some(RowError::Exists);
        self.join(ids, now_us, (change, Some(values)), RowError::Exists, refuse)
    }

    /// Change the mappings of ids when the unit commits.
    pub fn update(&mut self, ids: &Ids, values: &Texts, untils: Untils, now_us: i64) -> Result<Vec<Option<RowError>>> {
        same_length("external_ids", values.len(), ids.len())?;
        untils.check(ids.len())?;
        let change = |row: usize| Change::Update { value: values.get(row).map(<[u8]>::to_vec), until: untils.get(row) };
        let refuse = |is_mapped: bool| (!is_mapped).then_some(RowError::NotFound);
        self.join(ids, now_us, (change, Some(values)), RowError::Exists, refuse)
    }

    /// Remove mappings when the unit commits.
    pub fn remove(&mut self, ids: &Ids, now_us: i64) -> Result<Vec<Option<RowError>>> {
        let refuse = |is_mapped: bool| (!is_mapped).then_some(RowError::NotFound);
        self.join(ids, now_us, (|_| Change::Remove, None), RowError::NotFound, refuse)
    }

    fn join(
        &mut self,
        ids: &Ids,
        now_us: i64,
        (change, values): (impl Fn(usize) -> Change, Option<&Texts>),
        later: RowError,
        refuse: impl Fn(bool) -> Option<RowError>,
    ) -> Result<Vec<Option<RowError>>> {
        self.hold((0..ids.len()).filter(|row| ids.is_usable(*row)).map(|row| ids.id(row).stripe(STRIPES)).collect())?;
        let known = self.known(ids, now_us)?;
        let mut mirrors = self.mirrors(values, now_us)?;
        let first_copies = ids.first_copies(NO_ID);
        let mut errors = Vec::with_capacity(ids.len());
        for (row, first) in first_copies.iter().enumerate() {
            let is_later = || (*first as usize != row).then_some(later);
            let change = change(row);
            let is_back = || matches!(change, Change::Create { .. }) && mirrors.contains(&key(ids, row));
            let refused = || refuse(known.mapped[row] || is_back());
            let mut error = RowError::of_form(ids.form(row)).or_else(refused).or_else(is_later);
            if let Some(value) = values.and_then(|values| values.get(row)).filter(|_| error.is_none()) {
                error = mirrors.refuse(row, value, key(ids, row));
            }
            if error.is_none() {
                self.record(ids, row, change, None, known.values.get(row));
            }
            errors.push(error);
        }
        Ok(errors)
    }

    /// What prevents mirrors of mappings to these other ids.
    fn mirrors(&self, values: Option<&Texts>, now_us: i64) -> Result<Mirrors> {
        let Some(values) = values.filter(|_| self.mapper.settings.mirror) else { return Ok(Mirrors::default()) };
        let column = values.column();
        let known = self.known(&self.mapper.values.ids(&column), now_us)?;
        let of_unit = self.changes.iter().filter_map(|(key, made)| match &made.change {
            Change::Create { value: Some(value), .. } | Change::Update { value: Some(value), .. } => {
                Some((value.clone(), key.clone()))
            }
            _ => None,
        });
        Ok(Mirrors { is_on: true, known, of_unit: of_unit.collect() })
    }

    /// Records a later change of an id in one unit: only the state in the store before and the
    /// final state count.
    fn record(&mut self, ids: &Ids, row: usize, change: Change, by: Option<u32>, found: Option<&[u8]>) {
        let key = key(ids, row);
        let before = self.changes.get(&key);
        let found = before.map_or_else(|| found.map(<[u8]>::to_vec), |made| made.found.clone());
        // Another value for a message that was taken in: if that message fails, there is nothing to
        // map.
        let by = if matches!(change, Change::Update { .. }) { before.and_then(|made| made.by) } else { by };
        let change = match (before.map(|made| &made.change), change) {
            (Some(Change::Create { .. }), Change::Remove) => {
                self.changes.remove(&key);
                return;
            }
            (Some(Change::Create { .. }), Change::Update { value, until }) => Change::Create { value, until },
            (Some(Change::Remove), Change::Create { value, until }) => Change::Update { value, until },
            (_, change) => change,
        };
        self.changes.insert(key, Made { change, by, found });
    }

    /// The mapper's knowledge, as the unit sees it.
    fn known(&self, ids: &Ids, now_us: i64) -> Result<Known> {
        let mut known = self.mapper.lookup(ids, now_us)?;
        if self.changes.is_empty() {
            return Ok(known);
        }
        let mut values = Texts::default();
        for row in 0..ids.len() {
            match self.changes.get(&key(ids, row)).filter(|_| ids.is_usable(row)).map(|made| &made.change) {
                None => values.push(known.values.get(row)),
                Some(Change::Create { value, until } | Change::Update { value, until }) => {
                    (known.mapped[row], known.persist_until[row]) = (true, *until);
                    values.push(value.as_deref());
                }
                Some(Change::Remove) => {
                    known.mapped[row] = false;
                    values.push(None);
                }
            }
        }
        known.values = values;
        Ok(known)
    }

    /// Take the locks of these stripes, in rising order within one call.
    fn hold(&mut self, stripes: BTreeSet<u64>) -> Result<()> {
        for stripe in stripes {
            if !self.held.contains_key(&stripe) {
                let held = self.mapper.values.hold(&format!("take-{stripe:02}"));
                self.held.insert(stripe, held.map_err(kept_by_a_unit)?);
            }
        }
        Ok(())
    }

    /// Number of ids that the commit changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Make all changes of the unit durable, in one step, and release its ids. If any change is
    /// impossible, because another caller changed the same id without a unit meanwhile, none is
    /// made.
    pub fn commit(self, now_us: i64) -> Result<u64> {
        let mut keys = Texts::default();
        let mut changes: Vec<(Vec<u8>, Made)> = self.changes.into_iter().collect();
        if changes.is_empty() {
            return Ok(0);
        }
        changes.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (key, _) in &changes {
            keys.push(Some(key));
        }
        let (column, mapper) = (keys.column(), &self.mapper);
        let ids = mapper.values.ids(&column);
        mapper.values.change(&ids, |edit| {
            let known = Known::read(edit.found(), mapper.settings, now_us)?;
            for (row, (key, Made { change, found, .. })) in changes.iter().enumerate() {
                let was_mapped = !matches!(change, Change::Create { .. });
                // No lock kept other handles from changing it.
                let is_moved = mapper.values.is_shared() && known.values.get(row) != found.as_deref();
                if known.mapped[row] != was_mapped || is_moved {
                    let done = match (was_mapped, known.mapped[row]) {
                        (true, true) => "changed",
                        (true, false) => "removed",
                        (false, _) => "mapped",
                    };
                    let id = String::from_utf8_lossy(key);
                    return Err(Error::State(format!(
                        "id {id:?} was {done} by another caller while the unit of work was open; nothing of the unit was written"
                    )));
                }
                let own = mapper.entry(edit, &ids, (&known, row), now_us)?;
                match change {
                    Change::Create { value, until } | Change::Update { value, until } => {
                        mapper.map(edit, &own, value.as_deref(), *until, now_us)?;
                    }
                    Change::Remove => mapper.unmap(edit, &own, now_us)?,
                }
            }
            // Mirrors come last: they replace no mapping of the unit itself.
            for (key, made) in &changes {
                if let Change::Create { value, until } | Change::Update { value, until } = &made.change {
                    mapper.mirror(edit, value.as_deref(), key, *until, now_us)?;
                }
            }
            Ok(changes.len() as u64)
        })
    }
}

/// Say what is locked, and until when. The locks are those of stripes, so the ids of a stripe wait
/// for the same unit.
fn kept_by_a_unit(error: Error) -> Error {
    let Error::Locked { path, waited_ms, holder } = error else { return error };
    let holder = format!(
        "{holder}, in a unit of work that is open; a unit keeps, with each id that it takes, one {STRIPES}th of all ids until \
         it commits or rolls back: end it sooner, or raise lock_timeout"
    );
    Error::Locked { path, waited_ms, holder }
}

/// The id of a row, as the unit remembers it.
fn key(ids: &Ids, row: usize) -> Vec<u8> {
    ids.bytes(row).map(std::borrow::Cow::into_owned).unwrap_or_default()
}

impl Taken {
    fn decide(&mut self) -> Result<()> {
        let batch = MapperBatch {
            qos: &self.qos,
            first_copies: &self.first_copies,
            queues: &self.queues,
            queue_count: self.qos.len() + 1,
            attempts: Some(&self.attempts),
        };
        self.rules = decide_sender(&SenderFacts { batch, mapped: &self.known.mapped })?;
        Ok(())
    }

    /// A copy of an earlier row gets that row's message id.
    fn know_copies(&mut self, message_ids: &Texts) {
        if !self.rules.contains(&Rule::N3Batch) {
            return;
        }
        let mut values = Texts::default();
        for (row, rule) in self.rules.iter().enumerate() {
            let first = self.first_copies[row] as usize;
            values.push(if *rule == Rule::N3Batch { message_ids.get(first) } else { self.known.values.get(row) });
        }
        self.known.values = values;
    }

    /// A copy of a row that failed or waits has no message id.
    fn forget_copies(&mut self) {
        let mut values = Texts::default();
        for (row, rule) in self.rules.iter().enumerate() {
            values.push(self.known.values.get(row).filter(|_| *rule != Rule::N2Hold));
        }
        self.known.values = values;
    }

    /// The rows to process that did not fail.
    pub fn open_rows(&self) -> Vec<u32> {
        let is_open = |row: &u32| matches!(self.rules[*row as usize], Rule::N1 | Rule::N2);
        (0..self.rules.len() as u32).filter(is_open).collect()
    }
}
