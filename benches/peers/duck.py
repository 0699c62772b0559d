"""DuckDB: an append-only table without an index, joined with the batch; its own threads."""

from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa

from benches.peers.base import Peer, scattered
from benches.workload import COMPLETED, PROCESSING, Bytes


class Duck(Peer):
    """Ids of type UUID. Ids that end are appended again: updating rows in place would be slower."""

    note = "UUID join, all cores, no unique key"
    id_type: ClassVar[str] = "UUID"
    connection: duckdb.DuckDBPyConnection

    @staticmethod
    def version() -> str:
        return duckdb.__version__

    def build(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.open()
        self.connection.execute(f"CREATE TABLE history (id {self.id_type}, status UTINYINT, day SMALLINT)")
        for part in self.workload.parts():
            chunk = pa.table({"uuid": self.workload.column(part.numbers), "status": pa.array(part.codes)})
            self.connection.register("chunk", chunk)
            self.connection.execute(f"INSERT INTO history SELECT uuid::{self.id_type}, status, {part.day} FROM chunk")
            self.connection.unregister("chunk")
        self.connection.execute("CHECKPOINT")
        self.close()

    def open(self) -> None:
        self.connection = duckdb.connect(str(self.directory / "history.duckdb"))

    def close(self) -> None:
        self.connection.close()

    def classify(self, documents: pa.RecordBatch) -> Any:
        return self._statuses(documents)

    def _statuses(self, documents: pa.RecordBatch) -> Bytes:
        rows = pa.array(np.arange(documents.num_rows))
        self.connection.register("batch", pa.table({"uuid": documents.column("uuid"), "place": rows}))
        found: Any = self.connection.execute(
            f"SELECT place, status FROM history JOIN batch ON history.id = batch.uuid::{self.id_type}"
        ).fetchnumpy()
        return scattered(documents.num_rows, found["place"], found["status"])

    def begin(self, documents: pa.RecordBatch) -> pa.Table:
        new = pa.table({"uuid": documents.column("uuid").filter(pa.array(self._statuses(documents) == 0))})
        self._append(new, PROCESSING)
        return new

    def complete(self, begun: pa.Table) -> None:
        self._append(begun, COMPLETED)

    def _append(self, ids: pa.Table, code: int) -> None:
        self.connection.register("added", ids)
        self.connection.execute(
            f"INSERT INTO history SELECT uuid::{self.id_type}, {code}, {self.workload.p} FROM added"
        )
        self.connection.unregister("added")

    def purge(self, day: int) -> None:
        self.connection.execute("DELETE FROM history WHERE day = ?", [day])


class DuckText(Duck):
    """Ids as text."""

    note = "text join, all cores, no unique key"
    id_type = "VARCHAR"


PEERS = {"duckdb": Duck, "duckdb-text": DuckText}
