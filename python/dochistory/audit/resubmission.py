"""A resubmission: documents in doubt that are processed after all, as one transaction of the history."""

import datetime as dt
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory import _columns, _files
from dochistory.audit import states, store
from dochistory.settings import stored_settings

APPLICATION = "dochistory.audit"
"""The name under which the history remembers resubmissions: its transactions are (this, number of the event)."""

_TIME = pa.timestamp("us", "UTC")


def _always_new(batch: pa.RecordBatch) -> list[str]:
    return ["NEW"] * batch.num_rows


class Resubmission:
    """Documents that were taken to be processed after all; `AuditLog.resubmit` makes it."""

    def __init__(
        self,
        store_: store.Store,
        turn: _files.Lock,
        number: int,
        claim: dh.Claim | None,
        entries: pa.Table,
        new: pa.Table,
    ) -> None:
        self._store = store_
        self._turn = turn
        self._claim = claim
        self._judged = entries
        self.number = number
        """The number of its transaction; 0 if there was nothing to resubmit."""
        self.documents = new
        """The documents to process, in the columns they came in."""

    @classmethod
    def begin(
        cls,
        history: dh.History,
        store_: store.Store,
        turn: _files.Lock,
        trigger: dh.Trigger,
        chosen: pa.Table,
        documents: pa.Table,
        now: dt.datetime | None,
    ) -> "Resubmission":
        """Begin it under the trigger's lock: first the plan is recorded, then the history's claim.

        Args:
            history: the history.
            store_: its audit log.
            turn: the trigger's lock, which is held.
            trigger: whose documents they are.
            chosen: their entries, as `AuditLog.list` gives them.
            documents: the documents as they came.
            now: when the services begin; the clock's time, if absent.

        Returns:
            Resubmission: the documents and their claim.

        Raises:
            StorageError: [DH-IO] the history cannot be reached.
        """
        if not chosen.num_rows:
            turn.give_back()
            return cls(store_, turn, 0, None, chosen, documents)
        last = history.transaction(trigger, APPLICATION)
        size = chosen.num_rows
        plan = pa.table(
            {
                "number": chosen["number"],
                "trigger": chosen["trigger"],
                "time": pa.repeat(pa.scalar(now or dt.datetime.now(dt.UTC), _TIME), size),
            }
        )
        with store_.lock():
            # A log that was restored from a backup may be behind the history.
            number = max(store_.next_event(), last[0] + 1 if last else 0)
            store_.add_event(number, "resubmission", plan)
        claim = history.begin(
            pa.table({"uuid": chosen["key"]}), _bypassing(history, trigger), transaction=(APPLICATION, number), now=now
        )
        verdicts = _columns.verdicts_of(claim.verdicts)
        if len(_columns.rows_where(verdicts["action"], "SUSPEND")):
            message = verdicts["message"][0].as_py()
            raise dh.StorageError(f"[DH-IO] nothing was resubmitted, because the history cannot be reached: {message}")
        rows = _columns.rows_where(verdicts["action"], "PROCESS")
        states_ = pc.if_else(pc.equal(_columns.text(verdicts["action"]), "PROCESS"), "resubmitted", "duplicate")
        judged = chosen.set_column(chosen.column_names.index("state"), "state", states_)
        return cls(store_, turn, number, claim, judged, documents.take(rows))

    @property
    def entries(self) -> pa.Table:
        """The log's entries of `documents`, in the same order, with the columns of `ENTRIES`."""
        return self._judged.filter(pc.equal(self._judged["state"], "resubmitted"))

    @property
    def duplicates(self) -> pa.Table:
        """The entries not handed out: their key was completed meanwhile, or an earlier one has the same key."""
        return self._judged.filter(pc.equal(self._judged["state"], "duplicate"))

    def complete(self) -> None:
        """The service ended, in success or failure: the documents are resubmitted, and DUPLICATE if they come again.

        Durable on return; repeating it changes nothing.
        """
        if self._claim is not None:
            self._claim.complete()
            self._end(self._judged)

    def release(self) -> None:
        """The service was certainly rolled back: the documents are in their previous state. Durable on return."""
        if self._claim is not None:
            self._claim.release()
            self._end(states.outcome(self._judged, states.UNDONE))

    def give_up(self) -> None:
        """It is unknown how far the service came: the documents are cut off, and wait for another decision."""
        if self._claim is not None:
            self._end(states.outcome(self._judged, "cut_off"))

    def _end(self, outcome: pa.Table) -> None:
        """Copy the outcome from the history; if this fails, the next process copies it."""
        now = pa.repeat(pa.scalar(dt.datetime.now(dt.UTC), _TIME), outcome.num_rows)
        said = pa.table({"number": outcome["number"], "state": outcome["state"], "time": now})
        self._claim = None
        try:
            with self._store.lock():
                self._store.add_event(self.number, "outcome", said)
        finally:
            self._turn.give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if error is None:
            self.complete()
        elif isinstance(error, dh.RolledBack):
            self.release()
        else:
            self.give_up()

    def __del__(self) -> None:
        self._turn.give_back()

    def __repr__(self) -> str:
        state = "open" if self._claim is not None else "over"
        return f"<Resubmission {self.number}: {self.documents.num_rows} documents, {state}>"


def _bypassing(history: dh.History, trigger: dh.Trigger) -> dh.Trigger:
    """The trigger with settings that make everything NEW except completed keys.

    The history's settings for it may have changed since the documents were kept.

    The history is used whatever its settings are, because only the history can tell later how the
    resubmission ended.
    """
    settings: dict[str, Any] = {
        "history_time_to_live": trigger.history_time_to_live,
        "expiry": trigger.expiry,
        "detect_duplicates": True,
        "use_history": True,
        "suspend_on_failure": True,
        "processing_mode": "serial",
        "in_batch": "duplicate",
        "resolver": _always_new,
        **stored_settings(history, trigger.name),
    }
    return dh.Trigger(trigger.name, **settings)
