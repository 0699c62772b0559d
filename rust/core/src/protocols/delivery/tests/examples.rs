//! The examples of the rules, word for word.
use super::Decision::{Apply, Corrupt, Duplicate, Hold, Overlap, Part, Stale};
use super::*;

const FIRST: &str = "(0-0000923200-0000923357-0)";
const SECOND: &str = "(0-0000923357-0000942712-0)";
const THIRD: &str = "(0-0000942712-0001119170-0)";

#[test]
fn messages_in_order_are_applied_and_confirmed() {
    let mut table = one_stream(923_200, 0);
    let poll = poll_texts(&table, &[FIRST, SECOND, THIRD], &Options::default());
    assert_eq!(decisions(&poll), [Apply, Apply, Apply]);
    assert_eq!(statuses(&poll), [Status::New; 3]);
    assert_eq!(poll.rows.apply_ranks, [0, 1, 2]);
    assert_eq!(poll.streams[0].confirm, Some(1_119_170));
    table.commit(poll).unwrap();
    let state = table.state("s").unwrap();
    assert_eq!((state.log_received, state.confirm_received, state.receive_count), (1_119_170, 1_119_170, 3));
}

#[test]
fn a_stream_can_go_back_from_every_epoch_that_it_joins() {
    let mut table = one_stream(10, 0);
    let options = Options { batch_mode: true, ..Options::default() };
    let poll = poll_texts(&table, &["(2147483647-10-20-0)"], &options);
    assert_eq!((decisions(&poll), poll.rows.reasons[0]), (vec![Corrupt], Reason::Malformed));
    assert_eq!((poll.streams[0].rereceive_count, poll.streams[0].resend), (0, None));
    table.commit(poll).unwrap();

    let poll = poll_texts(&table, &["(2147483646-10-20-0)", "(2147483646-30-40-0)"], &options);
    assert_eq!(decisions(&poll), [Apply, Hold]);
    assert_eq!(poll.streams[0].resend, Some((2_147_483_647, 20)));
    table.commit(poll).unwrap();
    let sent = SenderState { resend_count: 2_147_483_646, ..SenderState::starting_at(40) };
    assert!(matches!(sent.resend(2_147_483_647, 20, 0), Ok(Resend::Restart(_))));

    let poll = poll_texts(&table, &["(2147483647-20-40-0)"], &options);
    assert_eq!(decisions(&poll), [Apply]);
}

#[test]
fn early_message_is_held_and_applied_in_order() {
    let table = one_stream(923_200, 0);
    let poll = poll_texts(&table, &[THIRD, FIRST, SECOND], &Options::default());
    assert_eq!(decisions(&poll), [Hold, Apply, Apply]);
    assert_eq!(poll.rows.apply_ranks, [2, 0, 1], "the held one last");
    assert_eq!(poll.rows.reasons[0], Reason::HeldApplied);
    assert_eq!(statuses(&poll), [Status::New; 3]);
    assert!(poll.released.is_empty(), "only messages of earlier polls are listed there");
    assert_eq!(poll.streams[0].held, 0);
}

#[test]
fn a_lost_message_is_asked_for_and_the_old_epoch_is_ignored() {
    let mut table = one_stream(923_200, 0);
    let options = Options::default();
    let poll = poll_texts(&table, &[FIRST, THIRD], &options);
    assert_eq!(decisions(&poll), [Apply, Hold]);
    assert_eq!(statuses(&poll), [Status::New, Status::Held]);
    assert_eq!((poll.streams[0].patience, poll.streams[0].held, poll.streams[0].resend), (Some(1), 1, None));
    table.commit(poll).unwrap();

    let poll = poll_texts(&table, &[], &options);
    assert_eq!(poll.streams[0].resend, Some((1, 923_357)));
    assert_eq!(poll.dropped, [Dropped { stream: 0, prev: 942_712, seq: 0 }]);
    assert_eq!(poll.changes[0].after.rereceive_count, 1, "the request leaves after its epoch is durable");
    table.commit(poll).unwrap();

    let poll = poll_texts(&table, &[SECOND, THIRD], &options);
    assert_eq!(decisions(&poll), [Stale, Stale]);
    assert_eq!(statuses(&poll), [Status::Duplicate; 2]);
    assert_eq!(poll.streams[0].resend, None);
    table.commit(poll).unwrap();

    let poll = poll_texts(&table, &["(1-0000923357-0000942712-0)", "(1-0000942712-0001119170-0)"], &options);
    assert_eq!(decisions(&poll), [Apply, Apply]);
    assert_eq!(poll.streams[0].confirm, Some(1_119_170));
}

#[test]
fn a_resend_that_starts_too_early_is_applied_once() {
    let table = one_stream(942_712, 1);
    let poll = poll_texts(&table, &["(1-0000923357-0000942712-0)", "(1-0000942712-0001119170-0)"], &Options::default());
    assert_eq!(decisions(&poll), [Duplicate, Apply]);
}

#[test]
fn an_unfinished_transaction_starts_again_after_a_crash() {
    let parts = ["(0-942712-942712-0)", "(0-942712-942712-1)", "(0-942712-942712-2)", "(0-942712-1119170-3)"];
    let options = Options::default();
    let mut table = one_stream(942_712, 0);
    let poll = poll_texts(&table, &parts[..2], &options);
    assert_eq!(decisions(&poll), [Part, Part]);
    assert_eq!(poll.rows.apply_ranks, [NOT_APPLIED; 2]);
    assert!(poll.changes.is_empty(), "nothing of an unfinished transaction is durable");
    assert_eq!((poll.streams[0].buffered_parts, poll.streams[0].patience), (2, None));
    let durable = *table.state("s").unwrap();
    table.commit(poll).unwrap();

    let mut restarted = StreamTable::new();
    restarted.insert("s", durable).unwrap();
    let poll = poll_texts(&restarted, &parts, &options);
    assert_eq!(decisions(&poll), [Part, Part, Part, Apply]);
    assert_eq!(poll.rows.apply_ranks, [0, 1, 2, 3]);
    assert_eq!(poll.rows.transactions, [942_712; 4]);
    assert_eq!(poll.streams[0].log_received, 1_119_170);

    let poll = poll_texts(&table, &parts[2..], &options);
    assert_eq!(decisions(&poll), [Part, Apply], "without the crash it goes on");
    assert_eq!(poll.rows.apply_ranks, [2, 3]);
    let released: Vec<_> = poll.released.iter().map(|one| (one.prev, one.cur, one.seq, one.apply_rank)).collect();
    assert_eq!(released, [(942_712, 942_712, 0, 0), (942_712, 942_712, 1, 1)]);
}

#[test]
fn a_message_that_begins_before_and_ends_after_is_not_applied() {
    let table = one_stream(942_712, 1);
    let poll = poll_texts(&table, &["(1-0000923357-0001119170-0)"], &Options::default());
    assert_eq!((decisions(&poll), statuses(&poll)), (vec![Overlap], vec![Status::InDoubt]));
    assert_eq!(poll.streams[0].resend, Some((2, 942_712)));
}
