//! A closed store with something of everything in it, to be damaged.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::rules::Trigger;
use dochistory_core::protocols::trigger::{Call, OnReplay};
use dochistory_core::{Error, Result};

use super::{DAY, Ids, START, begin, open, trigger, uuids};

pub const TRIGGERS: [&str; 2] = ["orders", "invoices"];

/// The files of a store by their path, as they were when it was closed.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

pub fn named(name: &str) -> Trigger {
    Trigger { name: name.into(), ..trigger() }
}

pub fn ids() -> Vec<String> {
    let texts = (0..30).map(|number| format!("urn:text:{number}"));
    uuids(0..60).into_iter().chain(texts).collect()
}

/// A store with segments, a rolled-up filter, outcomes, a transaction, and a log, for each of two
/// triggers.
pub fn build(path: &Path) -> Files {
    let history = open(path);
    let ids = ids();
    for (shift, name) in TRIGGERS.into_iter().enumerate() {
        let trigger = named(name);
        for day in 0..3 {
            let first = day as usize * 15 + shift;
            let claim = begin(&history, &trigger, &ids[first..first + 12], START + day * DAY).claim.unwrap();
            begin(&history, &trigger, &ids[60 + first / 2..64 + first / 2], START + day * DAY);
            claim.complete(Some(&[0, 1, 2])).unwrap();
            let snapshot = history.pin(name).unwrap();
            history.unpin(name, &snapshot).unwrap();
            if day == 1 {
                claim.complete(None).unwrap();
                history.maintain(name, true, &mut |_, _| Ok(())).unwrap();
            }
        }
        let transaction = dochistory_core::Transaction { application: "stream".into(), batch: 4 };
        let rows = Ids::new(&ids[48 + shift..54 + shift]);
        let mut call = Call::at(START + 3 * DAY);
        let begun =
            history.begin(&trigger, &rows.documents(), &mut call, Some(&transaction), OnReplay::ByRules).unwrap();
        begun.claim.unwrap().complete(Some(&[0, 1])).unwrap();
    }
    drop(history);
    let mut files = Files::new();
    collect(path, &mut files);
    files
}

pub fn collect(directory: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
}

pub fn restore(root: &Path, files: &Files) {
    let mut now = Files::new();
    collect(root, &mut now);
    for path in now.keys().filter(|path| !files.contains_key(*path)) {
        std::fs::remove_file(path).unwrap();
    }
    for (path, bytes) in files.iter().filter(|(path, bytes)| now.get(*path) != Some(bytes)) {
        std::fs::write(path, bytes).unwrap();
    }
}

/// What the store says of all ids of all triggers.
pub fn verdicts(path: &Path, read_only: bool) -> Result<Vec<&'static str>> {
    let history = History::open(path, &OpenOptions { read_only, ..OpenOptions::default() })?;
    let ids = Ids::new(&ids());
    let mut rules = Vec::new();
    for name in TRIGGERS {
        let verdicts = history.classify(&named(name), &ids.documents(), &mut Call::at(START + 3 * DAY))?;
        assert_eq!(verdicts.unavailable, None, "damage is not a storage that does not answer");
        rules.extend(verdicts.outcomes.iter().map(|outcome| outcome.rule()));
    }
    Ok(rules)
}

pub struct Store {
    _directory: tempfile::TempDir,
    pub root: PathBuf,
    pub files: Files,
    pub good: Vec<&'static str>,
    pub errors: usize,
}

impl Store {
    pub fn new() -> Self {
        // Damage does not care how durable the disk is, and thousands of syncs take their time.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let root = directory.path().join("h");
        let files = build(&root);
        let good = verdicts(&root, true).unwrap();
        assert!(["R8", "R9", "R11"].iter().all(|rule| good.contains(rule)));
        Self { _directory: directory, root, files, good, errors: 0 }
    }

    /// Reopen the store, damaged as `what` says. Answers whether the damage was noticed.
    pub fn check(&mut self, what: &str, read_only: bool) -> bool {
        let found = std::panic::catch_unwind(AssertUnwindSafe(|| verdicts(&self.root, read_only)));
        match found {
            Err(cause) => panic!("{what}: a panic: {cause:?}"),
            Ok(Ok(found)) => assert!(found == self.good, "{what}: other verdicts\n{found:?}\n{:?}", self.good),
            Ok(Err(Error::Corrupt { .. } | Error::Open { .. })) => {
                self.errors += 1;
                return true;
            }
            Ok(Err(error)) => panic!("{what}: {error}"),
        }
        false
    }

    /// Whether the file can be lost without harm.
    pub fn is_advisory(path: &Path) -> bool {
        ["turn", "upkeep", "load", "HISTORY.copy", "known"].contains(&Self::kind(path).as_str())
    }

    pub fn kind(path: &Path) -> String {
        if path.parent().is_some_and(|parent| parent.ends_with("known")) {
            return "known".into();
        }
        let name = path.file_name().unwrap().to_string_lossy();
        name.split('-').next().unwrap().to_owned()
    }
}
