"""Ids of messages, as a receiver's `id=` answers them. A damaged one is none: it stops no stream.

A message without an id is in doubt (R3), kept in the audit log and acknowledged: nothing is lost.
Where no message at all has an id, `id=` itself is wrong, and a stream must not be in doubt as a
whole: the receiver ends.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import dochistory as dh
from dochistory import _checks, _ids

_LOGGER = "dochistory.receiving"


class Ids:
    """The ids of one receiver's messages.

    Args:
        ask: the receiver's `id=`: called with what the client library delivers.
        name: called with the same; says which message it is, for a warning.

    Raises:
        ConfigError: [DH-CONFIG] `id=` is no function.
    """

    def __init__(self, ask: Callable[[Any], object], name: Callable[[Any], str]) -> None:
        _checks.function("id", ask)
        self._ask = ask
        self._name = name
        self._warned: set[str] = set()

    def of(self, delivered: Any) -> tuple[str | None, Exception | None]:
        """The id of a message.

        Args:
            delivered: what the client library delivers.

        Returns:
            str: the id; None if there is none.
            Exception: why an id that is there, or should be, could not be had; else None.
        """
        try:
            return _ids.text_of(self._ask(delivered), "the message's id"), None
        except Exception as error:  # noqa: BLE001 - `id=` may be anybody's
            self._warn(delivered, error)
            return None, error

    def _warn(self, delivered: Any, error: Exception) -> None:
        kind = type(error).__name__
        if kind in self._warned:
            return
        self._warned.add(kind)
        logging.getLogger(_LOGGER).warning(
            "message %s: its id cannot be had (%s: %s), so it counts as one without an id (R3). Others with a %s are "
            "counted (state no_id) and not warned of again",
            self._name(delivered),
            kind,
            error,
            kind,
        )


class NoneNamed:
    """Notices that no message has an id: nearly always the ids are somewhere else, or `id=` is wrong.

    Args:
        trigger: whose messages they are; it may allow that.
    """

    def __init__(self, trigger: dh.Trigger) -> None:
        self._is_over = trigger.without_ids == "in_doubt" or trigger.resolver is not None or not trigger.use_history
        self._nameless = 0

    def check(self, found: Sequence[str | None], why: Exception | None = None) -> None:
        """Messages are begun together now.

        Args:
            found: their ids.
            why: why one has none.

        Raises:
            SchemaError: [DH-SCHEMA] of these and all before, which are several, none has an id.
        """
        self._is_over = self._is_over or any(found)
        nameless = self._nameless + len(found)
        if self._is_over or nameless < 2:
            return
        reason = "" if why is None else f" ({type(why).__name__}: {why})"
        raise dh.SchemaError(
            f"[DH-SCHEMA] none of the first {nameless} messages has an id{reason}, so all would be in doubt (R3); "
            "say with id= where it is, or let their producer set one, or allow it with "
            'Trigger(without_ids="in_doubt")'
        ) from why

    def add(self, found: Sequence[str | None]) -> None:
        """They were begun; what is suspended is not, and is checked again.

        Args:
            found: their ids.
        """
        self._nameless += len(found)
