"""Sinks of the journal besides `logging`: Parquet files, or JSON lines."""

import json
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["SCHEMA", "JsonLinesSink", "ParquetSink", "Sink"]

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("trigger", pa.string()),
        ("key", pa.string()),
        ("status", pa.string()),
        ("rule", pa.string()),
        ("message", pa.string()),
        ("count", pa.int64()),
        ("row", pa.int64()),
    ]
)
"""The columns of the journal: `count` is the document's redelivery count (JMS: delivery count), null if there is none;
`row` its number in the batch."""

_CHUNK = 65_536


class Sink(Protocol):
    """A sink of the journal besides `logging`."""

    def write(self, records: pa.Table) -> None:
        """Write these records, in the columns of `SCHEMA`; there is at least one.

        Args:
            records: the records.
        """
        ...


@dataclass(frozen=True)
class ParquetSink:
    """Writes the journal as Parquet files: one for each batch that has records, in one directory.

    A file appears whole or not at all. Its name begins with the time of its records, so names sort
    by time.
    """

    directory: str | os.PathLike[str]
    """Where the files go; made if it is not there."""
    compression: str = "zstd"
    """Parquet's compression."""

    def __post_init__(self) -> None:
        """Make the path independent of later changes of the working directory."""
        object.__setattr__(self, "directory", Path(self.directory).absolute())

    def write(self, records: pa.Table) -> None:
        """Write these records.

        Args:
            records: the records, in the columns of `SCHEMA`.
        """
        directory = Path(self.directory)
        directory.mkdir(parents=True, exist_ok=True)
        name = f"{records['time'][0].as_py():%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:8]}.parquet"
        draft = directory / f".{name}.part"
        try:
            pq.write_table(records, draft, compression=self.compression)
            draft.replace(directory / name)
        finally:
            draft.unlink(missing_ok=True)


@dataclass(frozen=True)
class JsonLinesSink:
    """Appends the journal to one file, a JSON object a line, times in ISO 8601.

    Each batch is one write to a file opened for appending; several processes may write to one file
    on a local disk. Nothing is synced, and nothing is rotated: use `logrotate` or a similar
    program.
    """

    path: str | os.PathLike[str]
    """The file; made if it is not there."""
    _mode: int = field(default=0o640, repr=False)

    def __post_init__(self) -> None:
        """Make the path independent of later changes of the working directory."""
        object.__setattr__(self, "path", Path(self.path).absolute())

    def write(self, records: pa.Table) -> None:
        """Write these records.

        Args:
            records: the records, in the columns of `SCHEMA`.
        """
        lines = _json_lines(records)
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, self._mode)
        with os.fdopen(file, "wb", buffering=0) as out:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                lines = b"\n" + lines  # the disk was full within a line
            left = memoryview(lines)
            while left:
                left = left[out.write(left) :]


def _json_lines(journal: pa.Table) -> bytes:
    """The records as JSON lines, by columns rather than by rows."""
    return b"".join(_json_chunk(journal.slice(start, _CHUNK)) for start in range(0, journal.num_rows, _CHUNK))


def _json_chunk(journal: pa.Table) -> bytes:
    pieces: list[Any] = []
    for name in journal.column_names:
        before = ", " if pieces else "{"
        pieces += [f'{before}"{name}": ', _json(journal[name].combine_chunks())]
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    # A column of text stores its values one behind the other: that is the file.
    return bytes(lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py()))


def _json(column: pa.Array) -> Any:
    if pa.types.is_timestamp(column.type):
        few = column.dictionary_encode()  # a batch has one time, and spelling it is slow
        text = pc.binary_join_element_wise('"', pc.strftime(few.dictionary, "%Y-%m-%dT%H:%M:%S"), 'Z"', "").take(
            few.indices
        )
    elif pa.types.is_integer(column.type):
        text = column.cast(pa.string())
    else:
        text = _json_text(column)
    return pc.fill_null(text, "null")


def _json_text(column: pa.Array) -> Any:
    escaped = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
    quoted = pc.binary_join_element_wise('"', escaped, '"', "")
    is_plain = pc.invert(pc.match_substring_regex(column, r"[\x00-\x1f\x7f]"))
    if pc.all(is_plain).as_py() is not False:  # nothing, or nulls alone, is plain
        return quoted
    # Control characters are rare, so these rows may be processed one by one.
    odd = pc.invert(is_plain).fill_null(False)
    spelt = [json.dumps(value, ensure_ascii=False) for value in column.filter(odd).to_pylist()]
    return pc.replace_with_mask(quoted, odd, pa.array(spelt, pa.string()))
