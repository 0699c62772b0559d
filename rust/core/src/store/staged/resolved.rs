//! Documents in progress that a resolver called duplicates in a task. The commit completes them, as
//! `begin` does where one process decides.

use std::collections::HashSet;
use std::sync::Arc;

use super::Job;
use super::conflict::{Keys, claims, held_by};
use crate::Result;
use crate::key::Key;
use crate::segment::Segment;
use crate::store::{ClaimedKeys, Writer};
use crate::types::HistoryState;

/// An open claim of such a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Resolved {
    pub(crate) key: Key,
    /// Its text, if it is no UUID.
    pub(crate) text: Option<Vec<u8>>,
    pub(crate) claim: u64,
    /// When the claim's service began.
    pub(crate) started_at: i64,
}

impl Writer<'_> {
    /// Complete what the tasks of a job found resolved. A document whose open claims are no longer
    /// those that the resolver was asked about is left as it is: somebody ended one, or began it
    /// again. So is one that another task of the job has `staged`: it runs.
    pub(crate) fn complete_resolved<'a>(
        &mut self,
        job: &Job,
        expired: i64,
        resolved: impl Iterator<Item = &'a Resolved>,
        staged: &[Arc<Segment>],
    ) -> Result<()> {
        // Copies of a document name its claims once more.
        let resolved: HashSet<&Resolved> = resolved.collect();
        let named: HashSet<_> = resolved.iter().map(|one| (one.key, one.text.as_deref())).collect();
        let mut keys = Keys::default();
        for (key, text) in named {
            keys.push(key, text);
        }
        if keys.len() == 0 {
            return Ok(());
        }
        let now = match self.space.present().as_ref() {
            Some(view) => keys.wanted(|wanted| view.lookup(wanted, expired))?,
            None => return Ok(()),
        };
        let then = self.space.at_the_pin(job, expired, &keys)?;
        let mut runs = HashSet::new();
        for segment in staged {
            runs.extend(held_by(segment, &keys)?);
        }
        let is_same = |row: usize| {
            !runs.contains(&(row as u32))
                && now.states[row] == HistoryState::Processing
                && claims(&now, row).eq(claims(&then, row))
        };
        let same: HashSet<_> = keys.each().enumerate().filter(|(row, _)| is_same(*row)).map(|(_, one)| one).collect();
        let mut ended = ClaimedKeys::default();
        for one in resolved.into_iter().filter(|one| same.contains(&(one.key, one.text.as_deref()))) {
            ended.push(one.key, one.text.as_deref(), (one.claim, one.started_at));
        }
        self.complete_keys(ended, job.plan().started_at)
    }
}
