"""Sending messages out once, in `foreachBatch`: the receiver direction of a message id mapper.

Each batch is a transaction of the mapper, `(application, batch number)`, as it is one of a trigger:

    begin    the verdicts, and a pending entry for what is new: durable before anything is sent
    service  sends what is new
    complete mapped, and pending no more
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

import dochistory as dh
from dochistory import _checks, _services
from dochistory.spark import checks, compat
from dochistory.spark.open_history import OpenHistory
from dochistory.spark.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import History, MapperSend


@dataclass(frozen=True)
class SendBatch:
    """One batch, begun: what the service and `on_verdicts` get to see."""

    id: int
    """Spark's number of the batch."""
    application: str
    """The name under which the batch's number is remembered."""
    messages: pa.Table
    """All rows of the batch, in order."""
    send: "MapperSend"
    """What is to be sent; the service may complete or abort rows of it by itself."""

    @property
    def verdicts(self) -> pa.Table:
        """The verdict of every row; see `MapperSend.verdicts`."""
        return self.send.verdicts


class SendOnce:
    """The function for `foreachBatch` that `send_once` makes; calling it handles one batch."""

    def __init__(
        self,
        history: Place,
        channel: str,
        service: Callable[[Any, SendBatch], Any],
        *,
        application: str | None,
        on_replay: Literal["in_doubt", "rerun"],
        on_other_rows: Literal["error", "look_up"],
        columns: Mapping[str, str] | None,
        messages: Literal["spark", "arrow"],
        on_verdicts: Callable[[SendBatch], object] | None,
        settings: Mapping[str, Any],
    ) -> None:
        self._history = OpenHistory(history)
        self._channel = channel
        self._service = _services.plain(service)
        self._application = application
        self._on_replay: Literal["in_doubt", "rerun"] = on_replay
        self._on_other_rows: Literal["error", "look_up"] = on_other_rows
        self._columns = dict(columns or {})
        self._messages = messages
        self._on_verdicts = on_verdicts
        self._settings = dict(settings)

    def __repr__(self) -> str:
        return f"<SendOnce of channel {self._channel!r} with {self._history.place.shown!r}>"

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Handle one batch; returns when all of its messages are sent, now or before.

        Raises:
            TransactionError: [DH-TRANSACTION] the number of the batch goes backwards, or is known
                and comes with other rows.
            PendingMessageError: [DH-PENDING] of some it is unclear whether they were sent before,
                or what became of them now.
            ConfigError: [DH-CONFIG] `frame` is no DataFrame of Spark, or outside a stream nothing
                names the application.
            Exception: whatever the service raised.
        """
        checks.frame("frame", frame)
        application = compat.application_of(self._application, frame, "send_once")
        # Once, here: every further evaluation of the frame might bring the rows in another order.
        rows = compat.collect_arrow(frame)
        with self._history.open() as history:
            send = history.mapper(self._channel, **self._settings).begin_send(
                rows,
                transaction=(application, int(batch_id)),
                on_replay=self._on_replay,
                on_other_rows=self._on_other_rows,
                columns=self._columns or None,
            )
            self._run(frame, SendBatch(int(batch_id), application, rows, send))

    def _run(self, frame: "DataFrame", batch: SendBatch) -> None:
        if self._on_verdicts is not None:
            self._on_verdicts(batch)
        new = batch.send.new
        external_ids = None
        if new.num_rows:
            try:
                external_ids = self._service(self._handed(frame, new), batch)
            except dh.RolledBack:
                batch.send.abort(definite=True)
                raise
        batch.send.complete(external_ids)
        batch.send.raise_pending()

    def _handed(self, frame: "DataFrame", new: pa.Table) -> Any:
        return new if self._messages == "arrow" else compat.frame_of(frame.sparkSession, new, frame.schema)


def send_once(
    history: "History | str | os.PathLike[str]",
    channel: str,
    service: Callable[[Any, SendBatch], Any],
    *,
    application: str | None = None,
    on_replay: Literal["in_doubt", "rerun"] = "in_doubt",
    on_other_rows: Literal["error", "look_up"] = "error",
    columns: Mapping[str, str] | None = None,
    messages: Literal["spark", "arrow"] = "spark",
    on_verdicts: Callable[[SendBatch], object] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> SendOnce:
    """A function for `foreachBatch` that sends each message to `service` once.

    ```python
    handle = dh.spark.send_once("orders.history", "jms-receiver", service)
    stream.writeStream.foreachBatch(handle).option("checkpointLocation", "checkpoint").start()
    ```

    A batch that Spark hands over again sends no message again that was sent, and loses none: what
    was completed is DUPLICATE; what was begun and not completed is settled by `on_replay`. The rows
    are collected on the driver.

    Args:
        history: the history, its directory, or the URL of its bucket; it is created if it is not
            there.
        channel: the channel whose mapper it is.
        service: called as `service(new, batch)` with the messages to send, in order, in the columns
            they came in. What it answers are the external ids, one a message, or None. Not called
            when nothing is new. If it raises `RolledBack`, nothing was delivered for certain: the
            messages are NEW the next time. After any other exception nobody knows: they stay
            pending. Either way the batch fails and the stream stops.
        application: the name under which batch numbers are remembered; the streaming query's id, if
            absent.
        on_replay: what becomes of messages that this very batch began to send and never completed:
            `in_doubt` (the mapper's policy for what is pending), or `rerun` (send them again: for
            receivers that are idempotent).
        on_other_rows: what is done with a known batch number that comes with other rows (a new
            checkpoint under an old name, two queries that share one, a filter that was changed):
            `error` raises before anything is recorded, `look_up` takes it for a batch of its own,
            in which each row is what the mapper holds of it.
        columns: the mapper's name of a column (`id`, `qos`, `queue`) -> its name in the batch,
            where they differ.
        messages: `spark` hands the service a DataFrame, `arrow` a `pyarrow.Table`.
        on_verdicts: called with every batch once it is begun, before the service.
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like. Only
            the driver works with it; what is absent comes from its environment, or from its
            machine's role.
        cache: for the URL of a bucket: a directory on a local disk of the driver, which keeps what
            was fetched; one below the system's directory for temporary files, if absent.
        settings: those of `History.mapper`: `pending`, `mirror`, `expiry`, `persist`.

    Returns:
        SendOnce: callable with (frame, batch number), for `foreachBatch`.

    Raises:
        ConfigError: [DH-CONFIG] an argument is none of those allowed.
        OpenError: [DH-OPEN] the URL names neither a directory nor a bucket.
    """
    _checks.columns(columns)
    _checks.function("service", service)
    _checks.function("on_verdicts", on_verdicts, optional=True)
    _checks.application(application)
    _checks.choice("on_replay", on_replay, ("in_doubt", "rerun"))
    _checks.choice("on_other_rows", on_other_rows, ("error", "look_up"))
    _checks.choice("messages", messages, ("spark", "arrow"))
    return SendOnce(
        Place.of(history, storage_options, cache),
        channel,
        service,
        application=application,
        on_replay=on_replay,
        on_other_rows=on_other_rows,
        columns=columns,
        messages=messages,
        on_verdicts=on_verdicts,
        settings=settings,
    )
