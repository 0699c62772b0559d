//! What a map of values should hold, kept naively.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::{DAY, START};
use super::{Op, Put};

/// One possible state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// Value, end of its life, and whether it is pending.
    pub entries: BTreeMap<String, (Option<Vec<u8>>, i64, bool)>,
    /// Number of the last batch, and whether it ended.
    pub batch: Option<(i64, bool)>,
}

impl Model {
    fn put(&mut self, put: &Put) {
        self.entries.insert(put.id.clone(), (put.value.clone(), put.until(), put.pending));
    }

    fn remove(&mut self, ids: &[String]) {
        for id in ids {
            self.entries.remove(id);
        }
    }

    pub fn apply(&mut self, op: &Op) {
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
