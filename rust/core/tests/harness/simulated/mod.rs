//! A store on a simulated machine, used by two processes, beside the models of what it may hold.

pub mod bytes;
pub mod crashes;
pub mod faults;
pub mod maps;
pub mod triggers;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use dochistory_core::Error;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::io::FileSystem;
use dochistory_core::testing::simulated::Simulated;

pub const ROOT: &str = "/history";

/// An operation, and which of the processes does it.
#[derive(Clone, Debug)]
pub struct Step<Op> {
    pub by: usize,
    pub op: Op,
}

/// What is stored, and a naive model of it.
pub trait Subject: Sized {
    type Op: Clone + Debug;
    /// One possible state of the store.
    type Model: Clone + Debug + Default + PartialEq;
    /// What an operation answers.
    type Answer: Debug + PartialEq;
    /// What a handle finds of all ids.
    type Found: Debug + PartialEq;
    /// What the processes hold besides their handles.
    type State: Default;

    /// A workload that touches every feature, and the ids in it.
    fn workload() -> Vec<Step<Self::Op>>;
    fn ids() -> Vec<String>;

    /// Do an operation. No answer means that it was refused, as it had to be, and changed nothing.
    fn perform(harness: &mut Harness<Self>, by: usize, op: &Self::Op) -> Result<Option<Self::Answer>, Error>;
    /// Do it in a model, and answer what the store has to answer.
    fn apply(state: &Self::State, model: &mut Self::Model, op: &Self::Op) -> Self::Answer;
    fn find(history: &History, ids: &[String]) -> Result<Self::Found, Error>;
    /// Whether a model says what was found.
    fn allows(model: &Self::Model, ids: &[String], found: &Self::Found) -> bool;
    fn describe(model: &Self::Model, ids: &[String]) -> String;
    /// Every byte on disk.
    fn verify(history: &History) -> Result<(), Error>;
    /// A process died: what it held is gone.
    fn forget(_: &mut Self::State) {}
    /// What has to hold between an operation that failed and the handle being opened again.
    fn check_failed(_: &mut Harness<Self>, _: &Step<Self::Op>, _: &Error) {}
}

/// Handles on one history, and what it may hold: one model for each possible state.
pub struct Harness<S: Subject> {
    systems: Vec<Arc<dyn FileSystem>>,
    histories: Vec<Option<History>>,
    models: Vec<S::Model>,
    ids: Vec<String>,
    state: S::State,
    /// Whether many texts share a key.
    collides: bool,
}

impl<S: Subject> Harness<S> {
    /// The store of the workload, with nothing in it yet.
    pub fn new(processes: &[Simulated; 2]) -> Self {
        Self::with_ids(processes, S::ids(), false)
    }

    pub fn with_ids(processes: &[Simulated; 2], ids: Vec<String>, collides: bool) -> Self {
        Self {
            systems: processes.iter().map(|process| Arc::new(process.clone()) as _).collect(),
            histories: vec![None, None],
            models: vec![S::Model::default()],
            ids,
            state: S::State::default(),
            collides,
        }
    }

    /// Forget the handle of a process, and go on in another one.
    pub fn restart(&mut self, by: usize, process: &Simulated) {
        S::forget(&mut self.state);
        self.histories[by] = None;
        self.systems[by] = Arc::new(process.clone());
    }

    fn open(&self, system: Arc<dyn FileSystem>, options: &OpenOptions) -> Result<History, Error> {
        let opened = History::open_on(system, Path::new(ROOT), options)?;
        Ok(if self.collides { opened.with_colliding_keys() } else { opened })
    }

    /// The handle of a process, opened if need be.
    pub fn history(&mut self, by: usize) -> Result<&History, Error> {
        if self.histories[by].is_none() {
            let options = OpenOptions { create: true, ..OpenOptions::default() };
            self.histories[by] = Some(self.open(self.systems[by].clone(), &options)?);
        }
        self.histories[by].as_ref().ok_or_else(|| Error::State("not open".into()))
    }

    /// A handle that only reads.
    pub fn reader(&self, process: &Simulated) -> History {
        self.open(Arc::new(process.clone()), &super::reading()).unwrap()
    }

    fn reopen(&mut self, by: usize) -> Result<(), Error> {
        self.histories[by] = None;
        self.history(by).map(drop)
    }

    /// Compare everything that a process finds with the models, and drop the models that are
    /// refuted.
    pub fn check(&mut self, by: usize) -> Result<(), Error> {
        self.history(by)?;
        let found = self.histories[by].as_ref().map(|history| S::find(history, &self.ids));
        found.transpose()?.into_iter().for_each(|found| self.retain(&found));
        Ok(())
    }

    fn retain(&mut self, found: &S::Found) {
        let models = std::mem::take(&mut self.models);
        let expected: Vec<_> = models.iter().map(|model| S::describe(model, &self.ids)).collect();
        self.models = models.into_iter().filter(|model| S::allows(model, &self.ids, found)).collect();
        assert!(!self.models.is_empty(), "the store says\n{found:?}\nbut should say\n{}", expected.join("\nor "));
    }

    /// Every byte on disk.
    pub fn verify(&mut self) -> Result<(), Error> {
        S::verify(self.history(0)?)
    }

    /// Do a step, and compare its answer with the models. When it fails, the models become those in
    /// which it happened and those in which it did not.
    pub fn step(&mut self, step: &Step<S::Op>) -> Result<(), Error> {
        let result = S::perform(self, step.by, &step.op);
        if matches!(result, Ok(None)) {
            return Ok(());
        }
        let before = std::mem::take(&mut self.models);
        let apply = |mut model: S::Model| {
            let answer = S::apply(&self.state, &mut model, &step.op);
            (model, answer)
        };
        let after: Vec<_> = before.iter().cloned().map(apply).collect();
        let possible: Vec<_> = match &result {
            Ok(answer) => {
                let agrees = |(_, said): &(S::Model, S::Answer)| answer.as_ref() == Some(said);
                assert!(after.iter().any(agrees), "{:?} answers {answer:?}, but should as in {after:?}", step.op);
                after.into_iter().filter(agrees).map(|(model, _)| model).collect()
            }
            Err(_) => before.into_iter().chain(after.into_iter().map(|(model, _)| model)).collect(),
        };
        for model in possible {
            if !self.models.contains(&model) {
                self.models.push(model);
            }
        }
        result.map(drop)
    }
}
