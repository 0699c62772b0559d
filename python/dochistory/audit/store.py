"""The files of an audit log. Each is published whole, under a new name, and never changed.

    kept-<number of the first document>-<count>-<batch>-<crc>.parquet    documents in doubt, whole
    event-<n>-decided-<crc>.parquet        what a person decided about some of them
    event-<n>-resubmission-<crc>.parquet   which of them are being resubmitted, as transaction n of the history
    event-<n>-outcome-<crc>.parquet        how that transaction ended: copied from the history, which alone decides
    manifest-<n>.json                      which files there are; see `manifest`

`crc` is the CRC-32 of the file, which `verify` compares. Numbers of documents and of events rise.
A process that adds a file holds `lock` meanwhile.
"""

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

import dochistory as dh
from dochistory import _files
from dochistory.audit import files, manifest
from dochistory.audit.files import Kind, Look
from dochistory.audit.manifest import Named

T = TypeVar("T")

NUMBER: pa.Field = pa.field("number", pa.int64())
DECIDED = pa.schema(
    [NUMBER, ("state", pa.string()), ("time", pa.timestamp("us", "UTC")), ("by", pa.string()), ("note", pa.string())]
)
RESUBMISSION = pa.schema([NUMBER, ("trigger", pa.string()), ("time", pa.timestamp("us", "UTC"))])
OUTCOME = pa.schema([NUMBER, ("state", pa.string()), ("time", pa.timestamp("us", "UTC"))])
DOCUMENT = "document"
"""The column with the documents as they came: a struct of all their columns."""

_SCHEMAS = {"decided": DECIDED, "resubmission": RESUBMISSION, "outcome": OUTCOME}
NO_BATCH = "0" * 16
_LARGE = 1 << 15
"""Files of this number of documents are not put together any more."""
_TRIES = 100


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
    """A file of changes of documents, by its name."""

    path: Path
    number: int
    kind: Kind


class Gone(Exception):  # noqa: N818 - no error of the log's: whoever reads looks again
    """A file was removed that a manifest named a moment ago."""


class Store:
    """The directory of an audit log.

    Args:
        directory: where its files are.
        lock_timeout: how long to wait for others, in seconds.
        known: the file outside it that holds the log's id; in it, if absent.
    """

    def __init__(self, directory: Path, lock_timeout: float, known: Path | None = None) -> None:
        self.directory = directory
        self.lock_timeout = lock_timeout
        self.files = files.Directory(directory, known)

    def lock(self) -> _files.Lock:
        """The lock that is held while a file is added."""
        return _files.Lock(self.directory / "lock", self.lock_timeout)

    def turn(self, trigger: str) -> _files.Lock:
        """The lock that is held while documents of a trigger are being resubmitted."""
        name = hashlib.sha256(trigger.encode()).hexdigest()[:16]
        return _files.Lock(self.directory / f"resubmission-{name}.lock", self.lock_timeout)

    def kept(self) -> list[Kept]:
        """The files of documents, by number.

        Raises:
            CorruptError: [DH-CORRUPT] a file is missing, or of another log.
        """
        return self._kept_in(self._whole())

    def _kept_in(self, look: Look) -> list[Kept]:
        found = [
            Kept(self.directory / name, int(match[1]), int(match[2]), match[3])
            for name in look.present
            if (match := files.KEPT.fullmatch(name))
        ]
        return sorted(found, key=lambda one: one.first)

    def events(self) -> list[Event]:
        """The files of events, by number; an outcome comes after its resubmission.

        Raises:
            CorruptError: [DH-CORRUPT] as of `kept`.
        """
        kinds: tuple[Kind, ...] = ("decided", "resubmission", "outcome")
        found = [
            Event(self.directory / name, int(match[1]), kinds[kinds.index(match[2])])
            for name in self._whole().present
            if (match := files.EVENT.fullmatch(name))
        ]
        return sorted(found, key=lambda one: (one.number, one.kind == "outcome"))

    def _whole(self) -> Look:
        """The present files, if none is missing."""
        look = self.files.look()
        for file in look.missing:
            raise dh.CorruptError(f"[DH-CORRUPT] {self.directory / file.name}: {missing(file)}")
        for name in look.unnamed:
            if self.files.is_foreign(name, look.manifest):
                raise dh.CorruptError(f"[DH-CORRUPT] {self.directory / name}: this file is of another audit log")
        return look

    def add_kept(self, entries: pa.Table, batch: str) -> int:
        """Keep documents, under the lock; answers the number of the first. Missing files do not prevent it."""
        before = self.files.current()
        first = before.next_number
        last = first + entries.num_rows - 1
        numbers = pa.array(range(first, last + 1), pa.int64())
        name = f"kept-{first:016}-{entries.num_rows:08}-{batch}"
        self._write(before, name, entries.add_column(0, NUMBER, numbers), ((first, last),))
        return first

    def compact(self, least: int = 32) -> int:
        """Under the lock: put runs of small files together; answers by how many files there are fewer.

        Only files of one trigger, of batches without a number, whose documents have the same
        columns. The new file is named by the same manifest that drops the old ones; a crash before
        leaves a file that no manifest names and whose numbers are taken, which counts for nothing.

        Args:
            least: the number of files of about one size, at the end of the log, that is worth it.
        """
        before = len(self._present())
        while files := self._run(least):
            tables = [self.read(one.path) for one in files]
            if any(table.schema != tables[0].schema for table in tables):
                break
            content = pa.concat_tables(tables)
            count = sum(one.count for one in files)
            found = self.files.current()
            name = f"kept-{files[0].first:016}-{count:08}-{NO_BATCH}"
            new = self._written(found, name, content, ((files[0].first, files[0].first + count - 1),))
            old = [one.path.name for one in files]
            self.files.publish(self.files.taking_in(found.without(old), [new]))
            with _files.storage(self.directory):
                for gone in old:
                    (self.directory / gone).unlink(missing_ok=True)
        return before - len(self._present())

    def _present(self) -> list[Kept]:
        """The files of documents; none if one is missing or of another log, which is no time to move any."""
        look = self.files.look()
        if look.missing or any(self.files.is_foreign(name, look.manifest) for name in look.unnamed):
            return []
        return self._kept_in(look)

    def _run(self, least: int) -> list[Kept]:
        """The newest run of at least this number of neighbouring files of about one size, and of one trigger."""
        run: list[Kept] = []
        for file in reversed(self._present()):
            is_next = not run or (file.first + file.count == run[0].first and _tier(file) == _tier(run[0]))
            if file.batch != NO_BATCH or not is_next or file.count >= _LARGE:
                break
            run.insert(0, file)
        if len(run) < least:
            return []
        marks = [self._mark(one) for one in run]
        same = next((at for at, mark in enumerate(reversed(marks)) if mark != marks[-1]), len(run))
        return run[len(run) - same :] if same >= least else []

    def _mark(self, file: Kept) -> tuple[str, Any]:
        table = self.read(file.path, ["trigger"])
        return table["trigger"][0].as_py(), table.schema.metadata

    def kept_of(self, batch: str) -> list[Kept]:
        """The existing files with documents of a batch."""
        return [one for one in self._kept_in(self.files.look()) if one.batch == batch]

    def next_event(self) -> int:
        """The number of the next event, under the lock."""
        self._whole()
        return self.files.current().next_event

    def add_event(self, number: int, kind: Kind, table: pa.Table) -> None:
        """Add an event, under the lock. An existing one stays."""
        if any((event.number, event.kind) == (number, kind) for event in self.events()):
            return
        numbers = manifest.ranges(table["number"].to_pylist())
        self._write(self.files.current(), f"event-{number:016}-{kind}", table.cast(_SCHEMAS[kind]), numbers)

    def write_event(self, before: manifest.Manifest, number: int, kind: Kind, table: pa.Table) -> Named:
        """Write an event that no manifest names yet."""
        numbers = manifest.ranges(table["number"].to_pylist())
        return self._written(before, f"event-{number:016}-{kind}", table.cast(_SCHEMAS[kind]), numbers)

    def drop(self, names: list[str]) -> None:
        """Under the lock: drop files. They no longer count before the first of them is removed."""
        self.files.publish(self.files.current().without(names))
        with _files.storage(self.directory):
            for name in names:
                (self.directory / name).unlink(missing_ok=True)

    def _write(self, before: manifest.Manifest, name: str, table: pa.Table, numbers: manifest.Ranges) -> None:
        written = self._written(before, name, table, numbers)
        self.files.publish(self.files.taking_in(before, [written]))

    def _written(self, before: manifest.Manifest, name: str, table: pa.Table, numbers: manifest.Ranges) -> Named:
        marked = {**(table.schema.metadata or {}), files.LOG: before.log.encode()}
        out = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(marked), out, compression="zstd", write_page_checksum=True)
        content = out.getvalue()
        path = self.directory / f"{name}-{zlib.crc32(content):08x}.parquet"
        if not _files.publish(path, content):
            raise dh.FencedError(
                f"[DH-FENCED] {path} exists already: the file system's locks do not exclude each other"
            )
        return Named(path.name, len(content), numbers)

    def check(self, path: Path) -> int:
        """Compare a file with the checksum in its name; answers its bytes.

        Raises:
            CorruptError: [DH-CORRUPT] it is damaged.
        """
        with _files.storage(path):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                raise Gone(path) from None
        if f"{zlib.crc32(content):08x}" != path.stem.rpartition("-")[2]:
            raise dh.CorruptError(
                f"[DH-CORRUPT] {path}: its {len(content)} bytes do not match the checksum in its name"
            )
        return len(content)

    def read(self, path: Path, columns: list[str] | None = None) -> pa.Table:
        """The content of a file, after a check of its checksums.

        Raises:
            CorruptError: [DH-CORRUPT] it is damaged.
            Gone: it does not exist any more.
        """
        try:
            return pq.ParquetFile(path, page_checksum_verification=True).read(columns=columns)
        except FileNotFoundError:
            raise Gone(path) from None
        except (pa.ArrowException, OSError, ValueError) as error:
            raise dh.CorruptError(f"[DH-CORRUPT] {path}: {' '.join(str(error).split())}") from error


def _tier(file: Kept) -> int:
    """Files of one tier are about of one size."""
    return (file.count.bit_length() - 1) // 5


def steadily(read: Callable[[], T]) -> T:
    """Repeat a read while files are removed meanwhile, because they were settled and are forgotten."""
    for _ in range(_TRIES):
        try:
            return read()
        except Gone:
            continue
    raise dh.StateError("[DH-STATE] the audit log changes faster than it can be read")


def missing(file: Named) -> str:
    """The consequences of a missing file."""
    if not file.name.startswith("kept-"):
        return (
            f"the file is lost; it described documents {manifest.described(file.numbers)}: repair says what that means"
        )
    return f"the file is lost, and with it {file.rows} documents: {manifest.described(file.numbers)}"


def batch_name(trigger: str, transaction: tuple[str, int] | None) -> str:
    """The part of a file's name by which the documents of a batch are found when the batch comes again."""
    if transaction is None:
        return NO_BATCH
    said = f"{trigger}\0{transaction[0]}\0{transaction[1]}"
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def settings_of(trigger: dh.Trigger) -> dict[bytes, bytes]:
    """The settings of a trigger that are stored with its documents."""
    lives = trigger.history_time_to_live.total_seconds()
    return {b"dochistory.time_to_live_seconds": str(lives).encode(), b"dochistory.expiry": trigger.expiry.encode()}


def trigger_of(name: str, metadata: dict[bytes, bytes] | None) -> dict[str, Any]:
    """The stored settings of a trigger, for `Trigger`."""
    found = metadata or {}
    expiry = found.get(b"dochistory.expiry", b"until_purged").decode()
    lives = found.get(b"dochistory.time_to_live_seconds")
    return {"name": name, "expiry": expiry, **({"history_time_to_live": float(lives)} if lives else {})}
