//! Mappers and guaranteed delivery on a store whose requests fail, come late and come twice: nobody
//! gets an id as new that may have been sent, no mapping that was acknowledged is lost, and of two
//! who change one row exactly one does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::buckets::{calm, storm, summed};
use crate::harness::{DAY, Ids, START, setting};
use dochistory_core::history::{History, OpenOptions, copy_from_objects};
use dochistory_core::objects::ObjectStore;
use dochistory_core::protocols::delivery::{Exchange, StateRows};
use dochistory_core::protocols::mapper::rules::{Policy, Qos};
use dochistory_core::protocols::mapper::{Mapper, MapperSettings, Messages, Send, Texts, Unit, Untils};
use dochistory_core::testing::objects::{Requests, SimulatedObjects, Weather};
use dochistory_core::{Purge, Result};

const STORM: Weather = Weather { failures: 12, duplicates: 15, stale_lists: 3, sleeps: 40 };
const UNTIL: Untils<'static> = Untils::All(START + 30 * DAY);
const ROW: &str = "row";

fn open(objects: &SimulatedObjects, replica: &Path) -> Result<History> {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    History::open_objects(Arc::new(objects.clone()), replica, &options)
}

fn mapper(history: &History) -> Mapper {
    let settings = MapperSettings { policy: Policy::Error, ..MapperSettings::default() };
    Mapper::new(history, "jms", settings).unwrap()
}

fn id(number: u64) -> String {
    format!("urn:message:{number}")
}

/// Begin to send messages; answers the rules, too.
fn begin(mapper: &Mapper, ids: &[String]) -> Result<(Send, Vec<&'static str>)> {
    let column = Ids::new(ids);
    let documents = column.documents();
    let (qos, queues) = (vec![Qos::ExactlyOnce; ids.len()], vec![0; ids.len()]);
    let messages = Messages { qos: &qos, queues: &queues };
    let send = mapper.begin_send(&mapper.values().ids(&documents.ids[0]), messages, UNTIL, START, None, false)?;
    let rules = send.rules().iter().map(|rule| rule.code()).collect();
    Ok((send, rules))
}

/// Map the rows of a send to their own ids.
fn complete(mapper: &Mapper, send: &Send, ids: &[String]) -> Result<()> {
    let column = Ids::new(ids);
    let documents = column.documents();
    let rows: Vec<u32> = (0..ids.len() as u32).collect();
    let values = Texts::of(Some(&documents.ids[0]), ids.len())?;
    send.complete(&mapper.values().ids(&documents.ids[0]), &rows, &values, UNTIL, 0)
}

fn fail(mapper: &Mapper, send: &Send, ids: &[String]) -> Result<()> {
    let column = Ids::new(ids);
    let documents = column.documents();
    send.abort(&mapper.values().ids(&documents.ids[0]), &[0], true)
}

/// What some ids are mapped to; none where they are not mapped.
fn mapped(mapper: &Mapper, ids: &[String]) -> Result<Vec<Option<String>>> {
    let column = Ids::new(ids);
    let documents = column.documents();
    let known = mapper.lookup(&mapper.values().ids(&documents.ids[0]), START)?;
    let text = |row| known.values.get(row).map(|bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned());
    Ok((0..ids.len()).map(|row| if known.mapped[row] { text(row) } else { None }).collect())
}

fn own(ids: &[String]) -> Vec<Option<String>> {
    ids.iter().cloned().map(Some).collect()
}

/// Take messages in; answers the unit, which is open, and the rules.
fn take(mapper: &Mapper, ids: &[String]) -> Result<(Unit, Vec<&'static str>)> {
    let column = Ids::new(ids);
    let documents = column.documents();
    let (qos, queues) = (vec![Qos::ExactlyOnce; ids.len()], vec![0; ids.len()]);
    let ours = Texts::of(Some(&documents.ids[0]), ids.len())?;
    let mut unit = mapper.unit_of_work();
    let messages = Messages { qos: &qos, queues: &queues };
    let taken = unit.take(&mapper.values().ids(&documents.ids[0]), &ours, messages, UNTIL, START)?;
    Ok((unit, taken.rules.iter().map(|rule| rule.code()).collect()))
}

/// What the handles were told.
#[derive(Debug, Default)]
struct Told {
    /// How often each id was handed out to be sent.
    sent: BTreeMap<u64, usize>,
    mapped: BTreeSet<u64>,
    /// Ids whose sending failed for certain, or may have.
    failed: BTreeSet<u64>,
    /// How often each id was taken in by a unit that committed.
    taken: BTreeMap<u64, usize>,
    /// Changes of a row that were acknowledged, and those that may have happened.
    counted: u64,
    doubtful: u64,
    wrong: Vec<String>,
}

/// One handle's work: ids that others send, too; units of work; a row that all count up.
fn work(client: &SimulatedObjects, replica: &Path, actor: u64, told: &Mutex<Told>) {
    let Some(history) = (0..6).find_map(|_| open(client, replica).ok()) else { return };
    let mapper = mapper(&history);
    for turn in 0..6 {
        let number = (turn * (2 * actor + 1) + actor) % 6;
        let ids = [id(number)];
        let known = told.lock().unwrap().mapped.contains(&number);
        if let Ok((send, rules)) = begin(&mapper, &ids) {
            if known && rules != ["M2"] {
                told.lock().unwrap().wrong.push(format!("{number} was mapped, and gets {rules:?}"));
            }
            if rules == ["M1"] {
                *told.lock().unwrap().sent.entry(number).or_default() += 1;
                if number == 3 {
                    told.lock().unwrap().failed.insert(number);
                    drop(fail(&mapper, &send, &ids));
                } else if complete(&mapper, &send, &ids).is_ok() {
                    told.lock().unwrap().mapped.insert(number);
                }
            }
        }
        let other = 100 + number % 4;
        if let Ok((unit, rules)) = take(&mapper, &[id(other)])
            && rules == ["N2"]
            && unit.commit(START).is_ok()
        {
            *told.lock().unwrap().taken.entry(other).or_default() += 1;
        }
        count(&history, told);
        if turn % 3 == 2 {
            drop(mapper.values().collect_objects(Duration::ZERO));
        }
        if client.is_dead() {
            return;
        }
    }
}

fn value(rows: &dyn StateRows) -> Result<Option<Vec<u8>>> {
    rows.get(ROW)
}

/// Count a row up by one, if nobody else does at the same time.
fn count(history: &History, told: &Mutex<Told>) {
    let rows = history.received_streams(true).unwrap();
    let Ok(expected) = value(&*rows) else { return };
    let before = expected.as_deref().map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    let new = Some((before + 1).to_le_bytes().to_vec());
    match rows.exchange(&[Exchange { key: ROW.into(), expected, new }]) {
        Ok(Ok(())) => told.lock().unwrap().counted += 1,
        Ok(Err(_)) => {}
        Err(_) => told.lock().unwrap().doubtful += 1,
    }
}

fn schedule(seed: u64) -> Told {
    let directory = tempfile::tempdir().unwrap();
    let told = Mutex::new(Told::default());
    let objects = storm(seed, STORM, (seed % 3, 40 + seed / 3 % 200), &|client, actor| {
        work(client, &directory.path().join(actor.to_string()), actor, &told);
    });
    let mut told = told.into_inner().unwrap();
    let reader = open(&objects, &directory.path().join("reader")).unwrap();
    for number in told.mapped.clone() {
        if mapped(&mapper(&reader), &[id(number)]).unwrap() != own(&[id(number)]) {
            told.wrong.push(format!("a reader finds no mapping of {number}"));
        }
    }
    for (number, times) in told.sent.iter().filter(|(number, _)| !told.failed.contains(number)).chain(&told.taken) {
        if *times > 1 {
            told.wrong.push(format!("{number} was new {times} times"));
        }
    }
    let found = value(&*reader.received_streams(false).unwrap()).unwrap();
    let found = found.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    if !(told.counted..=told.counted + told.doubtful).contains(&found) {
        told.wrong.push(format!("the row was counted to {found}"));
    }
    told
}

#[test]
fn each_message_is_new_once_whatever_becomes_of_requests() {
    let schedules = setting("DOCHISTORY_SCHEDULES", 60);
    let sums = summed(schedules, |seed| {
        let told = schedule(seed);
        assert_eq!(told.wrong, Vec::<String>::new(), "seed {seed}: {told:?}");
        [told.mapped.len() as u64, told.taken.len() as u64, told.counted, told.doubtful]
    });
    println!("{schedules} schedules: {sums:?} mapped, taken in, counted, in doubt");
    assert!(sums[0] > schedules && sums[1] > schedules && sums[2] > schedules && sums[3] > 0, "{sums:?}");
}

#[test]
fn each_change_of_a_map_is_one_put_and_one_get() {
    let (objects, directory) = calm();
    let history = open(&objects, directory.path()).unwrap();
    let mapper = mapper(&history);
    begin(&mapper, &[id(0)]).unwrap();
    let counted = |work: &mut dyn FnMut()| {
        let before = objects.requests();
        work();
        let Requests { puts, gets, lists, deletes, .. } = objects.requests();
        (puts - before.puts, gets - before.gets, lists - before.lists, deletes - before.deletes)
    };
    let ids = [id(1)];
    let mut send = None;
    assert_eq!(counted(&mut || send = Some(begin(&mapper, &ids).unwrap().0)), (1, 1, 0, 0));
    assert_eq!(counted(&mut || complete(&mapper, send.as_ref().unwrap(), &ids).unwrap()), (1, 1, 0, 0));
    assert_eq!(counted(&mut || assert_eq!(mapped(&mapper, &ids).unwrap(), own(&ids))), (0, 2, 0, 0));
    let incoming = Mapper::new(&history, "in", MapperSettings::default()).unwrap();
    begin(&incoming, &[id(0)]).unwrap();
    let mut unit = None;
    assert_eq!(counted(&mut || unit = Some(take(&incoming, &[id(2)]).unwrap().0)), (0, 2, 0, 0));
    assert_eq!(counted(&mut || assert_eq!(unit.take().unwrap().commit(START).unwrap(), 1)), (1, 1, 0, 0));
    let told = Mutex::default();
    count(&history, &told);
    // A look, and the change.
    assert_eq!(counted(&mut || count(&history, &told)), (1, 3, 0, 0));
    assert_eq!(counted(&mut || std::thread::sleep(Duration::from_millis(50))), (0, 0, 0, 0));
}

#[test]
fn of_units_of_two_handles_the_first_to_commit_wins() {
    let (objects, directory) = calm();
    let (one, other) =
        (open(&objects, &directory.path().join("1")).unwrap(), open(&objects, &directory.path().join("2")).unwrap());
    let (one, other) = (mapper(&one), mapper(&other));
    let (first, rules) = take(&one, &[id(1), id(2)]).unwrap();
    assert_eq!(rules, ["N2", "N2"]);
    let (second, rules) = take(&other, &[id(2), id(3)]).unwrap();
    assert_eq!(rules, ["N2", "N2"]);
    assert_eq!(second.commit(START).unwrap(), 2);
    let refused = first.commit(START).unwrap_err().to_string();
    assert!(refused.starts_with("[DH-STATE] id \"urn:message:2\" was mapped by another caller"), "{refused}");
    assert_eq!(mapped(&one, &[id(1), id(2), id(3)]).unwrap(), [None, Some(id(2)), Some(id(3))]);
    assert_eq!(take(&one, &[id(1), id(2)]).unwrap().1, ["N2", "N3"]);
}

#[test]
fn a_unit_whose_mapping_another_handle_changed_is_refused() {
    let (objects, directory) = calm();
    let (one, other) =
        (open(&objects, &directory.path().join("1")).unwrap(), open(&objects, &directory.path().join("2")).unwrap());
    let (one, other) = (mapper(&one), mapper(&other));
    let column = Ids::new(&[id(1)]);
    let documents = column.documents();
    let ids = one.values().ids(&documents.ids[0]);
    let to = |text: &str| {
        let column = Ids::new(&[text]);
        Texts::of(Some(&column.documents().ids[0]), 1).unwrap()
    };
    assert_eq!(one.create(&ids, &to("a"), UNTIL, START).unwrap(), [None]);
    let mut unit = one.unit_of_work();
    assert_eq!(unit.update(&ids, &to("b"), UNTIL, START).unwrap(), [None]);
    assert_eq!(other.update(&ids, &to("c"), UNTIL, START).unwrap(), [None]);
    let refused = unit.commit(START).unwrap_err().to_string();
    assert!(refused.starts_with("[DH-STATE] id \"urn:message:1\" was changed by another caller"), "{refused}");
    assert_eq!(mapped(&one, &[id(1)]).unwrap(), [Some("c".to_owned())]);
}

/// Enough for changes that go into files at once, sealed logs and compaction.
fn busy(one: &Mapper, other: &Mapper) -> Vec<String> {
    let all: Vec<String> = (0..240).map(id).collect();
    for (number, ids) in all.chunks(30).enumerate() {
        let mapper = if number % 2 == 0 { one } else { other };
        let (send, rules) = begin(mapper, ids).unwrap();
        assert!(rules.iter().all(|rule| *rule == "M1"), "{rules:?}");
        complete(mapper, &send, ids).unwrap();
        let few: Vec<String> = (0..5).map(|row| format!("few-{number}-{row}")).collect();
        let (send, _) = begin(mapper, &few).unwrap();
        complete(mapper, &send, &few).unwrap();
    }
    one.values().maintain(true, &mut |_, _| Ok(())).unwrap();
    other.values().collect_objects(Duration::ZERO).unwrap();
    all
}

#[test]
fn files_and_maintenance_of_a_map_reach_other_handles() {
    let (objects, directory) = calm();
    let one = open(&objects, &directory.path().join("1")).unwrap();
    let other = open(&objects, &directory.path().join("2")).unwrap();
    let all = busy(&mapper(&one), &mapper(&other));
    let cold = open(&objects, &directory.path().join("3")).unwrap();
    assert_eq!(cold.value_spaces(dochistory_core::history::values::Room::Mapper).unwrap(), ["jms"]);
    for history in [&one, &other, &cold] {
        assert_eq!(mapped(&mapper(history), &all).unwrap(), own(&all));
        assert!(mapper(history).values().verify(&mut |_, _| Ok(())).unwrap() > 0);
    }
    let purged = mapper(&other).purge_by(Purge::at(START + 31 * DAY), false).unwrap();
    assert_eq!(purged.entries, 280);
    for history in [&one, &cold, &open(&objects, &directory.path().join("4")).unwrap()] {
        assert_eq!(mapped(&mapper(history), &all).unwrap(), vec![None; 240]);
    }
}

#[test]
fn maps_are_copied_to_a_directory_and_back() {
    let (objects, directory) = calm();
    let one = open(&objects, &directory.path().join("1")).unwrap();
    let all = busy(&mapper(&one), &mapper(&one));
    count(&one, &Mutex::default());
    let copy = directory.path().join("copy");
    let names = copy_from_objects(Arc::new(objects), &copy).unwrap();
    assert_eq!(names, ["mapper:jms", "delivery:received"]);
    let copied = History::open(&copy, &OpenOptions::default()).unwrap();
    assert_eq!(mapped(&mapper(&copied), &all).unwrap(), own(&all));
    let back = SimulatedObjects::new(2, Weather::default());
    copied.copy_to_objects(&(Arc::new(back.clone()) as Arc<dyn ObjectStore>)).unwrap();
    let there = open(&back, &directory.path().join("2")).unwrap();
    assert_eq!(mapped(&mapper(&there), &all).unwrap(), own(&all));
    assert_eq!(value(&*there.received_streams(false).unwrap()).unwrap(), Some(1u64.to_le_bytes().to_vec()));
}

#[test]
fn a_map_whose_file_a_rule_deleted_says_so() {
    let (objects, directory) = calm();
    let history = open(&objects, &directory.path().join("1")).unwrap();
    let all = busy(&mapper(&history), &mapper(&history));
    for name in objects.names().iter().filter(|name| name.contains("/data-")) {
        objects.lose(name);
    }
    let cold = open(&objects, &directory.path().join("2")).unwrap();
    let answer = mapped(&mapper(&cold), &all).unwrap_err().to_string();
    assert!(answer.starts_with("[DH-MISSING] cannot find mappers/jms-"), "{answer}");
    assert!(begin(&mapper(&cold), &all).is_err(), "nothing is new while it is unknown");
}
