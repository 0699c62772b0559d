"""PostgreSQL, if its server is installed: one of our own, on a socket in its directory, with synced commits."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benches.peers.base import Peer, scattered
from benches.workload import COMPLETED, PROCESSING, Bytes, packed_ids, packed_list

SETTINGS = {"listen_addresses": "", "shared_buffers": "2GB", "max_wal_size": "8GB", "work_mem": "256MB"}
BINARY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
BINARY_END = b"\xff\xff"


class Postgres(Peer):
    """A table with a UUID as primary key, joined with a temporary table of the batch; binary COPY."""

    note = "server of its own, whose memory is not counted; join with a temporary table, binary COPY"
    connection: Any
    size: int

    @staticmethod
    def missing() -> str | None:
        import psycopg  # noqa: F401 - whether it is there

        return None if _binary("initdb") and _binary("pg_ctl") else "no PostgreSQL server is installed"

    @staticmethod
    def version() -> str:
        return subprocess.run([_binary("postgres"), "--version"], capture_output=True, text=True).stdout.split()[2]

    @property
    def data(self) -> Path:
        return (self.directory / "postgres").absolute()

    def build(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(self.data, "nobody")
        self._run("initdb", "--auth=trust", "--username=bench", "--no-instructions", "-D", str(self.data))
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
            settings.write(f"unix_socket_directories = '{self.data}'\n")
        self.open()
        self.connection.execute("CREATE TABLE history (id uuid, status smallint NOT NULL, day smallint NOT NULL)")
        for part in self.workload.parts():
            rows = _binary_rows(packed_ids(part.numbers), part.codes, part.day)
            self._copy("COPY history FROM STDIN (FORMAT binary)", rows)
        self.connection.execute("ALTER TABLE history ADD PRIMARY KEY (id)")
        self.connection.commit()
        self.connection.autocommit = True
        self.connection.execute("VACUUM ANALYZE history")
        self.connection.execute("CHECKPOINT")
        self.bytes_on_disk()
        self.close()

    def bytes_on_disk(self) -> int:
        # Not the server's own catalogues and log.
        if not self.connection.closed:
            (self.size,) = self.connection.execute("SELECT pg_total_relation_size('history')").fetchone()
        return self.size

    def open(self) -> None:
        import psycopg

        self._run("pg_ctl", "start", "--wait", "--silent", "-D", str(self.data), "-l", str(self.data / "server.log"))
        self.connection = psycopg.connect(host=str(self.data), user="bench", dbname="postgres")
        self.connection.execute("CREATE TEMPORARY TABLE batch (id uuid, at integer, day smallint)")
        self.connection.commit()

    def close(self) -> None:
        self.connection.close()
        self._run("pg_ctl", "stop", "--wait", "--silent", "--mode=fast", "-D", str(self.data))

    def _run(self, program: str, *arguments: str) -> None:
        # The server refuses to run as root.
        user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
        command = [_binary(program), *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "cwd": self.data}
        subprocess.run(command, check=True, **quiet, **(user if os.geteuid() == 0 else {}))  # type: ignore[call-overload]

    def _copy(self, statement: str, rows: bytes) -> None:
        with self.connection.cursor().copy(statement) as copy:
            copy.write(BINARY_HEADER + rows + BINARY_END)

    def classify(self, documents: pa.RecordBatch) -> Any:
        found = self._statuses(documents)
        self.connection.commit()
        return found

    def _statuses(self, documents: pa.RecordBatch) -> Bytes:
        rows = documents.num_rows
        ids = np.frombuffer(b"".join(packed_list(documents.column("uuid"))), dtype=np.uint8).reshape(-1, 16)
        self.connection.execute("TRUNCATE batch")
        self._copy("COPY batch FROM STDIN (FORMAT binary)", _binary_rows(ids, np.arange(rows), self.workload.p, 4))
        self.connection.execute("ANALYZE batch")
        hits = self.connection.execute("SELECT at, status FROM batch JOIN history USING (id)").fetchall()
        pairs = np.array(hits, dtype=np.int64).reshape(-1, 2)
        return scattered(rows, pairs[:, 0], pairs[:, 1].astype(np.uint8))

    def begin(self, documents: pa.RecordBatch) -> None:
        self._statuses(documents)
        self.connection.execute(
            f"INSERT INTO history SELECT id, {PROCESSING}, day FROM batch ON CONFLICT (id) DO NOTHING"
        )
        self.connection.commit()

    def complete(self, begun: None) -> None:  # noqa: ARG002 - the batch still stands in its table
        self.connection.execute(
            f"UPDATE history SET status = {COMPLETED} FROM batch WHERE history.id = batch.id"
            f" AND history.status = {PROCESSING} AND history.day = batch.day"
        )
        self.connection.commit()

    def purge(self, day: int) -> None:
        self.connection.execute("DELETE FROM history WHERE day = %s", (day,))
        self.connection.commit()


def _binary(program: str) -> str:
    return shutil.which(program) or ""


def _binary_rows(ids: Bytes, values: Any, day: int, width: int = 2) -> bytes:
    """Rows of (uuid, integer of so many bytes, smallint) as COPY's binary format wants them."""
    row = np.dtype(
        [
            ("fields", ">i2"),
            ("l1", ">i4"),
            ("id", "V16"),
            ("l2", ">i4"),
            ("value", f">i{width}"),
            ("l3", ">i4"),
            ("day", ">i2"),
        ]
    )
    rows = np.empty(len(ids), dtype=row)
    rows["fields"], rows["l1"], rows["l2"], rows["l3"], rows["day"] = 3, 16, width, 2, day
    rows["id"], rows["value"] = np.ascontiguousarray(ids).view("V16").reshape(-1), values
    return rows.tobytes()


PEERS = {"postgresql": Postgres}
