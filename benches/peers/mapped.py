"""LMDB: 16-byte keys, batches looked up and written in the order of their keys."""

from importlib.metadata import version
from typing import Any

import lmdb
import numpy as np
import pyarrow as pa

from benches.peers.base import Peer
from benches.workload import COMPLETED, PROCESSING, Bytes, packed_ids, packed_list

BYTES_AN_ID = 200  # of address space, far more than is used


class Mapped(Peer):
    """The value of a key is its status and its day."""

    note = "16-byte keys, getmulti and putmulti in the order of keys"
    environment: Any

    @staticmethod
    def version() -> str:
        return version("lmdb")

    def build(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.open()
        ids = np.concatenate([packed_ids(part.numbers) for part in self.workload.parts()]).view("V16").reshape(-1)
        codes = np.concatenate([part.codes for part in self.workload.parts()])
        days = np.concatenate([np.full(len(part.numbers), part.day) for part in self.workload.parts()])
        order = np.argsort(ids.view(">u8").reshape(-1, 2)[:, 0], kind="stable")
        rows = zip(ids[order].tolist(), codes[order].tolist(), days[order].tolist(), strict=True)
        with self.environment.begin(write=True) as transaction:
            transaction.cursor().putmulti((key, _value(code, day)) for key, code, day in rows)
        self.close()

    def open(self) -> None:
        size = (self.workload.n + 10_000_000) * BYTES_AN_ID
        self.environment = lmdb.open(str(self.directory / "lmdb"), map_size=size, readahead=False)

    def close(self) -> None:
        self.environment.close()

    def classify(self, documents: pa.RecordBatch) -> Any:
        return self._statuses(packed_list(documents.column("uuid")))

    def _statuses(self, keys: list[bytes]) -> Bytes:
        codes = np.zeros(len(keys), dtype=np.uint8)
        with self.environment.begin() as transaction:
            found = {key: value[0] for key, value in transaction.cursor().getmulti(sorted(keys))}
        for row, key in enumerate(keys):
            if key in found:
                codes[row] = found[key]
        return codes

    def begin(self, documents: pa.RecordBatch) -> list[bytes]:
        keys = packed_list(documents.column("uuid"))
        statuses = self._statuses(keys).tolist()
        new = sorted(key for key, status in zip(keys, statuses, strict=True) if not status)
        self._put(new, PROCESSING)
        return new

    def complete(self, begun: list[bytes]) -> None:
        self._put(begun, COMPLETED)

    def _put(self, keys: list[bytes], code: int) -> None:
        value = _value(code, self.workload.p)
        with self.environment.begin(write=True) as transaction:
            transaction.cursor().putmulti([(key, value) for key in keys])

    def purge(self, day: int) -> None:
        ending = day.to_bytes(2, "little")
        with self.environment.begin(write=True) as transaction:
            cursor = transaction.cursor()
            more = cursor.first()
            while more:
                more = cursor.delete() if cursor.value()[1:] == ending else cursor.next()


def _value(code: int, day: int) -> bytes:
    return bytes((code,)) + day.to_bytes(2, "little")


PEERS = {"lmdb": Mapped}
