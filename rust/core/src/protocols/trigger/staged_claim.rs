//! The claim that a committed job began, and how its documents end.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Call;
use super::begin::{Answers, BeginWork, ROUNDS};
use super::classify::{Looked, Verdicts};
use super::ends::{Ending, Ends};
use super::identities::Identities;
use super::resolver::Asked;
use super::rules::{Decided, Trigger};
use crate::columns::Documents;
use crate::key::{Codec, Form, Key};
use crate::segment::format::{Mark, Stamp};
use crate::segment::{Segment, Wanted};
use crate::store::batch::IdBatch;
use crate::store::staged::{Document, Job, Keys, Receipt, each_chunk, held_by};
use crate::store::{KeySpace, LookedUp, SpaceSettings};
use crate::types::Ending as End;
use crate::types::FrameKeys;
use crate::types::HistoryState;
use crate::types::transaction::{Replay, Replays};
use crate::{Error, Result};

/// Documents that the tasks of a job began.
#[derive(Debug)]
pub struct StagedClaim {
    codec: Codec,
    space: Arc<KeySpace>,
    number: u64,
    started_at: i64,
    /// The application of its transaction, if it has one.
    application: Option<String>,
    /// Whether documents of its batch are suspended.
    is_part: AtomicBool,
    replay: Option<Replay>,
    /// The documents that others were first with, by their keys as they came.
    lost: Vec<String>,
    begun: Mutex<Begun>,
    ends: Ends<Document>,
}

#[derive(Debug)]
struct Begun {
    /// Whether there is anything to end.
    is_begun: bool,
    /// The documents. Their files stay readable here even when their names are removed.
    segments: Vec<Arc<Segment>>,
    /// Documents that its numbered batch leaves out, unless it has begun them after all.
    left: BTreeSet<Document>,
}

/// What a commit began.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// Whether there is anything to end.
    pub(super) is_begun: bool,
    /// The application under whose number it stands.
    pub(super) application: Option<String>,
    pub(super) replay: Option<Replay>,
    pub(super) segments: Vec<Arc<Segment>>,
    /// The documents that others were first with.
    pub(super) lost: Keys,
}

impl StagedClaim {
    pub(super) fn new(
        codec: Codec,
        space: Arc<KeySpace>,
        job: &Job,
        receipts: &[Receipt],
        committed: Committed,
    ) -> Self {
        let Committed { is_begun, application, replay, segments, lost } = committed;
        let left = receipts.iter().flat_map(|receipt| receipt.left.iter().cloned());
        let left = left.chain(lost.each().map(owned)).filter(|_| application.is_some()).collect();
        let lost = lost.each().map(|(key, text)| codec.text_of(key, text)).collect();
        let (number, started_at, ends) = (job.claim(), job.plan().started_at, Ends::default());
        let begun = Mutex::new(Begun { is_begun, segments, left });
        let is_part = AtomicBool::new(receipts.iter().any(Receipt::is_suspended));
        Self { codec, space, number, started_at, application, is_part, replay, lost, begun, ends }
    }

    /// Number of the claim, unique within its trigger; none if there was nothing to begin.
    pub fn number(&self) -> Option<u64> {
        self.begun().is_begun.then_some(self.number)
    }

    /// The documents that others were first with, by their ids: the claim leaves them out.
    pub fn lost(&self) -> &[String] {
        &self.lost
    }

    /// When the services began, in microseconds since 1970.
    pub fn started_at(&self) -> i64 {
        self.started_at
    }

    /// Whether the batch is a replay, where it is a transaction.
    pub fn replay(&self) -> Option<Replay> {
        self.replay
    }

    /// Number of documents claimed.
    pub fn len(&self) -> u64 {
        self.begun().segments.iter().map(|segment| segment.header().entries()).sum()
    }

    /// The services ended, in success or failure: of all documents, or of these. Durable on return;
    /// repeating it changes nothing.
    ///
    /// # Errors
    /// `State` when some of these are not documents of the claim, or were released: another claim
    /// may have begun them since.
    pub fn complete(&self, documents: Option<&Documents>) -> Result<()> {
        self.finish(End::Completed, documents)
    }

    /// The services were certainly rolled back: remove `processing`, so that a redelivery is NEW.
    ///
    /// # Errors
    /// `State` when some of these are not documents of the claim, or were completed.
    pub fn release(&self, documents: Option<&Documents>) -> Result<()> {
        self.finish(End::Released, documents)
    }

    /// Decide documents that the claim leaves out by the present history, and begin those that are
    /// NEW after all under this claim: another writer released them meanwhile, or the resolver says
    /// so. Durable on return. All rows of such a key must be in one call.
    ///
    /// # Errors
    /// `State` when the claim has ended as a whole, its batch or a later one of its application was
    /// begun since, or a purge has passed its start. Storage that
    /// does not answer is an error.
    pub fn decide_lost(&self, trigger: &Trigger, documents: &Documents, call: &mut Call) -> Result<Verdicts> {
        let mut work = BeginWork {
            codec: &self.codec,
            trigger,
            settings: trigger.settings(call.resolver.is_some()),
            identities: Identities::with_keys(documents)?,
            documents,
            threads: call.threads,
            transaction: None,
            replays: Replays::default(),
            rows: None,
            answers: Answers::new(),
        };
        let mut round = 0;
        loop {
            match self.attempt(&mut work, round >= ROUNDS)? {
                Ok(verdicts) => return Ok(verdicts),
                Err(asked) => work.ask(&asked, call)?,
            }
            round += 1;
        }
    }

    /// One attempt to decide lost documents: their verdicts, or rows that the resolver has to be
    /// asked about first.
    fn attempt(&self, work: &mut BeginWork, is_last: bool) -> Result<std::result::Result<Verdicts, Vec<Asked>>> {
        let (mut begun, mut more, mut settled) = (self.begun(), None, Settled::default());
        let attempted = self.space.write_again(SpaceSettings::STORED, |writer| {
            more = None;
            let found = writer.look(|view| work.look(self.started_at, view))?;
            let looked = Looked { found, unavailable: None };
            let (decided, asked) = match work.decide(&looked, is_last)? {
                Ok(decided) => decided,
                Err(asked) => return Ok(Err(asked)),
            };
            work.complete_resolved(writer, &decided, &looked.found, self.started_at)?;
            let (keys, ..) = work.claimed(&decided);
            if keys.len() > 0 {
                let claim = (self.number, self.started_at);
                if self.ends.is_whole() || writer.may_lack(claim, self.application.as_deref()) {
                    return Err(Error::State(
                        "the claim has ended, its batch was begun again, or its time was purged: it takes no more"
                            .into(),
                    ));
                }
                let stamp = Stamp { claim: self.number, started_at: self.started_at, mark: Mark::Open };
                more = Some(writer.begin_more(&keys, stamp)?);
            }
            self.is_part.fetch_or(decided.is_suspended(), Ordering::Relaxed);
            settled = Settled::of(work, &decided, &looked.found);
            Ok(Ok(work.verdicts(decided, &asked, None)))
        })?;
        if let Some(more) = more {
            begun.segments.extend(more);
            begun.is_begun = true;
        }
        if self.application.is_some() {
            begun.left.extend(settled.left);
            begun.left.retain(|document| !settled.done.contains(document));
        }
        Ok(attempted)
    }

    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, end: End, documents: Option<&Documents>) -> Result<()> {
        let begun = self.begun();
        let keys = documents.map(|documents| self.own_keys(&begun, documents)).transpose()?;
        if !begun.is_begun || self.ends.is_over(end) {
            return Ok(());
        }
        let ended: Option<Vec<Document>> = keys.as_ref().map(|keys| keys.each().map(owned).collect());
        let (number, started_at, is_part) = (self.number, self.started_at, self.is_part.load(Ordering::Relaxed));
        let application = self.application.as_deref();
        let is_whole = documents.is_none() && end == End::Completed;
        let left = if is_whole { begun.left_out()? } else { FrameKeys::default() };
        self.ends.write(
            Ending { space: &self.space, number, started_at, application, is_part, left: &left, end },
            ended.as_deref().zip(keys.as_ref()),
            |documents| {
                let mut rest = FrameKeys::default();
                for (key, text) in documents {
                    rest.push(*key, text.as_deref());
                }
                Ok(rest)
            },
            |writer, keys| writer.finish_rows(number, started_at, end, keys.clone()),
            |document| format!("document {}", self.shown(document)),
            |_| self.kept_keys(&begun),
        )
    }

    fn shown(&self, (key, text): &Document) -> String {
        format!("{:?}", self.codec.text_of(*key, text.as_deref()))
    }

    /// The keys that were not released one by one.
    fn kept_keys(&self, begun: &Begun) -> Result<FrameKeys> {
        let mut kept = FrameKeys::default();
        self.ends.kept(|is_kept| {
            begun.segments.iter().try_for_each(|segment| {
                each_chunk(segment, |keys| {
                    for (key, text) in keys.each().filter(|key| is_kept(&owned(*key))) {
                        kept.push(key, text);
                    }
                    Ok(())
                })
            })
        })?;
        Ok(kept)
    }

    /// The keys of documents, each of which must be claimed.
    fn own_keys(&self, begun: &Begun, documents: &Documents) -> Result<FrameKeys> {
        let batch = IdBatch::identify(&self.codec, documents)?;
        let mut is_own = vec![false; documents.rows];
        batch.wanted(documents, |wanted: &Wanted| {
            for segment in &begun.segments {
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
            keys.push(batch.keys[row], text);
        }
        Ok(keys)
    }
}

impl Begun {
    /// The keys that the batch leaves out, and that the claim has not begun.
    fn left_out(&self) -> Result<FrameKeys> {
        let mut keys = Keys::default();
        self.left.iter().for_each(|(key, text)| keys.push(*key, text.as_deref()));
        let mut is_begun = vec![false; keys.len()];
        for segment in &self.segments {
            held_by(segment, &keys)?.into_iter().for_each(|row| is_begun[row as usize] = true);
        }
        let mut left = FrameKeys::default();
        for ((key, text), _) in keys.each().zip(is_begun).filter(|(_, is_begun)| !is_begun) {
            left.push(key, text);
        }
        Ok(left)
    }
}

/// What became of lost documents that were decided again, as far as the claim does not begin them.
#[derive(Default)]
struct Settled {
    left: Vec<Document>,
    done: HashSet<Document>,
}

impl Settled {
    fn of(work: &BeginWork, decided: &Decided, found: &LookedUp) -> Self {
        let is_done = |row: &u32| found.states[*row as usize] == HistoryState::Completed;
        let done = (0..found.states.len() as u32).filter(is_done).map(|row| owned(work.document(row))).collect();
        Self { left: work.left_out(decided, found).each().map(owned).collect(), done }
    }
}

/// A document of its own.
pub(super) fn owned((key, text): (Key, Option<&[u8]>)) -> Document {
    (key, text.map(<[u8]>::to_vec))
}
