//! M1 to M8, literally.
use super::*;
use Action::{Hold, Process, Raise, Skip};
use Change::{RemovePending, TakePending, WriteMappingRemovePending, WritePending};
use Status::{Duplicate, InDoubt, New, NewUnchecked, Undecided};

const NO: Change = Change::None;

fn one(pending: bool, mapped: bool, policy: Policy) -> MapperOutcome {
    Rows::new(&[("a", Qos::ExactlyOnce, 0)]).receive(pending, mapped, policy, None)[0].outcome()
}

fn outcome(status: Status, action: Action, change: Change, on_success: Change, audit: Audit) -> MapperOutcome {
    MapperOutcome { status, action, change, on_success, audit }
}

#[test]
fn m1_neither_pending_nor_mapped_is_new_under_any_policy() {
    for policy in [Policy::Error, Policy::Process, Policy::Duplicate] {
        let expected = outcome(New, Process, WritePending, WriteMappingRemovePending, Audit::None);
        assert_eq!(one(false, false, policy), expected);
    }
}

#[test]
fn m2_mapped_is_duplicate_and_drops_a_stale_pending_entry() {
    for policy in [Policy::Error, Policy::Process, Policy::Duplicate] {
        assert_eq!(one(false, true, policy), outcome(Duplicate, Skip, NO, NO, Audit::None));
        assert_eq!(one(true, true, policy), outcome(Duplicate, Skip, RemovePending, NO, Audit::None));
    }
}

#[test]
fn m3_pending_raises_audits_an_error_and_is_not_retryable() {
    assert_eq!(one(true, false, Policy::Error), outcome(InDoubt, Raise, NO, NO, Audit::Error));
    assert!(!Rule::M3.is_retryable());
    assert_eq!(Policy::default(), Policy::Error);
}

#[test]
fn m4_pending_is_sent_under_policy_process() {
    let expected = outcome(New, Process, TakePending, WriteMappingRemovePending, Audit::Warning);
    assert_eq!(one(true, false, Policy::Process), expected);
}

#[test]
fn m5_pending_counts_as_sent_if_the_policy_says_so() {
    let expected = outcome(Duplicate, Skip, WriteMappingRemovePending, NO, Audit::Entry);
    assert_eq!(one(true, false, Policy::Duplicate), expected);
}

#[test]
fn m6_best_effort_is_never_checked_not_even_for_an_id() {
    let rows = Rows::new(&[("a", Qos::BestEffort, 0), ("a", Qos::BestEffort, 0), ("", Qos::BestEffort, 9)]);
    for rule in rows.receive(true, true, Policy::Error, None) {
        assert_eq!(rule, Rule::M6);
        assert_eq!(rule.outcome(), outcome(NewUnchecked, Process, NO, NO, Audit::None));
    }
}

#[test]
fn m7_row_in_doubt_holds_later_rows_of_its_queue_only() {
    let rows = Rows::new(&[
        ("a", Qos::InOrder, 1),
        ("b", Qos::InOrder, 0),
        ("c", Qos::InOrder, 1),
        ("d", Qos::InOrder, 0),
        ("e", Qos::ExactlyOnce, 0),
        ("f", Qos::BestEffort, 0),
        ("g", Qos::InOrder, 0),
    ]);
    let pending = [false, true, false, false, false, false, true];
    let mapped = [false, false, false, true, false, false, false];
    let facts = ReceiverFacts {
        batch: rows.batch(None),
        pending: &pending,
        mapped: &mapped,
        policies: Policies::All(Policy::Error),
    };
    let rules = decide_receiver(&facts).unwrap();
    assert_eq!(rules, [Rule::M1, Rule::M3, Rule::M1, Rule::M7, Rule::M1, Rule::M6, Rule::M7]);
    assert_eq!(Rule::M7.outcome(), outcome(Undecided, Hold, NO, NO, Audit::None));
}

#[test]
fn m8_without_an_id_nothing_is_sent() {
    let rows = Rows::new(&[("", Qos::InOrder, 2), ("", Qos::ExactlyOnce, 2), ("a", Qos::InOrder, 2)]);
    let rules = rows.receive(false, false, Policy::Process, None);
    assert_eq!(rules, [Rule::M8, Rule::M8, Rule::M7]);
    assert_eq!(Rule::M8.outcome(), outcome(InDoubt, Raise, NO, NO, Audit::Error));
}

#[test]
fn single_ids_can_be_decided_against_the_channels_policy() {
    let rows = Rows::new(&[("a", Qos::ExactlyOnce, 0), ("b", Qos::ExactlyOnce, 0), ("c", Qos::ExactlyOnce, 0)]);
    let facts = ReceiverFacts {
        batch: rows.batch(None),
        pending: &[true; 3],
        mapped: &[false; 3],
        policies: Policies::Rows(&[Policy::Process, Policy::Error, Policy::Duplicate]),
    };
    assert_eq!(decide_receiver(&facts).unwrap(), [Rule::M4, Rule::M3, Rule::M5]);
}
