//! The same id twice in one batch, attempts that failed, and columns that do not fit.
use super::*;

fn twice(qos: Qos) -> Rows {
    Rows::new(&[("a", qos, 0), ("b", qos, 0), ("a", qos, 1)])
}

#[test]
fn a_second_copy_that_goes_out_is_in_doubt() {
    let rules = twice(Qos::ExactlyOnce).receive(false, false, Policy::Process, None);
    assert_eq!(rules, [Rule::M1, Rule::M1, Rule::M1Batch]);
    assert_eq!(words(&rules)[2], ("M1+batch", Status::InDoubt, Action::Raise));
    let rules = twice(Qos::ExactlyOnce).receive(true, false, Policy::Process, None);
    assert_eq!(rules, [Rule::M4, Rule::M4, Rule::M1Batch], "the policy is for what was left pending before");
}

#[test]
fn a_second_copy_that_comes_in_is_a_duplicate() {
    let rules = twice(Qos::ExactlyOnce).send(false, None);
    assert_eq!(rules, [Rule::N2, Rule::N2, Rule::N3Batch]);
    assert_eq!(words(&rules)[2], ("N3+batch", Status::Duplicate, Action::Skip));
}

#[test]
fn copies_of_what_is_not_processed_are_decided_alike() {
    assert_eq!(twice(Qos::ExactlyOnce).receive(true, false, Policy::Error, None), [Rule::M3; 3]);
    assert_eq!(twice(Qos::ExactlyOnce).receive(true, false, Policy::Duplicate, None), [Rule::M5; 3]);
    assert_eq!(twice(Qos::ExactlyOnce).receive(false, true, Policy::Error, None), [Rule::M2; 3]);
    assert_eq!(twice(Qos::ExactlyOnce).send(true, None), [Rule::N3; 3]);
}

#[test]
fn copy_in_doubt_holds_its_queue() {
    let rows = Rows::new(&[
        ("a", Qos::InOrder, 0),
        ("a", Qos::InOrder, 0),
        ("b", Qos::InOrder, 0),
        ("e", Qos::InOrder, 1),
        ("a", Qos::InOrder, 1),
        ("c", Qos::InOrder, 1),
    ]);
    let rules = rows.receive(false, false, Policy::Error, None);
    assert_eq!(rules, [Rule::M1, Rule::M1Batch, Rule::M7, Rule::M1, Rule::M1Batch, Rule::M7]);
}

#[test]
fn copy_of_a_failed_attempt_waits_of_an_unknown_is_in_doubt() {
    let rows = twice(Qos::ExactlyOnce);
    let after = |attempt| rows.receive(false, false, Policy::Error, Some(&[attempt, Attempt::Open, Attempt::Open]));
    assert_eq!(after(Attempt::Failed), [Rule::M1Failed, Rule::M1, Rule::M1Hold]);
    assert_eq!(words(&[Rule::M1Hold])[0], ("M1+hold", Status::Undecided, Action::Hold));
    assert!(Rule::M1Hold.is_retryable() && Rule::N2Hold.is_retryable());
    assert_eq!(Rule::M1Failed.outcome().change, Change::RemovePending);
    assert_eq!(after(Attempt::Unknown), [Rule::M1Unknown, Rule::M1, Rule::M1Batch]);
    assert_eq!(Rule::M1Unknown.outcome().change, Change::None, "the pending entry stays");
    assert_eq!(words(&[Rule::M1Unknown])[0].1, Status::InDoubt);
}

#[test]
fn a_copy_of_what_waits_since_a_failure_waits_in_any_queue() {
    let rows = Rows::new(&[
        ("w", Qos::InOrder, 0),
        ("a", Qos::InOrder, 0),
        ("a", Qos::InOrder, 1),
        ("b", Qos::InOrder, 1),
        ("a", Qos::ExactlyOnce, 1),
    ]);
    let attempts = [Attempt::Failed, Attempt::Open, Attempt::Open, Attempt::Open, Attempt::Open];
    let out = rows.receive(false, false, Policy::Error, Some(&attempts));
    assert_eq!(out, [Rule::M1Failed, Rule::M7, Rule::M1Hold, Rule::M7, Rule::M1Hold]);
    assert_eq!(rows.send(false, None), [Rule::N2, Rule::N2, Rule::N3Batch, Rule::N2, Rule::N3Batch]);
    let into = rows.send(false, Some(&attempts));
    assert_eq!(into, [Rule::N4, Rule::N4Queue, Rule::N2Hold, Rule::N4Queue, Rule::N2Hold]);
}

#[test]
fn a_copy_of_what_waits_from_the_start_waits_in_any_queue() {
    let rows = Rows::new(&[
        ("", Qos::InOrder, 0),
        ("a", Qos::InOrder, 0),
        ("a", Qos::ExactlyOnce, 0),
        ("a", Qos::InOrder, 1),
        ("a", Qos::BestEffort, 0),
    ]);
    let out = rows.receive(false, false, Policy::Error, None);
    assert_eq!(out, [Rule::M8, Rule::M7, Rule::M1Hold, Rule::M1Hold, Rule::M6]);
    assert_eq!(rows.receive(false, true, Policy::Error, None)[1..4], [Rule::M7, Rule::M2, Rule::M2]);
    let into = rows.send(false, None);
    assert_eq!(into, [Rule::NoId, Rule::N4Queue, Rule::N2Hold, Rule::N2Hold, Rule::N1]);
}

#[test]
fn what_was_tried_stays_when_an_earlier_row_fails() {
    use Attempt::{Done, Failed, Open, Unknown};

    let rows = Rows::new(&[
        ("a", Qos::InOrder, 0),
        ("b", Qos::InOrder, 0),
        ("c", Qos::InOrder, 0),
        ("d", Qos::InOrder, 0),
        ("e", Qos::InOrder, 0),
        ("d", Qos::ExactlyOnce, 0),
    ]);
    let out = rows.receive(false, false, Policy::Error, Some(&[Failed, Unknown, Failed, Done, Open, Open]));
    assert_eq!(out, [Rule::M1Failed, Rule::M1Unknown, Rule::M1Failed, Rule::M1, Rule::M7, Rule::M1Batch]);
    let into = rows.send(false, Some(&[Failed, Failed, Open, Open, Open, Open]));
    assert_eq!(into, [Rule::N4, Rule::N4, Rule::N4Queue, Rule::N4Queue, Rule::N4Queue, Rule::N2Hold]);
}

#[test]
fn an_attempt_that_failed_holds_the_rest_of_its_queue() {
    let rows = Rows::new(&[("a", Qos::InOrder, 3), ("b", Qos::InOrder, 3), ("c", Qos::BestEffort, 3)]);
    for attempt in [Attempt::Failed, Attempt::Unknown] {
        let attempts = [attempt, Attempt::Open, attempt];
        let rules = rows.receive(false, false, Policy::Error, Some(&attempts));
        assert_eq!(rules[1..], [Rule::M7, Rule::M6Failed]);
    }
}

#[test]
fn attempt_at_a_row_not_to_be_processed_means_nothing() {
    let rows = Rows::new(&[("a", Qos::ExactlyOnce, 0)]);
    assert_eq!(rows.receive(false, true, Policy::Error, Some(&[Attempt::Failed])), [Rule::M2]);
    assert_eq!(rows.send(true, Some(&[Attempt::Failed])), [Rule::N3]);
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let good = Rows::new(&[("a", Qos::InOrder, 3), ("b", Qos::ExactlyOnce, 99)]);
    assert!(decide_sender(&SenderFacts { batch: good.batch(None), mapped: &[false; 2] }).is_ok());
    let code =
        |batch: MapperBatch<'_>, mapped: &[bool]| decide_sender(&SenderFacts { batch, mapped }).unwrap_err().code();
    assert_eq!(code(good.batch(None), &[false]), "DH-SCHEMA");
    assert_eq!(code(good.batch(Some(&[Attempt::Open])), &[false; 2]), "DH-SCHEMA");
    assert_eq!(code(MapperBatch { queue_count: 3, ..good.batch(None) }, &[false; 2]), "DH-SCHEMA");
    assert_eq!(code(MapperBatch { first_copies: &[1, 1], ..good.batch(None) }, &[false; 2]), "DH-SCHEMA");
    let facts = ReceiverFacts {
        batch: good.batch(None),
        pending: &[false; 2],
        mapped: &[false; 2],
        policies: Policies::Rows(&[Policy::Error]),
    };
    assert_eq!(decide_receiver(&facts).unwrap_err().code(), "DH-SCHEMA");
}

#[test]
fn every_rule_has_a_name_a_text_and_a_place() {
    for (code, rule) in Rule::ALL.into_iter().enumerate() {
        assert_eq!(rule as usize, code);
        assert!(!rule.code().is_empty() && !rule.text().is_empty());
    }
}
