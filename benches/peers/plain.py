"""A Python dict, and a file of 19-byte records that it is made from when a process starts."""

import platform
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benches.peers.base import Peer, append_durably
from benches.workload import COMPLETED, PROCESSING, Bytes, packed_ids, packed_list

RECORD = np.dtype([("id", "V16"), ("status", "u1"), ("day", "<u2")])


class Plain(Peer):
    """Keys of 16 bytes; the value is the status and the day in one number."""

    note = "in memory, rebuilt at start"
    history: dict[bytes, int]

    @staticmethod
    def version() -> str:
        return platform.python_version()

    def build(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for part in self.workload.parts():
            ids = packed_ids(part.numbers).view("V16").reshape(-1)
            self._append(ids, part.codes, part.day)

    def _append(self, ids: NDArray[np.void], codes: Bytes | int, day: int) -> None:
        records = np.empty(len(ids), dtype=RECORD)
        records["id"], records["status"], records["day"] = ids, codes, day
        append_durably(self.directory / "history.records", records.tobytes())

    def open(self) -> None:
        records = np.fromfile(self.directory / "history.records", dtype=RECORD)
        values = records["status"].astype(np.int64) + records["day"].astype(np.int64) * 4
        self.history = dict(zip(records["id"].tolist(), values.tolist(), strict=True))

    def close(self) -> None:
        self.history = {}

    def classify(self, documents: pa.RecordBatch) -> Any:
        return self._statuses(packed_list(documents.column("uuid")))

    def _statuses(self, keys: list[bytes]) -> Bytes:
        values = np.array([self.history.get(key, 0) for key in keys])
        codes: Bytes = (values % 4).astype(np.uint8)
        return codes

    def begin(self, documents: pa.RecordBatch) -> list[bytes]:
        keys = packed_list(documents.column("uuid"))
        statuses = self._statuses(keys).tolist()
        new = [key for key, status in zip(keys, statuses, strict=True) if not status]
        self._put(new, PROCESSING)
        return new

    def complete(self, begun: list[bytes]) -> None:
        self._put(begun, COMPLETED)

    def _put(self, keys: list[bytes], code: int) -> None:
        self._append(np.frombuffer(b"".join(keys), dtype="V16"), code, self.workload.p)
        self.history.update(dict.fromkeys(keys, self.workload.p * 4 + code))

    def purge(self, day: int) -> None:
        self.history = {key: value for key, value in self.history.items() if value // 4 != day}


PEERS = {"dict": Plain}
