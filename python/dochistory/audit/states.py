"""The states of documents: the last change of each, by columns."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

STATES = ("open", "process", "resubmitting", "cut_off", "resubmitted", "duplicate")
"""All states, as they follow each other."""

UNDONE = "released"
"""The outcome of a resubmission that changes nothing: nothing was begun, or all was undone."""

CHANGES = pa.schema(
    [
        ("number", pa.int64()),
        ("state", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("note", pa.string()),
        ("event", pa.int64()),
    ]
)


def change(event: pa.Table, number: int) -> pa.Table:
    """One event's rows, in the columns of `with_states`."""
    size = event.num_rows
    columns = {
        name: event[name] if name in event.column_names else pa.nulls(size, pa.string()) for name in CHANGES.names[:-1]
    }
    return pa.table({**columns, "event": pa.repeat(number, size)}, schema=CHANGES)


def outcome(resubmission: pa.Table, state: str) -> pa.Table:
    """The rows of a resubmission, all with one outcome, those found to be duplicates too."""
    size = resubmission.num_rows
    now = pa.scalar(dt.datetime.now(dt.UTC), pa.timestamp("us", "UTC"))
    return pa.table({"number": resubmission["number"], "state": pa.repeat(state, size), "time": pa.repeat(now, size)})


def end_of(number: int, progress: tuple[int, str] | None) -> str:
    """The end of the resubmission of this number, according to the history's transactions."""
    if progress is None or progress[0] < number:
        return UNDONE
    if progress[0] > number:
        # Only a restored backup can get here; it must not guess what it does not know.
        return "cut_off"
    return {"begun": "cut_off", "completed": "resubmitted", "released": UNDONE}[progress[1]]


def with_states(kept: pa.Table, changes: pa.Table) -> pa.Table:
    """The documents with the last change of each, and the last decision: `state`, `changed_at`, `by`, `note`."""
    changes = changes.filter(pc.not_equal(changes["state"], UNDONE))
    last = _last(changes)
    # The end of a resubmission names nobody.
    decided = _last(changes.filter(pc.is_valid(changes["by"])))

    def of(found: pa.Table, column: str) -> Any:
        return _flat(found[column]).take(pc.index_in(kept["number"], value_set=_flat(found["number"])))

    return (
        kept.append_column("state", pc.fill_null(of(last, "state"), "open"))
        .append_column("changed_at", of(last, "time"))
        .append_column("by", of(decided, "by"))
        .append_column("note", of(decided, "note"))
    )


def _last(changes: pa.Table) -> pa.Table:
    """The last of these changes of each document."""
    last = changes.group_by("number", use_threads=False).aggregate([("event", "max")])
    last = last.rename_columns({"event_max": "event"})
    # An event has one row for each document, so this keeps one row of each.
    return last.join(changes, ["number", "event"], join_type="left outer") if last.num_rows else changes


def _flat(column: Any) -> Any:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
