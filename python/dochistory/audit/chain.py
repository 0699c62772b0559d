"""The manifests of an audit log in a bucket: a chain, as the commits of a history (`docs/object-storage.md`).

    audit/manifest-<n>.json   all files of the log at one moment: created, never changed
    audit/gate-<b>            open or closed, for the manifests of block b: never deleted

- A manifest gets its number by a create-if-absent: of two writers one has it.
- Before the first manifest of a block there is an open gate for the block. Who collects closes it
  before the first manifest of the block is deleted, the lowest block first. A closed gate never
  opens.
- A writer answers for manifest n + 1, and a reader believes n, only after it has read an open gate
  for n: the number behind n was never deleted, so nobody had it before.
- All gates of a log have one mark. Where another mark stands in one, another log was put in the
  place of this one. The manifests that this process has stored there and could not prove yet, it
  takes back: they would be a gap in that log.
"""

import random
import re
import secrets
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import dochistory as dh
from dochistory.audit import manifest
from dochistory.audit.files import too_fast
from dochistory.audit.manifest import Manifest
from dochistory.objects.client import ObjectClient

FOLDER = "audit/"
KNOWN = "known/audit"
"""The object that holds the log's id, outside of the folder."""

_BLOCK = 256
"""Manifests that share a gate."""
_OPEN, _CLOSED = b"open", b"closed"
"""What an open gate begins with; its mark and a checksum follow, but not in those of earlier builds."""
_MARKED = re.compile(rb"open ([0-9a-f]{32}) ([0-9a-f]{8})")
_IDENTITY = "HISTORY"
_AHEAD = 8
"""Newer manifests that are read one by one; if there are more, a listing is quicker."""
_TRIES = 50
_LANES = 8
"""Files that are fetched at the same time."""
_CACHED = 32 << 20
"""Bytes of files that are kept in memory."""
_MANIFEST = re.compile(re.escape(FOLDER) + r"manifest-(\d{16})\.json")
_FIRST_NAMED = re.compile(re.escape(FOLDER) + r"(?:kept|event)-.*-(\d{16})-[0-9a-f]{16}-[0-9a-f]{8}\.parquet")


class Raced(Exception):  # noqa: N818 - no error of the log's: its caller begins again
    """Another writer's manifest was first."""


class Chain:
    """The manifests of one log, as far as this process knows them. Safe to use from several threads."""

    def __init__(self, client: ObjectClient) -> None:
        self.client = client
        self.writing = threading.Lock()
        """Held by the thread that changes the log: those of one process need not race."""
        self._mutex = threading.Lock()
        self._known: Manifest | None = None
        self._is_found = False
        self._is_noted = False
        self._seen: tuple[int, bytes] | None = None
        """The newest block whose gate was open, and its mark."""
        self._unproven: dict[str, bytes] = {}
        """Own manifests that are stored, or may be, and of which no gate was read since."""
        self._highest = 0
        self._cached: OrderedDict[str, bytes] = OrderedDict()

    def place(self, name: str) -> str:
        """The URL of an object of the log."""
        return f"{self.client.location.url}/{FOLDER}{name}"

    def known(self) -> tuple[bool, Manifest | None]:
        """Whether a manifest was found before, and which; there may be newer ones."""
        with self._mutex:
            return self._is_found, self._known

    def newest(self) -> Manifest | None:
        """The newest manifest; None of a log that was never written to.

        Raises:
            CorruptError: [DH-CORRUPT] it is damaged or gone, or of another log.
            FencedError: [DH-FENCED] another log was put in the place of this one.
            ObjectStoreError: a request failed.
        """
        for round_ in range(_TRIES):
            is_found, known = self.known()
            floor = self._highest
            newest = self._followed(known) if is_found else self._listed()
            if newest is not _FAR and self._is_genuine(_number(newest)) and self._check_log(newest):
                if _number(newest) < floor:
                    raise _lost(self.place(manifest_name(floor)))
                self._accept(newest)
                return newest
            with self._mutex:
                self._is_found = False
            pause(round_)
        raise too_fast(self.place(""))

    def _accept(self, newest: Manifest | None) -> None:
        with self._mutex:
            if _number(newest) >= self._highest:
                self._known, self._is_found, self._highest = newest, True, _number(newest)

    def _followed(self, known: Manifest | None) -> Manifest | None:
        """The last of the manifests behind one; `_FAR` if there are many."""
        for _ in range(_AHEAD):
            behind = self._read(_number(known) + 1)
            if behind is None:
                return known
            known = behind
        return _FAR

    def _listed(self) -> Manifest | None:
        """The manifest with the highest number, by a listing, and what follows it."""
        numbers = self._numbers()
        found = self._read(max(numbers)) if numbers else None
        if numbers and found is None:
            return _FAR  # collected since
        return self._followed(found)

    def _read(self, number: int) -> Manifest | None:
        name = manifest_name(number)
        content = self.client.get(FOLDER + name)
        return None if content is None else manifest.decoded(self.place(name), content)

    def _check_log(self, newest: Manifest | None) -> bool:
        """Compare the log's id with the one that is recorded outside of its folder; whether what was found may be."""
        if self._is_noted:
            return True
        noted = self.noted()
        if noted is None:
            return True
        if newest is None:
            # The first ones may have come between both looks.
            if self._numbers():
                return False
            raise dh.CorruptError(f"[DH-CORRUPT] {self.place('')}: the manifest of the audit log here is lost")
        if newest.log != noted:
            known = f"{self.client.location.url}/{KNOWN}"
            raise dh.CorruptError(
                f"[DH-CORRUPT] {self.place('')}: this is not the audit log that {known} names: restore that one"
            )
        self._is_noted = True
        return True

    def _numbers(self) -> list[int]:
        """The numbers of the manifests that are listed."""
        listed = self.client.list(f"{FOLDER}manifest-", after=f"{FOLDER}manifest-")
        return [int(match[1]) for one in listed if (match := _MANIFEST.fullmatch(one.name))]

    def noted(self) -> str | None:
        """The log's id, as recorded outside of its folder."""
        found = self.client.get(KNOWN)
        return None if found is None else found.decode(errors="replace")

    def _is_genuine(self, number: int) -> bool:
        """Whether a manifest that was read counts, and the number behind it was never deleted.

        What this process could not prove is taken back where another log stands.
        """
        with self._mutex:
            before = [*self._unproven]
        try:
            is_genuine = self._is_behind_an_open_gate(number)
        except dh.FencedError:
            self._take_back()
            raise
        with self._mutex:
            for name in before:
                self._unproven.pop(name, None)
        return is_genuine

    def _take_back(self) -> None:
        """Delete the manifests that this process could not prove."""
        with self._mutex:
            unproven = {**self._unproven}
        for name, content in unproven.items():
            if self.client.get(name) == content:
                self.client.delete(name)
            with self._mutex:
                self._unproven.pop(name, None)

    def _is_behind_an_open_gate(self, number: int) -> bool:
        name = gate_name(_block_of(number))
        gate = self.client.get(FOLDER + name)
        if gate is None and number:
            # A log that was made again has none yet, and no such manifest either.
            if self.client.get(_IDENTITY) is not None and self.client.get(FOLDER + manifest_name(number)) is None:
                raise self._replaced(name)
            raise _lost(self.place(name))
        if gate is None:
            return True
        if gate == _CLOSED:
            return False
        if (mark := _mark_of(gate)) is None:
            raise dh.CorruptError(f"[DH-CORRUPT] {self.place(name)}: neither open nor closed: restore it")
        self._compare(_block_of(number), name, mark)
        return True

    def _compare(self, block: int, name: str, mark: bytes) -> None:
        """Refuse a gate that is not of the log that this process knows."""
        with self._mutex:
            seen = self._seen
            # The gates of earlier builds have none, also where later ones of the same log have.
            if seen and mark != seen[1] and (block == seen[0] or (seen[1] and mark)):
                raise self._replaced(name)
            if seen is None or block > seen[0]:
                self._seen = block, mark

    def _replaced(self, name: str) -> dh.FencedError:
        return dh.FencedError(
            f"[DH-FENCED] {self.place(name)}: another audit log was put in the place of the one that this handle has "
            "open: its history was made again, or a copy was restored; nothing was acknowledged, so open it again"
        )

    def _open_block(self, number: int) -> None:
        """Make the gate of the block that a manifest opens, if it is not there."""
        if number > 1:
            # One with the mark of another log would fence those who have that one open.
            self._is_genuine(number - 1)
        mark = self._seen[1] if self._seen and number > 1 else b""
        self.client.put_new(FOLDER + gate_name(_block_of(number)), _open_gate(mark or secrets.token_hex(16).encode()))

    def publish(self, found: Manifest) -> Manifest:
        """Make this the newest manifest, behind the one of its number; answers it as it counts.

        Raises:
            Raced: another one was first.
            FencedError: [DH-FENCED] another log was put in the place of this one.
            ObjectStoreError: a request failed: nobody knows yet whether it counts.
        """
        number = found.number + 1
        found = replace(found, number=number, dropped=())
        opens_block = number == 1 or _block_of(number) > _block_of(number - 1)
        name = FOLDER + manifest_name(number)
        content = manifest.encoded(found, mark=secrets.token_hex(16))
        try:
            if opens_block:
                self._open_block(number)
            is_there = self._put(name, content)
            is_genuine = self._is_genuine(number - 1)
        except dh.FencedError:
            self.remove(_first_named_by(found))
            raise
        if not is_genuine:
            self._check_counted(found)
        elif not is_there:
            self.remove(_first_named_by(found))
            raise Raced(name)
        if not self._is_noted:
            # Nothing that the manifest names is acknowledged before.
            self.client.put_new(KNOWN, found.log.encode())
            self._check_log(found)
        with self._mutex:
            if number > self._highest:
                self._known, self._is_found, self._highest = found, True, number
        if opens_block and number > 1:
            with suppress(dh.DocHistoryError):  # what is left, the next block's first writer deletes
                self.collect()
        return found

    def _put(self, name: str, content: bytes) -> bool:
        """Store a manifest; whether it is there, rather than another one."""
        is_there = True  # perhaps, where a request fails
        try:
            # A request that was executed twice is told that its own object is in the way.
            is_there = self.client.put_new(name, content) == "created" or self.client.get(name) == content
        finally:
            if is_there:
                with self._mutex:
                    self._unproven[name] = content
        return is_there

    def _check_counted(self, found: Manifest) -> None:
        """A collector has passed: the manifest counted before, or never."""
        with self._mutex:
            self._is_found = False
        newest = self.newest()
        own = set(_first_named_by(found))
        if not own or newest is None or not own <= {file.name for file in newest.files}:
            raise Raced(manifest_name(found.number))

    def content(self, name: str, *, cached: bool = True) -> bytes | None:
        """The bytes of a file; None if it is not there."""
        with self._mutex:
            if cached and (known := self._cached.get(name)) is not None:
                self._cached.move_to_end(name)
                return known
        content = self.client.get(FOLDER + name)
        if content is not None:
            self._keep(name, content)
        return content

    def fetch(self, names: Iterable[str]) -> None:
        """Keep files in memory that are about to be read, as many as there is room for."""
        with self._mutex:
            sizes = {file.name: file.bytes for file in self._known.files} if self._known else {}
            wanted, room = [], _CACHED
            for name in names:
                room -= sizes.get(name, 0)
                if name not in self._cached and room >= 0:
                    wanted.append(name)
        if len(wanted) > 1:
            with ThreadPoolExecutor(min(_LANES, len(wanted)), thread_name_prefix="dochistory audit") as pool:
                list(pool.map(self.content, wanted))

    def add(self, name: str, content: bytes) -> None:
        """Store a file that no manifest names yet."""
        self.client.put(FOLDER + name, content)
        self._keep(name, content)

    def _keep(self, name: str, content: bytes) -> None:
        if len(content) > _CACHED // 4:
            return
        with self._mutex:
            self._cached[name] = content
            while sum(map(len, self._cached.values())) > _CACHED:
                self._cached.popitem(last=False)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files that no manifest names any more; what cannot be deleted now is collected later."""
        for name in names:
            with self._mutex:
                self._cached.pop(name, None)
            with suppress(dh.ObjectStoreError):
                self.client.delete(FOLDER + name)

    def collect(self) -> None:
        """Delete the manifests of earlier blocks, and files that no manifest names, nor can name any more.

        Raises:
            ObjectStoreError: a request failed.
        """
        newest = self.newest()
        if newest is None:
            return
        listed = [one.name for one in self.client.list(FOLDER)]
        named = {FOLDER + file.name for file in newest.files}
        for name in listed:
            match = _FIRST_NAMED.fullmatch(name)
            if match and name not in named and _is_decided(int(match[1]), newest):
                self.client.delete(name)
        earlier = sorted(int(match[1]) for name in listed if (match := _MANIFEST.fullmatch(name)))
        earlier = [number for number in earlier if _block_of(number) < _block_of(newest.number)]
        if not earlier:
            return
        self._close(_block_of(earlier[-1]))
        for number in earlier:
            self.client.delete(FOLDER + manifest_name(number))

    def _close(self, block: int) -> None:
        """Close the gates up to that of a block, the lowest first."""
        lowest = block
        while lowest and self.client.get(FOLDER + gate_name(lowest - 1)) != _CLOSED:
            lowest -= 1
        for one in range(lowest, block + 1):
            self.client.put(FOLDER + gate_name(one), _CLOSED)


_FAR = Manifest("", -1, 0, 0, ())
"""Stands for a manifest that has to be looked for."""


def _is_decided(number: int, newest: Manifest) -> bool:
    """Whether no manifest can be the first any more to name a file: only the one of the number in its name could."""
    return number <= newest.number


def _first_named_by(found: Manifest) -> list[str]:
    """The files that a manifest names and none before it can."""
    names = [file.name for file in found.files]
    return [
        name for name in names if (match := _FIRST_NAMED.fullmatch(FOLDER + name)) and int(match[1]) == found.number
    ]


def manifest_name(number: int) -> str:
    """The name of a manifest."""
    return f"manifest-{number:016}.json"


def gate_name(block: int) -> str:
    """The name of a gate."""
    return f"gate-{block:016}"


def _open_gate(mark: bytes) -> bytes:
    return b"open %s %08x" % (mark, zlib.crc32(mark))


def _mark_of(gate: bytes) -> bytes | None:
    """The mark of an open gate; nothing of an earlier build's, None if it is damaged."""
    if gate == _OPEN:
        return b""
    match = _MARKED.fullmatch(gate)
    return match[1] if match and int(match[2], 16) == zlib.crc32(match[1]) else None


def _block_of(number: int) -> int:
    """The block of a manifest; numbers begin at 1."""
    return max(number - 1, 0) // _BLOCK


def _number(found: Manifest | None) -> int:
    return found.number if found else 0


def pause(round_: int) -> None:
    """Let others come first, longer each time."""
    time.sleep(random.uniform(0.2, 1.0) * min(0.01 * 2**round_, 0.5))  # noqa: S311


def _lost(place: str) -> dh.CorruptError:
    return dh.CorruptError(
        f"[DH-CORRUPT] {place}: this object is missing, although there were manifests behind it: was it deleted by "
        "hand, or by a lifecycle rule? restore it, or an older version of it"
    )
