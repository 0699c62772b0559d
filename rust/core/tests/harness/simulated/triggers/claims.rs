//! Claims, and how each has ended so far.

use dochistory_core::Error;
use dochistory_core::protocols::trigger::{Claim, StagedClaim};

use super::super::super::Ids;
use super::{Batch, State};

/// A claim, in whichever way it was begun.
pub enum Begun {
    Batch(Claim),
    Staged(StagedClaim),
}

pub struct Held {
    claim: Begun,
    /// The ids of its batch, those that it did not get included.
    batch: Vec<String>,
    whole: Option<bool>,
    ended: Vec<(String, bool)>,
}

impl State {
    /// A batch was begun, and its claim, if it has one, takes the place of the slot's last.
    pub fn hold(&mut self, batch: &Batch, claim: Option<Begun>) {
        self.claims.remove(&batch.slot);
        let held = claim.map(|claim| Held { claim, batch: batch.ids.clone(), whole: None, ended: Vec::new() });
        self.claims.extend(held.map(|held| (batch.slot, held)));
    }
}

impl Held {
    /// End all of it, or some ids of its batch; answers false where that was refused, as it must be
    /// after the other end.
    pub fn end(&mut self, ids: Option<&[String]>, completed: bool) -> Result<bool, Error> {
        let ended_otherwise = |id: &String| self.ended.iter().any(|(other, how)| other == id && *how != completed);
        let is_refused = self.whole.is_some_and(|before| before != completed)
            || ids.is_some_and(|ids| ids.iter().any(ended_otherwise));
        match self.finish(ids, completed) {
            Err(Error::State(_)) if is_refused => return Ok(false),
            Ok(()) if is_refused => panic!("what ended {} was ended the other way", !completed),
            other => other?,
        }
        match ids {
            None => self.whole = Some(completed),
            Some(ids) => self.ended.extend(ids.iter().map(|id| (id.clone(), completed))),
        }
        Ok(true)
    }

    fn finish(&self, ids: Option<&[String]>, completed: bool) -> Result<(), Error> {
        let column = ids.map(Ids::new);
        let documents = column.as_ref().map(Ids::documents);
        let row = |id: &String| self.batch.iter().position(|other| other == id).unwrap() as u32;
        let rows: Option<Vec<u32>> = ids.map(|ids| ids.iter().map(row).collect());
        match &self.claim {
            Begun::Batch(claim) if completed => claim.complete(rows.as_deref()),
            Begun::Batch(claim) => claim.release(rows.as_deref()),
            Begun::Staged(claim) if completed => claim.complete(documents.as_ref()),
            Begun::Staged(claim) => claim.release(documents.as_ref()),
        }
    }
}
