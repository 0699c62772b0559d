//! N1 to N5, literally.
use super::*;

fn outcome(status: Status, action: Action, change: Change, on_success: Change, audit: Audit) -> MapperOutcome {
    MapperOutcome { status, action, change, on_success, audit }
}

#[test]
fn n1_best_effort_is_processed_without_a_unit_of_work() {
    let rules = Rows::new(&[("a", Qos::BestEffort, 0), ("a", Qos::BestEffort, 0)]).send(true, None);
    assert_eq!(rules, [Rule::N1; 2]);
    let expected = outcome(Status::NewUnchecked, Action::Process, Change::None, Change::None, Audit::None);
    assert_eq!(Rule::N1.outcome(), expected);
}

#[test]
fn n2_an_id_that_is_not_mapped_is_mapped_within_the_unit() {
    let rules = Rows::new(&[("a", Qos::ExactlyOnce, 0)]).send(false, None);
    let expected = outcome(Status::New, Action::Process, Change::None, Change::MapInUnit, Audit::None);
    assert_eq!((rules[0], rules[0].outcome()), (Rule::N2, expected));
}

#[test]
fn n3_a_mapped_id_is_acknowledged_and_audited_on_the_original() {
    let rules = Rows::new(&[("a", Qos::ExactlyOnce, 0)]).send(true, None);
    let expected = outcome(Status::Duplicate, Action::Skip, Change::None, Change::None, Audit::SuccessOnOriginal);
    assert_eq!((rules[0], rules[0].outcome()), (Rule::N3, expected));
}

#[test]
fn n4_failure_before_the_commit_rolls_back_then_new() {
    let rows = Rows::new(&[("a", Qos::ExactlyOnce, 0), ("a", Qos::ExactlyOnce, 0)]);
    assert_eq!(rows.send(false, None), [Rule::N2, Rule::N3Batch]);
    let rules = rows.send(false, Some(&[Attempt::Failed, Attempt::Open]));
    assert_eq!(rules, [Rule::N4, Rule::N2Hold], "its caller was told to skip the copy: it is not mapped unprocessed");
    let expected = outcome(Status::Failed, Action::Raise, Change::RollBack, Change::None, Audit::Error);
    assert_eq!(Rule::N4.outcome(), expected);
    let best_effort = Rows::new(&[("a", Qos::BestEffort, 0)]);
    assert_eq!(best_effort.send(false, Some(&[Attempt::Failed])), [Rule::N1Failed]);
}

#[test]
fn n5_crash_between_the_commits_makes_a_duplicate() {
    let rows = Rows::new(&[("a", Qos::ExactlyOnce, 0)]);
    let mut mapped = false;
    assert_eq!(rows.send(mapped, None)[0].outcome().on_success, Change::MapInUnit);
    mapped = true; // The unit is committed, the source is not.
    assert_eq!(rows.send(mapped, None), [Rule::N3]);
}

#[test]
fn failure_holds_every_later_row_of_its_queue_only() {
    let rows = Rows::new(&[
        ("a", Qos::InOrder, 0),
        ("b", Qos::InOrder, 1),
        ("c", Qos::InOrder, 0),
        ("d", Qos::ExactlyOnce, 0),
        ("", Qos::InOrder, 1),
        ("e", Qos::InOrder, 1),
    ]);
    let mut attempts = [Attempt::Open; 6];
    attempts[0] = Attempt::Failed;
    let rules = rows.send(false, Some(&attempts));
    assert_eq!(rules, [Rule::N4, Rule::N2, Rule::N4Queue, Rule::N2, Rule::NoId, Rule::N4Queue]);
    assert_eq!(words(&rules)[2], ("N4+queue", Status::Undecided, Action::Hold));
    assert_eq!(words(&rules)[4], ("N+no id", Status::InDoubt, Action::Raise));
}
