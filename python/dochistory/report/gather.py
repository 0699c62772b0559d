"""Reading a history, and a journal if there is one, for a report."""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory import overview
from dochistory._damage import figures_beside_damage, split
from dochistory.report.model import Bar, Doubt, Kept, Partition, Report, TriggerReport, Verdicts

_GRAINS = {1: "second", 60: "minute", 3_600: "hour"}
_WIDTHS = [1, 5, 15, 60, 300, 900, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 28 * 86_400, 365 * 86_400]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MOST_BARS = 60
_TIME = pa.timestamp("us", "UTC")


def gather(
    history: dh.History,
    *,
    journal: str | Path | pa.Table | None = None,
    trigger: str | None = None,
    doubts: int = 200,
    now: dt.datetime | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Report:
    """Read the data of a report. Goes through all entries: some seconds for many millions.

    Args:
        history: the history; one that is open for reading is enough.
        journal: the journal's records: a directory of Parquet files or a file of JSON lines, as
            written by `dochistory.journal`'s sinks, or a table. Without it, the report has no
            verdicts.
        trigger: this trigger only; all, if absent.
        doubts: the number of documents in doubt to list for each trigger, the oldest first.
        now: the time taken as now.
        progress: called with (entries read, entries in all).

    Returns:
        Report: the data of the page. A damaged trigger is named, and hides no other.

    Raises:
        ConfigError: [DH-CONFIG] the history has no trigger of that name.
        CorruptError: [DH-CORRUPT] the named trigger is damaged.
        SchemaError: [DH-SCHEMA] the journal is not a journal.
    """
    at = now or dt.datetime.now(dt.UTC)
    figures, _ = figures_beside_damage(history)
    names = sorted(figures["triggers"]) if trigger is None else [trigger]
    records = None if journal is None else _journal(journal, names)
    chosen = {name: figures["triggers"].get(name) or history.stats(name) for name in names}
    grain = _grain(chosen, at)
    scan = _Scan(doubts, grain, sum(map(_entries, chosen.values())), progress)
    if trigger is None:
        read, _ = split(names, lambda name: scan.read(history, name))
        names = list(read)
    else:
        scan.read(history, trigger)
    begun = scan.begun
    told = {status: _counted(records, status, grain) for status in ("DUPLICATE", "IN_DOUBT")}
    width = _width([*begun, *told["DUPLICATE"], *told["IN_DOUBT"]], grain)
    return Report(
        path=str(figures["path"]),
        created_at=figures["created_at"],
        at=at,
        version=dh.__version__,
        overview=overview.look(history, trigger=trigger, now=at),
        triggers=[_of(history, name, chosen[name], scan, at) for name in names],
        bars=_bars([begun, told["DUPLICATE"], told["IN_DOUBT"]], width),
        bar_width=dt.timedelta(seconds=width),
        verdicts=[] if records is None else _verdicts(records),
        has_journal=records is not None,
    )


def _entries(figures: Mapping[str, Any]) -> int:
    found: int = figures["segment_entries"] + figures["log_entries"]
    return found


class _Scan:
    """One pass over the entries: how many began when, and the oldest that have not ended."""

    def __init__(self, doubts: int, grain: int, total: int, progress: Callable[[int, int], object] | None) -> None:
        self.most = doubts
        self._grain = grain
        self._total = total
        self._progress = progress
        self._read = 0
        self.begun: Counter[int] = Counter()
        self.entries: Counter[str] = Counter()
        self.processing: Counter[str] = Counter()
        self.oldest: dict[str, pa.Table] = {}

    def read(self, history: dh.History, name: str) -> None:
        """Go through the entries of a trigger."""
        for batch in history.entries(name):
            self.begun.update(_by_time(batch["started_at"].cast(_TIME), self._grain))
            self.entries[name] += batch.num_rows
            self._keep(name, batch.filter(pc.equal(batch["status"].cast(pa.string()), "processing")))
            self._read += batch.num_rows
            if self._progress is not None:
                self._progress(self._read, self._total)

    def _keep(self, name: str, open_: pa.RecordBatch) -> None:
        self.processing[name] += open_.num_rows
        found = pa.table({"key": open_["key"].cast(pa.string()), "started_at": open_["started_at"].cast(_TIME)})
        kept = [self.oldest[name]] if name in self.oldest else []
        self.oldest[name] = pa.concat_tables([*kept, found]).sort_by("started_at").slice(0, self.most)


def _grain(figures: Mapping[str, Mapping[str, Any]], at: dt.datetime) -> int:
    """The grain of times in seconds: coarse enough for a Python loop, and finer than a bar."""
    oldest = min((one["oldest_started_at"] for one in figures.values() if one["oldest_started_at"]), default=at)
    return next((grain for grain in _GRAINS if (at - oldest).total_seconds() < 10_000 * grain), 86_400)


def _by_time(times: Any, grain: int) -> dict[int, int]:
    """The number of times in each grain, by its first second."""
    counted = pc.value_counts(pc.floor_temporal(times, unit=_GRAINS.get(grain, "day")))
    starts = pc.divide(counted.field("values").cast(pa.int64()), 1_000_000).to_pylist()
    return dict(zip(starts, counted.field("counts").to_pylist(), strict=True))


def _counted(records: pa.Table | None, status: str, grain: int) -> dict[int, int]:
    if records is None:
        return {}
    return _by_time(records.filter(pc.equal(records["status"], status))["time"].combine_chunks(), grain)


def _of(history: dh.History, name: str, figures: Mapping[str, Any], scan: _Scan, at: dt.datetime) -> TriggerReport:
    time_to_live: dt.timedelta = figures["history_time_to_live"]
    none = {"entries": 0, "log_entries": 0, "bytes": 0, "segments": 0}
    gone = history.purge(name, now=at, dry_run=True).get(name, none)
    waiting = _waiting(history, name)
    doubts = scan.oldest[name].to_pylist() if name in scan.oldest else []
    return TriggerReport(
        name=name,
        time_to_live=time_to_live,
        entries=scan.entries[name],
        completed=scan.entries[name] - scan.processing[name],
        bytes=figures["segment_bytes"] + figures["log_bytes"] + figures["filter_bytes"],
        segments=figures["segments"],
        oldest=figures["oldest_started_at"],
        partitions=[
            Partition(**one, expires_at=one["start"] + figures["partition"] + time_to_live)
            for one in figures["partitions"]
        ],
        in_log=figures["log_entries"],
        doubts=[Doubt(row["key"], row["started_at"], at - row["started_at"]) for row in doubts],
        doubts_in_all=scan.processing[name],
        purge_entries=gone["entries"],
        purge_log_entries=gone["log_entries"],
        purge_bytes=gone["bytes"],
        purge_log_bytes=figures["log_bytes"] * gone["log_entries"] // max(figures["log_entries"], 1),
        purge_segments=gone["segments"],
        kept=waiting[: scan.most],
        kept_in_all=len(waiting),
    )


def _waiting(history: dh.History, name: str) -> list[Kept]:
    """What waits in the audit log, the oldest first."""
    columns = ["number", "key", "rule", "state", "time"]
    rows = history.audit.list(name).select(columns).to_pylist()
    return [Kept(**row) for row in rows if row["state"] in overview.WAITING]


def _journal(source: str | Path | pa.Table, names: list[str]) -> pa.Table:
    wanted = ["time", "trigger", "status", "rule"]
    try:
        table = source if isinstance(source, pa.Table) else _read(Path(source))
        plain = table.select(wanted)
        plain = pa.table({name: plain[name].cast(_TIME if name == "time" else pa.string()) for name in wanted})
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
        raise dh.SchemaError(
            f"[DH-SCHEMA] {source}: not a journal, which has the columns {', '.join(wanted)} ({error})"
        ) from error
    return plain.filter(pc.is_in(plain["trigger"], value_set=pa.array(names, pa.string())))


def _read(path: Path) -> pa.Table:
    import pyarrow.dataset as ds  # here, for it brings pandas along, which no other command needs

    if not path.exists():
        raise dh.SchemaError(f"[DH-SCHEMA] {path}: no journal here")
    if path.is_dir():
        return ds.dataset(sorted(map(str, path.glob("**/*.parquet"))), format="parquet").to_table()
    if path.suffix in (".jsonl", ".ndjson", ".json"):
        return ds.dataset(str(path), format="json").to_table()
    return ds.dataset(str(path), format="parquet").to_table()


def _width(moments: list[int], grain: int) -> int:
    """The width of a bar in seconds: the smallest that gives few enough bars."""
    span = max(moments) - min(moments) if moments else 0
    return next((width for width in _WIDTHS if width >= grain and span / width < _MOST_BARS), _WIDTHS[-1])


def _bars(kinds: list[dict[int, int]], width: int) -> list[Bar]:
    counts: list[Counter[int]] = []
    for kind in kinds:
        counts.append(Counter())
        for second, count in kind.items():
            counts[-1][second // width] += count
    places = {place for kind in counts for place in kind}
    if not places:
        return []
    first = max(min(places), max(places) - _MOST_BARS)
    return [
        Bar(_EPOCH + dt.timedelta(seconds=place * width), *(kind[place] for kind in counts))
        for place in range(first, max(places) + 1)
    ]


def _verdicts(records: pa.Table) -> list[Verdicts]:
    columns = ["trigger", "status", "rule"]
    counted = records.group_by(columns).aggregate([([], "count_all")])
    ordered = counted.sort_by([("trigger", "ascending"), ("count_all", "descending")])
    return [Verdicts(row["trigger"], row["status"], row["rule"], row["count_all"]) for row in ordered.to_pylist()]
