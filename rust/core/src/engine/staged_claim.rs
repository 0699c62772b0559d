//! The claim that a committed job began, and how its documents end.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Call;
use super::batch::Batch;
use super::begin::{Answers, OnReplay, ROUNDS, Work};
use super::classify::{Looked, Verdicts, checked_reply};
use super::identities::Identities;
use super::resolver::{Ask, Asked};
use crate::columns::Documents;
use crate::key::{Codec, Form, Key};
use crate::keyspace::staged::{Job, Keys, each_chunk};
use crate::keyspace::{KeySpace, SpaceSettings};
use crate::log::frame::FrameKeys;
use crate::manifest::Outcome as End;
use crate::rules::Trigger;
use crate::segment::format::{Mark, Stamp};
use crate::segment::{Segment, Wanted};
use crate::{Error, Result};

/// Documents that the tasks of a job began together.
#[derive(Debug)]
pub struct StagedClaim {
    codec: Codec,
    space: Arc<KeySpace>,
    settings: SpaceSettings,
    number: u64,
    started_at: i64,
    /// What others were first with, by their keys as they came.
    lost: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether there is anything to end.
    is_begun: bool,
    /// The documents. Their files stay readable here, whatever becomes of their names.
    segments: Vec<Arc<Segment>>,
    /// How the whole of it ended.
    ended: Option<End>,
    /// Keys that were released one by one: they stay so when the rest ends.
    released: HashSet<(Key, Option<Vec<u8>>)>,
}

impl State {
    /// The keys that were not released one by one.
    fn kept_keys(&self) -> Result<FrameKeys> {
        let mut kept = FrameKeys::default();
        for segment in &self.segments {
            each_chunk(segment, |keys| {
                let is_kept = |key: Key, text: Option<&[u8]>| !self.released.contains(&(key, text.map(<[u8]>::to_vec)));
                for (key, text) in keys.each().filter(|(key, text)| self.released.is_empty() || is_kept(*key, *text)) {
                    push(&mut kept, key, text);
                }
                Ok(())
            })?;
        }
        Ok(kept)
    }
}

impl StagedClaim {
    pub(super) fn new(
        codec: Codec,
        space: Arc<KeySpace>,
        settings: SpaceSettings,
        job: &Job,
        is_begun: bool,
        segments: Vec<Arc<Segment>>,
        lost: &Keys,
    ) -> Self {
        let lost = lost.each().map(|(key, text)| codec.text_of(key, text)).collect();
        let state = Mutex::new(State { is_begun, segments, ..State::default() });
        Self { codec, space, settings, number: job.claim(), started_at: job.plan().started_at, lost, state }
    }

    /// Number of the claim, unique within its trigger; none if there was nothing to begin.
    pub fn number(&self) -> Option<u64> {
        self.state().is_begun.then_some(self.number)
    }

    /// The documents that others were first with, by their ids: the claim leaves them out.
    pub fn lost(&self) -> &[String] {
        &self.lost
    }

    /// When the services began, in microseconds since 1970.
    pub fn started_at(&self) -> i64 {
        self.started_at
    }

    /// Number of documents claimed.
    pub fn len(&self) -> u64 {
        self.state().segments.iter().map(|segment| segment.header().entries()).sum()
    }

    /// Whether nothing was claimed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The services ended, in success or failure: of all documents, or of these. Durable on return; doing it again changes
    /// nothing.
    ///
    /// # Errors
    /// `State` when some of these are not documents of the claim.
    pub fn complete(&self, documents: Option<&Documents>) -> Result<()> {
        self.finish(End::Completed, documents)
    }

    /// The services were certainly rolled back: take `processing` away, so that a redelivery is NEW.
    ///
    /// # Errors
    /// As [`StagedClaim::complete`].
    pub fn release(&self, documents: Option<&Documents>) -> Result<()> {
        self.finish(End::Released, documents)
    }

    /// Decide documents that the claim leaves out by what the history holds now, and begin under this claim what is NEW after
    /// all: somebody released it meanwhile, or the resolver says so. Durable on return. All rows of such a key belong together.
    ///
    /// # Errors
    /// `State` when the claim has ended as a whole, or a purge has passed its start. Storage that does not answer is an error.
    pub fn decide_lost(&self, trigger: &Trigger, documents: &Documents, call: &mut Call) -> Result<Verdicts> {
        let mut work = Work {
            codec: &self.codec,
            trigger,
            settings: trigger.settings(call.resolver.is_some()),
            identities: Identities::with_keys(documents)?,
            documents,
            threads: call.threads,
            transaction: None,
            on_replay: OnReplay::ByRules,
            answers: Answers::new(),
        };
        for round in 0.. {
            let asked = match self.attempt(&mut work, round >= ROUNDS)? {
                Ok(verdicts) => return Ok(verdicts),
                Err(asked) => asked,
            };
            let Some(resolver) = call.resolver.as_mut() else { break };
            let reply = checked_reply(resolver.resolve(Ask { rows: &asked })?, asked.len());
            work.remember(asked, reply);
        }
        Err(Error::State("undecided documents without a resolver".into()))
    }

    /// One attempt to decide lost documents: their verdicts, or rows that the resolver has to be asked about first.
    fn attempt(&self, work: &mut Work, is_last: bool) -> Result<std::result::Result<Verdicts, Vec<Asked>>> {
        let mut state = self.state();
        self.space.write(self.settings, |locked| {
            let found = locked.look_in_turn(|view| work.look(self.started_at, view))?;
            let (decided, asked) = match work.decide(&Looked { found, unavailable: None }, is_last)? {
                Ok(decided) => decided,
                Err(asked) => return Ok(Err(asked)),
            };
            let (keys, ..) = work.claimed(&decided);
            if keys.len() > 0 {
                if state.ended.is_some() || locked.is_purged(self.started_at) {
                    return Err(Error::State("the claim has ended, or its time was purged: it takes no more".into()));
                }
                let stamp = Stamp { claim: self.number, started_at: self.started_at, mark: Mark::Open };
                state.segments.extend(locked.begin_more(&keys, stamp)?);
                state.is_begun = true;
            }
            Ok(Ok(work.verdicts(decided, &asked, None)))
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, end: End, documents: Option<&Documents>) -> Result<()> {
        let mut state = self.state();
        let keys = documents.map(|documents| self.own_keys(&state, documents)).transpose()?;
        let is_over = documents.is_none() && state.ended == Some(End::Completed);
        if !state.is_begun || is_over {
            return Ok(());
        }
        let released: Vec<_> = match &keys {
            Some(keys) if end == End::Released => {
                each_key(keys).map(|(key, text)| (key, text.map(<[u8]>::to_vec))).collect()
            }
            _ => Vec::new(),
        };
        let (number, started_at, has_ended) = (self.number, self.started_at, state.ended.is_some());
        self.space.write(self.settings, |space| match keys {
            Some(keys) => space.finish_rows(number, started_at, end, keys),
            // After a purge of its partition nothing is left that a claim's outcome could speak of: name the keys.
            None if space.is_purged(started_at) || has_ended => {
                space.finish_claim(number, started_at, end, state.kept_keys()?)
            }
            None => space.finish_claim(number, started_at, end, FrameKeys::default()),
        })?;
        if documents.is_none() {
            state.ended = state.ended.max(Some(end));
        }
        state.released.extend(released);
        Ok(())
    }

    /// The keys of documents, each of which must be claimed.
    fn own_keys(&self, state: &State, documents: &Documents) -> Result<FrameKeys> {
        let batch = Batch::identify(&self.codec, documents)?;
        let mut is_own = vec![false; documents.rows];
        batch.wanted(documents, |wanted: &Wanted| {
            for segment in &state.segments {
                let mut survivors = Vec::new();
                segment.may_contain(wanted, 0, &mut survivors)?;
                segment.find(wanted, &survivors, &mut |row, _| is_own[row as usize] = true)?;
            }
            Ok::<_, Error>(())
        })?;
        let strangers = is_own.iter().filter(|is_own| !**is_own).count();
        if strangers > 0 {
            let all = documents.rows;
            return Err(Error::State(format!("{strangers} of {all} keys are not among the documents of this claim")));
        }
        let mut keys = FrameKeys::default();
        for row in 0..documents.rows {
            let text = (batch.forms[row] == Form::Text).then(|| batch.text(documents, row as u32));
            push(&mut keys, batch.keys[row], text);
        }
        Ok(keys)
    }
}

fn push(keys: &mut FrameKeys, key: Key, text: Option<&[u8]>) {
    match text {
        Some(text) => keys.push_text(key, text),
        None => keys.uuids.push(key),
    }
}

fn each_key(keys: &FrameKeys) -> impl Iterator<Item = (Key, Option<&[u8]>)> {
    let mut start = 0;
    let texts = keys.texts.iter().zip(&keys.lengths).map(move |(key, length)| {
        let text = &keys.heap[start..start + usize::from(*length)];
        start += usize::from(*length);
        (*key, Some(text))
    });
    keys.uuids.iter().map(|key| (*key, None)).chain(texts)
}
