//! Rows 9 to 13.
use super::*;

/// Decides and commits; answers the patience left, and the request.
fn turn(table: &mut StreamTable, headers: &[PartHeader], options: &Options) -> (Option<u32>, Option<(u64, u64)>) {
    let poll = poll_one(table, headers, options);
    let outcome = poll.streams.first().map_or((None, None), |one| (one.patience, one.resend));
    table.commit(poll).unwrap();
    outcome
}

const EARLY: PartHeader = PartHeader { resend_count: 0, prev: 20, cur: 30, seq: 0 };

fn patient(patience: u32) -> Options {
    Options { patience, ..Options::default() }
}

#[test]
fn row_9_no_patience_runs_while_nothing_is_held() {
    let mut table = one_stream(10, 0);
    assert_eq!(turn(&mut table, &[EARLY], &patient(3)), (Some(3), None));
    assert_eq!(turn(&mut table, &[], &patient(3)), (Some(2), None));
    assert_eq!(turn(&mut table, &[header(0, 10, 20, 0)], &patient(3)), (None, None));
    assert_eq!(turn(&mut table, &[], &patient(3)), (None, None));
}

#[test]
fn row_9_an_unfinished_transaction_alone_starts_no_patience() {
    let mut table = one_stream(10, 0);
    for _ in 0..3 {
        assert_eq!(turn(&mut table, &[header(0, 10, 10, 0)], &patient(1)), (None, None));
    }
}

#[test]
fn row_10_new_message_restarts_the_wait_unless_switched_off() {
    let next = |n: u64| header(0, 30 + n, 31 + n, 0);
    let mut table = one_stream(10, 0);
    turn(&mut table, &[EARLY], &patient(2));
    for n in 0..5 {
        assert_eq!(turn(&mut table, &[next(n)], &patient(2)), (Some(2), None));
    }
    let mut table = one_stream(10, 0);
    let options = Options { reset_patience: false, ..patient(2) };
    assert_eq!(turn(&mut table, &[EARLY], &options), (Some(2), None));
    assert_eq!(turn(&mut table, &[next(0)], &options), (Some(1), None));
    assert_eq!(turn(&mut table, &[next(1)], &options), (None, Some((1, 10))));
}

#[test]
fn row_10_stale_and_duplicate_messages_do_not_reset_patience() {
    let mut table = one_stream(10, 1);
    let early = PartHeader { resend_count: 1, ..EARLY };
    assert_eq!(turn(&mut table, &[early], &patient(3)), (Some(3), None));
    assert_eq!(turn(&mut table, &[early, header(0, 30, 40, 0), header(1, 5, 10, 0)], &patient(3)), (Some(2), None));
    assert_eq!(turn(&mut table, &[header(0, 30, 40, 0)], &patient(3)), (Some(1), None));
    assert_eq!(turn(&mut table, &[], &patient(3)), (None, Some((2, 10))));
}

#[test]
fn row_11_batch_mode_asks_at_once() {
    let mut table = one_stream(10, 0);
    let options = Options { batch_mode: true, ..patient(5) };
    let poll = poll_one(&table, &[header(0, 10, 10, 0), EARLY], &options);
    assert_eq!(poll.streams[0].resend, Some((1, 10)));
    assert_eq!(poll.rows.reasons, [Reason::PartDropped, Reason::HeldDropped]);
    assert_eq!(statuses(&poll), [Status::InDoubt; 2]);
    table.commit(poll).unwrap();
    assert_eq!(turn(&mut table, &[header(1, 10, 20, 0)], &options), (None, None));
}

#[test]
fn row_11_message_of_a_later_epoch_means_a_gap() {
    let mut table = one_stream(10, 0);
    assert_eq!(turn(&mut table, &[header(2, 20, 30, 0)], &patient(1)), (Some(1), None));
    assert_eq!(turn(&mut table, &[], &patient(1)), (None, Some((1, 10))));
}

#[test]
fn row_12_a_request_that_only_stale_messages_answer_is_repeated() {
    let mut table = one_stream(10, 0);
    turn(&mut table, &[EARLY], &patient(2));
    turn(&mut table, &[], &patient(2));
    assert_eq!(turn(&mut table, &[], &patient(2)), (None, Some((1, 10))));
    for _ in 0..2 {
        assert_eq!(turn(&mut table, &[EARLY], &patient(2)), (None, None));
        assert_eq!(turn(&mut table, &[], &patient(2)), (None, None), "silence says nothing");
        assert_eq!(turn(&mut table, &[EARLY], &patient(2)), (None, None));
        assert_eq!(turn(&mut table, &[EARLY], &patient(2)), (None, Some((1, 10))), "the same request");
    }
    assert_eq!(turn(&mut table, &[header(1, 10, 20, 0)], &patient(2)), (None, None));
    for _ in 0..5 {
        assert_eq!(turn(&mut table, &[EARLY], &patient(2)), (None, None), "the request was heard");
    }
}

#[test]
fn row_12_a_crash_does_not_forget_that_a_request_may_be_unheard() {
    let mut table = one_stream(10, 1);
    assert_eq!(turn(&mut table, &[EARLY], &patient(1)), (None, None));
    assert_eq!(turn(&mut table, &[EARLY], &patient(1)), (None, Some((1, 10))));
}

#[test]
fn row_13_confirmation_lost_in_a_crash_is_sent_again() {
    let mut table = one_stream(10, 0);
    let poll = poll_one(&table, &[header(0, 10, 20, 0)], &Options::default());
    assert_eq!(poll.streams[0].confirm, Some(20));
    let durable = poll.changes[0].after;
    assert_eq!((durable.log_received, durable.confirm_received), (20, 10));
    table.commit(poll).unwrap();
    assert_eq!(table.state("s").unwrap().confirm_received, 20);
    assert!(poll_one(&table, &[], &Options::default()).streams.is_empty(), "given once");

    let mut restarted = StreamTable::new();
    restarted.insert("s", durable).unwrap();
    let poll = poll_one(&restarted, &[], &Options::default());
    assert_eq!(poll.streams[0].confirm, Some(20));
}
