//! The chain against a store whose requests fail, come late and come twice.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::chain::{Attempt, Chain, Followed};
use super::commit::Commit;
use super::names::{BLOCK, Names};
use super::{Listed, ObjectStore, Put};
use crate::format::names::IDENTITY;
use crate::testing::objects::{Requests, SimulatedObjects, Weather};
use crate::{Error, Result};

const HISTORY: [u8; 16] = [7; 16];
const STORM: Weather = Weather { failures: 10, duplicates: 12, stale_lists: 3, sleeps: 25 };

/// A writer that begins ids: a change is a list of ids, and of all ids where it is a base.
struct Writer {
    chain: Chain,
    ids: BTreeSet<u8>,
    /// Whether the ids were read for a commit that was not made since.
    is_unproven: bool,
}

/// What all writers have been told.
#[derive(Debug, Default)]
struct Told {
    new: Vec<u8>,
    duplicates: BTreeSet<u8>,
    in_doubt: usize,
    wrong: Option<String>,
}

impl Writer {
    fn open(store: Arc<dyn ObjectStore>) -> Self {
        Self { chain: Chain::new(store, Names::new("t/"), HISTORY), ids: BTreeSet::new(), is_unproven: false }
    }

    fn take(&mut self, commits: &[Commit]) {
        for commit in commits {
            if commit.base == commit.number {
                self.ids.clear();
            }
            self.ids.extend(&commit.change);
        }
    }

    fn find(&mut self) -> Result<()> {
        let commits = self.chain.find()?;
        self.ids.clear();
        self.take(&commits);
        Ok(())
    }

    fn follow(&mut self) -> Result<()> {
        let followed = self.chain.follow()?;
        self.go_on(followed, false)
    }

    fn go_on(&mut self, followed: Followed, is_unproven: bool) -> Result<()> {
        self.is_unproven = is_unproven;
        match followed {
            Followed::Newer(commits) => self.take(&commits),
            Followed::Lost => {
                self.find()?;
                self.is_unproven = false;
            }
        }
        Ok(())
    }

    /// Make commits without a change.
    fn make(&mut self, commits: u64) {
        for _ in 0..commits {
            assert_eq!(self.chain.commit(Vec::new(), false, Some(&|| {})).unwrap(), Attempt::Won);
        }
    }

    /// Whether the id is NEW.
    fn begin(&mut self, id: u8) -> Result<bool> {
        for round in 0..40 {
            if self.is_unproven && self.ids.contains(&id) && !self.chain.is_proven()? {
                self.go_on(Followed::Lost, false)?;
            }
            if self.ids.contains(&id) {
                return Ok(false);
            }
            let is_base = self.chain.head().number.is_multiple_of(3);
            let mut change = vec![id];
            if is_base {
                change.extend(&self.ids);
            }
            match self.chain.commit(change, is_base, Some(&|| {}))? {
                Attempt::Won => {
                    self.ids.insert(id);
                    self.is_unproven = false;
                    return Ok(true);
                }
                Attempt::Lost => self.go_on(Followed::Lost, false)?,
                Attempt::Refused => {
                    let followed = self.chain.read_on()?;
                    self.go_on(followed, true)?;
                }
            }
            self.chain.pause(round);
        }
        Err(Error::State("never its turn".into()))
    }
}

/// One schedule; answers what was told, and what a cold reader finds afterwards.
fn schedule(seed: u64, weather: Weather, dress: fn(SimulatedObjects) -> Arc<dyn ObjectStore>) -> (Told, BTreeSet<u8>) {
    let objects = SimulatedObjects::new(seed, weather);
    let told = Mutex::new(Told::default());
    let mut actors: Vec<Box<dyn FnOnce(SimulatedObjects) + Send + '_>> = Vec::new();
    for actor in 0..3u8 {
        let told = &told;
        actors.push(Box::new(move |client| {
            if seed % 4 == u64::from(actor) {
                client.kill_at(30 + seed / 4 % 90);
            }
            let mut writer = Writer::open(dress(client.clone()));
            drop(writer.find());
            for turn in 0..8u8 {
                // Another order for each, so that they meet.
                let id = (turn * (2 * actor + 1) + actor) % 8;
                match writer.begin(id) {
                    Ok(true) => told.lock().unwrap().new.push(id),
                    Ok(false) => drop(told.lock().unwrap().duplicates.insert(id)),
                    Err(_) if client.is_dead() => return,
                    Err(_) => {
                        told.lock().unwrap().in_doubt += 1;
                        drop(writer.follow());
                    }
                }
                let before: Vec<u8> = told.lock().unwrap().new.clone();
                if turn % 2 == 1 && writer.follow().is_ok() && !before.iter().all(|id| writer.ids.contains(id)) {
                    told.lock().unwrap().wrong = Some(format!("a reader misses some of {before:?}"));
                }
            }
        }));
    }
    actors.push(Box::new(|client| {
        let mut collector = Writer::open(dress(client));
        for _ in 0..10 {
            if collector.find().is_ok() {
                let base = collector.chain.head().base;
                drop(collector.chain.collect(base, &HashSet::new(), Duration::ZERO));
            }
        }
    }));
    objects.run(actors);
    objects.set_weather(Weather::default());
    let mut reader = Writer::open(Arc::new(objects));
    for _ in 0..40 {
        // What was late arrives.
        reader.find().unwrap();
    }
    (told.into_inner().unwrap(), reader.ids)
}

/// What is wrong with what was told.
fn wrong((told, found): &(Told, BTreeSet<u8>)) -> Option<String> {
    let once: BTreeSet<u8> = told.new.iter().copied().collect();
    if let Some(wrong) = &told.wrong {
        return Some(wrong.clone());
    }
    if once.len() < told.new.len() {
        return Some(format!("an id is NEW twice: {:?}", told.new));
    }
    if !once.is_subset(found) || !told.duplicates.is_subset(found) {
        return Some(format!("{told:?}, but a reader finds {found:?}"));
    }
    None
}

fn schedules() -> u64 {
    std::env::var("DOCHISTORY_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// Run schedules on all processors; the first one that is wrong, and how many ids were told.
fn campaign(seeds: u64, dress: fn(SimulatedObjects) -> Arc<dyn ObjectStore>) -> (Option<String>, usize, usize) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let results = std::thread::scope(|scope| {
        let run = |thread: u64| {
            let (mut new, mut in_doubt) = (0, 0);
            for seed in (thread..seeds).step_by(threads as usize) {
                let result = schedule(seed, STORM, dress);
                if let Some(wrong) = wrong(&result) {
                    return (Some(format!("seed {seed}: {wrong}")), new, in_doubt);
                }
                (new, in_doubt) = (new + result.0.new.len(), in_doubt + result.0.in_doubt);
            }
            (None, new, in_doubt)
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    results.into_iter().fold((None, 0, 0), |sum, one| (sum.0.or(one.0), sum.1 + one.1, sum.2 + one.2))
}

#[test]
fn each_id_is_new_once_whatever_becomes_of_requests() {
    let seeds = schedules();
    let (wrong, new, in_doubt) = campaign(seeds, |client| Arc::new(client));
    assert_eq!(wrong, None);
    println!("{seeds} schedules: {new} ids NEW, {in_doubt} in doubt");
    assert!(new as u64 > seeds * 5, "{new} ids of {seeds} schedules");
    assert!(in_doubt as u64 > seeds / 100, "only {in_doubt} errors: the weather is too good");
}

/// A store on which every gate seems open: as if nobody looked.
#[cfg_attr(not(feature = "small"), expect(dead_code, reason = "its campaign wants small blocks of commits"))]
#[derive(Debug)]
struct NoGates(SimulatedObjects);

impl ObjectStore for NoGates {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.0.put_new(name, bytes)
    }
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.0.put(name, bytes)
    }
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if name.contains("gate-") { Ok(Some(b"open".to_vec())) } else { self.0.get(name) }
    }
    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>> {
        self.0.get_range(name, offset, length)
    }
    fn put_file(&self, name: &str, path: &Path) -> Result<Put> {
        self.0.put_file(name, path)
    }
    fn get_file(&self, name: &str, path: &Path, bytes: u64) -> Result<bool> {
        self.0.get_file(name, path, bytes)
    }
    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.0.list(prefix)
    }
    fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name)
    }
    fn pause(&self, duration: Duration) {
        self.0.pause(duration);
    }
}

#[test]
#[cfg(feature = "small")]
fn the_campaign_finds_the_check_that_is_left_out() {
    let (wrong, ..) = campaign(2_000, |client| Arc::new(NoGates(client)));
    println!("{wrong:?}");
    assert!(wrong.is_some());
}

#[test]
fn a_commit_is_one_put_and_one_get() {
    let objects = SimulatedObjects::new(1, Weather::default());
    let mut writer = Writer::open(Arc::new(objects.clone()));
    writer.find().unwrap();
    assert!(writer.begin(1).unwrap());
    let before = objects.requests();
    assert!(writer.begin(2).unwrap());
    let Requests { puts, gets, lists, deletes, .. } = objects.requests();
    assert_eq!((puts - before.puts, gets - before.gets), (1, 1));
    assert_eq!((lists, deletes), (before.lists, before.deletes));
}

#[test]
fn a_gate_that_a_rule_deleted_is_an_error_that_says_so() {
    let objects = SimulatedObjects::new(1, Weather::default());
    let mut writer = Writer::open(Arc::new(objects.clone()));
    assert!(writer.begin(1).unwrap());
    objects.lose("t/gate-00000000000000000000");
    let error = writer.begin(2).unwrap_err().to_string();
    assert!(error.starts_with("[DH-MISSING] cannot rely on t/gate-"), "{error}");
    assert!(error.contains("lifecycle rule"), "{error}");
}

#[test]
fn commits_and_files_that_no_state_needs_are_collected() {
    let objects = SimulatedObjects::new(1, Weather::default());
    let mut writer = Writer::open(Arc::new(objects.clone()));
    for id in 0..=(3 * BLOCK.min(80)) as u8 {
        assert!(writer.begin(id).unwrap());
    }
    let head = writer.chain.head();
    let names = Names::new("t/");
    for (number, file) in [(1, "dropped"), (1, "live"), (head.number + 1, "coming")] {
        objects.put_new(&names.data(number, 0, file), b"x").unwrap();
    }
    let live = HashSet::from([names.data(1, 0, "live")]);
    assert_eq!(writer.chain.collect(head.base, &live, Duration::from_secs(3600)).unwrap().gone, 0);
    writer.chain.collect(head.base, &live, Duration::ZERO).unwrap();
    let there = objects.names();
    assert!(there.contains(&names.data(1, 0, "live")) && there.contains(&names.data(head.number + 1, 0, "coming")));
    assert!(!there.contains(&names.data(1, 0, "dropped")));
    assert_eq!(there.contains(&names.commit(1)), BLOCK > head.base);
    let mut cold = Writer::open(Arc::new(objects));
    cold.find().unwrap();
    assert_eq!(cold.ids, writer.ids);
}

#[test]
fn a_history_made_again_under_a_handle_fences_it() {
    let objects = SimulatedObjects::new(1, Weather::default());
    let mut old = Writer::open(Arc::new(objects.clone()));
    for id in 0..3 {
        assert!(old.begin(id).unwrap());
    }
    for name in objects.names() {
        objects.lose(&name);
    }
    let mut new = Writer::open(Arc::new(objects.clone()));
    new.find().unwrap();
    assert!(new.begin(9).unwrap());
    assert!(matches!(old.begin(9), Err(Error::Fenced { .. })));
    assert!(matches!(old.follow(), Err(Error::Fenced { .. })));
    let mut cold = Writer::open(Arc::new(objects));
    cold.find().unwrap();
    assert_eq!(cold.ids, BTreeSet::from([9]));
    assert!(new.begin(10).unwrap());
}

/// A writer of a chain with `commits` commits, and that of another chain that stands in its place.
fn replaced(commits: u64) -> (SimulatedObjects, Writer, Writer) {
    let objects = SimulatedObjects::new(1, Weather::default());
    let mut old = Writer::open(Arc::new(objects.clone()));
    old.make(commits);
    for name in objects.names() {
        objects.lose(&name);
    }
    objects.put_new(IDENTITY, b"of both").unwrap();
    let mut new = Writer::open(Arc::new(objects.clone()));
    new.find().unwrap();
    (objects, old, new)
}

#[test]
fn a_handle_knows_its_history_from_a_longer_one() {
    for is_collected in [false, true] {
        let (objects, mut old, mut new) = replaced(3);
        new.make(2 * BLOCK + 1);
        new.chain.commit(vec![9], true, Some(&|| {})).unwrap();
        if is_collected {
            let base = new.chain.head().base;
            assert!(new.chain.collect(base, &HashSet::new(), Duration::ZERO).unwrap().gone > BLOCK);
        }
        assert!(matches!(old.begin(1), Err(Error::Fenced { .. })), "{is_collected}");
        assert!(matches!(old.follow(), Err(Error::Fenced { .. })), "{is_collected}");
        let mut cold = Writer::open(Arc::new(objects));
        cold.find().unwrap();
        assert_eq!(cold.ids, BTreeSet::from([9]));
        new.make(1);
    }
}

#[test]
fn a_shorter_history_made_again_gets_no_gap() {
    // The next commit of one begins a block.
    for commits in [BLOCK, BLOCK + 2] {
        let (objects, mut old, mut new) = replaced(commits);
        assert!(new.begin(9).unwrap());
        let names = objects.names();
        assert!(matches!(old.begin(1), Err(Error::Fenced { .. })), "{commits}");
        assert!(matches!(old.follow(), Err(Error::Fenced { .. })), "{commits}");
        assert_eq!(objects.names(), names);
    }
}

#[test]
fn what_was_to_be_proved_later_is_taken_back() {
    let (objects, mut old, mut new) = replaced(3);
    assert!(new.begin(9).unwrap());
    let names = objects.names();
    assert_eq!(old.chain.commit(vec![1], false, None).unwrap(), Attempt::Won);
    let number = old.chain.head().number;
    assert!(objects.names().contains(&Names::new("t/").commit(number)));
    assert!(matches!(old.chain.is_genuine_beside(number, &|| {}), Err(Error::Fenced { .. })));
    assert_eq!(objects.names(), names);
}

#[test]
fn an_older_copy_in_the_place_of_a_bucket_is_refused() {
    let objects = SimulatedObjects::new(1, Weather::default());
    let mut writer = Writer::open(Arc::new(objects.clone()));
    for id in 0..3 {
        assert!(writer.begin(id).unwrap());
    }
    objects.lose(&Names::new("t/").commit(3));
    assert!(matches!(writer.find(), Err(Error::Fenced { .. })));
}
