"""A document-history table in a real PostgreSQL comes over, and both sides give the same answers."""

import datetime as dt
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import migration
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.servers import postgres
from tests.support import trigger

pytestmark = pytest.mark.slow

ROWS = 30_000
QUERY = "select trigger_name as trigger, doc_uuid as uuid, status, started as time from document_history"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres.server() as address, psycopg.connect(address) as connection:
        connection.execute(
            "create table document_history (trigger_name text, doc_uuid uuid, status char(1), started timestamptz)"
        )
        start = dt.datetime.now(dt.UTC) - dt.timedelta(days=20)
        with connection.cursor().copy("copy document_history from stdin") as copy:
            for n in range(ROWS):
                row = ("orders" if n % 3 else "invoices", uuid.UUID(int=n << 64 | 1), start + dt.timedelta(seconds=n))
                copy.write_row((row[0], row[1], "P", row[2]))
                if n % 10:
                    copy.write_row((row[0], row[1], "C", row[2]))
        connection.commit()
        yield address


def expected(history: dh.History, name: str) -> tuple[int, int]:
    statuses = pa.table(history.entries(name))["status"].to_pylist()
    return statuses.count("completed"), statuses.count("processing")


def test_every_entry_comes_over_and_both_sides_agree(server: str, history_path: Path) -> None:
    triggers = {name: trigger(name, history_time_to_live="30 days") for name in ("orders", "invoices")}
    source = migration.dbapi(lambda: psycopg.connect(server), QUERY, rows_at_once=7_000)
    with dh.open(history_path, create=True) as history:
        done = migration.import_history(history, source, triggers, statuses={"P": "processing", "C": "completed"})

        assert done.rows == ROWS + ROWS * 9 // 10
        assert done.checked > 9_000
        assert done.differences.num_rows == 0
        assert expected(history, "orders") == (18_000, 2_000)
        assert expected(history, "invoices") == (9_000, 1_000)
        with psycopg.connect(server) as connection:
            sql = "select doc_uuid::text, max(started) from document_history where trigger_name = 'orders' group by 1"
            there: dict[str, dt.datetime] = dict(connection.execute(sql).fetchall())
        here = pa.table(history.entries("orders"))
        found = dict(zip(here["key"].to_pylist(), here["started_at"].to_pylist(), strict=True))
        assert found == there


def test_the_command_line_does_the_same(server: str, run: Run) -> None:  # noqa: F811 - the fixture
    words = ["load", "--history", "new.history", "--create", "--time-to-live", "30 days", "--driver", "psycopg"]
    words += ["--connect", server, "--query", QUERY, "--status-value", "P=processing", "--status-value", "C=completed"]
    ran = run(*words, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["differences"] == []
    assert ran.json["loaded"] == {"invoices": 19_000, "orders": 38_000}


@pytest.mark.spark
def test_spark_reads_the_table_over_jdbc(server: str, history_path: Path) -> None:
    port = re.findall(r"port=(\d+)", server)[0]
    command = [sys.executable, "-m", "tests.migration.spark_jdbc", port, str(history_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    done = json.loads(ran.stdout.splitlines()[-1])
    assert done == {"rows": 57_000, "loaded": {"invoices": 19_000, "orders": 38_000}, "differences": 0}
    with dh.open(history_path, read_only=True) as history:
        assert expected(history, "orders") == (18_000, 2_000)
