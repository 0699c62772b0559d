"""The jobs that every peer does."""

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benches.workload import Bytes, Workload


class Peer(ABC):
    """A history of ids in a directory. Durable means: it survives the loss of power when the call has returned."""

    note: ClassVar[str] = ""
    takes_threads: ClassVar[bool] = False

    def __init__(self, directory: Path, workload: Workload) -> None:
        self.directory = directory
        self.threads = 1
        self.workload = workload

    @staticmethod
    def missing() -> str | None:
        """Why it cannot run here, or None."""
        return None

    @staticmethod
    @abstractmethod
    def version() -> str:
        """The version that is measured."""

    @abstractmethod
    def build(self) -> None:
        """Make the history of the workload, durable and compact, and close it."""

    @abstractmethod
    def open(self) -> None:
        """Make ready to answer."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    @abstractmethod
    def classify(self, documents: pa.RecordBatch) -> Any:
        """The status of every document, as a column of the peer's own kind."""

    def classify_as_bytes(self, documents: pa.RecordBatch) -> Any:
        """The same, a byte a document: all that most peers can say."""
        return self.classify(documents)

    def codes(self, answer: Any) -> Bytes:
        """That column as status codes; not measured."""
        found: Bytes = np.asarray(answer, dtype=np.uint8)
        return found

    @abstractmethod
    def begin(self, documents: pa.RecordBatch) -> Any:
        """Classify, and record `processing` for what is new: durable. Returns what `complete` needs."""

    @abstractmethod
    def complete(self, begun: Any) -> None:
        """Record `completed` for what was begun: durable."""

    @abstractmethod
    def purge(self, day: int) -> None:
        """Forget the ids that began on this day, the oldest: durable."""

    def bytes_on_disk(self) -> int:
        """What its files occupy."""
        return size_on_disk(self.directory)


def size_on_disk(directory: Path) -> int:
    """What the files in a directory occupy. Some may be removed meanwhile."""
    found = 0
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            found += path.stat().st_blocks * 512 if path.is_file() else 0
    return found


def scattered(rows: int, at: NDArray[np.int64], found: Bytes) -> Bytes:
    """The status column of a join that answers only the rows it found; of two answers the completed one holds."""
    codes = np.zeros(rows, dtype=np.uint8)
    order = np.argsort(found, kind="stable")[::-1]  # completed (1) is written last
    codes[at[order]] = found[order]
    return codes


def append_durably(path: Path, *chunks: bytes | pa.Buffer) -> None:
    """Append to a file and sync it, and the directory where it is new."""
    new = not path.exists()
    with path.open("ab") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fdatasync(file.fileno())
    if new:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make new names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
