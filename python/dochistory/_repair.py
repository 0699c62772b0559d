"""Repairing a history whole: its engine's files, and its audit log."""

import datetime as dt
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from dochistory import _existing, _native


class Repaired(TypedDict):
    """What was damaged, and whether it was repaired; see `repair`."""

    repaired: bool
    kept_in: Path | str | None
    audit_kept_in: Path | str | None
    findings: list[dict[str, Any]]


def repair(
    path: str | os.PathLike[str],
    trigger: _native.Trigger | str | None = None,
    *,
    apply: bool = False,
    lock_timeout: str | dt.timedelta | float = "30 s",
    progress: Callable[[int, int], object] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Repaired:
    """Say what is damaged in a history and what a repair would drop; with `apply`, repair it.

    What can be read stays: entries on undamaged pages of a segment, whole frames of the log, and
    documents and decisions of the audit log. Filters are rebuilt without loss. Every file that goes
    out of use is kept in a directory `repaired-<time>`, so that a repair can be undone by hand. Ids
    that are dropped are new when they arrive again.

    A history in a bucket is fetched to a local disk as it is, repaired there, and committed; what
    goes out of use is kept below `repaired-<time>/`. Restoring lost objects, or older versions of
    them, loses nothing: try that first.

    Args:
        path: the directory, or the URL of a bucket.
        trigger: this trigger, or its name, only, and no audit log. It is needed where a damaged
            file has taken the name with it.
        apply: repair. Otherwise nothing is written, and the right to write is not needed.
        lock_timeout: how long to wait for another writer's operation: text ("30 s"), a timedelta,
            or seconds.
        progress: called with (files looked at, files in all) of a trigger from time to time; what
            it raises stops the work.
        storage_options: of a bucket, as for `open`.

    Returns:
        `repaired`: whether it was repaired; `kept_in` and `audit_kept_in`: the directories (paths),
        or the folders of a bucket (URLs), of the engine's and of the audit log's files that went
        out of use, or None; `findings`: a list with one dict for each damaged place:

        - `trigger`, `mapper` or `delivery`: whose it is, the others None; all None: it concerns
          all, or the audit log; of guaranteed delivery "received" or "sent".
        - `file`, `byte`, `reason`, `meaning`: where and what it is, and what it comes to.
        - `remedy`: "rebuilt" (nothing is lost but what `reopened_entries` says), "salvaged" (what
          can be read is kept), "dropped", or "impossible".
        - `dropped_entries`, `reopened_entries` (entries whose end is forgotten): numbers at most,
          None if nothing tells; `dropped_at_least`: how many of the dropped ones are certain;
          `exact`: whether `dropped_entries` is exact.
        - `first_started_at`, `last_started_at`: datetimes between which the dropped entries'
          services began, or None; `first_kept_until`, `last_kept_until`: of a map's entries.
        - `returned_entries`, `ids`: of a map: entries that count as they were before, at most, and
          up to 1,000 of the ids that were dropped or went back.
        - `bytes`: that cannot be read.
        - `documents`, `cut_off`: of the audit log only: the first and last number of each stretch
          of documents that the finding concerns, and of those that need a new decision.

    Raises:
        OpenError: [DH-OPEN] there is no history, or one of a newer format.
        LockedError: [DH-LOCKED] another writer held a trigger for longer than `lock_timeout`; or,
            in a bucket, wrote to it meanwhile, and nothing was changed in it.
        StorageError: [DH-IO] the operating system refused a file operation.
        CorruptError: [DH-CORRUPT] a finding would not be certain, because the files change.
    """
    with _existing.needed():
        store = _native.repair(
            path, trigger, apply=apply, lock_timeout=lock_timeout, progress=progress, storage_options=storage_options
        )
    log: dict[str, Any] = {"repaired": False, "kept_in": None, "findings": []}
    if trigger is None:
        from dochistory import audit, objects  # they need more than opening a history does

        place = path if objects.is_url(path) else _native.local_path(path)
        log = audit.repair(place, apply=apply, lock_timeout=lock_timeout, storage_options=storage_options)
    damaged = [part["repaired"] for part in (store, log) if part["findings"]]
    return {
        "repaired": bool(damaged) and all(damaged),
        "kept_in": store["kept_in"],
        "audit_kept_in": log["kept_in"],
        "findings": [dict(finding) for finding in (*store["findings"], *log["findings"])],
    }
