"""Large objects, in parts side by side."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

PART = 16 << 20
"""Bytes of one part."""
THREADS = 8


WHOLE = 64 << 20
"""Up to this size a file is stored by one request, which can create if absent."""


def is_whole(file: IO[bytes]) -> bool:
    """Whether one request stores this open file."""
    return os.fstat(file.fileno()).st_size <= WHOLE


def put(store: Any, name: str, file: IO[bytes]) -> None:
    """Store an open file in parts."""
    import obstore

    file.seek(0)
    obstore.put(store, name, file, chunk_size=PART, max_concurrency=THREADS, use_multipart=True)


def get(part: Callable[[int, int], Any], size: int, path: Path) -> None:
    """Write an object into a file, which is made or replaced.

    Args:
        part: answers the bytes from a start, of a length.
        size: the object's size.
        path: the file.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        _write(handle, part, size, path)
    except OSError as error:
        # What is said of an open file does not name it.
        if error.errno is None or isinstance(error.filename, str):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
    finally:
        os.close(handle)


def _write(handle: int, part: Callable[[int, int], Any], size: int, path: Path) -> None:
    os.truncate(handle, size)

    def fetch(start: int) -> None:
        view = memoryview(part(start, min(PART, size - start)))
        if len(view) != min(PART, size - start):
            raise OSError(f"{path}: the store answered {len(view)} bytes of a part of {min(PART, size - start)}")
        written = 0
        while written < len(view):
            written += os.pwrite(handle, view[written:], start + written)

    starts = range(0, size, PART)
    if len(starts) <= 1:
        for start in starts:
            fetch(start)
    else:
        with ThreadPoolExecutor(THREADS) as threads:
            # All results are asked for, so that the first failure is raised.
            list(threads.map(fetch, starts))
