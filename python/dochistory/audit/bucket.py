"""The files of an audit log in a bucket, and the turns of those who resubmit.

Only files that the newest manifest names count. A writer reads the log, puts new files, and
publishes the next manifest; where another writer's was first, all of that begins again.
"""

import itertools
import os
import random
import secrets
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Self, TypeVar

import pyarrow as pa

import dochistory as dh
from dochistory.audit import files, manifest
from dochistory.audit.chain import FOLDER, Chain, Raced, manifest_name, pause
from dochistory.audit.files import Gone, Look
from dochistory.audit.manifest import Manifest, Named
from dochistory.objects.client import ObjectClient

T = TypeVar("T")

LEASE_S = 600.0
"""How long a turn lasts that its holder does not renew, in seconds."""
_RENEWED_S = 60.0
_TRIES = 100
_CLOCK = f"{FOLDER}clock"
"""An object whose time alone counts."""

_making = threading.Lock()


def chain_of(client: ObjectClient) -> Chain:
    """What a client knows of its log. The logs of one handle share it, so that each looks for news only."""
    with _making:
        known: Chain = client.audit or Chain(client)
        client.audit = known
        return known


class Bucket:
    """The folder of an audit log below a history in a bucket.

    Args:
        client: the client of the history.
        lock_timeout: how long to wait for others, in seconds.
    """

    may_be_lost = True
    """Whether a turn can be lost while it is held."""

    def __init__(self, client: ObjectClient, lock_timeout: float) -> None:
        self.lock_timeout = lock_timeout
        self._chain = chain_of(client)
        self._state = _State()

    def alone(self, change: Callable[[], T]) -> T:
        """Look at the log and change it; again, if another writer changed it meanwhile.

        The first try goes by what is known, and the store says whether that is the newest state.

        Raises:
            LockedError: [DH-LOCKED] others were first each time, for longer than `lock_timeout`.
        """
        end = time.monotonic() + self.lock_timeout
        if not self._chain.writing.acquire(timeout=max(self.lock_timeout, 0.0)):
            raise self._locked()
        try:
            for round_ in itertools.count():
                is_known, known = self._chain.known()
                try:
                    return self._at(known if is_known and not round_ else self._chain.newest(), change)
                except (Raced, Gone):
                    if time.monotonic() >= end:
                        raise self._locked() from None
                pause(round_)
        finally:
            self._chain.writing.release()
        raise AssertionError  # the loop ends by itself only

    def steadily(self, read: Callable[[], T]) -> T:
        """Read one state, the newest; again, if files of it are removed meanwhile."""
        if self._state.is_fixed:
            return read()
        for _ in range(_TRIES):
            try:
                return self._at(self._chain.newest(), read)
            except Gone:
                continue
        raise files.too_fast(self.place(""))

    def _at(self, state: Manifest | None, work: Callable[[], T]) -> T:
        """Work on one state of the log."""
        self._state.manifest, self._state.is_fixed = state, True
        try:
            return work()
        finally:
            self._state.is_fixed = False

    def _locked(self) -> dh.LockedError:
        return dh.LockedError(
            f"[DH-LOCKED] {self.place('')}: other processes wrote to the audit log all the time, for longer than "
            f"{self.lock_timeout:g} s; nothing was recorded"
        )

    def turn(self, trigger: str) -> "Turn":
        """What is held while documents of a trigger are being resubmitted."""
        return Turn(self._chain.client, files.turn_name(trigger), self.lock_timeout)

    def place(self, name: str) -> str:
        """The URL of a file."""
        return self._chain.place(name)

    def manifest_place(self) -> str:
        """The URL of the newest manifest that is known."""
        _, known = self._chain.known()
        return self.place(manifest_name(known.number if known else 1))

    def look(self) -> Look:
        """The files that count: within a change or a read always the same."""
        newest = self._state.manifest if self._state.is_fixed else self._chain.newest()
        return Look(newest, frozenset(file.name for file in newest.files) if newest else frozenset())

    def current(self) -> Manifest:
        """The base of the next manifest, within a change."""
        return self.look().manifest or Manifest(manifest.new_id(), 0, 1, 1, ())

    def names(self) -> list[str]:
        """The names of the files that count."""
        return sorted(self.look().present)

    def noted(self) -> str | None:
        """The log's id, as recorded outside its manifests."""
        return self._chain.noted()

    def is_foreign(self, _name: str, _of: Manifest | None) -> bool:
        """Whether a file is of another log: none that a manifest names is."""
        return False

    def described(self, name: str) -> Named:
        """The manifest's entry for a file."""
        return next(file for file in self.current().files if file.name == name)

    def add(self, before: Manifest, name: str, content: bytes) -> str:
        """Within a change: store a file that only the next manifest may be the first to name; answers its name."""
        whole = f"{name}-{before.number + 1:016}-{secrets.token_hex(8)}-{zlib.crc32(content):08x}.parquet"
        self._chain.add(whole, content)
        return whole

    def publish(self, found: Manifest) -> None:
        """Within a change: make this the newest manifest.

        Raises:
            Raced: another writer's manifest was first.
        """
        self._state.manifest = self._chain.publish(found)

    def opened(self, name: str) -> Any:
        """A file, as Arrow reads it."""
        return pa.BufferReader(self._content(name, cached=True))

    def fetch(self, names: Iterable[str]) -> None:
        """Fetch files side by side that are about to be read."""
        self._chain.fetch(names)

    def content(self, name: str) -> bytes:
        """The bytes of a file, as they are stored.

        Raises:
            Gone: it does not exist any more.
        """
        return self._content(name, cached=False)

    def _content(self, name: str, *, cached: bool) -> bytes:
        content = self._chain.content(name, cached=cached)
        if content is not None:
            return content
        newest = self._chain.newest()
        for file in newest.files if newest else ():
            if file.name == name:
                raise manifest.lost(self.place(name), file)
        raise Gone(name)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files that the newest manifest does not name any more."""
        self._chain.remove(names)

    def collect(self) -> None:
        """Delete what writers left that were killed."""
        self._chain.collect()

    def set_aside(self, names: Iterable[str], where: str) -> str:
        """Keep objects that go out of use below the history; answers where."""
        folder = f"{where}/{FOLDER}"
        for name in names:
            content = self._chain.content(name, cached=False)
            if content is not None:
                self._chain.client.put(folder + name, content)
        return f"{self._chain.client.location.url}/{folder}".rstrip("/")


class _State(threading.local):
    """The state on which a thread works."""

    is_fixed = False
    manifest: Manifest | None = None


class Turn:
    """The right to resubmit documents of a trigger: an object, renewed while it is held.

    A process puts one, lists all that there are, and takes its own away again if there is another:
    of two, at least the one that lists later sees the other. Ages go by the store's clock. A holder
    that is silent for `LEASE_S` loses its turn without knowing, so nothing rests on turns that a
    record in the log or in the history does not decide again.
    """

    def __init__(self, client: ObjectClient, trigger: str, timeout: float) -> None:
        self.timeout = timeout
        self._client = client
        self._prefix = f"{FOLDER}turn-{trigger}-"
        self._name = ""
        self._process = 0
        self._stop = threading.Event()
        self._renewing: threading.Thread | None = None

    def take(self) -> None:
        """Wait for it.

        Raises:
            LockedError: [DH-LOCKED] another process held it for longer than `timeout` seconds; the
                text names it.
            ObjectStoreError: a request failed.
        """
        end = time.monotonic() + self.timeout
        for round_ in itertools.count():
            if (holder := self._tried()) is None:
                break
            if time.monotonic() >= end:
                said = self._client.get(holder) or b"another process"
                raise dh.LockedError(
                    f"[DH-LOCKED] {self._client.location.url}/{holder} has been held by {said.decode()} for longer "
                    f"than {self.timeout:g} s; what a process held that died is free {LEASE_S / 60:g} minutes later"
                )
            wait = random.uniform(0.5, 1.0) * min(0.1 * 2**round_, 2.0)  # noqa: S311
            time.sleep(min(wait, max(end - time.monotonic(), 0.0)))
        self._process, self._stop = os.getpid(), threading.Event()
        self._renewing = threading.Thread(target=self._renew, args=(self._stop,), name="dochistory turn", daemon=True)
        self._renewing.start()

    def _tried(self) -> str | None:
        """Put an object of one's own; if there is another one, remove it again, and answer the other's name."""
        self._name = f"{self._prefix}{secrets.token_hex(8)}"
        try:
            return self._other_than_own()
        except BaseException:
            # Left there, it would keep everybody out until its lease ends.
            with suppress(dh.ObjectStoreError):
                self._client.delete(self._name)
            raise

    def _other_than_own(self) -> str | None:
        self._client.put(self._name, _holder())
        listed = {one.name: one.changed_us for one in self._client.list(self._prefix, after=self._prefix)}
        now = listed.pop(self._name, None)
        if now is None:
            return self._name  # this process was so slow that another one removed it
        live = [name for name, changed in listed.items() if now - changed < LEASE_S * 1e6]
        if live:
            self._client.delete(self._name)
            return min(live)
        for name in listed:
            self._client.delete(name)
        return None

    def _renew(self, stop: threading.Event) -> None:
        while not stop.wait(_RENEWED_S):
            with suppress(dh.ObjectStoreError):  # the next one may do
                self._client.put(self._name, _holder())

    def give_back(self) -> None:
        """Release it; repeating this changes nothing."""
        if self._let_go():
            with suppress(dh.ObjectStoreError):  # it ends by itself
                self._client.delete(self._name)

    def let_go(self) -> None:
        """Release it without a request: it ends by itself."""
        self._let_go()

    def _let_go(self) -> bool:
        renewing, self._renewing = self._renewing, None
        if renewing is None or self._process != os.getpid():
            return False
        self._stop.set()
        # An object that is put again after it was deleted would stay.
        renewing.join()
        return True

    def is_taken(self) -> bool:
        """Whether any process holds it now, by the store's clock."""
        turns = self._client.list(self._prefix, after=self._prefix)
        return bool(turns) and self._now_us() - max(one.changed_us for one in turns) < LEASE_S * 1e6

    def _now_us(self) -> float:
        """The store's clock, which a new object tells; where none may be put, this machine's."""
        with suppress(dh.ObjectStoreError):
            self._client.put(_CLOCK, b"")
            if (now := self._client.look(_CLOCK)) is not None:
                return now.changed_us
        return time.time() * 1e6

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


def _holder() -> bytes:
    return f"process {os.getpid()} on {socket.gethostname()}".encode()
