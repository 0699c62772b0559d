//! A poll that several processes decide, each some of its streams, equals a poll that one process
//! decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::{Error, OnReplay, Replays, Result, Transaction};

/// Rows in memory.
#[derive(Debug, Default)]
struct Memory(Mutex<BTreeMap<String, Vec<u8>>>);

impl StateRows for Memory {
    fn scan(&self, prefix: &str) -> Result<Vec<KeyAndValue>> {
        let rows = self.0.lock().unwrap();
        Ok(rows.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<std::result::Result<(), Overtaken>> {
        let mut rows = self.0.lock().unwrap();
        for (at, change) in changes.iter().enumerate() {
            let found = rows.get(&change.key).cloned();
            if found != change.expected {
                return Ok(Err(Overtaken { at, found }));
            }
        }
        for change in changes {
            match &change.new {
                Some(new) => rows.insert(change.key.clone(), new.clone()),
                None => rows.remove(&change.key),
            };
        }
        Ok(Ok(()))
    }
}

const STREAMS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A message: its stream's place in `STREAMS`, and its header unless it is damaged.
type Row = (usize, Option<PartHeader>);

struct Columns {
    streams: Vec<u32>,
    offsets: Vec<i32>,
    values: Vec<u8>,
}

impl Columns {
    fn new(rows: &[Row]) -> Self {
        let mut columns = Self { streams: Vec::new(), offsets: vec![0], values: Vec::new() };
        for (stream, header) in rows {
            columns.streams.push(*stream as u32);
            let text = header.map_or("damaged".to_owned(), |header| header.to_string());
            columns.values.extend(text.into_bytes());
            columns.offsets.push(columns.values.len() as i32);
        }
        columns
    }

    fn with<T>(&self, work: impl FnOnce(&HeaderColumns<'_>) -> T) -> T {
        let headers =
            Headers::Text(IdColumn::Utf8 { offsets: &self.offsets, values: &self.values, validity: Validity::all() });
        work(&HeaderColumns { streams: &self.streams, names: &STREAMS, headers })
    }
}

/// Messages that wait, by stream, `prev` and `seq`.
type Held = BTreeMap<(usize, u64, u32), PartHeader>;

/// What was applied of each stream.
type Applied = Vec<Vec<PartHeader>>;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn rows(&mut self, most: u64) -> Vec<Row> {
        (0..self.below(most)).map(|_| (self.below(5) as usize, self.header())).collect()
    }

    fn header(&mut self) -> Option<PartHeader> {
        let (prev, seq) = (self.below(12) * 10, [0, 0, 0, 1, 2][self.below(5) as usize]);
        let cur = prev + [0, 10, 10, 10, 20][self.below(5) as usize];
        (self.below(20) > 0).then(|| header([0, 0, 0, 1, 2][self.below(5) as usize], prev, cur, seq))
    }

    fn settings(&mut self) -> Settings {
        let options = Options {
            patience: self.below(4) as u32,
            batch_mode: self.below(6) == 0,
            reset_patience: self.below(2) == 0,
            first_contact: self.below(2) == 0,
            held_limit: 1 + self.below(8) as usize,
        };
        Settings { options, own_transaction: self.below(3) == 0, only: None }
    }
}

fn opening() -> Opening {
    Opening { starts: STREAMS[..3].iter().map(|name| ((*name).to_owned(), 0)).collect(), applied: Vec::new() }
}

/// The decisions of other processes: the receipts, the messages to apply (stream, rank, header),
/// and what to keep.
struct Parts {
    receipts: Vec<Vec<u8>>,
    applied: Vec<(usize, u32, PartHeader)>,
    keep: Vec<Row>,
}

fn decide_in_parts(store: &Memory, plan: &[u8], kept: &[Row], rows: &[Row], parts: usize) -> Parts {
    let mut found = Parts { receipts: Vec::new(), applied: Vec::new(), keep: Vec::new() };
    for part in 0..parts {
        let mine = |row: &&Row| row.0 % parts == part;
        let all: Vec<Row> = kept.iter().filter(mine).chain(rows.iter().filter(mine)).copied().collect();
        let old = kept.iter().filter(mine).count();
        let flags: Vec<bool> = (0..all.len()).map(|row| row < old).collect();
        let portion = Columns::new(&all).with(|columns| decide_portion(store, plan, columns, &flags)).unwrap();
        for (row, (stream, header)) in all.iter().enumerate() {
            if portion.apply_ranks[row] != NOT_APPLIED {
                assert!(!portion.keep[row]);
                found.applied.push((*stream, portion.apply_ranks[row], header.unwrap()));
            } else if portion.keep[row] {
                found.keep.push((*stream, *header));
            }
        }
        found.receipts.push(portion.receipt);
    }
    found.applied.sort_by_key(|(stream, rank, _)| (*stream, *rank));
    found
}

fn outcomes(poll: &Poll) -> Vec<StreamOutcome> {
    let mut all = poll.streams.clone();
    all.sort_by(|one, other| one.stream.cmp(&other.stream));
    all
}

/// Both ways over the same polls, some of which are aborted, or end with a crash.
fn compare(seed: u64) {
    let mut random = Random(seed);
    let settings = random.settings();
    let stores = [Arc::new(Memory::default()), Arc::new(Memory::default())];
    let open = |at: usize| Inbox::open(stores[at].clone(), settings.clone(), &opening()).unwrap();
    let mut inboxes = [open(0), open(1)];
    let (mut alone, mut together): (Applied, Applied) = (vec![Vec::new(); 5], vec![Vec::new(); 5]);
    let (mut held, mut kept): (Held, Vec<Row>) = (Held::new(), Vec::new());
    for batch in 0..12 {
        let rows = random.rows(14);
        let transaction = Transaction { application: "app".into(), batch };
        let (now, parts) = (batch + 1, 1 + random.below(4) as usize);
        let on_replay = [OnReplay::ByRules, OnReplay::Rerun][random.below(2) as usize];
        let replays = Replays::from(on_replay);
        let mut comes_again = random.below(6) == 0;
        loop {
            let columns = Columns::new(&rows);
            let one = columns.with(|columns| {
                let how = Receiving { columns, now, threads: 1, transaction: Some(&transaction), replays };
                inboxes[0].receive(&how)
            });
            let plan = inboxes[1].plan(now, Some(&transaction), replays).unwrap();
            let found = decide_in_parts(&stores[1], &plan, &kept, &rows, parts);
            let (mut one, mut other) =
                (one.unwrap(), inboxes[1].gather(&plan, &found.receipts, Some(&transaction), replays).unwrap());
            assert_eq!(outcomes(&one.poll), outcomes(&other.poll), "seed {seed}, batch {batch}");
            assert_eq!(one.replay, other.replay);
            if random.below(10) == 0 {
                inboxes[0].abort(&mut one).unwrap();
                inboxes[1].abort(&mut other).unwrap();
                break;
            }
            if std::mem::take(&mut comes_again) {
                // The process ends here: what is held is gone, and what was about to be applied is
                // in doubt.
                inboxes = [open(0), open(1)];
                held.clear();
                kept.clear();
                continue;
            }
            for (stream, _, header) in &found.applied {
                together[*stream].push(*header);
            }
            columns.with(|columns| {
                for one_in_order in one.poll.in_order(columns) {
                    let stream = &one.poll.streams[one_in_order.stream as usize].stream;
                    let at = STREAMS.iter().position(|name| **name == **stream).unwrap();
                    alone[at].push(match one_in_order.place {
                        Place::Row(row) => columns.header(row as usize).unwrap(),
                        Place::Released(place) => {
                            let found = one.poll.released[place as usize];
                            held.remove(&(at, found.prev, found.seq)).unwrap()
                        }
                    });
                }
            });
            for gone in &one.poll.dropped {
                let stream = &one.poll.streams[gone.stream as usize].stream;
                held.retain(|(at, prev, seq), _| (STREAMS[*at], *prev, *seq) != (&**stream, gone.prev, gone.seq));
            }
            for (_, (stream, header)) in rows.iter().enumerate().filter(|(row, _)| one.poll.rows.is_kept(*row)) {
                let header = header.unwrap();
                held.insert((*stream, header.prev, header.seq), header);
            }
            kept = found.keep;
            inboxes[0].commit(&mut one).unwrap();
            inboxes[1].commit(&mut other).unwrap();
            break;
        }
        assert_eq!(alone, together, "seed {seed}, batch {batch}");
        let mut waiting: Vec<_> = kept.iter().map(|(stream, h)| (*stream, h.unwrap().prev, h.unwrap().seq)).collect();
        waiting.sort_unstable();
        assert_eq!(held.keys().copied().collect::<Vec<_>>(), waiting, "seed {seed}, batch {batch}");
        assert_eq!(inboxes[0].states(), inboxes[1].states(), "seed {seed}, batch {batch}");
        assert_eq!(*stores[0].0.lock().unwrap(), *stores[1].0.lock().unwrap(), "seed {seed}, batch {batch}");
    }
}

#[test]
fn several_processes_decide_together_what_one_decides_alone() {
    for seed in 0..2_000 {
        compare(seed);
    }
}

fn start() -> (Arc<Memory>, Inbox) {
    let store = Arc::new(Memory::default());
    let inbox = Inbox::open(store.clone(), Settings::default(), &opening()).unwrap();
    (store, inbox)
}

fn plan_of(inbox: &Inbox) -> Vec<u8> {
    inbox.plan(1, None, Replays::default()).unwrap()
}

#[test]
fn decision_from_an_older_state_is_refused_unrecorded() {
    let (store, inbox) = start();
    let plan = plan_of(&inbox);
    let rows = [(0, Some(header(0, 0, 10, 0)))];
    let early = decide_in_parts(&store, &plan, &[], &rows, 1);
    let other = Inbox::open(store.clone(), Settings::default(), &Opening::default()).unwrap();
    let mut taken = other.gather(&plan, &early.receipts, None, Replays::default()).unwrap();
    other.commit(&mut taken).unwrap();
    let before = store.0.lock().unwrap().clone();

    let late = decide_in_parts(&store, &plan, &[], &rows, 1);
    for receipts in [early.receipts, late.receipts] {
        let refused = inbox.gather(&plan, &receipts, None, Replays::default());
        assert!(matches!(refused, Err(Error::Overtaken(_))), "{refused:?}");
    }
    assert_eq!(before, *store.0.lock().unwrap());
}

#[test]
fn receipts_that_do_not_fit_together_are_refused() {
    let (store, inbox) = start();
    let plan = plan_of(&inbox);
    let rows = [(0, Some(header(0, 10, 20, 0)))];
    let parts = decide_in_parts(&store, &plan, &[], &rows, 1);
    let gather = |receipts: &[Vec<u8>], plan: &[u8]| inbox.gather(plan, receipts, None, Replays::default());
    let state = |found: Result<Taken>| assert!(matches!(found, Err(Error::State(_))), "{found:?}");

    state(gather(&[parts.receipts[0].clone(), parts.receipts[0].clone()], &plan));
    state(gather(&[parts.receipts[0][1..].to_vec()], &plan));
    state(gather(std::slice::from_ref(&plan), &plan));
    state(gather(&parts.receipts, &plan[..plan.len() - 1]));
    inbox.commit(&mut gather(&parts.receipts, &plan).unwrap()).unwrap();
    // The plan is outdated.
    state(gather(&parts.receipts, &plan));

    let plan = plan_of(&inbox);
    let without = decide_in_parts(&store, &plan, &[], &[(1, Some(header(0, 0, 10, 0)))], 1);
    state(gather(&without.receipts, &plan));
    let columns = Columns::new(&[]);
    let how = columns.with(|columns| {
        let how = Receiving { columns, now: 1, threads: 1, transaction: None, replays: Replays::default() };
        inbox.receive(&how)
    });
    state(how);
}
