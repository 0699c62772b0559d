"""Files that a command writes: whole or not at all, and never over another without `--force`."""

import argparse
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dochistory.cli.failures import CommandError


@contextmanager
def draft(name: str | os.PathLike[str], *, force: bool) -> Iterator[Path]:
    """The path to write to; the file gets its own name when the block ends without an error.

    Args:
        name: the file.
        force: whether another file may be replaced.

    Raises:
        CommandError: the file is there already, or its directory is not.
    """
    path = Path(name)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        if path.is_dir():
            raise CommandError(f"{path}: this is a directory: name a file in it")
        yield path  # a device or a pipe, which has nothing to lose
        return
    if not path.parent.is_dir():
        raise CommandError(f"{path.parent}: no such directory: create it first")
    # A link stays a link, and what it leads to is replaced.
    path = path.resolve()
    if not force:
        _check_free(path)
    # The suffix stays last, because it tells the compression.
    made = path.with_name(f".dochistory-draft-{os.getpid()}-{path.name}")
    try:
        yield made
        if force:
            made.replace(path)
        else:
            _give_name(made, path)
    finally:
        made.unlink(missing_ok=True)


def _give_name(made: Path, path: Path) -> None:
    """Give the file its name, unless another has come by it meanwhile."""
    try:
        path.hardlink_to(made)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # a file system without links
        _check_free(path)
        made.replace(path)


def _check_free(path: Path) -> None:
    if path.exists():
        raise _exists(path)


def _exists(path: Path) -> CommandError:
    return CommandError(f"{path}: exists already: name another file, or pass --force to replace it")


def check_output(options: argparse.Namespace) -> None:
    """Refuse what means nothing where the output is the standard output.

    Raises:
        CommandError: `--force` or `--json` is given.
    """
    if options.output == "-":
        for option, given in (("--force", options.force), ("--json", options.json)):
            if given:
                raise CommandError(f"{option} means nothing with --output -: leave it out")


def add_output(command: argparse.ArgumentParser, help_: str, default: str | None = None) -> None:
    """Add the options `--output` and `--force` to a command."""
    output = command.add_argument("--output", "-o", metavar="FILE", default=default, help=help_)
    output.complete = "file"  # type: ignore[attr-defined]
    command.add_argument("--force", action="store_true", help="replace FILE if it is there")
