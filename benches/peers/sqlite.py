"""SQLite: a table without row ids under a 16-byte primary key, write-ahead log, full sync."""

import sqlite3
from typing import Any

import numpy as np
import pyarrow as pa

from benches.peers.base import Peer
from benches.workload import COMPLETED, PROCESSING, Bytes, packed_ids, packed_list

CACHE_KIB = 1 << 20  # all of the reference history


class Sqlite(Peer):
    """One row an id: its status and its day."""

    note = "16-byte primary key, without row ids"
    connection: sqlite3.Connection

    @staticmethod
    def version() -> str:
        return sqlite3.sqlite_version

    def build(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.open()
        self.connection.execute(
            "CREATE TABLE history (id BLOB PRIMARY KEY, status INTEGER NOT NULL, day INTEGER NOT NULL) WITHOUT ROWID"
        )
        ids = np.concatenate([packed_ids(part.numbers) for part in self.workload.parts()])
        codes = np.concatenate([part.codes for part in self.workload.parts()])
        days = np.concatenate([np.full(len(part.numbers), part.day) for part in self.workload.parts()])
        order = np.argsort(ids.view(">u8")[:, 0], kind="stable")
        rows = zip(
            ids[order].view("V16").reshape(-1).tolist(), codes[order].tolist(), days[order].tolist(), strict=True
        )
        with self.connection:
            self.connection.executemany("INSERT INTO history VALUES (?, ?, ?)", rows)
        self.close()

    def open(self) -> None:
        self.connection = sqlite3.connect(self.directory / "history.sqlite")
        for pragma in ("journal_mode=WAL", "synchronous=FULL", f"cache_size=-{CACHE_KIB}", f"mmap_size={1 << 36}"):
            self.connection.execute(f"PRAGMA {pragma}")

    def close(self) -> None:
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()

    def classify(self, documents: pa.RecordBatch) -> Any:
        return self._statuses(packed_list(documents.column("uuid")))

    def _statuses(self, keys: list[bytes]) -> Bytes:
        codes = np.zeros(len(keys), dtype=np.uint8)
        ask = self.connection.execute
        ask("BEGIN")  # without it each question would take and drop the file's locks
        for row, key in enumerate(keys):
            if found := ask("SELECT status FROM history WHERE id = ?", (key,)).fetchone():
                codes[row] = found[0]
        self.connection.commit()
        return codes

    def begin(self, documents: pa.RecordBatch) -> list[bytes]:
        keys = packed_list(documents.column("uuid"))
        statuses = self._statuses(keys).tolist()
        new = sorted(key for key, status in zip(keys, statuses, strict=True) if not status)
        with self.connection:
            rows = ((key, PROCESSING, self.workload.p) for key in new)
            self.connection.executemany("INSERT INTO history VALUES (?, ?, ?)", rows)
        return new

    def complete(self, begun: list[bytes]) -> None:
        with self.connection:
            rows = ((COMPLETED, key) for key in begun)
            self.connection.executemany("UPDATE history SET status = ? WHERE id = ?", rows)

    def purge(self, day: int) -> None:
        with self.connection:
            self.connection.execute("DELETE FROM history WHERE day = ?", (day,))


PEERS = {"sqlite": Sqlite}
