use super::*;
use crate::key::{Form, Key};

const REFUSE: Replays = Replays { on_replay: OnReplay::ByRules, on_other_rows: OnOtherRows::Refuse };
const LOOK_UP: Replays = Replays { on_replay: OnReplay::Rerun, on_other_rows: OnOtherRows::LookUp };

#[expect(clippy::unnecessary_wraps, reason = "what is compared is an option: old stores have none")]
fn rows(ids: &[u64]) -> Option<BatchRows> {
    let mut rows = BatchRows::default();
    for id in ids {
        rows.push(Form::Uuid, Key { hi: id.wrapping_mul(0x9e37_79b9_7f4a_7c15), lo: *id });
    }
    Some(rows)
}

fn after(last: Option<Last>, now: Option<BatchRows>, how: Replays) -> Result<Meaning> {
    Transaction { application: "app".into(), batch: 5 }.after(last, now, how)
}

#[expect(clippy::unnecessary_wraps, reason = "what is compared is an option: old stores have none")]
fn last(batch: i64, rows: Option<BatchRows>, outcome: Option<Ending>) -> Option<Last> {
    Some(Last { batch, rows, outcome })
}

#[test]
fn a_number_is_new_after_none_a_lower_one_or_a_roll_back() {
    for how in [REFUSE, LOOK_UP] {
        assert_eq!(after(None, rows(&[1]), how).unwrap(), Meaning::First);
        assert_eq!(after(last(4, rows(&[1]), Some(Ending::Completed)), rows(&[2]), how).unwrap(), Meaning::First);
        assert_eq!(after(last(5, rows(&[1]), Some(Ending::Released)), rows(&[2]), how).unwrap(), Meaning::First);
    }
}

#[test]
fn the_same_number_and_rows_are_the_same_batch() {
    for (outcome, is_finished) in [(None, false), (Some(Ending::Completed), true)] {
        for how in [REFUSE, LOOK_UP] {
            let found = after(last(5, rows(&[1, 2]), outcome), rows(&[2, 1]), how).unwrap();
            assert_eq!(found, Meaning::Same { is_finished });
            assert_eq!((found.is_done(), found.reruns(how)), (is_finished, !is_finished && how == LOOK_UP));
            assert_eq!(found.replaces(how), found.reruns(how));
            // Before the rows are known they are assumed to be the same.
            assert_eq!(after(last(5, rows(&[1, 2]), outcome), None, how).unwrap(), found);
        }
    }
}

#[test]
fn the_same_number_with_other_rows_is_refused_or_looked_up() {
    for outcome in [None, Some(Ending::Completed)] {
        for other in [rows(&[]), rows(&[1]), rows(&[1, 3]), rows(&[1, 2, 2])] {
            let refused = after(last(5, rows(&[1, 2]), outcome), other, REFUSE).unwrap_err();
            assert_eq!(refused.code(), "DH-TRANSACTION");
            assert!(refused.to_string().contains("new checkpoint") && refused.to_string().contains("look_up"));
            let found = after(last(5, rows(&[1, 2]), outcome), other, LOOK_UP).unwrap();
            assert_eq!((found, found.replay()), (Meaning::OtherRows, Replay::First));
            assert!(!found.is_done() && !found.reruns(LOOK_UP) && found.begins());
        }
    }
}

#[test]
fn where_the_rows_were_not_written_down_none_is_done() {
    for (outcome, is_finished) in [(None, false), (Some(Ending::Completed), true)] {
        let found = after(last(5, None, outcome), rows(&[1]), REFUSE).unwrap();
        assert_eq!(found, Meaning::Unknown { is_finished });
        assert!(!found.is_done() && !found.replaces(LOOK_UP) && !found.begins());
        assert_eq!(found.reruns(LOOK_UP), !is_finished);
    }
}

#[test]
fn a_number_that_goes_backwards_is_refused_whatever_its_rows() {
    for how in [REFUSE, LOOK_UP] {
        assert_eq!(after(last(6, None, None), rows(&[1]), how).unwrap_err().code(), "DH-TRANSACTION");
    }
}
