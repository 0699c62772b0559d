//! Keys of a claim by their places among the keys that its `Begin` named.

use super::{Memtable, MemtableEntry};
use crate::key::Form;
use crate::segment::Wanted;
use crate::segment::format::Mark;
use crate::types::Places;

/// How many keys of a claim may be left out between two that are named.
const SKIPPED: usize = 64;

impl Memtable {
    /// Whether this log has begun a claim of this number of keys.
    pub(crate) fn has_begun(&self, claim: (u64, i64), keys: usize) -> bool {
        self.claim_index.get(&claim).is_some_and(|at| {
            let claim = &self.claims[*at as usize];
            claim.began_here && claim.count as usize == keys
        })
    }

    /// The places of rows among the keys of their claim; none unless this log has begun the claim
    /// with all of them, and each once.
    pub(crate) fn places_of(
        &self,
        claim: (u64, i64),
        wanted: &Wanted,
        rows: impl Iterator<Item = usize>,
    ) -> Option<Places> {
        let claim = self.claims.get(*self.claim_index.get(&claim)? as usize).filter(|claim| claim.began_here)?;
        if claim.has_copies {
            return None;
        }
        let (first, count) = (claim.first as usize, claim.count as usize);
        let begun = self.entries.get(first..first + count)?;
        let mut places = Places::none_of(count);
        let mut next = 0;
        for row in rows {
            let key = wanted.keys[row];
            let text = wanted.text_of(row);
            let is_same = |entry: &MemtableEntry| self.texts.is_of(entry, key, text);
            // Rows mostly come in the order in which they began.
            if !begun.get(next).is_some_and(is_same) {
                let of_claim = |at: &usize| (first..first + count).contains(at);
                next = self.chain(key, text).map(|at| at as usize).find(of_claim)? - first;
            }
            places.insert(next);
            next += 1;
        }
        Some(places)
    }

    /// The claim that began last, and the places of these keys in it. None unless the keys come in
    /// the order in which they began, and nothing that came here since is about them.
    pub(crate) fn last_begun(&self, wanted: &Wanted) -> Option<((u64, i64), Places)> {
        let claim = self.claims.get(self.entries.last()?.claim() as usize)?;
        let begun = self.entries.get(claim.first as usize..)?;
        if !claim.began_here || begun.len() != claim.count as usize || self.outcomes.contains_key(&claim.number) {
            return None;
        }
        let mut places = Places::none_of(begun.len());
        let mut next = 0;
        for (row, key) in wanted.keys.iter().enumerate() {
            let text = match wanted.forms[row] {
                Form::Uuid => None,
                Form::Text => Some((wanted.text)(row as u32)),
                Form::Absent | Form::TooLong => return None,
            };
            let is_same = |entry: &MemtableEntry| self.texts.is_of(entry, *key, text);
            let place = next + begun.get(next..)?.iter().take(SKIPPED).position(is_same)?;
            if begun[place].mark() != Mark::Open {
                return None;
            }
            places.insert(place);
            next = place + 1;
        }
        Some(((claim.number, claim.started_at), places))
    }

    /// End keys of a claim by their places. Without its `Begin`, which a salvaged log may lack, its
    /// keys are unknown.
    pub(super) fn finish_places(&mut self, claim: (u64, i64), places: &Places, mark: Mark) {
        if !self.has_begun(claim, places.count()) {
            return;
        }
        let first = self.claim_index.get(&claim).map_or(0, |at| self.claims[*at as usize].first as usize);
        for place in places.iter() {
            self.entries[first + place].raise(mark);
        }
    }
}
