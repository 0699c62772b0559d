"""Resolvers: they decide the documents that the rules leave undecided.

A resolver is any callable that takes one pyarrow RecordBatch of undecided documents and answers
NEW, DUPLICATE or IN_DOUBT for each (`History.classify` has the details). These functions make
resolvers for common cases:

| function | answers by |
|---|---|
| `by_table` | a table of known outcomes: Arrow, pandas, Polars |
| `by_sql` | a query over a DB-API connection |
| `by_lease` | how long ago the service began |
| `by_document` | a Python function of one document |
| `retrying` | another resolver, asked again after a temporary failure |

A resolver can be pickled if the arguments it was made from can, so it works in Spark's workers.
"""

import datetime as dt
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory import _checks, _durations
from dochistory._retrying import LONGEST, Retrying

__all__ = ["Answer", "Resolver", "by_document", "by_lease", "by_sql", "by_table", "retrying"]

Answer = Literal["NEW", "DUPLICATE", "IN_DOUBT"]
"""What a resolver says of a document."""

_ANSWERS = ("NEW", "DUPLICATE", "IN_DOUBT")


class Resolver(Protocol):
    """A function of the undecided documents."""

    def __call__(self, batch: pa.RecordBatch, /) -> Any:
        """Answers, one a row: an Arrow column, a sequence, or a table of `status` and `message`."""
        ...


def by_table(
    known: Any, *, key: str = "key", status: str = "status", message: str | None = None, missing: Answer = "IN_DOUBT"
) -> Resolver:
    """A resolver that looks the documents' keys up in a table of known outcomes.

    The table is read once, here; for outcomes that change use `by_sql`, or make a new trigger.

    Args:
        known: a table with one row a key: Arrow, Polars, pandas, or a mapping of column names to
            lists.
        key: the column with the keys, text, compared byte for byte.
        status: the column with NEW, DUPLICATE or IN_DOUBT.
        message: the column with a sentence for the journal; none, if absent.
        missing: the answer for keys that are not in the table, and for null in its column `status`.

    Returns:
        Resolver: for `Trigger(resolver=...)`.

    Raises:
        SchemaError: [DH-SCHEMA] a column is missing, a key occurs twice, or a status is invalid.
    """
    table = _table(known)
    wanted = [name for name in (key, status, message) if name is not None]
    if absent := [name for name in wanted if name not in table.column_names]:
        raise dh.SchemaError(
            f"[DH-SCHEMA] the table of outcomes has no column {', '.join(absent)}, "
            f"but {', '.join(table.column_names) or 'none at all'}"
        )
    keys = _one_chunk(table[key], f"column {key}")
    statuses = _one_chunk(table[status], f"column {status}")
    _no_copies(keys)
    _only_answers(statuses)
    messages = None if message is None else _one_chunk(table[message], f"column {message}")
    return _ByTable(keys, statuses, messages, _answer(missing))


@dataclass(frozen=True, eq=False)
class _ByTable:
    keys: pa.Array
    statuses: pa.Array
    messages: pa.Array | None
    missing: Answer

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        # A document without a key must not match a key that is null.
        rows = pc.index_in(batch["dh_key"], value_set=self.keys, skip_nulls=True)
        status = self.statuses.take(rows).fill_null(self.missing)
        message = pa.nulls(len(rows), pa.string()) if self.messages is None else self.messages.take(rows)
        return pa.table({"status": status, "message": message})


def by_lease(
    longer_than: str | dt.timedelta | float,
    *,
    otherwise: Answer = "IN_DOUBT",
    now: Callable[[], dt.datetime] | None = None,
) -> Resolver:
    """A resolver that gives up on services that began long ago: their documents are NEW, and so **run again**.

    **Danger.** That a service began long ago does not show that it did nothing. It may have ended,
    and died before it reported so: then its work is done twice. It may still run, slowly: then it
    runs twice at once. Use this only for services that may process a document twice (an upsert, a
    message with an id that its receiver checks), and with a lease that is longer than the longest
    run plus the largest difference between the clocks of your machines. In all other cases use a
    resolver that checks the effect: `by_sql`, `by_table`.

    Args:
        longer_than: how long ago the service must have begun: text ("2 hours"), a timedelta, or
            seconds.
        otherwise: the answer for services that began later, and for documents that nobody is known
            to have begun (no history, no key).
        now: the clock; the system's, if absent.

    Returns:
        Resolver: for `Trigger(resolver=...)`.

    Raises:
        ConfigError: [DH-CONFIG] the lease is not above zero.
    """
    lease = dt.timedelta(seconds=_durations.seconds("longer_than", longer_than))
    if lease <= dt.timedelta(0):
        raise dh.ConfigError(f"[DH-CONFIG] a lease of {lease} would make everything NEW: give one above zero")
    return _ByLease(lease, _answer(otherwise), now or _utc_now)


@dataclass(frozen=True)
class _ByLease:
    lease: dt.timedelta
    otherwise: Answer
    now: Callable[[], dt.datetime]

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        started = batch["dh_started_at"]
        limit = pa.scalar(self.now() - self.lease, started.type)
        is_over = pc.fill_null(pc.less(started, limit), False)
        status = pc.if_else(is_over, "NEW", self.otherwise)
        since = pc.binary_join_element_wise(
            "Begun at ", started.cast(pa.string()), f", more than {self.lease} ago: taken for not done.", ""
        )
        return pa.table({"status": status, "message": pc.if_else(is_over, since, pa.scalar(None, pa.string()))})


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def by_document(function: Callable[[dict[str, Any]], Any]) -> Resolver:
    """A resolver that calls a Python function for each document. For few documents; the others are faster.

    Args:
        function: called with a dictionary of the document's columns and `dh_key`, `dh_count`,
            `dh_reason`, `dh_started_at`, `dh_trigger`; answers a status, or a status and a sentence
            for the journal. An exception counts for this document alone: `TransientError` as a
            transient failure, any other as a failure.

    Returns:
        Resolver: for `Trigger(resolver=...)`.

    Raises:
        ConfigError: [DH-CONFIG] it cannot be called.
    """
    _checks.function("function", function)
    return _ByDocument(function)


@dataclass(frozen=True)
class _ByDocument:
    function: Callable[[dict[str, Any]], Any]

    def __call__(self, batch: pa.RecordBatch) -> Any:
        return [self._answer(document) for document in batch.to_pylist()]

    def _answer(self, document: dict[str, Any]) -> tuple[Any, str | None]:
        try:
            answer = self.function(document)
        except Exception as error:  # noqa: BLE001 - it becomes this document's answer
            return error, None
        if isinstance(answer, tuple) and len(answer) == 2:
            status, message = answer
            return status, None if message is None else str(message)
        return answer, None


_MARKS: Mapping[str, Callable[[int], str]] = {
    "qmark": lambda _: "?",
    "format": lambda _: "%s",
    "pyformat": lambda _: "%s",
    "numeric": lambda n: f":{n}",
    "named": lambda n: f":k{n}",
}


def by_sql(
    connect: Callable[[], Any],
    query: str,
    *,
    paramstyle: Literal["qmark", "format", "pyformat", "numeric", "named"] = "qmark",
    missing: Answer = "IN_DOUBT",
    keys_per_query: int = 500,
    transient: tuple[type[Exception], ...] | None = None,
) -> Resolver:
    """A resolver that asks a database, over any DB-API connection.

    ```python
    by_sql(
        lambda: psycopg.connect("dbname=shop"),
        "select order_id, 'DUPLICATE' from orders where order_id in ({keys})",
        paramstyle="format",
        missing="NEW",  # right only if the service writes `orders` in one transaction with its effect
    )
    ```

    Args:
        connect: makes a connection; called once a batch, and the connection is closed afterwards.
        query: answers rows of key and status, and optionally a sentence for the journal as a third
            column. `{keys}` is replaced by placeholders for the keys' values, `?, ?, ?`; never by
            the values.
        paramstyle: the placeholders of the driver: its module's `paramstyle`.
        missing: the answer for keys without a row.
        keys_per_query: the maximum number of keys in one query; databases have limits.
        transient: errors that count as transient; the DB-API's OperationalError and InterfaceError,
            if absent. (Some drivers, SQLite's for one, raise OperationalError for a misspelt query,
            too.)

    Returns:
        Resolver: for `Trigger(resolver=...)`.

    Raises:
        ConfigError: [DH-CONFIG] the query has no `{keys}`, or another argument makes no sense.
    """
    _checks.function("connect", connect)
    if "{keys}" not in query:
        raise dh.ConfigError("[DH-CONFIG] the query has no {keys}: write … where id in ({keys})")
    if paramstyle not in _MARKS:
        raise dh.ConfigError(f"[DH-CONFIG] paramstyle is {paramstyle!r}; it must be one of {', '.join(_MARKS)}")
    if keys_per_query < 1:
        raise dh.ConfigError(f"[DH-CONFIG] keys_per_query is {keys_per_query}; it must be at least 1")
    return _BySql(connect, query, paramstyle, _answer(missing), keys_per_query, transient)


@dataclass(frozen=True)
class _BySql:
    connect: Callable[[], Any]
    query: str
    paramstyle: str
    missing: Answer
    keys_per_query: int
    transient: tuple[type[Exception], ...] | None

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        keys = batch["dh_key"].drop_null().unique().to_pylist()
        try:
            rows = self._rows(keys) if keys else []
        except Exception as error:
            if self._is_transient(error):
                raise dh.TransientError(f"the database: {error}") from error
            raise
        widths = {len(row) for row in rows}
        if not widths <= {2} and not widths <= {3}:
            raise dh.SchemaError("[DH-SCHEMA] the query must return two columns, key and status, or a third, message")
        known = pa.table(
            {
                "key": pa.array([row[0] for row in rows], pa.string()),
                "status": pa.array([row[1] for row in rows], pa.string()),
                "message": pa.array([row[2] if len(row) > 2 else None for row in rows], pa.string()),
            }
        )
        return by_table(known, message="message", missing=self.missing)(batch)

    def _rows(self, keys: Sequence[str]) -> list[Sequence[Any]]:
        connection = self.connect()
        try:
            cursor = connection.cursor()
            rows: list[Sequence[Any]] = []
            for some in _chunks(keys, self.keys_per_query):
                cursor.execute(*self._statement(some))
                rows.extend(cursor.fetchall())
            return rows
        finally:
            connection.close()

    def _statement(self, keys: Sequence[str]) -> tuple[str, Any]:
        mark = _MARKS[self.paramstyle]
        marks = ", ".join(mark(n) for n in range(1, len(keys) + 1))
        values = {f"k{n}": key for n, key in enumerate(keys, 1)} if self.paramstyle == "named" else tuple(keys)
        return self.query.replace("{keys}", marks), values

    def _is_transient(self, error: Exception) -> bool:
        if self.transient is not None:
            return isinstance(error, self.transient)
        # Every driver has its own classes, with the names that the DB-API prescribes.
        return any(base.__name__ in ("OperationalError", "InterfaceError") for base in type(error).__mro__)


def _chunks(keys: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))


def retrying(
    resolver: Callable[[pa.RecordBatch], Any],
    attempts: int = 3,
    backoff: str | dt.timedelta | float = 0.5,
    *,
    longest: str | dt.timedelta | float = LONGEST,
    sleep: Callable[[float], object] = time.sleep,
) -> Resolver:
    """A resolver that asks another one again after a temporary failure.

    A trigger asks its resolver three times by itself (`resolver_attempts`); this is for longer
    waits, or for a resolver within another. The wait is `backoff`, then twice that, and so on; each
    time a random part of it is waited, between half and all. If the last attempt fails temporarily
    too, that is the answer: the trigger is suspended, or the documents are in doubt. If single
    documents fail temporarily, only those are asked about again. `begin` waits meanwhile, without
    holding the trigger's lock.

    Args:
        resolver: the resolver to ask.
        attempts: the maximum number of attempts.
        backoff: how long to wait before the second attempt: text ("500 ms"), a timedelta, or
            seconds.
        longest: the longest wait before an attempt.
        sleep: how to wait.

    Returns:
        Resolver: for `Trigger(resolver=...)`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
    """
    _checks.function("resolver", resolver)
    _checks.count("attempts", attempts)
    first, most = _durations.seconds("backoff", backoff), _durations.seconds("longest", longest)
    return Retrying(resolver, attempts, first, most, sleep)


def _answer(answer: Any) -> Answer:
    if answer not in _ANSWERS:
        raise dh.ConfigError(f"[DH-CONFIG] {answer!r} is not an answer: it must be one of {', '.join(_ANSWERS)}")
    given: Answer = answer
    return given


def _table(known: Any) -> pa.Table:
    if isinstance(known, pa.Table):
        return known
    if isinstance(known, pa.RecordBatch):
        return pa.Table.from_batches([known])
    if hasattr(known, "__arrow_c_stream__") or isinstance(known, Mapping):
        return pa.table(known)
    if type(known).__module__.startswith("pandas"):
        return pa.Table.from_pandas(known, preserve_index=False)
    raise dh.SchemaError(
        f"[DH-SCHEMA] a {type(known).__name__} is not a table of outcomes: pass an Arrow, Polars or pandas table"
    )


def _one_chunk(column: pa.ChunkedArray, name: str) -> pa.Array:
    try:
        made = column.cast(pa.string()).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise dh.SchemaError(f"[DH-SCHEMA] the {name} is {column.type}; it must be text") from error
    return pa.concat_arrays(made.chunks) if isinstance(made, pa.ChunkedArray) else made


def _no_copies(keys: pa.Array) -> None:
    given = keys.drop_null()
    if pc.count_distinct(given).as_py() == len(given):
        return
    counts = given.value_counts()
    copies = counts.filter(pc.greater(counts.field("counts"), 1)).field("values").slice(0, 3).to_pylist()
    raise dh.SchemaError(
        f"[DH-SCHEMA] the outcomes contradict each other about {', '.join(map(repr, copies))}: give each key once"
    )


def _only_answers(statuses: pa.Array) -> None:
    given = pc.unique(statuses.drop_null()).to_pylist()
    # As the engine reads them: it also accepts a blank.
    if wrong := [status for status in given if re.sub(r"^IN DOUBT$", "IN_DOUBT", status) not in _ANSWERS]:
        raise dh.SchemaError(
            f"[DH-SCHEMA] {', '.join(map(repr, wrong[:3]))} is not an answer: "
            f"the outcomes must be {', '.join(_ANSWERS)}"
        )
