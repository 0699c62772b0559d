//! Who is woken, and when.

use super::wake_throttle::{MAX_AWAKE, MOST_GROUPS, WakeThrottle, woken_in};

/// A group that was served while the next one waits; answers who is woken, and the round.
fn serve(throttle: &mut WakeThrottle<u32>, group: std::ops::Range<u32>) -> (Vec<u32>, u64) {
    throttle.served(&mut group.collect(), true)
}

/// A thread that was woken in `round` arrives with its next job.
fn arrive(throttle: &mut WakeThrottle<u32>, round: u64) -> Option<u32> {
    woken_in(round);
    throttle.arrived().map(|(next, _)| next)
}

#[test]
fn each_that_arrives_wakes_the_next_in_order() {
    let mut throttle = WakeThrottle::default();
    let (woken, round) = serve(&mut throttle, 0..10);
    assert_eq!(woken.len(), MAX_AWAKE - 1, "the thread that served them is awake, too");
    assert_eq!(arrive(&mut throttle, 0), None, "one that was not woken");
    let next: Vec<u32> = std::iter::from_fn(|| arrive(&mut throttle, round)).collect();
    assert_eq!([woken, next].concat(), (0..10).collect::<Vec<_>>());
}

#[test]
fn all_are_woken_when_nobody_serves_them_next() {
    let mut throttle = WakeThrottle::default();
    serve(&mut throttle, 0..10);
    let (woken, round) = throttle.served(&mut vec![10, 11], false);
    assert_eq!(woken, (1..12).collect::<Vec<_>>());
    assert_eq!(arrive(&mut throttle, round), None);
}

#[test]
fn all_are_woken_when_those_before_were_too_slow() {
    let mut throttle = WakeThrottle::default();
    let (_, round) = serve(&mut throttle, 0..100);
    arrive(&mut throttle, round).unwrap();
    let left = 99 - 1;
    assert!(left > MOST_GROUPS);
    assert_eq!(serve(&mut throttle, 100..101).0.len(), left + 1);
}

#[test]
fn nobody_waits_for_threads_that_do_not_come_back() {
    let mut throttle = WakeThrottle::default();
    // Those that are woken have ended; others arrive, and are never counted.
    let mut waiting = 0;
    for group in 0..1000 {
        waiting += 3;
        waiting -= serve(&mut throttle, 0..3).0.len();
        waiting -= usize::from(arrive(&mut throttle, 0).is_some());
        assert!(waiting <= 6, "{waiting} wait after {group} groups");
    }
}

#[test]
fn round_of_other_threads_does_not_count() {
    let (mut ours, mut others) = (WakeThrottle::default(), WakeThrottle::default());
    let (_, round) = serve(&mut ours, 0..10);
    let (_, other) = serve(&mut others, 0..10);
    assert_ne!(round, other);
    assert_eq!(arrive(&mut ours, other), None);
    assert_eq!(arrive(&mut ours, round), Some(1));
}
