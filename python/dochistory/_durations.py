"""Durations and times as users give them, in one place."""

import datetime as dt
import hashlib
import os
from pathlib import Path

import dochistory as dh
from dochistory import _native


def seconds(name: str, value: str | dt.timedelta | float, *, least: float = 0.0) -> float:
    """A duration in seconds: text ("10 minutes", "PT2H"), a timedelta, or a number of seconds.

    Raises:
        ConfigError: [DH-CONFIG] it is none, or less than `least`; the text begins with `name`.
    """
    found = _native._seconds(name, value)
    if found < least:
        raise dh.ConfigError(f"[DH-CONFIG] {name} is {found:g} s; the least is {least:g} s")
    return found


def utc_now() -> dt.datetime:
    """The present time."""
    return dt.datetime.now(dt.UTC)


def state_directory() -> Path:
    """The directory of this machine's state, which must not be lost together with a history.

    It is `$DOCHISTORY_STATE`, else `$XDG_STATE_HOME/dochistory`, else `~/.local/state/dochistory`.

    Returns:
        Path: the directory, which may not exist yet.
    """
    if named := os.environ.get("DOCHISTORY_STATE"):
        return Path(named)
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "dochistory"


def state_at(state: str | os.PathLike[str] | None) -> Path:
    """The directory of a state: the one given, or that of this machine."""
    return (Path(state) if state else state_directory()).absolute()


def file_name(*parts: str) -> str:
    """A safe file name for any texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
