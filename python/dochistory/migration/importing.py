"""Import, and the comparison of both sides' answers."""

import datetime as dt
import random
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory.migration.columns import Shape, TimeUnit
from dochistory.migration.sources import Source
from dochistory.settings import stored_settings

_DIFFERENCES = pa.schema(
    [("trigger", pa.string()), ("uuid", pa.string()), ("there", pa.string()), ("here", pa.string())]
)
_ANSWERS = {"completed": "DUPLICATE", "processing": "IN_DOUBT", None: "NEW"}


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    rows: int
    """Rows read."""
    loaded: dict[str, int]
    """Rows put into the history, by the trigger's name in the rows; without those left out because it knew them."""
    checked: int
    """Ids about which both sides were asked, those included that neither may know."""
    differences: pa.Table
    """The ids about which they differ: `trigger`, `uuid`, `there` and `here` (NEW, DUPLICATE, IN_DOUBT)."""


def import_history(
    history: dh.History,
    source: Source,
    triggers: dh.Trigger | Mapping[str, dh.Trigger] | Callable[[str], dh.Trigger],
    *,
    columns: Mapping[str, str] | None = None,
    statuses: Mapping[Any, str] | None = None,
    time_unit: TimeUnit = "ms",
    sample: int = 10_000,
    seed: int | None = None,
    now: dt.datetime | None = None,
    progress: Callable[[int], object] | None = None,
) -> Imported:
    """Import the rows of another history, and compare both sides' answers about a sample of ids.

    An id of several rows is completed if one of them is, as in this history. Importing again
    changes no entry, so an import that was interrupted is simply started again. Rows without a time
    whose ids are known as completed are not loaded again, so that their time to live does not start
    again.

    Args:
        history: where the entries go.
        source: the rows: `migration.rows_of(table)`, `migration.dbapi(connect, query)`, or any
            function that answers record batches from the beginning each time. Columns: `trigger`
            (text; not needed with one trigger), `uuid` (text, at most 96 characters, or a UUID as
            16 bytes), `status` (completed or processing; all completed, if absent), `time` (when
            the service began: a timestamp, UTC if it has no zone, or a number of `time_unit`; now,
            if absent or null).
        triggers: the only trigger, or the triggers by the names in the rows, or a function that
            answers the trigger of such a name. They may be called otherwise here.
        columns: other names of those columns, role -> name.
        statuses: the meaning of other values of `status`, texts or numbers:
            `{"P": "processing", "C": "completed"}`.
        time_unit: the unit of numbers in `time`, which count since 1970.
        sample: the number of ids of the source to compare, chosen at random; a tenth of that number
            of unused ids is compared too. 0 for none.
        seed: makes the choice reproducible.
        now: the time taken as now.
        progress: called with the number of rows read so far, after each batch.

    Returns:
        Imported: the number of rows read and imported, and the differences between both sides.

    Raises:
        ConfigError: [DH-CONFIG] a row names a trigger that `triggers` lacks.
        SchemaError: [DH-SCHEMA] a column is missing or of the wrong type, or a status is unknown.
            Rows that were loaded before stay.
    """
    only = triggers.name if isinstance(triggers, dh.Trigger) else None
    shape = Shape(columns or {}, statuses or {}, time_unit, only)
    chosen = _Sample(sample, random.Random(seed))  # noqa: S311 - a sample keeps no secret
    waiting = _Waiting(history, triggers, now or dt.datetime.now(dt.UTC))
    rows = 0
    for batch in source():
        plain = shape.plain(batch)
        waiting.add(plain, rows)
        chosen.see(plain)
        rows += plain.num_rows
        if progress is not None:
            progress(rows)
    waiting.load()
    checked, differences = _compare(history, source, shape, chosen, waiting.name_of)
    return Imported(rows, dict(waiting.loaded), checked, differences)


def first_rows(
    source: Source,
    trigger: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    statuses: Mapping[Any, str] | None = None,
    time_unit: TimeUnit = "ms",
) -> pa.RecordBatch:
    """The first batch of rows as `import_history` would read it: a look before anything is made for them.

    Args:
        source: as in `import_history`.
        trigger: the name of the only trigger; None where the column `trigger` says.
        columns: as in `import_history`.
        statuses: as in `import_history`.
        time_unit: as in `import_history`.

    Returns:
        pyarrow.RecordBatch: `trigger`, `uuid`, `status`, `started_at` (null where nothing
            says it); no row if there is none.

    Raises:
        SchemaError: [DH-SCHEMA] a column is missing or of the wrong type, or a status is unknown.
    """
    shape = Shape(columns or {}, statuses or {}, time_unit, trigger)
    return next((shape.plain(batch) for batch in source()), shape.none())


class _Waiting:
    """Rows to be loaded into the history: loading few at a time would make many small files."""

    MOST = 2_000_000

    def __init__(
        self,
        history: dh.History,
        triggers: dh.Trigger | Mapping[str, dh.Trigger] | Callable[[str], dh.Trigger],
        now: dt.datetime,
    ) -> None:
        self._history = history
        self._triggers = triggers
        self._now = now
        self._known: dict[str, dh.Trigger] = {}
        self._parts: dict[str, list[pa.RecordBatch]] = {}
        self._rows = 0
        self.loaded: Counter[str] = Counter()

    def add(self, batch: pa.RecordBatch, before: int) -> None:
        """Add a batch, of which `before` rows were read already."""
        for name in pc.unique(batch["trigger"]).to_pylist():
            if name not in self._known:
                self._known[name] = self._trigger(name, before)
            self._parts.setdefault(name, []).append(batch.filter(pc.equal(batch["trigger"], name)))
        self._rows += batch.num_rows
        if self._rows >= self.MOST:
            self.load()

    def name_of(self, name: str) -> str:
        """What the trigger of rows that name `name` is called here; of rows that came since, nobody knows."""
        return self._known[name].name if name in self._known else name

    def _trigger(self, name: str | None, before: int) -> dh.Trigger:
        if name is None:
            raise dh.SchemaError(f"[DH-SCHEMA] of the rows from {before:,} on, some name no trigger: fix or drop them")
        if isinstance(self._triggers, dh.Trigger):
            return self._triggers
        if not isinstance(self._triggers, Mapping):
            return self._triggers(name)
        if name in self._triggers:
            return self._triggers[name]
        raise dh.ConfigError(
            f"[DH-CONFIG] of the rows from {before:,} on, some name the trigger {name!r}, which is not described; "
            f"there are {', '.join(sorted(self._triggers)) or 'none'}: describe it with its time to live"
        )

    def load(self) -> None:
        """Load the waiting rows into the history."""
        for name, parts in self._parts.items():
            rows = self._news(pa.Table.from_batches(parts), self.name_of(name))
            self.loaded[name] += rows.num_rows
            if rows.num_rows:
                self._history.load(rows, self._known[name], now=self._now)
        self._parts.clear()
        self._rows = 0

    def _news(self, rows: pa.Table, name: str) -> pa.Table:
        """The rows without known ones that a load would begin again each time.

        These are begun ones, and completed ones without a time, whose time to live would start
        again.
        """
        is_open = pc.equal(rows["status"], "processing")
        is_timeless = pc.and_(pc.invert(is_open), pc.is_null(rows["started_at"]))
        begun, timeless = rows.filter(is_open), rows.filter(is_timeless)
        # The load refuses rows without a usable key.
        begun = begun.filter(pc.is_in(self._rules(begun, name), value_set=pa.array(["R8", "R3", "R4"])))
        timeless = timeless.filter(pc.not_equal(self._rules(timeless, name), "R9"))
        return pa.concat_tables([rows.filter(pc.invert(pc.or_(is_open, is_timeless))), begun, timeless])

    def _rules(self, rows: pa.Table, name: str) -> pa.ChunkedArray:
        """The rules by which the history judges the rows' ids."""
        if not rows.num_rows:
            return pa.chunked_array([], pa.string())
        return self._history.classify(rows.select(["uuid"]), _presence(self._history, name))["rule"].cast(pa.string())


def _presence(history: dh.History, name: str) -> dh.Trigger:
    """A trigger that asks only for presence, whatever its settings for copies and resolvers."""
    stored = stored_settings(history, name)
    return dh.Trigger(name, detect_duplicates=True, use_history=True, in_batch="duplicate", **stored)


class _Sample:
    """Rows chosen at random from a stream, each with the same chance: those with the lowest random numbers."""

    def __init__(self, size: int, chance: random.Random) -> None:
        self.size = size
        self.chance = chance
        self._highest = 1.0
        self._rows = pa.table(
            {"trigger": pa.array([], pa.string()), "uuid": pa.array([], pa.string()), "lot": pa.array([], pa.float64())}
        )

    def see(self, batch: pa.RecordBatch) -> None:
        """Draw random numbers for a batch's rows."""
        lots = pc.random(batch.num_rows, initializer=self.chance.getrandbits(32))
        drawn = pa.table({"trigger": batch["trigger"], "uuid": batch["uuid"], "lot": lots})
        drawn = drawn.filter(pc.less(drawn["lot"], self._highest))
        self._rows = pa.concat_tables([self._rows, drawn]).sort_by("lot").slice(0, self.size)
        if self._rows.num_rows and self._rows.num_rows == self.size:
            self._highest = self._rows["lot"][-1].as_py()

    def keys(self) -> dict[str, list[str]]:
        """The ids by trigger, and a tenth as many unused ones."""
        found: dict[str, set[str]] = {}
        for row in self._rows.to_pylist():
            found.setdefault(row["trigger"], set()).add(row["uuid"])
        strangers = {
            name: [str(uuid.UUID(int=self.chance.getrandbits(128), version=4)) for _ in range(len(keys) // 10 + 1)]
            for name, keys in found.items()
        }
        return {name: sorted(keys) + strangers[name] for name, keys in sorted(found.items())}


def _compare(
    history: dh.History, source: Source, shape: Shape, chosen: _Sample, name_of: Callable[[str], str]
) -> tuple[int, pa.Table]:
    """Ask both sides about the sample; the source by another pass, because other rows may tell more about an id."""
    keys = chosen.keys()
    if not keys:
        return 0, _DIFFERENCES.empty_table()
    there = _known_there(source, shape, keys, name_of)
    found = []
    for name, asked in keys.items():
        ours = name_of(name)
        here = history.classify(pa.table({"uuid": asked}), _presence(history, ours))["status"].to_pylist()
        said = [_ANSWERS[there.get((ours, key))] for key in asked]
        rows = zip(asked, said, here, strict=True)
        found += [(name, key, one, other) for key, one, other in rows if one != other]
    columns = list(zip(*found, strict=True)) or [()] * len(_DIFFERENCES)
    arrays = [pa.array(column, pa.string()) for column in columns]
    return sum(map(len, keys.values())), pa.Table.from_arrays(arrays, schema=_DIFFERENCES)


def _known_there(
    source: Source, shape: Shape, keys: dict[str, list[str]], name_of: Callable[[str], str]
) -> dict[tuple[str, str], str]:
    """What the source says of ids, by the names that triggers have here: several there may be one here."""
    wanted = pa.array(sorted({key for some in keys.values() for key in some}), pa.string())
    found: dict[tuple[str, str], str] = {}
    for batch in source():
        plain = shape.plain(batch)
        rows = plain.filter(pc.is_in(plain["uuid"], value_set=wanted)).to_pylist()
        for row in rows:
            place = (name_of(row["trigger"]), row["uuid"])
            if found.get(place) != "completed":
                found[place] = row["status"]
    return found
