"""Guaranteed delivery in `foreachBatch`: each batch of messages is one poll of many streams.

receive   decisions, and what is about to be applied: recorded before the function sees a message
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
from dochistory.spark import compat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import DeliveryPoll, GuaranteedDelivery, History

_log = logging.getLogger("dochistory")

How = Literal["spark", "arrow", "stream"]
HowFarApplied = Callable[[str, int, int], int]


@dataclass(frozen=True)
class DeliveryBatch:
    """One batch: what the function, `on_poll` and `on_answers` get to see."""

    id: int
    """Spark's number of the batch."""
    application: str
    """The name under which the batch's number is remembered."""
    arrivals: pa.Table
    """All rows of the batch."""
    poll: "DeliveryPoll"
    """The poll: decisions, streams, messages; confirmations and resend requests once it is committed."""
    in_doubt: pa.RecordBatch
    """Streams whose messages are held because nobody knows how far they were applied before a crash."""


class Delivery:
    """The function for `foreachBatch` that `delivery` makes; calling it handles one batch.

    What is held lives in this object, on the driver: a restart loses it, and it is asked for again.
    """

    def __init__(
        self,
        history: "History | str | os.PathLike[str]",
        apply: Callable[..., object],
        *,
        application: str | None,
        on_replay: Literal["in_doubt", "rerun"],
        messages: How,
        columns: Mapping[str, str] | None,
        threads: int,
        applied: HowFarApplied | None,
        on_poll: Callable[[DeliveryBatch], object] | None,
        on_answers: Callable[[DeliveryBatch], object] | None,
        options: Mapping[str, Any],
    ) -> None:
        self._history = history
        self._apply = apply
        self._application = application
        self._on_replay = on_replay
        self._messages = messages
        self._columns = dict(columns or {})
        self._threads = threads
        self._applied = applied
        self._on_poll = on_poll
        self._on_answers = on_answers
        self._options = dict(options)
        self._opened: History | None = None
        self._inbox: GuaranteedDelivery | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: not what is open."""
        return {**self.__dict__, "_opened": None, "_inbox": None}

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Handle one batch; returns when it is committed.

        Raises:
            Exception: whatever the function raised. What it was given is then in doubt, unless it raised `RolledBack`.
        """
        application = self._application or compat.query_id(frame.sparkSession)
        if application is None:
            raise dh.ConfigError(
                "[DH-CONFIG] delivery needs application=…, a name that outlives restarts: "
                "outside a stream, and on Spark Connect, there is no query whose id could serve"
            )
        # Once, here: every further evaluation of the frame might bring the rows in another order.
        rows = compat.collect_arrow(frame)
        inbox = self._open()
        poll = inbox.receive(
            rows,
            columns=self._columns or None,
            threads=self._threads,
            transaction=(application, int(batch_id)),
            on_replay=self._on_replay,
        )
        batch = DeliveryBatch(int(batch_id), application, rows, poll, inbox.in_doubt())
        try:
            self._run(frame, batch)
        except BaseException:
            # Whatever became of the poll, the next batch begins with what the history says.
            self._inbox = None
            raise

    def _run(self, frame: "DataFrame", batch: DeliveryBatch) -> None:
        if batch.in_doubt.num_rows:
            names = ", ".join(batch.in_doubt["stream"].to_pylist()[:5])
            _log.warning("[DH-IN-DOUBT] %d streams are in doubt and wait: %s", batch.in_doubt.num_rows, names)
        if self._on_poll is not None:
            self._on_poll(batch)
        messages: pa.Table = batch.poll.messages
        if messages.num_rows:
            try:
                self._hand_out(frame, messages, batch)
            except dh.RolledBack:
                batch.poll.abort()
                raise
        batch.poll.commit()
        if self._on_answers is not None:
            self._on_answers(batch)

    def _hand_out(self, frame: "DataFrame", messages: pa.Table, batch: DeliveryBatch) -> None:
        if self._messages == "arrow":
            self._apply(messages, batch)
            return
        by_stream = _by_stream(frame, messages)
        if self._messages == "spark":
            self._apply(by_stream, batch)
        else:
            by_stream.mapInArrow(_each_stream(self._apply), "applied long").count()

    def _open(self) -> "GuaranteedDelivery":
        if self._inbox is None:
            history = self._history
            if isinstance(history, str | os.PathLike):
                self._opened = self._opened or dh.open(history, create=True)
                history = self._opened
            inbox = history.delivery(**self._options)
            for row in inbox.in_doubt().to_pylist() if self._applied else ():
                offset = self._applied(row["stream"], row["log_received"], row["applying_upto"]) if self._applied else 0
                inbox.settle(row["stream"], offset)
            self._inbox = inbox
        return self._inbox

    def close(self) -> None:
        """Close the history, if this opened it."""
        opened, self._opened, self._inbox = self._opened, None, None
        if opened is not None:
            opened.close()


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
    apply: Callable[[str, pa.Table], object],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Call `apply` for each stream of a partition, on a worker."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        count = 0
        if parts:
            partition = pa.Table.from_batches(parts)
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
    messages: How = "spark",
    columns: Mapping[str, str] | None = None,
    threads: int = 1,
    applied: HowFarApplied | None = None,
    on_poll: Callable[[DeliveryBatch], object] | None = None,
    on_answers: Callable[[DeliveryBatch], object] | None = None,
    **options: Any,
) -> Delivery:
    """A function for `foreachBatch` that hands the messages of many streams to `apply` in the right order, each once.

    ```python
    stream.writeStream.foreachBatch(delivery("feed.history", apply, first_contact=True)).option(…).start()
    ```

    All streams of a batch are committed at once. A batch that Spark hands over again after its commit applies nothing.
    The rows are collected on the driver, which decides; the messages to apply go out partitioned by stream.

    Args:
        history: the history, or its directory, which is created if it is not there.
        apply: called as `apply(messages, batch)` when there is something to apply; the columns are the batch's and
            `dh_stream`, `dh_transaction`, `dh_commit`, `dh_apply_rank` (offsets as decimal(20, 0) in Spark). When it
            returns, the batch is committed. If it raises `RolledBack`, nothing of it was applied, and the batch comes
            again. After any other exception what it was given is in doubt.
        application: the name under which batch numbers are remembered; the streaming query's id, if absent.
        on_replay: what becomes of messages that this very batch was about to apply when the driver died: `in_doubt`, or
            `rerun` (handed out again where the batch ends as it did: for work that is idempotent by batch number).
        messages: `spark` hands a DataFrame, each stream in one partition and in order; `arrow` a `pyarrow.Table`; with
            `stream` `apply(stream, table)` runs on the workers, once for each stream. Spark may run a task again, so it
            must keep the stream's `dh_commit` in one transaction with its data, and pass over what is not above it.
        columns: name of a column of messages (`stream`, `header`, `resend_count`, `prev`, `cur`, `seq`) -> its name in
            the batch, where they differ.
        threads: threads that decide on the driver.
        applied: called as `applied(stream, log_received, applying_upto)` for each stream that a crash left in doubt,
            when the delivery is opened: answers how far the caller's own data go. Without it such a stream waits until
            somebody settles it; the others go on.
        on_poll: called with every batch before `apply`: the place to log what is corrupt or in doubt.
        on_answers: called with every batch after its commit: the place to send `batch.poll.confirmations` and
            `batch.poll.resend_requests`.
        options: as those of `History.delivery`: `start`, `patience`, `batch_mode`, `first_contact`, `held_limit`, …

    Raises:
        ConfigError: an argument makes no sense.
    """
    for name, value, allowed in (
        ("on_replay", on_replay, ("in_doubt", "rerun")),
        ("messages", messages, ("spark", "arrow", "stream")),
    ):
        if value not in allowed:
            raise dh.ConfigError(f"[DH-CONFIG] {name} is one of {', '.join(allowed)}, not {value!r}")
    return Delivery(
        history,
        apply,
        application=application,
        on_replay=on_replay,
        messages=messages,
        columns=columns,
        threads=threads,
        applied=applied,
        on_poll=on_poll,
        on_answers=on_answers,
        options=options,
    )
