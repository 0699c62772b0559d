//! Stores of earlier versions, which did not record the rows of a batch: each row is decided by its
//! entry in the history.

use std::path::Path;
use std::sync::Arc;

use crate::columns::{CountColumn, Documents, FlagColumn, IdColumn, Validity};
use crate::history::{History, OpenOptions};
use crate::key::Form;
use crate::protocols::trigger::rules::{Kind, Trigger};
use crate::protocols::trigger::{Attempt, Begun, Call, JobPlan};
use crate::store::{Beginning, SpaceSettings};
use crate::testing::simulated::Simulated;
use crate::types::Ending;
use crate::types::FrameKeys;
use crate::types::transaction::{NumberedBatch, OnOtherRows, OnReplay, Replay, Replays, Transaction};
use crate::{Error, Result};

const RERUN: Replays = Replays { on_replay: OnReplay::Rerun, on_other_rows: OnOtherRows::Refuse };

struct Column {
    offsets: Vec<i32>,
    values: Vec<u8>,
}

impl Column {
    fn new(ids: &[&str]) -> Self {
        let mut column = Self { offsets: vec![0], values: Vec::new() };
        for id in ids {
            column.values.extend(id.bytes());
            column.offsets.push(column.values.len() as i32);
        }
        column
    }

    fn documents(&self) -> Documents<'_> {
        let ids = vec![IdColumn::Utf8 { offsets: &self.offsets, values: &self.values, validity: Validity::all() }];
        let rows = self.offsets.len() - 1;
        Documents { rows, ids, count: CountColumn::Absent, eligible: FlagColumn::Absent }
    }
}

fn trigger() -> Trigger {
    let mut trigger = Trigger::new("orders", Kind::Messaging);
    (trigger.detect_duplicates, trigger.use_history) = (true, true);
    trigger
}

fn number() -> Transaction {
    Transaction { application: "app".into(), batch: 5 }
}

/// A history whose batch 5 began these ids and ended with `outcome`, as an earlier version wrote
/// it.
fn old(ids: &[&str], outcome: Option<Ending>) -> (Simulated, History) {
    let system = Simulated::new(0);
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let history = History::open_on(Arc::new(system.clone()), Path::new("/history"), &options).unwrap();
    let mut keys = FrameKeys::default();
    for id in ids {
        let mut found = [crate::key::Key::default()];
        let (mut forms, mut sources) = ([Form::Absent], [0]);
        let column = Column::new(&[id]);
        crate::key::identify(history.codec(), &column.documents().ids, 0..1, &mut found, &mut forms, &mut sources);
        keys.push_text(found[0], id.as_bytes());
    }
    let space = history.space("orders").unwrap();
    let settings = SpaceSettings::of(&trigger());
    let transaction = Some(NumberedBatch { transaction: number(), rows: None });
    let beginning = Beginning { keys, transaction, started_at: 1, ..Beginning::default() };
    let (claim, _) = space.write(settings, |writer| writer.begin(beginning)).unwrap();
    if let Some(outcome) = outcome {
        space.write(settings, |writer| writer.finish_claim(claim, 1, outcome, FrameKeys::default())).unwrap();
    }
    (system, history)
}

fn begin(history: &History, ids: &[&str], replays: Replays) -> Result<Begun> {
    history.begin(&trigger(), &Column::new(ids).documents(), &mut Call::at(2), Some(&number()), replays)
}

fn rules(begun: &Begun) -> Vec<&'static str> {
    begun.verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect()
}

/// The versions of the newest log and manifest.
fn versions(system: &Simulated) -> (u32, u32) {
    use crate::io::FileSystem;
    let space = Path::new("/history/triggers");
    let name = system.list(space).unwrap().remove(0);
    let directory = space.join(name);
    let mut names = system.list(&directory).unwrap();
    names.sort();
    let of = |prefix: &str| {
        let name = names.iter().rfind(|name| name.starts_with(prefix)).unwrap();
        let mut bytes = [0; 4];
        system.open(&directory.join(name), false).unwrap().read_at(&mut bytes, 8).unwrap();
        u32::from_le_bytes(bytes)
    };
    (of("log-"), of("manifest-"))
}

#[test]
fn of_a_finished_number_only_what_is_recorded_is_a_duplicate() {
    let (_, history) = old(&["a", "b"], Some(Ending::Completed));
    let begun = begin(&history, &["a", "c"], Replays::default()).unwrap();
    assert_eq!((rules(&begun), begun.replay), (vec!["R9", "R8"], Some(Replay::Finished)));
    begun.claim.unwrap().complete(None).unwrap();
    // From now on its rows are known.
    let begun = begin(&history, &["c", "a"], Replays::default()).unwrap();
    assert_eq!((rules(&begun), begun.replay), (vec!["R9", "R9"], Some(Replay::Finished)));
    assert!(matches!(begin(&history, &["a", "b"], Replays::default()), Err(Error::Transaction(_))));
}

#[test]
fn the_same_rows_of_a_finished_number_write_nothing() {
    let (system, history) = old(&["a", "b"], Some(Ending::Completed));
    let begun = begin(&history, &["b", "a"], RERUN).unwrap();
    assert_eq!((rules(&begun), begun.claim.is_none()), (vec!["R9", "R9"], true));
    assert_eq!(versions(&system), (2, 1));
}

#[test]
fn rerun_of_an_unfinished_number_keeps_absent_rows() {
    let (_, history) = old(&["a", "b"], None);
    let begun = begin(&history, &["a", "c"], Replays::default()).unwrap();
    assert_eq!((rules(&begun), begun.replay), (vec!["R11", "R8"], Some(Replay::Unfinished)));
    let (_, history) = old(&["a", "b"], None);
    let begun = begin(&history, &["a", "c"], RERUN).unwrap();
    assert_eq!(rules(&begun), ["R8", "R8"]);
    begun.claim.unwrap().complete(None).unwrap();
    let known = history.classify(&trigger(), &Column::new(&["a", "b", "c"]).documents(), &mut Call::at(2)).unwrap();
    let known: Vec<_> = known.outcomes.iter().map(|outcome| outcome.rule()).collect();
    assert_eq!(known, ["R9", "R11", "R9"]);
}

#[test]
fn tasks_look_the_rows_of_an_old_number_up() {
    let (system, history) = old(&["a", "b"], Some(Ending::Completed));
    let plan = JobPlan {
        parts: 1,
        reads: true,
        routed: false,
        replays: Replays::default(),
        transaction: Some(number()),
        rows: None,
        started_at: 2,
    };
    let (job, replay) = history.reserve(&trigger(), plan).unwrap();
    let options = OpenOptions { snapshot: History::snapshot_of_job(&job), ..OpenOptions::default() };
    let tasks = History::open_on(Arc::new(system.clone()), Path::new("/history"), &options).unwrap();
    let (column, attempt) = (Column::new(&["c", "a"]), Attempt { part: 0, name: "a" });
    let staged = tasks.stage(&trigger(), &job, attempt, &column.documents(), &mut Call::at(2)).unwrap();
    let found: Vec<_> = staged.verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect();
    assert_eq!((found, replay), (vec!["R8", "R9"], Some(Replay::Finished)));
    history.commit(&trigger(), &job, &[staged.receipt]).unwrap().complete(None).unwrap();
    assert_eq!(rules(&begin(&history, &["a", "c"], Replays::default()).unwrap()), ["R9", "R9"]);
}

#[test]
fn only_a_store_that_knows_rows_has_files_of_the_new_versions() {
    let (system, history) = old(&["a"], None);
    let column = Column::new(&["b"]);
    history.begin(&trigger(), &column.documents(), &mut Call::at(2), None, Replays::default()).unwrap();
    assert_eq!(versions(&system), (2, 1));
    let next = Transaction { application: "app".into(), batch: 6 };
    history.begin(&trigger(), &Column::new(&["c"]).documents(), &mut Call::at(2), Some(&next), RERUN).unwrap();
    // Its log changed before a frame records rows, and from the next manifest on that records them
    // too.
    assert_eq!(versions(&system), (3, 1));
    history.pin("orders").unwrap();
    assert_eq!(versions(&system), (3, 3));
}
