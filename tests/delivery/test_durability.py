"""What is durable when, what is in doubt after a crash, and which of two receivers goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from tests.delivery.support import applied, column, decisions, header, messages, statuses, stream_of

CHAIN = [header(10, 20), header(20, 30), header(30, 40)]


def test_uncommitted_messages_are_in_doubt_after_a_crash(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.delivery("s", start=10).receive(messages(CHAIN))
    with dh.open(history_path) as history:
        inbox = history.delivery("s")
        assert inbox.in_doubt().to_pylist() == [{"stream": "s", "log_received": 10, "applying_upto": 40}]
        poll = inbox.receive(messages([*CHAIN, header(40, 50)]))
        assert set(statuses(poll)) == {"IN_DOUBT", "HELD"}
        assert applied(poll) == []
        poll.commit()
        assert stream_of(poll)["resend_epoch"] is None
        inbox.settle("s", 20)
        assert inbox.in_doubt().num_rows == 0
        assert applied(inbox.receive()) == [(20, 30, 0), (30, 40, 0), (40, 50, 0)]


def test_nothing_is_in_doubt_of_a_poll_that_applies_nothing(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.delivery("s", start=10).receive(messages([header(20, 30), header(10, 10, 0), header(0, 5)]))
    with dh.open(history_path) as history:
        assert history.delivery("s").in_doubt().num_rows == 0


@pytest.mark.parametrize(("reached", "left"), [(10, 3), (20, 2), (40, 0)])
def test_the_callers_own_log_received_settles_what_is_in_doubt(history: dh.History, reached: int, left: int) -> None:
    history.delivery("s", start=10).receive(messages(CHAIN))
    inbox = history.delivery("s", log_received=reached)
    assert inbox.in_doubt().num_rows == 0
    assert len(applied(inbox.receive(messages(CHAIN)))) == left


def test_a_log_received_that_cannot_be_is_an_alarm(history: dh.History) -> None:
    history.delivery("s", start=10).receive(messages(CHAIN))
    for impossible in (9, 41):
        with pytest.raises(dh.RestoredError, match="extract the subscription again"):
            history.delivery("s", log_received=impossible)
        with pytest.raises(dh.RestoredError):
            history.delivery("s").settle("s", impossible)
    with pytest.raises(dh.StateError, match="not in the table"):
        history.delivery("s").settle("t", 5)


def test_own_transaction_of_the_caller_leaves_nothing_in_doubt(history: dh.History) -> None:
    history.delivery("s", start=10, own_transaction=True).receive(messages(CHAIN[:2]))
    # The caller's transaction has ended, with log_received = 30 in it, and then the process died.
    inbox = history.delivery("s", own_transaction=True, log_received=30)
    assert decisions(inbox.receive(messages(CHAIN))) == ["DUPLICATE", "DUPLICATE", "APPLY"]
    with pytest.raises(dh.RestoredError):
        history.delivery("s", own_transaction=True, log_received=20)


def test_a_commit_is_durable_and_again_changes_nothing(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        poll = history.delivery("s", start=10).receive(messages(CHAIN))
        states = [poll.state]
        for _ in range(2):
            poll.commit()
            states.append(poll.state)
        assert states == ["open", "committed", "committed"]
        with pytest.raises(dh.StateError, match="was committed"):
            poll.abort()
    with dh.open(history_path, read_only=True) as history:
        (row,) = history.delivery_status().to_pylist()
        assert (row["log_received"], row["applying_upto"], row["receive_count"]) == (40, 40, 3)


def test_an_aborted_poll_is_as_if_it_had_not_been(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        inbox = history.delivery(start={"s": 10}, first_contact=True)
        poll = inbox.receive(messages([*CHAIN, header(0, 5)], stream=["s", "s", "s", "new"]))
        poll.abort()
        poll.abort()
        with pytest.raises(dh.StateError, match="aborted"):
            poll.commit()
        assert decisions(inbox.receive(messages(CHAIN, stream=["s"] * 3))) == ["APPLY"] * 3
    with dh.open(history_path) as history:
        assert column(history.delivery_status(), "stream") == ["s"]


def test_a_poll_has_to_end_before_the_next_begins(history: dh.History) -> None:
    inbox = history.delivery("s", start=10)
    poll = inbox.receive(messages(CHAIN[:1]))
    with pytest.raises(dh.StateError, match="commit it, abort it"):
        inbox.receive(messages(CHAIN))
    poll.commit()
    assert decisions(inbox.receive(messages(CHAIN))) == ["DUPLICATE", "APPLY", "APPLY"]


def test_caller_commits_a_part_and_the_rest_is_requested_again(history: dh.History) -> None:
    inbox = history.delivery("s", start=10, patience=9)
    poll = inbox.receive(messages([*CHAIN, header(50, 60)]))
    with pytest.raises(dh.StateError, match="from 10 to 40"):
        poll.commit(log_received=41)
    poll.commit(log_received=30)
    assert column(poll.confirmations, "confirm") == [30]
    assert poll.resend_requests.to_pylist() == [{"stream": "s", "resend_epoch": 1, "resend_from": 30}]
    assert (stream_of(poll)["log_received"], stream_of(poll)["held"]) == (30, 0)
    (row,) = history.delivery_status().to_pylist()
    assert (row["log_received"], row["applying_upto"], row["receive_count"]) == (30, 30, 2)
    assert decisions(inbox.receive(messages([CHAIN[2], header(30, 40, 0, 1)]))) == ["STALE", "APPLY"]


def test_caller_commits_one_stream_and_nothing_of_another(history: dh.History) -> None:
    inbox = history.delivery(start={"a": 10, "b": 10})
    poll = inbox.receive(messages([*CHAIN, *CHAIN], stream=["a"] * 3 + ["b"] * 3))
    poll.commit(log_received={"a": 10, "b": 40})
    assert poll.confirmations.to_pylist() == [{"stream": "b", "confirm": 40}]
    assert column(poll.resend_requests, "stream") == ["a"]


def test_a_confirmation_that_a_crash_swallowed_is_given_again(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.delivery("s", start=10).receive(messages(CHAIN)).commit()
    with dh.open(history_path) as history:
        poll = history.delivery("s").receive()
        poll.commit()
        assert column(poll.confirmations, "confirm") == [40]


def test_what_is_held_or_buffered_is_not_durable(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        poll = history.delivery("s", start=10, patience=9).receive(messages([header(10, 10, 0), header(20, 30)]))
        poll.commit()
        assert (stream_of(poll)["held"], stream_of(poll)["buffered_parts"]) == (1, 1)
    with dh.open(history_path) as history:
        poll = history.delivery("s").receive(messages([header(10, 20, 1)]))
        assert decisions(poll) == ["HOLD"]


def test_of_two_receivers_exactly_one_gets_to_apply(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history, dh.open(history_path) as elsewhere:
        one, two = history.delivery("s", start=10), elsewhere.delivery("s")
        poll = one.receive(messages(CHAIN))
        with pytest.raises(dh.FencedError, match=r"\[DH-FENCED\] another receiver has moved stream \"s\""):
            two.receive(messages(CHAIN))
        poll.commit()
        with pytest.raises(dh.FencedError, match="log_received 40"):
            two.receive(messages(CHAIN))
        assert decisions(elsewhere.delivery("s").receive(messages(CHAIN))) == ["DUPLICATE"] * 3


def test_a_receiver_that_was_taken_over_cannot_commit(history: dh.History) -> None:
    poll = history.delivery("s", start=10).receive(messages(CHAIN))
    # Somebody is sure that the first receiver is dead and has applied nothing, and settles what it left.
    other = history.delivery("s", log_received=10)
    taken_over = other.receive(messages(CHAIN))
    for _ in range(2):
        with pytest.raises(dh.FencedError):
            poll.commit()
    assert poll.state == "open"
    taken_over.commit()
    assert column(history.delivery_status(), "receive_count") == [3]


def test_receivers_of_different_streams_are_independent(history: dh.History) -> None:
    one, two = history.delivery("a", start=10), history.delivery("b", start=10)
    polls = [inbox.receive(messages(CHAIN)) for inbox in (one, two)]
    for poll in polls:
        poll.commit()
    assert column(history.delivery_status(), "log_received") == [40, 40]


def test_a_batch_that_was_committed_is_known_when_it_comes_again(history: dh.History) -> None:
    inbox = history.delivery("s", start=10)
    poll = inbox.receive(messages(CHAIN), transaction=("app", 7))
    assert poll.replay == "first"
    poll.commit()
    again = history.delivery("s").receive(messages(CHAIN), transaction=("app", 7))
    assert (again.replay, decisions(again)) == ("finished", ["DUPLICATE"] * 3)
    again.commit()
    with pytest.raises(dh.TransactionError, match="comes after its batch 7"):
        history.delivery("s").receive(messages(CHAIN), transaction=("app", 6))


def test_interrupted_batch_is_in_doubt_or_handed_out_again(history: dh.History) -> None:
    history.delivery("s", start=10).receive(messages(CHAIN), transaction=("app", 7))
    poll = history.delivery("s").receive(messages(CHAIN), transaction=("app", 7))
    assert (poll.replay, applied(poll)) == ("unfinished", [])
    rerun = history.delivery("s").receive(messages(CHAIN), transaction=("app", 7), on_replay="rerun")
    assert (rerun.replay, len(applied(rerun))) == ("unfinished", 3)
    rerun.commit()
    assert column(history.delivery_status(), "log_received") == [40]


def test_a_rerun_that_would_end_elsewhere_stays_in_doubt(history: dh.History) -> None:
    inbox = history.delivery(start={"a": 10, "b": 10})
    inbox.receive(messages([*CHAIN, CHAIN[0]], stream=["a"] * 3 + ["b"]), transaction=("app", 7))
    # Of stream a the last message was held in memory, say, and is not there now.
    inbox = history.delivery()
    poll = inbox.receive(
        messages([*CHAIN[:2], CHAIN[0]], stream=["a"] * 2 + ["b"]),
        transaction=("app", 7),
        on_replay="rerun",
        on_other_rows="look_up",
    )
    assert column(poll.messages, "dh_stream") == ["b"]
    poll.commit()
    assert column(inbox.in_doubt(), "stream") == ["a"]
    another = history.delivery().receive(messages([CHAIN[1]], stream=["b"]), transaction=("app", 8), on_replay="rerun")
    assert column(another.messages, "dh_stream") == ["b"]


@pytest.mark.parametrize("together", [False, True])
def test_other_messages_under_a_number_are_refused_or_decided(history: dh.History, together: bool) -> None:
    def receive(headers: Sequence[str | None], **options: Any) -> dh.DeliveryPoll:
        inbox = history.delivery("s")
        named: dict[str, Any] = {"transaction": ("app", 7), **options}
        if not together:
            return inbox.receive(messages(headers), **named)
        plan = history._shards.plan_delivery(inbox, **named)
        _, receipt = history._shards.decide_delivery(plan, messages(headers), stream="s")
        return history._shards.merge_delivery(inbox, plan, [receipt], **named)

    history.delivery("s", start=10)
    receive(CHAIN[:2])
    for on_replay in ("in_doubt", "rerun"):
        with pytest.raises(dh.TransactionError, match="was begun, and did not end, with other rows"):
            receive(CHAIN, on_replay=on_replay)
    assert column(history.delivery_status(), "applying_upto") == [30]
    rerun = receive(CHAIN[1::-1], on_replay="rerun")
    assert rerun.replay == "unfinished"
    rerun.commit()
    for other in (CHAIN, CHAIN[:1], [*CHAIN[:2], None], [*CHAIN[:2], "damaged"]):
        with pytest.raises(dh.TransactionError, match=r"^\[DH-TRANSACTION\] .* was completed with other rows"):
            receive(other)
    assert column(history.delivery_status(), "log_received") == [30]
    assert receive(CHAIN[:2]).replay == "finished"
    poll = receive(CHAIN, on_other_rows="look_up")
    assert poll.replay == "first"
    poll.commit()
    assert column(history.delivery_status(), "log_received") == [40]
    with pytest.raises(dh.ConfigError, match="on_other_rows"):
        receive(CHAIN, on_other_rows="skip")


def test_the_number_of_a_poll_that_was_rolled_back_is_free(history: dh.History) -> None:
    history.delivery("s", start=10).receive(messages(CHAIN[:2]), transaction=("app", 7)).abort()
    poll = history.delivery("s").receive(messages(CHAIN), transaction=("app", 7))
    assert (poll.replay, len(applied(poll))) == ("first", 3)


def test_a_reader_may_look_but_not_receive(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.delivery("s", start=10)
    with dh.open(history_path, read_only=True) as history:
        inbox = history.delivery("s")
        assert column(inbox.status(), "log_received") == [10]
        with pytest.raises(dh.ReadOnlyError):
            inbox.receive(messages(CHAIN))


def test_a_closed_history_delivers_nothing(history_path: Path) -> None:
    history = dh.open(history_path, create=True)
    inbox, outbox = history.delivery("s", start=10), history.delivery_out("s", start=10)
    poll = inbox.receive(messages(CHAIN))
    history.close()
    for call in (inbox.receive, inbox.status, poll.commit, poll.abort, outbox.truncation_point):
        with pytest.raises(dh.StateError, match="closed"):
            call()
