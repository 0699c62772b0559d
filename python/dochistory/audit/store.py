"""The files of an audit log. Each is published whole, under a new name, and never changed.

    kept-<number of the first document>-<count>-<batch>-<crc>.parquet    documents in doubt, whole
    event-<n>-decided-<crc>.parquet        what a person decided about some of them
    event-<n>-resubmission-<crc>.parquet   which of them are being resubmitted, as transaction n of the history
    event-<n>-outcome-<crc>.parquet        how that transaction ended: copied from the history, which alone decides
    manifest-<n>.json                      which files there are; see `manifest`

`crc` is the CRC-32 of the file, which `verify` compares. Numbers of documents and of events rise. A
change is made by one process at a time: `Directory` holds `lock` meanwhile; in a `Bucket` the
manifest of one of two is refused, and that one begins again.
"""

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dochistory as dh
from dochistory._files import storage
from dochistory.audit import files, manifest
from dochistory.audit.bucket import Bucket
from dochistory.audit.files import Directory, Gone, Kind, Look
from dochistory.audit.manifest import Named

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

Files = Directory | Bucket
"""Where a log is."""


@dataclass(frozen=True)
class Kept:
    """A file of documents, by its name."""

    name: str
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

    name: str
    number: int
    kind: Kind


class Store:
    """The files of an audit log, by what they hold.

    Args:
        place: where they are.
    """

    def __init__(self, place: Files) -> None:
        self.files = place
        self.alone = place.alone
        self.turn = place.turn
        self.steadily = place.steadily

    def kept(self) -> list[Kept]:
        """The files of documents, by number.

        Raises:
            CorruptError: [DH-CORRUPT] a file is missing, or of another log.
        """
        return _kept_in(self._whole().present)

    def events(self) -> list[Event]:
        """The files of events, by number; an outcome comes after its resubmission.

        Raises:
            CorruptError: [DH-CORRUPT] as of `kept`.
        """
        return _events_in(self._whole().present)

    def _whole(self) -> Look:
        """The present files, if none is missing."""
        look = self.files.look()
        for file in look.missing:
            raise manifest.lost(self.files.place(file.name), file)
        for name in look.unnamed:
            if self.files.is_foreign(name, look.manifest):
                raise dh.CorruptError(f"[DH-CORRUPT] {self.files.place(name)}: this file is of another audit log")
        return look

    def add_kept(self, entries: pa.Table, batch: str) -> int:
        """Keep documents, alone; answers the number of the first. Missing files do not prevent it."""
        before = self.files.current()
        first = before.next_number
        last = first + entries.num_rows - 1
        numbers = pa.array(range(first, last + 1), pa.int64())
        name = f"kept-{first:016}-{entries.num_rows:08}-{batch}"
        self._write(before, name, entries.add_column(0, NUMBER, numbers), ((first, last),))
        return first

    def compact(self, least: int = 32) -> int:
        """Alone: put runs of small files together; answers by how many files there are fewer.

        Only files of one trigger, of batches without a number, whose documents have the same
        columns. The new file is named by the same manifest that drops the old ones; a crash before
        leaves a file that no manifest names and whose numbers are taken, which counts for nothing.

        Args:
            least: the number of files of about one size, at the end of the log, that is worth it.
        """
        before = len(self._present())
        while run := self._run(least):
            tables = [self.read(one.name) for one in run]
            if any(table.schema != tables[0].schema for table in tables):
                break
            content = pa.concat_tables(tables)
            count = sum(one.count for one in run)
            found = self.files.current()
            name = f"kept-{run[0].first:016}-{count:08}-{NO_BATCH}"
            new = self._written(found, name, content, ((run[0].first, run[0].first + count - 1),))
            old = [one.name for one in run]
            self.files.publish(files.taking_in(found.without(old), [new]))
            self.files.remove(old)
        return before - len(self._present())

    def _present(self) -> list[Kept]:
        """The files of documents; none if one is missing or of another log, which is no time to move any."""
        look = self.files.look()
        if look.missing or any(self.files.is_foreign(name, look.manifest) for name in look.unnamed):
            return []
        return _kept_in(look.present)

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
        table = self.read(file.name, ["trigger"])
        return table["trigger"][0].as_py(), table.schema.metadata

    def kept_of(self, batch: str) -> list[Kept]:
        """The existing files with documents of a batch."""
        return [one for one in _kept_in(self.files.look().present) if one.batch == batch]

    def add_event(self, kind: Kind, table: pa.Table, *, number: int | None = None, least: int = 1) -> int:
        """Alone: add an event; answers its number. An existing one stays.

        Args:
            kind: what happened.
            table: to which documents.
            number: the number; the next one that is free, if absent.
            least: the lowest number that is allowed.
        """
        self._whole()
        before = self.files.current()
        chosen = max(before.next_event, least) if number is None else number
        there = _events_in(file.name for file in before.files)
        if not any((event.number, event.kind) == (chosen, kind) for event in there):
            numbers = manifest.ranges(table["number"].to_pylist())
            self._write(before, f"event-{chosen:016}-{kind}", table.cast(_SCHEMAS[kind]), numbers)
        return chosen

    def write_event(self, before: manifest.Manifest, number: int, kind: Kind, table: pa.Table) -> Named:
        """Write an event that no manifest names yet."""
        numbers = manifest.ranges(table["number"].to_pylist())
        return self._written(before, f"event-{number:016}-{kind}", table.cast(_SCHEMAS[kind]), numbers)

    def drop(self, names: list[str]) -> None:
        """Alone: drop files. They no longer count before the first of them is removed."""
        self.files.publish(self.files.current().without(names))
        self.files.remove(names)

    def _write(self, before: manifest.Manifest, name: str, table: pa.Table, numbers: manifest.Ranges) -> None:
        written = self._written(before, name, table, numbers)
        self.files.publish(files.taking_in(before, [written]))

    def _written(self, before: manifest.Manifest, name: str, table: pa.Table, numbers: manifest.Ranges) -> Named:
        marked = {**(table.schema.metadata or {}), files.LOG: before.log.encode()}
        out = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(marked), out, compression="zstd", write_page_checksum=True)
        content = out.getvalue().to_pybytes()
        return Named(self.files.add(before, name, content), len(content), numbers)

    def check(self, name: str) -> int:
        """Compare a file with the checksum in its name; answers its bytes.

        Raises:
            CorruptError: [DH-CORRUPT] it is damaged.
        """
        content = self.files.content(name)
        self._compare(name, content)
        return len(content)

    def _compare(self, name: str, content: bytes) -> None:
        if f"{zlib.crc32(content):08x}" != Path(name).stem.rpartition("-")[2]:
            raise dh.CorruptError(
                f"[DH-CORRUPT] {self.files.place(name)}: its {len(content)} bytes do not match the checksum in its name"
            )

    def read(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """The content of a file, after a check of its checksums.

        Raises:
            CorruptError: [DH-CORRUPT] it is damaged.
            StorageError: [DH-IO] the operating system refused.
            Gone: it does not exist any more.
        """
        place = self.files.place(name)
        opened = self.files.opened(name)
        # Parquet's own checksums leave out headers and the footer. Events decide what becomes of documents.
        if files.EVENT.fullmatch(name) or columns is None or DOCUMENT in columns:
            content = opened.read() if isinstance(opened, pa.NativeFile) else self.files.content(name)
            self._compare(name, content)
            opened = pa.BufferReader(content)
        try:
            return pq.ParquetFile(opened, page_checksum_verification=True).read(columns=columns)
        except FileNotFoundError:
            raise Gone(place) from None
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                with storage(Path(place)):  # the system refused; that says nothing of the file
                    raise
            raise dh.CorruptError(f"[DH-CORRUPT] {place}: {' '.join(str(error).split())}") from error


def _kept_in(names: Iterable[str]) -> list[Kept]:
    found = [
        Kept(name, int(match[1]), int(match[2]), match[3]) for name in names if (match := files.KEPT.fullmatch(name))
    ]
    return sorted(found, key=lambda one: one.first)


def _events_in(names: Iterable[str]) -> list[Event]:
    kinds: tuple[Kind, ...] = ("decided", "resubmission", "outcome")
    found = [
        Event(name, int(match[1]), kinds[kinds.index(match[2])])
        for name in names
        if (match := files.EVENT.fullmatch(name))
    ]
    return sorted(found, key=lambda one: (one.number, one.kind == "outcome"))


def _tier(file: Kept) -> int:
    """Files of one tier are about of one size."""
    return (file.count.bit_length() - 1) // 5


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
