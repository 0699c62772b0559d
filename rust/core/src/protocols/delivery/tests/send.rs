//! The table of the sending side.
use super::*;

fn sent(log_sent: u64, confirm_sent: u64) -> SenderState {
    SenderState { log_sent, log_send: 100, confirm_sent, resend_count: 2, ..SenderState::default() }
}

#[test]
fn a_message_starts_where_the_last_one_ended() {
    let (message, state) = sent(10, 0).message(30, 0, 5).unwrap();
    assert_eq!(message, header(2, 10, 30, 0));
    assert_eq!((state.log_sent, state.send_count, state.time_sent), (30, 1, 5));
    assert_eq!(state.message(40, 0, 6).unwrap().0, header(2, 30, 40, 0));
}

#[test]
fn only_the_last_part_moves_log_sent() {
    let (first, state) = sent(10, 0).part(0, 5).unwrap();
    let (second, state) = state.part(1, 5).unwrap();
    assert_eq!((first, second, state.log_sent), (header(2, 10, 10, 0), header(2, 10, 10, 1), 10));
    let (last, state) = state.message(30, 2, 5).unwrap();
    assert_eq!((last, state.log_sent, state.send_count), (header(2, 10, 30, 2), 30, 3));
}

#[test]
fn nothing_is_sent_when_there_is_nothing_to_send() {
    let idle = SenderState::starting_at(10);
    assert!(!idle.has_to_send());
    assert!(matches!(idle.part(0, 0), Err(SendError::NothingToSend { .. })));
    let offered = idle.offer(20);
    assert!(offered.has_to_send());
    assert_eq!(offered.offer(15), offered);
    for cur in [9, 10, 21] {
        assert!(matches!(offered.message(cur, 0, 0), Err(SendError::NothingToSend { .. })));
    }
}

#[test]
fn confirmation_moves_forward_and_never_past_what_was_sent() {
    let state = sent(30, 10);
    assert_eq!(state.confirm(20), Ok(Confirmation::Advanced(SenderState { confirm_sent: 20, ..state })));
    assert_eq!(state.confirm(30), Ok(Confirmation::Advanced(SenderState { confirm_sent: 30, ..state })));
    assert_eq!(state.confirm(10), Ok(Confirmation::Ignored));
    assert_eq!(state.confirm(3), Ok(Confirmation::Ignored));
    assert_eq!(state.confirm(31), Err(SendError::Restored { offset: 31, log_sent: 30 }));
}

#[test]
fn a_resend_request_counts_once() {
    let state = sent(30, 10);
    let restarted = SenderState { resend_count: 3, confirm_sent: 20, log_sent: 20, ..state };
    assert_eq!(state.resend(3, 20, 0), Ok(Resend::Restart(restarted)));
    assert_eq!(restarted.resend(3, 20, 0), Ok(Resend::Ignored));
    assert_eq!(restarted.resend(2, 0, 0), Ok(Resend::Ignored));
    let from_confirmed = SenderState { resend_count: 9, log_sent: 10, ..state };
    assert_eq!(state.resend(9, 5, 0), Ok(Resend::Restart(from_confirmed)), "never before what is confirmed");
}

#[test]
fn impossible_resend_is_an_error_that_says_extract_again() {
    let state = sent(30, 10);
    let truncated = state.resend(3, 10, 11).unwrap_err();
    assert_eq!(truncated, SendError::Truncated { from: 10, log_start: 11 });
    assert!(truncated.to_string().contains("extract the subscription again"));
    assert_eq!(state.resend(3, 31, 0), Err(SendError::Restored { offset: 31, log_sent: 30 }));
    assert_eq!(state.resend(MAX_EPOCH + 1, 20, 0), Err(SendError::Epoch { epoch: MAX_EPOCH + 1 }));
}

#[test]
fn the_log_may_be_truncated_up_to_what_all_have_confirmed() {
    assert_eq!(truncation_point(&[sent(30, 10), sent(30, 7), sent(30, 30)]), Some(7));
    assert_eq!(truncation_point(&[]), None);
}
