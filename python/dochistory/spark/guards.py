"""What stands around the decision in a stream: the audit log, and suspension."""

import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import dochistory as dh
from dochistory import _checks, _columns, _durations
from dochistory.errors import SuspendedError
from dochistory.spark import checks, compat
from dochistory.spark.begun_batch import StagedBatch
from dochistory.spark.decode import quoted
from dochistory.spark.open_history import OpenHistory
from dochistory.spark.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import History, Trigger
    from dochistory.suspension import Suspension


def keep_in_doubt(
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    *,
    columns: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Callable[[Any], None]:
    """A function for `exactly_once(on_verdicts=…)` that keeps documents in doubt in the history's audit log.

    It runs before the service, and before Spark notes that the batch is done, so nothing is
    acknowledged that is not kept. A batch that comes again keeps no document of it twice.

    Args:
        history: the history, its directory, or the URL of its bucket.
        trigger: whose documents they are; a messaging trigger.
        columns: the trigger's name of a column -> its name in the batch, where they differ.
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like. Only
            the driver works with it; what is absent comes from its environment, or from its
            machine's role.
        cache: for the URL of a bucket: a directory on a local disk of the driver, which keeps what
            was fetched; one below the system's directory for temporary files, if absent.

    Returns:
        Callable: a function for `on_verdicts`.

    Raises:
        ConfigError: [DH-CONFIG] `trigger` is none, or `columns` is no mapping.
        OpenError: [DH-OPEN] the URL names neither a directory nor a bucket.
    """
    _checks.trigger(trigger)
    _checks.columns(columns)
    place = OpenHistory(Place.of(history, storage_options, cache), creates=False)

    def keep(batch: Any) -> None:
        transaction = (batch.application, batch.id)
        if isinstance(batch, StagedBatch):
            judged = batch.documents
            _keep_frame(judged, judged.columns[-len(_columns.VERDICTS) :], place, trigger, transaction, columns)
            return
        # Spark may have to fetch the documents, which are looked at only where some are in doubt.
        documents = batch.documents if batch.counts["status"].get("IN_DOUBT") else batch.verdicts
        with place.open() as opened:
            opened.audit.keep(documents, batch.verdicts, trigger, transaction=transaction, columns=columns)

    return keep


def audit_sink(
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    *,
    application: str | None = None,
    prefix: str = "",
    columns: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> "Callable[[DataFrame, int], None]":
    """A function for `foreachBatch` that keeps the documents in doubt of a stream that `classify` judged.

    ```python
    judged = dh.spark.classify(stream, "orders.history", trigger)
    keep = dh.spark.audit_sink("orders.history", trigger)
    judged.writeStream.foreachBatch(keep).option("checkpointLocation", "checkpoint").start()
    ```

    Spark itself leaves out the other rows; those in doubt are collected on the driver.

    Args:
        history: the history, its directory, or the URL of its bucket.
        trigger: whose documents they are; a messaging trigger.
        application: the name under which batch numbers are remembered; the streaming query's id, if
            absent.
        prefix: what stands before the names of the verdict's columns.
        columns: the trigger's name of a column -> its name in the stream, where they differ.
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like. Only
            the driver works with it; what is absent comes from its environment, or from its
            machine's role.
        cache: for the URL of a bucket: a directory on a local disk of the driver, which keeps what
            was fetched; one below the system's directory for temporary files, if absent.

    Returns:
        Callable: a function (frame, batch number) for `foreachBatch`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense, or outside a stream there is no query
            whose id could serve.
        SchemaError: [DH-SCHEMA] the frame has no verdicts.
    """
    _checks.trigger(trigger)
    _checks.columns(columns)
    _checks.application(application)
    place = OpenHistory(Place.of(history, storage_options, cache), creates=False)

    def keep(frame: "DataFrame", batch_id: int) -> None:
        checks.frame("frame", frame)
        name = compat.application_of(application, frame, "audit_sink")
        judged = [prefix + one for one in _columns.VERDICTS]
        if missing := [one for one in judged if one not in frame.columns]:
            names = ", ".join(missing)
            raise dh.SchemaError(f"[DH-SCHEMA] the frame has no column {names}: pass the result of `classify`")
        _keep_frame(frame, judged, place, trigger, (name, int(batch_id)), columns)

    return keep


def _keep_frame(
    frame: "DataFrame",
    judged: list[str],
    history: OpenHistory,
    trigger: "Trigger",
    transaction: tuple[str, int],
    columns: Mapping[str, str] | None,
) -> None:
    """Keep what is in doubt. `judged` names the columns of the verdicts: others may be called like them."""
    status = judged[_columns.VERDICTS.index("status")]
    rows = compat.collect_arrow(frame.filter(F.col(quoted(status)) == "IN_DOUBT"))
    if not rows.num_rows:
        return
    verdicts = rows.select(judged).rename_columns([*_columns.VERDICTS])
    with history.open() as opened:
        opened.audit.keep(rows.drop_columns(judged), verdicts, trigger, transaction=transaction, columns=columns)


def suspending(
    handle: "Callable[[DataFrame, int], object]",
    suspension: "Suspension",
    *,
    wait: str | timedelta | float = 0,
) -> "Callable[[DataFrame, int], None]":
    """A function for `foreachBatch` that does nothing while a trigger is suspended, and suspends it if need be.

    ```python
    handle = dh.spark.exactly_once("orders.history", trigger, service)
    suspension = dh.Suspension("orders.history", trigger)
    handle = dh.spark.suspending(handle, suspension, wait="1 hour")
    stream.writeStream.foreachBatch(handle).option("checkpointLocation", "checkpoint").start()
    ```

    While the trigger is suspended a batch waits, polling, for `wait` at most; if it is resumed by
    then, the same batch is handled, or handled again, and the stream never knows. Else the batch
    fails with a `SuspendedError` that says why and when it is tried again: Spark has not noted the
    batch, and hands it over again when the query is started again.

    Args:
        handle: what `exactly_once` made, or another function that raises `SuspendedError`.
        suspension: of the same trigger and history.
        wait: how long a batch may wait, a duration; 0 fails it at once.

    Returns:
        Callable: a function (frame, batch number) for `foreachBatch`.

    Raises:
        ConfigError: [DH-CONFIG] `wait` is no duration.
    """
    _checks.function("handle", handle)
    longest = _durations.seconds("wait", wait)

    def run(frame: "DataFrame", batch_id: int) -> None:
        end = time.monotonic() + longest
        while True:
            if not suspension.wait(max(end - time.monotonic(), 0.0)):
                suspension.check()  # says why
                continue
            try:
                handle(frame, batch_id)
            except SuspendedError as error:
                raised = error
                if error.status is None:
                    cause = cast("Literal['history', 'resolver']", error.cause or "resolver")
                    raised = suspension.failed(error, cause)
            except (dh.StorageError, dh.OpenError) as error:
                if not suspension.suspends:
                    raise
                raised = suspension.failed(error)
            else:
                suspension.succeeded()
                return
            if time.monotonic() >= end:
                raise raised

    return run
