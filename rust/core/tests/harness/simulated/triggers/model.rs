//! What a history should say, kept naively: every entry of every key in plain maps.

use std::collections::BTreeMap;

use dochistory_core::{OnOtherRows, OnReplay, Replays};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Open,
    Released,
    Completed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// 0 for entries that no claim began.
    claim: u64,
    started_at: i64,
    mark: Mark,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    ids: Vec<String>,
    started_at: i64,
    is_completed: bool,
    is_released: bool,
    /// Released one by one.
    released: Vec<String>,
    /// What its numbered batch left out.
    left: Vec<String>,
}

/// One possible state of a trigger's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    keys: BTreeMap<String, Vec<Entry>>,
    claims: BTreeMap<u64, Claim>,
    /// Last batch of each application, its claim, and its rows in order.
    transactions: BTreeMap<String, (i64, u64, Vec<String>)>,
    /// The claim that each slot of the test holds.
    slots: BTreeMap<usize, u64>,
    purged_upto: Option<i64>,
    next: u64,
}

impl Model {
    /// The rule that answers for an id: R8 new, R9 completed, R11 in doubt.
    pub fn rule(&self, id: &str) -> &'static str {
        self.rule_without(id, None)
    }

    fn rule_without(&self, id: &str, claim: Option<u64>) -> &'static str {
        let entries = self.keys.get(id).map_or(&[][..], |entries| entries);
        if entries.iter().any(|entry| entry.mark == Mark::Completed) {
            "R9"
        } else if entries.iter().any(|entry| entry.mark == Mark::Open && Some(entry.claim) != claim) {
            "R11"
        } else {
            "R8"
        }
    }

    /// Application, last batch, and whether it ended.
    pub fn transactions(&self) -> Vec<(String, i64, bool)> {
        let ended = |claim: &u64| self.claims.get(claim).is_some_and(|claim| claim.is_completed || claim.is_released);
        self.transactions.iter().map(|(name, (batch, claim, _))| (name.clone(), *batch, ended(claim))).collect()
    }

    /// Begin distinct ids; the rules that answer for them, or none where the batch number goes
    /// backwards, or comes again with other rows and is refused.
    pub fn begin(
        &mut self,
        slot: usize,
        ids: &[String],
        now: i64,
        transaction: Option<(&str, i64)>,
        replays: Replays,
    ) -> Option<Vec<&'static str>> {
        let previous = transaction.and_then(|(name, _)| self.transactions.get(name)).cloned();
        let batch = transaction.map(|(_, batch)| batch);
        if previous.as_ref().is_some_and(|(last, ..)| Some(*last) > batch) {
            return None;
        }
        let mut rows = ids.to_vec();
        rows.sort();
        let previous = previous.filter(|(last, ..)| Some(*last) == batch);
        let counts = |claim: &u64| self.claims[claim].is_completed || !self.claims[claim].is_released;
        let is_other = previous.as_ref().is_some_and(|(_, claim, then)| counts(claim) && *then != rows);
        if is_other && replays.on_other_rows == OnOtherRows::Refuse {
            return None;
        }
        let previous = previous.filter(|_| !is_other).map(|(_, claim, _)| claim);
        let of = |claim: &u64| self.claims[claim].clone();
        let is_completed = previous.as_ref().is_some_and(|claim| of(claim).is_completed);
        let is_released = previous.as_ref().is_some_and(|claim| of(claim).is_released && !is_completed);
        let reruns = previous.filter(|_| !is_completed && !is_released && replays.on_replay == OnReplay::Rerun);
        let rule = |id: &String| match self.rule_without(id, reruns) {
            "R8" if is_completed && !previous.is_some_and(|claim| self.has_left_out(claim, id)) => "R9",
            rule => rule,
        };
        let rules: Vec<_> = ids.iter().map(rule).collect();
        let claimed: Vec<String> =
            ids.iter().zip(&rules).filter(|(_, rule)| **rule == "R8").map(|(id, _)| id.clone()).collect();
        self.slots.remove(&slot);
        let is_first = transaction.is_some() && (previous.is_none() || is_released);
        if claimed.is_empty() && !is_first && reruns.is_none() {
            return Some(rules);
        }
        if let Some(claim) = reruns {
            self.take_over(claim, ids, &claimed);
        }
        self.next += 1;
        let claim = self.next;
        for id in &claimed {
            self.keys.entry(id.clone()).or_default().push(Entry { claim, started_at: now, mark: Mark::Open });
        }
        // A batch that has ended stays ended.
        let transaction = transaction.filter(|_| !is_completed);
        let is_left = |(_, rule): &(&String, &&str)| transaction.is_some() && **rule == "R11";
        self.claims.insert(
            claim,
            Claim {
                ids: claimed,
                started_at: now,
                is_completed: false,
                is_released: false,
                released: Vec::new(),
                left: ids.iter().zip(&rules).filter(is_left).map(|(id, _)| id.clone()).collect(),
            },
        );
        self.slots.insert(slot, claim);
        if let Some((name, batch)) = transaction {
            self.transactions.insert(name.to_owned(), (batch, claim, rows));
        }
        Some(rules)
    }

    /// Whether a batch ended without this id, and that is still known.
    fn has_left_out(&self, claim: u64, id: &str) -> bool {
        let entries = self.keys.get(id).map_or(&[][..], |entries| entries);
        entries.iter().any(|entry| entry.claim == claim && entry.mark == Mark::Released)
    }

    /// Those of some ids that the claim in a slot holds.
    pub fn claimed_of(&self, slot: usize, ids: &[String]) -> Vec<String> {
        let claimed = self.slots.get(&slot).map_or(&[][..], |claim| &self.claims[claim].ids);
        ids.iter().filter(|id| claimed.contains(id)).cloned().collect()
    }

    /// End the whole claim of a slot.
    pub fn finish_slot(&mut self, slot: usize, completed: bool) {
        let mark = if completed { Mark::Completed } else { Mark::Released };
        if let Some(claim) = self.slots.get(&slot).copied() {
            let Claim { started_at, ids, released, left, is_completed, is_released } = self.claims[&claim].clone();
            if is_completed || is_released {
                return;
            }
            if completed {
                self.finish_rows_of(claim, &left, Mark::Released);
            }
            // Also what was released by key since.
            if completed || self.purged_upto.is_some_and(|purged| started_at <= purged) {
                let kept: Vec<String> = ids.into_iter().filter(|id| !released.contains(id)).collect();
                self.finish_rows_of(claim, &kept, mark);
            }
            self.finish_claim(claim, mark);
        }
    }

    /// A batch runs again, these ids of it: a claim ends that has no other open ones.
    fn take_over(&mut self, claim: u64, ids: &[String], run: &[String]) {
        let is_open = |id: &&String| {
            let entries = self.keys.get(*id).map_or(&[][..], |entries| entries);
            entries.iter().any(|entry| entry.claim == claim && entry.mark == Mark::Open)
        };
        let is_left = |id: &&String| !run.contains(id) && self.rule(id) != "R9";
        if !ids.iter().filter(is_open).any(|id| is_left(&id)) {
            return self.finish_claim(claim, Mark::Released);
        }
        let ended: Vec<String> = ids.iter().filter(is_open).filter(|id| !is_left(id)).cloned().collect();
        self.finish_rows_of(claim, &ended, Mark::Released);
    }

    fn finish_claim(&mut self, claim: u64, mark: Mark) {
        for entry in self.keys.values_mut().flatten().filter(|entry| entry.claim == claim && entry.mark == Mark::Open) {
            entry.mark = mark;
        }
        if let Some(claim) = self.claims.get_mut(&claim) {
            claim.is_completed |= mark == Mark::Completed;
            claim.is_released |= mark == Mark::Released;
        }
    }

    /// End some ids of the claim of a slot.
    pub fn finish_rows(&mut self, slot: usize, ids: &[String], completed: bool) {
        let mark = if completed { Mark::Completed } else { Mark::Released };
        let Some(claim) = self.slots.get(&slot).copied() else { return };
        // What has ended as a whole is over, whatever a purge has removed since.
        if self.claims.get(&claim).is_some_and(|claim| claim.is_completed || claim.is_released) {
            return;
        }
        if let Some(claim) = self.claims.get_mut(&claim).filter(|_| !completed) {
            claim.released.extend(ids.iter().cloned());
        }
        self.finish_rows_of(claim, ids, mark);
    }

    fn finish_rows_of(&mut self, claim: u64, ids: &[String], mark: Mark) {
        let started_at = self.claims[&claim].started_at;
        for id in ids {
            let entries = self.keys.entry(id.clone()).or_default();
            match entries.iter_mut().find(|entry| entry.claim == claim) {
                Some(entry) => entry.mark = entry.mark.max(mark),
                None => entries.push(Entry { claim, started_at, mark }),
            }
        }
    }

    /// End ids whatever claim began them: all of their open claims, also where another claim has
    /// completed.
    pub fn finish_keys(&mut self, ids: &[String], completed: bool, now: i64) {
        for id in ids {
            let rule = self.rule(id);
            let entries = self.keys.entry(id.clone()).or_default();
            let mark = if completed { Mark::Completed } else { Mark::Released };
            match rule {
                "R11" | "R9" => {
                    entries.iter_mut().filter(|entry| entry.mark == Mark::Open).for_each(|entry| entry.mark = mark);
                }
                "R8" if completed => entries.push(Entry { claim: 0, started_at: now, mark }),
                _ => {}
            }
        }
    }

    /// Load ids from elsewhere.
    pub fn load(&mut self, ids: &[String], started_at: i64, completed: bool) {
        self.next += 1;
        let claim = if completed { 0 } else { self.next };
        let mark = if completed { Mark::Completed } else { Mark::Open };
        for id in ids {
            self.keys.entry(id.clone()).or_default().push(Entry { claim, started_at, mark });
        }
    }

    /// Drop what began at or before `cutoff`.
    pub fn purge(&mut self, cutoff: i64) {
        let mut dropped = false;
        for entries in self.keys.values_mut() {
            let before = entries.len();
            entries.retain(|entry| entry.started_at > cutoff);
            dropped |= entries.len() < before;
        }
        if dropped {
            self.purged_upto = self.purged_upto.max(Some(cutoff));
        }
    }
}
