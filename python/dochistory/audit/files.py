"""The files of an audit log in a directory: those that its manifest names, and complete ones that none names yet.

`bucket.Bucket` is the same for a bucket, where only named files count.
"""

import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

import dochistory as dh
from dochistory import _files
from dochistory.audit import manifest
from dochistory.audit.manifest import Manifest, Named

Kind = Literal["decided", "resubmission", "outcome"]

T = TypeVar("T")

# In a bucket, a name also has the number of the manifest that is the first to name it, and a random number.
_END = r"(?:-\d{16}-[0-9a-f]{16})?-[0-9a-f]{8}\.parquet"
KEPT = re.compile(r"kept-(\d{16})-(\d{8})-([0-9a-f]{16})" + _END)
EVENT = re.compile(r"event-(\d{16})-(decided|resubmission|outcome)" + _END)
LOG = b"dochistory.log"
"""Where a file's schema repeats the id of its log; files of older packages do not."""

_NO_BATCH = "0" * 16
_TRIES = 100


class Gone(Exception):  # noqa: N818 - no error of the log's: the reader lists again
    """A file was removed that a manifest named a moment ago."""


@dataclass(frozen=True)
class Look:
    """A log's files at one moment."""

    manifest: Manifest | None
    """None of a log that was never written to, or only by older packages."""
    present: frozenset[str]
    """Its data files in the directory, but for those that were dropped."""

    @property
    def missing(self) -> list[Named]:
        """Files that the manifest names, but that do not exist."""
        return [file for file in self.manifest.files if file.name not in self.present] if self.manifest else []

    @property
    def unnamed(self) -> list[str]:
        """Files that exist, but that no manifest names."""
        named = {file.name for file in self.manifest.files} if self.manifest else set()
        return sorted(self.present - named)


class Directory:
    """The directory of an audit log, and the place outside it where its id is recorded.

    Args:
        directory: where its files are.
        known: a file with the log's id, written with its first manifest. If the log is inside its
            history, this file is outside the log's own directory, so that a log that is deleted
            completely is detected too.
    """

    may_be_lost = False
    """Whether a turn can be lost while it is held."""

    def __init__(self, directory: Path, known: Path | None, lock_timeout: float) -> None:
        self.directory = directory
        self.known = directory / "known" if known is None else known
        self.lock_timeout = lock_timeout

    def lock(self) -> _files.Lock:
        """The lock that is held while a file is added."""
        return _files.Lock(self.directory / "lock", self.lock_timeout)

    def alone(self, change: Callable[[], T]) -> T:
        """Look at the log and change it, while nobody else changes it.

        Raises:
            LockedError: [DH-LOCKED] another process held the log for longer than `lock_timeout`.
        """
        with self.lock():
            return change()

    def steadily(self, read: Callable[[], T]) -> T:
        """Repeat a read while files are removed meanwhile, because they were settled and are forgotten."""
        for _ in range(_TRIES):
            try:
                return read()
            except Gone:
                continue
        raise too_fast(self.directory)

    def turn(self, trigger: str) -> _files.Lock:
        """The lock that is held while documents of a trigger are being resubmitted."""
        return _files.Lock(self.directory / f"resubmission-{turn_name(trigger)}.lock", self.lock_timeout)

    def place(self, name: str) -> Path:
        """Where a file is."""
        return self.directory / name

    def manifest_place(self) -> Path:
        """Where the newest manifest is, or should be."""
        numbers = manifest.numbers_in(self.directory)
        return manifest.path_of(self.directory, numbers[-1] if numbers else 1)

    def opened(self, name: str) -> Path:
        """A file, as Arrow reads it."""
        return self.directory / name

    def fetch(self, names: Iterable[str]) -> None:
        """Prepare a read of files; here nothing has to be."""

    def content(self, name: str) -> bytes:
        """The bytes of a file, as they are stored.

        Raises:
            Gone: it does not exist any more.
        """
        path = self.directory / name
        with _files.storage(path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                raise Gone(path) from None

    def add(self, _before: Manifest, name: str, content: bytes) -> str:
        """Under the lock: store a file that no manifest names yet; answers its whole name."""
        path = self.directory / f"{name}-{zlib.crc32(content):08x}.parquet"
        if not _files.publish(path, content):
            raise dh.FencedError(
                f"[DH-FENCED] {path} exists already: the file system's locks do not exclude each other"
            )
        return path.name

    def remove(self, names: Iterable[str]) -> None:
        """Under the lock: remove files that the newest manifest does not name any more."""
        with _files.storage(self.directory):
            for name in names:
                (self.directory / name).unlink(missing_ok=True)

    def collect(self) -> None:
        """Remove what was left; here nothing is."""

    def set_aside(self, names: Iterable[str], where: str) -> Path:
        """Keep files that go out of use in a directory beside the log; answers which."""
        aside = self.directory.parent / where / self.directory.name
        with _files.storage(aside):
            _files.make_directory(aside)
            for name in names:
                if (self.directory / name).exists():
                    os.link(self.directory / name, aside / name)
            _files.sync(aside)
        return aside

    def look(self) -> Look:
        """The present files.

        Raises:
            CorruptError: [DH-CORRUPT] the manifest is damaged or gone, or of another log.
        """
        for _ in range(_TRIES):
            # The manifest first: the files that it names existed before it.
            newest = manifest.newest(self.directory)
            self._check(newest)
            dropped = set(newest.dropped) if newest else set()
            present = set(self.names()) - dropped
            look = Look(newest, frozenset(present - self._left_by_compaction(newest, present)))
            if newest is None or not look.missing or manifest.numbers_in(self.directory)[-1:] == [newest.number]:
                return look
        raise too_fast(self.directory)

    def _left_by_compaction(self, newest: Manifest | None, present: set[str]) -> set[str]:
        """Own files that a compaction wrote and died before naming them: their documents stand in named files."""
        if newest is None:
            return set()
        named = {file.name for file in newest.files}
        new = [match for name in present - named if (match := KEPT.fullmatch(name))]
        taken = [match for name in named if (match := KEPT.fullmatch(name))] if new else []
        doubled = [one[0] for one in new if one[3] == _NO_BATCH and any(_overlap(one, other) for other in taken)]
        return {name for name in doubled if self._log_of(name) == newest.log.encode()}

    def _log_of(self, name: str) -> bytes | None:
        """The id of the log that a file says it is of."""
        try:
            return (pq.read_schema(self.directory / name).metadata or {}).get(LOG)
        except (pa.ArrowException, OSError, ValueError):
            return None

    def noted(self) -> str | None:
        """The log's id, as recorded outside its manifests."""
        with _files.storage(self.known):
            try:
                return self.known.read_text(encoding="utf-8", errors="replace")
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _check(self, newest: Manifest | None) -> None:
        noted = self.noted()
        if noted is None or (newest is not None and newest.log == noted):
            return
        if newest is not None:
            raise dh.CorruptError(
                f"[DH-CORRUPT] {self.directory}: this is not the audit log that {self.known} names: restore that one"
            )
        # It may have been created between both looks.
        if not manifest.numbers_in(self.directory):
            raise dh.CorruptError(f"[DH-CORRUPT] {self.directory}: the manifest of the audit log here is lost")

    def names(self) -> list[str]:
        """The names of data files in the directory."""
        return [name for name in self._names() if KEPT.fullmatch(name) or EVENT.fullmatch(name)]

    def _names(self) -> list[str]:
        with _files.storage(self.directory):
            try:
                return [path.name for path in self.directory.iterdir()]
            except FileNotFoundError:
                return []

    def current(self) -> Manifest:
        """The base of the next manifest, under the lock. Includes the log's files that no manifest names yet.

        Raises:
            CorruptError: [DH-CORRUPT] as of `look`.
        """
        look = self.look()
        found = look.manifest or Manifest(manifest.new_id(), 0, 1, 1, ())
        own = [name for name in look.unnamed if not self.is_foreign(name, look.manifest)]
        return taking_in(found, [self.described(name) for name in own])

    def described(self, name: str) -> Named:
        """The manifest's entry for a file."""
        path = self.directory / name
        with _files.storage(path):
            size = path.stat().st_size
        if match := KEPT.fullmatch(name):
            first = int(match[1])
            return Named(name, size, ((first, first + int(match[2]) - 1),))
        try:
            return Named(name, size, manifest.ranges(pq.read_table(path, columns=["number"])["number"].to_pylist()))
        except (pa.ArrowException, OSError, ValueError):
            return Named(name, size, ())  # damaged, as `verify` says

    def is_foreign(self, name: str, of: Manifest | None) -> bool:
        """Whether a file that no manifest names is of another log: it says so, or its numbers are taken."""
        if of is None:
            return False
        own = self._log_of(name)
        if own is not None:
            return bool(own != of.log.encode())
        match = KEPT.fullmatch(name)
        others = [other for file in of.files if (other := KEPT.fullmatch(file.name))]
        return match is not None and any(_overlap(match, other) for other in others)

    def publish(self, found: Manifest) -> None:
        """Under the lock: make this the newest manifest, and record the log's id."""
        there = set(self._names())
        found = replace(found, number=found.number + 1, dropped=tuple(name for name in found.dropped if name in there))
        manifest.publish(self.directory, found)
        # Nothing that this manifest names is acknowledged before.
        if self.noted() is None:
            with _files.storage(self.known):
                if self.known.parent == self.directory or self.known.parent.parent.is_dir():
                    _files.publish(self.known, found.log.encode())


def taking_in(found: Manifest, added: list[Named]) -> Manifest:
    """The same log with more files."""
    found = found.naming(added)
    kept = [match for file in found.files if (match := KEPT.fullmatch(file.name))]
    events = [match for file in found.files if (match := EVENT.fullmatch(file.name))]
    return replace(
        found,
        next_number=max([found.next_number, *(int(match[1]) + int(match[2]) for match in kept)]),
        next_event=max([found.next_event, *(int(match[1]) + 1 for match in events)]),
    )


def too_fast(place: Path | str) -> dh.StateError:
    """The error for a log that nobody can read before it changes."""
    return dh.StateError(f"[DH-STATE] {place}: the audit log changes faster than it can be read: try again")


def turn_name(trigger: str) -> str:
    """The part of a name that stands for a trigger."""
    return hashlib.sha256(trigger.encode()).hexdigest()[:16]


def _overlap(one: re.Match[str], other: re.Match[str]) -> bool:
    first, count, start, size = int(one[1]), int(one[2]), int(other[1]), int(other[2])
    return first < start + size and start < first + count
