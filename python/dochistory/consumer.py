"""A consumer: everything that a loop around a broker needs beside `begin`.

```python
with dh.Consumer("orders.history", trigger) as consumer:
    while True:
        consumer.wait()                                  # returns at once unless the trigger is suspended
        claim = consumer.begin(broker.receive())         # verdicts; in doubt: audit log; both: journal and statistics
        process(claim.new)
        claim.complete()
        broker.acknowledge(claim.verdicts)               # column `acknowledge`: all but NO
```
"""

import datetime as dt
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import dochistory as dh
from dochistory import _checks, _columns, _files, journal
from dochistory.statistics import Statistics
from dochistory.suspension import Suspension

__all__ = ["LOGGER", "Consumer"]

LOGGER = "dochistory.consumer"
"""The name of the logger that is told of batches that the statistics lack."""


class Consumer:
    """Begins the documents of one trigger, and handles suspension, audit log, journal and statistics.

    Args:
        history: the directory of the history; created if it does not exist. It is opened when it is
            needed, and opened again after a failure of its storage.
        trigger: whose documents they are.
        suspension: how the trigger is suspended and resumed; `Suspension(history, trigger)`, if
            absent.
        audit: keep documents in doubt in the history's audit log (only messaging triggers have
            one).
        log: write the journal through `logging`.
        sinks: write the journal to these, too.
        statistics: count verdicts in the history's statistics. If a batch cannot be counted, a
            warning is logged.
        name: the documents' column with their names, for the statistics' list.
    """

    def __init__(
        self,
        history: str | os.PathLike[str],
        trigger: dh.Trigger,
        *,
        suspension: Suspension | None = None,
        audit: bool = True,
        log: bool = True,
        sinks: Sequence[journal.Sink] = (),
        statistics: bool = True,
        name: str = "document_name",
    ) -> None:
        _checks.trigger(trigger)
        self.trigger = trigger
        self.path = _files.place(history)
        self.suspension = suspension or Suspension(history, trigger)
        self._audit = audit and trigger.kind == "messaging"
        self._most = 1_000 if log else 0
        self._log = log
        self._sinks = tuple(sinks)
        self._statistics = Statistics(history) if statistics else None
        self._name = name
        self._lock = threading.Lock()
        self._opened: dh.History | None = None
        self._was_there = False

    @property
    def history(self) -> dh.History:
        """The open history.

        Raises:
            OpenError: [DH-OPEN] the history was there before, and is gone.
            StorageError: [DH-IO] the operating system refused.
        """
        with self._lock:
            if self._opened is None or self._opened.closed:
                # A history that is unavailable (on a disk that is not mounted) must not be created again, empty.
                is_known = self._was_there or self.suspension.status is not None
                self._opened = dh.open(self.path, create=not is_known)
                self._was_there = True
            return self._opened

    def begin(
        self,
        documents: Any,
        *,
        columns: Mapping[str, str] | None = None,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "resolver", "rerun"] = "in_doubt",
        on_other_rows: Literal["error", "look_up"] = "error",
        threads: int = 1,
        now: dt.datetime | None = None,
    ) -> dh.Claim:
        """Begin a batch: as `History.begin`, and record documents that are not NEW before anybody acknowledges them.

        If some verdicts are SUSPEND, the claim is still valid for the rows before; the next `begin`
        raises.

        Args:
            documents: the documents, in order of arrival.
            columns: as in `History.begin`.
            transaction: as in `History.begin`.
            on_replay: as in `History.begin`.
            on_other_rows: as in `History.begin`.
            threads: as in `History.begin`.
            now: as in `History.begin`.

        Returns:
            dh.Claim: as `History.begin`.

        Raises:
            SuspendedError: [DH-SUSPENDED] the trigger is suspended, or is from now on; nothing was
                begun, so acknowledge nothing.
            DocHistoryError: as in `History.begin`; and what the audit log or a sink raised. Nothing
                is claimed then.
        """
        self.suspension.check()
        table = _columns.table_of(documents)
        try:
            claim = self.history.begin(
                table,
                self.trigger,
                columns=columns,
                transaction=transaction,
                on_replay=on_replay,
                on_other_rows=on_other_rows,
                threads=threads,
                now=now,
                audit=self._audit,
            )
        except (dh.StorageError, dh.FailedError, dh.OpenError) as error:
            self.close()  # a handle whose write failed writes no more
            if not self.suspension.suspends:
                raise
            raise self.suspension.failed(error) from error
        try:
            self._write_down(table, claim, columns)
        except BaseException:
            claim.release()  # nobody has seen it yet
            raise
        self.suspension.note(claim.verdicts)
        return claim

    def _write_down(self, documents: Any, claim: dh.Claim, columns: Mapping[str, str] | None) -> None:
        if self._log or self._sinks:
            journal.write(documents, claim.verdicts, self.trigger, columns=columns, most=self._most, sinks=self._sinks)
        if self._statistics is None:
            return
        try:
            self._statistics.add(claim.verdicts, self.trigger, documents=documents, name=self._name)
        except dh.StorageError as error:
            # The statistics are beside the history, whose disk may be unavailable; they are no reason to stop.
            logging.getLogger(LOGGER).warning("%s: a batch is missing in the statistics: %s", self.trigger.name, error)

    def wait(self, timeout: str | dt.timedelta | float | None = None, *, stop: threading.Event | None = None) -> bool:
        """Wait until documents may be begun; as `Suspension.wait`.

        Args:
            timeout: how long at most; without a limit, if absent.
            stop: an event that ends the wait.

        Returns:
            bool: whether documents may be begun now.
        """
        return self.suspension.wait(timeout, stop=stop)

    def close(self) -> None:
        """Close the history; the next `begin` opens it again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Consumer of trigger {self.trigger.name!r} with {str(self.path)!r}>"
