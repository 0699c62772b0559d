"""RocksDB by rocksdict: 16-byte keys, a Bloom filter of 10 bits over whole keys, answers by multi-get."""

from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
from rocksdict import AccessType, Options, Rdict, WriteBatch, WriteOptions

from benches.peers.base import Peer
from benches.workload import COMPLETED, PROCESSING, Bytes, packed_ids, packed_list

BLOCK_CACHE_MIB = 1024  # all of the reference history
MULTI_GET_KEYS = 1000  # five times as fast as all keys of a large batch at once


class Rocks(Peer):
    """The value of a key is its status and its day."""

    note = "16-byte keys, 10-bit whole-key filter, multi-get"
    db: Any  # its annotations want lists of mixed keys

    @staticmethod
    def version() -> str:
        return version("rocksdict")

    def build(self) -> None:
        self.open()
        unlogged: Any = WriteOptions()  # an attribute that its annotations call a method
        unlogged.disable_wal = True
        for part in self.workload.parts():
            keys = packed_ids(part.numbers).view("V16").reshape(-1).tolist()
            batch = WriteBatch(raw_mode=True)
            for key, code in zip(keys, part.codes.tolist(), strict=True):
                batch.put(key, _value(code, part.day))
            self.db.write(batch, unlogged)
        self.db.flush()
        self.db.compact_range(None, None)
        self.close()

    def open(self) -> None:
        options = Options(raw_mode=True)
        # This one keeps the filter when the database is opened again; one set by BlockBasedOptions is lost.
        options.optimize_for_point_lookup(BLOCK_CACHE_MIB)
        options.increase_parallelism(2)
        options.create_if_missing(True)
        self.db = Rdict(str(self.directory / "rocks"), options, access_type=AccessType.read_write())
        self.durable = WriteOptions()
        self.durable.sync = True

    def close(self) -> None:
        self.db.close()

    def classify(self, documents: pa.RecordBatch) -> Any:
        return self._statuses(packed_list(documents.column("uuid")))

    def _statuses(self, keys: list[bytes]) -> Bytes:
        codes = np.zeros(len(keys), dtype=np.uint8)
        for start in range(0, len(keys), MULTI_GET_KEYS):
            for row, value in enumerate(self.db.get(keys[start : start + MULTI_GET_KEYS]), start):
                if value is not None:
                    codes[row] = value[0]
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
        batch, value = WriteBatch(raw_mode=True), _value(code, self.workload.p)
        for key in keys:
            batch.put(key, value)
        self.db.write(batch, self.durable)

    def purge(self, day: int) -> None:
        batch, ending = WriteBatch(raw_mode=True), day.to_bytes(2, "little")
        for key, value in self.db.items():
            if value[1:] == ending:
                batch.delete(key)
        self.db.write(batch, self.durable)


def _value(code: int, day: int) -> bytes:
    return bytes((code,)) + day.to_bytes(2, "little")


PEERS = {"rocksdict": Rocks}
