"""Exactly-once processing in `foreachBatch`.

Spark hands a batch to `foreachBatch` again, with the same number and the same rows, whenever it did not get to note
that the batch is done. Each batch is therefore a transaction of the history, `(application, batch number)`:

    begin   the verdicts, and `processing` for what is new: durable before the service sees a document
    service gets what is new
    complete
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory.errors import SuspendedError
from dochistory.spark import compat
from dochistory.spark.claims import Replay, SparkClaim, claim
from dochistory.spark.kept import Kept
from dochistory.spark.settings import columns_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from dochistory import Claim, History, Trigger


@dataclass(frozen=True)
class Batch:
    """One batch, begun: what the service and `on_verdicts` get to see."""

    id: int
    """Spark's number of the batch."""
    application: str
    """The name under which the batch's number is remembered."""
    documents: pa.Table
    """All rows of the batch, in order."""
    claim: "Claim"
    """The claim on what is new; the service may complete or release rows of it by itself."""

    @property
    def verdicts(self) -> pa.Table:
        """The verdict of every row: `status`, `action`, `acknowledge`, `rule`, `key`, `message`."""
        return self.claim.verdicts

    def rows(self, action: str) -> list[int]:
        """The numbers of the rows whose verdict asks for this action (PROCESS, DISCARD, LOG, SUSPEND, REJECT)."""
        asked = pc.equal(self.verdicts["action"].cast(pa.string()), action)
        found: list[int] = pc.indices_nonzero(asked.fill_null(False)).to_pylist()
        return found


@dataclass(frozen=True)
class StagedBatch:
    """One batch, begun by Spark's tasks: what the service and `on_verdicts` get to see with `decide_on="executors"`."""

    id: int
    """Spark's number of the batch."""
    application: str
    """The name under which the batch's number is remembered."""
    claim: SparkClaim
    """The claim on what is new; the service may complete or release documents of it by itself."""

    @property
    def documents(self) -> "DataFrame":
        """All rows of the batch, each with its verdict: `status`, `action`, `acknowledge`, `rule`, `key`, `message`."""
        return self.claim.documents


class ExactlyOnce:
    """The function for `foreachBatch` that `exactly_once` makes; calling it handles one batch."""

    def __init__(
        self,
        history: "History | str | os.PathLike[str]",
        trigger: "Trigger",
        service: Callable[[Any, Any], object],
        *,
        application: str | None,
        on_replay: Replay,
        columns: Mapping[str, str] | None,
        documents: Literal["spark", "arrow"],
        on_verdicts: Callable[[Any], object] | None,
        decide_on: Literal["driver", "executors"],
        parts: int | None,
        order_by: Any,
    ) -> None:
        self._history = Kept(history)
        self._trigger = trigger
        self._service = service
        self._application = application
        self._on_replay: Replay = on_replay
        self._columns = dict(columns or {})
        self._documents = documents
        self._on_verdicts = on_verdicts
        self._decide_on = decide_on
        self._parts = parts
        self._order_by = order_by

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Handle one batch; returns when its documents are completed.

        Raises:
            SuspendedError: some documents cannot be decided now; Spark must deliver the batch again.
            Exception: whatever the service raised.
        """
        columns_of(self._trigger, frame.columns, self._columns)
        application = self._application or compat.query_id(frame.sparkSession)
        if application is None:
            raise dh.ConfigError(
                "[DH-CONFIG] exactly_once needs application=…, a name that outlives restarts: "
                "outside a stream, and on Spark Connect, there is no query whose id could serve"
            )
        if self._decide_on == "executors":
            self._by_tasks(frame, int(batch_id), application)
            return
        # Once, here: every further evaluation of the frame might bring the rows in another order.
        rows = compat.collect_arrow(frame)
        with self._history.open() as history:
            claim = history.begin(
                rows,
                self._trigger,
                transaction=(application, int(batch_id)),
                on_replay=self._on_replay,
                columns=self._columns or None,
            )
            self._run(frame, Batch(int(batch_id), application, rows, claim))

    def _by_tasks(self, frame: "DataFrame", batch_id: int, application: str) -> None:
        with (
            self._history.open() as history,
            claim(
                frame,
                history,
                self._trigger,
                transaction=(application, batch_id),
                on_replay=self._on_replay,
                columns=self._columns or None,
                parts=self._parts,
                order_by=self._order_by,
            ) as claimed,
        ):
            batch = StagedBatch(batch_id, application, claimed)
            if self._on_verdicts is not None:
                self._on_verdicts(batch)
            actions = claimed.counts["action"]
            if actions.get("PROCESS"):
                new = claimed.new
                self._service(compat.collect_arrow(new) if self._documents == "arrow" else new, batch)
            suspended = actions.get("SUSPEND", 0)
            if not suspended:
                claimed.complete()
                return
            # By key: the batch as a whole has not ended, and must not count as a batch that has when it comes again.
            claimed.complete(claimed.new)
        raise _suspended(suspended, claimed.rows, batch_id, self._trigger)

    def _run(self, frame: "DataFrame", batch: Batch) -> None:
        if self._on_verdicts is not None:
            self._on_verdicts(batch)
        new = batch.claim.new
        if new.num_rows:
            try:
                self._service(self._handed(frame, new), batch)
            except dh.RolledBack:
                batch.claim.release()
                raise
        suspended = len(batch.rows("SUSPEND"))
        if not suspended:
            batch.claim.complete()
            return
        # By row: the batch as a whole has not ended, and must not count as a batch that has when it comes again.
        batch.claim.complete(rows=batch.rows("PROCESS"))
        first = batch.verdicts.slice(batch.rows("SUSPEND")[0], 1).to_pylist()[0]
        cause: Literal["history", "resolver"] = "history" if first["rule"] == "R5" else "resolver"
        why = f" ({first['rule']}: {first['message']})"
        raise _suspended(suspended, len(batch.documents), batch.id, self._trigger, why, cause)

    def _handed(self, frame: "DataFrame", new: pa.Table) -> Any:
        return new if self._documents == "arrow" else compat.frame_of(frame.sparkSession, new, frame.schema)


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
    columns: Mapping[str, str] | None = None,
    documents: Literal["spark", "arrow"] = "spark",
    on_verdicts: Callable[[Any], object] | None = None,
    decide_on: Literal["driver", "executors"] = "driver",
    parts: int | None = None,
    order_by: "str | Column | Sequence[str | Column]" = (),
) -> ExactlyOnce:
    """A function for `foreachBatch` that hands each document to `service` once.

    ```python
    stream.writeStream.foreachBatch(exactly_once("orders.history", trigger, service)).option(…).start()
    ```

    A batch that Spark hands over again runs no completed document again and loses none: what was completed is
    DUPLICATE; what was begun and not completed is settled by `on_replay`.

    Args:
        history: the history, or its directory, which is created if it is not there.
        trigger: whose documents they are.
        service: called as `service(new, batch)` with the documents to process, in order, in the columns they came in.
            Not called when nothing is new. When it returns, the documents are completed. If it raises `RolledBack`,
            what it has not completed itself is released, so that it is NEW the next time. After any other exception
            nobody knows how far it got: its documents stay `processing`. Either way the batch fails and the stream
            stops.
        application: the name under which batch numbers are remembered; the streaming query's id, if absent. A name
            whose numbers go backwards (a new checkpoint under an old name) is an error.
        on_replay: what becomes of documents that this very batch began and never completed: `in_doubt` (somebody may
            have processed them: they are logged, not run), `resolver` (ask the trigger's resolver), or `rerun` (process
            them again: for services that are idempotent by batch number).
        columns: the trigger's name of a column -> its name in the batch, where they differ.
        documents: `spark` hands the service a DataFrame, `arrow` a `pyarrow.Table`.
        on_verdicts: called with every batch once it is begun, before the service: the place to log what is in doubt.
            It sees a replayed batch again, with that run's verdicts.
        decide_on: `driver` collects the rows of a batch there, which is the quickest for batches that fit (up to some
            hundred thousand rows); the service then gets a `Batch`. `executors` leaves them to Spark's tasks, as
            `claim` does, for batches of any size; the service then gets a `StagedBatch`.
        parts: with `executors`, tasks to divide the work among.
        order_by: with `executors`, columns that say which of several copies within a batch came first.
    """
    for name, value, allowed in (
        ("on_replay", on_replay, ("in_doubt", "resolver", "rerun")),
        ("documents", documents, ("spark", "arrow")),
        ("decide_on", decide_on, ("driver", "executors")),
    ):
        if value not in allowed:
            raise dh.ConfigError(f"[DH-CONFIG] {name} is one of {', '.join(allowed)}, not {value!r}")
    return ExactlyOnce(
        history,
        trigger,
        service,
        application=application,
        on_replay=on_replay,
        columns=columns,
        documents=documents,
        on_verdicts=on_verdicts,
        decide_on=decide_on,
        parts=parts,
        order_by=order_by,
    )
