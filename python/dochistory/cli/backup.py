"""`dochistory backup`: a copy of a history while others write to it, checked before it gets its name."""

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory import _durations, _moment
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
        examples=["dochistory backup /backup/orders.history"],
    )
    command.add_argument("target", metavar="DIR", help="a directory that does not exist yet")


def backup(context: Context) -> Exit:
    """Copy a history."""
    source, target = context.history_path, dh.local_path(context.options.target)
    if target.exists() or target.is_symlink():
        raise CommandError(f"{target}: exists already: name a new directory")
    if target.resolve().is_relative_to(source.resolve()):
        raise CommandError(f"{target}: this is inside the history: name a directory outside it")
    if not target.parent.is_dir():
        raise CommandError(f"{target.parent}: no such directory: create it first")
    draft = target.with_name(f".{target.name}.draft-{os.getpid()}")
    try:
        size = _copied(context, source, draft)
        draft.rename(target)
        _sync(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if context.json:
        print(show.as_json({"backup": target, "bytes": size}))
    else:
        print(f"{target}: a checked copy of {source}, {show.size(size)}")
    return Exit.DONE


def _copied(context: Context, source: Path, draft: Path) -> int:
    """Copy until a copy is complete: maintenance and purges may remove files while they are copied."""
    for attempt in range(1, _ATTEMPTS + 1):
        shutil.rmtree(draft, ignore_errors=True)
        with context.open(read_only=True) as history:
            names = _spaces(history)
        try:
            with _moment.held(source, _durations.seconds("lock_timeout", context.options.lock_timeout)) as moment:
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
        _sync(draft / "audit")
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
        _sync(into)
    for room in (draft / room for room in _moment.ROOMS):
        if room.is_dir():
            _sync(room)
    _sync(draft)


def _copy_all(source: Path, target: Path, names: list[str]) -> None:
    if names:
        target.mkdir()
        for name in names:
            _copy_file(source / name, target / name)
        _sync(target)


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


def _sync(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
