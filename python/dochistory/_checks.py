"""Checks of arguments: the same error, with a code, in every function, before anything is done."""

import datetime as dt
import operator
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import dochistory as dh


def trigger(given: Any) -> None:
    """Refuse anything but a trigger.

    Raises:
        ConfigError: [DH-CONFIG] it is something else, such as a trigger's name.
    """
    if not isinstance(given, dh.Trigger):
        raise dh.ConfigError(f"[DH-CONFIG] trigger is {given!r}; needed is a dochistory.Trigger")


def triggers(given: Any) -> "list[dh.Trigger]":
    """Triggers as a list; anything else is refused.

    Raises:
        ConfigError: [DH-CONFIG] it is something else, such as a single trigger.
    """
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise dh.ConfigError(f"[DH-CONFIG] triggers is {given!r}; allowed is an iterable of dochistory.Trigger")
    listed = list(given)
    for one in listed:
        trigger(one)
    return listed


def place(name: str, given: Any, *, may_be_open: bool = True) -> None:
    """Refuse anything that names no place of a history.

    Args:
        name: the name of the argument.
        given: the value, where it is no `History`.
        may_be_open: whether that would be allowed.

    Raises:
        ConfigError: [DH-CONFIG] it is something else, such as None.
    """
    if not isinstance(given, str | os.PathLike):
        allowed = "a path, the URL of a bucket, or a dochistory.History" if may_be_open else "a path or a bucket's URL"
        raise dh.ConfigError(f"[DH-CONFIG] {name} is {given!r}; allowed is {allowed}")


def columns(given: Any) -> None:
    """Refuse anything that cannot say which column goes by which name; None is allowed.

    Raises:
        ConfigError: [DH-CONFIG] it is no mapping, such as the name of one column, or names none.
    """
    names = isinstance(given, Mapping) and all(isinstance(name, str) and one is not None for name, one in given.items())
    if given is not None and not names:
        raise dh.ConfigError(
            f"[DH-CONFIG] columns is {given!r}; allowed is a mapping of names to columns, such as "
            "{'uuid': 'my_id'}, or None"
        )


def function(name: str, given: Any, *, optional: bool = False) -> None:
    """Refuse anything that is not callable.

    Args:
        name: the name of the argument.
        given: the value.
        optional: whether None is allowed.

    Raises:
        ConfigError: [DH-CONFIG] it cannot be called.
    """
    if callable(given) or (optional and given is None):
        return
    allowed = "a function or None" if optional else "a function"
    raise dh.ConfigError(f"[DH-CONFIG] {name} is {given!r}; allowed is {allowed}")


def count(name: str, given: Any, *, optional: bool = False, most: int | None = None) -> None:
    """Refuse anything but a whole number from 1 on.

    Args:
        name: the name of the argument.
        given: the value.
        optional: whether None is allowed.
        most: the largest one that is allowed.

    Raises:
        ConfigError: [DH-CONFIG] it is none.
    """
    is_count = isinstance(given, int) and not isinstance(given, bool) and given >= 1
    if (optional and given is None) or (is_count and (most is None or given <= most)):
        return
    allowed = "a whole number from 1 " + ("on" if most is None else f"to {most}") + (", or None" if optional else "")
    raise dh.ConfigError(f"[DH-CONFIG] {name} is {given!r}; allowed is {allowed}")


def numbers(name: str, given: Any) -> list[int]:
    """Whole numbers, each once, in order, of an Arrow column or of anything that can be iterated over.

    Args:
        name: the name of the argument.
        given: the value.

    Raises:
        ConfigError: [DH-CONFIG] it is something else, such as one number.
    """
    try:
        return sorted({operator.index(each) for each in (given.to_pylist() if hasattr(given, "to_pylist") else given)})
    except TypeError:
        raise dh.ConfigError(
            f"[DH-CONFIG] {name} is {given!r}; allowed is an Arrow array or an iterable of whole numbers"
        ) from None


def moment(name: str, given: Any) -> None:
    """Refuse anything but a datetime with a time zone.

    Args:
        name: the name of the argument.
        given: the value.

    Raises:
        ConfigError: [DH-CONFIG] it is something else.
    """
    if not isinstance(given, dt.datetime) or given.tzinfo is None:
        raise dh.ConfigError(f"[DH-CONFIG] {name} is {given!r}; allowed is a datetime with a time zone")


def texts(name: str, given: Any) -> None:
    """Refuse anything but several texts; one text is not several.

    Args:
        name: the name of the argument.
        given: the value.

    Raises:
        ConfigError: [DH-CONFIG] it is something else.
    """
    are = (
        isinstance(given, Collection)
        and not isinstance(given, str | bytes)
        and all(isinstance(each, str) for each in given)
    )
    if not are:
        raise dh.ConfigError(f"[DH-CONFIG] {name} is {given!r}; allowed is a list of text")


def application(given: Any) -> None:
    """Refuse anything that cannot name an application, under which batch numbers are stored; None is allowed.

    Raises:
        ConfigError: [DH-CONFIG] it is no text, or empty.
    """
    if given is not None and (not isinstance(given, str) or not given):
        raise dh.ConfigError(f"[DH-CONFIG] application is {given!r}; allowed is text that is not empty, or None")


def choice(name: str, given: Any, allowed: Sequence[str]) -> None:
    """Refuse a value that is not among the allowed ones.

    Raises:
        ConfigError: [DH-CONFIG] it is not.
    """
    if given not in allowed:
        raise dh.ConfigError(f"[DH-CONFIG] {name} is one of {', '.join(allowed)}, not {given!r}")
