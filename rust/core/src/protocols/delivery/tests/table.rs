//! Rows 0 to 8, one by one.
use super::*;

/// L = 10, rr = 1, with part 0 of the transaction after 10 buffered and (20-30-0) held.
fn waiting() -> StreamTable {
    let mut table = one_stream(10, 1);
    let poll =
        poll_one(&table, &[header(1, 10, 10, 0), header(1, 20, 30, 0)], &Options { patience: 9, ..Options::default() });
    table.commit(poll).unwrap();
    table
}

fn outcome_of(one: PartHeader) -> (Decision, Status, Reason) {
    let poll = poll_one(&waiting(), &[one], &Options { patience: 9, ..Options::default() });
    (poll.rows.decision(0), poll.rows.status(0), poll.rows.reasons[0])
}

#[test]
fn row_0_an_unusable_header_is_corrupt_and_counts_as_lost() {
    let table = one_stream(10, 0);
    for (text, reason) in [
        ("(0-10-9-0)", Reason::Backwards),
        ("(0-10-20)", Reason::Malformed),
        ("(0-10-99999999999999999999-0)", Reason::Malformed),
    ] {
        let poll = poll_texts(&table, &[text], &Options::default());
        assert_eq!((poll.rows.decision(0), poll.rows.status(0)), (Decision::Corrupt, Status::InDoubt));
        assert_eq!(poll.rows.reasons[0], reason);
        assert_eq!((poll.streams[0].patience, poll.changes.len()), (None, 0));
    }
    let poll = poll_headers(&table, &[("s", None), ("s", Some(header(0, 10, 20, 0)))], &Options::default());
    assert_eq!(decisions(&poll), [Decision::Corrupt, Decision::Apply]);
}

#[test]
fn rows_1_to_8_match_in_order() {
    use Decision as D;
    use Status as S;
    for (one, expected) in [
        (header(0, 10, 20, 1), (D::Stale, S::Duplicate, Reason::Stale)),
        (header(0, 5, 8, 0), (D::Stale, S::Duplicate, Reason::Stale)),
        (header(2, 10, 20, 1), (D::Future, S::InDoubt, Reason::Future)),
        (header(2, 20, 30, 0), (D::Future, S::InDoubt, Reason::Future)),
        (header(2, 5, 8, 0), (D::Future, S::InDoubt, Reason::Future)),
        (header(7, 10, 10, 0), (D::Part, S::New, Reason::AdoptedPart)),
        (header(7, 10, 20, 0), (D::Apply, S::New, Reason::AdoptedApplied)),
        (header(1, 5, 10, 0), (D::Duplicate, S::Duplicate, Reason::AlreadyApplied)),
        (header(1, 5, 8, 3), (D::Duplicate, S::Duplicate, Reason::AlreadyApplied)),
        (header(1, 9, 9, 0), (D::Duplicate, S::Duplicate, Reason::AlreadyApplied)),
        (header(1, 9, 11, 0), (D::Overlap, S::InDoubt, Reason::Overlap)),
        (header(1, 9, 11, 4), (D::Overlap, S::InDoubt, Reason::Overlap)),
        (header(1, 10, 10, 0), (D::Duplicate, S::Duplicate, Reason::AlreadyKept)),
        (header(1, 20, 30, 0), (D::Duplicate, S::Duplicate, Reason::AlreadyKept)),
        (header(1, 10, 20, 0), (D::Conflict, S::InDoubt, Reason::Conflict)),
        (header(1, 20, 31, 0), (D::Conflict, S::InDoubt, Reason::Conflict)),
        (header(1, 20, 20, 0), (D::Conflict, S::InDoubt, Reason::Conflict)),
        (header(1, 20, 20, 1), (D::Hold, S::Held, Reason::Held)),
        (header(1, 30, 40, 0), (D::Hold, S::Held, Reason::Held)),
        (header(1, 10, 20, 2), (D::Hold, S::Held, Reason::Held)),
        (header(1, 10, 10, 1), (D::Part, S::New, Reason::Part)),
        (header(1, 10, 20, 1), (D::Apply, S::New, Reason::Applied)),
    ] {
        assert_eq!(outcome_of(one), expected, "{one}");
    }
}

#[test]
fn row_2_joining_a_later_epoch_drops_what_is_held_and_buffered() {
    let mut table = waiting();
    let poll = poll_one(&table, &[header(3, 10, 20, 0), header(3, 20, 30, 0)], &Options::default());
    assert_eq!(decisions(&poll), [Decision::Apply; 2]);
    assert_eq!(poll.rows.reasons, [Reason::AdoptedApplied, Reason::Applied]);
    let dropped: Vec<_> = poll.dropped.iter().map(|one| (one.prev, one.seq)).collect();
    assert_eq!(dropped, [(10, 0), (20, 0)]);
    table.commit(poll).unwrap();
    assert_eq!(table.state("s").unwrap().rereceive_count, 3);
}

#[test]
fn row_8_applies_all_parts_and_then_what_is_held() {
    let poll = poll_one(&waiting(), &[header(1, 10, 20, 1)], &Options::default());
    let released: Vec<_> = poll.released.iter().map(|one| (one.prev, one.seq, one.apply_rank)).collect();
    assert_eq!((released, poll.rows.apply_ranks.clone()), (vec![(10, 0, 0), (20, 0, 2)], vec![1]));
    let change = poll.changes[0];
    assert_eq!((change.after.log_received, change.after.receive_count, change.after.time_received), (30, 3, 7));
    assert_eq!((change.applying.log_received, change.applying.applying_upto), (10, 30));
    assert_eq!(poll.streams[0].confirm, Some(30));
}

#[test]
fn a_held_message_that_another_one_covers_is_dropped() {
    let table = one_stream(10, 0);
    let poll = poll_one(&table, &[header(0, 12, 18, 0), header(0, 10, 20, 0)], &Options::default());
    assert_eq!(poll.rows.reasons, [Reason::HeldCovered, Reason::Applied]);
    assert_eq!(poll.streams[0].resend, None);
    let poll = poll_one(&table, &[header(0, 12, 28, 0), header(0, 10, 20, 0)], &Options::default());
    assert_eq!(poll.rows.reasons, [Reason::HeldOverlap, Reason::Applied]);
    assert_eq!(poll.streams[0].resend, Some((1, 20)), "nobody knows what lies between 20 and 28");
}

#[test]
fn an_overlap_that_was_filled_in_the_same_poll_needs_no_resend() {
    let table = one_stream(10, 0);
    let poll = poll_one(&table, &[header(0, 5, 15, 0), header(0, 10, 20, 0)], &Options::default());
    assert_eq!(decisions(&poll), [Decision::Overlap, Decision::Apply]);
    assert_eq!(poll.streams[0].resend, None);
}

#[test]
fn too_many_held_messages_lose_the_highest_first() {
    let table = one_stream(0, 0);
    let options = Options { held_limit: 2, ..Options::default() };
    let early = [40, 20, 50, 30].map(|prev| header(0, prev, prev + 10, 0));
    let poll = poll_one(&table, &early, &options);
    assert_eq!(poll.rows.reasons, [Reason::HeldOverLimit, Reason::Held, Reason::HeldOverLimit, Reason::Held]);
    assert_eq!(poll.streams[0].held, 2);
    assert!(
        receive(
            &table,
            &HeaderColumns {
                streams: &[],
                names: &[],
                headers: Headers::Text(IdColumn::Uuid { values: &[], validity: Validity::all() })
            },
            &Options { held_limit: 0, ..options },
            0
        )
        .is_err()
    );
}

#[test]
fn unknown_stream_applies_only_with_first_contact() {
    let mut table = one_stream(0, 0);
    let arrivals =
        [("new", Some(header(2, 30, 40, 0))), ("new", Some(header(2, 20, 30, 0))), ("new", Some(header(2, 10, 20, 1)))];
    let poll = poll_headers(&table, &arrivals, &Options::default());
    assert_eq!(decisions(&poll), [Decision::Unknown; 3]);
    assert!(poll.streams.is_empty());

    let options = Options { first_contact: true, ..Options::default() };
    let poll = poll_headers(&table, &arrivals[2..], &options);
    assert_eq!(decisions(&poll), [Decision::Unknown], "a last part does not say where the stream starts");

    let poll = poll_headers(&table, &arrivals, &options);
    assert_eq!(decisions(&poll), [Decision::Hold, Decision::Apply, Decision::Duplicate]);
    assert_eq!(applied(&poll, &arrivals, "new"), [(20, 30, 0), (30, 40, 0)]);
    assert_eq!((table.len(), poll.streams[0].log_received, poll.streams[0].rereceive_count), (1, 40, 2));
    table.commit(poll).unwrap();
    assert_eq!(table.state("new").unwrap().log_received, 40);
}

#[test]
fn streams_with_repeated_dictionary_names_are_independent() {
    let mut table = one_stream(0, 0);
    table.insert("t", ReceiverState::starting_at(5)).unwrap();
    let numbers = Headers::Numbers {
        resend_count: &[0; 5],
        prev: &[10, 5, 0, 0, 0],
        cur: &[20, 7, 10, 1, 10],
        seq: &[0; 5],
        validity: Validity::all(),
    };
    let columns =
        HeaderColumns { streams: &[0, 1, 2, NO_STREAM, 3], names: &["s", "t", "s", "unknown"], headers: numbers };
    let poll = receive(&table, &columns, &Options::default(), 0).unwrap();
    let expected = [Decision::Hold, Decision::Apply, Decision::Apply, Decision::Corrupt, Decision::Unknown];
    assert_eq!(decisions(&poll), expected);
    let ends: Vec<_> = poll.streams.iter().map(|one| (&*one.stream, one.log_received)).collect();
    assert_eq!(ends, [("s", 20), ("t", 7)]);
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let table = one_stream(0, 0);
    let headers = |rows: usize| Headers::Numbers {
        resend_count: &[0; 2][..rows],
        prev: &[0; 2][..rows],
        cur: &[1; 2][..rows],
        seq: &[0; 2][..rows],
        validity: Validity::all(),
    };
    let error = |streams: &[u32], rows| {
        let columns = HeaderColumns { streams, names: &["s"], headers: headers(rows) };
        receive(&table, &columns, &Options::default(), 0).unwrap_err().code()
    };
    assert_eq!(error(&[0], 2), "DH-SCHEMA");
    assert_eq!(error(&[0, 1], 2), "DH-SCHEMA");
}
