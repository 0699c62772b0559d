"""Reading and writing tables: Parquet, Arrow IPC, CSV and JSON lines, by suffix; `-` is standard input or output."""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.outputs import draft
from dochistory.cli.packed import unpacked
from dochistory.cli.show import as_json, base64
from dochistory.cli.streams import standard_input

FORMATS = ("parquet", "arrow", "arrows", "csv", "jsonl")
"""Names of the formats: Parquet, Arrow IPC file, Arrow IPC stream, CSV, JSON lines."""

_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrows",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_PACKED = (".gz", ".zst", ".bz2", ".lz4")
_MAGIC = ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrows"), (b"{", "jsonl"))
_ARRAY = re.compile(rb"\s*\[")
_ARRAY_OF_OBJECTS = re.compile(rb"\[\s*\{")


def format_of(name: str, given: str | None, option: str = "--format") -> str | None:
    """The format of a file: the given one, or the one of its suffix; None for `-` without either.

    Raises:
        CommandError: nothing says it; the text names the `option` that would.
    """
    if given is not None or name == "-":
        return given
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    found = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise CommandError(f"{name}: unknown suffix: use one of {', '.join(_SUFFIXES)}, or pass {option}")
    return found


def read(name: str, given: str | None, text_columns: Iterable[str]) -> pa.Table:
    """The table in a file.

    Args:
        name: the file, or `-`.
        given: its format; by suffix, if None; for `-`, by its first bytes, once it is unpacked.
        text_columns: columns of ids, which are text even where they look like numbers.
    """
    format_ = format_of(name, given, "--input-format")
    with _explained(name, format_):
        if name == "-":
            content = unpacked(pa.py_buffer(standard_input().buffer.read()))
            return _parsed(pa.BufferReader(content), format_ or _sniffed(content), text_columns)
        # Parquet and Arrow files need random access, and compress their columns themselves.
        packing = None if format_ in ("parquet", "arrow") else "detect"
        with pa.input_stream(name, compression=packing) if packing else pa.OSFile(name) as source:
            return _parsed(source, format_ or "csv", text_columns)


def batches(name: str, given: str | None, text_columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a file; those of a Parquet file a part at a time. Arguments as of `read`."""
    if format_of(name, given, "--input-format") != "parquet":
        yield from read(name, given, text_columns).to_batches()
        return
    with _explained(name, "parquet"), pq.ParquetFile(name) as source:
        yield from source.iter_batches()


@contextmanager
def _explained(name: str, format_: str | None) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CommandError(f"{name}: no such file") from error
    except IsADirectoryError as error:
        raise CommandError(f"{name}: this is a directory: name a file in it") from error
    except OSError as error:
        if isinstance(error, pa.ArrowException) or error.errno is None:
            raise _unreadable(name, format_, error) from error
        raise CommandError(f"{name}: {error.strerror or error}", Exit.UNAVAILABLE, "DH-STORAGE") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _unreadable(name, format_, error) from error


def _unreadable(name: str, format_: str | None, error: Exception) -> CommandError:
    said = " ".join(str(error).split())
    shown = "standard input" if name == "-" else name
    return CommandError(
        f"{shown}: this cannot be read as {format_ or 'a table'} ({said}): check it, or pass --input-format"
    )


def _sniffed(content: pa.Buffer) -> str:
    start = content.slice(0, min(64, content.size)).to_pybytes().lstrip()
    if not start or _ARRAY_OF_OBJECTS.match(start):
        return "jsonl"
    return next((format_ for magic, format_ in _MAGIC if start.startswith(magic)), "csv")


def _parsed(source: Any, format_: str, text_columns: Iterable[str]) -> pa.Table:
    if format_ == "parquet":
        # PyArrow's threads now and then abort a process that ends soon after.
        return pq.read_table(source, use_threads=False, pre_buffer=False)
    if format_ == "arrow":
        return pa.ipc.open_file(source).read_all()
    if format_ == "arrows":
        return pa.ipc.open_stream(source).read_all()
    if format_ == "csv":
        types = dict.fromkeys(text_columns, pa.string())
        return pc_csv.read_csv(source, convert_options=pc_csv.ConvertOptions(column_types=types))
    content = source.read()
    if not content.strip():
        # Without a line the columns are unknown, and an empty batch is no mistake.
        return pa.table({name: pa.array([], pa.string()) for name in list(text_columns)[:1]})
    return _json(content, text_columns)


def _json(content: bytes, text_columns: Iterable[str]) -> pa.Table:
    """JSON lines; ids keep their text, and a column of ids without values is left out."""
    if _ARRAY.match(content):
        raise pa.ArrowInvalid("it holds an array, and JSON input is one object a line, as `jq -c '.[]'` writes it")
    seen = pa_json.read_json(pa.BufferReader(content))
    ids = pa.schema([(name, pa.string()) for name in text_columns if name in seen.column_names])
    changed = any(seen.schema.field(field.name).type != field.type for field in ids)
    if not changed:
        return seen
    for name in ids.names:
        if pa.types.is_integer(seen.schema.field(name).type) or pa.types.is_floating(seen.schema.field(name).type):
            raise pa.ArrowInvalid(
                f"column {name} holds numbers, and ids are text: quote them, as `jq -c '.{name} |= tostring'` does"
            )
    # Text that looks like a time would be read as one.
    options = pa_json.ParseOptions(explicit_schema=ids)
    return pa_json.read_json(pa.BufferReader(content), parse_options=options)


class _Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class _JsonLines:
    def __init__(self, out: Any) -> None:
        self._out = out

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._out.write("".join(f"{as_json(row)}\n" for row in batch.to_pylist()).encode())

    def close(self) -> None:
        """Nothing is buffered."""


def write(
    name: str,
    given: str | None,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    force: bool = False,
    binary: str | None = None,
) -> int:
    """Write a table; answers the number of its rows. A file appears whole or not at all.

    Args:
        name: the file, or `-`.
        given: its format; by suffix, if None; JSON lines for `-`.
        schema: the columns; dictionaries are written as their values.
        batches: the rows.
        force: whether another file may be replaced.
        binary: how bytes are written where the format has text only: `base64`; None refuses them.
    """
    format_ = format_of(name, given) or "jsonl"
    plain = pa.schema([pa.field(one.name, _plain_type(one.type), one.nullable) for one in schema])
    is_text = format_ in ("csv", "jsonl")
    if is_text and binary is None:
        _check_text(name, format_, plain)
    elif not is_text and binary is not None:
        raise CommandError(f"{name}: {format_} holds bytes as they are: leave out --binary")
    rows = 0
    try:
        with _target(name, force=force) as out:
            writer = _writer(out, format_, _as_text(plain) if format_ == "csv" else plain)
            for batch in batches:
                for piece in _pieces(batch):
                    row = piece.cast(plain)
                    writer.write_batch(_in_base64(row) if format_ == "csv" else row)
                    rows += piece.num_rows
            writer.close()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        said = " ".join(str(error).split())
        raise CommandError(f"{name}: {format_} cannot hold these columns ({said}): use parquet or arrow") from error
    return rows


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    step = 16_384  # rows that become Python objects at one time
    return (batch.slice(start, step) for start in range(0, batch.num_rows, step))


def _check_text(name: str, format_: str, schema: pa.Schema) -> None:
    """Refuse bytes in a format that has text only: written as text, they would not come back."""
    found = [field.name for field in schema if _holds_bytes(field.type)]
    if found:
        raise CommandError(
            f"{name}: {format_} cannot hold the bytes of column {', '.join(found)}: write parquet or arrow, or pass "
            "--binary base64"
        )


def _holds_bytes(type_: Any) -> bool:
    within = [type_.field(n).type for n in range(type_.num_fields)]
    return _is_binary(type_) or any(_holds_bytes(one) for one in within)


def _is_binary(type_: Any) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(test(type_) for test in tests)


def _as_text(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(pa.string()) if _is_binary(field.type) else field for field in schema])


def _in_base64(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with bytes as base64, which JSON lines write so by themselves."""
    columns = [
        pa.array([None if value is None else base64(value) for value in column.to_pylist()], pa.string())
        if _is_binary(column.type)
        else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def binary_option(command: argparse.ArgumentParser) -> None:
    """Add the option `--binary` to a command that writes documents."""
    command.add_argument(
        "--binary", choices=["base64"], help="write bytes so in CSV and JSON lines, which have text only"
    )


def _plain_type(type_: Any) -> Any:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _writer(out: Any, format_: str, schema: pa.Schema) -> _Writer:
    made: Any
    if format_ == "parquet":
        made = pq.ParquetWriter(out, schema, compression="zstd")
    elif format_ == "arrow":
        made = pa.ipc.new_file(out, schema)
    elif format_ == "arrows":
        made = pa.ipc.new_stream(out, schema)
    elif format_ == "csv":
        made = pc_csv.CSVWriter(out, schema)
    else:
        made = _JsonLines(out)
    writer: _Writer = made
    return writer


@contextmanager
def _target(name: str, *, force: bool) -> Iterator[Any]:
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with draft(name, force=force) as path, pa.output_stream(str(path), compression="detect") as out:
        yield out


def with_columns(table: pa.Table, more: pa.Table, prefix: str) -> pa.Table:
    """The table with further columns after its own.

    Raises:
        CommandError: a column of that name exists already.
    """
    names = [prefix + name for name in more.column_names]
    if taken := [name for name in names if name in table.column_names]:
        raise CommandError(
            f"the file already has a column {', '.join(taken)}: pass a --prefix for the verdict's columns"
        )
    for name, column in zip(names, more.columns, strict=True):
        table = table.append_column(name, column)
    return table


def renames(given: Sequence[str]) -> dict[str, str]:
    """`uuid=my_id` and the like as a dictionary."""
    pairs = {}
    for one in given:
        known, equals, there = one.partition("=")
        if not (known and equals and there):
            raise CommandError(f"--column {one}: it must be NAME=COLUMN, as in --column uuid=order_id")
        pairs[known] = there
    return pairs


__all__ = ["FORMATS", "batches", "binary_option", "format_of", "read", "renames", "with_columns", "write"]
