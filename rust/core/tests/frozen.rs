//! A log that was full: what it holds stays known, however it gets into segments, and whatever is
//! damaged meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use std::path::{Path, PathBuf};

use dochistory_core::history::History;
use dochistory_core::protocols::trigger::Call;
use dochistory_core::repair::{Options, Remedy, repair};
use dochistory_core::testing::lower_limits;
use dochistory_core::{Error, Purge, Replay, Replays, Transaction};
use harness::{DAY, Ids, START, begin, open, reading, rules, seal, trigger, uuids};

const BATCH: usize = 14;

/// A history with a frozen log of one claim, and another claim in the log behind it.
fn frozen() -> (tempfile::TempDir, PathBuf, Vec<String>) {
    lower_limits();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("h");
    let (history, ids) = (open(&root), uuids(0..2 * BATCH as u64));
    let first = begin(&history, &trigger(), &ids[..BATCH], START).claim.unwrap();
    // The log is full, and waits for one more operation: that could have been the claim's end.
    assert!(!history.is_seal_due("orders"));
    assert!(begin(&history, &trigger(), &ids[..1], START).claim.is_none());
    assert!(history.is_seal_due("orders"));
    // By places at first, which needs a newer log, and then in that.
    first.complete(Some(&[0, 1, 2])).unwrap();
    let second = begin(&history, &trigger(), &ids[BATCH..BATCH + 10], START + DAY).claim.unwrap();
    second.complete(Some(&[3, 9])).unwrap();
    second.release(Some(&[4])).unwrap();
    first.complete(Some(&[3])).unwrap();
    (directory, root, ids)
}

/// The rules of all ids that [`frozen`] leaves.
fn expected() -> Vec<&'static str> {
    let mut expected = vec!["R11"; BATCH + 10];
    expected.resize(2 * BATCH, "R8");
    for completed in [0, 1, 2, 3, BATCH + 3, BATCH + 9] {
        expected[completed] = "R9";
    }
    expected[BATCH + 4] = "R8";
    expected
}

fn logs(root: &Path) -> Vec<PathBuf> {
    let space = std::fs::read_dir(root.join("triggers")).unwrap().next().unwrap().unwrap().path();
    let mut logs: Vec<_> = std::fs::read_dir(space).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("log-"));
    logs.sort();
    logs
}

/// A history whose log is frozen now, with one claim of `BATCH` ids in it, and its logs.
fn with_two_logs() -> (tempfile::TempDir, PathBuf, Vec<String>, Vec<PathBuf>) {
    lower_limits();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("h");
    let (history, ids) = (open(&root), uuids(0..2 * BATCH as u64));
    begin(&history, &trigger(), &ids[..BATCH], START).claim.unwrap().complete(None).unwrap();
    begin(&history, &trigger(), &ids[BATCH..BATCH + 3], START).claim.unwrap().complete(None).unwrap();
    assert!(history.is_seal_due("orders"));
    let logs = logs(&root);
    assert_eq!(logs.len(), 2);
    (directory, root, ids, logs)
}

#[test]
fn a_log_of_batches_without_new_documents_is_full_as_well() {
    lower_limits();
    let directory = tempfile::tempdir().unwrap();
    let (history, ids) = (open(directory.path()), uuids(0..3));
    begin(&history, &trigger(), &ids, START).claim.unwrap().complete(None).unwrap();
    let again = |batch: i64| {
        let transaction = Transaction { application: "app".into(), batch };
        let (documents, mut call) = (Ids::new(&ids), Call::at(START));
        history.begin(&trigger(), &documents.documents(), &mut call, Some(&transaction), Replays::default()).unwrap()
    };
    for batch in 0..BATCH as i64 {
        again(batch).claim.unwrap().complete(None).unwrap();
    }
    assert!(history.is_seal_due("orders"));
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert!(!history.is_seal_due("orders") && logs(directory.path()).len() == 1);
    let last = BATCH as i64 - 1;
    for handle in [&history, &open(directory.path())] {
        assert_eq!(rules(handle, &trigger(), &ids, START), ["R9"; 3]);
        assert_eq!(handle.statistics("orders").unwrap().transactions, [("app".to_owned(), last, true)]);
    }
    assert_eq!(again(last).replay, Some(Replay::Finished));
}

#[test]
fn frozen_log_gives_the_same_verdicts_before_and_after_sealing() {
    let (_directory, root, ids) = frozen();
    let history = open(&root);
    let reader = History::open(&root, &reading()).unwrap();
    let check = |what: &str| {
        for handle in [&history, &reader, &open(&root)] {
            assert_eq!(rules(handle, &trigger(), &ids, START), expected(), "{what}");
            let mut listed = handle.entries("orders", None).unwrap();
            let mut keys = Vec::new();
            while let Some(batch) = listed.next_batch().unwrap() {
                keys.extend(batch.keys);
            }
            keys.sort();
            let mut known: Vec<_> = ids.iter().zip(expected()).filter(|(_, rule)| *rule != "R8").collect();
            known.sort();
            assert_eq!(keys, known.into_iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), "{what}");
            handle.verify("orders", &mut |_, _| Ok(())).unwrap();
        }
    };
    check("before");
    history.seal("orders").unwrap();
    assert!(!history.is_seal_due("orders"));
    check("after");
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    check("after maintenance");
    seal(&history, "orders");
    check("after a pin");
}

#[test]
fn frozen_log_sealed_by_two_handles_is_in_segments_once() {
    let (_directory, root, ids, _) = with_two_logs();
    let handles = [open(&root), open(&root)];
    std::thread::scope(|scope| {
        for handle in &handles {
            scope.spawn(|| handle.seal("orders").unwrap());
        }
    });
    let found = handles[0].statistics("orders").unwrap();
    assert!(found.segment_entries == 0 || found.segment_entries == BATCH as u64, "{found:?}");
    handles[0].seal("orders").unwrap();
    let found = handles[0].statistics("orders").unwrap();
    assert_eq!((found.segment_entries, found.log_entries), (BATCH as u64, 3));
    for handle in &handles {
        assert_eq!(rules(handle, &trigger(), &ids[..BATCH + 3], START), ["R9"; BATCH + 3]);
    }
}

#[test]
fn maintenance_of_all_waits_for_what_is_under_way() {
    for lock in ["seal", "upkeep"] {
        let (_directory, root, ids, logs) = with_two_logs();
        let history = open(&root);
        // What a thread or another process at work holds.
        let held = std::fs::File::create(logs[0].with_file_name(lock)).unwrap();
        held.lock().unwrap();
        std::thread::scope(|scope| {
            let maintained = scope.spawn(|| history.maintain("orders", true, &mut |_, _| Ok(())).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(100));
            // Without `all` it would have nothing to do.
            assert!(!maintained.is_finished(), "{lock}");
            held.unlock().unwrap();
            assert_eq!(maintained.join().unwrap().rolled_up, BATCH as u64, "{lock}");
        });
        let found = history.statistics("orders").unwrap();
        assert_eq!((found.segments, found.segment_entries), (1, BATCH as u64), "{lock}");
        assert_eq!(rules(&history, &trigger(), &ids[..BATCH + 3], START), ["R9"; BATCH + 3]);
    }
}

#[test]
fn compaction_does_not_complete_what_a_frozen_log_released() {
    lower_limits();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("h");
    let (history, ids) = (open(&root), uuids(0..100));
    let claim = begin(&history, &trigger(), &ids[..3], START).claim.unwrap();
    seal(&history, "orders");
    for (first, day) in [(3, 0), (6, 2)] {
        let other = begin(&history, &trigger(), &ids[first..first + 3], START + day * DAY).claim.unwrap();
        other.complete(None).unwrap();
        seal(&history, "orders");
    }
    // How the claim ended stands in the manifest as soon as the log is frozen, but what it released
    // before only there.
    claim.release(Some(&[0])).unwrap();
    claim.complete(None).unwrap();
    begin(&history, &trigger(), &ids[20..20 + BATCH], START + 2 * DAY).claim.unwrap().complete(None).unwrap();
    assert!(begin(&history, &trigger(), &ids[20..21], START + 2 * DAY).claim.is_none());
    assert!(history.is_seal_due("orders"));
    assert_eq!(rules(&open(&root), &trigger(), &ids[..6], START), ["R8", "R9", "R9", "R9", "R9", "R9"]);
    let held = std::fs::File::create(logs(&root)[0].with_file_name("seal")).unwrap();
    held.lock().unwrap();
    assert_eq!(history.statistics("orders").unwrap().segments, 3);
    history.maintain("orders", false, &mut |_, _| Ok(())).unwrap();
    assert_eq!(history.statistics("orders").unwrap().segments, 2, "both of the first day are one");
    assert!(history.is_seal_due("orders"), "the log is still frozen");
    assert_eq!(rules(&open(&root), &trigger(), &ids[..6], START), ["R8", "R9", "R9", "R9", "R9", "R9"]);
    held.unlock().unwrap();
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(rules(&open(&root), &trigger(), &ids[..6], START), ["R8", "R9", "R9", "R9", "R9", "R9"]);
}

#[test]
fn writer_seals_by_itself_where_nobody_seals_the_frozen_log() {
    lower_limits();
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let ids = uuids(0..400);
    for batch in ids.chunks(5) {
        begin(&history, &trigger(), batch, START).claim.unwrap().complete(None).unwrap();
        let found = history.statistics("orders").unwrap();
        assert!(found.log_entries <= 12 + 24 + 10, "{found:?}");
    }
    assert_eq!(rules(&open(&directory.path().join("h")), &trigger(), &ids, START), vec!["R9"; 400]);
}

#[test]
fn purge_takes_expired_entries_out_of_a_frozen_log() {
    let (_directory, root, ids, _) = with_two_logs();
    let history = open(&root);
    let purged = history.purge(&trigger(), Purge::at(START + 31 * DAY)).unwrap();
    assert_eq!(purged.entries, BATCH as u64 + 3);
    assert!(!history.is_seal_due("orders"));
    assert_eq!(rules(&history, &trigger(), &ids, START), vec!["R8"; 2 * BATCH]);
}

#[test]
fn partitions_that_became_wider_take_in_a_frozen_log() {
    lower_limits();
    let directory = tempfile::tempdir().unwrap();
    let (history, ids) = (open(directory.path()), uuids(0..2 * BATCH as u64));
    let mut brief = trigger();
    brief.history_time_to_live_us = DAY / 12;
    // Each in a partition of its own.
    for (step, id) in ids.chunks(1).enumerate() {
        begin(&history, &brief, id, START + step as i64 * DAY / 144).claim.unwrap().complete(None).unwrap();
    }
    assert!(history.is_seal_due("orders"));
    let before = history.statistics("orders").unwrap();
    let other = open(directory.path());
    assert_eq!(other.change(&trigger()).unwrap(), DAY / 12);
    seal(&history, "orders");
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    let after = history.statistics("orders").unwrap();
    assert_eq!((before.partition_us, after.partition_us), (DAY / 288, DAY));
    assert_eq!(after.segments, 1);
    assert_eq!(rules(&other, &trigger(), &ids, START), vec!["R9"; 2 * BATCH]);
}

#[test]
fn damaged_frozen_log_is_refused_and_then_repaired() {
    for (at, is_cut) in [(8, false), (80, false), (200, false), (200, true), (70, true)] {
        let (_directory, root, ids, logs) = with_two_logs();
        let mut bytes = std::fs::read(&logs[0]).unwrap();
        bytes[at] ^= 1;
        bytes.truncate(if is_cut { at } else { bytes.len() });
        std::fs::write(&logs[0], bytes).unwrap();
        let error = History::open(&root, &reading()).and_then(|history| history.statistics("orders")).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. } | Error::Open { .. }), "{at}: {error}");
        assert!(error.to_string().contains("log-"), "{error}");
        let report = repair(&root, &Options { apply: true, ..Options::default() }, &mut |_, _| Ok(())).unwrap();
        assert!(report.is_repaired, "{report:#?}");
        let found = rules(&open(&root), &trigger(), &ids[BATCH..BATCH + 3], START);
        assert_eq!(found, ["R9"; 3], "the log behind it is whole");
    }
}

#[test]
fn missing_frozen_log_is_damage_and_never_an_empty_history() {
    let (_directory, root, ids, logs) = with_two_logs();
    std::fs::remove_file(&logs[0]).unwrap();
    let error = History::open(&root, &reading()).and_then(|history| history.statistics("orders")).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    let report = repair(&root, &Options { apply: true, ..Options::default() }, &mut |_, _| Ok(())).unwrap();
    assert!(report.findings.iter().any(|finding| finding.remedy == Remedy::Dropped), "{report:#?}");
    assert_eq!(rules(&open(&root), &trigger(), &ids[BATCH..BATCH + 3], START), ["R9"; 3]);
}

#[test]
fn lost_manifest_leaves_the_ids_of_a_frozen_log_known() {
    let (_directory, root, ids, logs) = with_two_logs();
    let space = logs[0].parent().unwrap();
    for entry in std::fs::read_dir(space).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("manifest-") {
            std::fs::write(&path, b"no manifest").unwrap();
        }
    }
    let report =
        repair(&root, &Options { apply: true, trigger: Some("orders".into()), ..Options::default() }, &mut |_, _| {
            Ok(())
        })
        .unwrap();
    assert!(report.is_repaired, "{report:#?}");
    assert_eq!(rules(&open(&root), &trigger(), &ids[..BATCH + 3], START), ["R9"; BATCH + 3]);
}

#[test]
fn verify_goes_on_where_a_frozen_log_goes_into_segments() {
    lower_limits();
    let directory = tempfile::tempdir().unwrap();
    let (history, ids) = (open(directory.path()), uuids(0..BATCH as u64 + 8));
    begin(&history, &trigger(), &ids[..4], START).claim.unwrap().complete(None).unwrap();
    seal(&history, "orders");
    begin(&history, &trigger(), &ids[4..4 + BATCH], START).claim.unwrap().complete(None).unwrap();
    begin(&history, &trigger(), &ids[4 + BATCH..], START).claim.unwrap().complete(None).unwrap();
    assert!(history.is_seal_due("orders"));
    let reader = History::open(directory.path(), &reading()).unwrap();
    let before = logs(directory.path());
    reader.verify("orders", &mut |_, _| history.seal("orders")).unwrap();
    assert!(before.len() == 2 && logs(directory.path()) == before[1..], "it went meanwhile");
    assert_eq!(rules(&reader, &trigger(), &ids, START), vec!["R9"; ids.len()]);
}
