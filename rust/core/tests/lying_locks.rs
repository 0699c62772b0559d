//! File systems whose locks are given to everybody who asks: nothing is acknowledged twice, and
//! nothing that was acknowledged goes.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod harness;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dochistory_core::history::{History, OpenOptions};
use dochistory_core::io::{File, FileId, Mapping, ProcessId};
use dochistory_core::protocols::trigger::{Call, OnReplay};
use dochistory_core::testing::lower_limits;
use dochistory_core::testing::simulated::Simulated;
use dochistory_core::{Error, Result};
use harness::forwarding::{Changes, Forwarding};
use harness::{Ids, START, rules, trigger, uuids};

/// The machine's file system, whose locks lie once it is told to. A frame that is written while it
/// sleeps waits until it does not.
#[derive(Clone, Debug, Default)]
struct Lying {
    lies: Arc<AtomicBool>,
    sleeps: Arc<AtomicBool>,
    is_asleep: Arc<AtomicBool>,
}

#[derive(Debug)]
struct LyingFile(Lying, Arc<dyn File>);

impl Lying {
    fn is_lying(&self) -> bool {
        self.lies.load(Ordering::SeqCst)
    }
}

impl Changes for Lying {
    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(LyingFile(self.clone(), file))
    }
}

impl File for LyingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.read_at(buffer, offset)
    }

    fn read_up_to(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.1.read_up_to(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        while bytes.starts_with(b"DHFR") && self.0.sleeps.load(Ordering::SeqCst) {
            self.0.is_asleep.store(true, Ordering::SeqCst);
            std::thread::yield_now();
        }
        self.1.write_at(bytes, offset)
    }

    fn extend(&self, length: u64) -> io::Result<()> {
        self.1.extend(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.sync()
    }

    fn identify(&self) -> io::Result<FileId> {
        self.1.identify()
    }

    fn len(&self) -> io::Result<u64> {
        self.1.len()
    }

    fn map(&self, length: u64) -> io::Result<Mapping> {
        self.1.map(length)
    }

    fn try_lock(&self) -> io::Result<bool> {
        if self.0.is_lying() { Ok(true) } else { self.1.try_lock() }
    }

    fn unlock(&self) -> io::Result<()> {
        if self.0.is_lying() { Ok(()) } else { self.1.unlock() }
    }
}

/// The machine's file system, on which somebody else removes a file just before it is named: the
/// one whose turn it is, counted from when the field is set.
#[derive(Clone, Debug, Default)]
struct Removing(Arc<AtomicUsize>);

impl Changes for Removing {
    fn before_link(&self, from: &Path) {
        let counted = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |turn| turn.checked_sub(1));
        if counted == Ok(1) {
            std::fs::remove_file(from).unwrap();
        }
    }
}

fn creating() -> OpenOptions {
    OpenOptions { create: true, ..OpenOptions::default() }
}

/// Begin some ids; answers those that are new.
fn begin(history: &History, ids: &[String]) -> Result<Vec<String>> {
    let columns = Ids::new(ids);
    let begun = history.begin(&trigger(), &columns.documents(), &mut Call::at(START), None, OnReplay::ByRules)?;
    let rules = begun.verdicts.outcomes.iter().map(|outcome| outcome.rule());
    Ok(ids.iter().zip(rules).filter(|(_, rule)| *rule == "R8").map(|(id, _)| id.clone()).collect())
}

#[test]
fn a_lock_that_is_given_twice_is_refused_when_a_history_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let system = Lying::default();
    system.lies.store(true, Ordering::SeqCst);
    let made = History::open_on(Arc::new(Forwarding(system)), &directory.path().join("h"), &creating());
    assert!(matches!(made, Err(Error::Fenced { .. })), "{made:?}");
}

#[test]
fn lock_given_twice_is_refused_when_a_history_opens() {
    let system = Simulated::new(1);
    drop(History::open_on(Arc::new(system.clone()), Path::new("/h"), &creating()).unwrap());
    system.let_locks_lie();
    let opened = History::open_on(Arc::new(system.clone()), Path::new("/h"), &OpenOptions::default());
    assert!(matches!(opened, Err(Error::Fenced { .. })), "{opened:?}");
    let reading = OpenOptions { read_only: true, ..OpenOptions::default() };
    assert!(History::open_on(Arc::new(system), Path::new("/h"), &reading).is_ok());
}

#[test]
fn lock_given_twice_is_refused_by_a_triggers_first_write() {
    let system = Simulated::new(1);
    let history = History::open_on(Arc::new(system.clone()), Path::new("/h"), &creating()).unwrap();
    system.let_locks_lie();
    let begun = begin(&history, &uuids(0..1));
    assert!(matches!(begun, Err(Error::Fenced { .. })), "{begun:?}");
}

/// Which ids were acknowledged as new, and how often; and how many calls were refused.
#[derive(Debug, Default)]
struct Seen {
    new: BTreeMap<String, u32>,
    refused: u32,
}

#[test]
fn of_writers_that_no_lock_keeps_apart_no_two_get_an_id_as_new() {
    const WRITERS: usize = 3;
    let mut refused = 0;
    for _ in 0..20 {
        let (directory, system) = (tempfile::tempdir().unwrap(), Lying::default());
        let path = directory.path().join("h");
        let histories: Vec<History> = (0..WRITERS)
            .map(|_| History::open_on(Arc::new(Forwarding(system.clone())), &path, &creating()).unwrap())
            .collect();
        // All have found the locks to be good; from now on they are not.
        for history in &histories {
            begin(history, &uuids(0..1)).unwrap();
        }
        system.lies.store(true, Ordering::SeqCst);
        let (ids, seen) = (uuids(1..61), Mutex::new(Seen::default()));
        std::thread::scope(|scope| {
            for history in &histories {
                scope.spawn(|| {
                    for id in &ids {
                        match begin(history, std::slice::from_ref(id)) {
                            Ok(new) => {
                                for id in new {
                                    *seen.lock().unwrap().new.entry(id).or_default() += 1;
                                }
                            }
                            Err(Error::Fenced { .. }) => seen.lock().unwrap().refused += 1,
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
        });
        let seen = seen.into_inner().unwrap();
        assert!(seen.new.values().all(|times| *times == 1), "{seen:?}");
        // What was acknowledged stands, and is read by later openers.
        let reading = OpenOptions { read_only: true, ..OpenOptions::default() };
        let reader = History::open(&path, &reading).unwrap();
        let acknowledged: Vec<&String> = seen.new.keys().collect();
        let known = rules(&reader, &trigger(), &acknowledged, START);
        assert!(known.iter().all(|rule| *rule != "R8"), "{known:?} {seen:?}");
        refused += seen.refused;
    }
    assert!(refused > 0, "the writers never met");
}

#[test]
fn handle_goes_on_after_somebody_removed_its_unnamed_file() {
    lower_limits();
    let ids = uuids(0..60);
    for turn in 1.. {
        let (directory, system) = (tempfile::tempdir().unwrap(), Removing::default());
        let path = directory.path().join("h");
        let history = History::open_on(Arc::new(Forwarding(system.clone())), &path, &creating()).unwrap();
        for few in ids[..50].chunks(10) {
            begin(&history, few).unwrap();
            history.seal("orders").unwrap();
        }
        system.0.store(turn, Ordering::SeqCst);
        let maintained = history.maintain("orders", true, &mut |_, _| Ok(()));
        let is_over = system.0.swap(0, Ordering::SeqCst) > 0;
        // Nothing depends on that file yet, so the handle stays good.
        assert_eq!(begin(&history, &ids).unwrap(), ids[50..], "{maintained:?}");
        history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
        history.verify("orders", &mut |_, _| Ok(())).unwrap();
        if is_over {
            maintained.unwrap();
            assert!(turn > 3, "maintenance names several files");
            break;
        }
        // The file of a prepared manifest is written again.
        assert!(matches!(maintained, Ok(_) | Err(Error::Fenced { .. })), "{maintained:?}");
    }
}

#[test]
fn writer_that_died_with_the_lock_blocks_nobody() {
    for change in 1.. {
        let system = Simulated::new(change);
        let history = History::open_on(Arc::new(system.clone()), Path::new("/h"), &creating()).unwrap();
        begin(&history, &uuids(0..1)).unwrap();
        let other = system.process();
        system.crash_at(system.changes() + change);
        let begun = begin(&history, &uuids(1..2));
        let other = History::open_on(Arc::new(other), Path::new("/h"), &OpenOptions::default()).unwrap();
        begin(&other, &uuids(2..3)).unwrap();
        if !system.is_dead() {
            begun.unwrap();
            assert!(change > 3, "the writer dies at several steps while it holds the lock");
            break;
        }
    }
}

/// One machine of two that see one directory, whose locks do not reach the other: where the
/// directory is, or where it is mounted.
#[derive(Clone, Debug)]
enum Machine {
    Host,
    Guest(Lying),
}

impl Changes for Machine {
    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        match self {
            Self::Host => file,
            Self::Guest(lying) => lying.file(file),
        }
    }

    fn is_local(&self) -> bool {
        matches!(self, Self::Host)
    }

    fn is_alive(&self, _process: &ProcessId) -> Option<bool> {
        None
    }

    fn pause(&self, _duration: Duration) {}
}

#[test]
fn no_late_frame_of_another_machine_reaches_a_later_log() {
    lower_limits();
    let directory = tempfile::tempdir().unwrap();
    let at = |machine: Machine| History::open_on(Arc::new(Forwarding(machine)), directory.path(), &creating());
    let host = at(Machine::Host).unwrap();
    let mounted = Lying::default();
    let guest = at(Machine::Guest(mounted.clone())).unwrap();
    begin(&host, &uuids(0..2)).unwrap();
    begin(&guest, &uuids(2..4)).unwrap();
    mounted.lies.store(true, Ordering::SeqCst);
    mounted.sleeps.store(true, Ordering::SeqCst);
    let known: Vec<_> = std::thread::scope(|scope| {
        let late = scope.spawn(|| begin(&guest, &uuids(4..6)));
        while !mounted.is_asleep.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let mut known = Vec::new();
        for number in 2..40 {
            let ids = uuids(number * 5..(number + 1) * 5);
            if begin(&host, &ids).is_ok() {
                known.extend(ids);
            }
            if number < 36 && host.is_seal_due("orders") {
                host.seal("orders").unwrap();
            }
        }
        mounted.sleeps.store(false, Ordering::SeqCst);
        assert!(late.join().unwrap().is_err());
        known
    });
    assert!(known.len() > 100);
    drop(host);
    let again = at(Machine::Host).unwrap();
    assert!(rules(&again, &trigger(), &known, START).iter().all(|rule| *rule != "R8"));
    again.verify("orders", &mut |_, _| Ok(())).unwrap();
}
