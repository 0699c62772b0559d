//! Who may go, and when.

use super::returns::{AT_ONCE, MOST_GROUPS, Returns, leave_in};

/// A group that was served while the next one waits; answers who may go, and the turn.
fn serve(returns: &mut Returns<u32>, group: std::ops::Range<u32>) -> (Vec<u32>, u64) {
    returns.served(&mut group.collect(), true)
}

/// A thread that was let go in `turn` comes back.
fn come(returns: &mut Returns<u32>, turn: u64) -> Option<u32> {
    leave_in(turn);
    returns.come().map(|(next, _)| next)
}

#[test]
fn each_that_comes_lets_the_next_go_in_order() {
    let mut returns = Returns::default();
    let (go, turn) = serve(&mut returns, 0..10);
    assert_eq!(go.len(), AT_ONCE - 1, "whoever served them goes, too");
    assert_eq!(come(&mut returns, 0), None, "one that was not let go");
    let next: Vec<u32> = std::iter::from_fn(|| come(&mut returns, turn)).collect();
    assert_eq!([go, next].concat(), (0..10).collect::<Vec<_>>());
}

#[test]
fn all_go_when_nobody_serves_them_next() {
    let mut returns = Returns::default();
    serve(&mut returns, 0..10);
    let (go, turn) = returns.served(&mut vec![10, 11], false);
    assert_eq!(go, (1..12).collect::<Vec<_>>());
    assert_eq!(come(&mut returns, turn), None);
}

#[test]
fn all_go_when_those_before_went_too_slowly() {
    let mut returns = Returns::default();
    let (_, turn) = serve(&mut returns, 0..100);
    come(&mut returns, turn).unwrap();
    let left = 99 - 1;
    assert!(left > MOST_GROUPS);
    assert_eq!(serve(&mut returns, 100..101).0.len(), left + 1);
}

#[test]
fn nobody_waits_for_threads_that_do_not_come_back() {
    let mut returns = Returns::default();
    // Those that are let go have ended; others come, and are never counted.
    let mut waiting = 0;
    for group in 0..1000 {
        waiting += 3;
        waiting -= serve(&mut returns, 0..3).0.len();
        waiting -= usize::from(come(&mut returns, 0).is_some());
        assert!(waiting <= 6, "{waiting} wait after {group} groups");
    }
}

#[test]
fn turn_of_other_threads_does_not_count() {
    let (mut ours, mut others) = (Returns::default(), Returns::default());
    let (_, turn) = serve(&mut ours, 0..10);
    let (_, other) = serve(&mut others, 0..10);
    assert_ne!(turn, other);
    assert_eq!(come(&mut ours, other), None);
    assert_eq!(come(&mut ours, turn), Some(1));
}
