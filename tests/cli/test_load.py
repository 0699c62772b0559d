"""`dochistory load`."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from tests.cli.conftest import Run
from tests.support import entries, trigger

OLD = pa.table({"trigger": ["orders", "orders", "bills"], "uuid": ["1", "2", "3"], "status": ["completed"] * 3})


@pytest.mark.usefixtures("run")
def test_a_file_is_loaded_and_both_sides_are_asked(run: Run, orders: Path) -> None:
    pq.write_table(OLD, "old.parquet")
    words = ["load", "old.parquet", "--history", orders, "--time-to-live", "30 days"]
    ran = run(*words)
    assert ran.status == 0
    assert ran.out.splitlines()[-1].startswith("both sides were asked about ")
    assert ran.out.splitlines()[-1].endswith("they differ about 0")
    with dh.open(orders, read_only=True) as history:
        assert len(entries(history, trigger("orders"))) == 5
        assert len(entries(history, trigger("bills"))) == 1
    assert run(*words, "--json").json["loaded"] == {"orders": 0, "bills": 0}


def test_it_tells_the_rows_read_and_the_entries_changed(run: Run, tmp_path: Path) -> None:
    words = ["--history", tmp_path / "new.history", "--trigger", "orders"]
    (tmp_path / "one.csv").write_text("uuid\na\n")
    assert run("load", "one.csv", *words, "--create", "--time-to-live", "30 days").status == 0
    (tmp_path / "all.csv").write_text("uuid\na\nb\nc\n")
    shown = run("load", "all.csv", *words).out.splitlines()
    assert [line.split() for line in shown[:2]] == [["trigger", "entries", "added", "or", "changed"], ["orders", "2"]]
    assert shown[2] == "3 rows read"


def test_a_difference_makes_the_command_fail(run: Run, orders: Path, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("id\n0003\n")
    words = ["load", "old.csv", "--history", orders, "--trigger", "orders", "--time-to-live", "30 days"]
    with dh.open(orders) as history:
        claimed = dh.Trigger("orders")
        history.release(["0003"], claimed)
    assert run(*words, "--column", "uuid=id").status == 0
    (tmp_path / "old.csv").write_text("id,status\n0001,processing\n")
    ran = run(*words, "--column", "uuid=id")
    assert ran.status == 1
    assert "they differ about 1" in ran.out
    assert ran.out.splitlines()[-1].split() == ["orders", "0001", "IN_DOUBT", "DUPLICATE"]


def test_a_history_is_made_only_when_asked_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text('{"uuid": "1"}\n')
    words = ["load", "old.jsonl", "--history", "new.history", "--trigger", "orders", "--time-to-live", "P1D"]
    assert run(*words).status == 2
    assert run(*words, "--create").status == 0
    assert run(*words).status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch.csv", "--trigger", "orders", "--time-to-live", "1d"], "no such file"),
        (["old.csv", "--trigger", "orders"], "no time to live for trigger 'orders'"),
        (["old.csv", "--time-to-live", "1d"], "no column 'trigger'"),
        (["old.csv", "--trigger", "orders", "--time-to-live", "1d", "--column", "uuid=id"], "no column 'id'"),
    ],
)
def test_a_load_that_fails_leaves_no_empty_history(run: Run, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "old.csv").write_text("uuid\n1\n")
    ran = run("load", *words, "--history", tmp_path / "new.history", "--create")
    assert (ran.status, said in ran.err) == (2, True), ran.err
    assert not (tmp_path / "new.history").exists()


def test_what_a_load_lacks_is_said_in_its_options(run: Run, orders: Path, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("id\n1\n")
    assert (
        "--column trigger=my_trigger, or pass --trigger NAME for all rows"
        in run("load", "old.csv", "--history", orders).err
    )
    ran = run("load", "old.csv", "--history", orders, "--trigger", "orders")
    assert "as in --column uuid=my_uuid [DH-SCHEMA]" in ran.err
    assert "or pass --create to make one" in run("load", "old.csv", "--history", tmp_path / "new.history").err
    assert "--create" not in run("stats", "--history", tmp_path / "new.history").err


def test_an_unknown_trigger_is_loaded_only_when_it_may_be_new(run: Run, orders: Path, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("uuid\n1\n")
    words = ["load", "old.csv", "--history", orders, "--trigger", "ordres", "--time-to-live", "30 days"]
    ran = run(*words)
    assert (ran.status, "pass --create-trigger if it is new; did you mean 'orders'?" in ran.err) == (2, True)
    assert run(*words, "--create-trigger").status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["old.csv"], "no column 'trigger'"),
        (["old.csv", "--trigger", "t"], "no time to live for trigger 't'"),
        (["-", "--trigger", "t"], "read twice"),
        (["gone.csv", "--trigger", "t", "--time-to-live", "P1D"], "no such file"),
        ([], "no rows given"),
        (["old.csv", "--query", "select 1"], "not both"),
        (["old.csv", "--column", "key=uuid"], "known roles are uuid, trigger, status, time"),
        (["old.csv", "--trigger", "t", "--time-to-live", "P1D", "--status-value", "X=gone"], "VALUE=completed"),
        (["--driver", "no_such_driver", "--connect", "x", "--query", "select 1"], "no such module"),
        (["--driver", "json", "--connect", "x", "--query", "select 1"], "not a DB-API module"),
        (["--driver", "sqlite3", "--connect", "/no/such/folder/db", "--query", "select 1"], "cannot connect"),
    ],
)
def test_bad_input_is_explained(run: Run, orders: Path, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "old.csv").write_text("uuid\n1\n")
    new = ["--create-trigger"] if "--trigger" in words else []
    ran = run("load", *words, *new, "--history", orders)
    assert ran.status in (2, 3)
    assert said in ran.err
    assert ran.err.count("\n") == 1


OLD_DB = ["load", "--driver", "sqlite3", "--connect", "old.db", "--trigger", "orders", "--time-to-live", "1d"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select x from nosuchtable", "the database refuses --query: no such table: nosuchtable"),
        ("select id from old", "the database refuses --query: no such column: id"),
        ("syntax error", 'the database refuses --query: near "syntax": syntax error'),
        ("select uuid, began as time from old", "column 'time' of the query has values of several types"),
    ],
)
def test_a_mistake_in_the_query_is_the_users(run: Run, orders: Path, query: str, said: str) -> None:
    with closing(sqlite3.connect("old.db")) as old:
        old.executescript("create table old (uuid text, began); insert into old values ('1', 7), ('2', 'soon')")
    ran = run(*OLD_DB, "--query", query, "--history", orders)
    assert (ran.status, said in ran.err) == (2, True)
    assert "DH-BUG" not in ran.err


def test_a_database_that_stops_is_worth_another_try(
    run: Run, orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stopping_driver.py").write_text(STOPPING)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["load", "--driver", "stopping_driver", "--trigger", "orders", "--time-to-live", "1d", "--query", "all"]
    ran = run(*words, "--connect", "here", "--history", orders)
    assert (ran.status, "stopped in the middle of its rows: gone" in ran.err) == (3, True)
    ran = run(*words, "--connect", "nowhere", "--history", orders)
    assert (ran.status, "stopping_driver cannot connect: no nowhere: correct --connect" in ran.err) == (2, True)


STOPPING = """
class Error(Exception): pass
class OperationalError(Error): pass
class Cursor:
    description = [("uuid",)]
    rows = [("1",)]
    def execute(self, query): pass
    def fetchmany(self, most):
        if not self.rows: raise OperationalError("gone")
        return [self.rows.pop()]
    def close(self): pass
class Connection:
    def cursor(self, *name): return Cursor()
    def close(self): pass
def connect(where):
    if where != "here": raise ValueError(f"no {where}")
    return Connection()
"""
