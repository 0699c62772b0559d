"""Guaranteed delivery in `foreachBatch`: each batch of messages is one poll of many streams.

decide    Spark's tasks, each all messages of its streams, by the shared history: nothing is changed
record    the driver: what is about to be applied, before the function sees a message
apply     the messages in order, stream by stream, each transaction whole
commit    all streams at once, under (application, batch number)
answer    only now: confirmations and resend requests
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory import _checks
from dochistory._native import Shards
from dochistory.spark import checks, compat
from dochistory.spark.delivery_shards import DeliveryShards
from dochistory.spark.open_history import OpenHistory
from dochistory.spark.place import Place
from dochistory.spark.shipped import iterating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import DeliveryPoll, GuaranteedDelivery, History

_log = logging.getLogger("dochistory")

How = Literal["spark", "arrow", "stream"]
Who = Literal["tasks", "driver"]
HowFarApplied = Callable[[str, int, int], int]


@dataclass(frozen=True)
class DeliveryBatch:
    """One batch: what the function, `on_poll` and `on_answers` get to see."""

    id: int
    """Spark's number of the batch."""
    application: str
    """The name under which the batch's number is remembered."""
    decisions: Any
    """All rows of the batch, and what was decided about each: `dh_decision`, `dh_status`, `dh_reason`,
    `dh_transaction`, `dh_apply_rank`. A DataFrame; where the driver decides, a `pyarrow.Table`."""
    poll: "DeliveryPoll"
    """The poll: how its streams stand; confirmations and resend requests once it is committed."""
    in_doubt: pa.RecordBatch
    """Streams whose messages are held because nobody knows how far they were applied before a crash."""


@dataclass(frozen=True)
class _Batch:
    frame: "DataFrame"
    id: int
    application: str
    on_replay: Literal["in_doubt", "rerun"]
    on_other_rows: Literal["error", "look_up"]

    @property
    def names(self) -> dict[str, Any]:
        number = (self.application, self.id)
        return {"transaction": number, "on_replay": self.on_replay, "on_other_rows": self.on_other_rows}


@dataclass(frozen=True)
class _Decided:
    """A batch that is decided and recorded, and the messages to apply in both forms."""

    batch: DeliveryBatch
    applied: int
    frame: "Callable[[], DataFrame]"
    table: Callable[[], pa.Table]
    kept: "DataFrame | None" = None


class Delivery:
    """The function for `foreachBatch` that `delivery` makes; calling it handles one batch.

    What is held is kept by Spark, for this object: a restart loses it, and it is asked for again.
    """

    def __init__(
        self,
        history: Place,
        apply: Callable[..., object],
        *,
        application: str | None,
        on_replay: Literal["in_doubt", "rerun"],
        on_other_rows: Literal["error", "look_up"],
        messages: How,
        columns: Mapping[str, str] | None,
        decide: Who,
        parts: int | None,
        threads: int,
        applied: HowFarApplied | None,
        on_poll: Callable[[DeliveryBatch], object] | None,
        on_answers: Callable[[DeliveryBatch], object] | None,
        options: Mapping[str, Any],
    ) -> None:
        self._history = OpenHistory(history)
        self._apply = apply
        self._application = application
        self._on_replay = on_replay
        self._on_other_rows = on_other_rows
        self._messages = messages
        self._columns = dict(columns or {})
        self._decide = decide
        self._parts = parts
        self._threads = threads
        self._applied = applied
        self._on_poll = on_poll
        self._on_answers = on_answers
        self._options = dict(options)
        self._inbox: tuple[History, GuaranteedDelivery] | None = None
        self._kept: DataFrame | None = None
        self._stored: list[DataFrame] = []

    def __repr__(self) -> str:
        return f"<Delivery with {self._history.place.shown!r}>"

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: not what is open."""
        return {**self.__dict__, "_inbox": None, "_kept": None, "_stored": []}

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Handle one batch; returns when it is committed.

        Raises:
            TransactionError: [DH-TRANSACTION] the number of the batch goes backwards, or is known
                and comes with other messages.
            ConfigError: [DH-CONFIG] `frame` is no DataFrame of Spark, or outside a stream nothing
                names the application.
            Exception: whatever the function raised. What it was given is then in doubt, unless it
                raised `RolledBack`.
        """
        checks.frame("frame", frame)
        application = compat.application_of(self._application, frame, "delivery")
        batch = _Batch(frame, int(batch_id), application, self._on_replay, self._on_other_rows)
        try:
            by = self._by_driver if self._decide == "driver" else self._by_tasks
            with self._history.open() as history:
                self._run(by(batch, history, self._inbox_of(history)))
        except BaseException:
            # Whatever became of the poll, the next batch begins with what the history says.
            self._inbox = self._kept = None
            raise

    def _by_driver(self, batch: "_Batch", _: "History", inbox: "GuaranteedDelivery") -> "_Decided":
        # Once, here: every further evaluation of the frame might bring the rows in another order.
        rows = compat.collect_arrow(batch.frame)
        poll = inbox.receive(rows, columns=self._columns or None, threads=self._threads, **batch.names)
        decisions = rows
        for name in ("decision", "status", "reason", "transaction", "apply_rank"):
            decisions = decisions.append_column(f"dh_{name}", poll.decisions[name])
        messages: pa.Table = poll.messages
        told = DeliveryBatch(batch.id, batch.application, decisions, poll, inbox.in_doubt())
        return _Decided(told, messages.num_rows, lambda: _by_stream(batch.frame, messages), lambda: messages)

    def _by_tasks(self, batch: "_Batch", history: "History", inbox: "GuaranteedDelivery") -> "_Decided":
        plan = Shards.plan_delivery(inbox, **batch.names)
        sight = self._history.place.sight(history, None)
        shards = DeliveryShards(sight, self._columns, inbox.stream, self._parts)
        found = shards.decide(batch.frame, self._kept, plan)
        poll = Shards.merge_delivery(inbox, plan, found.receipts, **batch.names)
        told = DeliveryBatch(batch.id, batch.application, found.decisions(poll.decisions), poll, inbox.in_doubt())
        self._stored.append(found.stored)
        return _Decided(told, found.applied, lambda: found.messages, lambda: _collected(found.messages), found.kept)

    def _run(self, decided: "_Decided") -> None:
        batch = decided.batch
        if batch.in_doubt.num_rows:
            names = ", ".join(batch.in_doubt["stream"].to_pylist()[:5])
            _log.warning("[DH-IN-DOUBT] %d streams are in doubt and wait: %s", batch.in_doubt.num_rows, names)
        if self._on_poll is not None:
            self._on_poll(batch)
        if decided.applied:
            try:
                self._hand_out(decided)
            except dh.RolledBack:
                batch.poll.abort()
                raise
        batch.poll.commit()
        self._kept = decided.kept
        if self._on_answers is not None:
            self._on_answers(batch)
        # What waits is among the rows of this batch now.
        self._let_go(but=1)

    def _let_go(self, *, but: int) -> None:
        """Free what Spark keeps of earlier batches: by itself it does so when Java has collected their plans."""
        while len(self._stored) > but:
            compat.let_go(self._stored.pop(0))

    def _hand_out(self, decided: "_Decided") -> None:
        try:
            messages = decided.table() if self._messages == "arrow" else decided.frame()
            applying = self._applying(messages) if self._messages == "stream" else None
        except Exception:
            decided.batch.poll.abort()  # nobody has seen them
            raise
        if applying is not None:
            applying.count()
        else:
            self._apply(messages, decided.batch)

    def _applying(self, frame: "DataFrame") -> "DataFrame":
        """The messages as they are applied, each stream in a task."""
        # mapInArrow looks columns up by name, and fails where a name has a dot.
        numbered = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
        return numbered.mapInArrow(iterating(_each_stream(self._apply, frame.columns)), "applied long")

    def _inbox_of(self, history: "History") -> "GuaranteedDelivery":
        if self._inbox is None or self._inbox[0] is not history:
            # What waits was held by the inbox of before.
            self._inbox = self._kept = None
            inbox = history.delivery(**self._options)
            for row in inbox.in_doubt().to_pylist() if self._applied else ():
                offset = self._applied(row["stream"], row["log_received"], row["applying_upto"]) if self._applied else 0
                inbox.settle(row["stream"], offset)
            self._inbox = history, inbox
        return self._inbox[1]

    def close(self) -> None:
        """Close the history, if this opened it."""
        self._inbox = self._kept = None
        self._let_go(but=0)
        self._history.close()


def _collected(messages: "DataFrame") -> pa.Table:
    """The messages on the driver, with offsets as numbers of 64 bits."""
    table = compat.collect_arrow(messages)
    for name, kind in (("dh_transaction", pa.uint64()), ("dh_commit", pa.uint64()), ("dh_apply_rank", pa.uint32())):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table[name].cast(kind))
    return table


def _by_stream(frame: "DataFrame", messages: pa.Table) -> "DataFrame":
    """The messages as a DataFrame: a stream lies in one partition, in the order of application."""
    from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType

    # Spark has no unsigned numbers of 64 bits.
    for name, kind in (
        ("dh_transaction", pa.decimal128(20, 0)),
        ("dh_commit", pa.decimal128(20, 0)),
        ("dh_apply_rank", pa.int64()),
    ):
        place = messages.schema.get_field_index(name)
        messages = messages.set_column(place, name, messages[name].cast(kind))
    added = [
        StructField("dh_stream", StringType(), False),
        StructField("dh_transaction", DecimalType(20, 0), False),
        StructField("dh_commit", DecimalType(20, 0), False),
        StructField("dh_apply_rank", LongType(), False),
    ]
    schema = StructType([*frame.schema.fields, *added])
    made = compat.frame_of(frame.sparkSession, messages, schema)
    return made.repartition("dh_stream").sortWithinPartitions("dh_stream", "dh_apply_rank")


def _each_stream(
    apply: Callable[[str, pa.Table], object], names: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Call `apply` for each stream of a partition, on a worker; `names` are those of the columns."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        count = 0
        if parts:
            partition = pa.Table.from_batches(parts).rename_columns(names)
            for stream in pc.unique(partition["dh_stream"]).to_pylist():
                apply(stream, partition.filter(pc.equal(partition["dh_stream"], stream)))
                count += 1
        yield pa.record_batch({"applied": pa.array([count], pa.int64())})

    return run


def delivery(
    history: "History | str | os.PathLike[str]",
    apply: Callable[..., object],
    *,
    application: str | None = None,
    on_replay: Literal["in_doubt", "rerun"] = "in_doubt",
    on_other_rows: Literal["error", "look_up"] = "error",
    messages: How = "spark",
    columns: Mapping[str, str] | None = None,
    decide: Who = "tasks",
    parts: int | None = None,
    threads: int = 1,
    applied: HowFarApplied | None = None,
    on_poll: Callable[[DeliveryBatch], object] | None = None,
    on_answers: Callable[[DeliveryBatch], object] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Delivery:
    """A function for `foreachBatch` that hands the messages of many streams to `apply` in the right order, each once.

    ```python
    handle = dh.spark.delivery("feed.history", apply, first_contact=True)
    stream.writeStream.foreachBatch(handle).option("checkpointLocation", "checkpoint").start()
    ```

    Each stream's messages go to one task, which decides them by the stream's row in the history;
    only the columns of the header cross to Python, and no message to the driver. What the tasks
    found counts once the driver has committed it, all streams at once: a task that is tried again,
    or ends when everybody has forgotten it, changes nothing, and a batch that Spark hands over
    again after its commit applies nothing. Rows of a stream count in the order in which `collect`
    would bring them.

    Messages that wait for others stay where Spark keeps them, and come to their stream's task with
    each batch until they are applied. A restart loses them, as it does in one process, and what is
    missing then is requested again.

    Args:
        history: the history, its directory, or the URL of its bucket; it is created if it is not
            there. All machines must see the directory under the same path, or reach the bucket,
            unless the driver decides.
        apply: called as `apply(messages, batch)` when there is something to apply; the columns are
            the batch's and `dh_stream`, `dh_transaction`, `dh_commit`, `dh_apply_rank` (offsets as
            decimal(20, 0) in Spark). When it returns, the batch is committed. If it raises
            `RolledBack`, nothing of it was applied, and the batch comes again. After any other
            exception what it was given is in doubt.
        application: the name under which batch numbers are remembered; the streaming query's id, if
            absent.
        on_replay: what becomes of messages that this very batch was about to apply when the driver
            died: `in_doubt`, or `rerun` (handed out again where the batch ends as it did: for work
            that is idempotent by batch number).
        on_other_rows: what is done with a known batch number that comes with other messages (a new
            checkpoint under an old name, two queries that share one): `error` raises before
            anything is recorded, `look_up` lets each stream decide by its own row.
        messages: `spark` hands a DataFrame, each stream in one partition and in order; `arrow` a
            `pyarrow.Table`; with `stream` `apply(stream, table)` runs on the workers, once for each
            stream. Spark may run a task again, so it must keep the stream's `dh_commit` in one
            transaction with its data, and pass over what is not above it.
        columns: name of a column of messages (`stream`, `header`, `resend_count`, `prev`, `cur`,
            `seq`) -> its name in the batch, where they differ.
        decide: `tasks`; or `driver`, which collects each batch: quicker for batches of a few
            thousand messages, and for histories on a disk that only the driver sees.
        parts: tasks to divide a batch among; by default as many as run side by side.
        threads: threads that decide, where the driver does.
        applied: called as `applied(stream, log_received, applying_upto)` for each stream that a
            crash left in doubt, when the delivery is opened: answers how far the caller's own data
            go. Without it such a stream waits until somebody settles it; the others go on.
        on_poll: called with every batch before `apply`: the place to log what is corrupt or in
            doubt.
        on_answers: called with every batch after its commit: the place to send
            `batch.poll.confirmations` and `batch.poll.resend_requests`.
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like. They
            travel to the workers, and are shown nowhere; what is absent comes from the environment
            of each process, or from its machine's role.
        cache: for the URL of a bucket: a directory on a local disk of every machine, which keeps
            what was fetched; one below the system's directory for temporary files, if absent.
        options: as those of `History.delivery`: `start`, `patience`, `batch_mode`, `first_contact`,
            `held_limit`, …

    Returns:
        Delivery: callable with (frame, batch number), for `foreachBatch`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
        OpenError: [DH-OPEN] the URL names neither a directory nor a bucket.
    """
    _checks.columns(columns)
    _checks.function("apply", apply)
    for name, function in (("applied", applied), ("on_poll", on_poll), ("on_answers", on_answers)):
        _checks.function(name, function, optional=True)
    _checks.application(application)
    _checks.count("parts", parts, optional=True)
    _checks.count("threads", threads)
    _checks.choice("on_replay", on_replay, ("in_doubt", "rerun"))
    _checks.choice("on_other_rows", on_other_rows, ("error", "look_up"))
    _checks.choice("messages", messages, ("spark", "arrow", "stream"))
    _checks.choice("decide", decide, ("tasks", "driver"))
    return Delivery(
        Place.of(history, storage_options, cache),
        apply,
        application=application,
        on_replay=on_replay,
        on_other_rows=on_other_rows,
        messages=messages,
        columns=columns,
        decide=decide,
        parts=parts,
        threads=threads,
        applied=applied,
        on_poll=on_poll,
        on_answers=on_answers,
        options=options,
    )
