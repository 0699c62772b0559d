"""Files beside a history that survive crashes: each appears whole or not at all, and none is overwritten."""

import errno
import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import dochistory as dh

DRAFT = "tmp-"
"""How names of files in the making begin; whatever is left of them after a crash means nothing."""


def place(history: "dh.History | str | os.PathLike[str]") -> Path:
    """The directory of a history, however it is given.

    Raises:
        OpenError: [DH-OPEN] the URL does not name a directory of this machine.
    """
    return dh.local_path(history.path if isinstance(history, dh.History) else history)


def publish(path: Path, content: Any) -> bool:
    """Make a file, durably: it is there completely, or not at all.

    Args:
        path: its name; the directory is created if it does not exist.
        content: its bytes.

    Returns:
        False if a file of that name exists already; it stays as it is.

    Raises:
        StorageError: [DH-IO] the operating system refused.
    """
    with _draft(path, content) as draft:
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    return True


def replace(path: Path, content: dict[str, Any]) -> None:
    """Replace a small JSON document by another, durably.

    Raises:
        StorageError: [DH-IO] the operating system refused.
    """
    with _draft(path, (json.dumps(content, ensure_ascii=False) + "\n").encode()) as draft:
        draft.replace(path)


@contextmanager
def _draft(path: Path, content: Any) -> Iterator[Path]:
    """A durable file beside `path`, which the block gives its name; afterwards that is durable, too."""
    with storage(path):
        make_directory(path.parent)
        draft = path.parent / f"{DRAFT}{os.getpid()}-{uuid.uuid4().hex}"
        try:
            draft.write_bytes(content)
            sync(draft)
            yield draft
        finally:
            draft.unlink(missing_ok=True)
        sync(path.parent)


def content_of(path: Path) -> dict[str, Any] | None:
    """The content that `replace` wrote; None if there is none.

    Raises:
        CorruptError: [DH-CORRUPT] the file is no JSON document.
        StorageError: [DH-IO] the operating system refused.
    """
    with storage(path):
        try:
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            raise dh.CorruptError(f"[DH-CORRUPT] {path}: not text: {error}") from error
    try:
        found = json.loads(text)
    except ValueError as error:
        raise dh.CorruptError(f"[DH-CORRUPT] {path}: not JSON: {error}; remove the file to start again") from error
    if not isinstance(found, dict):
        raise dh.CorruptError(f"[DH-CORRUPT] {path}: not a JSON object; remove the file to start again")
    return found


def make_directory(directory: Path) -> None:
    """Make a directory and its parents, durably."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    sync(directory.parent)


def sync(path: Path) -> None:
    """Make the content of a file or directory durable."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def storage(path: Path) -> Iterator[None]:
    """Raise errors of the operating system as those of the package."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise dh.DescriptorsError(
                f"[DH-DESCRIPTORS] {error.filename or path}: {error.strerror}; close what is not needed, or raise "
                "the limit of open files (`ulimit -n`)"
            ) from error
        raise dh.StorageError(f"[DH-IO] {error.filename or path}: {error.strerror or error}") from error


def release(file: int) -> None:
    """Release a lock (`flock`) and close its file.

    A process that was forked meanwhile has the same lock, which closing alone would leave to it.
    """
    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


class Lock:
    """A lock between processes and threads that dies with its holder."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self.timeout = timeout
        self._file: int | None = None
        self._process = 0

    def take(self) -> None:
        """Wait for it.

        Raises:
            LockedError: [DH-LOCKED] another process held it for longer than `timeout` seconds; the
                text names it.
            StorageError: [DH-IO] the operating system refused.
        """
        with storage(self.path):
            make_directory(self.path.parent)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            end = time.monotonic() + self.timeout
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() < end:
                        time.sleep(0.005)
                        continue
                    holder = os.pread(file, 200, 0).decode(errors="replace").strip("\0\n") or "another process"
                    os.close(file)
                    raise dh.LockedError(
                        f"[DH-LOCKED] {self.path} has been held by {holder} for longer than {self.timeout:g} s"
                    ) from None
            with suppress(OSError):  # only for a process that waits; on a full disk the lock is held all the same
                os.pwrite(file, f"process {os.getpid()}".ljust(64, "\0").encode(), 0)
        self._file, self._process = file, os.getpid()

    def give_back(self) -> None:
        """Release it; repeating this changes nothing."""
        if self._file is None:
            return
        if self._process == os.getpid():
            release(self._file)
        else:  # it is the parent's
            os.close(self._file)
        self._file = None

    def let_go(self) -> None:
        """Release it, as `give_back`."""
        self.give_back()

    def is_taken(self) -> bool:
        """Whether any process holds it now."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()
