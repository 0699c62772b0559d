//! Repairing a store that was damaged in every way one file can be: afterwards it opens, all of it
//! is whole, and its verdicts are what they were, but for as many ids as the repair said it drops.
//! Nothing happens without being asked for, and no file goes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};

use common::store::{Files, Store, TRIGGERS, collect, named, restore, verdicts};
use common::{Ids, START, open, rules, trigger, uuids};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::{Attempt, Call, Job, JobPlan, Receipt};
use dochistory_core::repair::{Count, Options, Remedy, Report, repair};
use dochistory_core::{Error, Replays};

fn now(root: &Path) -> Files {
    let mut files = Files::new();
    collect(root, &mut files);
    files
}

fn look(root: &Path) -> Report {
    repair(root, &Options::default(), &mut |_, _| Ok(())).unwrap()
}

fn apply(root: &Path) -> Report {
    repair(root, &Options { apply: true, ..Options::default() }, &mut |_, _| Ok(())).unwrap()
}

/// Every byte of every trigger, where the store opens at all.
fn verify(root: &Path) -> Result<(), Error> {
    let history = History::open(root, &OpenOptions { read_only: true, ..OpenOptions::default() })?;
    for name in TRIGGERS {
        history.verify(name, &mut |_, _| Ok(()))?;
    }
    Ok(())
}

fn most(count: Count) -> u64 {
    match count {
        Count::Exactly(entries) | Count::AtMost(entries) => entries,
        Count::AtLeast(_) | Count::Unknown => u64::MAX,
    }
}

/// Whether the verdicts are the old ones, but for what the report speaks of.
fn compare(what: &str, report: &Report, good: &[&str], found: &[&str]) {
    let sum = |count: fn(&dochistory_core::repair::Finding) -> Count| {
        report.findings.iter().fold(0u64, |sum, finding| sum.saturating_add(most(count(finding))))
    };
    let (dropped, reopened) = (sum(|finding| finding.dropped), sum(|finding| finding.reopened));
    let lost_an_end = dropped > 0 || reopened > 0;
    let (mut forgotten, mut in_doubt) = (0, 0);
    for (row, (old, new)) in good.iter().zip(found).enumerate() {
        match (*old, *new) {
            (old, new) if old == new => {}
            (_, "R8") => forgotten += 1,
            // An end, or a release, that was told by what is lost.
            ("R8" | "R9", "R11") if lost_an_end => in_doubt += 1,
            _ => panic!("{what}: row {row} was {old} and is {new}\n{report:#?}"),
        }
    }
    assert!(forgotten <= dropped, "{what}: {forgotten} ids are forgotten, but at most {dropped} were said to be");
    assert!(in_doubt <= reopened, "{what}: {in_doubt} are in doubt, at most {reopened} were said to be\n{report:#?}");
    if !lost_an_end {
        assert_eq!(good, found, "{what}");
    }
}

/// What came of one damage.
#[derive(Debug, Default)]
struct Seen {
    harmless: usize,
    rebuilt: usize,
    salvaged: usize,
    dropped: usize,
    impossible: usize,
}

impl Seen {
    /// The store at hand is damaged as `what` says: repair it.
    fn repaired(&mut self, what: &str, store: &Store, original: &Files) {
        let damaged = now(&store.root);
        let planned = look(&store.root);
        assert!(now(&store.root) == damaged, "{what}: looking has changed something");
        if planned.findings.is_empty() {
            verify(&store.root).unwrap_or_else(|error| panic!("{what}: not found: {error}"));
            assert!(verdicts(&store.root, true).unwrap() == store.good, "{what}");
            self.harmless += 1;
            return;
        }
        let report = apply(&store.root);
        assert_eq!(format!("{:?}", report.findings), format!("{:?}", planned.findings), "{what}");
        if report.findings.iter().any(|finding| finding.remedy == Remedy::Impossible) {
            assert!(!report.is_repaired && report.aside.is_none(), "{what}: {report:?}");
            self.impossible += 1;
            return;
        }
        assert!(report.is_repaired, "{what}");
        verify(&store.root).unwrap_or_else(|error| panic!("{what}: not mended: {error}\n{report:#?}"));
        let found = verdicts(&store.root, true).unwrap_or_else(|error| panic!("{what}: {error}\n{report:#?}"));
        compare(what, &report, &store.good, &found);
        assert!(look(&store.root).findings.is_empty(), "{what}: a second repair finds {:#?}", look(&store.root));
        let after = now(&store.root);
        let is_kept = |(path, bytes): (&PathBuf, &Vec<u8>)| {
            let is_lock = ["turn", "upkeep"].contains(&Store::kind(path).as_str());
            is_lock || after.values().any(|kept| kept == bytes)
        };
        assert!(damaged.iter().all(is_kept), "{what}: a file is gone");
        // And it can be written to.
        let history = History::open(&store.root, &OpenOptions::default()).unwrap();
        for name in TRIGGERS {
            history
                .pin(name)
                .and_then(|pin| history.unpin(name, &pin))
                .unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let has = |remedy| report.findings.iter().any(|finding| finding.remedy == remedy);
        self.dropped += usize::from(has(Remedy::Dropped));
        self.salvaged += usize::from(has(Remedy::Salvaged));
        self.rebuilt += usize::from(has(Remedy::Rebuilt));
        assert!(original.keys().all(|path| Store::kind(path) != "new"));
    }
}

fn every_file(what: &str, step: impl Fn(&Store, &Path, &[u8], &mut Seen)) -> Seen {
    let store = Store::new();
    let mut seen = Seen::default();
    for (path, bytes) in &store.files {
        if !["turn", "upkeep", "load", "known"].contains(&Store::kind(path).as_str()) {
            step(&store, path, bytes, &mut seen);
        }
    }
    let repairs = seen.rebuilt + seen.salvaged + seen.dropped;
    eprintln!("figure: repairs of {what} files = {repairs}");
    seen
}

#[test]
fn after_a_repair_of_flipped_bytes_only_what_was_named_is_missing() {
    let seen = every_file("flipped", |store, path, bytes, seen| {
        for at in (0..bytes.len()).filter(|at| *at < 64 && at % 7 == 0 || at % 797 == 0 || at % 4096 == 4095) {
            restore(&store.root, &store.files);
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(path, damaged).unwrap();
            seen.repaired(&format!("{} flipped at {at}", path.display()), store, &store.files);
        }
    });
    assert!(seen.rebuilt > 20 && seen.salvaged > 20 && seen.dropped > 5 && seen.impossible == 0, "{seen:?}");
}

#[test]
fn after_a_repair_of_shortened_and_missing_files_only_what_was_named_is_missing() {
    let seen = every_file("shortened", |store, path, bytes, seen| {
        for length in [0, 40, 150, 5000, bytes.len() / 2, bytes.len() - 1] {
            restore(&store.root, &store.files);
            std::fs::write(path, &bytes[..length.min(bytes.len() - 1)]).unwrap();
            seen.repaired(&format!("{} cut to {length}", path.display()), store, &store.files);
        }
        restore(&store.root, &store.files);
        std::fs::remove_file(path).unwrap();
        seen.repaired(&format!("{} missing", path.display()), store, &store.files);
    });
    assert!(seen.dropped > 10 && seen.salvaged > 0 && seen.rebuilt > 10 && seen.impossible == 0, "{seen:?}");
}

#[test]
fn after_a_repair_of_files_in_the_place_of_others_only_what_was_named_is_missing() {
    let seen = every_file("swapped", |store, path, bytes, seen| {
        for (other, content) in &store.files {
            if other != path && content != bytes && Store::kind(other) == Store::kind(path) {
                restore(&store.root, &store.files);
                std::fs::write(path, content).unwrap();
                let what = format!("{} in the place of {}", other.display(), path.display());
                seen.repaired(&what, store, &store.files);
            }
        }
    });
    assert!(seen.dropped > 5 && seen.impossible == 0, "{seen:?}");
}

#[test]
fn a_store_of_a_newer_version_is_not_taken_for_a_damaged_one() {
    let store = Store::new();
    let is_manifest = |path: &&PathBuf| Store::kind(path) == "manifest";
    let path = store.files.keys().find(is_manifest).unwrap();
    let mut bytes = store.files[path].clone();
    bytes[8] = 99;
    let content = bytes.len() - 4;
    let sum = crc32c::crc32c(&bytes[..content]).to_le_bytes();
    bytes[content..].copy_from_slice(&sum);
    std::fs::write(path, &bytes).unwrap();
    let refused = repair(&store.root, &Options { apply: true, ..Options::default() }, &mut |_, _| Ok(())).unwrap_err();
    assert!(refused.to_string().contains("install a newer dochistory"), "{refused}");
    assert!(now(&store.root)[path] == bytes);
}

#[test]
fn a_history_without_identity_or_with_anothers_is_left_alone() {
    let store = Store::new();
    let elsewhere = Store::new();
    let (file, spare) = (store.root.join("HISTORY"), store.root.join("HISTORY.copy"));
    for with_copy in [true, false] {
        restore(&store.root, &store.files);
        if !with_copy {
            std::fs::remove_file(&spare).unwrap();
        }
        std::fs::copy(elsewhere.root.join("HISTORY"), &file).unwrap();
        let report = apply(&store.root);
        assert!(!report.is_repaired && report.aside.is_none(), "{report:?}");
        assert!(report.findings.iter().any(|finding| finding.remedy == Remedy::Impossible), "{report:?}");
    }
    std::fs::remove_file(&file).unwrap();
    let report = apply(&store.root);
    assert_eq!((report.is_repaired, report.findings[0].remedy), (false, Remedy::Impossible));
    let nothing = repair(&store.root.join("nowhere"), &Options::default(), &mut |_, _| Ok(()));
    assert!(matches!(nothing, Err(Error::Open { .. })));
}

/// A job of 40 documents that are staged.
fn staged(root: &Path, history: &History) -> (Job, Receipt) {
    let plan = JobPlan {
        parts: 1,
        reads: true,
        routed: false,
        replays: Replays::default(),
        transaction: None,
        rows: None,
        started_at: START,
    };
    let job = history.reserve(&trigger(), plan).unwrap().0;
    let options = OpenOptions { snapshot: History::snapshot_of_job(&job), read_only: true, ..OpenOptions::default() };
    let task = History::open(root, &options).unwrap();
    let ids = Ids::new(&uuids(0..40));
    let attempt = Attempt { part: 0, name: "a0" };
    let receipt = task.stage(&trigger(), &job, attempt, &ids.documents(), &mut Call::at(0)).unwrap().receipt;
    (job, receipt)
}

fn space(root: &Path) -> PathBuf {
    std::fs::read_dir(root.join("triggers")).unwrap().next().unwrap().unwrap().path()
}

fn file_of(directory: &Path, kind: &str) -> PathBuf {
    now(directory).into_keys().filter(|path| Store::kind(path) == kind).max().unwrap()
}

/// Make the newest manifest useless.
fn lose_manifest(root: &Path) {
    let path = file_of(&space(root), "manifest");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn what_was_staged_and_never_committed_is_not_taken_in_by_a_repair() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("h");
    let history = open(&root);
    common::begin(&history, &trigger(), &uuids(100..130), START);
    let (job, receipt) = staged(&root, &history);
    // The pin is the manifest's second name: what is lost is to be a newer one.
    common::begin(&history, &trigger(), &uuids(130..140), START);
    let snapshot = history.pin("orders").unwrap();
    history.unpin("orders", &snapshot).unwrap();
    // Its commit dies when the file has its name, and no manifest names it yet.
    let from = file_of(&space(&root), "new");
    let bytes = std::fs::read(&from).unwrap();
    let own = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    std::fs::hard_link(&from, space(&root).join(format!("segment-{own:016x}"))).unwrap();
    drop(history);
    lose_manifest(&root);
    let report = apply(&root);
    assert!(report.is_repaired, "{report:#?}");
    let named = report.findings.iter().find(|finding| finding.path.ends_with(format!("segment-{own:016x}")));
    let named = named.unwrap_or_else(|| panic!("{report:#?}"));
    assert_eq!((named.dropped, named.remedy), (Count::AtMost(40), Remedy::Dropped));
    let history = open(&root);
    assert!(rules(&history, &trigger(), &uuids(0..40), START).iter().all(|rule| *rule == "R8"));
    assert!(rules(&history, &trigger(), &uuids(100..130), START).iter().all(|rule| *rule == "R11"));
    // The numbers that the job reserved are still its own, and it may be committed.
    common::begin(&history, &trigger(), &uuids(200..230), START);
    history.pin("orders").unwrap();
    history.commit(&trigger(), &job, &[receipt]).unwrap();
    assert!(rules(&history, &trigger(), &uuids(0..40), START).iter().all(|rule| *rule == "R11"));
    assert!(rules(&history, &trigger(), &uuids(200..230), START).iter().all(|rule| *rule == "R11"));
    history.verify("orders", &mut |_, _| Ok(())).unwrap();
}

#[test]
fn what_was_staged_and_committed_outlives_the_loss_of_the_manifest() {
    for dies_before_tidying in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("h");
        let history = open(&root);
        let (job, receipt) = staged(&root, &history);
        let from = file_of(&space(&root), "new");
        let bytes = std::fs::read(&from).unwrap();
        history.commit(&trigger(), &job, &[receipt]).unwrap();
        drop(history);
        if dies_before_tidying {
            std::fs::write(from, bytes).unwrap();
        }
        lose_manifest(&root);
        let report = apply(&root);
        assert!(report.is_repaired, "{report:#?}");
        let history = open(&root);
        assert!(rules(&history, &trigger(), &uuids(0..40), START).iter().all(|rule| *rule == "R11"), "{report:#?}");
    }
}

#[test]
fn a_trigger_whose_files_are_all_gone_is_named_and_becomes_one_that_was_never_used() {
    let store = Store::new();
    let gone = now(&store.root).into_keys().find(|path| path.to_string_lossy().contains("triggers/orders-")).unwrap();
    std::fs::remove_dir_all(gone.parent().unwrap()).unwrap();
    let planned = look(&store.root);
    assert!(verdicts(&store.root, true).is_err());
    let report = apply(&store.root);
    assert_eq!(format!("{:?}", report.findings), format!("{:?}", planned.findings));
    assert_eq!((report.findings.len(), report.is_repaired), (1, true), "{report:#?}");
    let finding = &report.findings[0];
    assert_eq!((finding.trigger.as_deref(), finding.remedy), (Some("orders"), Remedy::Dropped));
    assert_eq!(finding.dropped, Count::Unknown);
    assert!(look(&store.root).findings.is_empty());
    let kept = now(&report.aside.unwrap());
    assert!(kept.values().any(|bytes| bytes == b"orders"), "its name is kept");
    let history = open(&store.root);
    assert_eq!(rules(&history, &named("orders"), &["urn:text:0"], START), ["R8"]);
    common::begin(&history, &named("orders"), &["urn:text:0"], START);
    drop(history);
    assert!(look(&store.root).findings.is_empty());
}
