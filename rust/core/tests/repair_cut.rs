//! A log that was cut, as a disk does that lost its tail: what a repair says of the loss is never
//! less than what is lost.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};

use common::store::{Files, Store, collect, restore};
use common::{Ids, START, open, rules, trigger, uuids};
use dochistory_core::history::values::{NewValue, Room};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::{Call, OnReplay};
use dochistory_core::repair::{Count, Options, Report, repair};

/// Few enough to stay in the log, also where the tests' limits apply.
const BATCH: usize = 8;
const BATCHES: usize = 16;
/// A frame's header, of which bytes 24 to 31 are left as they are.
const HEADER: usize = 96;

fn run(root: &Path, apply: bool) -> Report {
    repair(root, &Options { apply, ..Options::default() }, &mut |_, _| Ok(())).unwrap()
}

/// The upper bound that a report gives; none where it says that nothing tells.
fn most(report: &Report, count: fn(&dochistory_core::repair::Finding) -> Count) -> Option<u64> {
    report.findings.iter().try_fold(0u64, |sum, finding| match count(finding) {
        Count::Exactly(entries) | Count::AtMost(entries) => Some(sum.saturating_add(entries)),
        Count::AtLeast(_) | Count::Unknown => None,
    })
}

/// What is certainly lost, by the report.
fn least(report: &Report) -> u64 {
    let least = |count| match count {
        Count::Exactly(entries) | Count::AtLeast(entries) => entries,
        Count::AtMost(_) | Count::Unknown => 0,
    };
    report.findings.iter().map(|finding| least(finding.dropped)).sum()
}

/// A store whose log tells nearly everything, and where its frames end.
struct Cut {
    _directory: tempfile::TempDir,
    root: PathBuf,
    log: PathBuf,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    files: Files,
    /// The `turn` file as it was when the log was half as long.
    early: Vec<u8>,
    ids: Vec<String>,
}

impl Cut {
    fn new(fill: impl FnOnce(&Path, &[String], &mut dyn FnMut(&Path)) -> Vec<u8>, ids: Vec<String>) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let root = directory.path().join("h");
        let mut ends = Vec::new();
        let early = fill(&root, &ids, &mut |space| ends.push(end_of(&std::fs::read(file(space, "log")).unwrap())));
        let log = file(&space(&root), "log");
        let bytes = std::fs::read(&log).unwrap();
        let mut files = Files::new();
        collect(&root, &mut files);
        ends.dedup();
        Self { _directory: directory, root, log, bytes, ends, files, early, ids }
    }

    /// The places to cut at: before, at and within frames, within headers and payloads.
    fn places(&self) -> Vec<usize> {
        let offsets = |end: &usize| [*end, end + 8, end + 40, end + HEADER, end + HEADER + 24, end.saturating_sub(16)];
        let mut places: Vec<_> =
            self.ends.iter().flat_map(offsets).filter(|at| *at < *self.ends.last().unwrap()).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn damage(&self, what: &Damage) {
        restore(&self.root, &self.files);
        for entry in std::fs::read_dir(&self.root).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("repaired-") {
                std::fs::remove_dir_all(path).unwrap();
            }
        }
        let mut bytes = self.bytes[..what.at].to_vec();
        if what.as_zeros {
            bytes.resize(self.bytes.len(), 0);
        }
        std::fs::write(&self.log, bytes).unwrap();
        if what.forgets {
            std::fs::write(self.log.parent().unwrap().join("turn"), &self.early).unwrap();
        }
    }

    fn every(&self, mut step: impl FnMut(&Damage)) {
        for at in self.places() {
            for (as_zeros, forgets) in [(false, false), (true, false), (false, true)] {
                let damage = Damage { at, as_zeros, forgets };
                self.damage(&damage);
                step(&damage);
            }
        }
    }
}

#[derive(Debug)]
struct Damage {
    at: usize,
    /// The lost bytes read as zeros; else the file is shorter.
    as_zeros: bool,
    /// The record of how far the log is durable went back, too.
    forgets: bool,
}

fn end_of(log: &[u8]) -> usize {
    let last = log.iter().rposition(|byte| *byte != 0).unwrap();
    (last + 1).next_multiple_of(8)
}

fn space(root: &Path) -> PathBuf {
    let rooms = ["triggers", "mappers"].map(|room| root.join(room));
    let mut spaces = rooms.iter().filter_map(|room| std::fs::read_dir(room).ok()).flatten();
    spaces.next().unwrap().unwrap().path()
}

fn file(directory: &Path, kind: &str) -> PathBuf {
    let mut files = Files::new();
    collect(directory, &mut files);
    files.into_keys().filter(|path| Store::kind(path) == kind).max().unwrap()
}

/// Batches that end in every way there is, and some whose entries stand in a segment while their
/// ends stand in the log.
fn fill(root: &Path, ids: &[String], written: &mut dyn FnMut(&Path)) -> Vec<u8> {
    let history = open(root);
    let mut early = Vec::new();
    let begin = |batch: usize| {
        let rows = Ids::new(&ids[batch * BATCH..(batch + 1) * BATCH]);
        history.begin(&trigger(), &rows.documents(), &mut Call::at(START), None, OnReplay::ByRules).unwrap()
    };
    let in_segment: Vec<_> = (0..3).map(|batch| begin(batch).claim.unwrap()).collect();
    let snapshot = history.pin("orders").unwrap();
    history.unpin("orders", &snapshot).unwrap();
    let mut in_segment = in_segment.into_iter();
    for batch in 3..BATCHES {
        let claim = begin(batch).claim.unwrap();
        written(&space(root));
        match batch % 4 {
            0 => claim.release(None).unwrap(),
            1 => claim.complete(Some(&[0, 1, 2])).unwrap(),
            2 => claim.complete(None).unwrap(),
            _ => {}
        }
        if batch % 5 == 0 {
            in_segment.next().unwrap().complete(None).unwrap();
        }
        written(&space(root));
        if batch == BATCHES / 2 {
            early = std::fs::read(space(root).join("turn")).unwrap();
        }
    }
    early
}

#[test]
fn of_a_cut_log_no_less_is_named_than_is_lost() {
    let texts = (0..BATCHES * BATCH / 2).map(|number| format!("urn:t:{number}"));
    let ids: Vec<_> = uuids(0..(BATCHES * BATCH / 2) as u64).into_iter().chain(texts).collect();
    let store = Cut::new(fill, ids);
    let known = |root: &Path| {
        let history = History::open(root, &OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
        rules(&history, &trigger(), &store.ids, START)
    };
    let good = known(&store.root);
    let (mut seen, mut silent) = (0, 0);
    store.every(|damage| {
        let planned = run(&store.root, false);
        if planned.findings.is_empty() {
            assert!(damage.forgets, "{damage:?} is not noticed");
            silent += 1;
            return;
        }
        let report = run(&store.root, true);
        assert_eq!(format!("{:?}", planned.findings), format!("{:?}", report.findings), "{damage:?}");
        let found = known(&store.root);
        let changes = |to: &str| good.iter().zip(&found).filter(|(old, new)| old != new && **new == to).count() as u64;
        let (forgotten, in_doubt) = (changes("R8"), changes("R11"));
        assert_eq!(good.iter().zip(&found).filter(|(old, new)| old != new).count() as u64, forgotten + in_doubt);
        let dropped = most(&report, |finding| finding.dropped);
        let reopened = most(&report, |finding| finding.reopened);
        assert!(dropped.is_none_or(|most| forgotten <= most), "{damage:?}: {forgotten} forgotten\n{report:#?}");
        assert!(reopened.is_none_or(|most| in_doubt <= most), "{damage:?}: {in_doubt} in doubt\n{report:#?}");
        assert!(dropped.is_none(), "{damage:?}: nothing tells what stood behind\n{report:#?}");
        // What stood in a frame may have been released later, so what is lost is an entry, and not
        // always an id.
        assert!(least(&report) <= BATCH as u64, "{damage:?}: {report:#?}");
        seen += 1;
    });
    eprintln!("figure: cuts of a log = {seen}");
    assert!(seen >= 150 && silent > 0, "{seen} {silent}");
}

#[test]
fn of_a_log_damaged_before_its_last_frame_a_number_is_named_and_holds() {
    let store = Cut::new(fill, uuids(0..(BATCHES * BATCH) as u64));
    let known = |root: &Path| {
        let history = History::open(root, &OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
        rules(&history, &trigger(), &store.ids, START)
    };
    let good = known(&store.root);
    let mut exact = 0;
    for pair in store.ends.windows(2) {
        // In the head, or in what follows it where anything does.
        for at in [pair[0] + 16, pair[0] + HEADER + 8].into_iter().filter(|at| *at < pair[1]) {
            let is_last = pair[1] == *store.ends.last().unwrap();
            store.damage(&Damage { at: store.bytes.len(), as_zeros: false, forgets: false });
            let mut bytes = store.bytes.clone();
            bytes[at] ^= 1;
            std::fs::write(&store.log, bytes).unwrap();
            let report = run(&store.root, true);
            let found = known(&store.root);
            let changes =
                |to: &str| good.iter().zip(&found).filter(|(old, new)| old != new && **new == to).count() as u64;
            let Some(most) = most(&report, |finding| finding.dropped) else {
                assert!(is_last, "{at}: {report:#?}");
                continue;
            };
            assert!(!is_last && changes("R8") <= most, "{at}: {report:#?}");
            let reopened = report.findings[0].reopened;
            let holds = matches!(reopened, Count::AtMost(most) | Count::Exactly(most) if changes("R11") <= most);
            assert!(holds, "{at}: {report:#?}");
            let is_exact = matches!(report.findings[0].dropped, Count::Exactly(_));
            assert!(!is_exact || most == BATCH as u64, "{at}: {report:#?}");
            exact += usize::from(is_exact);
        }
    }
    assert!(exact > 5, "{exact}");
}

/// Entries of a mapper, and changes of them.
fn fill_map(root: &Path, ids: &[String], written: &mut dyn FnMut(&Path)) -> Vec<u8> {
    let history = open(root);
    let values = history.values(Room::Mapper, "channel").unwrap();
    let mut early = Vec::new();
    for batch in 0..BATCHES {
        values
            .write(|turn| {
                let first = batch / 2 * BATCH;
                for id in &ids[first..first + BATCH] {
                    let content = batch.to_string();
                    let entry =
                        NewValue { value: Some(content.as_bytes()), persist_until: i64::MAX - 1, pending: false };
                    turn.put(values.id(id.as_bytes()), entry)?;
                }
                Ok(())
            })
            .unwrap();
        written(&space(root));
        if batch == BATCHES / 2 {
            early = std::fs::read(space(root).join("turn")).unwrap();
        }
        if batch == 3 {
            values.maintain(true, &mut |_, _| Ok(())).unwrap();
        }
    }
    early
}

#[test]
fn of_a_cut_log_of_a_map_no_less_is_named_than_is_lost() {
    let store = Cut::new(fill_map, uuids(0..(BATCHES * BATCH / 2) as u64));
    let held = |root: &Path| -> Vec<Option<Vec<u8>>> {
        let history = History::open(root, &OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
        let values = history.values(Room::Mapper, "channel").unwrap();
        let column = Ids::new(&store.ids);
        let found = values.look(&values.ids(&column.documents().ids[0])).unwrap();
        (0..store.ids.len()).map(|row| found.value(row).map(<[u8]>::to_vec)).collect()
    };
    let good = held(&store.root);
    let mut seen = 0;
    store.every(|damage| {
        if run(&store.root, false).findings.is_empty() {
            assert!(damage.forgets, "{damage:?} is not noticed");
            return;
        }
        let report = run(&store.root, true);
        let found = held(&store.root);
        let gone = good.iter().zip(&found).filter(|(old, new)| old.is_some() && new.is_none()).count() as u64;
        let earlier = good.iter().zip(&found).filter(|(old, new)| old != new && new.is_some()).count() as u64;
        let dropped = most(&report, |finding| finding.dropped);
        let returned = most(&report, |finding| finding.returned);
        assert!(dropped.is_none(), "{damage:?}: nothing tells what stood behind\n{report:#?}");
        assert!(dropped.is_none_or(|most| gone <= most), "{damage:?}: {gone} gone\n{report:#?}");
        assert!(returned.is_none_or(|most| earlier <= most), "{damage:?}: {earlier} went back\n{report:#?}");
        seen += 1;
    });
    assert!(seen >= 60, "{seen}");
}
