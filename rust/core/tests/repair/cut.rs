//! A log that was cut, as a disk does that lost its tail: what a repair says of the loss is never
//! less than what is lost.

use std::path::{Path, PathBuf};

use dochistory_core::history::History;
use dochistory_core::history::values::{NewValue, Room};
use dochistory_core::repair::{Count, Report};

use crate::harness::closed::{self, Files, files_of, newest};
use crate::harness::{Ids, START, begin, open, reading, rules, seal, trigger, uuids};
use crate::{apply, most_of, plan};

/// Few enough to stay in the log, also where the tests' limits apply.
const BATCH: usize = 8;
const BATCHES: usize = 16;
/// A frame's header, of which bytes 24 to 31 are left as they are.
const HEADER: usize = 96;

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
        let directory = closed::directory();
        let root = directory.path().join("h");
        let mut ends = Vec::new();
        let early = fill(&root, &ids, &mut |space| ends.push(end_of(&std::fs::read(newest(space, "log")).unwrap())));
        let log = newest(&space(&root), "log");
        let bytes = std::fs::read(&log).unwrap();
        let files = files_of(&root);
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
        closed::remove_repairs(&self.root);
        closed::write(&files_of(&self.root), &self.files);
        let mut bytes = self.bytes[..what.at].to_vec();
        if what.as_zeros {
            bytes.resize(self.bytes.len(), 0);
        }
        std::fs::write(&self.log, bytes).unwrap();
        if what.forgets {
            std::fs::write(self.log.parent().unwrap().join("turn"), &self.early).unwrap();
        }
    }

    fn rules(&self) -> Vec<&'static str> {
        rules(&History::open(&self.root, &reading()).unwrap(), &trigger(), &self.ids, START)
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

/// Batches that end in every way there is, and some whose entries stand in a segment while their
/// ends stand in the log.
fn fill(root: &Path, ids: &[String], written: &mut dyn FnMut(&Path)) -> Vec<u8> {
    let history = open(root);
    let mut early = Vec::new();
    let begin = |batch: usize| {
        let rows = &ids[batch * BATCH..(batch + 1) * BATCH];
        begin(&history, &trigger(), rows, START).claim.unwrap()
    };
    let in_segment: Vec<_> = (0..3).map(begin).collect();
    seal(&history, "orders");
    let mut in_segment = in_segment.into_iter();
    for batch in 3..BATCHES {
        let claim = begin(batch);
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
    // A few texts only: they weigh more, and all are to stand in one log.
    let (all, texts) = (BATCHES * BATCH, BATCH * 4);
    let texts = (0..texts).map(|number| format!("urn:t:{number}"));
    let ids: Vec<_> = uuids(0..(all - texts.len()) as u64).into_iter().chain(texts).collect();
    let store = Cut::new(fill, ids);
    let good = store.rules();
    let (mut seen, mut silent) = (0, 0);
    store.every(|damage| {
        let planned = plan(&store.root);
        if planned.findings.is_empty() {
            assert!(damage.forgets, "{damage:?} is not noticed");
            silent += 1;
            return;
        }
        let report = apply(&store.root);
        assert_eq!(format!("{:?}", planned.findings), format!("{:?}", report.findings), "{damage:?}");
        let found = store.rules();
        let changes = |to: &str| good.iter().zip(&found).filter(|(old, new)| old != new && **new == to).count() as u64;
        let (forgotten, in_doubt) = (changes("R8"), changes("R11"));
        assert_eq!(good.iter().zip(&found).filter(|(old, new)| old != new).count() as u64, forgotten + in_doubt);
        let dropped = most_of(&report, |finding| finding.dropped);
        let reopened = most_of(&report, |finding| finding.reopened);
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
fn repair_of_a_log_damaged_inside_names_a_bound_that_holds() {
    let store = Cut::new(fill, uuids(0..(BATCHES * BATCH) as u64));
    let good = store.rules();
    let mut exact = 0;
    for pair in store.ends.windows(2) {
        // In the head, or in what follows it where anything does.
        for at in [pair[0] + 16, pair[0] + HEADER + 8].into_iter().filter(|at| *at < pair[1]) {
            let is_last = pair[1] == *store.ends.last().unwrap();
            store.damage(&Damage { at: store.bytes.len(), as_zeros: false, forgets: false });
            let mut bytes = store.bytes.clone();
            bytes[at] ^= 1;
            std::fs::write(&store.log, bytes).unwrap();
            let report = apply(&store.root);
            let found = store.rules();
            let changes =
                |to: &str| good.iter().zip(&found).filter(|(old, new)| old != new && **new == to).count() as u64;
            let Some(most) = most_of(&report, |finding| finding.dropped) else {
                assert!(is_last, "{at}: {report:#?}");
                continue;
            };
            assert!(!is_last && changes("R8") <= most, "{at}: {report:#?}");
            let reopened = crate::most(report.findings[0].reopened);
            assert!(reopened.is_some_and(|most| changes("R11") <= most), "{at}: {report:#?}");
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
            .write(|edit| {
                let first = batch / 2 * BATCH;
                for id in &ids[first..first + BATCH] {
                    let content = batch.to_string();
                    let entry =
                        NewValue { value: Some(content.as_bytes()), persist_until: i64::MAX - 1, pending: false };
                    edit.put(values.id(id.as_bytes()), entry)?;
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
        let history = History::open(root, &reading()).unwrap();
        let values = history.values(Room::Mapper, "channel").unwrap();
        let column = Ids::new(&store.ids);
        let found = values.look(&values.ids(&column.documents().ids[0])).unwrap();
        (0..store.ids.len()).map(|row| found.value(row).map(<[u8]>::to_vec)).collect()
    };
    let good = held(&store.root);
    let mut seen = 0;
    store.every(|damage| {
        if plan(&store.root).findings.is_empty() {
            assert!(damage.forgets, "{damage:?} is not noticed");
            return;
        }
        let report = apply(&store.root);
        let found = held(&store.root);
        let gone = good.iter().zip(&found).filter(|(old, new)| old.is_some() && new.is_none()).count() as u64;
        let earlier = good.iter().zip(&found).filter(|(old, new)| old != new && new.is_some()).count() as u64;
        let dropped = most_of(&report, |finding| finding.dropped);
        let returned = most_of(&report, |finding| finding.returned);
        assert!(dropped.is_none(), "{damage:?}: nothing tells what stood behind\n{report:#?}");
        assert!(dropped.is_none_or(|most| gone <= most), "{damage:?}: {gone} gone\n{report:#?}");
        assert!(returned.is_none_or(|most| earlier <= most), "{damage:?}: {earlier} went back\n{report:#?}");
        seen += 1;
    });
    assert!(seen >= 60, "{seen}");
}
