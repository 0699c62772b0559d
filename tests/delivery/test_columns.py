"""Columns in and out: kinds of Arrow data, many streams at once, threads, and what is refused."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.delivery.support import applied, column, decisions, header, messages

CHAIN = [header(10, 20), header(20, 30), header(30, 40)]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.large_string())]
)
def test_text_comes_in_any_layout(history: dh.History, kind: Any) -> None:
    streams = pa.array(["a", None, "b"], pa.string()).cast(kind)
    batch = pa.record_batch({"stream": streams, "header": pa.array([CHAIN[0], CHAIN[0], CHAIN[0]]).cast(kind)})
    poll = history.delivery(start={"a": 10, "b": 20}).receive(batch)
    assert decisions(poll) == ["APPLY", "CORRUPT", "DUPLICATE"]
    assert column(poll.decisions, "reason")[1] == "D0: the message names no stream"


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint32(), pa.uint64()])
def test_numbers_may_stand_in_for_the_header(history: dh.History, kind: Any) -> None:
    numbers = {
        "resend_count": pa.array([0, 0, None], kind),
        "prev": pa.array([10, 20, 30], kind),
        "cur": pa.array([20, 30, 40], kind),
        "seq": pa.array([0, 0, 0], pa.int8()),
    }
    poll = history.delivery("s", start=10).receive(pa.record_batch(numbers))
    assert decisions(poll) == ["APPLY", "APPLY", "CORRUPT"]


def test_a_number_that_does_not_fit_is_corrupt(history: dh.History) -> None:
    batch = pa.record_batch({"resend_count": [0, 0], "prev": [-1, 10], "cur": [20, 20], "seq": [0, 2**32]})
    assert decisions(history.delivery("s", start=10).receive(batch)) == ["CORRUPT", "CORRUPT"]


def test_a_table_gives_a_table_and_a_batch_a_batch(history: dh.History) -> None:
    batch = messages(CHAIN[:2], body=["x", "y"])
    inbox = history.delivery("s", start=10, own_transaction=True)
    poll = inbox.receive(batch)
    assert (type(poll.decisions), type(poll.messages)) == (pa.RecordBatch, pa.RecordBatch)
    table = pa.Table.from_batches([batch, messages(CHAIN[2:], body=["z"])])
    poll = inbox.receive(table)
    assert (type(poll.decisions), type(poll.messages)) == (pa.Table, pa.Table)
    assert column(poll.messages, "body") == ["x", "y", "z"]
    assert poll.decisions.schema.names == ["decision", "status", "transaction", "apply_rank", "reason"]
    assert poll.streams.schema.names == [
        "stream",
        "log_received",
        "rereceive_count",
        "confirm",
        "resend_epoch",
        "resend_from",
        "patience",
        "held",
        "buffered_parts",
    ]


def test_columns_may_have_other_names(history: dh.History) -> None:
    batch = pa.record_batch({"from": ["a"], "subject": [CHAIN[0]]})
    poll = history.delivery(start={"a": 10}).receive(batch, columns={"stream": "from", "header": "subject"})
    assert decisions(poll) == ["APPLY"]


def test_held_messages_return_with_their_rows_from_any_poll(history: dh.History) -> None:
    inbox = history.delivery(start={"a": 10, "b": 10}, patience=9)
    polls = [
        messages([CHAIN[2], CHAIN[1]], stream=["a", "b"], body=["a3", "b2"]),
        messages([CHAIN[1], header(10, 10, 0)], stream=["a", "b"], body=["a2", "b1.0"]),
    ]
    for batch in polls:
        poll = inbox.receive(pa.Table.from_batches([batch]))
        poll.commit()
    poll = inbox.receive(
        messages([header(10, 20, 1), CHAIN[0], None], stream=["b", "a", "a"], body=["b1.1", "a1", "?"])
    )
    assert column(poll.messages, "body") == ["b1.0", "b1.1", "b2", "a1", "a2", "a3"]
    assert column(poll.messages, "dh_commit") == [20, 20, 30, 20, 30, 40]
    assert column(poll.messages, "dh_stream") == ["b"] * 3 + ["a"] * 3
    assert sorted(column(poll.released, "stream")) == ["a", "a", "b", "b"]
    poll.commit()


def test_without_rows_kept_released_messages_are_named_only(history: dh.History) -> None:
    inbox = history.delivery("s", start=10, keep_rows=False)
    inbox.receive(messages([CHAIN[1]])).commit()
    poll = inbox.receive(messages([CHAIN[0]]))
    assert poll.released.to_pylist() == [{"stream": "s", "prev": 20, "cur": 30, "seq": 0, "apply_rank": 1}]
    with pytest.raises(dh.StateError, match="keeps no rows"):
        _ = poll.messages


def test_held_rows_with_other_columns_are_refused(history: dh.History) -> None:
    inbox = history.delivery("s", start=10)
    inbox.receive(messages([CHAIN[1]], body=["x"])).commit()
    with pytest.raises(
        dh.SchemaError, match=r"\[header Utf8, body Utf8\].*\[header Utf8\].*same columns in every poll"
    ):
        inbox.receive(messages([CHAIN[0]]))
    assert inbox.in_doubt().num_rows == 0, "nothing was recorded"
    poll = inbox.receive(messages([CHAIN[0]], body=["w"]))
    assert poll.messages["body"].to_pylist() == ["w", "x"]
    poll.commit()
    inbox.receive(messages([header(30, 40)])).commit()


def shuffled(streams: int, seed: int) -> pa.RecordBatch:
    """Chains of many streams in any order, with split transactions, copies and damage."""
    chance = random.Random(seed)
    rows: list[tuple[str | None, str | None]] = []
    for number in range(streams):
        prev = 10
        for _ in range(chance.randrange(8)):
            cur, parts = prev + chance.randrange(1, 50), chance.choice([1, 1, 3])
            rows += [(f"s{number}", header(prev, cur if seq == parts - 1 else prev, seq)) for seq in range(parts)]
            prev = cur
    rows += [chance.choice(rows) for _ in range(streams)] + [("s1", None), (None, header(10, 20))]
    chance.shuffle(rows)
    return pa.record_batch({"stream": [row[0] for row in rows], "header": pa.array([row[1] for row in rows])})


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_share_streams_and_find_the_same(history: dh.History, threads: int) -> None:
    start = {f"s{number}": 10 for number in range(0, 200, 2)}
    batch = shuffled(200, 5)
    polls = [
        history.delivery(own_transaction=True, start=start, first_contact=True).receive(batch, threads=n)
        for n in (1, threads)
    ]
    for name in ("decisions", "streams", "released", "messages"):
        assert getattr(polls[0], name).equals(getattr(polls[1], name)), name


@pytest.mark.parametrize("seed", range(20))
def test_any_permutation_of_a_poll_applies_the_same_order(history: dh.History, seed: int) -> None:
    chance = random.Random(seed)
    chain, prev = [], 10
    for _ in range(12):
        cur, parts = prev + chance.randrange(1, 90), chance.choice([1, 1, 2, 4])
        chain += [(prev, cur if seq == parts - 1 else prev, seq) for seq in range(parts)]
        prev = cur
    for number in range(10):
        arrivals = chain + chance.choices(chain, k=8)
        chance.shuffle(arrivals)
        inbox = history.delivery(f"stream {number}", start=10)
        poll = inbox.receive(messages([header(*one) for one in arrivals]))
        assert applied(poll) == chain
        poll.commit()
        assert column(inbox.status(), "log_received") == [prev]


@pytest.mark.parametrize("seed", range(10))
def test_arrivals_split_over_polls_with_large_patience_end_equal(history: dh.History, seed: int) -> None:
    chance = random.Random(seed)
    batch = shuffled(8, seed).slice(0)
    start = {f"s{number}": 10 for number in range(8)}
    whole = history.delivery(start=start, own_transaction=True)
    expected = whole.receive(batch).messages.to_pylist()
    parts = history.delivery(start=start, patience=10_000)
    seen: list[dict[str, Any]] = []
    rest = batch
    while rest.num_rows:
        some = chance.randrange(1, 9)
        poll = parts.receive(rest.slice(0, some))
        seen += poll.messages.to_pylist()
        poll.commit()
        rest = rest.slice(some)

    def of(rows: list[dict[str, Any]], stream: str) -> list[tuple[Any, ...]]:
        return [(row["header"], row["dh_commit"]) for row in rows if row["dh_stream"] == stream]

    assert all(of(seen, stream) == of(expected, stream) for stream in start)
    assert len(seen) == len(expected)


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        (pa.record_batch({"header": ["x"]}), 'no column "stream"'),
        (pa.record_batch({"stream": ["a"]}), 'neither a column "header"'),
        (pa.record_batch({"stream": [1], "header": ["x"]}), "allowed is text"),
        (pa.record_batch({"stream": ["a"], "header": [1]}), "allowed is text"),
        (pa.record_batch({"stream": ["a"], "resend_count": ["0"]}), "an integer"),
        (pa.record_batch({"stream": ["a"], "resend_count": [0], "prev": [0], "cur": [0]}), '"seq"'),
        (3, "must be a table"),
    ],
)
def test_what_is_no_poll_is_refused(history: dh.History, batch: Any, complaint: str) -> None:
    with pytest.raises(dh.SchemaError, match=complaint):
        history.delivery().receive(batch)


def test_invalid_arguments_are_refused(history: dh.History) -> None:
    with pytest.raises(dh.SchemaError, match='of stream "b"'):
        history.delivery("a", start=0).receive(messages([CHAIN[0]], stream=["b"]))
    with pytest.raises(dh.SchemaError, match='names "uuid"'):
        history.delivery("a").receive(messages([CHAIN[0]]), columns={"uuid": "header"})
    wrong: list[dict[str, Any]] = [{"start": 5}, {"start": "x"}, {"log_received": {"a": -1}}, {"held_limit": 0}]
    wrong += [{"patience": given} for given in (-1, 1 << 32, "x")]
    for arguments in wrong:
        with pytest.raises(dh.ConfigError):
            history.delivery(**arguments)
    with pytest.raises(dh.ConfigError, match='names "b"'):
        history.delivery("a", start={"b": 5})
    for more in ({"threads": 0}, {"on_replay": "again"}):
        with pytest.raises(dh.ConfigError):
            history.delivery("a").receive(messages([]), **more)
    with pytest.raises(dh.ConfigError):
        history.delivery_out("a", start=0).build([1], per_message=0)
