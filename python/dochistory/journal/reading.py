"""Reading a journal from files: Parquet in a directory, or JSON lines."""

import datetime as dt
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pq

import dochistory as dh
from dochistory import _checks
from dochistory.journal.sinks import SCHEMA

__all__ = ["Filter", "as_json_lines", "follow", "read"]

_LOG = logging.getLogger("dochistory")
_BLOCK = 4 << 20

_Status = Literal["DUPLICATE", "IN_DOUBT"]


@dataclass(frozen=True)
class Filter:
    """Selects records; all, by default.

    Raises:
        ConfigError: [DH-CONFIG] the journal has no records of this status.
    """

    trigger: str | None = None
    """Of this trigger."""
    status: _Status | None = None
    """Of this status."""
    rule: str | None = None
    """By this rule: "R11"; "R10" means "R10>S3", too. A code that no record has selects nothing."""
    key: str | None = None
    """Of this key."""
    since: dt.datetime | None = None
    """Written then or later."""

    def __post_init__(self) -> None:
        """Refuse a status that selects nothing."""
        if self.status is not None:
            _checks.choice("status", self.status, get_args(_Status))

    def __call__(self, records: pa.Table) -> pa.Table:
        """The selected records."""
        for name in ("trigger", "status", "key"):
            wanted = getattr(self, name)
            if wanted is not None:
                records = records.filter(pc.equal(records[name], wanted))
        if self.rule is not None:
            is_it = pc.equal(records["rule"], self.rule)
            starts = [pc.starts_with(records["rule"], pattern=f"{self.rule}{mark}") for mark in (">", "+")]
            records = records.filter(pc.or_(is_it, pc.or_(*starts)))
        if self.since is not None:
            since = pa.scalar(self.since, SCHEMA.field("time").type)
            records = records.filter(pc.greater_equal(records["time"], since))
        return records


def read(path: str | os.PathLike[str], wanted: Filter | None = None) -> Iterator[pa.Table]:
    """A journal's records, in the order in which they were written.

    Args:
        path: a directory of `ParquetSink`, one of its files, or a file of `JsonLinesSink`.
        wanted: which records; all, if absent.

    Yields:
        Tables with the columns of `journal.SCHEMA`, as many rows as a file or some megabytes hold.

    Raises:
        StorageError: [DH-IO] the journal does not exist or cannot be read.
        SchemaError: [DH-SCHEMA] a file is no journal; the text names it, and of JSON lines the byte
            where a part begins.
    """
    reader = _Reader(Path(path).absolute(), wanted or Filter())
    return (table for table, _ in reader.new())


def follow(
    path: str | os.PathLike[str],
    wanted: Filter | None = None,
    *,
    from_end: bool = False,
    every: float = 0.5,
    stop: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[pa.Table]:
    """As `read`, and then later records as they are written, as long as the iterator is used.

    A file that was rotated (it was replaced by another, or is shorter) is read from its beginning.
    If the journal does not exist yet, this waits for it.

    Args:
        path: as in `read`.
        wanted: as in `read`.
        from_end: skip the present records.
        every: how often to look, in seconds.
        stop: asked before each look; True ends it.
        sleep: how to wait.

    Returns:
        Iterator of pa.Table: records in the columns of `SCHEMA`, as they are written.
    """
    reader = _Reader(Path(path).absolute(), wanted or Filter(), waits=True)
    return _followed(reader, from_end, every, stop, sleep)


def _followed(
    reader: "_Reader", from_end: bool, every: float, stop: Callable[[], bool], sleep: Callable[[float], object]
) -> Iterator[pa.Table]:
    if from_end:
        reader.skip()
    while not stop():
        found = False
        for table, _ in reader.new():
            found = True
            yield table
        if not found:
            sleep(every)


class _Reader:
    """Tracks how far a journal was read."""

    def __init__(self, path: Path, wanted: Filter, *, waits: bool = False) -> None:
        self._path = path
        self._wanted = wanted
        self._waits = waits
        self._seen: set[str] = set()
        self._at = 0
        self._file: tuple[int, int] | None = None

    def skip(self) -> None:
        if self._path.is_dir():
            self._seen.update(path.name for path in self._parquet())
        elif self._path.exists():
            status = self._path.stat()
            self._at, self._file = status.st_size, (status.st_dev, status.st_ino)

    def new(self) -> Iterator[tuple[pa.Table, str]]:
        """The records that were not read yet."""
        try:
            if self._path.is_dir() or self._path.suffix == ".parquet":
                yield from self._new_files()
            else:
                yield from self._new_lines()
        except FileNotFoundError as error:
            if not self._waits:
                raise dh.StorageError(f"[DH-IO] {self._path}: no such journal") from error
        except OSError as error:
            raise dh.StorageError(f"[DH-IO] {self._path}: {error.strerror or error}") from error

    def _parquet(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path]
        return sorted(path for path in self._path.glob("*.parquet") if not path.name.startswith("."))

    def _new_files(self) -> Iterator[tuple[pa.Table, str]]:
        for path in self._parquet():
            if path.name in self._seen:
                continue
            try:
                table = pq.ParquetFile(path).read()
            except pa.ArrowException as error:
                raise dh.SchemaError(f"[DH-SCHEMA] {path}: not Parquet: {error}") from error
            self._seen.add(path.name)
            yield from self._given(table, str(path))

    def _new_lines(self) -> Iterator[tuple[pa.Table, str]]:
        with self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            if self._file != (status.st_dev, status.st_ino) or status.st_size < self._at:
                self._at, self._file = 0, (status.st_dev, status.st_ino)
            file.seek(self._at)
            size = _BLOCK
            while block := file.read(size):
                whole = block.rfind(b"\n") + 1
                if not whole and len(block) < size:
                    return  # the last line is being written
                if not whole:
                    size *= 2
                else:
                    place = f"{self._path}, from byte {self._at}"
                    self._at += whole
                    size = _BLOCK
                    yield from self._given(_parsed(block[:whole], place), place)
                file.seek(self._at)

    def _given(self, table: pa.Table, place: str) -> Iterator[tuple[pa.Table, str]]:
        try:
            records = self._wanted(table.select(SCHEMA.names).cast(SCHEMA))
        except (KeyError, ValueError, pa.ArrowException) as error:
            names = ", ".join(table.column_names)
            raise dh.SchemaError(f"[DH-SCHEMA] {place}: not a journal: its columns are {names}") from error
        if records.num_rows:
            yield records, place


def _parsed(lines: bytes, place: str) -> pa.Table:
    if not lines.strip():
        return SCHEMA.empty_table()
    # Times come as text: Arrow's reader would drop values that it cannot read as times.
    plain = pa.schema([pa.field("time", pa.string()), *[field for field in SCHEMA if field.name != "time"]])
    options = pa_json.ParseOptions(explicit_schema=plain, unexpected_field_behavior="ignore")
    blocks = pa_json.ReadOptions(block_size=max(len(lines), 1))
    try:
        table = pa_json.read_json(pa.BufferReader(lines), read_options=blocks, parse_options=options)
        zone_free = pc.replace_substring(table["time"], "Z", "")
        times = zone_free.cast(pa.timestamp("us")).cast(SCHEMA.field("time").type)
    except (pa.ArrowException, ValueError) as error:
        whole = [line for line in lines.splitlines(keepends=True) if not _is_torn(line)]
        if sum(map(len, whole)) < len(lines):
            _LOG.warning("%s: a line was cut off while it was written, on a full disk, say; it is left out", place)
            return _parsed(b"".join(whole), place)
        raise dh.SchemaError(
            f"[DH-SCHEMA] {place}{_strange_line(lines)}: not a journal: name a directory of ParquetSink, or a file of "
            "JsonLinesSink"
        ) from error
    if times.null_count or table["status"].null_count:
        raise dh.SchemaError(f"[DH-SCHEMA] {place}: not a journal: a line has no time or no status")
    return table.set_column(table.column_names.index("time"), "time", times)


def _is_torn(line: bytes) -> bool:
    """Whether this is the beginning of a sink's line."""
    if not line.startswith(b'{"time": "'):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _strange_line(lines: bytes) -> str:
    """Which line is the first that no sink writes; nothing if each may be of one."""
    for number, line in enumerate(lines.splitlines(), 1):
        if not line.strip():
            continue
        try:
            dt.datetime.fromisoformat(json.loads(line)["time"])
        except (ValueError, TypeError, KeyError):
            return f", line {number}"
    return ""


def as_json_lines(records: pa.Table) -> str:
    """Records for programs, as `JsonLinesSink` writes them.

    Args:
        records: the records, in the columns of `SCHEMA`.

    Returns:
        str: a JSON object a line.
    """
    rows: list[dict[str, Any]] = records.to_pylist()
    lines = [json.dumps({**row, "time": row["time"].isoformat()}, ensure_ascii=False) for row in rows]
    return "".join(f"{line}\n" for line in lines)
