"""Numbers, times and durations of the command line, as people write them."""

import argparse
import datetime as dt
import re

import dochistory as dh
from dochistory import _durations

_EXAMPLE = "2026-11-21, '2026-11-21 09:30' (UTC), 2026-11-21T09:30:00+01:00, today or yesterday"


def positive(text: str) -> int:
    """A number from the command line, from 1 on.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 up")
    return int(text)


def moment(text: str) -> dt.datetime:
    """A point in time from the command line; in UTC where it names no zone.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    midnight = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    words = {"now": dt.datetime.now(dt.UTC), "today": midnight, "yesterday": midnight - dt.timedelta(days=1)}
    if text.lower() in words:
        return words[text.lower()]
    try:
        found = dt.datetime.fromisoformat(re.sub(r"\s*UTC$", "Z", text.strip()))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time, such as {_EXAMPLE}") from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def since(text: str) -> dt.datetime:
    """A point in time, or how long ago it was: `90m`, `'90m ago'`.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    try:
        return dt.datetime.now(dt.UTC) - duration(re.sub(r"\s+ago$", "", text.strip()))
    except (argparse.ArgumentTypeError, OverflowError):
        try:
            return moment(text)
        except argparse.ArgumentTypeError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a time, such as {_EXAMPLE}, nor how long ago it was, such as 90m or '2 days'"
            ) from None


def duration(text: str) -> dt.timedelta:
    """A duration from the command line, in every form that a time to live takes.

    Raises:
        argparse.ArgumentTypeError: it is none, or not longer than 0.
    """
    found = _length(text)
    if found <= dt.timedelta(0):
        raise argparse.ArgumentTypeError(f"{text!r} must be longer than 0")
    return found


def patience(text: str) -> dt.timedelta:
    """How long to wait, from the command line: a duration, or 0 for not at all.

    Raises:
        argparse.ArgumentTypeError: it is none, or negative.
    """
    found = dt.timedelta(0) if text.strip() == "0" else _length(text)
    if found < dt.timedelta(0):
        raise argparse.ArgumentTypeError(f"{text!r} must be 0 or longer")
    return found


def _length(text: str) -> dt.timedelta:
    """A duration, which may be 0 or negative: what is wrong with it is for the caller to say."""
    stripped = text.strip()
    try:
        length = dt.timedelta(seconds=_durations.seconds("duration", stripped.removeprefix("-")))
    except dh.ConfigError as error:
        # The library's sentence with the examples of the command line.
        reason = str(error).partition('": ')[2].rpartition("; allowed is")[0]
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a duration: {reason} (for example 90m, '15 minutes' or PT2H)"
        ) from None
    return -length if stripped.startswith("-") else length
