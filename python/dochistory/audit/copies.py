"""Copies of an audit log between a bucket and a directory, for `dochistory backup`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dochistory import objects
from dochistory.audit import manifest
from dochistory.audit.bucket import Bucket
from dochistory.audit.files import Directory, Gone
from dochistory.audit.manifest import Manifest, Named

_LOCK_TIMEOUT_S = 30.0


def fetch(url: str, storage_options: Mapping[str, Any] | None, into: Path) -> str | None:
    """Copy the log of a history in a bucket into a directory. Nothing is synced.

    Returns:
        The log's id; None if there is none.

    Raises:
        CorruptError: [DH-CORRUPT] a file or manifest is missing, or a manifest is damaged.
        ObjectStoreError: a request failed.
    """
    place = Bucket(objects.open_client(url, storage_options), _LOCK_TIMEOUT_S)

    def read() -> str | None:
        newest = place.look().manifest
        if newest is None:
            return None
        for file in newest.files:
            if not (into / file.name).exists():
                (into / file.name).write_bytes(place.content(file.name))
        # What was removed meanwhile was fetched for an earlier manifest.
        for left in {path.name for path in into.iterdir()} - {file.name for file in newest.files}:
            (into / left).unlink()
        manifest.path_of(into, newest.number).write_bytes(manifest.encoded(newest))
        return newest.log

    return place.steadily(read)


def store(history: Path, url: str, storage_options: Mapping[str, Any] | None) -> None:
    """Store the log in the directory of a history, to which nobody else writes, at a URL where none is.

    Raises:
        CorruptError: [DH-CORRUPT] a file or manifest is missing, or a manifest is damaged.
        ObjectStoreError: a request failed.
    """
    source = Directory(history / "audit", history / "known" / "audit", _LOCK_TIMEOUT_S)
    if not source.names():
        return
    # As the next writer there would find it, with the files that no manifest names yet.
    found = source.current()
    target = Bucket(objects.open_client(url, storage_options), _LOCK_TIMEOUT_S)

    def publish() -> None:
        before = target.current()
        stored = [_stored(source, target, before, file) for file in found.files]
        target.publish(replace(found, number=before.number, files=tuple(stored)))

    target.alone(publish)


def _stored(source: Directory, target: Bucket, before: Manifest, file: Named) -> Named:
    try:
        content = source.content(file.name)
    except Gone:
        raise manifest.lost(source.place(file.name), file) from None
    return replace(file, name=target.add(before, manifest.stem(file.name), content))
