//! Classifying: a pure read.

use super::identities::Identities;
use super::look::Look;
use super::resolver::{Ask, Asked};
use super::rules::{Answer, Decided, DecisionTable, Facts, Outcome, Settings, Trigger, settle};
use super::{Call, Reply};
use crate::columns::Documents;
use crate::history::History;
use crate::key::Copy;
use crate::store::{Ahead, InProgress, KeySpace, LookedUp, Seen, SpaceSettings, View};
use crate::sys::threads::{parts_of, together};
use crate::types::HistoryState;
use crate::{Error, Result};
use std::sync::Arc;

/// The verdicts of a batch, one a row.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Rule, status, action and acknowledgement of each row.
    pub outcomes: Vec<Outcome>,
    /// Which id column each row's key comes from; 255 where it has none.
    pub sources: Vec<u8>,
    /// Messages of the resolver, sorted by row.
    pub messages: Vec<(u32, String)>,
    /// Why the history could not be read, if so.
    pub unavailable: Option<String>,
}

/// The history's states for a batch, or why they are unavailable.
pub(super) struct Looked {
    pub(super) found: LookedUp,
    pub(super) unavailable: Option<String>,
}

/// How a call makes sure that what it reads is the newest state.
enum Reading {
    /// By what is known of it.
    By(Seen),
    /// The store is asked, and the call goes on meanwhile.
    Meanwhile(Option<Ahead>),
}

impl Reading {
    fn look(
        &mut self,
        space: &Arc<KeySpace>,
        trigger: &Trigger,
        rows: usize,
        look: impl FnMut(Option<&View>) -> Result<LookedUp>,
    ) -> Result<LookedUp> {
        let settings = SpaceSettings::to_read(trigger);
        match self {
            Self::By(seen) => space.look_in(*seen, settings, rows, look),
            Self::Meanwhile(asked) => {
                let (found, ahead) = space.look_ahead(settings, rows, look)?;
                *asked = ahead;
                Ok(found)
            }
        }
    }
}

impl History {
    /// Classify a batch by the present history. Writes nothing.
    ///
    /// Source of the rules: exactly-once processing of publish-subscribe and JMS triggers.
    ///
    /// # Errors
    /// `Config` for bad settings, `Schema` for columns of unequal length, `Corrupt` for damaged
    /// files. A history that cannot be read is no error but a verdict (R5, R6, R7).
    pub fn classify(&self, trigger: &Trigger, documents: &Documents, call: &mut Call) -> Result<Verdicts> {
        self.judged(trigger, documents, call, &mut Reading::By(Seen::Unknown))
    }

    /// [`History::classify`] with something made of the verdicts, while a bucket is asked whether
    /// they rest on the newest state; where they did not, both are done again. A resolver is asked
    /// once, so a call with one first waits.
    ///
    /// # Errors
    /// As [`History::classify`].
    pub fn classify_into<T>(
        &self,
        trigger: &Trigger,
        documents: &Documents,
        call: &mut Call,
        mut make: impl FnMut(&Verdicts) -> T,
    ) -> Result<T> {
        let asks = call.resolver.is_some();
        let mut reading = if asks { Reading::By(Seen::Unknown) } else { Reading::Meanwhile(None) };
        let made = make(&self.judged(trigger, documents, call, &mut reading)?);
        if let Reading::Meanwhile(Some(ahead)) = reading
            && !ahead.counts()?
        {
            return Ok(make(&self.judged(trigger, documents, call, &mut Reading::By(Seen::Newest))?));
        }
        Ok(made)
    }

    /// The verdicts of [`History::begin`], if all documents are completed: there is nothing to
    /// write then, and so no writer to wait for. What this rests on is durable. The resolver is not
    /// asked, and all settings are checked that `begin` checks.
    ///
    /// # Errors
    /// As [`History::classify`], and `Config` where a setting is not the one that is stored.
    pub fn completed(&self, trigger: &Trigger, documents: &Documents, now_us: i64) -> Result<Option<Verdicts>> {
        let settings = trigger.settings(false);
        if self.is_read_only() || !settings.needs_history() {
            return Ok(None);
        }
        let mut identities = Identities::new(documents)?;
        let look = Look { codec: self.codec(), documents, expired: expired(trigger, now_us), threads: 1 };
        let space = self.space(&trigger.name)?;
        // Documents are mostly new. So what this handle knows comes first, without asking the file
        // system or the bucket for more. A handle that has read nothing yet has to ask.
        let glanced = space.glance(|view| Ok((view.mark(), look.run(&mut identities, Some(view))?)))?;
        let are_completed = |found: &LookedUp| found.states.iter().all(|state| *state == HistoryState::Completed);
        if glanced.as_ref().is_some_and(|(_, found)| !are_completed(found)) {
            return Ok(None);
        }
        trigger.validate()?;
        let mut glanced = glanced.filter(|_| !space.is_in_bucket());
        let found = space.look(SpaceSettings::of(trigger), documents.rows, |view| match glanced.take() {
            // What was seen then is what is there now.
            Some((mark, found)) if view.is_some_and(|view| view.mark() == mark) => Ok(found),
            _ => look.run(&mut identities, view),
        });
        let Looked { found, unavailable: None } = available(found, documents.rows)? else { return Ok(None) };
        let outcomes = judge(&settings, &identities, &look, &found)?.0.outcomes;
        let are_duplicates = outcomes.iter().all(|outcome| *outcome == Outcome::R9);
        let sources = std::mem::take(&mut identities.sources);
        Ok(are_duplicates.then(|| Verdicts { outcomes, sources, ..Verdicts::default() }))
    }

    fn judged(
        &self,
        trigger: &Trigger,
        documents: &Documents,
        call: &mut Call,
        reading: &mut Reading,
    ) -> Result<Verdicts> {
        trigger.validate()?;
        let settings = trigger.settings(call.resolver.is_some());
        let mut identities = Identities::new(documents)?;
        let expired = expired(trigger, call.now_us);
        let look = Look { codec: self.codec(), documents, expired, threads: call.threads };
        let mut is_identified = false;
        let looked = if settings.needs_history() {
            let space = self.space(&trigger.name)?;
            let found = reading.look(&space, trigger, documents.rows, |view| look.run(&mut identities, view));
            is_identified = found.is_ok();
            available(found, documents.rows)?
        } else {
            Looked::nothing()
        };
        if !is_identified {
            look.run(&mut identities, None)?;
        }
        let (mut decided, copies) = judge(&settings, &identities, &look, &looked.found)?;
        let mut messages = Vec::new();
        if let Some(resolver) = call.resolver.as_mut().filter(|_| !decided.undecided.is_empty()) {
            let asked = questions(&decided, &looked.found.processing);
            let reply = checked_reply(resolver.resolve(Ask { rows: &asked })?, asked.len());
            decided.resolve(&settings, &copies, &reply.answers)?;
            messages = reply.messages.into_iter().map(|(place, text)| (asked[place].row, text)).collect();
        }
        Ok(Verdicts {
            outcomes: decided.outcomes,
            sources: std::mem::take(&mut identities.sources),
            messages,
            unavailable: looked.unavailable,
        })
    }
}

impl Looked {
    pub(super) fn nothing() -> Self {
        Self { found: LookedUp::default(), unavailable: None }
    }

    /// The states of a batch whose history is unavailable.
    pub(super) fn unavailable(rows: usize, reason: String) -> Self {
        let found = LookedUp { states: vec![HistoryState::Unavailable; rows], ..LookedUp::default() };
        Self { found, unavailable: Some(reason) }
    }
}

/// Entries whose start is at or before this time no longer count.
pub(super) fn expired(trigger: &Trigger, now_us: i64) -> i64 {
    match trigger.expiry {
        super::rules::Expiry::UntilPurged => i64::MIN,
        super::rules::Expiry::Exact => now_us.saturating_sub(trigger.history_time_to_live_us),
    }
}

/// Storage that does not answer is a fact for the rules; anything else is an error.
pub(super) fn available(result: Result<LookedUp>, rows: usize) -> Result<Looked> {
    match result {
        Ok(found) => Ok(Looked { found, unavailable: None }),
        Err(error @ Error::Io { .. }) => Ok(Looked::unavailable(rows, error.to_string())),
        Err(error) => Err(error),
    }
}

/// Decide all rows; later copies of a key are searched only where they matter.
pub(super) fn judge(
    settings: &Settings,
    identities: &Identities,
    look: &Look,
    found: &LookedUp,
) -> Result<(Decided, Vec<Copy>)> {
    let mut copies = Vec::new();
    if settings.needs_history() {
        copies = identities.copies(look.codec, look.documents, look.threads)?;
    }
    let facts = Facts {
        rows: look.documents.rows,
        eligible: look.documents.eligible,
        count: look.documents.count,
        key_classes: &identities.classes,
        history: &found.states,
        copies: &copies,
    };
    let mut outcomes = vec![Outcome::R0; facts.rows];
    let (table, mut rest) = (DecisionTable::new(settings), &mut outcomes[..]);
    let jobs = parts_of(facts.rows, look.threads).into_iter().map(|rows| {
        let own;
        (own, rest) = std::mem::take(&mut rest).split_at_mut(rows.len());
        let (table, facts) = (&table, &facts);
        move || {
            table.write(facts, rows.start, own);
            Ok(())
        }
    });
    together(jobs)?;
    Ok((settle(settings, outcomes, &copies), copies))
}

/// The questions about the undecided rows; of several open claims the newest is told.
pub(super) fn questions(decided: &Decided, processing: &[InProgress]) -> Vec<Asked> {
    let ask = |undecided: &super::rules::Undecided| {
        let end = processing.partition_point(|entry| entry.row <= undecided.row);
        let newest = processing[..end].last().filter(|entry| entry.row == undecided.row);
        Asked { row: undecided.row, reason: undecided.reason, started_at: newest.map(|entry| entry.started_at) }
    };
    decided.undecided.iter().map(ask).collect()
}

/// A resolver that answers for another number of rows has failed for all rows.
pub(super) fn checked_reply(mut reply: Reply, asked: usize) -> Reply {
    if reply.answers.len() != asked {
        let text = format!("the resolver gave {} answers for {asked} rows", reply.answers.len());
        reply = Reply {
            answers: vec![Answer::Failed; asked],
            messages: (0..asked).map(|place| (place, text.clone())).collect(),
        };
    }
    reply.messages.retain(|(place, _)| *place < asked);
    reply.messages.sort_by_key(|(place, _)| *place);
    reply
}
