"""The receiver's table, row by row, and the end of a poll."""

from __future__ import annotations

import pytest

import dochistory as dh
from tests.delivery.support import applied, column, decisions, header, messages, statuses, stream_of, with_epoch


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "the header does not parse"),
        ("", "the header does not parse"),
        ("0-10-20-0", "the header does not parse"),
        ("(0-10-20)", "the header does not parse"),
        ("(0-10-2x-0)", "the header does not parse"),
        ("(0-10-20-0) ", "the header does not parse"),
        ("(0-10-000000000000000000020-0)", "the header does not parse"),
        ("(0-10-18446744073709551616-0)", "the header does not parse"),
        ("(2147483647-10-20-0)", "its epoch is above 2147483646"),
        ("(2147483648-10-20-0)", "its epoch is above 2147483646"),
        ("(18446744073709551615-10-20-0)", "its epoch is above 2147483646"),
        ("(0-20-10-0)", "the last commit lies before"),
    ],
)
def test_row_0_what_does_not_parse_is_corrupt_and_in_doubt(history: dh.History, text: str | None, why: str) -> None:
    poll = history.delivery("s", start=10).receive(messages([text]))
    assert (decisions(poll), statuses(poll)) == (["CORRUPT"], ["IN_DOUBT"])
    assert why in column(poll.decisions, "reason")[0]
    assert column(poll.decisions, "transaction") == [None]


def test_the_highest_epoch_that_is_joined_can_go_back(history: dh.History) -> None:
    highest = 2_147_483_646
    inbox = history.delivery("s", start=10, batch_mode=True)
    poll = inbox.receive(messages([header(10, 20, 0, highest), header(30, 40, 0, highest)]))
    assert decisions(poll) == ["APPLY", "HOLD"]
    poll.commit()
    (request,) = poll.resend_requests.to_pylist()
    assert (request["resend_epoch"], request["resend_from"]) == (highest + 1, 20)
    assert history.delivery_out("s", start=40).on_resend_request(highest + 1, 20, log_start=0)
    again = inbox.receive(messages([header(20, 40, 0, highest + 1)]))
    assert decisions(again) == ["APPLY"]


def test_a_poll_says_what_it_is(history: dh.History) -> None:
    poll = history.delivery("s", start=10).receive(messages([header(10, 20), header(30, 40)]))
    assert repr(poll) == '<DeliveryPoll "s": 2 messages, 1 to apply, open>'
    poll.commit()
    assert repr(poll) == '<DeliveryPoll "s": 2 messages, 1 to apply, committed>'
    every = history.delivery().receive()
    assert repr(every) == "<DeliveryPoll of all streams: 0 messages, 0 to apply, open>"


def test_zero_padding_means_nothing_and_offsets_have_64_bits(history: dh.History) -> None:
    top = 2**64 - 1
    poll = history.delivery("s", start=10).receive(messages(["(0-10-0000000020-0)", f"(000-00020-{top:020}-00)"]))
    assert (decisions(poll), stream_of(poll)["log_received"]) == (["APPLY", "APPLY"], top)


def test_row_1_a_message_of_an_earlier_epoch_is_stale(history: dh.History) -> None:
    poll = with_epoch(history, 10, 2).receive(messages([header(10, 20, 0, 1), header(10, 20, 0, 0)]))
    assert (decisions(poll), statuses(poll)) == (["STALE", "STALE"], ["DUPLICATE", "DUPLICATE"])


def test_row_2_later_epoch_is_joined_at_its_start_else_is_future(history: dh.History) -> None:
    inbox = history.delivery("s", start=10, patience=9)
    poll = inbox.receive(messages([header(30, 40), header(20, 30, 0, 2), header(10, 20, 1, 2), header(10, 20, 0, 2)]))
    assert decisions(poll) == ["HOLD", "FUTURE", "FUTURE", "APPLY"]
    assert statuses(poll) == ["IN_DOUBT", "IN_DOUBT", "IN_DOUBT", "NEW"]
    assert stream_of(poll)["rereceive_count"] == 2
    assert stream_of(poll)["held"] == 0


def test_row_3_what_is_applied_already_is_a_duplicate(history: dh.History) -> None:
    poll = history.delivery("s", start=20).receive(messages([header(10, 20), header(5, 15), header(10, 10, 3)]))
    assert (decisions(poll), set(statuses(poll))) == (["DUPLICATE"] * 3, {"DUPLICATE"})


def test_row_4_overlapping_message_is_requested_again(history: dh.History) -> None:
    poll = history.delivery("s", start=20).receive(messages([header(10, 30)]))
    assert (decisions(poll), statuses(poll), applied(poll)) == (["OVERLAP"], ["IN_DOUBT"], [])
    poll.commit()
    assert poll.resend_requests.to_pylist() == [{"stream": "s", "resend_epoch": 1, "resend_from": 20}]


def test_row_5_second_message_for_a_place_never_replaces_it(history: dh.History) -> None:
    inbox = history.delivery("s", start=10, patience=9)
    poll = inbox.receive(
        messages([header(20, 30), header(20, 30), header(20, 35), header(10, 10), header(10, 10), header(10, 20, 0)])
    )
    assert decisions(poll) == ["HOLD", "DUPLICATE", "CONFLICT", "PART", "DUPLICATE", "CONFLICT"]
    poll.commit()
    poll = inbox.receive(messages([header(20, 31), header(10, 20, 1)]))
    assert decisions(poll) == ["CONFLICT", "APPLY"]
    assert applied(poll) == [(10, 10, 0), (10, 20, 1), (20, 30, 0)]


def test_rows_6_to_8_hold_buffer_apply(history: dh.History) -> None:
    inbox = history.delivery("s", start=10)
    poll = inbox.receive(messages([header(10, 20, 2), header(20, 30), header(10, 10, 0), header(10, 10, 1)]))
    assert decisions(poll) == ["HOLD", "HOLD", "PART", "PART"]
    assert column(poll.decisions, "apply_rank") == [2, 3, 0, 1]
    assert column(poll.decisions, "transaction") == [10, 20, 10, 10]
    assert statuses(poll) == ["NEW"] * 4
    assert column(poll.messages, "dh_commit") == [20, 20, 20, 30]


def test_9_unfinished_transaction_alone_starts_no_wait(history: dh.History) -> None:
    inbox = history.delivery("s", start=10, patience=1)
    poll = inbox.receive(messages([header(10, 10, 0)]))
    poll.commit()
    assert (stream_of(poll)["patience"], stream_of(poll)["buffered_parts"]) == (None, 1)
    for _ in range(4):
        poll = inbox.receive()
        poll.commit()
        assert poll.resend_requests.num_rows == 0


def test_10_new_message_restarts_the_wait_unless_switched_off(history: dh.History) -> None:
    for name, reset, left in (("a", True, [2, 2, 1]), ("b", False, [2, 1, None])):
        inbox = history.delivery(name, start=10, patience=2, reset_patience=reset)
        seen = []
        for arrivals in ([header(20, 30)], [header(30, 40)], []):
            poll = inbox.receive(messages(arrivals))
            poll.commit()
            seen.append(stream_of(poll)["patience"])
        assert seen == left
        assert bool(poll.resend_requests.num_rows) is not reset


def test_11_stream_out_of_patience_requests_a_resend(history: dh.History) -> None:
    inbox = history.delivery("s", start=10, patience=2)
    seen = []
    for arrivals in ([header(20, 30), header(10, 10, 0)], [], []):
        poll = inbox.receive(messages(arrivals))
        poll.commit()
        seen += poll.resend_requests.to_pylist()
    assert seen == [{"stream": "s", "resend_epoch": 1, "resend_from": 10}]
    assert (stream_of(poll)["held"], stream_of(poll)["buffered_parts"]) == (0, 0)
    again = inbox.receive(messages([header(10, 20, 0, 1)]))
    assert decisions(again) == ["APPLY"]


def test_11_in_batch_mode_it_asks_at_once(history: dh.History) -> None:
    poll = history.delivery("s", start=10, patience=9, batch_mode=True).receive(messages([header(20, 30)]))
    poll.commit()
    assert column(poll.resend_requests, "resend_epoch") == [1]
    assert statuses(poll) == ["IN_DOUBT"]


def test_12_unanswered_request_repeats_despite_stale_messages(history: dh.History) -> None:
    inbox = with_epoch(history, 10, 1)
    seen = []
    for _ in range(3):
        poll = inbox.receive(messages([header(10, 20)]))
        poll.commit()
        seen.append(poll.resend_requests.to_pylist())
    assert seen[0] == [{"stream": "s", "resend_epoch": 1, "resend_from": 10}]


def test_13_a_confirmation_is_given_after_the_commit_and_once(history: dh.History) -> None:
    inbox = history.delivery("s", start=10)
    poll = inbox.receive(messages([header(10, 20)]))
    assert stream_of(poll)["confirm"] is None
    with pytest.raises(dh.StateError, match="not committed"):
        _ = poll.confirmations
    with pytest.raises(dh.StateError, match="not committed"):
        _ = poll.resend_requests
    poll.commit()
    assert stream_of(poll)["confirm"] == 20
    assert poll.confirmations.to_pylist() == [{"stream": "s", "confirm": 20}]
    poll = inbox.receive()
    poll.commit()
    assert poll.confirmations.num_rows == 0


def test_first_contact_needs_a_start_or_the_option(history: dh.History) -> None:
    arrivals = messages([header(30, 40), header(20, 30), header(10, 20, 1)])
    poll = history.delivery("s").receive(arrivals)
    assert (decisions(poll), statuses(poll)) == (["UNKNOWN"] * 3, ["IN_DOUBT"] * 3)
    poll.commit()
    poll = history.delivery("s", first_contact=True).receive(arrivals)
    poll.commit()
    assert decisions(poll) == ["HOLD", "APPLY", "DUPLICATE"]
    assert column(history.delivery_status(), "log_received") == [40]


def test_when_too_much_is_held_the_highest_goes_first(history: dh.History) -> None:
    inbox = history.delivery("s", start=10, patience=9, held_limit=2)
    poll = inbox.receive(messages([header(40, 50), header(20, 30), header(30, 40)]))
    assert statuses(poll) == ["IN_DOUBT", "HELD", "HELD"]
    poll.commit()
    assert applied(inbox.receive(messages([header(10, 20)]))) == [(10, 20, 0), (20, 30, 0), (30, 40, 0)]
