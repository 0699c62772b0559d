//! Loads, maintenance and copies of a history in a bucket, while others write to it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::harness::buckets::calm;
use crate::harness::{Ids, START, rules, trigger, uuids};
use dochistory_core::columns::FlagColumn;
use dochistory_core::history::{History, OpenOptions, copy_from_objects};
use dochistory_core::objects::{Cached, ObjectStore};
use dochistory_core::testing::objects::{SimulatedObjects, Weather};

fn open(store: Arc<dyn ObjectStore>, replica: &Path) -> History {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    History::open_objects(store, replica, &options).unwrap()
}

fn load(history: &History, numbers: std::ops::Range<u64>) {
    let ids = Ids::new(&uuids(numbers.clone()));
    let times: Vec<i64> = numbers.map(|_| START).collect();
    let mut load = history.load(&trigger()).unwrap();
    load.push(&ids.documents(), &times, i64::MAX, FlagColumn::Absent).unwrap();
    load.finish().unwrap();
}

fn all_are(history: &History, numbers: std::ops::Range<u64>, rule: &str) {
    let found = rules(history, &trigger(), &uuids(numbers), START);
    assert!(found.iter().all(|one| *one == rule), "{found:?}");
}

#[test]
fn loads_and_maintenance_pass_between_other_commits() {
    let (objects, directory) = calm();
    let is_over = AtomicBool::new(false);
    let begun = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let history = open(Arc::new(objects.clone()), &directory.path().join("other"));
            let mut begun = 1000;
            while !is_over.load(Ordering::Relaxed) || begun < 1050 {
                let claim = crate::harness::begin(&history, &trigger(), &uuids(begun..begun + 1), START).claim;
                claim.unwrap().complete(None).unwrap();
                begun += 1;
            }
            begun
        });
        let history = open(Arc::new(objects.clone()), &directory.path().join("own"));
        for round in 0..5 {
            load(&history, round * 100..round * 100 + 100);
            history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
            history.collect_objects("orders", Duration::ZERO).unwrap();
            all_are(&history, 0..round * 100 + 100, "R9");
        }
        is_over.store(true, Ordering::Relaxed);
        other.join().unwrap()
    });
    let cold = open(Arc::new(objects.clone()), &directory.path().join("cold"));
    all_are(&cold, 0..500, "R9");
    all_are(&cold, 1000..begun, "R9");
    assert!(cold.verify("orders", &mut |_, _| Ok(())).unwrap() > 0);
}

#[test]
fn a_copy_holds_the_same_in_a_directory_and_a_bucket() {
    let (objects, directory) = calm();
    let first = open(Arc::new(objects.clone()), &directory.path().join("first"));
    load(&first, 0..100);
    let open_claim = crate::harness::begin(&first, &trigger(), &uuids(100..120), START).claim.unwrap();
    let home = directory.path().join("home");
    assert_eq!(copy_from_objects(Arc::new(objects), &home).unwrap(), ["orders"]);
    open_claim.complete(None).unwrap();

    let copy = History::open(&home, &OpenOptions::default()).unwrap();
    assert_eq!(copy.id(), first.id());
    all_are(&copy, 0..100, "R9");
    all_are(&copy, 100..120, "R11");
    crate::harness::begin(&copy, &trigger(), &uuids(120..125), START).claim.unwrap().complete(None).unwrap();

    let (other, _kept) = calm();
    let store: Arc<dyn ObjectStore> = Arc::new(other);
    copy.copy_to_objects(&store).unwrap();
    let again = open(store.clone(), &directory.path().join("again"));
    assert_eq!(again.id(), first.id());
    all_are(&again, 0..100, "R9");
    all_are(&again, 100..120, "R11");
    all_are(&again, 120..125, "R9");
    all_are(&again, 125..130, "R8");
    crate::harness::begin(&again, &trigger(), &uuids(125..130), START).claim.unwrap().complete(None).unwrap();
    all_are(&open(store.clone(), &directory.path().join("cold")), 120..130, "R9");
    let refused = copy.copy_to_objects(&store).unwrap_err().to_string();
    assert!(refused.contains("holds other objects"), "{refused}");
}

#[test]
fn a_cache_fetches_a_file_once_and_drops_what_is_damaged() {
    let (objects, directory) = calm();
    let cache = directory.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    let cached = |most: u64| Arc::new(Cached::new(objects.clone(), "place", &cache, most));
    load(&open(Arc::new(objects.clone()), &directory.path().join("writer")), 0..100);
    let gets = |replica: &str| {
        let before = objects.requests().gets;
        all_are(&open(cached(u64::MAX), &directory.path().join(replica)), 0..100, "R9");
        objects.requests().gets - before
    };
    let (first, second) = (gets("1"), gets("2"));
    assert!(second < first, "{first} gets, then {second}");
    let files: Vec<_> = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len() as u64, first - second);
    for file in &files {
        std::fs::write(file, b"damaged").unwrap();
    }
    assert_eq!(gets("3"), first);
    assert_eq!(gets("4"), second);
    // Nothing that a replica uses goes, and everything else does.
    let held = open(cached(0), &directory.path().join("5"));
    all_are(&held, 0..100, "R9");
    drop(held);
    for replica in 1..=5 {
        std::fs::remove_dir_all(directory.path().join(replica.to_string())).unwrap();
    }
    let (elsewhere, _kept) = calm();
    let other = Cached::new(elsewhere, "other place", &cache, 0);
    load(&open(Arc::new(other), &directory.path().join("6")), 100..110);
    assert!(files.iter().all(|file| !file.exists()));
}

#[test]
fn a_handle_leaves_compaction_to_one_that_is_at_work() {
    let objects = SimulatedObjects::new(1, Weather::default());
    let directory = tempfile::tempdir().unwrap();
    let history = open(Arc::new(objects.clone()), &directory.path().join("1"));
    for number in 0..4 {
        let begun = crate::harness::begin(&history, &trigger(), &uuids(number * 50..number * 50 + 50), START);
        begun.claim.unwrap().complete(None).unwrap();
    }
    let space = objects.names().into_iter().find(|name| name.ends_with("/hint")).unwrap();
    let other = format!("{}upkeep-00000000000000ff", space.trim_end_matches("hint"));
    ObjectStore::put(&objects, &other, b"").unwrap();
    let maintain = |all| history.maintain("orders", all, &mut |_, _| Ok(())).unwrap();
    assert_eq!(maintain(false).merged, (0, 0));
    assert!(objects.names().contains(&other));
    // It died.
    objects.wait(Duration::from_secs(11 * 60));
    assert!(maintain(false).merged.0 >= 4);
    assert!(!objects.names().iter().any(|name| name.contains("upkeep-")));
    assert_eq!(maintain(true).merged, (0, 0));
}

#[test]
fn who_wants_all_compacted_does_not_leave_it_to_another_handle() {
    let objects = SimulatedObjects::new(1, Weather::default());
    let directory = tempfile::tempdir().unwrap();
    let history = open(Arc::new(objects.clone()), &directory.path().join("1"));
    for number in 0..2 {
        load(&history, number * 50..number * 50 + 50);
    }
    let space = objects.names().into_iter().find(|name| name.ends_with("/hint")).unwrap();
    let other = format!("{}upkeep-00000000000000ff", space.trim_end_matches("hint"));
    ObjectStore::put(&objects, &other, b"").unwrap();
    let done = history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert!(done.merged.0 > 1 && done.merged.1 == 1, "{done:?}");
    assert!(objects.names().contains(&other));
    all_are(&history, 0..100, "R9");
}
