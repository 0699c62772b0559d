//! Maintenance beside threads that write: whatever is sealed, compacted and filtered meanwhile, an
//! id that was begun stays known, and one of several that bring the same id gets it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dochistory_core::testing::lower_limits;
use harness::{DAY, START, begin, fresh, open, rules, seal, trigger, uuids};

const BATCH: usize = 5;
const BATCHES: usize = 150;
const THREADS: usize = 8;

#[test]
fn ids_stay_known_while_two_handles_maintain() {
    lower_limits();
    let (directory, history) = fresh();
    let other = open(directory.path());
    let ids = uuids(0..(BATCH * BATCHES) as u64);
    let (is_over, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (handle, all) in [(&history, false), (&history, true), (&other, true)] {
            let (is_over, begun) = (&is_over, &begun);
            scope.spawn(move || {
                let mut seen = 0;
                while !is_over.load(Ordering::Relaxed) {
                    // Each time that a few batches came, so that they are not held up by it alone.
                    let now = begun.load(Ordering::Relaxed);
                    if now < seen + 3 {
                        std::thread::yield_now();
                        continue;
                    }
                    seen = now;
                    handle.seal("orders").unwrap();
                    handle.maintain("orders", all, &mut |_, _| Ok(())).unwrap();
                }
            });
        }
        for (number, batch) in ids.chunks(BATCH).enumerate() {
            let now = START + DAY * number as i64 / 20;
            begin(&history, &trigger(), batch, now).claim.unwrap().complete(None).unwrap();
            begun.fetch_add(1, Ordering::Relaxed);
            // All that was acknowledged, now and then.
            if number % 15 == 0 {
                for handle in [&history, &other] {
                    let known = &ids[..(number + 1) * BATCH];
                    assert_eq!(rules(handle, &trigger(), known, now), vec!["R9"; known.len()]);
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for handle in [&history, &other, &open(directory.path())] {
        assert_eq!(rules(handle, &trigger(), &ids, START), vec!["R9"; ids.len()]);
        handle.verify("orders", &mut |_, _| Ok(())).unwrap();
        assert_eq!(rules(handle, &trigger(), &uuids(1 << 40..(1 << 40) + 500), START), vec!["R8"; 500]);
    }
}

#[test]
fn one_of_several_threads_gets_an_id_that_all_bring() {
    lower_limits();
    let (directory, history) = fresh();
    let (ids, begun) = (uuids(0..200), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for id in &ids {
                    let found = begin(&history, &trigger(), std::slice::from_ref(id), START);
                    if let Some(claim) = found.claim {
                        begun.fetch_add(1, Ordering::Relaxed);
                        claim.complete(None).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(begun.load(Ordering::Relaxed), ids.len());
    assert_eq!(rules(&open(directory.path()), &trigger(), &ids, START), vec!["R9"; ids.len()]);
}

#[test]
fn releases_and_ends_of_many_threads_each_have_their_own_answer() {
    let (_directory, history) = fresh();
    let ids = uuids(0..400);
    std::thread::scope(|scope| {
        for part in ids.chunks(400 / THREADS) {
            let history = &history;
            scope.spawn(move || {
                for (place, id) in part.iter().enumerate() {
                    let claim = begin(history, &trigger(), std::slice::from_ref(id), START).claim.unwrap();
                    if place % 2 == 0 {
                        claim.complete(None).unwrap();
                        assert!(claim.release(None).is_err(), "a completion is final");
                    } else {
                        claim.release(None).unwrap();
                        assert!(claim.complete(None).is_err(), "it was released");
                    }
                }
            });
        }
    });
    let expected: Vec<&str> = (0..ids.len()).map(|place| if place % 50 % 2 == 0 { "R9" } else { "R8" }).collect();
    assert_eq!(rules(&history, &trigger(), &ids, START), expected);
}

#[test]
fn maintenance_goes_on_with_what_is_written_meanwhile() {
    lower_limits();
    let (directory, history) = fresh();
    let other = open(directory.path());
    // Each in a segment of its own day, which nothing is compacted with.
    let write = |days: std::ops::Range<u64>| {
        for day in days {
            let now = START + DAY * day as i64;
            begin(&other, &trigger(), &uuids(day..day + 1), now).claim.unwrap().complete(None).unwrap();
            seal(&other, "orders");
        }
    };
    let uncovered = || history.statistics("orders").unwrap().segments_uncovered;
    write(0..13);
    assert_eq!((uncovered(), history.is_maintenance_due("orders")), (13, true));
    let mut written = 13;
    let mut more = |_, _| {
        if written < 26 {
            write(written..written + 13);
            written += 13;
        }
        Ok(())
    };
    history.maintain_while_due("orders", &mut more).unwrap();
    assert_eq!((uncovered(), history.is_maintenance_due("orders")), (0, false));
    assert_eq!(rules(&history, &trigger(), &uuids(0..27), START)[25..], ["R9", "R8"]);
}
