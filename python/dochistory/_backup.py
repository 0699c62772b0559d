"""A copy of a history while others write to it, checked before it gets its name."""

import datetime as dt
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import dochistory as dh
from dochistory import _checks, _durations, _existing, _files, _moment, _native, objects
from dochistory.audit import copies

_ATTEMPTS = 40
_FEW = 3
"""After this number of attempts the history itself is checked: of a damaged one no copy is whole."""


@dataclass(frozen=True)
class _Given:
    source: Path | str
    lock_timeout: str | dt.timedelta | float
    progress: Callable[[int, int], object] | None
    storage_options: Mapping[str, Any] | None


def backup(
    history: "dh.History | str | os.PathLike[str]",
    target: str | os.PathLike[str],
    *,
    lock_timeout: str | dt.timedelta | float = "30 s",
    progress: Callable[[int, int], object] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> int:
    """Copy a history, audit log included, and check the copy; between directories and buckets, too.

    Others may write to the history meanwhile. The copy is one moment of it: it holds all that was
    acknowledged before this was called, and no change without the changes before it. It is a
    history like any other, and can be opened where it lies.

    Args:
        history: the history, its directory, or the URL of its bucket.
        target: a directory that does not exist yet, or a place in a bucket that holds nothing.
        lock_timeout: how long to wait for another writer's operation: text ("30 s"), a timedelta,
            or seconds.
        progress: called with (bytes checked, bytes in all) from time to time while the copy is
            checked; what it raises stops the work.
        storage_options: of a bucket, as for `open`; where both are in buckets, of both. An open
            history does not tell how it was opened, so they are needed with it, too.

    Returns:
        int: the bytes of the copy that were checked.

    Raises:
        ConfigError: [DH-CONFIG] the target is there already, is inside the history, or its parent
            is not there.
        OpenError: [DH-OPEN] there is no history, or the place in the bucket holds other objects.
        CorruptError: [DH-CORRUPT] the history is damaged.
        LockedError: [DH-LOCKED] another writer held a trigger for longer than `lock_timeout`.
        StorageError: [DH-IO] the operating system refused a file operation; [DH-BACKUP] the
            history's files change faster than they can be copied.
        ObjectStoreError: [DH-OBJECTS] a bucket refused a request, or another code of
            docs/buckets.md.
    """
    named = (history.url or history.path) if isinstance(history, dh.History) else history
    _checks.place("history", named)
    _checks.place("target", target, may_be_open=False)
    source = os.fspath(named) if objects.is_url(named) else dh.local_path(named)
    given = _Given(source, lock_timeout, progress, storage_options)
    with _existing.needed():
        if objects.is_url(target):
            return _into_bucket(given, os.fspath(target))
        return _into_directory(given, dh.local_path(target))


def _into_bucket(given: "_Given", target: str) -> int:
    """Copy to a local disk first, because others may write to the history meanwhile, and then to the bucket."""
    with _temporary("dochistory-backup-", None) as home:
        draft = home / "draft"
        _drafted(given, draft)
        client = objects.open_client(target, given.storage_options)
        if other := next(iter(client.list()), None):
            raise dh.OpenError(
                f"[DH-OPEN] {client.location.url}: the place for the copy holds other objects ({other.name}): name "
                "another URL, or delete them if they are what a backup left that was killed"
            )
        objects.quick_check(client)
        # Before the history's identity: what is cut off before that is no history, and is not taken for a whole one.
        copies.store(draft, target, given.storage_options)
        _native._copy_to_bucket(draft, target, given.storage_options)  # noqa: SLF001
    with dh.open(target, read_only=True, storage_options=given.storage_options) as copy:
        return copy.verify(progress=given.progress)


def _into_directory(given: "_Given", target: Path) -> int:
    with _files.storage(target):
        if target.exists() or target.is_symlink():
            raise _is_there(target)
        if isinstance(given.source, Path) and target.resolve().is_relative_to(given.source.resolve()):
            raise dh.ConfigError(f"[DH-CONFIG] {target}: this is inside the history: name a directory outside it")
        if not target.parent.is_dir():
            raise dh.ConfigError(f"[DH-CONFIG] {target.parent}: no such directory: create it first")
    # A name that no other backup has: process ids repeat, in containers and among threads.
    draft = target.with_name(f".{target.name}.draft-{secrets.token_hex(6)}")
    try:
        size = _drafted(given, draft)
        with _files.storage(target):
            try:
                draft.rename(target)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise _is_there(target) from error  # another backup was faster
                raise
            _files.sync(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return size


def _is_there(target: Path) -> dh.ConfigError:
    return dh.ConfigError(f"[DH-CONFIG] {target}: exists already: name a new directory")


def _drafted(given: "_Given", draft: Path) -> int:
    return (
        _copied(given, given.source, draft) if isinstance(given.source, Path) else _fetched(given, given.source, draft)
    )


def _fetched(given: "_Given", source: str, draft: Path) -> int:
    """Copy the newest state of a bucket: each trigger's own, as an instant between two of its commits.

    The audit log is that of an earlier instant: it must not tell of what the history does not know.
    """
    with _files.storage(draft), _temporary(f"{draft.name}.audit-", draft.parent) as home:
        log = copies.fetch(source, given.storage_options, home)
        _native._copy_from_bucket(source, draft, given.storage_options)  # noqa: SLF001
        if log is not None:
            # Not the mode of `home`, which is closed to all others.
            (draft / "audit").mkdir()
            for path in home.iterdir():
                shutil.copyfile(path, draft / "audit" / path.name)
            (draft / "known").mkdir(exist_ok=True)
            _write_file(draft / "known" / "audit", log.encode())
        for directory, _, files in os.walk(draft, topdown=False):
            for name in files:
                _files.sync(Path(directory) / name)
            _files.sync(Path(directory))
    with dh.open(draft, read_only=True) as copy:
        return copy.verify(progress=given.progress)


def _copied(given: "_Given", source: Path, draft: Path) -> int:
    """Copy until a copy is complete: maintenance and purges may remove files while they are copied."""
    for attempt in range(1, _ATTEMPTS + 1):
        shutil.rmtree(draft, ignore_errors=True)
        with dh.open(source, read_only=True) as history:
            names = _spaces(history)
        try:
            timeout = _durations.seconds("lock_timeout", given.lock_timeout)
            with _files.storage(source), _moment.held(source, timeout) as moment, _files.storage(draft):
                _copy(source, draft, moment)
            with dh.open(draft, read_only=True) as copy:
                _complete(copy, names)
                return copy.verify(progress=given.progress) + copy.audit.verify()
        except (dh.CorruptError, dh.OpenError, dh.StorageError) as error:
            if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError):
                raise  # a full disk is no less full the next time
            if attempt in (_FEW, _ATTEMPTS):
                # The source is damaged, which its own check reports, or it changes too fast.
                _check_source(source)
            if attempt == _ATTEMPTS:
                raise dh.StorageError(
                    f"[DH-BACKUP] {source}: no copy of {_ATTEMPTS} was whole, because its files keep changing "
                    f"({error}): retry while no purge or maintenance runs"
                ) from error
    raise AssertionError  # the last attempt returns or raises


def _check_source(source: Path) -> None:
    # A log that a writer ends meanwhile is no damage. (One that is missing is, with another error.)
    # And what the system refuses was refused to the copy, too.
    with suppress(dh.StorageError), dh.open(source, read_only=True) as history:
        history.verify()
        history.audit.verify()


def _complete(copy: dh.History, names: set[str]) -> None:
    if missing := names - _spaces(copy):
        raise dh.CorruptError(f"[DH-CORRUPT] the copy lacks {', '.join(sorted(missing))}")


def _spaces(history: dh.History) -> set[str]:
    figures: Mapping[str, Any] = history.stats()
    return {f"{room}/{name}" for room in _moment.ROOMS for name in figures[room]}


def _copy(source: Path, draft: Path, moment: _moment.Moment) -> None:
    _make_directory(source, draft)
    _make_directory(source / "triggers", draft / "triggers")
    _copy_all(source / "audit", draft / "audit", moment.audit)
    if moment.audit_manifest is not None:
        name, content = moment.audit_manifest
        _make_directory(source / "audit", draft / "audit")
        _write_file(draft / "audit" / name, content)
        _files.sync(draft / "audit")
    _copy_file(source / "HISTORY", draft / "HISTORY")
    # The second copy of the identity; older histories have none.
    if (source / "HISTORY.copy").is_file():
        _copy_file(source / "HISTORY.copy", draft / "HISTORY.copy")
    _copy_all(source / "known", draft / "known", moment.known)
    for space in moment.spaces:
        room = draft / space.directory.parent.name
        into = room / space.directory.name
        _make_directory(space.directory.parent, room)
        _make_directory(space.directory, into)
        _copy_file(space.held, into / space.manifest)
        _write_file(into / "turn", space.turn)
        for name in space.files:
            try:
                _copy_file(space.directory / name, into / name, space.logs.get(name))
            except FileNotFoundError:
                continue  # what the manifest names is missed by the check of the copy
        _files.sync(into)
    for room in (draft / room for room in _moment.ROOMS):
        if room.is_dir():
            _files.sync(room)
    _files.sync(draft)


def _make_directory(source: Path, target: Path) -> None:
    """Make a directory that nobody may enter who may not enter the source."""
    mode = stat.S_IMODE(source.stat().st_mode)
    target.mkdir(mode | stat.S_IRWXU, exist_ok=True)  # what only reads its own files may be copied, too


def _copy_all(source: Path, target: Path, names: list[str]) -> None:
    if names:
        _make_directory(source, target)
        for name in names:
            _copy_file(source / name, target / name)
        _files.sync(target)


def _copy_file(source: Path, target: Path, extent: tuple[int, int] | None = None) -> None:
    """Copy a file; of a log only the content at the moment, and then the room behind it.

    Raises:
        FileNotFoundError: there is no such file, or it was a log, and another one has taken the
            file meanwhile.
    """
    with source.open("rb") as read:
        # The copy must never be readable for users who may not read the source, not even for a moment.
        mode = stat.S_IMODE(os.fstat(read.fileno()).st_mode)
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with _named(target), os.fdopen(made, "wb") as copy:
            while chunk := _read(read, source):
                copy.write(chunk)
            if extent is not None:
                if not os.path.samestat(os.fstat(read.fileno()), source.stat()):
                    raise FileNotFoundError(errno.ENOENT, "another log has this file", str(source))
                copy.truncate(extent[0])
                copy.truncate(extent[1])
            copy.flush()
            os.fsync(copy.fileno())


def _read(file: BinaryIO, path: Path) -> bytes:
    with _named(path):
        return file.read(1 << 20)


def _write_file(target: Path, content: bytes) -> None:
    with _named(target), target.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file of a read, write or sync that the operating system refused: its error names none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextmanager
def _temporary(prefix: str, parent: Path | None) -> Iterator[Path]:
    with _files.storage(parent or Path(tempfile.gettempdir())):
        home = tempfile.TemporaryDirectory(prefix=prefix, dir=parent)
    with home as name:
        yield Path(name)
