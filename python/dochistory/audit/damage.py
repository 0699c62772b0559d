"""Damage of an audit log's files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import dochistory as dh
from dochistory.audit import files, manifest, store
from dochistory.audit.files import Look
from dochistory.audit.manifest import Named


@dataclass(frozen=True)
class Damage:
    """One damaged file."""

    path: Path | str
    reason: str
    kind: Literal["manifest", "file", "foreign"]
    file: Named | None = None
    """What the manifest says of it."""


def look(log: store.Store) -> tuple[int, list[Damage]]:
    """Read every byte of a log; answers the number of bytes, and the damage.

    Raises:
        OpenError: [DH-OPEN] a newer package wrote the log.
    """
    if log.files.may_be_lost:
        try:
            log.files.look()
        except dh.CorruptError as error:
            # In a bucket nothing else says which files count.
            return 0, [_manifest_damage(log, error)]
    return log.steadily(lambda: _looked(log))


def _looked(log: store.Store) -> tuple[int, list[Damage]]:
    found = []
    try:
        there = log.files.look()
    except dh.CorruptError as error:
        there = Look(None, frozenset(log.files.names()))
        found.append(_manifest_damage(log, error))
    found += [Damage(log.files.place(file.name), manifest.missing(file), "file", file) for file in there.missing]
    checked = 0
    for file in _files(log, there):
        path = log.files.place(file.name)
        if there.manifest and file.name in there.unnamed and log.files.is_foreign(file.name, there.manifest):
            found.append(Damage(path, "this file is of another audit log", "foreign", file))
            continue
        try:
            checked += log.check(file.name)
            _check_numbers(log, path, file)
        except dh.CorruptError as error:
            found.append(Damage(path, _reason(error, path), "file", file))
    return checked, found


def _manifest_damage(log: store.Store, error: dh.CorruptError) -> Damage:
    """A manifest that is unreadable or missing."""
    path = log.files.manifest_place()
    return Damage(path, _reason(error, path), "manifest")


def _files(log: store.Store, there: Look) -> list[Named]:
    """The existing files, with the manifest's entries for them, or new ones."""
    named = {file.name: file for file in there.manifest.files} if there.manifest else {}
    return [named.get(name) or log.files.described(name) for name in sorted(there.present)]


def _check_numbers(log: store.Store, path: Path | str, file: Named) -> None:
    if files.KEPT.fullmatch(file.name):
        numbers = manifest.ranges(log.read(file.name, ["number"])["number"].to_pylist())
        if numbers != file.numbers:
            raise dh.CorruptError(f"[DH-CORRUPT] {path}: the numbers of its documents differ from those in its name")


def _reason(error: dh.CorruptError, path: Path | str) -> str:
    said = str(error).removeprefix("[DH-CORRUPT] ")
    return said.removeprefix(f"{path}: ").removeprefix(f"{path}".rpartition("/")[0] + ": ")
