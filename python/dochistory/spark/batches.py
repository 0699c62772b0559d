"""Exactly-once processing in `foreachBatch`.

Spark hands a batch to `foreachBatch` again, with the same number and the same rows, whenever it did
not get to note that the batch is done. Each batch is therefore a transaction of the history,
`(application, batch number)`:

    begin   the verdicts, and `processing` for what is new: durable before the service sees a document
    service gets what is new
    complete
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import dochistory as dh
from dochistory import _checks, _services
from dochistory.errors import SuspendedError
from dochistory.spark import checks, compat
from dochistory.spark.begun_batch import Batch, StagedBatch
from dochistory.spark.claims import OtherRows, Replay, claim
from dochistory.spark.decider import VERDICT_COLUMNS
from dochistory.spark.open_history import OpenHistory
from dochistory.spark.place import Place
from dochistory.spark.stored_rows import InSpark, OnDriver, arrived

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from dochistory import History, Trigger


class ExactlyOnce:
    """The function for `foreachBatch` that `exactly_once` makes; calling it handles one batch."""

    def __init__(
        self,
        place: Place,
        trigger: "Trigger",
        service: Callable[[Any, Any], object],
        *,
        application: str | None,
        on_replay: Replay,
        on_other_rows: OtherRows,
        columns: Mapping[str, str] | None,
        documents: Literal["spark", "arrow"],
        on_verdicts: Callable[[Any], object] | None,
        decide_on: Literal["auto", "driver", "executors"],
        parts: int | None,
        order_by: Any,
    ) -> None:
        self._history = OpenHistory(place)
        self._trigger = trigger
        self._service = _services.plain(service)
        self._application = application
        self._on_replay: Replay = on_replay
        self._on_other_rows: OtherRows = on_other_rows
        self._columns = dict(columns or {})
        self._documents = documents
        self._on_verdicts = on_verdicts
        self._decide_on = decide_on
        self._parts = parts
        self._order_by = order_by
        self._is_for_tasks = parts is not None or not _is_nothing(order_by)
        if self._is_for_tasks and decide_on == "driver":
            raise dh.ConfigError("[DH-CONFIG] parts and order_by are for executors, and decide_on is 'driver'")

    def __repr__(self) -> str:
        return f"<ExactlyOnce of trigger {self._trigger.name!r} with {self._history.place.shown!r}>"

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Handle one batch; returns when its documents are completed.

        Raises:
            SuspendedError: [DH-SUSPENDED] some documents cannot be decided now; Spark must deliver
                the batch again.
            TransactionError: [DH-TRANSACTION] the number of the batch goes backwards, or is known
                and comes with other rows.
            ConfigError: [DH-CONFIG] `frame` is no DataFrame of Spark, or outside a stream nothing
                names the application.
            Exception: whatever the service raised.
        """
        checks.frame("frame", frame)
        looked_at = checks.columns(self._trigger, frame.schema, self._columns)
        application = compat.application_of(self._application, frame, "exactly_once")
        if self._decides_on(frame) == "executors":
            self._by_tasks(frame, int(batch_id), application)
            return
        # Once, here: every further evaluation of the frame might bring the rows in another order.
        rows = self._arrived(frame, [*dict.fromkeys(looked_at.values())])
        try:
            self._by_driver(rows, int(batch_id), application)
        finally:
            rows.let_go()

    def _arrived(self, frame: "DataFrame", looked_at: list[str]) -> OnDriver | InSpark:
        if self._documents == "arrow":
            return OnDriver(frame)
        # A resolver is shown whole rows.
        return arrived(frame, looked_at if self._trigger.resolver is None else frame.schema.names)

    def _by_driver(self, rows: OnDriver | InSpark, batch_id: int, application: str) -> None:
        with self._history.open() as history:
            claim = history.begin(
                rows.asked,
                self._trigger,
                transaction=(application, batch_id),
                on_replay=self._on_replay,
                on_other_rows=self._on_other_rows,
                columns=self._columns or None,
            )
            self._run(rows, Batch(batch_id, application, rows, rows.claimed(claim)))

    def _decides_on(self, frame: "DataFrame") -> Literal["driver", "executors"]:
        if self._decide_on != "auto":
            return self._decide_on
        if self._is_for_tasks:
            return "executors"
        # What an Arrow table is made of comes to the driver in any case; and a claim asks the history.
        is_here = self._documents == "arrow" or compat.is_one_machine(frame.sparkSession)
        return "driver" if is_here or not self._trigger.use_history else "executors"

    def _by_tasks(self, frame: "DataFrame", batch_id: int, application: str) -> None:
        with (
            self._history.open() as history,
            claim(
                frame,
                history,
                self._trigger,
                transaction=(application, batch_id),
                on_replay=self._on_replay,
                on_other_rows=self._on_other_rows,
                columns=self._columns or None,
                prefix=checks.free_prefix(frame, VERDICT_COLUMNS),
                parts=self._parts,
                order_by=self._order_by,
                storage_options=self._history.place.given.options,
                cache=self._history.place.cache,
            ) as claimed,
        ):
            batch = StagedBatch(batch_id, application, claimed)
            try:
                self._tell(batch)
                actions = claimed.counts["action"]
                if actions.get("PROCESS"):
                    new = claimed.new
                    self._service(compat.collect_arrow(new) if self._documents == "arrow" else new, batch)
                # A batch with suspended documents has not ended as a whole: the claim knows.
                claimed.complete()
            finally:
                claimed._let_go()  # noqa: SLF001 - ours
        if suspended := actions.get("SUSPEND", 0):
            raise _suspended(suspended, claimed.rows, batch_id, self._trigger)

    def _tell(self, batch: Batch | StagedBatch) -> None:
        """Call `on_verdicts`. If it fails, no service has seen a document: they are new again."""
        if self._on_verdicts is None:
            return
        try:
            self._on_verdicts(batch)
        except dh.RolledBack:
            raise  # the caller releases
        except Exception:
            # Of a batch that comes again, an earlier run may have processed some.
            if batch.claim.replay == "first":
                batch.claim.release()
            raise

    def _run(self, rows: OnDriver | InSpark, batch: Batch) -> None:
        try:
            self._tell(batch)
            if batch.counts["action"].get("PROCESS"):
                self._service(batch.claim.new if self._documents == "arrow" else rows.new(batch.claim), batch)
        except dh.RolledBack:
            batch.claim.release()
            raise
        # A batch with suspended documents has not ended as a whole: the claim knows.
        batch.claim.complete()
        if suspended := batch.rows("SUSPEND"):
            first = batch.verdicts.slice(suspended[0], 1).to_pylist()[0]
            cause: Literal["history", "resolver"] = "history" if first["rule"] == "R5" else "resolver"
            why = f" ({first['rule']}: {first['message']})"
            raise _suspended(len(suspended), len(batch.verdicts), batch.id, self._trigger, why, cause)


def _is_nothing(order_by: Any) -> bool:
    # A column has no truth value.
    return isinstance(order_by, list | tuple | str) and not order_by


def _suspended(
    suspended: int,
    rows: int,
    batch: int,
    trigger: "Trigger",
    why: str = "",
    cause: Literal["history", "resolver"] = "resolver",
) -> SuspendedError:
    return SuspendedError(
        f"[DH-SUSPENDED] {suspended} of the {rows} documents of batch {batch} cannot be decided now; "
        f"trigger {trigger.name} is suspended until the batch is delivered again{why}",
        cause=cause,
    )


def exactly_once(
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    service: Callable[[Any, Any], object],
    *,
    application: str | None = None,
    on_replay: Replay = "in_doubt",
    on_other_rows: OtherRows = "error",
    columns: Mapping[str, str] | None = None,
    documents: Literal["spark", "arrow"] = "spark",
    on_verdicts: Callable[[Any], object] | None = None,
    decide_on: Literal["auto", "driver", "executors"] = "auto",
    parts: int | None = None,
    order_by: "str | Column | Sequence[str | Column]" = (),
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> ExactlyOnce:
    """A function for `foreachBatch` that hands each document to `service` once.

    ```python
    handle = dh.spark.exactly_once("orders.history", trigger, service)
    stream.writeStream.foreachBatch(handle).option("checkpointLocation", "checkpoint").start()
    ```

    A batch that Spark hands over again runs no completed document again and loses none: what was
    completed is DUPLICATE; what was begun and not completed is settled by `on_replay`.

    Args:
        history: the history, its directory, or the URL of its bucket; it is created if it is not
            there.
        trigger: whose documents they are.
        service: called as `service(new, batch)` with the documents to process, in order, in the
            columns they came in. Not called when nothing is new. When it returns, the documents are
            completed. If it raises `RolledBack`, what it has not completed itself is released, so
            that it is NEW the next time. After any other exception nobody knows how far it got: its
            documents stay `processing`. Either way the batch fails and the stream stops.
        application: the name under which batch numbers are remembered; the streaming query's id, if
            absent. A name whose numbers go backwards (a new checkpoint under an old name) is an
            error.
        on_replay: what becomes of documents that this very batch began and never completed:
            `in_doubt` (somebody may have processed them: they are logged, not run), `resolver` (ask
            the trigger's resolver), or `rerun` (process them again: for services that are
            idempotent by batch number).
        on_other_rows: what is done with a known batch number that comes with other rows (a new
            checkpoint under an old name, two queries that share one, a filter that was changed):
            `error` raises before anything is recorded, `look_up` takes it for a batch of its own,
            in which each row is what the history holds of it.
        columns: the trigger's name of a column -> its name in the batch, where they differ.
        documents: `spark` hands the service a DataFrame, `arrow` a `pyarrow.Table`.
        on_verdicts: called with every batch once it is begun, before the service: the place to log
            what is in doubt. It sees a replayed batch again, with that run's verdicts. If it
            raises, the documents are released, as no service has seen them, unless the batch is a
            replayed one.
        decide_on: `driver` collects the rows of a batch there, which is the quickest for batches
            that fit (up to some hundred thousand rows); the service then gets a `Batch`.
            `executors` leaves them to Spark's tasks, as `claim` does, for batches of any size; the
            service then gets a `StagedBatch`. `auto` is `driver` where the tasks run in the
            driver's own process (a local master), where the service wants the documents there
            (`documents="arrow"`), or where the trigger uses no history; else `executors`, and
            always where `parts` or `order_by` is given.
        parts: tasks to divide the work among, where executors decide.
        order_by: columns that say which of several copies within a batch came first, where
            executors decide.
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like. They
            travel to the workers, and are shown nowhere; what is absent comes from the environment
            of each process, or from its machine's role.
        cache: for the URL of a bucket: a directory on a local disk of every machine, which keeps
            what was fetched; one below the system's directory for temporary files, if absent.

    Returns:
        ExactlyOnce: callable with (frame, batch number), for `foreachBatch`.

    Raises:
        ConfigError: [DH-CONFIG] an argument is none of the above, or is for executors while the
            driver is to decide.
    """
    _checks.trigger(trigger)
    _checks.columns(columns)
    _checks.function("service", service)
    _checks.function("on_verdicts", on_verdicts, optional=True)
    _checks.application(application)
    _checks.count("parts", parts, optional=True)
    _checks.choice("on_replay", on_replay, ("in_doubt", "resolver", "rerun"))
    _checks.choice("on_other_rows", on_other_rows, ("error", "look_up"))
    _checks.choice("documents", documents, ("spark", "arrow"))
    _checks.choice("decide_on", decide_on, ("auto", "driver", "executors"))
    return ExactlyOnce(
        Place.of(history, storage_options, cache),
        trigger,
        service,
        application=application,
        on_replay=on_replay,
        on_other_rows=on_other_rows,
        columns=columns,
        documents=documents,
        on_verdicts=on_verdicts,
        decide_on=decide_on,
        parts=parts,
        order_by=order_by,
    )
