"""One moment of a whole history: all triggers, mappers, streams and the audit log, while nobody wrote to any.

Writers hold the writer lock of their key space (its file `turn`) for one operation. A process that
holds all of these locks at once sees a state that existed: of two successive operations, in
whatever spaces, the later one is never there without the earlier one. The locks are held while the
names of the files and the lengths of the logs are recorded; the files are copied afterwards.
"""

import errno
import fcntl
import os
import re
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dochistory as dh
from dochistory import _files, _native

ROOMS = ("triggers", "mappers", "delivery")
"""What holds key spaces: those of triggers, of mappers and of guaranteed delivery."""

_MANIFEST = re.compile(r"manifest-(\d{20})")
_DATA = ("segment-", "filter-", "values-", "log-")
_LEASE_SECONDS = 86_400
_TRIES = 20


@dataclass(frozen=True)
class Space:
    """A key space at that moment."""

    directory: Path
    manifest: str
    held: Path
    """A second name of the manifest, which keeps its files; the manifest itself where none could be made."""
    turn: bytes
    files: tuple[str, ...]
    logs: dict[str, tuple[int, int]]
    """How far each log's frames go, and how long it was: what stands between them is no part of the log."""


@dataclass(frozen=True)
class Moment:
    """A history at one moment."""

    spaces: list[Space] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    audit: list[str] = field(default_factory=list)
    """The data files of the audit log."""
    audit_manifest: tuple[str, bytes] | None = None
    """Its newest manifest, which the next writer removes."""


@contextmanager
def held(source: Path, timeout: float) -> Iterator[Moment]:
    """The present moment of the history at `source`; its files stay until this is left.

    Args:
        source: the history's directory.
        timeout: how long to wait for writers, in seconds.

    Raises:
        LockedError: [DH-LOCKED] a writer did not let go of a key space in time.
        StorageError: [DH-IO] the operating system refused.
    """
    end = time.monotonic() + timeout
    for _ in range(_TRIES):
        locks = _locks(source)
        _allow(len(locks))
        with ExitStack() as all_of_them:
            for path in locks:
                all_of_them.enter_context(_taken(path, end))
            # A space that was created meanwhile would not be locked.
            if _locks(source) == locks:
                pins: list[Path] = []
                try:
                    moment = _written_down(source, pins)
                    all_of_them.close()
                    yield moment
                finally:
                    for pin in pins:
                        pin.unlink(missing_ok=True)
                return
    raise dh.StateError(f"[DH-STATE] {source}: triggers are created faster than they can be locked")


def _locks(source: Path) -> list[Path]:
    """The locks of all key spaces, in the order in which every process takes more than one of them."""
    audit = [source / "audit" / "lock"] if (source / "audit" / "lock").is_file() else []
    rooms = [source / room for room in ROOMS if (source / room).is_dir()]
    return audit + sorted(path for room in rooms for path in room.glob("*/turn"))


def _allow(count: int) -> None:
    """Raise the limit of open files to `count`, if necessary."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise dh.DescriptorsError(
            f"[DH-DESCRIPTORS] one moment of {count:,} triggers and maps needs as many open files, and this process "
            f"may have {hard:,}: raise `ulimit -n`"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def _taken(path: Path, end: float) -> Iterator[None]:
    """Hold a lock. Waiting for it takes a place in the system's queue, so that busy writers cannot starve it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    waiting = _Waiting(file)
    try:
        while not waiting.is_over.wait(min(0.1, max(end - time.monotonic(), 0.001))):
            if time.monotonic() >= end:
                raise dh.LockedError(f"[DH-LOCKED] {path}: a writer did not release it in time")
        yield
    finally:
        waiting.give_up()


class _Waiting:
    """A wait for a lock that can be given up."""

    def __init__(self, file: int) -> None:
        self.is_over = threading.Event()
        self._file = file
        self._mutex = threading.Lock()
        self._is_left = False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.is_over.set()
        except BlockingIOError:
            threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._mutex:
            self.is_over.set()
            if self._is_left:
                _files.release(self._file)

    def give_up(self) -> None:
        """Release the lock, now or when it is granted."""
        with self._mutex:
            self._is_left = True
            if self.is_over.is_set():
                _files.release(self._file)


def _written_down(source: Path, pins: list[Path]) -> Moment:
    known = sorted(path.name for path in source.glob("known/*") if not path.name.startswith("tmp-"))
    spaces = []
    for room in ROOMS:
        for directory in sorted(source.glob(f"{room}/*")):
            # Desktops leave files of their own.
            space = _space(directory, pins) if directory.is_dir() else None
            if space is not None:
                spaces.append(space)
    return Moment(spaces, known, *_audit(source / "audit"))


def _audit(directory: Path) -> tuple[list[str], tuple[str, bytes] | None]:
    names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    manifests = [name for name in names if name.startswith("manifest-")]
    newest = (manifests[-1], (directory / manifests[-1]).read_bytes()) if manifests else None
    return [name for name in names if name.endswith(".parquet")], newest


def _space(directory: Path, pins: list[Path]) -> Space | None:
    names = sorted(path.name for path in directory.iterdir())
    numbers = [int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name))]
    if not numbers:
        return None  # nothing was ever acknowledged here
    manifest = directory / f"manifest-{numbers[-1]:020}"
    pin = directory / f"pin-{time.time_ns() // 1000:020}-{os.getpid():x}-{numbers[-1]}-{_LEASE_SECONDS}"
    held = manifest
    try:
        os.link(manifest, pin)
        pins.append(pin)
        held = pin
    except OSError:
        pass  # without the right to write here the copy is made again if a file goes away meanwhile
    turn = directory / "turn"
    files = tuple(name for name in names if name.startswith(_DATA))
    logs = {}
    for name in (name for name in files if name.startswith("log-")):
        # A log that is gone was over, and the manifest does not name it.
        if (extent := _native._log_extent(directory / name)) is not None:  # noqa: SLF001
            logs[name] = extent
    return Space(directory, manifest.name, held, turn.read_bytes() if turn.is_file() else b"", files, logs)
