//! Beginning: look-up and `processing` in one atomic step.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;
use std::time::Instant;

use super::classify::{Looked, Verdicts, available, checked_reply, expired, judge, questions};
use super::ends::Ends;
use super::identities::Identities;
use super::look::Look;
use super::resolver::{Ask, Asked};
use super::rules::{Answer, Decided, InBatch, Outcome, Reason, Settings, Step, Trigger};
use super::{Call, Claim};
use crate::columns::Documents;
use crate::history::History;
use crate::key::{Codec, Copy, Form, Key};
use crate::store::staged::Resolved;
use crate::store::view::View;
use crate::store::{Beginning, ClaimedKeys, InProgress, KeySpace, LookedUp, SpaceSettings, Writer};
use crate::types::FrameKeys;
use crate::types::HistoryState;
use crate::types::TransactionEntry;
use crate::types::transaction::{BatchRows, Meaning, NumberedBatch, Replay, Replays, Transaction};
use crate::{Error, Result};

/// Maximum number of resolver calls for rows that other writers change meanwhile; after that they
/// stay in doubt.
pub(super) const ROUNDS: usize = 4;

/// A batch that was begun.
#[derive(Debug)]
pub struct Begun {
    /// The verdicts of all rows.
    pub verdicts: Verdicts,
    /// The documents to process, where the history keeps track of them.
    pub claim: Option<Claim>,
    /// Whether the batch is a replay, where it is a transaction.
    pub replay: Option<Replay>,
}

/// One attempt to begin: done, or rows that need the resolver first.
enum Attempt {
    Done(Box<Begun>),
    Ask(Vec<Asked>),
}

/// All rows decided, with the rows that the resolver was asked about; or rows to ask it about
/// first.
pub(super) type Judged = std::result::Result<(Decided, Vec<Asked>), Vec<Asked>>;

/// The resolver's answer for a row, and the facts that it was asked with.
pub(super) type Answers = HashMap<u32, (Asked, Answer, Option<String>)>;

impl History {
    /// Classify a batch and write `processing` for what is to be processed, as one atomic step: of
    /// two concurrent arrivals of an id exactly one is NEW. Durable on return.
    ///
    /// # Errors
    /// As [`History::classify`], and `Locked` when another writer takes too long, `Transaction`
    /// when batch numbers go backwards or a known number comes with other rows, `Failed` after a
    /// failed write.
    pub fn begin(
        &self,
        trigger: &Trigger,
        documents: &Documents,
        call: &mut Call,
        transaction: Option<&Transaction>,
        replays: impl Into<Replays>,
    ) -> Result<Begun> {
        trigger.validate()?;
        let settings = trigger.settings(call.resolver.is_some());
        if !settings.needs_history() {
            let verdicts = self.classify(trigger, documents, call)?;
            return Ok(Begun { verdicts, claim: None, replay: None });
        }
        let space = self.space(&trigger.name)?;
        let mut work = BeginWork {
            codec: self.codec(),
            trigger,
            settings,
            identities: Identities::with_keys(documents)?,
            documents,
            threads: call.threads,
            transaction,
            replays: replays.into(),
            rows: None,
            answers: HashMap::new(),
        };
        let mut round = 0;
        loop {
            match work.attempt(&space, call.now_us, round >= ROUNDS)? {
                Attempt::Done(begun) => return Ok(*begun),
                Attempt::Ask(asked) => work.ask(&asked, call)?,
            }
            round += 1;
        }
    }
}

/// The store's knowledge of a batch's number.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) meaning: Meaning,
    /// The application's last transaction, which may be another one.
    pub(super) last: Option<TransactionEntry>,
}

impl Known {
    pub(super) fn of(
        space: &KeySpace,
        transaction: &Transaction,
        rows: Option<BatchRows>,
        how: Replays,
    ) -> Result<Self> {
        let last = space.last_transaction(&transaction.application);
        let meaning = transaction.after(last.as_ref().map(TransactionEntry::last), rows, how)?;
        Ok(Self { meaning, last })
    }

    /// The earlier run of this batch whose open documents run again.
    fn rerun(&self, how: Replays) -> Option<&TransactionEntry> {
        self.last.as_ref().filter(|_| self.meaning.reruns(how))
    }

    /// The claim that this run replaces, and its start.
    pub(super) fn replaced(&self, how: Replays) -> Option<(u64, i64)> {
        self.rerun(how).filter(|_| self.meaning.replaces(how)).map(|last| (last.claim, last.started_at))
    }

    /// The rows that this batch left out when it ended, as they were not done.
    fn left_out(&self, released: &[(u32, u64)]) -> HashSet<u32> {
        let claim = self.last.as_ref().map(|last| last.claim);
        released.iter().filter(|(_, of)| Some(*of) == claim).map(|(row, _)| *row).collect()
    }

    /// Whether what begins now is recorded under the number. A batch that has ended stays ended,
    /// whatever it left out and begins later.
    pub(super) fn is_numbered(&self) -> bool {
        !self.meaning.is_done()
    }

    /// Whether this run is recorded even if it has nothing to process.
    pub(super) fn is_written(&self, how: Replays) -> bool {
        self.meaning.begins() || self.meaning.reruns(how)
    }
}

/// A batch in the course of being begun.
pub(super) struct BeginWork<'a, 'd> {
    pub(super) codec: &'a Codec,
    pub(super) trigger: &'a Trigger,
    pub(super) settings: Settings,
    pub(super) identities: Identities,
    pub(super) documents: &'a Documents<'d>,
    pub(super) threads: usize,
    pub(super) transaction: Option<&'a Transaction>,
    pub(super) replays: Replays,
    /// The rows of the batch, once they are known; only for a transaction.
    pub(super) rows: Option<BatchRows>,
    pub(super) answers: Answers,
}

impl<'a, 'd> BeginWork<'a, 'd> {
    /// Under one lock: look up, decide, and write if all is decided.
    fn attempt(&mut self, space: &std::sync::Arc<KeySpace>, now_us: i64, is_last: bool) -> Result<Attempt> {
        let settings = SpaceSettings::of(self.trigger);
        let mut has_written = false;
        let attempt = space.write_together(settings, |writer| {
            has_written = false;
            let found = writer.look(|view| self.look(now_us, view))?;
            let mut looked = Looked { found, unavailable: None };
            if self.rows.is_none() {
                self.rows = self.transaction.map(|_| self.identities.batch_rows(self.codec, self.documents));
            }
            let known = self.known_of(writer.space())?;
            let replay = known.as_ref().map(|known| known.meaning.replay());
            let own = self.see_replay(&mut looked, known.as_ref());
            let (decided, asked) = match self.decide(&looked, is_last)? {
                Ok(decided) => decided,
                Err(asked) => return Ok(Attempt::Ask(asked)),
            };
            has_written = true;
            self.complete_resolved(writer, &decided, &looked.found, now_us)?;
            let claim = self.write(writer, space, (&decided, &looked.found, &own), now_us, known.as_ref())?;
            Ok(self.done(decided, &asked, claim, replay, None))
        });
        match attempt {
            // Before the first write, storage that does not answer is a fact for the rules.
            Err(error @ Error::Io { .. }) if !has_written => {
                self.look(now_us, None)?;
                let looked = available(Err(error), self.documents.rows)?;
                match self.decide(&looked, is_last)? {
                    Ok((decided, asked)) => Ok(self.done(decided, &asked, None, None, looked.unavailable)),
                    Err(asked) => Ok(Attempt::Ask(asked)),
                }
            }
            other => other,
        }
    }

    /// Look the batch up.
    pub(super) fn look(&mut self, now_us: i64, view: Option<&View>) -> Result<LookedUp> {
        let (look, identities) = (self.how(now_us), &mut self.identities);
        look.run(identities, view)
    }

    fn how(&self, now_us: i64) -> Look<'a, 'd> {
        let expired = expired(self.trigger, now_us);
        Look { codec: self.codec, documents: self.documents, expired, threads: self.threads }
    }

    /// Decide all rows with the present answers; or return the rows to ask about.
    pub(super) fn decide(&self, looked: &Looked, is_last: bool) -> Result<Judged> {
        let (mut decided, copies): (Decided, Vec<Copy>) =
            judge(&self.settings, &self.identities, &self.how(0), &looked.found)?;
        let asked = questions(&decided, &looked.found.processing);
        let known = |asked: &Asked| self.answers.get(&asked.row).filter(|(before, ..)| before == asked);
        let open: Vec<Asked> = asked.iter().filter(|asked| known(asked).is_none()).copied().collect();
        if !open.is_empty() && !is_last {
            return Ok(Err(open));
        }
        let answers: Vec<Answer> =
            asked.iter().map(|asked| known(asked).map_or(Answer::Other, |(_, answer, _)| *answer)).collect();
        decided.resolve(&self.settings, &copies, &answers)?;
        Ok(Ok((decided, asked)))
    }

    /// Ask the resolver about rows, and keep its answers.
    pub(super) fn ask(&mut self, asked: &[Asked], call: &mut Call) -> Result<()> {
        let Some(resolver) = call.resolver.as_mut() else {
            return Err(Error::State("undecided documents without a resolver".into()));
        };
        let reply = checked_reply(resolver.resolve(Ask { rows: asked })?, asked.len());
        let mut messages: HashMap<usize, String> = reply.messages.into_iter().collect();
        for (place, (asked, answer)) in asked.iter().zip(reply.answers).enumerate() {
            self.answers.insert(asked.row, (*asked, answer, messages.remove(&place)));
        }
        Ok(())
    }

    /// The store's knowledge of this batch's number; none without a transaction.
    pub(super) fn known_of(&self, space: &KeySpace) -> Result<Option<Known>> {
        self.transaction.map(|transaction| Known::of(space, transaction, self.rows, self.replays)).transpose()
    }

    /// A replayed batch sees its own entries. If it ended, it must not run again; if it was only
    /// begun, the policy decides. Answers its open entries, where its documents run again.
    pub(super) fn see_replay(&self, looked: &mut Looked, known: Option<&Known>) -> Vec<InProgress> {
        let Some(known) = known else { return Vec::new() };
        let found = &mut looked.found;
        let states = &mut found.states;
        if known.meaning.is_done() {
            // Also the keys that a purge removed since: the batch is the same. What it left out was
            // not done, so the history's entry decides.
            let left_out = known.left_out(&found.released);
            let absent = (0..).zip(states.iter_mut()).filter(|(_, state)| **state == HistoryState::Absent);
            absent.filter(|(row, _)| !left_out.contains(row)).for_each(|(_, state)| *state = HistoryState::Completed);
        }
        let Some(claim) = known.rerun(self.replays).map(|last| last.claim) else { return Vec::new() };
        let processing = &mut found.processing;
        let (own, others) = std::mem::take(processing).into_iter().partition(|entry| entry.claim == claim);
        *processing = others;
        let others: Vec<u32> = processing.iter().map(|entry| entry.row).collect();
        for (row, state) in states.iter_mut().enumerate() {
            if *state == HistoryState::Processing && others.binary_search(&(row as u32)).is_err() {
                *state = HistoryState::Absent;
            }
        }
        own
    }

    /// Record as completed what is in progress and what the resolver calls a duplicate: the next
    /// copy is then a duplicate without asking, and no entry stays in progress forever. A frame
    /// of its own, before that of the claim: after a crash between both the claim is missing, and
    /// what the resolver said holds all the same.
    pub(super) fn complete_resolved(
        &self,
        writer: &mut Writer<'_>,
        decided: &Decided,
        found: &LookedUp,
        now_us: i64,
    ) -> Result<()> {
        let mut keys = ClaimedKeys::default();
        for one in self.resolved(decided, found) {
            keys.push(one.key, one.text.as_deref(), (one.claim, one.started_at));
        }
        writer.complete_keys(keys, now_us)
    }

    /// The open claims of what the resolver calls a duplicate. Of a key that also came with another
    /// answer there are none.
    pub(super) fn resolved(&self, decided: &Decided, found: &LookedUp) -> Vec<Resolved> {
        const RESOLVED: Outcome = Outcome::resolved(Reason::R10, Step::S2);
        if !self.trigger.complete_resolved || !decided.outcomes.contains(&RESOLVED) {
            return Vec::new();
        }
        let Identities { keys: all, forms, .. } = &self.identities;
        let (resolved, others): (Vec<&InProgress>, Vec<&InProgress>) =
            found.processing.iter().partition(|entry| decided.outcomes[entry.row as usize] == RESOLVED);
        // Redelivery counts and documents that need no check decide a row without the resolver.
        let is_answer =
            |entry: &&InProgress| !matches!(decided.outcomes[entry.row as usize], Outcome::R1 | Outcome::R2);
        let answered = others.into_iter().filter(is_answer);
        let disputed: HashSet<Key> = answered.map(|entry| all[entry.row as usize]).collect();
        let undisputed = resolved.into_iter().filter(|entry| !disputed.contains(&all[entry.row as usize]));
        let of = |entry: &InProgress| {
            let row = entry.row as usize;
            let text = (forms[row] != Form::Uuid).then(|| self.identities.text(self.documents, entry.row).to_vec());
            Resolved { key: all[row], text, claim: entry.claim, started_at: entry.started_at }
        };
        undisputed.map(of).collect()
    }

    /// Append the frames that record the beginning.
    fn write(
        &self,
        writer: &mut Writer<'_>,
        space: &std::sync::Arc<KeySpace>,
        (decided, found, own): (&Decided, &LookedUp, &[InProgress]),
        now_us: i64,
        known: Option<&Known>,
    ) -> Result<Option<Claim>> {
        let (keys, uuid_rows, text_rows) = self.claimed(decided);
        if keys.len() == 0 && !known.is_some_and(|known| known.is_written(self.replays)) {
            return Ok(None);
        }
        // The new claim replaces the old one, in one frame: a crash leaves either the one or the
        // other. Where documents do not run again, it takes over the others by name.
        let replaces = known.and_then(|known| known.replaced(self.replays));
        let taken = replaces.and_then(|replaced| self.taken_over((decided, found), own, replaced));
        let replaces = replaces.filter(|_| taken.is_none());
        let numbered = |transaction: &Transaction| NumberedBatch { transaction: transaction.clone(), rows: self.rows };
        let transaction = self.transaction.filter(|_| known.is_some_and(Known::is_numbered));
        let application = transaction.map(|transaction| transaction.application.clone());
        let left = transaction.map_or_else(FrameKeys::default, |_| self.left_out(decided, found));
        let transaction = transaction.map(numbered);
        let beginning = Beginning { keys, transaction, replaces, started_at: now_us, threads: self.threads };
        let (number, keys) = writer.begin(beginning)?;
        if let Some(taken) = taken {
            writer.release_keys(taken, now_us)?;
        }
        let may_have_copies = self.settings.in_batch == Some(InBatch::New) || !self.answers.is_empty();
        if known.is_none() && found.processing.is_empty() && !found.has_expired && !may_have_copies {
            writer.note_fresh(number);
        }
        let (space, copies, ends) = (space.clone(), OnceLock::new(), Ends::default());
        let (started_at, begun) = (now_us, Instant::now());
        let is_part = decided.is_suspended();
        Ok(Some(Claim {
            space,
            number,
            started_at,
            application,
            is_part,
            begun,
            uuid_rows,
            text_rows,
            keys,
            left,
            copies,
            ends,
        }))
    }

    /// The key of a row, and its text if it is no UUID.
    pub(super) fn document(&self, row: u32) -> (Key, Option<&[u8]>) {
        let Identities { keys: all, forms, .. } = &self.identities;
        let text = (forms[row as usize] != Form::Uuid).then(|| self.identities.text(self.documents, row));
        (all[row as usize], text)
    }

    /// The keys of a numbered batch that are not done, and that nobody gets now: in doubt, or
    /// rejected.
    pub(super) fn left_out(&self, decided: &Decided, found: &LookedUp) -> FrameKeys {
        let forms = &self.identities.forms;
        let is_left = |(row, outcome): &(u32, &Outcome)| {
            let is_done = found.states[*row as usize] == HistoryState::Completed || outcome.is_process();
            !is_done && forms[*row as usize].is_usable()
        };
        let mut left = FrameKeys::default();
        let rows: Vec<u32> = (0..).zip(&decided.outcomes).filter(is_left).map(|(row, _)| row).collect();
        if rows.is_empty() {
            return left;
        }
        let runs = (0..).zip(&decided.outcomes).filter(|(_, outcome)| outcome.writes_processing());
        let mut seen: HashSet<_> = runs.map(|(row, _)| self.document(row)).collect();
        for (key, text) in rows.into_iter().map(|row| self.document(row)) {
            if seen.insert((key, text)) {
                left.push(key, text);
            }
        }
        left
    }

    /// The documents of a replaced claim that are released by name, as others of it stay open:
    /// those do not run again, and nobody knows yet how they ended. None if there are no such.
    fn taken_over(
        &self,
        (decided, found): (&Decided, &LookedUp),
        own: &[InProgress],
        replaced: (u64, i64),
    ) -> Option<ClaimedKeys> {
        let runs = |row: u32| decided.outcomes[row as usize].writes_processing();
        let is_over = |row: u32| found.states[row as usize] == HistoryState::Completed;
        if own.iter().all(|entry| runs(entry.row) || is_over(entry.row)) {
            return None;
        }
        let Identities { keys: all, forms, .. } = &self.identities;
        let running: HashSet<Key> = (0..).zip(all).filter(|(row, _)| runs(*row)).map(|(_, key)| *key).collect();
        let ends = |entry: &&InProgress| running.contains(&all[entry.row as usize]) || is_over(entry.row);
        let (ended, left): (Vec<&InProgress>, Vec<&InProgress>) = own.iter().partition(ends);
        if left.is_empty() {
            return None;
        }
        let mut keys = ClaimedKeys::default();
        for entry in ended {
            let row = entry.row as usize;
            let text = (forms[row] != Form::Uuid).then(|| self.identities.text(self.documents, entry.row));
            keys.push(all[row], text, replaced);
        }
        Some(keys)
    }

    /// The keys to write `processing` for, and their rows.
    pub(super) fn claimed(&self, decided: &Decided) -> (FrameKeys, Vec<u32>, Vec<u32>) {
        let mut keys = FrameKeys::default();
        let (mut uuid_rows, mut text_rows) = (Vec::new(), Vec::new());
        let Identities { keys: all, forms, .. } = &self.identities;
        let count = decided.outcomes.iter().filter(|outcome| outcome.writes_processing()).count();
        keys.uuids.reserve(count);
        uuid_rows.reserve(count);
        let rows = (0..).zip(&decided.outcomes).zip(all.iter().zip(forms));
        for ((row, _), (key, form)) in rows.filter(|((_, outcome), _)| outcome.writes_processing()) {
            if *form == Form::Uuid {
                keys.uuids.push(*key);
                uuid_rows.push(row);
            } else {
                text_rows.push(row);
            }
        }
        let text = |row: u32| self.identities.text(self.documents, row);
        keys.reserve_texts(text_rows.len(), text_rows.iter().map(|row| text(*row).len()).sum());
        for row in &text_rows {
            keys.push_text(all[*row as usize], text(*row));
        }
        debug_assert_eq!(keys.len(), count);
        (keys, uuid_rows, text_rows)
    }

    fn done(
        &self,
        decided: Decided,
        asked: &[Asked],
        claim: Option<Claim>,
        replay: Option<Replay>,
        unavailable: Option<String>,
    ) -> Attempt {
        let verdicts = self.verdicts(decided, asked, unavailable);
        Attempt::Done(Box::new(Begun { verdicts, claim, replay }))
    }

    pub(super) fn verdicts(&self, decided: Decided, asked: &[Asked], unavailable: Option<String>) -> Verdicts {
        let message = |asked: &Asked| {
            let (_, _, message) = self.answers.get(&asked.row)?;
            Some((asked.row, message.clone()?))
        };
        let messages = asked.iter().filter_map(message).collect();
        let sources = self.identities.sources.clone();
        let outcomes: Vec<Outcome> = decided.outcomes;
        Verdicts { outcomes, sources, messages, unavailable }
    }
}
