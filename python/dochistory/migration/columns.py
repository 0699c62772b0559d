"""The rows of an old history in the form that `History.load` takes."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh

TimeUnit = Literal["s", "ms", "us"]

_OURS = ("completed", "processing")
_ROLES = ("trigger", "uuid", "status", "time")
_FIRST_US = 315_532_800_000_000
"""The beginning of 1980: no history is older."""
_SCHEMA = pa.schema(
    [
        ("trigger", pa.string()),
        ("uuid", pa.string()),
        ("status", pa.string()),
        ("started_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class Shape:
    """The columns and words of an old history."""

    columns: Mapping[str, str]
    statuses: Mapping[Any, str]
    time_unit: TimeUnit
    trigger: str | None

    def __post_init__(self) -> None:
        if unknown := [role for role in self.columns if role not in _ROLES]:
            raise dh.SchemaError(f"[DH-SCHEMA] columns names {unknown[0]!r}; an import looks at {', '.join(_ROLES)}")
        for value, means in self.statuses.items():
            if means not in _OURS:
                raise dh.SchemaError(
                    f"[DH-SCHEMA] statuses says that {value!r} means {means!r}; it must be {' or '.join(_OURS)}"
                )

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with columns `trigger`, `uuid`, `status`, `started_at` (null where nothing says it).

        Raises:
            SchemaError: [DH-SCHEMA] a column is missing or of an unsuitable type, or a status is
                unknown.
        """
        arrays = [self._trigger(batch), self._text(batch, "uuid"), self._status(batch), self._time(batch)]
        return pa.record_batch(arrays, schema=_SCHEMA)

    def none(self) -> pa.RecordBatch:
        """No rows."""
        return pa.RecordBatch.from_pylist([], schema=_SCHEMA)

    def _named(self, batch: pa.RecordBatch, role: str) -> tuple[str, pa.Array | None]:
        name = self.columns.get(role, role)
        if (count := batch.schema.names.count(name)) > 1:
            raise dh.SchemaError(f"[DH-SCHEMA] the rows have {count} columns {name!r} ({role}): give them other names")
        if count:
            return name, batch.column(name)
        if role in self.columns:
            # Were it taken as absent, all would be completed, or would have begun now.
            raise _missing(name, role, batch)
        if alike := [other for other in batch.schema.names if other.lower() == role]:
            raise dh.SchemaError(
                f"[DH-SCHEMA] there is a column {alike[0]!r}, and it would be passed over: give it the name {role!r}, "
                f"or name it with columns={{{role!r}: {alike[0]!r}}}"
            )
        return name, None

    def _text(self, batch: pa.RecordBatch, role: str) -> pa.Array:
        name, found = self._named(batch, role)
        if found is None:
            raise _missing(name, role, batch)
        try:
            return _texts_of_uuids(found) if _holds_uuids(found.type) else found.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise dh.SchemaError(f"[DH-SCHEMA] column {name!r} is {found.type}; needed is text ({error})") from error

    def _trigger(self, batch: pa.RecordBatch) -> pa.Array:
        if self.trigger is not None:
            self._check_only(batch)
            return pa.array([self.trigger] * batch.num_rows, pa.string())
        return self._text(batch, "trigger")

    def _check_only(self, batch: pa.RecordBatch) -> None:
        """With one trigger for all rows, a column of triggers names one at most."""
        name = self.columns.get("trigger", "trigger")
        if batch.schema.names.count(name) != 1:
            return
        names = batch.column(name).unique().drop_null().cast(pa.string()).to_pylist()
        if len(names) > 1:
            raise dh.SchemaError(
                f"[DH-SCHEMA] column {name!r} names {names[0]!r} and {names[1]!r}, and all rows would become entries "
                f"of {self.trigger!r}: give a trigger for each name, or the rows of one of them"
            )

    def _status(self, batch: pa.RecordBatch) -> pa.Array:
        name, found = self._named(batch, "status")
        if found is None and self.statuses:
            raise _missing(name, "status", batch)
        if found is None:
            return pa.array(["completed"] * batch.num_rows, pa.string())
        texts = found.cast(pa.string())
        ours = {**{text: text for text in _OURS}, **{text.upper(): text for text in _OURS}}
        known = ours | {_as_text(value): means for value, means in self.statuses.items()}
        place = pc.index_in(texts, value_set=pa.array(list(known), pa.string()))
        if place.null_count:
            row = pc.index(place.is_null(), True).as_py()
            raise dh.SchemaError(
                f"[DH-SCHEMA] column {name!r} holds {texts[row].as_py()!r}; known values are {', '.join(known)}: "
                "say what it means (statuses={…: 'completed'}, or --status-value VALUE=completed)"
            )
        return pa.array(list(known.values()), pa.string()).take(place)

    def _time(self, batch: pa.RecordBatch) -> pa.Array:
        wanted = _SCHEMA.field("started_at").type
        name, found = self._named(batch, "time")
        if found is None:
            return pa.nulls(batch.num_rows, wanted)
        try:
            if pa.types.is_integer(found.type):
                found = self._plausible(name, found, found.cast(pa.int64()).cast(pa.timestamp(self.time_unit)))
            if pa.types.is_floating(found.type) or pa.types.is_decimal(found.type):
                found = self._plausible(name, found, self._microseconds(found).cast(pa.timestamp("us")))
            if pa.types.is_string_view(found.type):  # what Polars gives
                found = found.cast(pa.string())
            if pa.types.is_string(found.type) or pa.types.is_large_string(found.type):
                found = _times_of_texts(found)
            if pa.types.is_timestamp(found.type) and found.type.tz is None:
                found = pc.assume_timezone(found, "UTC")
            # Parts of microseconds are cut off; a number in a wrong unit must not become another time.
            return found.cast(options=pc.CastOptions(wanted, allow_time_truncate=True))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise dh.SchemaError(f"[DH-SCHEMA] column {name!r} is {found.type}; needed is a time ({error})") from error

    def _plausible(self, name: str, numbers: pa.Array, times: pa.Array) -> pa.Array:
        """These times: the next purge would take entries of 1970, as seconds are that pass for milliseconds."""
        least = pc.min(times)
        if self.time_unit != "s" and least.is_valid and least.cast(pa.timestamp("us")).value < _FIRST_US:
            number = numbers[pc.index(times, least).as_py()].as_py()
            raise dh.SchemaError(
                f"[DH-SCHEMA] column {name!r} holds {number}, which in {self.time_unit!r} is in {least.as_py().year}: "
                "name the unit of these numbers (time_unit='s', or --time-unit s)"
            )
        return times

    def _microseconds(self, numbers: pa.Array) -> pa.Array:
        """What databases call a number: `extract(epoch from …)` gives decimals, and `time.time()` a float."""
        factor = {"s": 1_000_000, "ms": 1_000, "us": 1}[self.time_unit]
        return pc.round(pc.multiply(numbers.cast(pa.float64()), float(factor))).cast(pa.int64())


def _as_text(value: object) -> str:
    """As Arrow writes a value of a column: databases call a status by a number, too."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _missing(name: str, role: str, batch: pa.RecordBatch) -> dh.SchemaError:
    one = ", or give one trigger for all rows" if role == "trigger" else ""
    there = ", ".join(batch.schema.names)
    return dh.SchemaError(
        f"[DH-SCHEMA] the rows have no column {name!r}, but {there}: say which column holds the {role}, as in "
        f"columns={{{role!r}: 'my_{role}'}}{one}"
    )


def _holds_uuids(type_: pa.DataType) -> bool:
    """Whether a column holds UUIDs as 16 bytes, as Parquet and most databases' exports do."""
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    return bool(pa.types.is_fixed_size_binary(type_) and type_.byte_width == 16)


def _texts_of_uuids(found: pa.Array) -> pa.Array:
    packed = found.storage if isinstance(found, pa.ExtensionArray) else found
    return pa.array([one and str(uuid.UUID(bytes=one)) for one in packed.to_pylist()], pa.string())


def _times_of_texts(texts: pa.Array) -> pa.Array:
    """SQLite has times as text only, mostly without a zone: in UTC, then."""
    try:
        return texts.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us"))
