"""Checks whether a directory is suitable for a history: syncs, links that refuse a name in use, locks that exclude.

One process holds a lock on a file of the probe while others check; they report what they see, and
try to take the lock.
"""

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import dochistory as dh

_PLACE = "tmp-doctor-"
_LOCK = "lock"


@dataclass(frozen=True)
class Found:
    """The results of one process. An empty text means that the check passed."""

    host: str
    process: int
    file_system: str
    """The type of the file system under the directory."""
    sees: str
    """What it sees instead of the prober's directory."""
    history: str
    """The identity of the history there."""
    sync: str
    sync_ms: float
    """How long a file of one line took to become durable."""
    link: str
    lock: str

    def as_dict(self) -> dict[str, Any]:
        """The results as plain types, for transport."""
        return asdict(self)


@contextmanager
def probing(directory: Path) -> Iterator[str]:
    """Hold a probe's lock in a history's directory; yields the probe's name, by which others find it.

    Raises:
        OSError: the directory cannot be written.
    """
    nonce = secrets.token_hex(8)
    place = directory / f"{_PLACE}{nonce}"
    place.mkdir()
    try:
        lock = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _sync(directory)
            yield nonce
        finally:
            os.close(lock)
    finally:
        rmtree(place, ignore_errors=True)


def look(directory: Path, nonce: str) -> Found:
    """The results of this process, while another one is probing."""
    host, process = socket.gethostname(), os.getpid()
    sees, history = _seen(directory, nonce)
    if sees:
        return Found(host, process, file_system(directory), sees, history, "", 0.0, "", "")
    place = directory / f"{_PLACE}{nonce}"
    own = place / f"{host}-{process}-{secrets.token_hex(4)}"
    started = time.perf_counter()
    sync = _trouble(lambda: _written(own))
    took = (time.perf_counter() - started) * 1000
    link = "" if sync else _trouble(lambda: _linked(own)) or _refused_link(own)
    return Found(host, process, file_system(directory), "", history, sync, took, link, _lock(place))


def left_by(directory: Path, nonce: str) -> set[tuple[str, int]]:
    """Host and process of those whose files the probing process sees."""
    names = (one.name for one in (directory / f"{_PLACE}{nonce}").iterdir() if not one.name.endswith(".link"))
    parts = (name.rsplit("-", 2) for name in names if name != _LOCK)
    return {(host, int(process)) for host, process, _ in parts}


def _seen(directory: Path, nonce: str) -> tuple[str, str]:
    """The difference from the probing process's directory, and the identity of the history there."""
    try:
        names = [one.name for one in directory.iterdir()]
    except OSError as error:
        return f"the system says {error.strerror or error}", ""
    try:
        with dh.open(directory, read_only=True) as history:
            found = history.id
    except dh.DocHistoryError as error:
        return str(error) if names else "the directory is empty", ""
    if f"{_PLACE}{nonce}" not in names:
        return "the directory is another one: what the driver wrote into it a moment ago is not there", found
    return "", found


def _written(path: Path) -> None:
    with path.open("x") as file:
        file.write("probe\n")
        file.flush()
        os.fsync(file.fileno())
    _sync(path.parent)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _linked(path: Path) -> None:
    os.link(path, f"{path}.link")


def _refused_link(path: Path) -> str:
    """Check that a name in use is refused: so only one of two manifests of one number is published."""
    try:
        os.link(path, f"{path}.link")
    except FileExistsError:
        return ""
    except OSError as error:
        return f"the system says {error.strerror or error} where it should say that the file exists"
    return "a second link took the place of the first"


def _lock(place: Path) -> str:
    handle = -1
    try:
        handle = os.open(place / _LOCK, os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ""
    except OSError as error:
        return f"the system says {error.strerror or error}"
    else:
        return "it got the lock that another process holds"
    finally:
        if handle >= 0:
            with suppress(OSError):
                os.close(handle)


def _trouble(work: Any) -> str:
    try:
        work()
    except OSError as error:
        return f"the system says {error.strerror or error}"
    return ""


def file_system(directory: Path) -> str:
    """The type of the file system that holds a directory, by the kernel's name; `unknown` without one."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        real = Path(os.path.realpath(directory))
    except OSError:
        return "unknown"
    best, found = -1, "unknown"
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].replace("\\040", " "))
        # Of several mounts at one place the last one is visible.
        if (real == point or point in real.parents) and len(point.parts) >= best:
            best, found = len(point.parts), after.split()[0]
    return found
