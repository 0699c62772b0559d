//! Pinned snapshots and their leases.

use dochistory_core::Purge;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::Call;

use crate::harness::{DAY, Ids, START, begin, fresh, open, rules, seal, trigger, uuid};

#[test]
fn pinned_snapshot_gives_the_same_verdicts_after_any_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("h");
    let history = open(&path);
    let trigger = trigger();
    begin(&history, &trigger, &["a"], START).claim.unwrap().complete(None).unwrap();
    let snapshot = history.pin("orders").unwrap();
    let options = OpenOptions { snapshot: Some(snapshot.clone()), ..OpenOptions::default() };
    let pinned = History::open(&path, &options).unwrap();
    begin(&history, &trigger, &["b"], START + 1).claim.unwrap().complete(None).unwrap();
    for day in 1..20 {
        begin(&history, &trigger, &[uuid(day)], START + day as i64 * DAY).claim.unwrap().complete(None).unwrap();
        seal(&history, "orders");
    }
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    history.purge(&trigger, Purge::at(START + 35 * DAY)).unwrap();
    assert_eq!(rules(&pinned, &trigger, &["a", "b"], START), ["R9", "R8"]);
    let late = History::open(&path, &options).unwrap();
    assert_eq!(rules(&late, &trigger, &["a", "b"], START), ["R9", "R8"]);
    assert_eq!(rules(&history, &trigger, &["a", "b"], START), ["R8", "R8"]);
    history.unpin("orders", &snapshot).unwrap();
    assert!(
        History::open(&path, &options)
            .unwrap()
            .classify(&trigger, &Ids::new(&["a"]).documents(), &mut Call::at(START))
            .is_err()
    );
}

#[test]
fn maintenance_releases_pins_whose_lease_is_over() {
    let (_directory, history) = fresh();
    assert_eq!(history.pins("orders").unwrap(), []);
    begin(&history, &trigger(), &["a"], START);
    let over = history.pin_for("orders", Some(0)).unwrap();
    let leased = history.pin_for("orders", Some(3_600_000_000)).unwrap();
    let forgotten = history.pin("orders").unwrap();
    let names = || history.pins("orders").unwrap().into_iter().map(|pin| pin.name).collect::<Vec<_>>();
    assert_eq!(names(), [over, leased.clone(), forgotten.clone()]);
    assert_eq!(history.statistics("orders").unwrap().pins, 3);

    history.maintain("orders", false, &mut |_, _| Ok(())).unwrap();
    assert_eq!(names(), [leased, forgotten.clone()]);
    let pins = history.pins("orders").unwrap();
    let lasts: Vec<i64> = pins.iter().map(|pin| (pin.ends_at - pin.pinned_at) / 1_000_000).collect();
    assert_eq!(lasts, [3_600, 7 * 24 * 3_600]);
    assert!(pins.iter().all(|pin| pin.process == std::process::id()));
    history.unpin("orders", &forgotten).unwrap();
    assert_eq!(names().len(), 1);
}
