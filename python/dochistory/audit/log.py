"""The audit log of a history: keep, list, show, resolve, resubmit."""

import datetime as dt
import getpass
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory import _checks
from dochistory.audit import damage, refusals, replays, settling, states, store
from dochistory.audit.contents import Contents
from dochistory.audit.entries import APPLICATION, ENTRIES, TIME, count_column, of_batch
from dochistory.audit.files import Directory
from dochistory.audit.places import files_of
from dochistory.audit.resubmission import Resubmission
from dochistory.audit.settling import OPEN, SETTLED
from dochistory.resolvers import Resolver

__all__ = ["APPLICATION", "ENTRIES", "OPEN", "SETTLED", "AuditLog", "Decision", "State"]

Decision = Literal["process", "duplicate"]
"""What a person may decide about a document."""

State = Literal["open", "process", "resubmitting", "cut_off", "resubmitted", "duplicate"]
"""What became of a document so far; the package's text tells how one follows the other."""

Numbers = list[int]
"""Numbers of documents. (Within the class, `list` is a method.)"""


class AuditLog:
    """Documents in doubt of one history, kept whole beside its entries.

    `history.audit` makes one; it holds nothing open. Several processes may use the same log.

    Args:
        history: the history.
        directory: where the documents are kept; `audit` in the history's own directory, or below
            the URL of its bucket, if absent. To keep documents even while the history's disk is
            unavailable (rule R7), name a directory on another disk.
        lock_timeout: how long to wait for others, in seconds.
    """

    def __init__(
        self, history: dh.History, directory: str | os.PathLike[str] | None = None, *, lock_timeout: float = 30.0
    ) -> None:
        self.history = history
        self._store = store.Store(files_of(history, directory, lock_timeout))
        self._contents = Contents(history, self._store)

    @property
    def directory(self) -> Path:
        """Where the documents are kept.

        Raises:
            StateError: [DH-STATE] it is in a bucket.
        """
        place = self._store.files
        if isinstance(place, Directory):
            return place.directory
        raise dh.StateError(f"[DH-STATE] {self!r} is in a bucket, and has no directory: ask for the history's url")

    def __repr__(self) -> str:
        return f"<AuditLog {str(self._store.files.place('')).rstrip('/')!r}>"

    def _repr_html_(self) -> str:
        return import_module("dochistory.notebook").audit_html(self)  # type: ignore[no-any-return]

    def keep(
        self,
        documents: Any,
        verdicts: Any,
        trigger: dh.Trigger,
        *,
        columns: Mapping[str, str] | None = None,
        transaction: tuple[str, int] | None = None,
        now: dt.datetime | None = None,
    ) -> Numbers:
        """Keep the documents of a batch that are in doubt. Durable on return, so acknowledge them afterwards.

        Args:
            documents: the batch that was judged; all its columns are kept.
            verdicts: what `classify` answered, or `claim.verdicts`.
            trigger: whose documents they are.
            columns: the trigger's name of a column -> its name in `documents`, where they differ.
            transaction: (application, number of the batch): if the batch comes again, documents of
                it that are kept already are not kept again. They are compared as a whole, but for
                their redelivery count.
            now: the time of the entries; the clock's, if absent.

        Returns:
            The numbers of the documents kept, in the order of the batch; empty if none is in doubt.

        Raises:
            ConfigError: [DH-CONFIG] it is a JMS trigger, whose documents in doubt go to the journal
                only.
            SchemaError: [DH-SCHEMA] documents and verdicts are not of one batch, or Parquet does
                not support the type of a column.
            StorageError: [DH-IO] the operating system refused.
            LockedError: [DH-LOCKED] another process held the log for longer than `lock_timeout`.
        """
        if trigger.kind != "messaging":
            raise dh.ConfigError(
                f"[DH-CONFIG] {trigger.name} is a JMS trigger: its documents in doubt go to the journal, "
                "and only messaging triggers have an audit log"
            )
        entries = of_batch(documents, verdicts, trigger, columns or {}, transaction, now)
        if entries is None:
            return []
        return self._add(entries, trigger.name, transaction, count_column(trigger, columns or {}))

    def _add(self, entries: pa.Table, trigger: str, transaction: tuple[str, int] | None, count: str) -> Numbers:
        batch = store.batch_name(trigger, transaction)

        def add() -> Numbers:
            wanted = entries
            if transaction is not None:
                kept = [self._store.read(one.name, ["key", store.DOCUMENT]) for one in self._store.kept_of(batch)]
                wanted = replays.not_kept(entries, kept, count)
            if not wanted.num_rows:
                return []
            first = self._store.add_kept(wanted, batch)
            return list(range(first, first + wanted.num_rows))

        try:
            numbers = self._store.alone(add)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise dh.SchemaError(f"[DH-SCHEMA] Parquet cannot keep these documents: {error}") from error
        if numbers:
            # They are kept: what fails now may be done by the next one.
            with suppress(dh.LockedError, dh.ObjectStoreError):
                self._store.alone(self._store.compact)
        return numbers

    def list(
        self,
        trigger: dh.Trigger | str | None = None,
        state: State | Iterable[State] | None = None,
        *,
        rule: str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The entries of the log, without the documents themselves, oldest first.

        Args:
            trigger: the trigger, or its name; all, if absent.
            state: one state, or several; all, if absent. `OPEN` has those that wait for somebody.
            rule: only what this rule left in doubt.
            limit: the maximum number of entries, the newest ones.

        Returns:
            A table with the columns of `ENTRIES`.

        Raises:
            ConfigError: [DH-CONFIG] there is no such state, or no trigger of this name, neither in
                the log nor in the history.
        """
        wanted = None if state is None else ([state] if isinstance(state, str) else [*state])
        if wrong := set(wanted or []) - set(states.STATES):
            raise dh.ConfigError(
                f"[DH-CONFIG] state is {', '.join(map(repr, sorted(wrong)))}; allowed is {', '.join(states.STATES)}"
            )
        if isinstance(trigger, str):
            refusals.of_no_trigger(trigger, self._contents.entries(), self.history)
        entries = self._listed(trigger, wanted)
        if rule is not None:
            entries = entries.filter(pc.equal(entries["rule"], rule))
        return entries if limit is None else entries.slice(max(entries.num_rows - limit, 0))

    def _listed(self, trigger: dh.Trigger | str | None, wanted: Iterable[str] | None) -> pa.Table:
        """The entries of one trigger or of all, in these states."""
        entries = self._contents.entries()
        if trigger is not None:
            entries = entries.filter(pc.equal(entries["trigger"], _name(trigger)))
        if wanted is not None:
            entries = entries.filter(pc.is_in(entries["state"], value_set=pa.array([*wanted], pa.string())))
        return entries

    def show(self, number: int) -> dict[str, Any]:
        """One complete document: its entry, as in `list`, and its columns under `document`.

        Args:
            number: the number of the document.

        Returns:
            dict: the columns of `list`, and `document`, a dict of the columns that came in.

        Raises:
            ConfigError: [DH-CONFIG] it is no number.
            StateError: [DH-STATE] there is no document of this number.
        """
        entry = self._contents.chosen([number]).to_pylist()[0]
        return {**entry, "document": self.documents([number]).to_pylist()[0]}

    def documents(self, numbers: Iterable[int]) -> pa.Table:
        """Documents as they came, in the order of their numbers.

        Args:
            numbers: the numbers of the documents, in any order.

        Returns:
            All columns that they came in; null where a document's batch had none of that name.

        Raises:
            ConfigError: [DH-CONFIG] they are no numbers.
            StateError: [DH-STATE] there is no document of one of these numbers.
            SchemaError: [DH-SCHEMA] the types of a column in different batches have no common type;
                ask for fewer documents at once.
        """
        return self._contents.documents(numbers)

    def resolve(
        self,
        numbers: Iterable[int],
        decision: Decision,
        *,
        by: str | None = None,
        note: str | None = None,
        now: dt.datetime | None = None,
    ) -> None:
        """Decide about documents. Durable on return; deciding the same again changes nothing.

        `process` marks them for `resubmit`. `duplicate` says that they were processed already:
        their keys are completed in the history, so that they are DUPLICATE when they come again,
        and they can never be resubmitted.

        Args:
            numbers: the documents.
            decision: `process` or `duplicate`.
            by: who decides, for the record; the user's name, if absent.
            note: why, for the record.
            now: the time of the decision; the clock's, if absent.

        Raises:
            ConfigError: [DH-CONFIG] there is no such decision, or the numbers are none.
            StateError: [DH-STATE] a document does not exist, is being resubmitted now, or was
                resubmitted or called a duplicate before.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
        """
        if decision not in ("process", "duplicate"):
            raise dh.ConfigError(f"[DH-CONFIG] decision is {decision!r}; allowed is process or duplicate")
        chosen = self._contents.chosen(numbers)
        for trigger in chosen["trigger"].unique().to_pylist():
            mine = chosen.filter(pc.equal(chosen["trigger"], trigger))
            with self._store.turn(trigger):
                self._contents.settle(trigger)
                self._decide(trigger, mine["number"].to_pylist(), decision, by or _user(), note, now)

    def _decide(
        self,
        trigger: str,
        numbers: Numbers,
        decision: Decision,
        by: str | None,
        note: str | None,
        now: dt.datetime | None,
    ) -> None:
        chosen = self._contents.chosen(numbers)
        allowed = {"process": ("open", "process", "cut_off"), "duplicate": ("open", "process", "cut_off", "duplicate")}
        check = partial(refusals.only, allowed=allowed[decision], what=f"be resolved as {decision}")
        check(chosen)

        changed = chosen.filter(pc.not_equal(chosen["state"], decision))
        if not changed.num_rows:
            return
        if decision == "duplicate":
            # The history first: if this process dies in between, a resubmission finds a completed key, and drops it.
            self.history.complete(changed["key"], self._contents.trigger(trigger), now=now)
        size = changed.num_rows
        event = pa.table(
            {
                "number": changed["number"],
                "state": pa.repeat(decision, size),
                "time": pa.repeat(pa.scalar(now or dt.datetime.now(dt.UTC), TIME), size),
                "by": pa.array([by] * size, pa.string()),
                "note": pa.array([note] * size, pa.string()),
            }
        )

        def record() -> None:
            if self._store.files.may_be_lost:
                check(self._contents.chosen(numbers))
            self._store.add_event("decided", event)

        self._store.alone(record)

    def resolve_all(
        self,
        decision: Decision | Resolver,
        trigger: dh.Trigger | str | None = None,
        *,
        rule: str | None = None,
        by: str | None = None,
        note: str | None = None,
        now: dt.datetime | None = None,
    ) -> dict[Decision, int]:
        """Decide about all open documents of a trigger, or of a rule; or let a resolver decide.

        Args:
            decision: `process`, `duplicate`, or a resolver (`dochistory.resolvers`), which gets the
                documents as a trigger's resolver does; NEW is `process`, DUPLICATE is `duplicate`,
                and what it leaves in doubt stays open.
            trigger: the trigger, or its name; all, if absent.
            rule: only what this rule left in doubt.
            by: as in `resolve`.
            note: as in `resolve`.
            now: as in `resolve`.

        Returns:
            dict: decision -> the number of documents.

        Raises:
            ConfigError: [DH-CONFIG] there is no such decision.
            SchemaError: [DH-SCHEMA] the resolver gave another number of answers.
        """
        if decision not in ("process", "duplicate") and not callable(decision):
            raise dh.ConfigError(f"[DH-CONFIG] decision is {decision!r}; allowed is process, duplicate or a resolver")
        entries = self.list(trigger, "open", rule=rule)
        decided: dict[Decision, int] = {"process": 0, "duplicate": 0}
        for name in entries["trigger"].unique().to_pylist():
            numbers = entries.filter(pc.equal(entries["trigger"], name))["number"].to_pylist()
            chosen: dict[Decision, Numbers] = {"process": [], "duplicate": []}
            if isinstance(decision, str):
                chosen[decision] = numbers
            else:
                answers = settling.answers(self, name, numbers, decision)
                chosen["process"] = [number for number, answer in answers.items() if answer == "NEW"]
                chosen["duplicate"] = [number for number, answer in answers.items() if answer == "DUPLICATE"]
            for one, some in chosen.items():
                if some:
                    self.resolve(some, one, by=by, note=note, now=now)
                    decided[one] += len(some)
        return decided

    def reconcile(self, trigger: dh.Trigger | str | None = None, *, now: dt.datetime | None = None) -> Numbers:
        """Settle open documents that were completed after all: the history has their keys as completed.

        They become `duplicate`, decided by `reconcile`. The sweeper does so before each purge.

        Args:
            trigger: the trigger, or its name; all, if absent.
            now: the time of the decision; the clock's, if absent.

        Returns:
            list of int: the numbers of the documents that are settled by this.

        Raises:
            LockedError: [DH-LOCKED] another process is resubmitting documents of the trigger.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
        """
        names = self._listed(trigger, settling.OPEN)["trigger"].unique().to_pylist()
        settled: Numbers = []
        for name in names:
            with self._store.turn(name):
                self._contents.settle(name)
                numbers = settling.completed(self, name)
                if numbers:
                    self._decide(name, numbers, "duplicate", settling.BY, "completed in the history", now)
                    settled += numbers
        return sorted(settled)

    def compact(self) -> int:
        """Put small files of documents together, as `keep` does by itself when there are many.

        Returns:
            int: by how many files the log got smaller.
        """
        fewer = self._store.alone(lambda: self._store.compact(least=2))
        self._store.files.collect()
        return fewer

    def resubmit(
        self,
        trigger: dh.Trigger | str,
        numbers: Iterable[int] | None = None,
        *,
        now: dt.datetime | None = None,
    ) -> Resubmission:
        """Take documents to process them after all. Classification is bypassed: no count, no resolver; they are NEW.

        The documents are begun in the history: `processing` is durable. No other process can
        resubmit documents of the trigger until this resubmission is completed or released, or its
        process ends. Use it as a context manager:

        ```python
        with history.audit.resubmit(trigger) as again:
            service(again.documents)
        ```

        Leaving the block completes. `RolledBack` releases: the documents are in their previous
        state. After any other exception it is unknown how far the service came: they are `cut_off`,
        and wait for another decision. Of documents with one key only the first is handed out. A
        document whose key was completed meanwhile is a `duplicate`: it was processed already.

        Args:
            trigger: whose documents; a name stands for the trigger with the time to live stored
                with the documents.
            numbers: which; all that were resolved as `process`, if absent. Open ones need no
                decision before.
            now: the time at which the service begins; the clock's, if absent.

        Returns:
            Resubmission: a context manager with the documents and their claim.

        Raises:
            ConfigError: [DH-CONFIG] the numbers are none, or there is no trigger of this name.
            StateError: [DH-STATE] a document does not exist, belongs to another trigger, was cut
                off (decide first), or was resubmitted or called a duplicate before.
            LockedError: [DH-LOCKED] another process is resubmitting documents of this trigger.
            StorageError: [DH-IO] the history cannot be reached.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
        """
        name = _name(trigger)
        if numbers is None and isinstance(trigger, str):
            refusals.of_no_trigger(trigger, self._contents.entries(), self.history)
        wanted = None if numbers is None else _checks.numbers("numbers", numbers)
        turn = self._store.turn(name)
        turn.take()
        try:
            self._contents.settle(name)
            chosen = self._listed(name, ["process"]) if wanted is None else self._contents.chosen(wanted)
            refusals.of_one(chosen, name)
            refusals.only(chosen, ("open", "process"), "be resubmitted")
            documents = self.documents(chosen["number"].to_pylist())
            settings = trigger if isinstance(trigger, dh.Trigger) else self._contents.trigger(name)
            return Resubmission.begin(self.history, self._contents, turn, settings, chosen, documents, now)
        except BaseException:
            turn.give_back()
            raise

    def forget(self, before: dt.datetime, trigger: dh.Trigger | str | None = None, *, dry_run: bool = False) -> int:
        """Drop documents that are settled (resubmitted or duplicate) and were kept before a time, in whole files.

        Args:
            before: a time with a time zone.
            trigger: the trigger, or its name; all, if absent.
            dry_run: only tell how many would be dropped.

        Returns:
            The number of dropped documents. The newest file of the log stays, because numbers are
            never used twice.

        Raises:
            ConfigError: [DH-CONFIG] `before` has no time zone.
        """
        _checks.moment("before", before)
        entries = self._contents.entries()
        is_over = pc.and_(
            pc.is_in(entries["state"], value_set=pa.array(["resubmitted", "duplicate"])),
            pc.less(entries["time"], pa.scalar(before, TIME)),
        )
        if trigger is not None:
            is_over = pc.and_(is_over, pc.equal(entries["trigger"], _name(trigger)))
        over = set(entries.filter(is_over)["number"].to_pylist())

        def drop() -> int:
            dropped = [file for file in self._store.kept()[:-1] if over.issuperset(file.numbers)]
            if dropped and not dry_run:
                self._store.drop([file.name for file in dropped])
            return sum(file.count for file in dropped)

        return self._store.alone(drop)

    def verify(self) -> int:
        """Read every file and check its checksums, and that no file is missing.

        Returns:
            The number of bytes read.

        Raises:
            CorruptError: [DH-CORRUPT] a file is damaged, missing, or of another log; the text names
                it and its documents.
        """
        checked, damages = damage.look(self._store)
        for first in damages:
            more = f" ({len(damages) - 1} more files are damaged)" if len(damages) > 1 else ""
            raise dh.CorruptError(f"[DH-CORRUPT] {first.path}: {first.reason}{more}")
        return checked


def _name(trigger: dh.Trigger | str) -> str:
    return trigger.name if isinstance(trigger, dh.Trigger) else trigger


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
