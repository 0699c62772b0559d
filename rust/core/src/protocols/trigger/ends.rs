//! How the documents of a claim ended. A released document may belong to another claim by now, and
//! a completed one is over: a claim that has ended one way refuses the other.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{KeySpace, SpaceSettings, Writer};
use crate::types::Ending as End;
use crate::types::FrameKeys;
use crate::{Error, Result};

/// The claim that ends, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending<'a> {
    pub(super) space: &'a KeySpace,
    pub(super) number: u64,
    pub(super) started_at: i64,
    /// The application of its transaction, if it has one.
    pub(super) application: Option<&'a str>,
    /// Whether documents of its batch were left out, to be begun when the batch comes again.
    pub(super) is_part: bool,
    /// The keys of its batch that are neither done nor begun by it.
    pub(super) left: &'a FrameKeys,
    pub(super) end: End,
}

/// The ends of one claim, document by document and as a whole.
#[derive(Debug)]
pub(super) struct Ends<D>(Mutex<State<D>>);

#[derive(Debug)]
struct State<D> {
    /// The end that was written, or may have been: a failed write may be on disk all the same.
    whole: Option<End>,
    released: Ended<D>,
    completed: Ended<D>,
    /// The durable end of the whole claim.
    is_durable: Option<End>,
}

/// Documents that ended one way. They are put into a set only when somebody asks for one of them.
#[derive(Debug)]
struct Ended<D> {
    set: HashSet<D>,
    noted: Vec<D>,
}

impl<D: Hash + Eq> Ended<D> {
    fn set(&mut self) -> &HashSet<D> {
        self.set.extend(self.noted.drain(..));
        &self.set
    }
}

impl<D> Default for Ended<D> {
    fn default() -> Self {
        Self { set: HashSet::new(), noted: Vec::new() }
    }
}

impl<D> Default for Ends<D> {
    fn default() -> Self {
        let (released, completed) = (Ended::default(), Ended::default());
        Self(Mutex::new(State { whole: None, released, completed, is_durable: None }))
    }
}

impl<D: Hash + Eq + Clone + Send + Sync> Ends<D> {
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is left to do: the whole claim ended this way before, durably.
    pub(super) fn is_over(&self, end: End) -> bool {
        self.lock().is_durable == Some(end)
    }

    /// Whether the whole claim ended, or may have.
    pub(super) fn is_whole(&self) -> bool {
        self.lock().whole.is_some()
    }

    /// Write how some documents ended, or the claim as a whole; durable on return. `write` writes
    /// the end of some, `among` finds fewer of them for it, `name` says one of them in an error,
    /// and `kept` gives the keys that were not released by themselves. Of two ends at the same time
    /// one is refused.
    pub(super) fn write<P: Sync>(
        &self,
        claim: Ending<'_>,
        some: Option<(&[D], &P)>,
        among: impl Fn(&[D]) -> Result<P> + Sync,
        write: impl Fn(&mut Writer<'_>, &P) -> Result<()> + Sync,
        name: impl Fn(&D) -> String + Sync,
        kept: impl Fn(&Writer<'_>) -> Result<FrameKeys> + Sync,
    ) -> Result<()> {
        let documents = some.map(|(documents, _)| documents);
        let end = claim.end;
        claim.space.write_together(SpaceSettings::STORED, |writer| {
            self.check(end, documents, &name)?;
            match some {
                // A purge may have taken what was completed before: that is not recorded again.
                Some((documents, _)) if end == End::Completed && writer.is_purged(claim.started_at) => {
                    let rest = self.not_completed(documents);
                    if !rest.is_empty() {
                        write(writer, &among(&rest)?)?;
                    }
                }
                Some((_, some)) => write(writer, some)?,
                None => self.write_whole(claim, writer, &kept)?,
            }
            self.note(end, documents);
            Ok(())
        })?;
        if documents.is_none() {
            self.lock().is_durable = Some(end);
        }
        Ok(())
    }

    /// Write how the claim as a whole ended.
    fn write_whole(
        &self,
        claim: Ending<'_>,
        writer: &mut Writer<'_>,
        kept: impl Fn(&Writer<'_>) -> Result<FrameKeys>,
    ) -> Result<()> {
        let Ending { number, started_at, application, is_part, left, end, .. } = claim;
        let completes_batch = end == End::Completed && application.is_some();
        // Of a batch that has ended as a whole nothing runs when it comes again.
        if completes_batch && (is_part || self.has_released()) {
            let kept = kept(writer)?;
            return writer.finish_rows(number, started_at, end, kept);
        }
        // Where no entry may be left that the claim's outcome could apply to, the keys are named.
        let keys = if writer.may_lack((number, started_at), application) {
            kept(writer)?
        } else if end == End::Completed && writer.may_lack_keys(number) {
            writer.lacking(number, kept(writer)?)?
        } else {
            FrameKeys::default()
        };
        if completes_batch {
            // Before the batch has ended: what it left out is not a duplicate by that.
            writer.finish_rows(number, started_at, End::Released, left.clone())?;
        }
        writer.finish_claim(number, started_at, end, keys)
    }

    /// Those of these documents that were not completed by themselves before.
    fn not_completed(&self, documents: &[D]) -> Vec<D> {
        let mut state = self.lock();
        let completed = state.completed.set();
        documents.iter().filter(|document| !completed.contains(document)).cloned().collect()
    }

    /// Whether some documents were released by themselves.
    fn has_released(&self) -> bool {
        !self.lock().released.set().is_empty()
    }

    /// An error if these documents, or all, ended the other way before.
    fn check(&self, end: End, documents: Option<&[D]>, name: impl Fn(&D) -> String) -> Result<()> {
        let mut state = self.lock();
        if state.whole.is_some_and(|before| before != end) {
            return Err(refused("this claim", end));
        }
        let others = if end == End::Completed { &mut state.released } else { &mut state.completed };
        let others = others.set();
        match documents.unwrap_or_default().iter().find(|document| others.contains(document)) {
            Some(document) => Err(refused(format!("{} of this claim", name(document)), end)),
            None => Ok(()),
        }
    }

    /// Records that this end was written.
    fn note(&self, end: End, documents: Option<&[D]>) {
        let mut state = self.lock();
        match documents {
            None => state.whole = Some(end),
            Some(documents) if end == End::Completed => state.completed.noted.extend_from_slice(documents),
            Some(documents) => state.released.noted.extend_from_slice(documents),
        }
    }

    /// Run `work` with a function that tells whether a document was released by itself.
    pub(super) fn kept<T>(&self, work: impl FnOnce(&dyn Fn(&D) -> bool) -> T) -> T {
        let mut state = self.lock();
        let released = state.released.set();
        work(&|document| !released.contains(document))
    }

    /// The documents that were released by themselves.
    pub(super) fn released(&self) -> Vec<D> {
        self.lock().released.set().iter().cloned().collect()
    }
}

fn refused(what: impl Display, end: End) -> Error {
    Error::State(match end {
        End::Completed => format!(
            "{what} was released, so it cannot be completed: another claim may have begun the documents since; begin them again"
        ),
        End::Released => format!("{what} was completed, so it cannot be released: a completion is final"),
    })
}
