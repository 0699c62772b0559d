"""Triggers' settings in a file, `dochistory.toml`.

```toml
history = "orders.history"          # optional: the history of these triggers, relative to this file

[defaults]                          # optional: settings of every trigger that does not set them itself
suspend_and_retry_on_error = false

[triggers.orders]
kind = "messaging"
history_time_to_live = "30 days"    # as it is without any words
resolver = "shop.resolvers:orders"  # a function of an installed module; it is imported when the file is read
```

The settings of a trigger are those of `dochistory.Trigger`, under the same names and with the same
defaults. Any error in a file is a `ConfigError` that begins with the file and the line.
"""

import datetime as dt
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory import objects

__all__ = [
    "FILE_NAME",
    "SETTINGS",
    "Settings",
    "found_settings",
    "settings_from_toml",
    "stored_settings",
    "trigger_from_text",
    "triggers_from_toml",
]

FILE_NAME = "dochistory.toml"
"""The name under which the command line looks for a file of settings."""

_BOOLEAN, _TEXT, _INTEGER, _DURATION = (bool,), (str,), (int,), (str, int, float)

_KINDS: dict[type, tuple[type, ...]] = {bool: _BOOLEAN, int: _INTEGER, dt.timedelta: _DURATION}

_TYPES = {name: _KINDS.get(type(getattr(dh.Trigger("any"), name)), _TEXT) for name in dh.Trigger.FIELDS[1:]}
"""The types that a setting has in a file: those of its default."""

_TYPES["max_redelivery_count"] = _INTEGER

SETTINGS = frozenset(_TYPES)
"""The names of a trigger's settings, without `name`."""

_STORED = ("kind", "history_time_to_live")

_NAMES = {bool: "true or false", str: "text in quotes", int: "a whole number", float: "a number of seconds"}


def stored_settings(history: dh.History, trigger: str) -> dict[str, Any]:
    """The stored settings of a trigger.

    Args:
        history: the history.
        trigger: the trigger's name.

    Returns:
        dict: `kind` and `history_time_to_live`, for `Trigger`; empty if the history has none.
    """
    # As a trigger: one that is about to begin is no mistake.
    found: Mapping[str, Any] = history.stats(dh.Trigger(trigger))
    return {name: found[name] for name in _STORED if found[name]}


@dataclass(frozen=True)
class Settings:
    """The content of a settings file."""

    path: Path
    """The file."""
    history: Path | str | None = None
    """The directory of the history, or the URL of its bucket; None if the file names none."""
    triggers: Mapping[str, dh.Trigger] = field(default_factory=dict)
    """The triggers by name, in the order of the file."""


def triggers_from_toml(path: str | os.PathLike[str]) -> dict[str, dh.Trigger]:
    """The triggers of a settings file, by name; the module's text shows such a file.

    Args:
        path: the file.

    Returns:
        dict: name -> trigger.

    Raises:
        ConfigError: [DH-CONFIG] the file does not exist, cannot be read, is no TOML, or has an
            invalid setting. The text begins with the file and the line.
    """
    return dict(settings_from_toml(path).triggers)


def settings_from_toml(path: str | os.PathLike[str]) -> Settings:
    """The content of a settings file: its triggers, and where their history is.

    Args:
        path: the file.

    Returns:
        Settings: the triggers by name, and where their history is.

    Raises:
        ConfigError: [DH-CONFIG] as `triggers_from_toml`.
    """
    file = _File(Path(path))
    content = file.content
    file.check_names((), content, {"history", "defaults", "triggers"})
    history = content.get("history")
    file.check_type(("history",), history, _TEXT)
    defaults = file.table(("defaults",))
    file.check_settings(("defaults",), defaults)
    triggers = {}
    for name in file.table(("triggers",)):
        settings = file.table(("triggers", name))
        file.check_settings(("triggers", name), settings)
        triggers[name] = file.trigger(name, defaults, settings)
    return Settings(file.path, None if history is None else _place(file.path.parent, history), triggers)


def _place(directory: Path, history: str) -> Path | str:
    return history if objects.is_url(history) else dh.local_path(directory / history)


def found_settings(directory: Path) -> Path | None:
    """The settings file of a directory: the nearest `dochistory.toml`, there or in a directory above.

    A file above the directory counts only if it belongs to this user or to root and not everybody
    may write there, because a settings file names functions that are imported.

    Args:
        directory: where to begin.

    Returns:
        Path: the file; None if there is none.
    """
    here = directory.resolve()
    if (here / FILE_NAME).is_file():
        return Path(FILE_NAME) if here == Path.cwd() else here / FILE_NAME
    for above in here.parents:
        found = above / FILE_NAME
        if found.is_file() and _is_own(found) and _is_own(above):
            return found
    return None


def _is_own(path: Path) -> bool:
    about = path.stat()
    return about.st_uid in (0, os.geteuid()) and not about.st_mode & stat.S_IWOTH


def trigger_from_text(name: str, settings: Mapping[str, str]) -> dh.Trigger:
    """A trigger with settings given as text, for example by options and environment variables.

    Args:
        name: the trigger's name.
        settings: its settings, under their names in a settings file: `true` and `false`, whole
            numbers, anything else as it is.

    Returns:
        dh.Trigger: the trigger.

    Raises:
        ConfigError: [DH-CONFIG] a setting is invalid. The text names it.
    """
    read: dict[str, Any] = {}
    for setting, text in settings.items():
        if setting not in _TYPES:
            raise dh.ConfigError(f"[DH-CONFIG] unknown setting {setting!r}; there are {', '.join(sorted(_TYPES))}")
        read[setting] = _of_text(setting, text)
    try:
        return dh.Trigger(name, **read)
    except (dh.ConfigError, TypeError, ValueError, OverflowError) as error:
        kind = _kind(read)
        refused = (one for one, value in read.items() if one != "resolver" and not _is_accepted(one, value, kind))
        culprit = next(refused, "")
        raise dh.ConfigError(f"[DH-CONFIG] {culprit + ': ' if culprit else ''}{_bare(error)}") from error


def _of_text(setting: str, text: str) -> Any:
    types = _TYPES[setting]
    if setting == "resolver":
        try:
            return resolver_named(text)
        except ValueError as error:
            raise dh.ConfigError(f"[DH-CONFIG] {error}") from error.__cause__
    if types == _BOOLEAN and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if types == _INTEGER and re.fullmatch(r"-?\d+", text):
        return int(text)
    if types == _DURATION and re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if str in types:
        return text
    raise dh.ConfigError(f'[DH-CONFIG] {setting} is "{text}"; it must be {_NAMES[types[0]]}')


def resolver_named(spelt: str) -> Callable[..., Any]:
    """The function that `module:function` names.

    Raises:
        ValueError: it is misspelt, cannot be imported, or is no function.
    """
    module, colon, name = spelt.partition(":")
    if not (module and colon and name):
        raise ValueError(f'resolver is "{spelt}"; it must be "module:function"')
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # the module is the user's, and may raise anything
        raise ValueError(f'resolver "{spelt}" cannot be imported: {error}') from error
    if not callable(found):
        said = f'resolver "{spelt}" is a {type(found).__name__}; it must be a function'
        raise ValueError(said)  # noqa: TRY004 - it is the setting that is wrong
    made: Callable[..., Any] = found
    return made


_Place = tuple[str, ...]


class _File:
    """A settings file, with the lines of its settings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # TOML does not allow a byte order mark, but editors write one.
            self._text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise dh.ConfigError(
                f"[DH-CONFIG] {path}: the settings file cannot be read: {error.strerror or error}"
            ) from error
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise dh.ConfigError(f"[DH-CONFIG] {path}:{line}: this is not UTF-8: save the file as UTF-8") from error
        try:
            self.content: dict[str, Any] = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            raise self._syntax(error) from error

    def _syntax(self, error: Exception) -> dh.ConfigError:
        said = str(error)
        at = re.search(r" \(at line (\d+), column (\d+)\)$", said)
        line = int(at[1]) if at else self._text.count("\n") + 1
        return dh.ConfigError(f"[DH-CONFIG] {self.path}:{line}: not TOML: {said[: at.start()] if at else said}")

    def error(self, place: _Place, sentence: str) -> dh.ConfigError:
        return dh.ConfigError(f"[DH-CONFIG] {self.path}:{self.line(place)}: {sentence}")

    def line(self, place: _Place) -> int:
        """The number of the line where the statement begins that sets `place`.

        A statement ends with the first line up to which the file is TOML that has the place. It
        begins after the last earlier line up to which the file is TOML. That holds for every
        notation of TOML, and takes time only if there is an error to report.
        """
        lines = self._text.split("\n")
        begins = 1
        for count in range(1, len(lines) + 1):
            try:
                content = tomllib.loads("\n".join(lines[:count]))
            except tomllib.TOMLDecodeError:
                continue
            if _has(content, place):
                return begins
            begins = count + 1
        return 1

    def table(self, place: _Place) -> dict[str, Any]:
        found: Any = self.content
        for name in place:
            found = found.get(name, {})
        if not isinstance(found, dict):
            raise self.error(place, f"{'.'.join(place)} is {found!r}: it must be a table, as in [{'.'.join(place)}]")
        return found

    def check_names(self, place: _Place, table: Mapping[str, Any], allowed: set[str]) -> None:
        for name in table:
            if name not in allowed:
                raise self.error((*place, name), f"unknown setting {name!r}; there are {', '.join(sorted(allowed))}")

    def check_type(self, place: _Place, value: Any, types: tuple[type, ...]) -> None:
        # In Python true is a whole number; in a settings file it is a mistake.
        if value is None or type(value) in types:
            return
        wanted = " or ".join(_NAMES[type_] for type_ in types if not (type_ is int and float in types))
        raise self.error(place, f"{place[-1]} is {_shown(value)}; it must be {wanted}")

    def check_settings(self, place: _Place, table: Mapping[str, Any]) -> None:
        self.check_names(place, table, set(_TYPES))
        for name, value in table.items():
            self.check_type((*place, name), value, _TYPES[name])

    def trigger(self, name: str, defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> dh.Trigger:
        kind = _kind({**defaults, **settings})
        merged = {**{one: value for one, value in defaults.items() if not _is_foreign(one, value, kind)}, **settings}
        if "resolver" in merged:
            place = ("triggers", name, "resolver") if "resolver" in settings else ("defaults", "resolver")
            merged["resolver"] = self._resolver(place, merged["resolver"])
        try:
            return dh.Trigger(name, **merged)
        except (dh.ConfigError, TypeError, ValueError, OverflowError) as error:
            raise self.error(self._culprit(name, defaults, settings), _bare(error)) from error

    def _culprit(self, name: str, defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> _Place:
        """The place of the setting that a trigger refuses; the trigger itself, if it is not a single one."""
        for table, place in ((settings, ("triggers", name)), (defaults, ("defaults",))):
            for setting, value in table.items():
                if setting != "resolver" and not _is_accepted(setting, value, _kind({**defaults, **settings})):
                    return (*place, setting)
        return ("triggers", name)

    def _resolver(self, place: _Place, spelt: str) -> Callable[..., Any]:
        try:
            return resolver_named(spelt)
        except ValueError as error:
            raise self.error(place, str(error)) from error.__cause__


def _has(content: Any, place: _Place) -> bool:
    for name in place:
        if not isinstance(content, dict) or name not in content:
            return False
        content = content[name]
    return True


def _kind(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The setting `kind`, which decides what other settings there are; nothing if it is absent or wrong."""
    kind = settings.get("kind")
    return {} if kind is None or not _is_accepted("kind", kind, {}) else {"kind": kind}


def _is_foreign(setting: str, value: Any, kind: Mapping[str, Any]) -> bool:
    """Whether only triggers of another kind accept this setting: a default for those is none for this one."""
    if setting in ("kind", "resolver") or _is_accepted(setting, value, kind):
        return False
    return any(_is_accepted(setting, value, {"kind": other}) for other in ("messaging", "jms"))


def _is_accepted(setting: str, value: Any, kind: Mapping[str, Any]) -> bool:
    alone: dict[str, Any] = {**kind, setting: value}
    try:
        dh.Trigger("one", **alone)
    except (dh.ConfigError, TypeError, ValueError, OverflowError):
        return False
    return True


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _bare(error: Exception) -> str:
    """The text of an error, without its code, because another error adds one."""
    return re.sub(r"^\[DH-\w+\] ", "", str(error))
