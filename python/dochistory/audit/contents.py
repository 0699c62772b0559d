"""The content of an audit log, from its files and the history."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory import _checks
from dochistory.audit import refusals, states, store
from dochistory.audit.entries import APPLICATION, ENTRIES, KEPT
from dochistory.settings import stored_settings


class Contents:
    """The documents of a log, with their states."""

    def __init__(self, history: dh.History, files: store.Store) -> None:
        self._history = history
        self._store = files

    def entries(self) -> pa.Table:
        """All entries, oldest first, with the columns of `ENTRIES`."""
        return self._store.steadily(self._entries)

    def _entries(self) -> pa.Table:
        names = KEPT.names
        files = self._store.kept()
        events = self._store.events()
        self._store.files.fetch([one.name for one in files] + [one.name for one in events])
        tables = [self._store.read(one.name, ["number", *names]) for one in files]
        bare = pa.schema([store.NUMBER, *KEPT])
        kept = (
            pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
            if tables
            else bare.empty_table()
        )
        return states.with_states(kept, self._changes(events)).cast(ENTRIES)

    def _changes(self, events: list[store.Event]) -> pa.Table:
        """The changes of documents, in order; changes that are not recorded yet come from the history."""
        found = []
        ended = {event.number for event in events if event.kind == "outcome"}
        for event in events:
            table = self._store.read(event.name)
            if event.kind == "resubmission":
                if event.number in ended:
                    continue
                table = self._ended(event, table)
            found.append(states.change(table, event.number))
        return pa.concat_tables(found) if found else states.CHANGES.empty_table()

    def _ended(self, event: store.Event, resubmission: pa.Table) -> pa.Table:
        """The end of a resubmission whose end was not recorded."""
        trigger = resubmission["trigger"][0].as_py()
        if self._store.turn(trigger).is_taken():
            return states.outcome(resubmission, "resubmitting")
        progress = self._history.transaction(trigger, APPLICATION)
        return states.outcome(resubmission, self._end_of(event, progress))

    def _end_of(self, event: store.Event, progress: tuple[int, str] | None) -> str:
        if self._store.files.may_be_lost and (progress is None or progress[0] < event.number):
            # Its process may only be slow, and begin it yet.
            return "cut_off"
        return states.end_of(event.number, progress)

    def documents(self, numbers: Iterable[int]) -> pa.Table:
        """Documents as they came; see `AuditLog.documents`."""
        wanted = _checks.numbers("numbers", numbers)
        return self._store.steadily(lambda: self._documents(wanted))

    def _documents(self, wanted: list[int]) -> pa.Table:
        tables, missing = [], set(wanted)
        for file in self._store.kept():
            here = [number - file.first for number in wanted if number in file.numbers]
            if here:
                whole = self._store.read(file.name, [store.DOCUMENT])[store.DOCUMENT].take(pa.array(here, pa.int64()))
                tables.append(pa.Table.from_struct_array(whole))
                missing -= {file.first + at for at in here}
        if missing:
            raise refusals.unknown(sorted(missing))
        if not tables:
            return pa.table({})
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise dh.SchemaError(
                f"[DH-SCHEMA] documents {wanted[0]} to {wanted[-1]} have incompatible columns: {error}; "
                "ask for those of one batch at a time"
            ) from error

    def chosen(self, numbers: Iterable[int]) -> pa.Table:
        """The entries of these numbers; a StateError if one does not exist."""
        wanted = _checks.numbers("numbers", numbers)
        entries = self.entries()
        chosen = entries.filter(pc.is_in(entries["number"], value_set=pa.array(wanted, pa.int64())))
        if missing := sorted(set(wanted) - set(chosen["number"].to_pylist())):
            raise refusals.unknown(missing)
        return chosen

    def settle(self, trigger: str) -> None:
        """Record the end of the trigger's last resubmission, if its process did not. The trigger's turn is held."""
        for plan in self._plans():
            table = self._store.read(plan.name)
            if table["trigger"][0].as_py() == trigger:
                state = self._end_of(plan, self._history.transaction(trigger, APPLICATION))
                self.end(plan.number, states.outcome(table, state))

    def end(self, number: int, outcome: pa.Table) -> None:
        """Record the end of a resubmission, unless it is recorded."""
        self._store.alone(lambda: self._store.add_event("outcome", outcome, number=number))

    def plan(self, trigger: str, chosen: pa.Table, plan: pa.Table, *, least: int) -> int:
        """Record a resubmission before it is begun; answers its number. The trigger's turn is held.

        Raises:
            StateError: [DH-STATE] the documents' states changed since they were chosen.
            LockedError: [DH-LOCKED] another resubmission of the trigger has no end.
        """

        def record() -> int:
            if self._store.files.may_be_lost:
                now = self.chosen(chosen["number"].to_pylist())
                refusals.only(now, ("open", "process"), "be resubmitted")
                if any(self._trigger_of(event) == trigger for event in self._plans()):
                    raise refusals.overtaken(trigger)
            return self._store.add_event("resubmission", plan, least=least)

        return self._store.alone(record)

    def is_ended(self, number: int) -> bool:
        """Whether somebody else settled a resubmission whose turn was lost."""
        if not self._store.files.may_be_lost:
            return False
        return all(event.number != number for event in self._plans())

    def _plans(self) -> list[store.Event]:
        """The resubmissions whose end is not recorded."""
        events = self._store.events()
        ended = {event.number for event in events if event.kind == "outcome"}
        return [event for event in events if event.kind == "resubmission" and event.number not in ended]

    def _trigger_of(self, plan: store.Event) -> str:
        name: str = self._store.read(plan.name, ["trigger"])["trigger"][0].as_py()
        return name

    def trigger(self, name: str) -> dh.Trigger:
        """A trigger with the settings stored with the newest of its documents."""
        remembered = self._store.steadily(lambda: self._remembered(name))
        # The history's settings for it may have changed since.
        settings = {**remembered, **stored_settings(self._history, name)}
        return dh.Trigger(**settings, detect_duplicates=True, use_history=True)

    def _remembered(self, name: str) -> dict[str, Any]:
        for file in reversed(self._store.kept()):
            table = self._store.read(file.name, ["trigger"])
            if table["trigger"][0].as_py() == name:
                return store.trigger_of(name, table.schema.metadata)
        return {"name": name}
