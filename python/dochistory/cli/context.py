"""The context of a command: the settings file, the history, the selected triggers."""

import argparse
import datetime as dt
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory import _existing, objects
from dochistory._damage import triggers_ever_used
from dochistory.cli.failures import CommandError
from dochistory.cli.names import known, near
from dochistory.cli.times import duration, moment, positive, since
from dochistory.objects.open import check_name
from dochistory.objects.options import is_secret
from dochistory.settings import FILE_NAME, Settings, found_settings, settings_from_toml, stored_settings

__all__ = [
    "Add",
    "Context",
    "alone",
    "create_option",
    "duration",
    "moment",
    "needs",
    "positive",
    "since",
    "trigger_option",
    "yes_option",
]

HISTORY_VARIABLE = "DOCHISTORY_HISTORY"
CACHE_VARIABLE = "DOCHISTORY_CACHE"
SETTINGS_VARIABLE = "DOCHISTORY_SETTINGS"
LOCK_TIMEOUT = dt.timedelta(seconds=30)
_NAMES = ("HISTORY", "HISTORY.copy", "known")
"""Files of a history, one of which is left of a damaged one, too."""


Add = Callable[..., argparse.ArgumentParser]
"""Adds a command: commands, name, what runs it, help, more help, examples."""


@dataclass(frozen=True)
class Context:
    """The options of one run, and the objects that they select."""

    options: argparse.Namespace

    @property
    def json(self) -> bool:
        """Whether the output is for a program."""
        return bool(self.options.json)

    def warn(self, sentence: str) -> None:
        """Say something beside the output."""
        if not self.json:
            print(f"dochistory: note: {sentence}", file=sys.stderr)

    def check(self) -> None:
        """Refuse a settings file that is not there, also where nothing is read from it.

        Raises:
            CommandError: it is not there.
        """
        if self._named_settings and not Path(self._named_settings).exists():
            raise CommandError(f"{self._named_settings}: the settings file cannot be read, because it is not there")

    @property
    def _named_settings(self) -> str | None:
        return self.options.settings or os.environ.get(SETTINGS_VARIABLE)

    @cached_property
    def settings(self) -> Settings | None:
        """The settings file: the one given, or that of the working directory or one above; None if there is none."""
        if named := self._named_settings:
            return settings_from_toml(named)
        found = found_settings(Path.cwd())
        return settings_from_toml(found) if found else None

    @cached_property
    def place(self) -> Path | str:
        """The directory of the history, or the URL of its bucket.

        Raises:
            CommandError: no option and no settings file tells where it is.
        """
        named = self.options.history or os.environ.get(HISTORY_VARIABLE)
        if named:
            found: Path | str = str(named) if objects.is_url(named) else dh.local_path(named)
        elif self.settings and self.settings.history:
            found = self.settings.history
        else:
            raise CommandError(
                f"no history given: pass --history with a directory or a URL, set {HISTORY_VARIABLE}, or write "
                f'history = "…" in {FILE_NAME}'
            )
        # A backup may go to a bucket.
        if self.options.storage_option and isinstance(found, Path) and not objects.is_url(self._target):
            raise CommandError(
                f"--storage-option means something for a bucket only, and {found} is a directory: leave it out"
            )
        return found

    @property
    def _target(self) -> str:
        return getattr(self.options, "target", None) or ""

    @property
    def history_path(self) -> Path:
        """The directory of the history.

        Raises:
            CommandError: nothing tells where it is, or it is in a bucket.
        """
        if isinstance(self.place, Path):
            return self.place
        raise CommandError(
            f"{self.place}: `{self.options.leaf.prog}` needs a history in a directory, and this one is in a bucket: "
            "`dochistory --history URL backup DIR` makes a copy in a directory",
            code="DH-STATE",
        )

    @property
    def lock_timeout(self) -> dt.timedelta:
        """How long to wait for another writer."""
        given: dt.timedelta | None = self.options.lock_timeout
        return LOCK_TIMEOUT if given is None else given

    @cached_property
    def storage_options(self) -> dict[str, str]:
        """The options of the bucket, from `--storage-option`; the client finds the others in the environment.

        Raises:
            CommandError: one has no value, or is a secret.
        """
        return storage_options("--storage-option", self.options.storage_option or [])

    @property
    def bucket_options(self) -> dict[str, str] | None:
        """The storage options, where the history is in a bucket."""
        return self.storage_options if isinstance(self.place, str) else None

    @property
    def how_to_reach(self) -> dict[str, Any]:
        """The arguments by which a bucket is reached; none for a directory."""
        if isinstance(self.place, Path):
            return {}
        return {"storage_options": self.storage_options, "cache": os.environ.get(CACHE_VARIABLE)}

    @property
    def directory(self) -> Path:
        """The directory of the history, which is there, even if it is damaged.

        Raises:
            CommandError: it does not exist.
        """
        path = self.history_path
        if not path.exists():
            may_be_made = ", or pass --create to make one" if hasattr(self.options, "create") else ""
            raise CommandError(f"{path}: no such directory: name that of a history with --history DIR{may_be_made}")
        if not path.is_dir():
            raise _no_history(path)
        return path

    def open(self, *, read_only: bool) -> dh.History:
        """The history, which must exist: no command creates one.

        Raises:
            CommandError: it does not exist.
        """
        # What is left of a history is told of by the history itself.
        if isinstance(self.place, Path) and not any((self.directory / name).exists() for name in _NAMES):
            raise _no_history(self.place)
        return self.opened(read_only=read_only)

    @contextmanager
    def looked_at(self) -> Iterator[dh.History]:
        """The history for a look, of which there may be many: a directory is closed after it, a bucket stays open.

        Raises:
            CommandError: it does not exist.
        """
        if isinstance(self.place, Path):
            with self.open(read_only=True) as history:
                yield history
        else:
            yield self._bucket

    @cached_property
    def _bucket(self) -> dh.History:
        # Opening it fetches its files.
        return self.open(read_only=True)

    def close(self) -> None:
        """Close what stayed open."""
        if "_bucket" in self.__dict__:
            self._bucket.close()

    def opened(self, **how: Any) -> dh.History:
        """The history, wherever it is, with more arguments of `open`."""
        if isinstance(self.place, str):
            how = {**self.how_to_reach, "auto_maintain": False, **how}
        # Only `load --create` makes one.
        with nullcontext() if how.get("create") else _existing.needed():
            return dh.open(self.place, lock_timeout=self.lock_timeout, **how)

    def named(self, history: dh.History) -> list[str]:
        """The names of the selected triggers: the one of the option, or all.

        Raises:
            CommandError: the history has no trigger of that name.
        """
        return self.chosen(self._there(history))

    def _there(self, history: dh.History) -> list[str]:
        """All triggers. Where one is named, a damaged one beside it is none of its business."""
        if self.options.trigger is None:
            return history.triggers()
        return triggers_ever_used(history)

    def chosen(self, there: Iterable[str]) -> list[str]:
        """Of these triggers the one of the option, or all.

        Raises:
            CommandError: the one of the option is none of them.
        """
        names = sorted(there)
        named = self.options.trigger
        if named is None:
            return names
        if named not in names:
            raise self.no_trigger(named, names)
        return [named]

    def named_in_log(self, history: dh.History) -> str | None:
        """The trigger of the option, which the history or its audit log has to know; None without the option.

        Raises:
            CommandError: neither knows it.
        """
        name: str | None = self.options.trigger
        if name is not None:
            self.chosen({*self._there(history), *history.audit.list()["trigger"].unique().to_pylist()})
        return name

    def no_trigger(self, name: str, there: Iterable[str], where: str = "") -> CommandError:
        """The error about a name that nothing knows."""
        names = list(there)
        may_be_new = "; pass --create-trigger if it is new" if hasattr(self.options, "create_trigger") else ""
        return CommandError(
            f"{where or f'the history {self.place}'} has no trigger {name!r}; it has {known(names)}"
            f"{may_be_new}{near(name, names)}"
        )

    def described(self, name: str) -> dh.Trigger | str:
        """The trigger with its settings; its name only, if the settings file lacks it."""
        if self.settings and name in self.settings.triggers:
            return self.settings.triggers[name]
        return name

    def is_new(self, history: dh.History, name: str) -> bool:
        """Whether this is the name of a new trigger, which has to be said.

        Raises:
            CommandError: the name is unknown, and nobody said that it is new.
        """
        there = history.triggers()
        if name in there:
            return False
        described = list(self.settings.triggers) if self.settings else []
        if name not in described and not self.options.create_trigger:
            raise self.no_trigger(name, {*there, *described})
        return True

    def trigger(self, history: dh.History) -> dh.Trigger:
        """The trigger that judges the documents.

        Raises:
            CommandError: nothing says which one, or its name is unknown.
        """
        described = dict(self.settings.triggers) if self.settings else {}
        name = self.options.trigger or _only(list(described) or history.triggers())
        if self.is_new(history, name):
            self.warn(f"trigger {name} has no entries yet: every document is new to it")
        if name in described:
            if given := self._rule_options():
                raise CommandError(
                    f"{self.settings.path if self.settings else FILE_NAME} says how trigger {name} judges: "
                    f"change {', '.join(given)} there, not on the command line"
                )
            return described[name]
        rules = {**stored_settings(history, name), **self._rule_options()}
        return dh.Trigger(name, **rules)

    def _rule_options(self) -> dict[str, Any]:
        names = ("kind", "processing_mode", "in_batch", "expiry")
        return {name: value for name in names if (value := getattr(self.options, name, None)) is not None}


def storage_options(option: str, given: Iterable[str]) -> dict[str, str]:
    """The storage options of a command line.

    Raises:
        CommandError: one has no value, or is a secret.
        ConfigError: [DH-CONFIG] there is no such option.
    """
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise CommandError(f"{option} {name}: it must be NAME=VALUE, as in {option} aws_region=eu-west-1")
        if is_secret(name):
            check_name(name)
            raise CommandError(
                f"{option} {name}: other users of this machine can see command lines; set it in the environment instead"
            )
        found[name] = value
    return found


def _no_history(path: Path) -> CommandError:
    return CommandError(f"{path}: not a dochistory directory (no file HISTORY): name the directory of a history")


def _only(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    there = f" (there are {known(names)})" if names else ""
    raise CommandError(f"no trigger given: name it with --trigger NAME{there}")


def needs(options: argparse.Namespace, option: str, other: str) -> None:
    """Refuse an option that means nothing without another one.

    Raises:
        CommandError: the one is given, and the other is not.
    """
    if _is_given(options, option) and not _is_given(options, other):
        raise CommandError(f"{option} means something with {other} only: pass both or none")


def alone(options: argparse.Namespace, option: str, *others: str) -> None:
    """Refuse options that mean nothing beside this one.

    Raises:
        CommandError: it is given, and so is another one.
    """
    for other in others:
        if _is_given(options, option) and _is_given(options, other):
            raise CommandError(f"{other} means nothing with {option}: pass one of them")


def _is_given(options: argparse.Namespace, option: str) -> bool:
    return getattr(options, option.lstrip("-").replace("-", "_"), None) not in (None, False, "", [])


def trigger_option(command: argparse.ArgumentParser, help_: str = "this trigger only; all, if absent") -> None:
    """Add the option `--trigger` to a command."""
    command.add_argument("--trigger", metavar="NAME", help=help_).complete = "trigger"  # type: ignore[attr-defined]


def create_option(command: argparse.ArgumentParser) -> None:
    """Add the option `--create-trigger` to a command that may meet a new one."""
    command.add_argument("--create-trigger", action="store_true", help="the trigger may be new")


def yes_option(command: argparse.ArgumentParser, help_: str) -> None:
    """Add the option `--yes` to a command that otherwise only says what it would do."""
    command.add_argument("--yes", action="store_true", help=help_)
