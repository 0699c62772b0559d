"""Claim the documents of a DataFrame: decided and staged by Spark's tasks, begun by one commit of the driver.

- route: rows with the same key into one partition.
- stage: each task decides its partition by a pinned snapshot, and writes `processing` into files of
  its own.
- keep: the rows and their verdicts are materialised, once.
- commit: one manifest names the files of the attempts whose rows were kept; from then on the claim
  is begun.
- lost: what others were first with meanwhile is left out by the commit, and its rows are decided
  again.
"""

import datetime as dt
import html
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

import dochistory as dh
from dochistory import _checks, _native
from dochistory.spark import checks, compat, resolver_on_driver, shards, staging
from dochistory.spark.beside import beside
from dochistory.spark.decider import VERDICT_COLUMNS
from dochistory.spark.decode import quoted
from dochistory.spark.lost_rows import MOST, PLACE, Lost
from dochistory.spark.place import Place
from dochistory.spark.settings import ids_of
from dochistory.spark.snapshots import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from dochistory import History, Trigger
    from dochistory._native import Job, StagedClaim

Replay = Literal["in_doubt", "resolver", "rerun"]
OtherRows = Literal["error", "look_up"]

_TRIES = 5
_ANSWER = "__dochistory_answer"


class SparkClaim:
    """Documents that were begun together, and the verdicts of all. `claim` makes it.

    ```python
    with dh.spark.claim(df, "orders.history", trigger, transaction=("orders", 17)) as claim:
        claim.new.write.mode("append").saveAsTable("orders")
        claim.complete()
    ```

    A document that is neither completed nor released when this is left stays `processing`: it is in
    doubt when it comes again. Leaving it by `RolledBack` releases all that is not completed.
    """

    def __init__(
        self,
        judged: "DataFrame",
        ids: list[str],
        staged: "StagedClaim",
        receipts: Sequence[Mapping[str, Any]],
        end: Callable[[bool], None],
        stored: "DataFrame",
    ) -> None:
        self._judged = judged
        self._ids = ids
        self._staged = staged
        self._receipts = receipts
        self._end = end
        self._stored = stored

    @property
    def id(self) -> int | None:
        """Number of the claim, unique within its trigger; None if there was nothing to begin."""
        return self._staged.id

    @property
    def started_at(self) -> dt.datetime:
        """When the services began, in UTC."""
        return self._staged.started_at

    @property
    def replay(self) -> str | None:
        """Of a transaction: `first`, `unfinished` (it was begun before and did not end) or `finished`; else None."""
        return self._staged.replay

    @property
    def documents(self) -> "DataFrame":
        """All rows of the batch, each with its verdict: `status`, `action`, `acknowledge`, `rule`, `key`, `message`.

        They were computed once and are kept; no action on this DataFrame evaluates where they came
        from again. If Spark loses them, an error says so; they are not decided again.
        """
        return self._judged

    @property
    def new(self) -> "DataFrame":
        """The documents to process: the rows whose action is PROCESS, in the columns they came in."""
        kept = [quoted(name) for name in self._judged.columns[: -len(VERDICT_COLUMNS)]]
        action = self._judged.columns[-len(VERDICT_COLUMNS) + 1]
        return self._judged.where(F.col(quoted(action)) == "PROCESS").select(*kept)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Rows by `status`, by `action` and by `rule`."""
        counted = {name: Counter[str]() for name in ("status", "action", "rule")}
        for receipt in self._receipts:
            for name, of in counted.items():
                of.update(receipt[name])
        return {name: dict(sorted((+of).items())) for name, of in counted.items()}

    @property
    def lost(self) -> list[str]:
        """The ids of the documents that others were first with, between this claim's snapshot and its commit.

        Their verdicts say what became of them: mostly DUPLICATE or IN_DOUBT; NEW if they were
        released meanwhile.
        """
        return self._staged.lost

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return sum(receipt["rows"] for receipt in self._receipts)

    def __len__(self) -> int:
        """Number of documents begun."""
        return len(self._staged)

    def complete(self, keys: "DataFrame | Iterable[str | None] | Any | None" = None) -> None:
        """The services ended, in success or failure: the documents are DUPLICATE from now on. Durable on return.

        Args:
            keys: the documents that ended: a DataFrame with the batch's id columns, an Arrow array,
                or any iterable of text. All of them, if absent, which is one record however many
                they are.

        Raises:
            StateError: [DH-STATE] some keys are not of this claim, or were released, by themselves
                or with the claim.
        """
        self._staged.complete(self._collected(keys))

    def release(self, keys: "DataFrame | Iterable[str | None] | Any | None" = None) -> None:
        """The services' work was undone for certain: the documents are NEW when they come again. Durable on return.

        Args:
            keys: as for `complete`; without them, what was completed by itself stays so.

        Raises:
            StateError: [DH-STATE] some keys are not of this claim, or were completed, by themselves
                or with the claim.
        """
        self._staged.release(self._collected(keys))

    def _collected(self, keys: Any) -> Any:
        if keys is None or not hasattr(keys, "sparkSession"):
            return keys
        key = self._judged.columns[-2]
        # A column that is called like the verdict's key need not be it.
        if key in keys.columns and not {*self._ids} <= {*keys.columns}:
            return compat.collect_arrow(keys.select(F.col(quoted(key)).cast("string")))[key].combine_chunks()
        ids = self._ids_of(keys)
        return compat.collect_arrow(keys.select(shards.key_of(keys, ids).alias("key")))["key"].combine_chunks()

    def _ids_of(self, keys: "DataFrame") -> list[str]:
        if missing := [name for name in self._ids if name not in keys.columns]:
            raise dh.SchemaError(f"[DH-SCHEMA] the keys lack the id column {', '.join(missing)} of the batch")
        return self._ids

    def _let_go(self) -> None:
        """Free what Spark keeps of the rows, which it does by itself only when Java has collected their plans."""
        compat.let_go(self._stored)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = True
        try:
            self._staged.__exit__(kind, error, trace)
            failed = kind is not None
        finally:
            self._end(failed)

    def __repr__(self) -> str:
        return f"<SparkClaim {self.id}: {len(self)} of {self.rows} documents to process>"

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><td>{html.escape(rule)}</td><td style='text-align:right'>{rows:,}</td></tr>"
            for rule, rows in self.counts["rule"].items()
        )
        return f"<p>{html.escape(repr(self))}</p><table><tr><th>rule</th><th>documents</th></tr>{lines}</table>"


def claim(
    df: "DataFrame",
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    *,
    transaction: tuple[str, int] | None = None,
    on_replay: Replay = "in_doubt",
    on_other_rows: OtherRows = "error",
    columns: Mapping[str, str] | None = None,
    order_by: "str | Column | Sequence[str | Column]" = (),
    parts: int | None = None,
    resolver_on: Literal["executors", "driver"] = "executors",
    prefix: str = "",
    now: dt.datetime | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> SparkClaim:
    """Decider all rows of `df`, and begin what is to be processed: as a whole or not at all. Durable on return.

    As `History.begin`, on as many machines as Spark has; only ids and counts cross to Python, and
    no row to the driver. Of copies of an id within `df` the first is processed, and what the others
    are says the trigger (`in_batch`, `processing_mode`); the order is that of `order_by`, and of
    rows that are equal by it (all, if it is absent) that in which `df` has them: partition by
    partition, as `collect` would bring them. A trigger that a document suspends is suspended for
    the later rows of its partition.

    Other users of the same history continue meanwhile. What others begin of these documents
    between the snapshot and the commit is theirs: the commit begins the rest, and the driver
    decides the rows that lost again, before any document is handed out. A resolver is asked about
    them on the driver.

    Args:
        df: the documents, in the columns that the trigger looks at, and any others. It is evaluated
            once; again only if others run the same transaction meanwhile, or are first with more
            than a million of the documents, or if Spark loses an executor with rows of it before
            any document is begun.
        history: the history, its directory, which all machines must see under the same path, or the
            URL of its bucket; it is created if it is not there.
        trigger: whose documents they are. It must detect duplicates by its history.
        transaction: (application, number of the batch): a batch that comes again is known by it.
        on_replay: what documents are that this very transaction began and never ended: `in_doubt`
            (by the rules), `resolver` (the same, and the trigger must have a resolver), `rerun`
            (NEW again: for services that are idempotent for each batch).
        on_other_rows: what is done with a known batch number that comes with other rows (a new
            checkpoint under an old name, two queries that share one, a filter that was changed):
            `error` raises before anything is recorded, `look_up` takes it for a batch of its own,
            in which each row is what the history holds of it.
        columns: the trigger's name of a column -> its name in `df`, where they differ.
        order_by: columns of `df` that say which of several copies came first.
        parts: tasks to divide the work among; by default as many as Spark's shuffles have, and no
            more than the history has shards.
        resolver_on: whether a resolver is asked in the tasks, once for each partition with
            undecided rows, or on the driver, once about all of them. It sees the trigger's columns.
        prefix: put before the names of the six verdict columns of `documents`.
        now: the time at which the services begin, with a time zone; the clock's, if absent.
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like. They
            travel to the workers, and are shown nowhere; what is absent comes from the environment
            of each process, or from its machine's role.
        cache: for the URL of a bucket: a directory on a local disk of every machine, which keeps
            what was fetched; one below the system's directory for temporary files, if absent.

    Returns:
        SparkClaim: the rows with their verdicts, what is new, and the right to end it; leaving a
        `with` block closes what it opened.

    Raises:
        ClusterError: [DH-CLUSTER] a worker sees another directory than the driver under the
            history's path. (Where a task says so, Spark hands it on as an error of its own, with
            this text.)
        TransactionError: [DH-TRANSACTION] the application's numbers went backwards, a known number
            came with other rows, or others keep running this very transaction (ConflictError).
        SchemaError: [DH-SCHEMA] there is no id column, `columns` names one that is missing, a
            verdict's column is there already, or none of several documents has an id and the
            trigger refuses that (`without_ids`).
        ConfigError: [DH-CONFIG] `df` is no DataFrame of Spark, another argument makes no sense, or
            the trigger does not use its history.
        StateError: [DH-STATE] the job was given up or committed by others.
    """
    checks.frame("df", df)
    _checks.count("parts", parts, optional=True)
    claimer = Claimer(df, trigger, columns, order_by, prefix, resolver_on)
    place = Place.of(history, storage_options, cache)
    opened = place.take(create=True)

    def end(failed: bool) -> None:
        place.put_back(opened, failed=failed)

    try:
        number = parts or _default_parts(df, opened)
        with claimer.meanwhile(lambda: claimer.routed(number)) as routed:
            for attempt in range(_TRIES):
                job = opened._shards.reserve(
                    trigger,
                    number,
                    routed=True,
                    transaction=transaction,
                    on_replay=on_replay,
                    on_other_rows=on_other_rows,
                    receipts=claimer.receipts,
                    now=now,
                    prove_later=True,
                )
                try:
                    # At last the driver takes on whatever others were first with.
                    most_lost = MOST if attempt + 1 < _TRIES else None
                    return claimer.run(opened, place, job, routed(), end, most_lost)
                except dh.ConflictError as error:
                    job.abort()
                    if attempt + 1 == _TRIES:
                        raise _gave_up(error) from error
                    time.sleep(0.05 * 2**attempt)
                except _RowsLostError as error:
                    job.abort()
                    if attempt + 1 == _TRIES:
                        raise error.by_spark from None
                except BaseException:
                    # Also when a query is stopped: what the tasks staged is of no use.
                    job.abort()
                    raise
    except BaseException:
        end(True)
        raise
    raise dh.StateError("[DH-STATE] each attempt returns or raises")


class _RowsLostError(Exception):
    """Spark lost rows with an executor before anything was begun, so the claim may be made again."""

    def __init__(self, by_spark: Exception) -> None:
        super().__init__(str(by_spark))
        self.by_spark = by_spark


def _gave_up(error: "dh.ConflictError") -> "dh.TransactionError":
    return dh.ConflictError(
        f"{error} This was tried {_TRIES} times. Let one run at a time have this transaction, and let `now` be within "
        "the trigger's time to live."
    )


def _default_parts(df: "DataFrame", history: "History") -> int:
    return max(1, min(compat.shuffle_partitions(df.sparkSession), history.shards))


class Claimer:
    """What all attempts at one claim share."""

    def __init__(
        self,
        df: "DataFrame",
        trigger: "Trigger",
        columns: Mapping[str, str] | None,
        order_by: "str | Column | Sequence[str | Column]",
        prefix: str,
        resolver_on: str,
    ) -> None:
        if resolver_on not in ("executors", "driver"):
            raise dh.ConfigError(f"[DH-CONFIG] resolver_on is 'executors' or 'driver', not {resolver_on!r}")
        self._appended = [prefix + name for name in VERDICT_COLUMNS]
        checks.are_free(df, self._appended)
        self._df = df
        self._trigger = trigger
        self._found = checks.columns(trigger, df.schema, columns)
        checks.names_differ(df)
        self._ids = ids_of(self._found)
        given: Sequence[Any] = order_by if isinstance(order_by, list | tuple) else [order_by]
        self._order_by = [F.col(one) if isinstance(one, str) else one for one in given]
        self._resolver_on = resolver_on
        self.receipts: list[bytes] | None = None
        """Those of the last attempt: they say which rows the batch has."""

    def run(
        self,
        history: "History",
        place: Place,
        job: "Job",
        routed: "DataFrame",
        end: Callable[[bool], None],
        most_lost: int | None = MOST,
    ) -> SparkClaim:
        """Stage, keep, commit, and decide again what was lost to others.

        Raises:
            ConflictError: [DH-CONFLICT] others were first with more than `most_lost` documents, or
                with the transaction; nothing was begun.
            SchemaError: [DH-SCHEMA] no document has an id; nothing was begun.
            _RowsLostError: an executor was lost, and rows with it; nothing was begun.
        """
        # A bucket says that the reservation counts while the tasks work.
        with beside(job.prove, Thread) as proven:
            try:
                stored = kept = self._staged(history, place, job, routed).localCheckpoint(eager=True)
                found = kept.where(F.col(f"{_ANSWER}.receipt").isNotNull()).select(f"{_ANSWER}.*").collect()
            except Exception as error:
                if compat.has_lost_rows(error):
                    raise _RowsLostError(error) from error
                raise
            proven()
        receipts = self.receipts = [bytes(row.receipt) for row in found]
        read: list[Mapping[str, Any]] = [_native.read_receipt(receipt) for receipt in receipts]
        self._check_ids(read)
        words, versions = _words(history), [row.version for row in found]
        with self.meanwhile(lambda: self._judged(words, kept, versions)) as judged:
            committed = job.commit(receipts, most_lost=most_lost)
            if not committed.lost:
                return SparkClaim(judged(), self._ids, committed, read, end, stored)
        lost = Lost(kept, _ANSWER, committed, self._ids, self._found, words)
        kept, read = lost.corrected(), [*read, lost.change()]
        return SparkClaim(self._judged(words, kept, versions), self._ids, committed, read, end, stored)

    def _check_ids(self, receipts: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a batch none of whose documents has an id, as `History.begin` does."""
        rows = sum(one["rows"] for one in receipts)
        rules = sum((Counter[str](one["rule"]) for one in receipts), Counter[str]())
        is_allowed = self._trigger.without_ids == "in_doubt" or self._trigger.resolver is not None
        if is_allowed or rows < 2 or not rules["R3"] or rules["R1"] + rules["R3"] < rows:
            return
        raise dh.SchemaError(
            f"[DH-SCHEMA] none of the {rows} documents has an id: {', '.join(self._ids)} is null or empty in every "
            'row, so all would be in doubt (R3); name the column with the ids, as in columns={"uuid": "message_id"}, '
            'or let their producer set one, or allow it with Trigger(without_ids="in_doubt")'
        )

    def meanwhile(self, plan: "Callable[[], DataFrame]") -> "AbstractContextManager[Callable[[], DataFrame]]":
        """Let Spark make a plan while the block waits for the store."""
        spark = self._df.sparkSession

        def planned() -> "DataFrame":
            compat.make_active(spark)
            return plan()

        return beside(planned, compat.planning_thread(spark))

    def routed(self, parts: int) -> "DataFrame":
        """The documents, those of part p in partition p."""
        return shards.by_shard(self._df, self._ids, parts, self._order_by)

    def _staged(self, history: "History", place: Place, job: "Job", routed: "DataFrame") -> "DataFrame":
        snapshot = Snapshot.at(place, history, self._trigger.name, str(job.snapshot))
        work = staging.Staging(snapshot, job.token, self._trigger, tuple(self._found))
        if self._trigger.resolver is not None and self._resolver_on == "driver":
            work = work.with_trigger(resolver_on_driver.answered(work, routed, self._found))
        takes = StructType([routed.schema[there] for there in self._found.values()])
        stage = compat.partition_udf(work.part, takes, staging.RETURNED)
        answered = routed.withColumn(_ANSWER, stage(*(routed[quoted(there)] for there in self._found.values())))
        # Kept with the rows: a number that each plan makes might be another one.
        return answered.withColumn(PLACE, F.monotonically_increasing_id())

    def _judged(self, known: dict[str, list[str]], kept: "DataFrame", versions: list[int]) -> "DataFrame":
        """The rows with their verdicts as words. Rows of an attempt that decided otherwise are an error."""
        answer = F.col(_ANSWER)
        message = (
            "[DH-STATE] Spark kept two versions of this claim's rows, decided differently by two attempts at a task, "
            "and hands out the one that was not committed: its documents are in doubt"
        )
        is_committed = F.when(answer["version"].isin(versions), F.lit(True)).otherwise(
            F.raise_error(F.lit(message)).cast("boolean")
        )
        words = {name: _word(answer[name], of) for name, of in known.items()}
        verdict = {**words, "key": shards.key_of(kept, self._ids), "message": answer["message"]}
        checked = kept.where(is_committed)
        names = [name for name in kept.columns if name not in (_ANSWER, PLACE)]
        columns = [F.col(quoted(name)) for name in names]
        return checked.select(
            *columns, *(verdict[name].alias(alias) for name, alias in zip(VERDICT_COLUMNS, self._appended, strict=True))
        )


def _words(history: "History") -> dict[str, list[str]]:
    """What the numbers stand for: each column's words, in the order of their numbers."""
    # They are those of all triggers. One without a history asks a bucket nothing.
    trigger = dh.Trigger("words", use_history=False)
    nothing = history.classify(pa.record_batch({"uuid": pa.array([], pa.string())}), trigger)
    return {name: nothing.column(name).dictionary.to_pylist() for name in staging.WORDS}


def _word(number: "Column", words: list[str]) -> "Column":
    array = F.array(*(F.lit(word) for word in words))
    return F.when(number >= 0, F.element_at(array, number.cast("int") + 1))
