"""Ids as people have them: text, `uuid.UUID`, bytes; and documents as lists of dicts."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory import _columns

Id = str | bytes | uuid.UUID | None
"""What an id may be; bytes are UTF-8 text."""

ROLES = ("uuid", "track_id", "event_id", "jms_message_id")
"""The columns that hold ids, under the trigger's own names."""


def text_of(given: object, name: str = "the id") -> str | None:
    """An id as text, as the history compares it.

    Raises:
        SchemaError: [DH-SCHEMA] it is no id: neither text nor a UUID nor UTF-8, or text with half a
            character.
    """
    if given is None:
        return None
    if isinstance(given, str):
        if not given.isascii():
            _check_whole(given, name)
        return given
    if isinstance(given, uuid.UUID):
        return str(given)
    if isinstance(given, bytes | bytearray | memoryview):
        try:
            return bytes(given).decode()
        except UnicodeDecodeError:
            raise dh.SchemaError(
                f"[DH-SCHEMA] {name} is {bytes(given)!r}, which is not UTF-8: give a packed UUID as "
                "uuid.UUID(bytes=…), other bytes as their .hex()"
            ) from None
    raise dh.SchemaError(f"[DH-SCHEMA] {name} is a {type(given).__name__}; allowed is text, a uuid.UUID, or bytes")


def _check_whole(given: str, name: str) -> None:
    try:
        given.encode()
    except UnicodeEncodeError:
        raise dh.SchemaError(
            f"[DH-SCHEMA] {name} is {given!r}, which is no valid text: it holds a lone surrogate, half a character, as "
            "JSON's escapes can spell it"
        ) from None


def table_of(documents: Any, columns: Mapping[str, str] | None = None) -> Any:
    """Documents as Arrow takes them; a list of dicts becomes a table, all else stays as it is.

    Raises:
        SchemaError: [DH-SCHEMA] the dicts make no table.
    """
    if isinstance(documents, pa.RecordBatch | pa.Table):
        return documents
    if not isinstance(documents, Sequence) or isinstance(documents, str | bytes):
        return _columns.table_of(documents)
    if wrong := next((one for one in documents if not isinstance(one, Mapping)), None):
        raise dh.SchemaError(f"[DH-SCHEMA] a {type(wrong).__name__} is not a document: pass dicts, or a table")
    ids = {(columns or {}).get(role, role) for role in ROLES}
    if not documents:
        return pa.table({name: pa.array([], pa.string()) for name in ids})
    names = dict.fromkeys(name for document in documents for name in document)
    try:
        return pa.table({name: _column(documents, name, name in ids) for name in names})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise dh.SchemaError(f"[DH-SCHEMA] these documents make no table: {error}") from error


def _column(documents: Sequence[Mapping[str, Any]], name: str, is_id: bool) -> pa.Array:
    values = [document.get(name) for document in documents]
    if is_id:
        return pa.array([text_of(value, f"column {name}") for value in values], pa.string())
    return pa.array([str(value) if isinstance(value, uuid.UUID) else value for value in values])
