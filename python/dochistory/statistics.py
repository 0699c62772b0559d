"""Exactly-once statistics: the verdicts on documents, by trigger, kept beside the history or on this machine.

```python
statistics = dh.Statistics(history)                  # or its directory or URL
claim = history.begin(documents, trigger)
statistics.add(claim.verdicts, trigger)              # once a batch
statistics.summary(history)["orders"]                # new, duplicate, in_doubt by rule, in progress, next purge
statistics.documents(trigger, status="IN_DOUBT")     # the newest of them
statistics.clear(trigger)                            # touches no entry of the history
```

Counts are exact. `add` writes one line to a file before it returns, so counts survive restarts and
killed processes; it does not sync, so a power failure may lose the last seconds. The list of
documents is bounded: the newest of each trigger, and of one batch a sample spread over it. Several
processes may add and clear at once.

The file of a history in a directory is in that directory. That of a history in a bucket is in a
directory of this machine (`suspension.state_directory`), so that counting asks nothing of the
store. It has what this machine's processes counted. Prometheus sums machines.
"""

import datetime as dt
import errno
import fcntl
import json
import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

import dochistory as dh
from dochistory import _columns, _files, metrics, sweeper
from dochistory._place import Place

__all__ = ["COUNTS", "DOCUMENTS", "Statistics"]

COUNTS = pa.schema(
    [
        ("trigger", pa.string()),
        ("status", pa.string()),
        ("action", pa.string()),
        ("rule", pa.string()),
        ("count", pa.int64()),
    ]
)
"""The columns of `Statistics.counts`; `status` is null where a document was suspended or rejected."""

DOCUMENTS = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("trigger", pa.string()),
        ("key", pa.string()),
        ("name", pa.string()),
        ("status", pa.string()),
        ("rule", pa.string()),
    ]
)
"""The columns of `Statistics.documents`; `name` is that of the document, null if its batch has no column of names."""

_COMPACT_BYTES = 4 << 20
"""A file that has grown by so much since it was last put together is put together again."""

_Key = tuple[str | None, str, str]


@dataclass
class _Held:
    """The state of one trigger."""

    most: int
    counts: Counter[_Key] = field(default_factory=Counter)
    documents: deque[list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.documents = deque(maxlen=self.most)


class Statistics:
    """Counts of verdicts, and lists of documents that were not NEW, of one history.

    Args:
        history: the history, its directory, or the URL of its bucket.
        most_documents: the maximum number of listed documents of a trigger.
        most_per_batch: the maximum number of documents that one batch adds to the list, for each
            status.
        state: of a bucket, the directory of the state; that of the machine, if absent.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense, or `state` is given for a directory.
    """

    def __init__(
        self,
        history: dh.History | str | os.PathLike[str],
        *,
        most_documents: int = 1_000,
        most_per_batch: int = 100,
        state: str | os.PathLike[str] | None = None,
    ) -> None:
        if most_documents < 0 or most_per_batch < 0:
            raise dh.ConfigError("[DH-CONFIG] most_documents and most_per_batch must be 0 or more")
        self._at = Place.of(history)
        self._path = self._at.figures(state)
        self._file = self._path / "statistics" / "verdicts.jsonl"
        self._most = most_documents
        self._per_batch = most_per_batch

    def __repr__(self) -> str:
        return f"<Statistics of {self._at.name!r}>"

    @property
    def path(self) -> Path:
        """The directory with the files: that of the history; for a bucket, one of this machine."""
        return self._path

    @property
    def url(self) -> str | None:
        """The URL of a history in a bucket; None for one in a directory."""
        return self._at.name if self._at.directory is None else None

    def _repr_html_(self) -> str:
        return import_module("dochistory.notebook").statistics_html(self)  # type: ignore[no-any-return]

    def add(
        self,
        verdicts: Any,
        trigger: dh.Trigger | str,
        *,
        documents: Any = None,
        name: str = "document_name",
        now: dt.datetime | None = None,
    ) -> None:
        """Count the verdicts of one batch; each batch once.

        Args:
            verdicts: what `classify` answered, or `claim.verdicts`.
            trigger: whose documents they are.
            documents: the batch, if it has a column with the documents' names for the list.
            name: that column.
            now: the time; the clock's, if absent.

        Raises:
            SchemaError: [DH-SCHEMA] these are no verdicts, or documents and verdicts are not of one
                batch.
            StorageError: [DH-IO] the operating system refused.
        """
        judged = _columns.verdicts_of(verdicts)
        if not judged.num_rows:
            return
        at = (now or dt.datetime.now(dt.UTC)).isoformat()
        counts = dh.count_verdicts(judged)
        # Most batches are all NEW, so there is nothing to list.
        is_listed = any(status in ("DUPLICATE", "IN_DOUBT") for status, *_ in counts)
        listed = self._listed(judged, documents, name, at) if is_listed else []
        line = {"trigger": _name(trigger), "at": at, "counts": counts, "documents": listed}
        self._append(line)

    def add_counts(
        self,
        counts: Sequence[tuple[str | None, str, str, int]],
        trigger: dh.Trigger | str,
        documents: Sequence[list[Any]] = (),
        *,
        now: dt.datetime | None = None,
    ) -> None:
        """Count verdicts that were counted before; each batch once. Nothing is listed of them but `documents`.

        Args:
            counts: (status, action, rule, number of documents), as `Claim.counts`.
            trigger: whose documents they are.
            documents: rows for the list, each (time, key, name, status, rule).
            now: the time; the clock's, if absent.

        Raises:
            StorageError: [DH-IO] the operating system refused.
        """
        at = (now or dt.datetime.now(dt.UTC)).isoformat()
        self._append({"trigger": _name(trigger), "at": at, "counts": [*counts], "documents": [*documents]})

    def _listed(self, judged: pa.Table, documents: Any, name: str, at: str) -> list[list[Any]]:
        """A sample of the documents that are not NEW, in their order."""
        rows: list[int] = []
        for status in ("DUPLICATE", "IN_DOUBT"):
            found = _columns.rows_where(judged["status"], status)
            share = min(self._per_batch, len(found))
            rows += found.take(pa.array([n * len(found) // share for n in range(share)], pa.int64())).to_pylist()
        if not rows:
            return []
        picked = judged.take(pa.array(sorted(rows), pa.int64()))
        names: list[Any] = [None] * len(rows)
        if documents is not None:
            table = _columns.table_of(documents)
            _columns.same_rows(table, judged)
            if name in table.column_names:
                column = _columns.without_views(table.select([name]))[name]
                names = [None if one is None else str(one) for one in column.take(pa.array(sorted(rows))).to_pylist()]
        shown = (picked[column].to_pylist() for column in ("key", "status", "rule"))
        return [[at, key, said, status, rule] for key, status, rule, said in zip(*shown, names, strict=True)]

    def clear(self, trigger: dh.Trigger | str | None = None) -> None:
        """Forget the counts and the list of one trigger, or of all. No entry of the history is touched.

        Args:
            trigger: a trigger, or its name; every trigger, if absent.
        """
        self._append({"clear": None if trigger is None else _name(trigger)})

    def counts(self, trigger: dh.Trigger | str | None = None) -> pa.Table:
        """The counts, sorted.

        Args:
            trigger: a trigger, or its name; every trigger, if absent.

        Returns:
            pa.Table: the columns of `COUNTS`: `trigger`, `status`, `action`, `rule` (utf8), `count`
            (int64).
        """
        rows = [
            (name, *key, count)
            for name, held in sorted(self._read(trigger).items())
            for key, count in sorted(held.counts.items(), key=lambda one: tuple(part or "" for part in one[0]))
        ]
        columns = zip(*rows, strict=True) if rows else [[] for _ in COUNTS]
        return pa.table(
            [pa.array(column, kind) for column, kind in zip(columns, COUNTS.types, strict=True)], schema=COUNTS
        )

    def table(self) -> pa.Table:
        """The same as `counts()`, so that statistics can be used as `metrics.VerdictCounts`.

        Returns:
            pa.Table: as `counts`.
        """
        return self.counts()

    def documents(
        self,
        trigger: dh.Trigger | str | None = None,
        *,
        status: Literal["DUPLICATE", "IN_DOUBT"] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The newest documents that were DUPLICATE or IN_DOUBT, newest first.

        Args:
            trigger: a trigger, or its name; every trigger, if absent.
            status: of this status only.
            limit: the maximum number of documents.

        Returns:
            pa.Table: the columns of `DOCUMENTS`: `time` (timestamp[us, UTC]), `trigger`, `key`,
            `name`, `status`, `rule` (utf8).

        Raises:
            ConfigError: [DH-CONFIG] the status is unknown.
        """
        if status not in (None, "DUPLICATE", "IN_DOUBT"):
            raise dh.ConfigError(f"[DH-CONFIG] status is {status!r}; allowed is DUPLICATE or IN_DOUBT")
        rows = [
            (at, name, *rest)
            for name, held in self._read(trigger).items()
            for at, *rest in held.documents
            if status in (None, rest[2])
        ]
        rows.sort(key=lambda row: str(row[0]), reverse=True)
        rows = rows[:limit] if limit is not None else rows
        times = pa.array([dt.datetime.fromisoformat(row[0]) for row in rows], DOCUMENTS.field("time").type)
        others = [pa.array([row[at] for row in rows], pa.string()) for at in range(1, 6)]
        return pa.table([times, *others], schema=DOCUMENTS)

    def summary(
        self, history: dh.History | None = None, *, in_progress: bool = True, now: dt.datetime | None = None
    ) -> dict[str, dict[str, Any]]:
        """All figures by trigger.

        Args:
            history: the open history, for entries in progress; without it those figures are None.
            in_progress: also count entries in progress, which reads all entries.
            now: the time taken as now; the clock's, if absent.

        Returns:
            For each trigger: `new`, `duplicate`, `suspended`, `rejected` (documents), `in_doubt`
            (rule -> documents), `processing`, `oldest_processing_seconds`, `oldest_entry_seconds`
            (as `metrics.history_metrics`), and `next_purge` (time; None if no sweeper runs).
        """
        held = self._read(None)
        figures = {} if history is None else metrics.history_metrics(history, in_progress=in_progress, now=now)
        due = sweeper.next_purge(self._path)  # the sweeper's file is in the same directory
        return {
            name: _summed(held.get(name, _Held(0)).counts) | _of_history(figures.get(name)) | {"next_purge": due}
            for name in sorted({*held, *figures})
        }

    def _read(self, trigger: dh.Trigger | str | None) -> dict[str, _Held]:
        with self._shared(write=False):
            found = self._replayed()
        return found if trigger is None else {name: one for name, one in found.items() if name == _name(trigger)}

    def _replayed(self) -> dict[str, _Held]:
        with _files.storage(self._file):
            try:
                lines = self._file.read_bytes().split(b"\n")
            except (FileNotFoundError, NotADirectoryError):
                return {}
        found: dict[str, _Held] = {}
        for line in lines:
            try:
                self._replay(json.loads(line), found)
            except (ValueError, KeyError, TypeError):
                continue  # the half line of a process that died in it, a damaged one, or the end of the file
        return found

    def _replay(self, said: Any, found: dict[str, _Held]) -> None:
        """Add what one line says, or nothing of it."""
        if "clear" in said:
            for name in [said["clear"]] if said["clear"] is not None else [*found]:
                found.pop(name, None)
            return
        name = str(said["trigger"])
        documents = [[at, key, named, status, rule] for at, key, named, status, rule in said["documents"]]
        counts = [((status, action, rule), int(count)) for status, action, rule, count in said["counts"]]
        one = found.setdefault(name, _Held(self._most))
        for counted, count in counts:
            one.counts[counted] += count
        one.documents.extend(documents)

    def _append(self, line: dict[str, Any]) -> None:
        # It begins with a line break: a process that died within its line must not spoil the next one.
        content = b"\n" + json.dumps(line, ensure_ascii=False).encode() + b"\n"
        with self._shared(write=True), _files.storage(self._file):
            file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                if os.write(file, content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._file))
                size = os.fstat(file).st_size
            finally:
                os.close(file)
        if size > _COMPACT_BYTES:
            with suppress(dh.StorageError, dh.DescriptorsError):  # it is counted; a later count tries again
                self._compact()

    def _compact(self) -> None:
        """Merge all lines of a trigger into one."""
        with self._locked(fcntl.LOCK_EX, write=True), _files.storage(self._file):
            if self._file.stat().st_size <= _COMPACT_BYTES:
                return  # somebody else was first
            held = self._replayed()
            lines = [
                {
                    "trigger": name,
                    "counts": [[*key, count] for key, count in one.counts.items()],
                    "documents": [*one.documents],
                }
                for name, one in held.items()
            ]
            draft = self._file.with_name(f"{_files.DRAFT}{os.getpid()}")
            try:
                draft.write_bytes(b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines))
                _files.sync(draft)
                draft.replace(self._file)
            finally:
                draft.unlink(missing_ok=True)  # on a full disk others need its room
            _files.sync(self._file.parent)

    @contextmanager
    def _shared(self, *, write: bool) -> Iterator[None]:
        """A shared lock of the file, so that it is not compacted meanwhile."""
        with self._locked(fcntl.LOCK_SH, write=write):
            yield

    @contextmanager
    def _locked(self, how: int, *, write: bool) -> Iterator[None]:
        path = self._file.with_name("lock")
        with _files.storage(path):
            if write and not path.parent.is_dir():
                if self._at.directory is not None and not self._path.is_dir():
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path))
                path.parent.mkdir(parents=True, exist_ok=True)
            try:
                file = os.open(path, (os.O_RDWR | os.O_CREAT if write else os.O_RDONLY) | os.O_CLOEXEC, 0o666)
            except (FileNotFoundError, NotADirectoryError):
                file = -1  # nobody wrote anything yet
        try:
            if file >= 0:
                fcntl.flock(file, how)
            yield
        finally:
            if file >= 0:
                _files.release(file)


def _summed(counts: Counter[_Key]) -> dict[str, Any]:
    def total(wanted_status: str | None, wanted_action: str | None = None) -> int:
        return sum(
            count
            for (status, action, _), count in counts.items()
            if status == wanted_status and wanted_action in (None, action)
        )

    in_doubt: Counter[str] = Counter()
    for (status, _, rule), count in counts.items():
        if status == "IN_DOUBT":
            in_doubt[rule] += count
    return {
        "new": total("NEW"),
        "duplicate": total("DUPLICATE"),
        "in_doubt": dict(sorted(in_doubt.items())),
        "suspended": total(None, "SUSPEND"),
        "rejected": total(None, "REJECT"),
    }


def _of_history(figures: dict[str, Any] | None) -> dict[str, Any]:
    names = ("processing", "oldest_processing_seconds", "oldest_entry_seconds")
    return {name: None if figures is None else figures[name] for name in names}


def _name(trigger: dh.Trigger | str) -> str:
    return trigger.name if isinstance(trigger, dh.Trigger) else trigger
