"""Ready-made resolvers, asked by a history."""

import datetime as dt
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import resolvers
from tests.support import T0, column, documents, rules, statuses, trigger


@pytest.fixture
def begun(history: dh.History) -> dh.History:
    """A history in which a, b and c are processing since `T0`."""
    history.begin(documents(["a", "b", "c"]), trigger(), now=T0)
    return history


def asked(history: dh.History, resolver: Any, ids: list[str | None] | None = None, **settings: Any) -> Any:
    return history.classify(documents(ids or ["a", "b", "c"]), trigger(resolver=resolver, **settings))


KNOWN = {"key": ["a", "b", "x"], "status": ["DUPLICATE", "NEW", "NEW"], "message": ["shipped", None, None]}


@pytest.mark.parametrize(
    "known",
    [KNOWN, pa.table(KNOWN), pa.RecordBatch.from_pydict(KNOWN), pd.DataFrame(KNOWN), pl.DataFrame(KNOWN)],
    ids=lambda known: type(known).__module__ + "." + type(known).__name__,
)
def test_a_table_of_outcomes_answers_by_key(begun: dh.History, known: Any) -> None:
    verdicts = asked(begun, resolvers.by_table(known, message="message"))
    assert statuses(verdicts) == ["DUPLICATE", "NEW", "IN_DOUBT"]
    assert rules(verdicts) == ["R10>S2", "R10>S1", "R10>S3"]
    assert "shipped" in column(verdicts, "message")[0]


def test_a_table_says_what_missing_keys_are(begun: dh.History) -> None:
    assert statuses(asked(begun, resolvers.by_table({"key": [], "status": []}, missing="NEW"))) == ["NEW"] * 3


def test_a_document_without_key_meets_no_outcome_without_key(begun: dh.History) -> None:
    known = {"key": [None, "a"], "status": ["DUPLICATE", "NEW"]}
    verdicts = asked(begun, resolvers.by_table(known), [None, "a"])
    assert rules(verdicts) == ["R3>S3", "R10>S1"]


def test_columns_may_have_other_names(begun: dh.History) -> None:
    known = pl.DataFrame({"id": ["a"], "outcome": ["IN DOUBT"]})
    assert rules(asked(begun, resolvers.by_table(known, key="id", status="outcome"), ["a"])) == ["R10>S3"]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"key": ["a"]}, "has no column status, but key"),
        ({"key": ["a", "a"], "status": ["NEW", "DUPLICATE"]}, "contradict each other about 'a'"),
        ({"key": ["a"], "status": ["done"]}, "'done' is not an answer"),
        ({"key": [b"\xff"], "status": ["NEW"]}, "it must be text"),
        (5, "a int is not a table of outcomes"),
    ],
)
def test_invalid_table_is_refused(known: Any, said: str) -> None:
    with pytest.raises(dh.SchemaError, match=said):
        resolvers.by_table(known)


def test_a_lease_gives_up_on_what_began_long_ago(history: dh.History) -> None:
    history.begin(documents(["old"]), trigger(), now=T0)
    history.begin(documents(["young"]), trigger(), now=T0 + dt.timedelta(minutes=20))
    lease = resolvers.by_lease(dt.timedelta(minutes=15), now=lambda: T0 + dt.timedelta(minutes=30))
    verdicts = asked(history, lease, ["old", "young", None])
    assert rules(verdicts) == ["R10>S1", "R10>S3", "R3>S3"]
    assert statuses(asked(history, resolvers.by_lease(60.0, otherwise="DUPLICATE"), ["old", None])) == [
        "NEW",
        "DUPLICATE",
    ]


def test_a_lease_ends_only_after_its_time(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger(), now=T0)
    lease = resolvers.by_lease(60, now=lambda: T0 + dt.timedelta(seconds=60))
    assert rules(asked(history, lease, ["a"])) == ["R10>S3"]


@pytest.mark.parametrize("lease", [0, -1, dt.timedelta(0), "soon", None])
def test_a_lease_that_is_over_at_once_is_refused(lease: Any) -> None:
    with pytest.raises(dh.ConfigError, match=r"above zero|longer_than is"):
        resolvers.by_lease(lease)


def test_a_function_answers_for_each_document(begun: dh.History) -> None:
    seen: list[dict[str, Any]] = []

    def one(document: dict[str, Any]) -> Any:
        seen.append(document)
        return {"a": "NEW", "b": ("DUPLICATE", "seen in the ledger"), "c": None}[document["uuid"]]

    verdicts = asked(begun, resolvers.by_document(one))
    assert rules(verdicts) == ["R10>S1", "R10>S2", "R10>S7"]
    assert "seen in the ledger" in column(verdicts, "message")[1]
    assert seen[0]["dh_reason"] == "R10"
    assert seen[0]["dh_started_at"] == T0


def test_what_a_function_raises_counts_for_its_document_alone(begun: dh.History) -> None:
    def one(document: dict[str, Any]) -> str:
        if document["uuid"] == "a":
            raise KeyError("a")
        if document["uuid"] == "b":
            raise dh.TransientError("busy")
        return "NEW"

    verdicts = asked(begun, resolvers.by_document(one), suspend_and_retry_on_error=False)
    assert rules(verdicts) == ["R10>S6", "R10>S5", "R10>S1"]


@pytest.fixture
def database(tmp_path: Path) -> Callable[[], sqlite3.Connection]:
    path = tmp_path / "orders.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table orders (id text primary key, state text, note text)")
        rows = [("a", "DUPLICATE", "shipped"), ("b", "NEW", None), ("';--", "NEW", None)]
        connection.executemany("insert into orders values (?, ?, ?)", rows)
    return lambda: sqlite3.connect(path)


QUERY = "select id, state from orders where id in ({keys})"


@pytest.mark.parametrize("keys_per_query", [1, 2, 500])
@pytest.mark.parametrize("paramstyle", ["qmark", "named"])
def test_a_query_answers_by_key(
    begun: dh.History, database: Callable[[], Any], keys_per_query: int, paramstyle: Any
) -> None:
    resolver = resolvers.by_sql(database, QUERY, paramstyle=paramstyle, keys_per_query=keys_per_query)
    assert rules(asked(begun, resolver)) == ["R10>S2", "R10>S1", "R10>S3"]
    assert rules(asked(begun, resolver, [None, "a"])) == ["R3>S3", "R10>S2"]


def test_a_query_may_answer_a_message(begun: dh.History, database: Callable[[], Any]) -> None:
    resolver = resolvers.by_sql(database, QUERY.replace("state", "state, note"), missing="NEW")
    verdicts = asked(begun, resolver)
    assert rules(verdicts) == ["R10>S2", "R10>S1", "R10>S1"]
    assert "shipped" in column(verdicts, "message")[0]


def test_keys_never_become_part_of_the_query(history: dh.History, database: Callable[[], Any]) -> None:
    odd = "';--"
    history.begin(documents([odd]), trigger())
    assert rules(asked(history, resolvers.by_sql(database, QUERY), [odd])) == ["R10>S1"]


def test_a_database_that_is_down_is_a_transient_failure(begun: dh.History, tmp_path: Path) -> None:
    def connect() -> Any:
        return sqlite3.connect(tmp_path / "no" / "where.db")

    assert set(rules(asked(begun, resolvers.by_sql(connect, QUERY)))) == {"R10>S4"}
    final = resolvers.by_sql(connect, QUERY, transient=())
    assert set(rules(asked(begun, final))) == {"R10>S6"}


def test_a_query_of_too_many_columns_decides_nothing(begun: dh.History, database: Callable[[], Any]) -> None:
    verdicts = asked(begun, resolvers.by_sql(database, QUERY.replace("state", "state, note, note")))
    assert set(rules(verdicts)) == {"R10>S6"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"query": "select 1"}, "has no {keys}"),
        ({"paramstyle": "brackets"}, "paramstyle is 'brackets'"),
        ({"keys_per_query": 0}, "at least 1"),
        ({"missing": "done"}, "'done' is not an answer"),
    ],
)
def test_invalid_query_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(dh.ConfigError, match=said):
        resolvers.by_sql(**{"connect": list, "query": QUERY, **settings})


class Failing:
    """A resolver that fails for the moment so many times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.batches: list[list[str]] = []

    def __call__(self, batch: pa.RecordBatch) -> Any:
        self.batches.append(batch["dh_key"].to_pylist())
        if len(self.batches) <= self.failures:
            raise dh.TransientError("busy")
        return pa.array(["NEW"] * len(batch))


def test_a_failure_for_the_moment_is_tried_again_ever_later(begun: dh.History) -> None:
    waits: list[float] = []
    failing = Failing(3)
    resolver = resolvers.retrying(failing, attempts=4, backoff=1, longest=3, sleep=waits.append)
    assert set(rules(asked(begun, resolver))) == {"R10>S1"}
    assert len(failing.batches) == 4
    assert [0.5 <= waits[0] <= 1, 1 <= waits[1] <= 2, 1.5 <= waits[2] <= 3] == [True] * 3


def test_the_last_failure_counts(begun: dh.History) -> None:
    failing = Failing(9)
    resolver = resolvers.retrying(failing, attempts=2, backoff=dt.timedelta(0))
    assert set(rules(asked(begun, resolver, resolver_attempts=1))) == {"R10>S4"}
    assert len(failing.batches) == 2


def test_only_documents_that_failed_are_asked_about_again(begun: dh.History) -> None:
    calls: list[list[str]] = []

    def some(batch: pa.RecordBatch) -> list[Any]:
        keys = batch["dh_key"].to_pylist()
        calls.append(keys)
        return [dh.TransientError("busy") if key in "bc"[len(calls) - 1 :] else "DUPLICATE" for key in keys]

    verdicts = asked(begun, resolvers.retrying(some, attempts=3, backoff=0))
    assert rules(verdicts) == ["R10>S2"] * 3
    assert calls == [["a", "b", "c"], ["b", "c"], ["c"]]


def test_what_still_fails_for_the_moment_at_last_stays_so(begun: dh.History) -> None:
    resolver = resolvers.retrying(
        lambda batch: [dh.TransientError("busy") if key == "b" else "NEW" for key in batch["dh_key"].to_pylist()],
        attempts=2,
        backoff=0,
    )
    assert rules(asked(begun, resolver, suspend_and_retry_on_error=False)) == ["R10>S1", "R10>S5", "R10>S1"]


def test_other_failures_are_not_tried_again(begun: dh.History) -> None:
    calls = []

    def broken(batch: pa.RecordBatch) -> Any:
        calls.append(batch)
        raise ValueError("broken")

    assert set(rules(asked(begun, resolvers.retrying(broken, backoff=0)))) == {"R10>S6"}
    assert len(calls) == 1


def test_what_cannot_be_called_is_refused_when_it_is_given() -> None:
    wrong: Any
    for wrong in ("shop:ask", None, 7):
        for name, make in (
            ("resolver", resolvers.retrying),
            ("function", resolvers.by_document),
            ("connect", lambda given: resolvers.by_sql(given, "select id from t where id in ({keys})")),
        ):
            with pytest.raises(dh.ConfigError) as raised:
                make(wrong)
            assert str(raised.value) == f"[DH-CONFIG] {name} is {wrong!r}; allowed is a function"


def test_durations_may_be_text(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger(), now=T0)
    lease = resolvers.by_lease("1 minute", now=lambda: T0 + dt.timedelta(seconds=61))
    assert rules(asked(history, resolvers.retrying(lease, backoff="10 ms"), ["a"])) == ["R10>S1"]


@pytest.mark.parametrize("settings", [{"attempts": 0}, {"backoff": -1}, {"longest": -1}])
def test_invalid_retries_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] (attempts|backoff|longest) is "):
        resolvers.retrying(list, **settings)


def test_resolvers_travel_to_other_processes(begun: dh.History) -> None:
    made = resolvers.retrying(resolvers.by_table(KNOWN), backoff=0)
    travelled = pickle.loads(pickle.dumps(trigger(resolver=made)))
    assert rules(begun.classify(documents(["a", "b", "c"]), travelled)) == ["R10>S2", "R10>S1", "R10>S3"]
    for other in (resolvers.by_lease(60), resolvers.by_document(len), resolvers.by_sql(list, QUERY)):
        assert pickle.loads(pickle.dumps(other)) == other
