//! Repairing a history in a bucket that lost objects, or whose objects are damaged: what is lost is
//! said, and the rest is served again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::harness::{DAY, Ids, START, begin, rules, trigger, uuids};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::objects::ObjectStore;
use dochistory_core::protocols::mapper::{Mapper, MapperSettings, Texts, Untils};
use dochistory_core::repair::{Count, Options, Remedy, Report, repair_objects};
use dochistory_core::testing::objects::{SimulatedObjects, Weather};

fn open(objects: &SimulatedObjects, replica: &Path) -> History {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    History::open_objects(Arc::new(objects.clone()), replica, &options).unwrap()
}

/// Two segments of completed ids, and one id in the log.
fn made(replica: &Path) -> SimulatedObjects {
    let objects = SimulatedObjects::new(1, Weather::default());
    let history = open(&objects, replica);
    for part in 0..2 {
        let begun = begin(&history, &trigger(), &uuids(part * 50..part * 50 + 50), START + part as i64 * DAY);
        begun.claim.unwrap().complete(None).unwrap();
    }
    begin(&history, &trigger(), &["last"], START).claim.unwrap().complete(None).unwrap();
    objects
}

fn segments(objects: &SimulatedObjects) -> Vec<String> {
    objects.names().into_iter().filter(|name| name.contains("/data-") && name.contains("segment")).collect()
}

fn repair(objects: &SimulatedObjects, directory: &Path, apply: bool) -> dochistory_core::Result<Report> {
    let store: Arc<dyn ObjectStore> = Arc::new(objects.clone());
    std::fs::create_dir_all(directory).unwrap();
    repair_objects(&store, directory, &Options { apply, ..Options::default() }, &mut |_, _| Ok(()))
}

#[test]
fn what_is_whole_needs_no_repair() {
    let directory = tempfile::tempdir().unwrap();
    let objects = made(&directory.path().join("1"));
    let (before, puts) = (objects.names(), objects.requests().puts);
    for apply in [false, true] {
        let report = repair(&objects, &directory.path().join(format!("repair-{apply}")), apply).unwrap();
        assert!(report.findings.is_empty() && !report.is_repaired, "{report:?}");
    }
    assert_eq!((objects.names(), objects.requests().puts), (before, puts));
}

#[test]
fn a_lost_segment_is_said_and_the_rest_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let objects = made(&directory.path().join("1"));
    let alive = open(&objects, &directory.path().join("alive"));
    assert_eq!(rules(&alive, &trigger(), &["last"], START), ["R9"]);
    let lost = segments(&objects)[0].clone();
    objects.lose(&lost);
    let before = objects.names();
    let told = repair(&objects, &directory.path().join("look"), false).unwrap();
    let [finding] = &told.findings[..] else { panic!("{told:?}") };
    assert_eq!((finding.remedy, finding.dropped), (Remedy::Dropped, Count::Exactly(50)));
    assert_eq!(finding.path, Path::new(&lost));
    assert_eq!(objects.names(), before, "a look changes nothing");
    let done = repair(&objects, &directory.path().join("apply"), true).unwrap();
    assert!(done.is_repaired, "{done:?}");
    for history in [&open(&objects, &directory.path().join("2")), &alive] {
        let found = rules(history, &trigger(), &uuids(0..100), START);
        assert_eq!(found.iter().filter(|rule| **rule == "R9").count(), 50);
        assert_eq!(found.iter().filter(|rule| **rule == "R8").count(), 50);
        assert_eq!(rules(history, &trigger(), &["last"], START), ["R9"]);
    }
    assert!(begin(&alive, &trigger(), &["next"], START).claim.is_some());
    let again = repair(&objects, &directory.path().join("again"), false).unwrap();
    assert!(again.findings.is_empty(), "{again:?}");
    // Collecting leaves nothing undone.
    alive.collect_objects("orders", Duration::ZERO).unwrap();
    assert_eq!(
        rules(&open(&objects, &directory.path().join("3")), &trigger(), &["last", "next"], START),
        ["R9", "R11"]
    );
}

#[test]
fn a_damaged_segment_is_kept_and_goes_out_of_use() {
    let directory = tempfile::tempdir().unwrap();
    let objects = made(&directory.path().join("1"));
    objects.damage(&segments(&objects)[0], 8 * 5000);
    let done = repair(&objects, &directory.path().join("apply"), true).unwrap();
    assert!(done.is_repaired, "{done:?}");
    let kept: Vec<String> = objects.names().into_iter().filter(|name| name.starts_with("repaired-")).collect();
    assert!(kept.iter().any(|name| name.contains("segment-")), "{kept:?}");
    assert!(done.aside.unwrap().to_string_lossy().contains("repaired-"));
    let history = open(&objects, &directory.path().join("2"));
    assert!(rules(&history, &trigger(), &uuids(0..100), START).iter().filter(|rule| **rule == "R9").count() >= 50);
    assert!(history.verify("orders", &mut |_, _| Ok(())).unwrap() > 0);
}

#[test]
fn a_repair_beside_a_writer_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let objects = made(&directory.path().join("1"));
    let writer = open(&objects, &directory.path().join("writer"));
    begin(&writer, &trigger(), &["a"], START);
    objects.lose(&segments(&objects)[0]);
    let store: Arc<dyn ObjectStore> = Arc::new(objects.clone());
    let place = directory.path().join("apply");
    std::fs::create_dir_all(&place).unwrap();
    let mut met = false;
    let refused = repair_objects(&store, &place, &Options { apply: true, ..Options::default() }, &mut |_, _| {
        if !std::mem::replace(&mut met, true) {
            begin(&writer, &trigger(), &["b"], START);
        }
        Ok(())
    });
    assert_eq!(refused.unwrap_err().code(), "DH-LOCKED");
    assert!(repair(&objects, &directory.path().join("again"), true).unwrap().is_repaired);
    let cold = open(&objects, &directory.path().join("2"));
    assert_eq!(rules(&cold, &trigger(), &["a", "b", "last"], START), ["R11", "R11", "R9"]);
}

#[test]
fn a_lost_gate_is_beyond_repair_and_said_so() {
    let directory = tempfile::tempdir().unwrap();
    let objects = made(&directory.path().join("1"));
    for gate in objects.names().iter().filter(|name| name.contains("/gate-")) {
        objects.lose(gate);
    }
    let before = objects.names();
    let told = repair(&objects, &directory.path().join("apply"), true).unwrap();
    let [finding] = &told.findings[..] else { panic!("{told:?}") };
    assert_eq!(finding.remedy, Remedy::Impossible);
    assert!(finding.reason.contains("[DH-MISSING]") && finding.meaning.contains("restore"), "{finding:?}");
    assert!(!told.is_repaired);
    assert_eq!(objects.names(), before);
}

#[test]
fn a_lost_file_of_a_mapper_is_repaired_as_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let objects = SimulatedObjects::new(1, Weather::default());
    let history = open(&objects, &directory.path().join("1"));
    let mapper = |history: &History| Mapper::new(history, "jms", MapperSettings::default()).unwrap();
    let create = |ids: &[String]| {
        let column = Ids::new(ids);
        let documents = column.documents();
        let own = mapper(&history);
        let values = Texts::of(Some(&documents.ids[0]), ids.len()).unwrap();
        own.create(&own.values().ids(&documents.ids[0]), &values, Untils::All(START + DAY), START).unwrap();
    };
    create(&uuids(0..60));
    let lost: Vec<String> = objects.names().into_iter().filter(|name| name.contains("/data-")).collect();
    create(&uuids(100..103));
    for name in &lost {
        objects.lose(name);
    }
    let done = repair(&objects, &directory.path().join("apply"), true).unwrap();
    assert!(done.is_repaired && done.findings.iter().all(|one| one.map.is_some()), "{done:?}");
    let cold = mapper(&open(&objects, &directory.path().join("2")));
    let column = Ids::new(&uuids(0..103));
    let documents = column.documents();
    let known = cold.lookup(&cold.values().ids(&documents.ids[0]), START).unwrap();
    let mapped: Vec<usize> = (0..103).filter(|row| known.mapped[*row]).collect();
    assert_eq!(mapped, [100, 101, 102]);
}

#[test]
fn a_repair_whose_requests_fail_is_done_or_not_begun() {
    let (mut done, mut failed) = (0, 0);
    for seed in 0..40 {
        let directory = tempfile::tempdir().unwrap();
        let objects = made(&directory.path().join("1"));
        objects.lose(&segments(&objects)[0]);
        objects.set_weather(Weather { failures: 4 + seed % 9, duplicates: 9, stale_lists: 0, sleeps: 0 });
        match repair(&objects, &directory.path().join("apply"), true) {
            Ok(report) => {
                assert!(report.is_repaired, "{report:?}");
                done += 1;
            }
            Err(_) => failed += 1,
        }
        objects.set_weather(Weather::default());
        for _ in 0..60 {
            drop(ObjectStore::list(&objects, "nothing"));
        }
        repair(&objects, &directory.path().join("again"), true).unwrap();
        let cold = open(&objects, &directory.path().join("2"));
        let found = rules(&cold, &trigger(), &uuids(0..100), START);
        assert_eq!(found.iter().filter(|rule| **rule == "R9").count(), 50, "seed {seed}");
        assert_eq!(rules(&cold, &trigger(), &["last"], START), ["R9"], "seed {seed}");
    }
    println!("{done} repairs went through, {failed} did not");
    assert!(done > 5, "{done}");
}
