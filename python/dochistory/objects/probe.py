"""Checks whether processes on several machines reach one place in a store, and see there what the others stored.

One process stores an object; others read it, create objects of their own, and race for one name.
They report what they saw, and the first one compares that with what is there.
"""

import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

import dochistory as dh
from dochistory.objects.client import ObjectClient, Stored

_LANES = 16


@dataclass(frozen=True)
class Found:
    """The results of one look. An empty text means that the check passed."""

    host: str
    process: int
    trouble: str
    """What keeps it from working there: the store's refusal, or that it is another store."""
    name: str = ""
    """The object that it created, which says so."""
    create: str = ""
    winner: str = ""
    """Whose object it found under the name that all raced for."""
    has_won: bool = False
    """Whether the store told it that it was the first under that name."""
    ahead_s: float = 0.0
    """How far this machine's clock is ahead of the store's; negative where it is behind."""
    put_ms: float = 0.0
    get_ms: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The results as plain types, for transport."""
        return asdict(self)


@dataclass
class Probe:
    """The folder of one probe, and what is left of it."""

    client: ObjectClient
    nonce: str
    left: int = 0
    """How many objects could not be deleted."""

    @property
    def folder(self) -> str:
        """How the names of all objects of the probe begin."""
        return _folder(self.nonce)

    def arrived(self, looks: Iterable[Found]) -> set[str]:
        """The names of the objects that were reported and are there, listed and with their bytes.

        Raises:
            ObjectStoreError: a request failed.
        """
        listed = {one.name for one in self.client.list(self.folder)}
        reported = [self.folder + one.name for one in looks if one.name and self.folder + one.name in listed]
        with ThreadPoolExecutor(_LANES) as lanes:
            contents = lanes.map(self.client.get, reported)
        read = {name for name, content in zip(reported, contents, strict=True) if content == _content(name)}
        return {name.removeprefix(self.folder) for name in read}

    def clean(self) -> None:
        """Delete what the probe made."""
        try:
            names = [one.name for one in self.client.list(self.folder)]
        except dh.ObjectStoreError:
            names = [self.folder + _FIRST]

        def delete(name: str) -> bool:
            with suppress(dh.ObjectStoreError):
                self.client.delete(name)
                return True
            return False

        with ThreadPoolExecutor(_LANES) as lanes:
            self.left = sum(not done for done in lanes.map(delete, names))


_FIRST, _RACE = "first", "race"


@contextmanager
def probing(client: ObjectClient) -> Iterator[Probe]:
    """Store the object that others look for. Everything is deleted in the end.

    Raises:
        ObjectStoreError: this process cannot store anything there; the sentence says why.
    """
    probe = Probe(client, secrets.token_hex(8))
    client.put_new(probe.folder + _FIRST, _content(probe.folder + _FIRST))
    try:
        yield probe
    finally:
        probe.clean()


def look(client: ObjectClient, nonce: str) -> Found:
    """The results of this process, while another one is probing."""
    host, process = socket.gethostname(), os.getpid()
    try:
        return _looked(client, nonce, host, process)
    except dh.ObjectStoreError as error:
        return Found(host, process, str(error))


def _looked(client: ObjectClient, nonce: str, host: str, process: int) -> Found:
    first = _folder(nonce) + _FIRST
    started = time.perf_counter()
    there = client.get(first)
    get_ms = (time.perf_counter() - started) * 1000
    if there is None:
        return Found(host, process, "what the driver stored a moment ago is not there: this is another store or bucket")
    if there != _content(first):
        return Found(host, process, "what the driver stored a moment ago has other bytes")
    name = f"{host}-{process}-{secrets.token_hex(4)}"
    own = _folder(nonce) + name
    # Without the right to list, S3 refuses to say that a name is free.
    create = "" if client.get(own) is None else "an object was there that nobody stored"
    before, started = time.time(), time.perf_counter()
    outcome = client.put_new(own, _content(own))
    put_ms, after = (time.perf_counter() - started) * 1000, time.time()
    if outcome != "created":
        create = create or "the store says that an object exists that nobody stored"
    if client.put_new(own, b"again") != "exists" or client.get(own) != _content(own):
        create = create or "an object that exists was created again, or is not there at once"
    race = _folder(nonce) + _RACE
    has_won = client.put_new(race, own.encode()) == "created"
    winner = (client.get(race) or b"").decode(errors="replace")
    ahead_s = _ahead(before, after, client.look(own))
    return Found(host, process, "", name, create, winner, has_won, ahead_s, put_ms, get_ms)


def _folder(nonce: str) -> str:
    return f"tmp-check-{nonce}/"


def _content(name: str) -> bytes:
    return f"probe {name}".encode()


def _ahead(before: float, after: float, stored: Stored | None) -> float:
    """How far the clock that stands at `before` and `after` is ahead of the store's."""
    if stored is None:
        return 0.0
    theirs = stored.changed_us / 1e6
    # Some stores tell whole seconds only.
    return max(before - 1.0 - theirs, 0.0) + min(after - theirs, 0.0)
