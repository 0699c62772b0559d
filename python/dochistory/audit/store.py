"""The files of an audit log. Every one is published whole, under a name that was not there, and never changed.

    kept-<number of the first document>-<count>-<batch>-<crc>.parquet    documents in doubt, whole
    event-<n>-decided-<crc>.parquet        what a person decided about some of them
    event-<n>-resubmission-<crc>.parquet   which of them are being resubmitted, as transaction n of the history
    event-<n>-outcome-<crc>.parquet        how that transaction ended: copied from the history, which alone decides

`crc` is the CRC-32 of the file, which `verify` compares. Numbers of documents and of events rise. Whoever adds a file
holds `lock` meanwhile.
"""

import hashlib
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

import dochistory as dh
from dochistory import _files

Kind = Literal["decided", "resubmission", "outcome"]

NUMBER = pa.field("number", pa.int64())
DECIDED = pa.schema(
    [NUMBER, ("state", pa.string()), ("time", pa.timestamp("us", "UTC")), ("by", pa.string()), ("note", pa.string())]
)
RESUBMISSION = pa.schema([NUMBER, ("trigger", pa.string()), ("time", pa.timestamp("us", "UTC"))])
OUTCOME = pa.schema([NUMBER, ("state", pa.string()), ("time", pa.timestamp("us", "UTC"))])
DOCUMENT = "document"
"""The column with the documents as they came: a struct of all their columns."""

_SCHEMAS = {"decided": DECIDED, "resubmission": RESUBMISSION, "outcome": OUTCOME}
_KEPT = re.compile(r"kept-(\d{16})-(\d{8})-([0-9a-f]{16})-([0-9a-f]{8})\.parquet")
_EVENT = re.compile(r"event-(\d{16})-(decided|resubmission|outcome)-([0-9a-f]{8})\.parquet")
NO_BATCH = "0" * 16


@dataclass(frozen=True)
class Kept:
    """A file of documents, by its name."""

    path: Path
    first: int
    count: int
    batch: str

    @property
    def numbers(self) -> range:
        """The numbers of its documents."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class Event:
    """A file of what happened to documents, by its name."""

    path: Path
    number: int
    kind: Kind


class Store:
    """The directory of an audit log."""

    def __init__(self, directory: Path, lock_timeout: float) -> None:
        self.directory = directory
        self.lock_timeout = lock_timeout

    def lock(self) -> _files.Lock:
        """Held while a file is added."""
        return _files.Lock(self.directory / "lock", self.lock_timeout)

    def turn(self, trigger: str) -> _files.Lock:
        """Held while documents of a trigger are being resubmitted."""
        name = hashlib.sha256(trigger.encode()).hexdigest()[:16]
        return _files.Lock(self.directory / f"resubmission-{name}.lock", self.lock_timeout)

    def kept(self) -> list[Kept]:
        """The files of documents, by number."""
        found = [
            Kept(path, int(match[1]), int(match[2]), match[3])
            for path in self._files()
            if (match := _KEPT.fullmatch(path.name))
        ]
        return sorted(found, key=lambda one: one.first)

    def events(self) -> list[Event]:
        """The files of events, by number; an outcome stands behind its resubmission."""
        kinds: tuple[Kind, ...] = ("decided", "resubmission", "outcome")
        found = [
            Event(path, int(match[1]), kinds[kinds.index(match[2])])
            for path in self._files()
            if (match := _EVENT.fullmatch(path.name))
        ]
        return sorted(found, key=lambda one: (one.number, one.kind == "outcome"))

    def _files(self) -> Iterator[Path]:
        with _files.storage(self.directory):
            try:
                yield from list(self.directory.iterdir())
            except FileNotFoundError:
                return

    def add_kept(self, entries: pa.Table, batch: str) -> int:
        """Keep documents, under the lock; answers the number of the first."""
        files = self.kept()
        first = files[-1].first + files[-1].count if files else 1
        numbers = pa.array(range(first, first + entries.num_rows), pa.int64())
        self._write(f"kept-{first:016}-{entries.num_rows:08}-{batch}", entries.add_column(0, NUMBER, numbers))
        return first

    def next_event(self) -> int:
        """The number of the next event, under the lock."""
        events = self.events()
        return events[-1].number + 1 if events else 1

    def add_event(self, number: int, kind: Kind, table: pa.Table) -> None:
        """Add an event, under the lock. One that is there already stays."""
        if any((event.number, event.kind) == (number, kind) for event in self.events()):
            return
        self._write(f"event-{number:016}-{kind}", table.cast(_SCHEMAS[kind]))

    def _write(self, name: str, table: pa.Table) -> None:
        out = pa.BufferOutputStream()
        pq.write_table(table, out, compression="zstd", write_page_checksum=True)
        content = out.getvalue()
        path = self.directory / f"{name}-{zlib.crc32(content):08x}.parquet"
        if not _files.publish(path, content):
            raise dh.FencedError(
                f"[DH-FENCED] {path} is there already: the file system's locks do not exclude each other"
            )

    def check(self, path: Path) -> int:
        """Compare a file with the checksum in its name; answers its bytes.

        Raises:
            CorruptError: it is damaged.
        """
        with _files.storage(path):
            content = path.read_bytes()
        if f"{zlib.crc32(content):08x}" != path.stem.rpartition("-")[2]:
            raise dh.CorruptError(
                f"[DH-CORRUPT] {path}: its {len(content)} bytes have another checksum than its name says"
            )
        return len(content)

    def read(self, path: Path, columns: list[str] | None = None) -> pa.Table:
        """The content of a file; its checksums are looked at.

        Raises:
            CorruptError: it is damaged.
        """
        try:
            return pq.ParquetFile(path, page_checksum_verification=True).read(columns=columns)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise dh.CorruptError(f"[DH-CORRUPT] {path}: {' '.join(str(error).split())}") from error


def batch_name(trigger: str, transaction: tuple[str, int] | None) -> str:
    """The part of a file's name by which the documents of a batch are found when the batch comes again."""
    if transaction is None:
        return NO_BATCH
    said = f"{trigger}\0{transaction[0]}\0{transaction[1]}"
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def settings_of(trigger: dh.Trigger) -> dict[bytes, bytes]:
    """What is remembered of a trigger with its documents."""
    lives = trigger.history_time_to_live.total_seconds()
    return {b"dochistory.time_to_live_seconds": str(lives).encode(), b"dochistory.expiry": trigger.expiry.encode()}


def trigger_of(name: str, metadata: dict[bytes, bytes] | None) -> dict[str, Any]:
    """The settings of a trigger as they were remembered, for `Trigger`."""
    found = metadata or {}
    expiry = found.get(b"dochistory.expiry", b"until_purged").decode()
    lives = found.get(b"dochistory.time_to_live_seconds")
    return {"name": name, "expiry": expiry, **({"history_time_to_live": float(lives)} if lives else {})}
