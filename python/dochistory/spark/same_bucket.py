"""How a worker opens the history in a bucket that the driver works with.

The storage options of a call travel with its work, so that workers need no credentials of their
own. They are in no plan, no text and no error.
"""

import os
import socket
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

import dochistory as dh
from dochistory import _native, objects
from dochistory.objects.options import StorageOptions
from dochistory.objects.retries import Retries
from dochistory.spark.beside import beside

if TYPE_CHECKING:
    from dochistory import History


class Given:
    """Storage options on their way to the workers; they show nothing."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        """Take them.

        Raises:
            ConfigError: [DH-CONFIG] one makes no sense, or cannot travel.
        """
        StorageOptions(options)
        self.options = dict(options or {})
        if "credential_provider" in self.options:
            _check_travels(self.options["credential_provider"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given) and self.options == other.options

    def __hash__(self) -> int:
        return hash(frozenset(self.options))

    def __repr__(self) -> str:
        return "<storage options>" if self.options else "<no storage options>"


def _check_travels(provider: Any) -> None:
    try:
        cloudpickle.dumps(provider)
    except Exception as error:  # noqa: BLE001 - whatever it raises says the same
        refused = type(error).__name__
    else:
        return
    raise dh.ConfigError(
        f"[DH-CONFIG] storage_options: the credential_provider cannot be sent to Spark's workers ({refused}): leave it "
        "out, and give the executors credentials of their own, by their environment or their role"
    )


@dataclass(frozen=True)
class Described:
    """A pinned state as the driver knows it, so that a worker need not ask for it before it reads its files."""

    trigger: str
    identity: bytes
    """The object `HISTORY`."""
    pin: bytes
    """The pin's object."""

    @classmethod
    def of(cls, history: "History", trigger: str, snapshot: str) -> "Described | None":
        """What the driver knows of a state that it has just pinned; None for a history in a directory."""
        found = history._described(trigger, snapshot)  # noqa: SLF001 - ours
        return None if found is None else cls(trigger, *found)


@dataclass(frozen=True)
class BucketSight:
    """A history in a bucket as the driver sees it."""

    path: str
    """The URL."""
    history: str
    """The history's identity, which a copy has, too."""
    host: str
    """Where the driver runs."""
    given: Given
    cache: str | None

    @classmethod
    def of(cls, history: "History", url: str, given: Given, cache: str | None) -> "BucketSight":
        """What the driver sees now."""
        return cls(url, history.id, socket.gethostname(), given, cache)

    def open(self, **how: Any) -> "History":
        """Open the history, in a worker.

        Raises:
            ClusterError: [DH-CLUSTER] this worker finds no history there, or another one.
        """
        cache = self.cache or cache_of_machine()
        try:
            opened = dh.open(self.path, storage_options=self.given.options, cache=cache, **how)
        except dh.OpenError as error:
            raise self._not_seen("there is no history") from error
        found = opened.id
        if found != self.history:
            opened.close()
            raise self._not_seen(f"there is another history, {found}")
        return opened

    def read(self, snapshot: str, described: Described) -> "History":
        """Open a pinned state, in a worker. While its files come, the store says whether its pin is there.

        Raises:
            ClusterError: [DH-CLUSTER] as `open`.
            OpenError: [DH-OPEN] the pin was removed.
        """
        client = objects.open_client(self.path, self.given.options)
        name, cache = _pin_of(snapshot), self.cache or cache_of_machine()
        known = described.identity, described.pin
        with beside(lambda: client.get(name), Thread) as found, suppress(dh.DocHistoryError):
            opened = _native._open_described(client, described.trigger, snapshot, name, known, cache)  # noqa: SLF001
            if found() == described.pin:
                return opened
            opened.close()
        # By one request after the other: it says what is wrong.
        return self.open(read_only=True, snapshot=snapshot)

    def let_go(self, snapshot: str) -> None:
        """Remove a pin, by one request that is not repeated: the process that pinned it ends."""
        if pin := _pin_of(snapshot):
            once = Retries(attempts=1)
            objects.open_client(self.path, self.given.options, retries=once).delete(pin)

    def _not_seen(self, instead: str) -> "dh.ClusterError":
        return dh.ClusterError(
            f"[DH-CLUSTER] this worker does not find the driver's history at {self.path}: on {socket.gethostname()} "
            f"{instead}; the driver, on {self.host}, works there with history {self.history}. Do both reach the same "
            "store? Pass storage_options, or give the executors the driver's environment (AWS_ENDPOINT_URL, …)"
        )


def _pin_of(snapshot: str) -> str:
    """The object of a snapshot's pin; nothing if it needs none."""
    space, _, pin = snapshot.partition("=")
    return f"triggers/{space}/{pin}" if pin.startswith("pin-") else ""


def cache_of_machine() -> str | None:
    """A directory of this user's own on this machine, where its processes share what they fetched.

    None if there is none that nobody else can write to.
    """
    place = Path(tempfile.gettempdir()) / f"dochistory-cache-{os.getuid()}"
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return str(place) if is_own else None
