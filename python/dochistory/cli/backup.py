"""`dochistory backup`: a copy of a history while others write to it, checked before it gets its name."""

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory import _durations, _files, _moment, _native, objects
from dochistory.audit import copies
from dochistory.cli import show
from dochistory.cli.context import Add, Context
from dochistory.cli.failures import CommandError, Exit

_ATTEMPTS = 40


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "backup",
        backup,
        "copy a history and check the copy",
        "Others may write to the history meanwhile; the copy holds all that was acknowledged before it began. It is a "
        "history like any other, and can be opened where it lies.",
        examples=[
            "dochistory backup /backup/orders.history",
            "dochistory --history s3://bucket/orders.history backup /backup/orders.history",
            "dochistory backup s3://bucket/backup/orders.history",
        ],
    )
    command.add_argument(
        "target", metavar="DIR|URL", help="a directory that does not exist yet, or a place in a bucket"
    )


def backup(context: Context) -> Exit:
    """Copy a history."""
    given: str = context.options.target
    size = _into_bucket(context, given) if objects.is_url(given) else _into_directory(context, dh.local_path(given))
    if context.json:
        print(show.as_json({"backup": given, "bytes": size}))
    else:
        print(f"{given}: a checked copy of {context.place}, {show.size(size)}")
    return Exit.DONE


def _into_bucket(context: Context, target: str) -> int:
    """Copy to a local disk first, because others may write to the history meanwhile, and then to the bucket."""
    with tempfile.TemporaryDirectory(prefix="dochistory-backup-") as home:
        draft = Path(home) / "draft"
        if isinstance(context.place, str):
            _fetched(context, context.place, draft)
        else:
            _copied(context, context.place, draft)
        _native._copy_to_bucket(draft, target, context.storage_options)  # noqa: SLF001
        copies.store(draft, target, context.storage_options)
    with dh.open(target, read_only=True, storage_options=context.storage_options) as copy:
        return _checked(context, copy)


def _into_directory(context: Context, target: Path) -> int:
    if target.exists() or target.is_symlink():
        raise CommandError(f"{target}: exists already: name a new directory")
    source = context.place
    if isinstance(source, Path) and target.resolve().is_relative_to(source.resolve()):
        raise CommandError(f"{target}: this is inside the history: name a directory outside it")
    if not target.parent.is_dir():
        raise CommandError(f"{target.parent}: no such directory: create it first")
    draft = target.with_name(f".{target.name}.draft-{os.getpid()}")
    try:
        size = _copied(context, source, draft) if isinstance(source, Path) else _fetched(context, source, draft)
        draft.rename(target)
        _files.sync(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return size


def _fetched(context: Context, source: str, draft: Path) -> int:
    """Copy the newest state of a bucket: each trigger's own, as an instant between two of its commits.

    The audit log is that of an earlier instant: it must not tell of what the history does not know.
    """
    with tempfile.TemporaryDirectory(prefix=".dochistory-audit-", dir=draft.parent) as home:
        log = copies.fetch(source, context.storage_options, Path(home))
        _native._copy_from_bucket(source, draft, context.storage_options)  # noqa: SLF001
        if log is not None:
            shutil.copytree(home, draft / "audit")
            (draft / "known").mkdir(exist_ok=True)
            (draft / "known" / "audit").write_text(log, encoding="utf-8")
    for directory, _, files in os.walk(draft, topdown=False):
        for name in files:
            _files.sync(Path(directory) / name)
        _files.sync(Path(directory))
    with dh.open(draft, read_only=True) as copy:
        return _checked(context, copy)


def _checked(context: Context, copy: dh.History) -> int:
    with show.progress("checking the copy", quiet=context.json) as progress:
        return copy.verify(progress=progress)


def _copied(context: Context, source: Path, draft: Path) -> int:
    """Copy until a copy is complete: maintenance and purges may remove files while they are copied."""
    for attempt in range(1, _ATTEMPTS + 1):
        shutil.rmtree(draft, ignore_errors=True)
        with context.open(read_only=True) as history:
            names = _spaces(history)
        try:
            with _moment.held(source, _durations.seconds("lock_timeout", context.lock_timeout)) as moment:
                _copy(source, draft, moment)
            with dh.open(draft, read_only=True) as copy:
                _complete(copy, names)
                with show.progress("checking the copy", quiet=context.json) as progress:
                    return copy.verify(progress=progress) + copy.audit.verify()
        except (FileNotFoundError, dh.CorruptError, dh.OpenError, dh.StorageError) as error:
            if attempt == _ATTEMPTS:
                # The source is damaged, which its own check reports, or it changes too fast.
                with context.open(read_only=True) as history:
                    history.verify()
                    history.audit.verify()
                raise CommandError(
                    f"{source}: no copy of {_ATTEMPTS} was whole, because its files keep changing ({error}): "
                    "retry while no purge or maintenance runs",
                    Exit.UNAVAILABLE,
                    "DH-BACKUP",
                ) from error
    raise AssertionError  # the last attempt returns or raises


def _complete(copy: dh.History, names: set[str]) -> None:
    if missing := names - _spaces(copy):
        raise dh.CorruptError(f"[DH-CORRUPT] the copy lacks {', '.join(sorted(missing))}")


def _spaces(history: dh.History) -> set[str]:
    figures: Mapping[str, Any] = history.stats()
    return {f"{room}/{name}" for room in _moment.ROOMS for name in figures[room]}


def _copy(source: Path, draft: Path, moment: _moment.Moment) -> None:
    (draft / "triggers").mkdir(parents=True)
    _copy_all(source / "audit", draft / "audit", moment.audit)
    if moment.audit_manifest is not None:
        name, content = moment.audit_manifest
        (draft / "audit").mkdir(exist_ok=True)
        _write_file(draft / "audit" / name, content)
        _files.sync(draft / "audit")
    _copy_file(source / "HISTORY", draft / "HISTORY")
    # The second copy of the identity; older histories have none.
    if (source / "HISTORY.copy").is_file():
        _copy_file(source / "HISTORY.copy", draft / "HISTORY.copy")
    _copy_all(source / "known", draft / "known", moment.known)
    for space in moment.spaces:
        into = draft / space.directory.parent.name / space.directory.name
        into.mkdir(parents=True, exist_ok=True)
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


def _copy_all(source: Path, target: Path, names: list[str]) -> None:
    if names:
        target.mkdir()
        for name in names:
            _copy_file(source / name, target / name)
        _files.sync(target)


def _copy_file(source: Path, target: Path, extent: tuple[int, int] | None = None) -> None:
    """Copy a file; of a log only the content at the moment, and then the room behind it."""
    with source.open("rb") as read:
        # The copy must never be readable for users who may not read the source, not even for a moment.
        mode = stat.S_IMODE(os.fstat(read.fileno()).st_mode)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as copy:
            shutil.copyfileobj(read, copy, 1 << 20)
            if extent is not None:
                copy.truncate(extent[0])
                copy.truncate(extent[1])
            copy.flush()
            os.fsync(copy.fileno())


def _write_file(target: Path, content: bytes) -> None:
    with target.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
