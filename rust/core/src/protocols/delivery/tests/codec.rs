use super::*;
use proptest::prelude::*;

#[test]
fn a_receivers_bytes_are_as_documented() {
    let state = ReceiverState {
        log_received: 0x0102,
        rereceive_count: 3,
        confirm_received: 4,
        receive_count: 5,
        time_received: -1,
        applying_upto: 0x0203,
    };
    let mut expected = vec![1, 1, 0, 0, 0, 0, 0, 0];
    for number in [0x0102_u64, 3, 4, 5, u64::MAX, 0x0203] {
        expected.extend(number.to_le_bytes());
    }
    assert_eq!(state.encode().to_vec(), expected);
    assert_eq!(ReceiverState::decode(&expected), Ok(state));
}

#[test]
fn a_senders_bytes_are_as_documented() {
    let state =
        SenderState { log_sent: 2, log_send: 3, confirm_sent: 1, send_count: 4, resend_count: 5, time_sent: i64::MIN };
    let mut expected = vec![1, 2, 0, 0, 0, 0, 0, 0];
    for number in [2_u64, 3, 1, 4, 5, 1 << 63] {
        expected.extend(number.to_le_bytes());
    }
    assert_eq!(state.encode().to_vec(), expected);
    assert_eq!(SenderState::decode(&expected), Ok(state));
}

#[test]
fn bytes_that_are_no_state_are_told_apart() {
    let good = ReceiverState::starting_at(9).encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        ReceiverState::decode(&bytes)
    };
    assert_eq!(ReceiverState::decode(&good[..55]), Err(CodecError::Length(55)));
    assert_eq!(with(0, 2), Err(CodecError::Version(2)));
    assert_eq!(with(1, 2), Err(CodecError::Kind { expected: 1, found: 2 }));
    assert_eq!(SenderState::decode(&good), Err(CodecError::Kind { expected: 2, found: 1 }));
    assert_eq!(with(7, 1), Err(CodecError::Reserved));
    assert_eq!(with(24, 10), Err(CodecError::Invariant), "confirmed more than received");
    assert_eq!(with(48, 8), Err(CodecError::Invariant), "applying what is applied");
    let unsent = SenderState { log_sent: 2, log_send: 1, ..SenderState::default() };
    assert_eq!(SenderState::decode(&unsent.encode()), Err(CodecError::Invariant));
}

proptest! {
    #[test]
    fn every_state_survives_encoding(l: u64, rr: u64, k: u64, count: u64, time: i64, a: u64) {
        let mut offsets = [l, k, a];
        offsets.sort_unstable();
        let [confirm_received, log_received, applying_upto] = offsets;
        let state = ReceiverState {
            log_received, rereceive_count: rr, confirm_received, receive_count: count, time_received: time, applying_upto,
        };
        prop_assert_eq!(ReceiverState::decode(&state.encode()), Ok(state));
        let sender = SenderState {
            confirm_sent: confirm_received, log_sent: log_received, log_send: applying_upto,
            send_count: count, resend_count: rr, time_sent: time,
        };
        prop_assert_eq!(SenderState::decode(&sender.encode()), Ok(sender));
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(state) = ReceiverState::decode(&bytes) {
            prop_assert_eq!(state.encode().to_vec(), bytes);
        }
    }
}
