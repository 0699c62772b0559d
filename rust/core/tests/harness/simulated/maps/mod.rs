//! Changes of a map of values: entries are written, taken, removed and purged, alone and in
//! transactions.

mod model;
mod workload;

use dochistory_core::history::History;
use dochistory_core::history::values::{Ending, FOREVER, NewValue, Room, ValueMap};
use dochistory_core::{Error, Purge, Transaction};

use self::model::Model;
use super::super::{DAY, Ids, Maps, START};
use super::{Harness, Step, Subject};

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

impl Put {
    fn until(&self) -> i64 {
        self.until.map_or(FOREVER, |day| START + day * DAY)
    }

    fn entry(&self) -> NewValue<'_> {
        NewValue { value: self.value.as_deref(), persist_until: self.until(), pending: self.pending }
    }
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

fn values(history: &History) -> Result<ValueMap, Error> {
    history.values(Room::Mapper, "jms-receiver")
}

impl Subject for Maps {
    type Op = Op;
    type Model = Model;
    type Answer = ();
    type Found = Model;
    type State = ();

    fn workload() -> Vec<Step<Op>> {
        workload::workload()
    }

    fn ids() -> Vec<String> {
        workload::ids(0..workload::IDS)
    }

    fn perform(harness: &mut Harness<Self>, by: usize, op: &Op) -> Result<Option<()>, Error> {
        let values = values(harness.history(by)?)?;
        let none = Ids::new::<&str>(&[]);
        let none = none.documents();
        let none = values.ids(&none.ids[0]);
        match op {
            Op::Change { puts, removes, batch } => values.change(&none, |edit| {
                if let Some(batch) = *batch {
                    let last = edit.transaction(APPLICATION);
                    if last.is_some_and(|last| batch <= last.batch) {
                        return Ok(());
                    }
                    edit.begin(Transaction { application: APPLICATION.into(), batch }, None, None);
                }
                puts.iter().try_for_each(|put| edit.put(values.id(put.id.as_bytes()), put.entry()))?;
                removes.iter().try_for_each(|id| edit.remove(values.id(id.as_bytes())))
            })?,
            Op::Take { puts } => {
                let column = Ids::new(&puts.iter().map(|put| put.id.clone()).collect::<Vec<_>>());
                let documents = column.documents();
                let ids = values.ids(&documents.ids[0]);
                values.change(&ids, |edit| {
                    let absent = (0..puts.len()).filter(|row| !edit.found().is_there(*row)).collect::<Vec<_>>();
                    absent.into_iter().try_for_each(|row| edit.put(ids.id(row), puts[row].entry()))
                })?;
            }
            Op::End { removes } => values.change(&none, |edit| {
                let last = edit.transaction(APPLICATION).filter(|last| last.ending.is_none());
                let Some(last) = last else { return Ok(()) };
                edit.end(last.claim, Ending::Completed);
                removes.iter().try_for_each(|id| edit.remove(values.id(id.as_bytes())))
            })?,
            Op::Fail { puts } => {
                let failed = values.change(&none, |edit| {
                    puts.iter().try_for_each(|put| edit.put(values.id(put.id.as_bytes()), put.entry()))?;
                    Err::<(), _>(Error::Schema("given up".into()))
                });
                match failed {
                    Err(Error::Schema(_)) => {}
                    other => other?,
                }
            }
            Op::Seal => values.unpin(&values.pin()?)?,
            Op::Maintain { all } => drop(values.maintain(*all, &mut |_, _| Ok(()))?),
            Op::Purge { day, pending } => {
                let purge = Purge::at(START + day * DAY);
                let would = values.purge_by(Purge { dry_run: true, ..purge }, *pending)?;
                let done = values.purge_by(purge, *pending)?;
                assert_eq!(would.entries, done.entries);
            }
            Op::Reopen => {
                harness.reopen(by)?;
                self::values(harness.history(by)?)?;
            }
        }
        Ok(Some(()))
    }

    fn apply((): &(), model: &mut Model, op: &Op) {
        model.apply(op);
    }

    /// By look-up and by listing, which have to agree.
    fn find(history: &History, ids: &[String]) -> Result<Model, Error> {
        let values = values(history)?;
        let column = Ids::new(ids);
        let documents = column.documents();
        let found = values.look(&values.ids(&documents.ids[0]))?;
        let mut seen = Model::default();
        for (row, id) in ids.iter().enumerate().filter(|(row, _)| found.is_there(*row)) {
            let value = found.value(row).map(<[u8]>::to_vec);
            seen.entries.insert(id.clone(), (value, found.persist_until(row), found.is_pending(row)));
        }
        seen.batch = values.statistics()?.transactions.first().map(|(_, batch, is_over)| (*batch, *is_over));
        let mut listed = Model::default();
        let mut entries = values.entries()?;
        while let Some(batch) = entries.next_batch()? {
            for (row, id) in batch.ids.into_iter().enumerate() {
                let value = batch.found.value(row).map(<[u8]>::to_vec);
                let entry = (value, batch.found.persist_until(row), batch.found.is_pending(row));
                assert!(listed.entries.insert(id.clone(), entry).is_none(), "{id} is listed twice");
            }
        }
        assert_eq!(listed.entries, seen.entries, "the listing says something else than look-ups do");
        Ok(seen)
    }

    fn allows(model: &Model, _: &[String], found: &Model) -> bool {
        model == found
    }

    fn describe(model: &Model, _: &[String]) -> String {
        format!("{model:?}")
    }

    fn verify(history: &History) -> Result<(), Error> {
        values(history)?.verify(&mut |_, _| Ok(())).map(drop)
    }
}
