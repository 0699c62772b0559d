//! What is pending, what is durable, and what is in doubt.
use super::*;

#[test]
fn a_poll_that_is_dropped_changes_nothing() {
    let mut table = one_stream(10, 0);
    let options = Options { patience: 5, first_contact: true, ..Options::default() };
    let held = poll_one(&table, &[header(0, 20, 30, 0), header(0, 10, 10, 0)], &options);
    table.commit(held).unwrap();
    let arrivals = [("s", Some(header(0, 10, 20, 1))), ("new", Some(header(0, 0, 1, 0)))];
    let first = poll_headers(&table, &arrivals, &options);
    let again = poll_headers(&table, &arrivals, &options);
    assert_eq!(format!("{first:?}"), format!("{again:?}"));
    drop(first);
    assert_eq!((table.len(), table.state("s").unwrap().log_received), (1, 10));
    table.commit(again).unwrap();
    assert_eq!(table.state("s").unwrap().log_received, 30);
}

#[test]
fn a_poll_that_another_commit_overtook_is_refused() {
    let mut table = one_stream(10, 0);
    let message = [header(0, 10, 20, 0)];
    let (one, two) = (poll_one(&table, &message, &Options::default()), poll_one(&table, &message, &Options::default()));
    table.commit(one).unwrap();
    assert_eq!(table.commit(two).unwrap_err().code(), "DH-STATE");
}

#[test]
fn a_range_in_doubt_is_held_until_it_is_settled() {
    let mut table = StreamTable::new();
    let crashed = ReceiverState { applying_upto: 30, ..ReceiverState::starting_at(10) };
    assert_eq!(crashed.in_doubt(), Some((10, 30)));
    table.insert("s", crashed).unwrap();
    let resent = [header(0, 10, 20, 0), header(0, 20, 30, 0), header(0, 30, 40, 0), header(0, 10, 20, 0)];
    let poll = poll_one(&table, &resent, &Options::default());
    assert_eq!(poll.rows.reasons, [Reason::InDoubtRange, Reason::Held, Reason::Held, Reason::AlreadyKept]);
    assert_eq!(poll.rows.status(0), Status::InDoubt);
    assert!(poll.changes.is_empty());
    table.commit(poll).unwrap();
    for _ in 0..3 {
        let poll = poll_one(&table, &[], &Options::default());
        assert_eq!((poll.streams[0].resend, poll.streams[0].patience), (None, None), "nothing is missing");
        table.commit(poll).unwrap();
    }
    for (applied_upto, expected) in [(10, vec![10, 20, 30]), (20, vec![20, 30]), (30, vec![30])] {
        let mut settled = StreamTable::new();
        settled.insert("s", crashed).unwrap();
        let poll = poll_one(&settled, &resent, &Options::default());
        settled.commit(poll).unwrap();
        let durable = settled.settle("s", applied_upto).unwrap();
        assert_eq!((durable.log_received, durable.in_doubt()), (applied_upto, None));
        let poll = poll_one(&settled, &[], &Options::default());
        let released: Vec<_> = poll.released.iter().map(|one| one.prev).collect();
        assert_eq!((released, poll.streams[0].log_received), (expected, 40));
    }
}

#[test]
fn only_an_offset_in_the_range_in_doubt_settles_it() {
    let mut table = StreamTable::new();
    table.insert("s", ReceiverState { applying_upto: 30, ..ReceiverState::starting_at(10) }).unwrap();
    assert_eq!(table.settle("s", 9).unwrap_err().code(), "DH-RESTORED");
    assert_eq!(table.settle("s", 31).unwrap_err().code(), "DH-RESTORED");
    assert_eq!(table.settle("t", 10).unwrap_err().code(), "DH-STATE");
    table.settle("s", 20).unwrap();
    assert_eq!(table.settle("s", 21).unwrap_err().code(), "DH-RESTORED");
}

#[test]
fn a_state_that_contradicts_itself_is_refused() {
    let mut table = StreamTable::new();
    let good = ReceiverState::starting_at(10);
    assert!(table.insert("s", ReceiverState { confirm_received: 11, ..good }).is_err());
    assert!(table.insert("s", ReceiverState { applying_upto: 9, ..good }).is_err());
    table.insert("s", good).unwrap();
    assert!(table.insert("s", good).is_err(), "a stream is in the table once");
    assert_eq!(table.iter().collect::<Vec<_>>(), [("s", &good)]);
}
