//! Runs changes on a real value space and on the models of it, side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use dochistory_core::history::values::{Ending, FOREVER, NewValue, Room, ValueMap};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::io::FileSystem;
use dochistory_core::{Error, Transaction};

use super::{DAY, Ids, START};

pub const SPACE: &str = "jms-receiver";
const APPLICATION: &str = "stream";

/// What is written for an id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Put {
    pub id: String,
    pub value: Option<Vec<u8>>,
    /// Day; none is forever.
    pub until: Option<i64>,
    pub pending: bool,
}

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// Write and remove; with a batch number as the beginning of a transaction.
    Change {
        puts: Vec<Put>,
        removes: Vec<String>,
        batch: Option<i64>,
    },
    /// Write only what is not there.
    Take {
        puts: Vec<Put>,
    },
    /// End the last transaction, and remove something with it.
    End {
        removes: Vec<String>,
    },
    /// A change that its caller gives up.
    Fail {
        puts: Vec<Put>,
    },
    Seal,
    Maintain {
        all: bool,
    },
    Purge {
        day: i64,
        pending: bool,
    },
    Reopen,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub by: usize,
    pub op: Op,
}

/// One possible state.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Model {
    entries: BTreeMap<String, (Option<Vec<u8>>, i64, bool)>,
    /// Number of the last batch, and whether it ended.
    batch: Option<(i64, bool)>,
}

impl Model {
    fn put(&mut self, put: &Put) {
        self.entries.insert(put.id.clone(), (put.value.clone(), until(put), put.pending));
    }

    fn remove(&mut self, ids: &[String]) {
        for id in ids {
            self.entries.remove(id);
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Change { puts, removes, batch } => {
                if batch.is_some_and(|batch| self.batch.is_some_and(|(last, _)| batch <= last)) {
                    return;
                }
                for put in puts {
                    self.put(put);
                }
                self.remove(removes);
                self.batch = batch.map(|batch| (batch, false)).or(self.batch);
            }
            Op::Take { puts } => {
                let known: BTreeSet<String> = self.entries.keys().cloned().collect();
                puts.iter().filter(|put| !known.contains(&put.id)).for_each(|put| self.put(put));
            }
            Op::End { removes } => {
                if let Some((_, is_over @ false)) = &mut self.batch {
                    *is_over = true;
                    self.remove(removes);
                }
            }
            Op::Purge { day, pending } => {
                let upto = START + day * DAY;
                self.entries.retain(|_, (_, until, is_pending)| *until > upto || *is_pending && !pending);
            }
            Op::Fail { .. } | Op::Seal | Op::Maintain { .. } | Op::Reopen => {}
        }
    }
}

fn until(put: &Put) -> i64 {
    put.until.map_or(FOREVER, |day| START + day * DAY)
}

pub struct Rig {
    path: &'static str,
    systems: Vec<Arc<dyn FileSystem>>,
    pub histories: Vec<Option<History>>,
    pub models: Vec<Model>,
    pub ids: Vec<String>,
    pub collides: bool,
}

impl Rig {
    pub fn new(path: &'static str, systems: Vec<Arc<dyn FileSystem>>, ids: Vec<String>) -> Self {
        let histories = systems.iter().map(|_| None).collect();
        Self { path, systems, histories, models: vec![Model::default()], ids, collides: false }
    }

    /// Forget the handle of a process that died.
    pub fn restart(&mut self, by: usize, system: Arc<dyn FileSystem>) {
        self.histories[by] = None;
        self.systems[by] = system;
    }

    pub fn values(&mut self, by: usize) -> Result<ValueMap, Error> {
        if self.histories[by].is_none() {
            let options = OpenOptions { create: true, ..OpenOptions::default() };
            let opened = History::open_on(self.systems[by].clone(), Path::new(self.path), &options)?;
            self.histories[by] = Some(if self.collides { opened.with_colliding_keys() } else { opened });
        }
        self.histories[by].as_ref().unwrap().values(Room::Mapper, SPACE)
    }

    /// Compare everything with the models, by look-up and by listing, and drop the models that are
    /// refuted.
    pub fn check(&mut self, by: usize) -> Result<(), Error> {
        let values = self.values(by)?;
        let ids = Ids::new(&self.ids);
        let documents = ids.documents();
        let found = values.look(&values.ids(&documents.ids[0]))?;
        let mut seen = Model::default();
        for (row, id) in self.ids.iter().enumerate().filter(|(row, _)| found.is_there(*row)) {
            let value = found.value(row).map(<[u8]>::to_vec);
            seen.entries.insert(id.clone(), (value, found.persist_until(row), found.is_pending(row)));
        }
        let transactions = values.statistics()?.transactions;
        seen.batch = transactions.first().map(|(_, batch, is_over)| (*batch, *is_over));
        let mut listed = BTreeMap::new();
        let mut entries = values.entries()?;
        while let Some(batch) = entries.next_batch()? {
            for (row, id) in batch.ids.into_iter().enumerate() {
                let value = batch.found.value(row).map(<[u8]>::to_vec);
                let entry = (value, batch.found.persist_until(row), batch.found.is_pending(row));
                assert!(listed.insert(id.clone(), entry).is_none(), "{id} is listed twice");
            }
        }
        assert_eq!(listed, seen.entries, "the listing says something else than look-ups do");
        let expected = self.models.clone();
        self.models.retain(|model| *model == seen);
        assert!(!self.models.is_empty(), "the store says\n{seen:?}\nbut should say one of\n{expected:#?}");
        Ok(())
    }

    /// Do a step. When it fails, the models become those in which it happened and those in which it
    /// did not.
    pub fn step(&mut self, step: &Step) -> Result<(), Error> {
        let result = self.perform(step);
        let after = self.models.iter().cloned().map(|mut model| {
            model.apply(&step.op);
            model
        });
        self.models = if result.is_ok() { after.collect() } else { self.models.iter().cloned().chain(after).collect() };
        self.models.sort();
        self.models.dedup();
        result
    }

    fn perform(&mut self, step: &Step) -> Result<(), Error> {
        let values = self.values(step.by)?;
        let none = Ids::new::<&str>(&[]);
        let none = none.documents();
        match &step.op {
            Op::Change { puts, removes, batch } => values.change(&values.ids(&none.ids[0]), |turn| {
                if let Some(batch) = *batch {
                    let last = turn.transaction(APPLICATION);
                    if last.is_some_and(|last| batch <= last.batch) {
                        return Ok(());
                    }
                    turn.begin(Transaction { application: APPLICATION.into(), batch }, None, None);
                }
                for put in puts {
                    turn.put(values.id(put.id.as_bytes()), entry(put))?;
                }
                removes.iter().try_for_each(|id| turn.remove(values.id(id.as_bytes())))
            }),
            Op::Take { puts } => {
                let column = Ids::new(&puts.iter().map(|put| put.id.clone()).collect::<Vec<_>>());
                let documents = column.documents();
                let ids = values.ids(&documents.ids[0]);
                values.change(&ids, |turn| {
                    let absent = (0..puts.len()).filter(|row| !turn.found().is_there(*row)).collect::<Vec<_>>();
                    absent.into_iter().try_for_each(|row| turn.put(ids.id(row), entry(&puts[row])))
                })
            }
            Op::End { removes } => values.change(&values.ids(&none.ids[0]), |turn| {
                let last = turn.transaction(APPLICATION).filter(|last| last.ending.is_none());
                let Some(last) = last else { return Ok(()) };
                turn.end(last.claim, Ending::Completed);
                removes.iter().try_for_each(|id| turn.remove(values.id(id.as_bytes())))
            }),
            Op::Fail { puts } => {
                let failed = values.change(&values.ids(&none.ids[0]), |turn| {
                    puts.iter().try_for_each(|put| turn.put(values.id(put.id.as_bytes()), entry(put)))?;
                    Err::<(), _>(Error::Schema("given up".into()))
                });
                match failed {
                    Err(Error::Schema(_)) => Ok(()),
                    other => other,
                }
            }
            Op::Seal => {
                let snapshot = values.pin()?;
                values.unpin(&snapshot)
            }
            Op::Maintain { all } => values.maintain(*all, &mut |_, _| Ok(())).map(drop),
            Op::Purge { day, pending } => {
                let would = values.purge(START + day * DAY, *pending, true)?;
                let done = values.purge(START + day * DAY, *pending, false)?;
                assert_eq!(would.entries, done.entries);
                Ok(())
            }
            Op::Reopen => {
                self.histories[step.by] = None;
                self.values(step.by).map(drop)
            }
        }
    }
}

fn entry(put: &Put) -> NewValue<'_> {
    NewValue { value: put.value.as_deref(), persist_until: until(put), pending: put.pending }
}
