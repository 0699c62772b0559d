"""The sender's table, and what a receiver makes of its messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.delivery.support import column, decisions, messages


def headers(built: Any) -> list[str]:
    return column(built, "header")


def test_split_transaction_moves_log_sent_with_its_last_part(
    history: dh.History,
) -> None:
    outbox = history.delivery_out("remote1", start=10)
    built = outbox.build(pa.table({"offset": [20, 30, 40], "parts": [1, 3, 1]}))
    assert headers(built) == [
        "(0-0000000010-0000000020-0)",
        "(0-0000000020-0000000020-0)",
        "(0-0000000020-0000000020-1)",
        "(0-0000000020-0000000030-2)",
        "(0-0000000030-0000000040-0)",
    ]
    assert (column(built, "first"), column(built, "count")) == ([0, 1, 1, 1, 2], [1] * 5)
    assert (outbox.log_sent, outbox.log_send, outbox.send_count) == (40, 40, 5)
    assert outbox.build([20, 30, 40]).num_rows == 0


def test_message_holds_several_transactions_up_to_both_limits(history: dh.History) -> None:
    outbox = history.delivery_out("remote1", start=0)
    log = pa.table({"offset": [1, 2, 3, 4, 5, 6], "parts": [1, 1, 1, 2, 1, 1]})
    assert headers(outbox.build(log, per_message=2, max_messages=2)) == [
        "(0-0000000000-0000000002-0)",
        "(0-0000000002-0000000003-0)",
    ]
    assert (outbox.log_sent, outbox.log_send) == (3, 6)
    assert column(outbox.build(log, per_message=2, max_messages=1), "seq") == [0, 1]
    assert headers(outbox.build(log, per_message=9)) == ["(0-0000000004-0000000006-0)"]


def test_a_confirmation_moves_forward_and_an_old_one_is_ignored(history: dh.History) -> None:
    outbox = history.delivery_out("remote1", start=0)
    outbox.build([10, 20])
    assert outbox.on_confirmation(10)
    assert not outbox.on_confirmation(10)
    assert not outbox.on_confirmation(5)
    assert outbox.confirm_sent == 10


def test_a_confirmation_of_what_was_never_sent_is_an_alarm(history: dh.History) -> None:
    outbox = history.delivery_out("remote1", start=0)
    outbox.build([10])
    with pytest.raises(dh.RestoredError, match=r"\[DH-RESTORED\].*restored to an older state"):
        outbox.on_confirmation(11)
    with pytest.raises(dh.RestoredError):
        outbox.on_resend_request(1, 11)
    assert outbox.confirm_sent == 0


def test_resend_request_counts_once_and_goes_back_to_its_offset(history: dh.History) -> None:
    outbox = history.delivery_out("remote1", start=0)
    outbox.build([10, 20, 30])
    assert outbox.on_resend_request(1, 10)
    assert (outbox.log_sent, outbox.confirm_sent, outbox.resend_count) == (10, 10, 1)
    assert headers(outbox.build([10, 20, 30])) == ["(1-0000000010-0000000020-0)", "(1-0000000020-0000000030-0)"]
    assert not outbox.on_resend_request(1, 10)
    assert outbox.log_sent == 30


def test_the_log_may_be_truncated_as_far_as_all_have_confirmed(history: dh.History) -> None:
    one, two = (history.delivery_out(name, publisher="consolidated", start=0) for name in ("remote1", "remote2"))
    other = history.delivery_out("remote1", publisher="another", start=5)
    for outbox in (one, two):
        outbox.build([10, 20, 30])
    one.on_confirmation(30)
    two.on_confirmation(10)
    assert (one.truncation_point(), two.truncation_point(), other.truncation_point()) == (10, 10, 5)
    two.remove()
    assert one.truncation_point() == 30


def test_resend_of_truncated_log_is_an_error(history: dh.History) -> None:
    outbox = history.delivery_out("remote1", start=0)
    outbox.build([10, 20])
    outbox.on_confirmation(20)
    with pytest.raises(dh.TruncatedError, match=r"\[DH-TRUNCATED\].*extract the subscription again"):
        outbox.on_resend_request(1, 10)
    with pytest.raises(dh.TruncatedError):
        outbox.on_resend_request(1, 15, log_start=16)
    assert outbox.resend_count == 0


def test_a_subscription_extracted_again_is_another_stream(history: dh.History) -> None:
    outbox = history.delivery_out("remote1", start=0)
    history.delivery("s", start=0).receive(outbox.build([10, 20])).commit()
    outbox.remove()
    again = history.delivery_out("remote1", start=50).build([60])
    early = history.delivery_out("remote2", start=0).build([15])
    old = history.delivery("s", start=50)
    assert [decisions(old.receive(built)) for built in (again, early)] == [["HOLD"], ["DUPLICATE"]]
    assert decisions(history.delivery("s/2", start=50).receive(again)) == ["APPLY"]


def test_what_was_sent_is_remembered(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.delivery_out("remote1", start=0).build([10, 20])
    with dh.open(history_path) as history:
        outbox = history.delivery_out("remote1", start=99)
        assert (outbox.log_sent, outbox.subscriber, outbox.publisher) == (20, "remote1", "")
        with pytest.raises(dh.StateError, match="no subscriber yet"):
            history.delivery_out("remote2")


def test_of_two_senders_to_one_subscriber_one_goes_on(history: dh.History) -> None:
    one, two = history.delivery_out("remote1", start=0), history.delivery_out("remote1")
    one.build([10])
    with pytest.raises(dh.FencedError, match="another sender"):
        two.build([10])
    assert one.build([10, 20]).num_rows == 1


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ([10, 10], "does not come after"),
        (pa.table({"offset": [10, 5]}), "does not come after"),
        (pa.table({"offset": [10], "parts": [0]}), "at least one message"),
        (pa.table({"offset": [None, 3]}, pa.schema({"offset": pa.int64()})), "null"),
        (pa.table({"offset": [-1]}), "out of range"),
        (pa.table({"offset": ["x"]}), "allowed is an integer"),
        (pa.table({"at": [1]}), 'no column "offset"'),
        (["x"], "no log offsets"),
    ],
)
def test_what_is_no_log_is_refused(history: dh.History, log: Any, complaint: str) -> None:
    with pytest.raises(dh.SchemaError, match=complaint):
        history.delivery_out("remote1", start=0).build(log)


def test_receiver_applies_what_a_sender_builds_with_named_rows(
    history: dh.History,
) -> None:
    outbox = history.delivery_out("s", start=0)
    inbox = history.delivery("s", start=0)
    built = outbox.build(pa.table({"offset": [10, 20, 30], "parts": [1, 2, 1]}))
    numbers = built.select(["resend_count", "prev", "cur", "seq"])
    assert decisions(inbox.receive(messages(headers(built)))) == ["APPLY", "PART", "APPLY", "APPLY"]
    poll = history.delivery("s", log_received=0).receive(numbers)
    assert decisions(poll) == ["APPLY", "PART", "APPLY", "APPLY"]
    poll.commit()
    assert outbox.on_confirmation(column(poll.confirmations, "confirm")[0])
    (row,) = history.delivery_status().to_pylist()
    assert [row[name] for name in ("log_sent", "log_send", "confirm_sent", "send_count", "resend_count")] == [
        30,
        30,
        30,
        4,
        0,
    ]
    assert [row[name] for name in ("log_received", "receive_count", "rereceive_count", "applying_upto")] == [
        30,
        4,
        0,
        30,
    ]
    assert row["time_sent"] is not None
    assert row["time_received"] is not None
