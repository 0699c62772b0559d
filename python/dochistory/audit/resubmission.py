"""A resubmission: documents in doubt that are processed after all, as one transaction of the history."""

import datetime as dt
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory import _columns, _files
from dochistory.audit import refusals, states
from dochistory.audit.bucket import Turn
from dochistory.audit.entries import APPLICATION
from dochistory.settings import stored_settings

if TYPE_CHECKING:
    from dochistory.audit.contents import Contents

_TIME = pa.timestamp("us", "UTC")


def _always_new(batch: pa.RecordBatch) -> list[str]:
    return ["NEW"] * batch.num_rows


class Resubmission:
    """Documents that were taken to be processed after all; `AuditLog.resubmit` makes it."""

    def __init__(
        self,
        contents: "Contents",
        turn: _files.Lock | Turn,
        number: int,
        claim: dh.Claim | None,
        entries: pa.Table,
        new: pa.Table,
    ) -> None:
        self._contents = contents
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
        contents: "Contents",
        turn: _files.Lock | Turn,
        trigger: dh.Trigger,
        chosen: pa.Table,
        documents: pa.Table,
        now: dt.datetime | None,
    ) -> "Resubmission":
        """Begin it in the trigger's turn: first the plan is recorded, then the history's claim.

        Args:
            history: the history.
            contents: its audit log.
            turn: the trigger's turn, which is held.
            trigger: whose documents they are.
            chosen: their entries, as `AuditLog.list` gives them.
            documents: the documents as they came.
            now: when the services begin; the clock's time, if absent.

        Returns:
            Resubmission: the documents and their claim.

        Raises:
            StorageError: [DH-IO] the history cannot be reached.
            LockedError: [DH-LOCKED] in a bucket: another process resubmits documents of this
                trigger, because this one was silent for too long.
        """
        if not chosen.num_rows:
            turn.give_back()
            return cls(contents, turn, 0, None, chosen, documents)
        last = history.transaction(trigger, APPLICATION)
        size = chosen.num_rows
        plan = pa.table(
            {
                "number": chosen["number"],
                "trigger": chosen["trigger"],
                "time": pa.repeat(pa.scalar(now or dt.datetime.now(dt.UTC), _TIME), size),
            }
        )
        # A log that was restored from a backup may be behind the history.
        number = contents.plan(trigger.name, chosen, plan, least=last[0] + 1 if last else 1)
        try:
            claim = history.begin(
                pa.table({"uuid": chosen["key"]}),
                _bypassing(history, trigger),
                transaction=(APPLICATION, number),
                now=now,
            )
        except dh.DocHistoryError as error:
            # After an error of the storage nobody knows whether it was begun: the one that settles it looks.
            if not isinstance(error, dh.StorageError | dh.FailedError):
                with suppress(dh.DocHistoryError):
                    contents.end(number, states.outcome(plan, states.UNDONE))
            raise
        if contents.is_ended(number):
            claim.release()
            raise refusals.overtaken(trigger.name)
        verdicts = _columns.verdicts_of(claim.verdicts)
        if len(_columns.rows_where(verdicts["action"], "SUSPEND")):
            message = verdicts["message"][0].as_py()
            raise dh.StorageError(f"[DH-IO] nothing was resubmitted, because the history cannot be reached: {message}")
        rows = _columns.rows_where(verdicts["action"], "PROCESS")
        states_ = pc.if_else(pc.equal(_columns.text(verdicts["action"]), "PROCESS"), "resubmitted", "duplicate")
        judged = chosen.set_column(chosen.column_names.index("state"), "state", states_)
        return cls(contents, turn, number, claim, judged, documents.take(rows))

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
            self._contents.end(self.number, said)
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
        self._turn.let_go()

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
