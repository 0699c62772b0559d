"""Whether a store keeps the promises that a history rests on.

Every round is watched from outside: each request is sent once, and an answer counts only for what
the store itself said.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import dochistory as dh
from dochistory.checks import Check
from dochistory.objects.client import AttemptError, ObjectClient

ROUNDS = 20
CREATORS = 32
_QUICK_ROUNDS = 4
_QUICK_CREATORS = 16
_TRIES = 10
"""Number of objects in each of the other checks."""
SKEW_NOTE_S = 60.0
SKEW_WRONG_S = 300.0


@dataclass
class Report:
    """What a check found."""

    url: str
    checks: list[Check] = field(default_factory=list)
    latencies_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of each kind of request: how many, their median and the worst."""

    @property
    def keeps_promises(self) -> bool:
        """Whether a history may lie there."""
        return all(check.result != "wrong" for check in self.checks)


def check(client: ObjectClient, *, rounds: int = ROUNDS, creators: int = CREATORS) -> Report:
    """Try everything that a history rests on, in a folder of its own, which is removed.

    Args:
        client: the place; nothing outside of a new folder below it is touched.
        rounds: number of races.
        creators: number of writers in each race.

    Raises:
        ObjectStoreError: the store cannot be used at all; the sentence says why.
    """
    probe = _Probe(client)
    with probe.cleaned():
        # The first request: what is wrong with bucket, credentials or region shows here, and is raised.
        client.put(probe.name("first"), b"first")
        probe.report.checks += [
            _race(probe, rounds, creators),
            _read_after_write(probe),
            _list_after_write(probe),
            _deleted_then_created(probe),
            _ranges(probe),
            _missing(probe),
            _clock(probe),
        ]
    if probe.left:
        probe.report.checks.append(Check("tidy", "note", f"{probe.left} objects of the check could not be deleted"))
    probe.report.latencies_ms = probe.latencies()
    return probe.report


def quick_check(client: ObjectClient) -> None:
    """A short form of `check`, for the making of a history: some ten round trips.

    Raises:
        ObjectStoreError: [DH-STORE] the store lies; or it cannot be used.
    """
    probe = _Probe(client)
    with probe.cleaned():
        client.put(probe.name("first"), b"first")
        found = [
            _race(probe, _QUICK_ROUNDS, _QUICK_CREATORS),
            _read_after_write(probe, 1),
            _list_after_write(probe, 1),
            _deleted_then_created(probe, 1),
        ]
    if wrong := [one for one in found if one.result == "wrong"]:
        said = "; ".join(f"{one.name}: {one.found}" for one in wrong)
        raise dh.ObjectStoreError(
            f"[DH-STORE] {client.location.url}: this store does not keep what a history rests on: {said}; nothing was "
            f"made: `dochistory check {client.location.url}` says more, and another store may do"
        )


class _Probe:
    """The folder of one check, and how long each request took."""

    def __init__(self, client: ObjectClient) -> None:
        self.client = client
        self.report = Report(client.location.url)
        self.left = 0
        self._folder = f"tmp-check-{secrets.token_hex(8)}/"
        self._names: set[str] = set()
        self._took: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def name(self, own: str) -> str:
        """The whole name of an object of the check."""
        name = self._folder + own
        with self._lock:
            self._names.add(name)
        return name

    def folder(self, own: str) -> str:
        """How the names of some objects of the check begin."""
        return self._folder + own

    def timed(self, kind: str, request: Callable[..., Any], *arguments: Any) -> Any:
        """Send a request; its time counts if it succeeds."""
        started = time.perf_counter()
        answer = request(*arguments)
        took = (time.perf_counter() - started) * 1000
        with self._lock:
            self._took.setdefault(kind, []).append(took)
        return answer

    def latencies(self) -> dict[str, dict[str, float]]:
        """Number, median and maximum of each kind's times."""
        return {
            kind: {"count": len(took), "median": round(median(took), 3), "worst": round(max(took), 3)}
            for kind, took in sorted(self._took.items())
        }

    @contextmanager
    def cleaned(self) -> Iterator[None]:
        """Delete the objects at the end."""
        try:
            yield
        finally:
            for name in sorted(self._names):
                try:
                    self.client.delete(name)
                except dh.ObjectStoreError:
                    self.left += 1
                    if self.left == 3:  # the store is gone
                        self.left = len(self._names)
                        break


def _race(probe: _Probe, rounds: int, creators: int) -> Check:
    """Many create one name at the same time: one succeeds, the others hear that it exists, and its bytes are there."""
    name = f"{rounds} rounds of {creators} racing creators"
    failed = decided = 0
    for number in range(rounds):
        place = probe.name(f"race-{number}")
        outcomes = _raced(probe, place, creators)
        winners = [one for one, outcome in enumerate(outcomes) if outcome == "created"]
        if len(winners) > 1:
            return Check(
                name,
                "wrong",
                f"in round {number + 1}, {len(winners)} of them created the same object: two "
                "writers would both be told that they are the first",
            )
        failed += "failed" in outcomes
        decided += bool(winners)
        there = probe.client.get(place)
        if winners and there != _content(winners[0]):
            return Check(name, "wrong", f"in round {number + 1}, the object of the one that created it was replaced")
        if not winners and "failed" not in outcomes:
            return Check(name, "wrong", f"in round {number + 1}, nobody created the object, and nobody was told why")
        if _raced(probe, place, 1) == ["created"]:
            return Check(name, "wrong", f"after round {number + 1}, an object that exists was created again")
    if not decided:
        return Check(
            name, "wrong", "in every round all requests failed: the store refuses that number of requests at a time"
        )
    more = f"; in {failed} rounds some requests failed" if failed else ""
    return Check(name, "ok", f"exactly one created each object{more}")


def _content(creator: int) -> bytes:
    return f"creator {creator}".encode()


def _raced(probe: _Probe, place: str, creators: int) -> Sequence[str]:
    """What each creator heard: created, exists or failed."""
    outcomes = ["failed"] * creators
    start = threading.Barrier(creators)

    def create(one: int) -> None:
        start.wait()
        with suppress(AttemptError):
            outcomes[one] = probe.timed("create", probe.client.put_new_once, place, _content(one))

    threads = [threading.Thread(target=create, args=(one,)) for one in range(creators)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _read_after_write(probe: _Probe, tries: int = _TRIES) -> Check:
    """What was stored is read at once, also where nothing was read a moment before."""
    name = "read after write"
    for number in range(tries):
        place = probe.name(f"read-{number}")
        if probe.client.get(place) is not None:
            return Check(name, "wrong", "an object was there that nobody stored")
        content = secrets.token_bytes(1024)
        probe.timed("put", probe.client.put, place, content)
        if probe.timed("get", probe.client.get, place) != content:
            return Check(name, "wrong", "an object that was stored is not there yet, or has other bytes")
    return Check(name, "ok", f"{tries} objects were read as they were stored")


def _list_after_write(probe: _Probe, tries: int = _TRIES) -> Check:
    name = "list after write"
    for number in range(tries):
        probe.client.put(probe.name(f"list/{number}"), b"x" * (number + 1))
        listed = probe.timed("list", probe.client.list, probe.folder("list/"))
        expected = {probe.folder(f"list/{one}"): one + 1 for one in range(number + 1)}
        if {one.name: one.size for one in listed} != expected:
            return Check(
                name,
                "wrong",
                f"after {number + 1} objects were stored, the list has {len(listed)}, or wrong "
                "sizes: garbage collection and repair would go by a wrong list",
            )
    return Check(name, "ok", f"each of {tries} objects was listed at once, with its size")


def _deleted_then_created(probe: _Probe, tries: int = _TRIES) -> Check:
    name = "delete, then create"
    for number in range(tries):
        place = probe.name(f"again-{number}")
        first, second = secrets.token_bytes(16), secrets.token_bytes(16)
        probe.client.put_new(place, first)
        probe.timed("delete", probe.client.delete, place)
        if probe.client.get(place) is not None or probe.client.list(place):
            return Check(
                name,
                "wrong",
                "an object that was deleted is still read or listed: the bucket may keep versions, or caches answers",
            )
        if probe.client.put_new(place, second) != "created" or probe.client.get(place) != second:
            return Check(name, "wrong", "a name that was deleted cannot be used again")
    return Check(name, "ok", f"{tries} objects were gone at once, and their names free")


def _ranges(probe: _Probe) -> Check:
    name = "read of a part"
    place, content = probe.name("range"), secrets.token_bytes(100_000)
    probe.client.put(place, content)
    for start, length in ((0, 10), (50_000, 1000), (99_990, 10), (99_990, 1000)):
        part = probe.timed("get range", probe.client.get_range, place, start, length)
        if part != content[start : start + length]:
            return Check(name, "wrong", f"{length} bytes from {start} on are not what was stored there")
    return Check(name, "ok", "parts have the bytes that were stored there")


def _missing(probe: _Probe) -> Check:
    name = "a name that is not there"
    try:
        found = probe.client.get(probe.folder("never"))
    except dh.ObjectStoreError as error:
        return Check(name, "wrong", str(error).partition("] ")[2])
    if found is not None:
        return Check(name, "wrong", "the store answers bytes that nobody stored")
    return Check(name, "ok", "the store says that there is no such object")


def _clock(probe: _Probe) -> Check:
    name = "clock"
    place = probe.name("clock")
    before = time.time()
    probe.client.put(place, b"clock")
    after = time.time()
    stored = probe.client.look(place)
    if stored is None:
        return Check(name, "wrong", "an object that was stored a moment ago is not there")
    theirs = stored.changed_us / 1e6
    # Some stores tell whole seconds only.
    apart = max(before - 1.0 - theirs, theirs - after, 0.0)
    if apart <= SKEW_NOTE_S:
        return Check(
            name, "ok", f"this machine's clock and the store's differ by less than {max(1.0, apart + 1):.0f} s"
        )
    result: Literal["note", "wrong"] = "wrong" if apart > SKEW_WRONG_S else "note"
    said = (
        f"this machine's clock and the store's are {apart:.0f} s apart: set this machine's clock (NTP); leases and the "
        "grace of garbage collection go by it"
    )
    return Check(name, result, said)
