//! Logs in the files of logs that are over: nothing acknowledged is lost, whatever of a file's old
//! content a crash leaves; and nobody who has a log open meets another one in its file.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod harness;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dochistory_core::history::{History, OpenOptions};
use dochistory_core::io::FileSystem;
use dochistory_core::protocols::trigger::{Call, OnReplay};
use dochistory_core::repair::{Options, repair_on};
use dochistory_core::testing::lower_limits;
use dochistory_core::testing::simulated::Simulated;
use dochistory_core::{Error, Purge, Result};
use harness::forwarding::{Changes, Forwarding};
use harness::{DAY, Ids, START, rules, seal, setting, trigger, uuids};

const ROOT: &str = "/history";
/// Documents of a batch. A log is full with three batches.
const BATCH: u64 = 5;

/// What is known of a document: the rules that may decide on it.
type Known = BTreeMap<String, Vec<&'static str>>;

const NEW: &str = "R8";
const COMPLETED: &str = "R9";
const IN_DOUBT: &str = "R11";

fn opened(system: &Simulated, read_only: bool) -> Result<History> {
    let options = OpenOptions { create: !read_only, read_only, ..OpenOptions::default() };
    History::open_on(Arc::new(system.clone()), Path::new(ROOT), &options)
}

/// One batch: begun, completed whole or by rows or not at all, and the log before put into
/// segments.
fn round(history: &History, number: u64, known: &mut Known) -> Result<()> {
    let ids = uuids(number * BATCH..(number + 1) * BATCH);
    let may_be = |known: &mut Known, some: &[String], rules: &[&'static str]| {
        known.extend(some.iter().map(|id| (id.clone(), rules.to_vec())));
    };
    may_be(known, &ids, &[NEW, IN_DOUBT]);
    let documents = Ids::new(&ids);
    let mut call = Call::at(START);
    let begun = history.begin(&trigger(), &documents.documents(), &mut call, None, OnReplay::ByRules)?;
    // Where the history does not answer, the verdicts say so.
    let Some(claim) = begun.claim else { return Err(Error::State("nothing was begun".into())) };
    may_be(known, &ids, &[IN_DOUBT]);
    let ended = match number % 3 {
        0 => &ids[..],
        1 => &ids[1..4],
        _ => &ids[..0],
    };
    may_be(known, ended, &[IN_DOUBT, COMPLETED]);
    match number % 3 {
        0 => claim.complete(None)?,
        1 => claim.complete(Some(&[1, 2, 3]))?,
        _ => {}
    }
    may_be(known, ended, &[COMPLETED]);
    if history.is_seal_due("orders") {
        history.seal("orders")?;
    }
    Ok(())
}

fn check(history: &History, known: &Known) {
    let ids: Vec<_> = known.keys().collect();
    for (rule, (id, may_be)) in rules(history, &trigger(), &ids, START).iter().zip(known) {
        assert!(may_be.contains(rule), "{id} is {rule}, not {may_be:?}");
    }
}

/// What the check found holds from now on: a document that was begun stays so.
fn settle(history: &History, known: &mut Known) {
    let ids: Vec<_> = known.keys().cloned().collect();
    for (rule, id) in rules(history, &trigger(), &ids, START).iter().zip(ids) {
        known.insert(id, vec![*rule]);
    }
}

fn names(system: &Simulated, prefix: &str) -> Vec<PathBuf> {
    let triggers = Path::new(ROOT).join("triggers");
    let Some(space) = system.list(&triggers).unwrap().pop() else { return Vec::new() };
    let space = triggers.join(space);
    let mut names = system.list(&space).unwrap();
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names.into_iter().map(|name| space.join(name)).collect()
}

/// Whether the live log stands in the file of another one.
fn is_recycled(system: &Simulated) -> bool {
    let mut flag = [0];
    let log = system.open(names(system, "log-").last().unwrap(), false).unwrap();
    log.read_at(&mut flag, 56).unwrap();
    flag[0] == 1
}

/// A history whose live log is in the file of another one, with one more file kept; what it knows,
/// and the number of its last batch.
fn grown(machine: &Simulated) -> (History, Known, u64) {
    let (history, mut known, mut number) = (opened(machine, false).unwrap(), Known::new(), 0);
    while names(machine, "old-").is_empty() || !is_recycled(machine) {
        number += 1;
        round(&history, number, &mut known).unwrap();
    }
    (history, known, number)
}

/// A life of `rounds` batches that ends at the process's change `crash_at`; answers its changes.
fn life(seed: u64, rounds: u64, crash_at: u64, has_power: bool) -> u64 {
    let machine = Simulated::new(seed);
    let process = machine.process();
    process.crash_at(crash_at);
    let (mut known, mut at) = (Known::new(), 0);
    let lived = opened(&process, false).and_then(|history| {
        while at < rounds {
            at += 1;
            round(&history, at, &mut known)?;
        }
        Ok(())
    });
    assert!(lived.is_ok() || process.is_dead(), "{lived:?}");
    // And once more, from what the crash left, with a shorter life.
    for again in [1, 2] {
        if !has_power || again == 2 {
            machine.lose_power(seed.wrapping_mul(31) + again);
        }
        let process = machine.process();
        let history = opened(&process, false).unwrap();
        check(&history, &known);
        settle(&history, &mut known);
        for _ in 0..7 {
            at += 1;
            round(&history, at, &mut known).unwrap();
        }
        check(&history, &known);
        history.verify("orders", &mut |_, _| Ok(())).unwrap();
    }
    process.changes()
}

#[test]
fn no_crash_takes_an_old_frame_for_a_new_one_or_loses_one() {
    lower_limits();
    let (rounds, seeds) = (17, setting("DOCHISTORY_RECYCLED_SEEDS", 6));
    let changes = life(0, rounds, u64::MAX, true);
    for crash in 1..=changes {
        for seed in 0..seeds {
            for has_power in [false, true] {
                life(seed * 1000 + crash, rounds, crash, has_power);
            }
        }
    }
}

#[test]
fn a_log_takes_the_file_of_the_one_before_the_last() {
    lower_limits();
    let machine = Simulated::new(5);
    let (history, mut known) = (opened(&machine, false).unwrap(), Known::new());
    let mut recycled = 0;
    for number in 0..30 {
        round(&history, number, &mut known).unwrap();
        recycled += u64::from(is_recycled(&machine));
        assert!(names(&machine, "old-").len() <= 1);
    }
    assert!(recycled > 15, "{recycled} of 30");
    check(&history, &known);
    // Another handle reads it, and one that writes goes on in it.
    assert!(is_recycled(&machine));
    check(&opened(&machine, true).unwrap(), &known);
    let other = opened(&machine, false).unwrap();
    round(&other, 30, &mut known).unwrap();
    check(&history, &known);
}

#[test]
fn a_log_that_somebody_reads_keeps_its_file() {
    lower_limits();
    let machine = Simulated::new(5);
    let (history, mut known) = (opened(&machine, false).unwrap(), Known::new());
    let mut number = 0;
    for _ in 0..10 {
        number += 1;
        round(&history, number, &mut known).unwrap();
    }
    let reader = opened(&machine.process(), true).unwrap();
    check(&reader, &known);
    // The reader has a log open that is over soon.
    let before = known.clone();
    let open = |of: &Simulated| of.identify(names(of, "log-").last().unwrap()).unwrap();
    let (mut held, mut ended) = (open(&machine), 0);
    for _ in 0..20 {
        number += 1;
        round(&history, number, &mut known).unwrap();
        let is_over = open(&machine) != held;
        ended += u64::from(is_over);
        let kept = names(&machine, "old-").into_iter().chain(names(&machine, "log-").pop().filter(|_| is_over));
        assert!(kept.into_iter().all(|path| machine.identify(&path).unwrap() != held), "its file was taken");
        if number % 7 == 0 {
            check(&reader, &known);
            held = open(&machine);
        }
    }
    assert!(ended > 3);
    check(&reader, &before);
    check(&reader, &known);
}

/// The machine's file system, of which nobody knows whether it is local.
#[derive(Clone, Debug, Default)]
struct Unknown;

impl Changes for Unknown {}

#[test]
fn where_locks_may_be_lost_no_file_is_taken() {
    lower_limits();
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let history = History::open_on(Arc::new(Forwarding(Unknown)), directory.path(), &options).unwrap();
    let mut known = Known::new();
    for number in 0..20 {
        round(&history, number, &mut known).unwrap();
        let space = std::fs::read_dir(directory.path().join("triggers")).unwrap().next().unwrap().unwrap();
        let names = std::fs::read_dir(space.path()).unwrap().map(|name| name.unwrap());
        for path in names.map(|name| name.path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(!name.starts_with("old-"));
            assert!(!name.starts_with("log-") || std::fs::read(&path).unwrap()[56] == 0);
        }
    }
    check(&history, &known);
}

#[test]
fn what_is_kept_goes_once_nobody_writes() {
    lower_limits();
    let machine = Simulated::new(5);
    let (history, mut known, mut number) = grown(&machine);
    assert!(history.release_if_idle(), "somebody wrote before the first call");
    assert_eq!(names(&machine, "old-").len(), 1);
    assert!(!history.release_if_idle());
    assert!(names(&machine, "old-").is_empty());
    for _ in 0..10 {
        number += 1;
        round(&history, number, &mut known).unwrap();
    }
    check(&opened(&machine, true).unwrap(), &known);
    drop(history);
    assert!(names(&machine, "old-").is_empty());
    // A handle that ends leaves nothing; of one that was killed, maintenance collects it.
    for is_killed in [false, true] {
        let process = machine.process();
        let history = opened(&process, false).unwrap();
        while names(&machine, "old-").is_empty() {
            number += 1;
            round(&history, number, &mut known).unwrap();
        }
        if is_killed {
            process.kill();
        }
        drop(history);
        assert_eq!(names(&machine, "old-").len(), usize::from(is_killed));
    }
    let history = opened(&machine, false).unwrap();
    history.maintain("orders", false, &mut |_, _| Ok(())).unwrap();
    assert!(names(&machine, "old-").is_empty());
    check(&history, &known);
}

#[test]
fn a_purge_leaves_nothing_of_an_older_log() {
    lower_limits();
    for (is_written, is_by_another) in [(false, false), (false, true), (true, false), (true, true)] {
        let machine = Simulated::new(5);
        let (history, mut known, mut number) = grown(&machine);
        // In the log, or in segments alone.
        if !is_written {
            seal(&history, "orders");
        }
        let other = opened(&machine.process(), false).unwrap();
        let by = if is_by_another { &other } else { &history };
        let purged = by.purge(&trigger(), Purge::at(START + 40 * DAY)).unwrap();
        assert!(purged.entries > 0 && names(&machine, "old-").is_empty());
        let log = machine.open(names(&machine, "log-").last().unwrap(), false).unwrap();
        let mut bytes = vec![0; log.len().unwrap() as usize];
        log.read_at(&mut bytes, 0).unwrap();
        assert!(bytes[64..].iter().all(|byte| *byte == 0));
        known.clear();
        for _ in 0..10 {
            number += 1;
            round(&history, number, &mut known).unwrap();
        }
        check(&other, &known);
    }
}

#[test]
fn what_has_nothing_to_give_back_is_left_alone() {
    lower_limits();
    let machine = Simulated::new(5);
    let (history, mut known) = (opened(&machine, false).unwrap(), Known::new());
    round(&history, 0, &mut known).unwrap();
    assert!(!is_recycled(&machine));
    let before = machine.changes();
    while history.release_if_idle() {}
    assert!(!history.release_if_idle());
    assert_eq!(machine.changes(), before, "no lock was taken");
    let mut number = 0;
    while !is_recycled(&machine) {
        number += 1;
        round(&history, number, &mut known).unwrap();
    }
    while history.release_if_idle() {}
    let before = machine.changes();
    assert!(!history.release_if_idle());
    assert_eq!(machine.changes(), before, "once is enough");
}

#[test]
fn giving_back_waits_for_nobody() {
    lower_limits();
    let machine = Simulated::new(5);
    let (history, known, _) = grown(&machine);
    history.release_if_idle();
    let turn = names(&machine, "turn").pop().unwrap();
    let other = machine.process().open(&turn, true).unwrap();
    assert!(other.try_lock().unwrap());
    // Another process has the lock: the rest of the log's file is kept, and asked about again.
    assert!(history.release_if_idle());
    other.unlock().unwrap();
    // The place in the queue for the lock is given up meanwhile.
    while history.release_if_idle() {
        std::thread::yield_now();
    }
    // Once is enough, so the lock is not asked for again.
    other.lock().unwrap();
    assert!(!history.release_if_idle());
    other.unlock().unwrap();
    check(&opened(&machine, true).unwrap(), &known);
}

/// Whether a name of a log refers to the file of another one.
fn is_anothers(system: &Simulated, path: &Path) -> bool {
    let mut id = [0; 8];
    let file = system.open(path, false).unwrap();
    file.read_at(&mut id, 32).is_ok()
        && id != [0; 8]
        && !path.to_string_lossy().ends_with(&format!("{:016x}", u64::from_le_bytes(id)))
}

#[test]
fn the_old_name_of_a_file_that_was_taken_tells_of_no_damage() {
    lower_limits();
    let mut found = 0;
    for crash in 90..170 {
        for seed in 0..24 {
            let machine = Simulated::new(seed + 1);
            let process = machine.process();
            process.crash_at(crash);
            let mut known = Known::new();
            drop(
                opened(&process, false)
                    .and_then(|history| (0..17).try_for_each(|number| round(&history, number, &mut known))),
            );
            machine.lose_power(seed * 31 + crash);
            let process = machine.process();
            let Some(manifest) = names(&process, "manifest-").pop() else { continue };
            let mut taken = names(&process, "log-");
            taken.retain(|log| is_anothers(&process, log));
            if taken.is_empty() {
                continue;
            }
            found += 1;
            process.open(&manifest, true).unwrap().write_at(&[0xff; 8], 48).unwrap();
            let options = Options { apply: true, ..Options::default() };
            let report = repair_on(Arc::new(process.clone()), Path::new(ROOT), &options, &mut |_, _| Ok(())).unwrap();
            assert!(report.is_repaired);
            let of_taken = report.findings.iter().find(|finding| taken.contains(&finding.path));
            assert!(of_taken.is_none(), "{of_taken:?}");
            check(&opened(&process, true).unwrap(), &known);
        }
    }
    assert!(found > 0);
}
