"""`dochistory backup`: a copy of a history that others may write to meanwhile, checked before it gets its name."""

import os
import shutil
from pathlib import Path

import dochistory as dh
from dochistory.cli import show
from dochistory.cli.context import Context
from dochistory.cli.failures import CommandError, Exit

_ATTEMPTS = 40

# The writers' lock files, other people's snapshots, and files in the making: nothing a copy needs to be opened.
_LEFT_OUT = ("pin-", "new-", "tmp-", "upkeep", "take-")

# What holds spaces: those of triggers, of mappers and of guaranteed delivery.
_ROOMS = ("triggers", "mappers", "delivery")


def backup(context: Context) -> Exit:
    """Copy a history."""
    source, target = context.history_path, dh.local_path(context.options.target)
    if target.exists() or target.is_symlink():
        raise CommandError(f"{target}: this is there already: name a directory that is not")
    if target.resolve().is_relative_to(source.resolve()):
        raise CommandError(f"{target}: this is within the history itself: name a directory outside of it")
    if not target.parent.is_dir():
        raise CommandError(f"{target.parent}: there is no such directory: make it first")
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
    """Copy until a copy is whole: upkeep and purges may take files away while they are copied."""
    for attempt in range(1, _ATTEMPTS + 1):
        shutil.rmtree(draft, ignore_errors=True)
        with context.open(read_only=True) as history:
            names = _spaces(history)
        try:
            _copy(source, draft)
            with dh.open(draft, read_only=True) as copy:
                _complete(copy, names)
                with show.progress("checking the copy", quiet=context.json) as progress:
                    return copy.verify(progress=progress) + copy.audit.verify()
        except (FileNotFoundError, dh.CorruptError, dh.OpenError, dh.StorageError) as error:
            if attempt == _ATTEMPTS:
                # Either the source is damaged, which its own check tells, or it never holds still.
                with context.open(read_only=True) as history:
                    history.verify()
                raise CommandError(
                    f"{source}: no copy of {_ATTEMPTS} was whole, for its files keep changing ({error}): "
                    "try again while no purge or upkeep runs",
                    Exit.UNAVAILABLE,
                    "DH-BACKUP",
                ) from error
    raise AssertionError  # the last attempt returns or raises


def _complete(copy: dh.History, names: set[str]) -> None:
    if missing := names - _spaces(copy):
        raise dh.CorruptError(f"[DH-CORRUPT] the copy lacks {', '.join(sorted(missing))}")


def _spaces(history: dh.History) -> set[str]:
    figures = history.stats()
    return {f"{room}/{name}" for room in _ROOMS for name in figures[room]}


def _copy(source: Path, draft: Path) -> None:
    """Copy manifests first: what they name was there when they were copied, and logs only grow."""
    (draft / "triggers").mkdir(parents=True)
    # The audit log before the history: what its events rest on must not be missing there.
    if (source / "audit").is_dir():
        (draft / "audit").mkdir()
        for file in sorted((source / "audit").glob("*.parquet")):
            _copy_file(file, draft / "audit" / file.name)
        _sync(draft / "audit")
    _copy_file(source / "HISTORY", draft / "HISTORY")
    # The second copy of the identity; histories made before there was one have none.
    if (source / "HISTORY.copy").is_file():
        _copy_file(source / "HISTORY.copy", draft / "HISTORY.copy")
    # Before the spaces: of one that is made meanwhile the copy need not know yet.
    if (source / "known").is_dir():
        (draft / "known").mkdir()
        for file in sorted(file for file in (source / "known").iterdir() if not file.name.startswith(_LEFT_OUT)):
            _copy_file(file, draft / "known" / file.name)
        _sync(draft / "known")
    rooms = [source / room for room in _ROOMS if (source / room).is_dir()]
    for space in sorted(space for room in rooms for space in room.iterdir()):
        into = draft / space.parent.name / space.name
        into.mkdir(parents=True, exist_ok=True)
        names = sorted(file.name for file in space.iterdir() if not file.name.startswith(_LEFT_OUT))
        # The file `turn` tells how far the log is durable: it must not know more than the copy of the log holds.
        order = sorted(names, key=lambda name: (not name.startswith("manifest-"), name != "turn", name))
        for name in order:
            _copy_file(space / name, into / name)
        _sync(into)
    for room in rooms:
        if (draft / room.name).is_dir():
            _sync(draft / room.name)
    _sync(draft)


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb+") as copy:
        os.fsync(copy.fileno())


def _sync(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
