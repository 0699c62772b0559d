"""Repairing an audit log: readable files stay, unreadable ones go out of use and are named, and every file is kept."""

import datetime as dt
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory import _durations, objects
from dochistory.audit import damage, files, manifest, store
from dochistory.audit.bucket import Bucket
from dochistory.audit.damage import Damage
from dochistory.audit.files import Directory
from dochistory.audit.manifest import Manifest, Named, Ranges

FAR = 1_000_000
"""Numbers of documents and events go on so far behind where nothing tells which were given."""

_EMPTY = "each was kept in doubt and is not in the log any more: who sent it, and the history, still tell of its key"
_UNDECIDED = "what was decided or done about these documents is not known any more: they are cut off; decide again"
_DERIVED = "nothing is lost: the history tells how that resubmission ended, and what it cannot tell is cut off"
_OVER = "nothing is lost: its outcome is there"
_FOREIGN = "nothing of this log is lost"
_MANIFEST = "it is unknown which of the log's files were lost by then: check for documents that should be there"
_RESTORE = "nothing else says which of the log's files count: restore the object, or an older version of it"
_IMPOSSIBLE = "this log is of another history: restore the right one, or the right file `known/audit`, from a backup"


@dataclass(frozen=True)
class _Remedy:
    """The treatment of a damaged file."""

    damage: Damage
    remedy: str
    meaning: str
    dropped: int | None = 0
    cut_off: Ranges | None = None
    """Documents that are cut off from then on."""


def repair(
    history: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    *,
    apply: bool = False,
    lock_timeout: str | dt.timedelta | float = 30.0,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Report the damage of an audit log and what a repair would drop; with `apply`, repair it.

    Lost documents are reported by their numbers. A document whose decision or resubmission is lost
    is `cut_off`: it is not processed until somebody decides again. Every file that goes out of use
    is kept in a directory `repaired-<time>` beside the log.

    Args:
        history: the directory of the history, or the URL of its bucket; it need not open.
        directory: where the log is; `audit` in the history's own directory, if absent.
        apply: repair. Otherwise nothing is written.
        lock_timeout: how long to wait for others: text ("30 s"), a timedelta, or seconds.
        storage_options: of a bucket, as for `dochistory.open`.

    Returns:
        `repaired`, `kept_in` and `findings`, as of `dochistory.repair`. A finding also has
        `documents`: the first and last number of each range of documents that it concerns.

    Raises:
        OpenError: [DH-OPEN] a newer package wrote the log.
        LockedError: [DH-LOCKED] another process held the log for longer than `lock_timeout`.
        StorageError: [DH-IO] the operating system refused.
    """
    log = store.Store(_place(history, directory, _durations.seconds("lock_timeout", lock_timeout), storage_options))
    remedies = _remedies(log)
    if not apply or not remedies or any(one.remedy == "impossible" for one in remedies):
        return _told(remedies, kept_in=None)
    return log.alone(lambda: _repaired(log))


def _place(
    history: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None,
    lock_timeout: float,
    storage_options: Mapping[str, Any] | None,
) -> store.Files:
    if directory is None and objects.is_url(history):
        return Bucket(objects.open_client(history, storage_options), lock_timeout)
    own = Path(history) / "audit"
    place = own if directory is None else Path(directory)
    return Directory(place, Path(history) / "known" / "audit" if place == own else None, lock_timeout)


def _repaired(log: store.Store) -> dict[str, Any]:
    """Alone: repair what is damaged."""
    remedies = _remedies(log)
    if not remedies or any(one.remedy == "impossible" for one in remedies):
        return _told(remedies, kept_in=None)
    now = dt.datetime.now(dt.UTC)
    names = [str(one.damage.path).rpartition("/")[2] for one in remedies]
    aside = log.files.set_aside(names, f"repaired-{now:%Y%m%dT%H%M%S%fZ}")
    _publish(log, remedies, now)
    # Publishing the new manifest removed a damaged one.
    log.files.remove([one.damage.file.name for one in remedies if one.damage.file])
    return {**_told(remedies, kept_in=aside), "repaired": True}


def _remedies(log: store.Store) -> list[_Remedy]:
    _, damages = damage.look(log)
    lost = {one.file.name for one in damages if one.file}
    return [_remedy(log, one, lost) for one in damages]


def _remedy(log: store.Store, one: Damage, lost: set[str]) -> _Remedy:
    if one.kind == "foreign":
        return _Remedy(one, "dropped", _FOREIGN)
    if one.file is None:
        if isinstance(log.files, Bucket):
            return _Remedy(one, "impossible", _RESTORE, None)
        if _is_of_another(log.files):
            return _Remedy(one, "impossible", _IMPOSSIBLE, None)
        return _Remedy(one, "rebuilt", _MANIFEST, None)
    if files.KEPT.fullmatch(one.file.name):
        return _Remedy(one, "dropped", _EMPTY, one.file.rows)
    own = files.EVENT.fullmatch(one.file.name)
    others = {match[2] for name in _events_beside(log, one.file, lost) if (match := files.EVENT.fullmatch(name))}
    # A decision has no outcome: one of its number is of a repair that was killed.
    if "outcome" in others and own is not None and own[2] != "decided":
        return _Remedy(one, "rebuilt", _OVER)
    if "resubmission" in others:
        return _Remedy(one, "rebuilt", _DERIVED)
    return _Remedy(one, "dropped", _UNDECIDED, cut_off=one.file.numbers or _all_numbers(log, lost))


def _is_of_another(place: Directory) -> bool:
    noted = place.noted()
    try:
        newest = manifest.newest(place.directory)
    except dh.CorruptError:
        return False
    return newest is not None and noted is not None and newest.log != noted


def _events_beside(log: store.Store, file: Named, lost: set[str]) -> Iterable[str]:
    """The other intact events of the same number."""
    own = file.name.split("-")[1]
    return [name for name in set(log.files.names()) - lost if name.startswith(f"event-{own}-")]


def _all_numbers(log: store.Store, lost: set[str]) -> Ranges:
    """The documents of an unreadable event are unknown, so it may concern all."""
    there = [log.files.described(name) for name in set(log.files.names()) - lost if files.KEPT.fullmatch(name)]
    return tuple(stretch for file in there for stretch in file.numbers)


def _publish(log: store.Store, remedies: list[_Remedy], now: dt.datetime) -> None:
    """Under the lock: write the replacements of lost events, and the manifest that makes the repair effective."""
    found = _basis(log, remedies)
    cut_off: dict[int, list[int]] = {}
    for one in remedies:
        if one.cut_off and one.damage.file:
            number = int(one.damage.file.name.split("-")[1])
            cut_off.setdefault(number, []).extend(_each(one.cut_off))
    added = [log.write_event(found, number, "outcome", _cut_off(of, now)) for number, of in cut_off.items()]
    gone = [one.damage.file.name for one in remedies if one.damage.file]
    log.files.publish(files.taking_in(found, added).without(gone))


def _basis(log: store.Store, remedies: list[_Remedy]) -> Manifest:
    """The newest manifest; if it is lost, one of all existing files."""
    if isinstance(log.files, Bucket) or not any(one.damage.kind == "manifest" for one in remedies):
        return log.files.current()
    last = max([0, *manifest.numbers_in(log.files.directory)])
    empty = Manifest(log.files.noted() or manifest.new_id(), last, 1, 1, ())
    gone = {one.damage.file.name for one in remedies if one.damage.file}
    names = [name for name in log.files.names() if name not in gone]
    found = files.taking_in(empty, [log.files.described(name) for name in names]).without(_doubled(names))
    return replace(found, next_number=found.next_number + FAR, next_event=found.next_event + FAR)


def _doubled(names: Iterable[str]) -> set[str]:
    """Files whose documents stand in a larger one, too: a compaction was killed before it removed them."""
    doubled: set[str] = set()
    taken: list[tuple[int, int]] = []
    kept = [match for name in names if (match := files.KEPT.fullmatch(name))]
    for match in sorted(kept, key=lambda one: int(one[2]), reverse=True):
        first, last = int(match[1]), int(match[1]) + int(match[2]) - 1
        if any(first <= other_last and other_first <= last for other_first, other_last in taken):
            doubled.add(match[0])
        else:
            taken.append((first, last))
    return doubled


def _each(numbers: Ranges) -> list[int]:
    return [number for first, last in numbers for number in range(first, last + 1)]


def _cut_off(numbers: list[int], now: dt.datetime) -> pa.Table:
    of = sorted(set(numbers))
    time = pa.repeat(pa.scalar(now, pa.timestamp("us", "UTC")), len(of))
    return pa.table({"number": pa.array(of, pa.int64()), "state": pa.repeat("cut_off", len(of)), "time": time})


def _told(remedies: list[_Remedy], *, kept_in: Path | str | None) -> dict[str, Any]:
    return {"repaired": False, "kept_in": kept_in, "findings": [_finding(one) for one in remedies]}


def _finding(one: _Remedy) -> dict[str, Any]:
    file = one.damage.file
    is_of_events = file is not None and one.cut_off is not None
    return {
        "trigger": None,
        "mapper": None,
        "delivery": None,
        "file": one.damage.path,
        "byte": 0,
        "reason": one.damage.reason,
        "remedy": one.remedy,
        "dropped_entries": one.dropped,
        "dropped_at_least": one.dropped or 0,
        "exact": one.dropped is not None,
        "reopened_entries": len(_each(one.cut_off or ())) if is_of_events else 0,
        "first_started_at": None,
        "last_started_at": None,
        "first_kept_until": None,
        "last_kept_until": None,
        "returned_entries": 0,
        "ids": [],
        "documents": list(one.cut_off or (file.numbers if file and one.dropped else ())),
        "bytes": file.bytes if file else 0,
        "meaning": one.meaning,
    }
