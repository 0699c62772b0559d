//! One call that judges documents, from Python's arguments to the columns of verdicts.

use std::collections::HashMap;

use crate::arrow::array::RecordBatch;
use dochistory_core::history::History;
use dochistory_core::protocols::trigger::{Attempt, Begun, Call, Job, Resolver, Staged, StagedClaim, Verdicts};
use dochistory_core::{OnOtherRows, OnReplay, Replays, Transaction};

use crate::columns::Columns;
use crate::errors::{Failure, Outcome};
use crate::input::Input;
use crate::resolver::Asker;
use crate::trigger::{Trigger, WithoutIds};
use crate::verdicts::verdict_columns;

/// The documents of a call.
pub(crate) struct Documents<'a> {
    pub(crate) trigger: &'a Trigger,
    pub(crate) input: Input,
    pub(crate) columns: Columns,
    pub(crate) now_us: i64,
    pub(crate) threads: usize,
}

/// The parameters of `begin`.
pub(crate) struct Beginning {
    pub(crate) transaction: Option<Transaction>,
    pub(crate) replays: Replays,
}

impl<'a> Documents<'a> {
    pub(crate) fn new(
        trigger: &'a Trigger,
        input: Input,
        renamed: Option<&HashMap<String, String>>,
        now_us: i64,
        threads: usize,
    ) -> Outcome<Self> {
        let columns = Columns::find(&input, trigger.rules.kind, renamed)?;
        Ok(Self { trigger, input, columns, now_us, threads })
    }

    /// The verdicts as columns. Must be called without holding Python.
    pub(crate) fn classify(&self, history: &History) -> Outcome<RecordBatch> {
        let (rules, documents) = (&self.trigger.rules, self.columns.documents());
        let made = |verdicts: &Verdicts| verdict_columns(verdicts, &self.columns, self.threads);
        self.ask(|call| history.classify_into(rules, &documents, call, made))?
    }

    /// The verdicts. Must be called without holding Python.
    pub(crate) fn judge(&self, history: &History) -> Outcome<Verdicts> {
        self.ask(|call| history.classify(&self.trigger.rules, &self.columns.documents(), call))
    }

    /// Begin the documents. Must be called without holding Python.
    pub(crate) fn begin(&self, history: &History, how: &Beginning) -> Outcome<Begun> {
        self.check_ids()?;
        let (rules, documents) = (&self.trigger.rules, self.columns.documents());
        self.ask(|call| history.begin(rules, &documents, call, how.transaction.as_ref(), how.replays))
    }

    /// The verdicts, if all documents are completed: there is nothing to write then. Must be called
    /// without holding Python.
    pub(crate) fn completed(&self, history: &History) -> Outcome<Option<Begun>> {
        let verdicts = history.completed(&self.trigger.rules, &self.columns.documents(), self.now_us)?;
        Ok(verdicts.map(|verdicts| Begun { verdicts, claim: None, replay: None }))
    }

    /// A batch in which no document has an id: nearly always the ids are somewhere else. By the
    /// rules all of it would be in doubt, and acknowledged.
    fn check_ids(&self) -> Outcome<()> {
        let Trigger { rules, resolver, without_ids, .. } = self.trigger;
        let is_allowed = *without_ids == WithoutIds::InDoubt || resolver.is_some();
        if is_allowed || self.input.rows < 2 || !rules.settings(false).needs_history() || !self.columns.lack_ids() {
            return Ok(());
        }
        Err(Failure::schema(format!(
            "none of the {} documents has an id: {} is null or empty in every row, so all would be in doubt (R3); name \
             the column with the ids, as in columns={{\"uuid\": \"message_id\"}}, or let their producer set one, or \
             allow it with Trigger(without_ids=\"in_doubt\")",
            self.input.rows,
            self.columns.id_names().join(", ")
        )))
    }

    /// Decide and stage one part of a job. Must be called without holding Python.
    pub(crate) fn stage(&self, history: &History, job: &Job, attempt: Attempt<'_>) -> Outcome<Staged> {
        let (rules, documents) = (&self.trigger.rules, self.columns.documents());
        self.ask(|call| history.stage(rules, job, attempt, &documents, call))
    }

    /// Decide documents again that a claim left out. Must be called without holding Python.
    pub(crate) fn decide_lost(&self, claim: &StagedClaim) -> Outcome<Verdicts> {
        let (rules, documents) = (&self.trigger.rules, self.columns.documents());
        self.ask(|call| claim.decide_lost(rules, &documents, call))
    }

    /// Run `work` with the trigger's resolver, if it has one.
    fn ask<T>(&self, work: impl FnOnce(&mut Call<'_>) -> dochistory_core::Result<T>) -> Outcome<T> {
        let call = Call { threads: self.threads, ..Call::at(self.now_us) };
        let Some(resolver) = &self.trigger.resolver else {
            let mut call = call;
            return Ok(work(&mut call)?);
        };
        let mut asker = Asker {
            resolver,
            trigger: &self.trigger.rules.name,
            input: &self.input,
            columns: &self.columns,
            retries: self.trigger.retries,
            interrupt: None,
        };
        let done = work(&mut Call { resolver: Some(&mut asker as &mut dyn Resolver), ..call });
        done.map_err(|error| asker.or_interrupt(error))
    }
}

/// The treatment of a repeated batch number, after a check that the trigger supports it.
pub(crate) fn replays(word: &str, other_rows: &str, trigger: &Trigger) -> Outcome<Replays> {
    Ok(Replays { on_replay: on_replay(word, trigger)?, on_other_rows: on_other_rows(other_rows)? })
}

/// [`replays`] where no trigger decides.
pub(crate) fn plain_replays(word: &str, other_rows: &str) -> Outcome<Replays> {
    let on_replay = match word {
        "in_doubt" => OnReplay::ByRules,
        "rerun" => OnReplay::Rerun,
        _ => return Err(Failure::config(format!("on_replay is {word:?}; allowed is \"in_doubt\" or \"rerun\""))),
    };
    Ok(Replays { on_replay, on_other_rows: on_other_rows(other_rows)? })
}

/// The treatment of a known number that comes with other rows.
pub(crate) fn on_other_rows(word: &str) -> Outcome<OnOtherRows> {
    match word {
        "error" => Ok(OnOtherRows::Refuse),
        "look_up" => Ok(OnOtherRows::LookUp),
        _ => Err(Failure::config(format!("on_other_rows is {word:?}; allowed is \"error\" or \"look_up\""))),
    }
}

fn on_replay(word: &str, trigger: &Trigger) -> Outcome<OnReplay> {
    match word {
        "in_doubt" => Ok(OnReplay::ByRules),
        "resolver" if trigger.resolver.is_some() => Ok(OnReplay::ByRules),
        "resolver" => {
            let name = &trigger.rules.name;
            Err(Failure::config(format!("on_replay is \"resolver\", but trigger {name:?} has no resolver")))
        }
        "rerun" => Ok(OnReplay::Rerun),
        _ => {
            Err(Failure::config(format!("on_replay is {word:?}; allowed is \"in_doubt\" or \"resolver\" or \"rerun\"")))
        }
    }
}
