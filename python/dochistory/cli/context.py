"""The context of a command: the settings file, the history, the selected triggers."""

import argparse
import datetime as dt
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory.cli.failures import CommandError
from dochistory.settings import FILE_NAME, Settings, settings_from_toml, stored_settings

HISTORY_VARIABLE = "DOCHISTORY_HISTORY"
SETTINGS_VARIABLE = "DOCHISTORY_SETTINGS"


Add = Callable[..., argparse.ArgumentParser]
"""Adds a command: commands, name, what runs it, help, more help."""


@dataclass(frozen=True)
class Context:
    """The options of one run, and the objects that they select."""

    options: argparse.Namespace

    @property
    def json(self) -> bool:
        """Whether the output is for a program."""
        return bool(self.options.json)

    @cached_property
    def settings(self) -> Settings | None:
        """The settings file: the one given, or that of the working directory; None if there is none."""
        named = self.options.settings or os.environ.get(SETTINGS_VARIABLE)
        if named:
            return settings_from_toml(named)
        return settings_from_toml(FILE_NAME) if Path(FILE_NAME).is_file() else None

    @cached_property
    def history_path(self) -> Path:
        """The directory of the history.

        Raises:
            CommandError: no option and no settings file tells where it is.
        """
        named = self.options.history or os.environ.get(HISTORY_VARIABLE)
        if named:
            return dh.local_path(named)
        if self.settings and self.settings.history:
            return self.settings.history
        raise CommandError(
            f'no history given: pass --history DIR, set {HISTORY_VARIABLE}, or write history = "…" in {FILE_NAME}'
        )

    def open(self, *, read_only: bool) -> dh.History:
        """The history, which must exist: no command creates one.

        Raises:
            CommandError: it does not exist.
        """
        path = self.history_path
        if not path.exists():
            raise CommandError(f"{path}: no such directory: name that of a history with --history DIR")
        if not path.is_dir() or not (path / "HISTORY").exists():
            raise CommandError(f"{path}: not a dochistory directory (no file HISTORY): name the directory of a history")
        return dh.open(self.history_path, read_only=read_only, lock_timeout=self.options.lock_timeout)

    def named(self, history: dh.History) -> list[str]:
        """The names of the selected triggers: the one of the option, or all."""
        there = history.triggers()
        named = self.options.trigger
        if named is None:
            return sorted(there)
        if named not in there:
            known = ", ".join(sorted(there)) or "none yet"
            raise CommandError(f"the history {self.history_path} has no trigger {named!r}; it has {known}")
        return [named]

    def described(self, name: str) -> dh.Trigger | str:
        """The trigger with its settings; its name only, if the settings file lacks it."""
        if self.settings and name in self.settings.triggers:
            return self.settings.triggers[name]
        return name

    def trigger(self, history: dh.History) -> dh.Trigger:
        """The trigger that judges the documents."""
        known = dict(self.settings.triggers) if self.settings else {}
        name = self.options.trigger or _only(list(known) or history.triggers())
        if name in known:
            if given := self._rule_options():
                raise CommandError(
                    f"{self.settings.path if self.settings else FILE_NAME} says how trigger {name} judges: "
                    f"change {', '.join(given)} there, not on the command line"
                )
            return known[name]
        # If the settings file lacks the trigger, its name is probably misspelt.
        if known:
            raise CommandError(f"the settings describe no trigger {name!r}, but {', '.join(known)}")
        rules = {**stored_settings(history, name), **self._rule_options()}
        return dh.Trigger(name, detect_duplicates=True, use_history=True, **rules)

    def _rule_options(self) -> dict[str, Any]:
        names = ("kind", "processing_mode", "in_batch", "expiry")
        return {name: value for name in names if (value := getattr(self.options, name, None)) is not None}


def _only(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    known = f" (there are {', '.join(sorted(names))})" if names else ""
    raise CommandError(f"no trigger given: name it with --trigger NAME{known}")


def positive(text: str) -> int:
    """A number from the command line, from 1 on.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 up")
    return int(text)


def moment(text: str) -> dt.datetime:
    """A point in time from the command line.

    Raises:
        argparse.ArgumentTypeError: it is none, or has no time zone.
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time with a zone, such as 2026-11-21T09:30:00Z")
    return found


def duration(text: str) -> dt.timedelta:
    """A duration from the command line, in every form that a time to live takes.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        return dh.Trigger("any", history_time_to_live=text).history_time_to_live
    except dh.ConfigError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration, such as '15 minutes' or PT2H") from None


def trigger_option(command: argparse.ArgumentParser, help_: str = "this trigger only; all, if absent") -> None:
    """Add the option `--trigger` to a command."""
    command.add_argument("--trigger", metavar="NAME", help=help_)
