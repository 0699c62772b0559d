"""What the options of the data source `dochistory` say.

Options are text under names that Spark hands over in lower case. A trigger's settings are options
of the same names as in `dochistory.toml`, and are checked in the same way.
"""

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import dochistory as dh
from dochistory import _checks
from dochistory.objects.options import is_secret
from dochistory.settings import SETTINGS, settings_from_toml, trigger_from_text
from dochistory.spark.place import Place
from dochistory.spark.settings import COLUMNS

Table = Literal["entries", "transactions", "statistics"]
TABLES: tuple[Table, ...] = ("entries", "transactions", "statistics")

_WHERE = {"path", "trigger", "settings", "cache"}
_READING = _WHERE | {"table", "status", "from", "to", "partitions", "key", "keys"}
_WRITING = _WHERE | {"record", "application", "batch", "on_other_rows", "checkpointlocation"} | set(SETTINGS)
_RENAMED = "columns."
STORAGE = "storage."


class Options:
    """Options of a read or a write, checked."""

    def __init__(self, given: Mapping[str, str], *, writing: bool) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        if "provider" in self._given:
            # Spark's catalog says so when it makes a table; a query of the table then comes without any option.
            raise dh.ConfigError(
                "[DH-CONFIG] Spark's catalog forgets the options of a table, so that nobody could read it: instead of "
                "CREATE TABLE use CREATE TEMPORARY VIEW … USING dochistory OPTIONS (path '…', trigger '…')"
            )
        known = _WRITING if writing else _READING
        columns = {name for name in self._given if writing and name.startswith(_RENAMED)}
        storage = {name for name in self._given if name.startswith(STORAGE)}
        if unknown := sorted(set(self._given) - known - columns - storage):
            raise dh.ConfigError(
                f"[DH-CONFIG] the format dochistory has no option {', '.join(unknown)} for "
                f"{'writing' if writing else 'reading'}; there are {', '.join(sorted(known))}"
            )

    def place(self) -> Place:
        """Where the history is: the option `path`, or what the file of settings says."""
        found: str | Path | None = self._given.get("path")
        if found is None and "settings" in self._given:
            found = settings_from_toml(self._given["settings"]).history
        if found is None:
            raise dh.ConfigError(
                "[DH-CONFIG] the format dochistory needs the option path, the directory of the history or the URL of "
                'its bucket: .option("path", …)'
            )
        storage = {name: self._given[STORAGE + name] for name in self._storage()}
        return Place.of(found, storage, self._given.get("cache"))

    def _storage(self) -> list[str]:
        """The storage options, none of which is a secret: Spark shows options in its plans."""
        names = [name.removeprefix(STORAGE) for name in self._given if name.startswith(STORAGE)]
        if secret := next(filter(is_secret, names), None):
            raise dh.ConfigError(
                f"[DH-CONFIG] {STORAGE}{secret} may be a secret, and Spark shows the options of a format: give the "
                "driver and the executors credentials by their environment or their role"
            )
        return names

    def trigger_name(self) -> str | None:
        """The name of the trigger; None stands for all."""
        return self._given.get("trigger")

    def trigger(self) -> dh.Trigger:
        """The trigger with its settings: from a file of settings, or from options."""
        name = self.trigger_name()
        if name is None:
            raise dh.ConfigError(
                '[DH-CONFIG] the format dochistory needs the option trigger for writing: .option("trigger", …)'
            )
        settings = {one: value for one, value in self._given.items() if one in SETTINGS}
        if "settings" not in self._given:
            # A history is what this writes to: a trigger that uses none would be a mistake here.
            return trigger_from_text(name, {"detect_duplicates": "true", "use_history": "true"} | settings)
        if settings:
            raise dh.ConfigError(f"[DH-CONFIG] {', '.join(sorted(settings))}: a settings file is given: set it there")
        triggers = settings_from_toml(self._given["settings"]).triggers
        if name not in triggers:
            known = ", ".join(triggers) or "none"
            raise dh.ConfigError(f"[DH-CONFIG] {self._given['settings']} has no trigger {name}; it has {known}")
        return triggers[name]

    def table(self) -> Table:
        """Which table is read."""
        found = self._given.get("table", "entries")
        for one in TABLES:
            if found == one:
                return one
        raise dh.ConfigError(f"[DH-CONFIG] table is {found!r}; allowed is {', '.join(TABLES)}")

    def status(self) -> Literal["processing", "completed"] | None:
        """Which entries are read: in this state."""
        return self._processing_or_completed("status")

    def keys(self) -> list[str] | None:
        """Which entries are read: those of these keys. None stands for all."""
        one, several = self._given.get("key"), self._given.get("keys")
        if several is None:
            return None if one is None else [one]
        if one is not None:
            raise dh.ConfigError("[DH-CONFIG] the options key and keys exclude each other: give one of them")
        try:
            found = json.loads(several)
        except ValueError:
            found = None
        if not isinstance(found, list) or not all(isinstance(key, str) for key in found):
            raise dh.ConfigError(f'[DH-CONFIG] keys is {several!r}; it must be a list in JSON, as in ["o-1", "o-2"]')
        return found

    def record(self) -> Literal["processing", "completed"]:
        """What is written about documents."""
        return self._processing_or_completed("record") or "completed"

    def _processing_or_completed(self, name: str) -> Literal["processing", "completed"] | None:
        found = self._given.get(name)
        if found is None or found == "processing" or found == "completed":
            return found  # type: ignore[return-value] # mypy does not see through `or`
        raise dh.ConfigError(f"[DH-CONFIG] {name} is {found!r}; allowed is 'processing' or 'completed'")

    def time(self, name: Literal["from", "to"]) -> dt.datetime | None:
        """A time in ISO 8601, in UTC unless it says otherwise."""
        if name not in self._given:
            return None
        try:
            found = dt.datetime.fromisoformat(self._given[name])
        except ValueError as error:
            raise dh.ConfigError(
                f"[DH-CONFIG] {name} is {self._given[name]!r}; it must be a time such as 2026-11-21T08:00:00"
            ) from error
        return found if found.tzinfo else found.replace(tzinfo=dt.UTC)

    def number(self, name: str) -> int | None:
        """A whole number from 0 on."""
        found = self._given.get(name)
        if found is None:
            return None
        if not found.isdecimal():
            raise dh.ConfigError(f"[DH-CONFIG] {name} is {found!r}; it must be a whole number")
        return int(found)

    def transaction(self) -> tuple[str, int] | None:
        """Under which transaction a batch is recorded: the options `application` and `batch`, both or none."""
        application, batch = self.application(), self.number("batch")
        if application is None and batch is None:
            return None
        if application is None or batch is None:
            raise dh.ConfigError("[DH-CONFIG] the options application and batch go together: give both or none")
        return application, batch

    def has_committed(self) -> bool:
        """Whether a stream has ended a batch before, as far as its checkpoint can be seen from here."""
        checkpoint = self._given.get("checkpointlocation")
        if checkpoint is None:
            return False
        try:
            commits = Path(dh.local_path(checkpoint)) / "commits"
            return any(one.name.isdecimal() for one in commits.iterdir())
        except (dh.OpenError, OSError):
            return False  # elsewhere, or not there yet

    def on_other_rows(self) -> Literal["error", "look_up"]:
        """What is done with a known batch number that comes with other rows."""
        found = self._given.get("on_other_rows", "error")
        if found in ("error", "look_up"):
            return found  # type: ignore[return-value] # mypy does not see through `in`
        raise dh.ConfigError(f"[DH-CONFIG] on_other_rows is {found!r}; allowed is 'error' or 'look_up'")

    def application(self) -> str | None:
        """The name under which a stream's batch numbers are remembered, instead of the query's id."""
        _checks.application(self._given.get("application"))
        return self._given.get("application")

    def columns(self) -> dict[str, str]:
        """Other names of columns: the trigger's name, or `started_at` or `status` -> the name in the DataFrame."""
        known = {name for kind in COLUMNS.values() for name in kind} | {"started_at", "status"}
        found = {name.removeprefix(_RENAMED): there for name, there in self._given.items() if name.startswith(_RENAMED)}
        if unknown := sorted(set(found) - known):
            raise dh.ConfigError(
                f"[DH-CONFIG] columns.{unknown[0]}: there is no such column; there are {', '.join(sorted(known))}"
            )
        return found
