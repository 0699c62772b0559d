"""Polars: the history as one frame in memory, joined with the batch; durable by appended Arrow files, one a batch."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from benches.peers.base import Peer, append_durably, scattered
from benches.workload import COMPLETED, PROCESSING, Bytes, packed_column, packed_ids

Words = NDArray[np.uint64]  # ids as two numbers each: join on the first, compare the second; 3 x as fast as text


class Frames(Peer):
    """Each file holds ids of one day, so a day goes by unlinking; nothing makes ids unique or a claim atomic."""

    note = "in memory, join on 64-bit halves, all cores, no unique key"
    history: pl.DataFrame

    @staticmethod
    def version() -> str:
        return pl.__version__

    def build(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.files = 0
        for part in self.workload.parts():
            self._write(_frame(_words(packed_ids(part.numbers).tobytes()), part.codes, part.day), part.day)

    def _write(self, frame: pl.DataFrame, day: int) -> None:
        append_durably(self._path(day, self.files), frame.write_ipc(None).getvalue())
        self.files += 1

    def _path(self, day: int, number: int) -> Path:
        return self.directory / f"day-{day:05}-{number:05}.arrow"

    def open(self) -> None:
        paths = sorted(self.directory.glob("day-*.arrow"))
        self.files = len(paths)
        self.history = pl.concat([pl.read_ipc(path) for path in paths], rechunk=True)

    def close(self) -> None:
        del self.history

    def classify(self, documents: pa.RecordBatch) -> Any:
        return self._statuses(documents)

    def _statuses(self, documents: pa.RecordBatch) -> Bytes:
        return self._joined(_words(packed_column(documents.column("uuid"))))

    def _joined(self, words: Words) -> Bytes:
        batch = pl.DataFrame({"high": words[:, 0], "asked": words[:, 1], "place": np.arange(len(words))})
        joined = self.history.lazy().join(batch.lazy(), on="high").filter(pl.col("low") == pl.col("asked"))
        found = joined.select("place", "status").collect()
        return scattered(len(words), found["place"].to_numpy(), found["status"].to_numpy())

    def begin(self, documents: pa.RecordBatch) -> Words:
        words = _words(packed_column(documents.column("uuid")))
        new: Words = words[self._joined(words) == 0]
        self._add(new, PROCESSING)
        return new

    def complete(self, begun: Words) -> None:
        self._add(begun, COMPLETED)

    def _add(self, words: Words, code: int) -> None:
        frame = _frame(words, np.full(len(words), code, dtype=np.uint8), self.workload.p)
        self._write(frame, self.workload.p)
        self.history = pl.concat([self.history, frame], rechunk=False)

    def purge(self, day: int) -> None:
        for path in self.directory.glob(f"day-{day:05}-*.arrow"):
            path.unlink()
        self.history = self.history.filter(pl.col("day") != day)


def _words(packed: bytes) -> Words:
    words: Words = np.asfortranarray(np.frombuffer(packed, dtype=">u8").reshape(-1, 2).astype(np.uint64))
    return words


def _frame(words: Words, codes: Bytes, day: int) -> pl.DataFrame:
    days = np.full(len(words), day, dtype=np.int16)
    return pl.DataFrame({"high": words[:, 0], "low": words[:, 1], "status": codes, "day": days})


PEERS = {"polars": Frames}
