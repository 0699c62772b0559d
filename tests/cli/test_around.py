"""`dochistory journal`, `audit`, `suspension`, `sweep`, and the statistics of `stats`."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from dochistory import journal
from tests.cli.conftest import Run
from tests.store.processes import ROOT
from tests.support import T0, documents, status_of, trigger


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))


@pytest.fixture
def doubtful(orders: Path) -> Path:
    """The history `orders` with documents 1 (0003) and 2 (no key) in its audit log, and statistics of them."""
    batch = pa.table({"uuid": ["0001", "0003", None, "0009"], "payload": [b"one", b"three", b"\xff", b"nine"]})
    with dh.open(orders) as history:
        claim = history.begin(batch, trigger(history_time_to_live="30 days"), audit=True)
        claim.complete()
        dh.Statistics(history).add(claim.verdicts, trigger())
    return orders


def test_the_audit_log_is_listed_and_shown(run: Run, doubtful: Path) -> None:
    listed = run("audit", "list", "--history", doubtful, "--json").json
    assert [(one["number"], one["key"], one["state"]) for one in listed["documents"]] == [
        (1, "0003", "open"),
        (2, None, "open"),
    ]
    assert "0003" in run("audit", "list", "--history", doubtful).out
    assert run("audit", "list", "--history", doubtful, "--state", "process", "--json").json["total"] == 0
    shown = run("audit", "show", "1", "--history", doubtful)
    assert "three" in shown.out
    assert (
        run("audit", "show", "2", "--history", doubtful, "--json").json["document"]["payload"]
        == b64encode(b"\xff").decode()
    )
    limited = run("audit", "list", "--history", doubtful, "--limit", "1").out
    assert "the newest 1 of 2" in limited


def test_documents_are_resolved_and_resubmitted_into_a_file_once(run: Run, doubtful: Path, tmp_path: Path) -> None:
    ran = run(
        "audit", "resolve", "1", "2", "--as", "process", "--by", "ada", "--note", "never shipped", "--history", doubtful
    )
    assert ran.status == 0
    ran = run("audit", "resubmit", "--history", doubtful, "--output", "again.parquet")
    assert (ran.status, "2 resubmitted" in ran.out) == (0, True)
    assert pq.read_table(tmp_path / "again.parquet")["payload"].to_pylist() == [b"three", b"\xff"]
    listed = run("audit", "list", "--history", doubtful, "--json").json["documents"]
    assert [(one["state"], one["by"], one["note"]) for one in listed] == [("resubmitted", "ada", "never shipped")] * 2
    again = run("audit", "resubmit", "1", "--history", doubtful, "--output", "more.parquet")
    assert (again.status, "was resubmitted before" in again.err) == (2, True)
    assert not (tmp_path / "more.parquet").exists()
    with dh.open(doubtful) as history:
        assert status_of(history, ["0003"]) == ["DUPLICATE"]


def test_unwritable_output_file_changes_no_document(run: Run, doubtful: Path, tmp_path: Path) -> None:
    (tmp_path / "there.parquet").write_text("precious")
    for output in ("there.parquet", "no/where.parquet", "again.what"):
        ran = run("audit", "resubmit", "1", "--history", doubtful, "--output", output)
        assert ran.status == 2
    assert (tmp_path / "there.parquet").read_text() == "precious"
    assert run("audit", "list", "--history", doubtful, "--json").json["documents"][0]["state"] == "open"


def test_documents_are_resubmitted_to_a_service(
    run: Run, doubtful: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_service.py").write_text(
        "import pathlib\n"
        "def ship(table):\n    pathlib.Path('shipped').write_text(''.join(table['uuid'].to_pylist()))\n"
        "def fail(table):\n    raise RuntimeError('the printer is on fire')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    ran = run("audit", "resubmit", "1", "--history", doubtful, "--service", "shop_service:ship", "--json")
    assert ran.json == {"resubmitted": 1, "duplicates": 0, "number": 1}
    assert (tmp_path / "shipped").read_text() == "0003"
    failed = run("audit", "resubmit", "2", "--history", doubtful, "--service", "shop_service:fail")
    assert (failed.status, "on fire" in failed.err) == (4, True)
    assert run("audit", "list", "--history", doubtful, "--json").json["documents"][1]["state"] == "cut_off"
    assert run("audit", "resolve", "2", "--as", "duplicate", "--history", doubtful).status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resubmit"], "pass --service MODULE:FUNCTION or --output FILE"),
        (["resubmit", "-o", "x.csv"], "no document is resolved as process"),
        (["resubmit", "1", "--service", "nowhere:ship"], "cannot be imported"),
        (["resubmit", "1", "--service", "json:__name__"], "is not a function"),
        (["show", "99"], "there is no document 99"),
        (["resolve", "1", "--as", "maybe"], "invalid choice"),
        (["resolve", "1"], "no decision given: pass --as"),
        (["resolve", "--as", "process"], "NUMBER"),
        (["list", "--trigger", "ordres"], "did you mean 'orders'?"),
        (["resubmit", "--trigger", "ordres", "-o", "x.csv"], "did you mean 'orders'?"),
        (["resubmit", "--service", "json:dumps", "--format", "csv"], "--output"),
        (["list", "--state", "lost"], "invalid choice"),
        (["purge"], "--older-than"),
        (["lst"], "did you mean 'list'?"),
    ],
)
def test_bad_words_about_the_audit_log_get_one_sentence(run: Run, doubtful: Path, words: list[str], said: str) -> None:
    ran = run("audit", *words, "--history", doubtful)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_settled_documents_are_forgotten(run: Run, doubtful: Path) -> None:
    run("audit", "resolve", "1", "2", "--as", "duplicate", "--history", doubtful)
    words = ["audit", "purge", "--older-than", "1 day", "--history", doubtful, "--json"]
    assert run(*words).json["documents"] == 0
    assert run(*words, "--now", "2099-01-01T00:00:00Z", "--dry-run").json["documents"] == 0  # the newest file stays


def test_a_backup_and_a_check_take_the_audit_log_along(run: Run, doubtful: Path, tmp_path: Path) -> None:
    run("audit", "resubmit", "1", "--history", doubtful, "--output", "again.csv", "--format", "arrow")
    assert run("backup", "copy.history", "--history", doubtful).status == 0
    with dh.open(tmp_path / "copy.history") as copy:
        assert copy.audit.list()["state"].to_pylist() == ["resubmitted", "open"]
        with copy.audit.resubmit(trigger(), [2]) as again:
            assert again.documents.num_rows == 1
    assert run("verify", "--history", doubtful, "--json").json["audit_bytes"] > 0
    path = next((doubtful / "audit").glob("kept-*"))
    path.write_bytes(path.read_bytes()[:-1])
    ran = run("verify", "--history", doubtful)
    assert (ran.status, "kept-" in ran.err) == (1, True)


def test_statistics_are_shown_listed_and_cleared(run: Run, doubtful: Path) -> None:
    shown = run("stats", "--history", doubtful).out
    assert "exactly-once statistics" in shown
    assert "R11: 1, R3: 1" in shown
    found = run("stats", "--history", doubtful, "--json").json["statistics"]["orders"]
    assert (found["new"], found["duplicate"], found["in_doubt"]) == (1, 1, {"R11": 1, "R3": 1})
    listed = run("stats", "documents", "--history", doubtful, "--json").json["documents"]
    assert [one["status"] for one in listed] == ["IN_DOUBT", "IN_DOUBT", "DUPLICATE"] or len(listed) == 3
    assert "0003" in run("stats", "documents", "--history", doubtful).out
    assert 'rule="R9"} 1' in run("stats", "--history", doubtful, "--prometheus").out
    assert run("stats", "clear", "--yes", "--history", doubtful).status == 0
    assert "exactly-once statistics" not in run("stats", "--history", doubtful).out
    assert len(run("entries", "--history", doubtful, "--json").json["entries"]) == 4


def test_a_trigger_is_suspended_listed_and_resumed(run: Run, orders: Path) -> None:
    words = ["--history", orders, "--trigger", "orders"]
    assert run("suspension", "suspend", *words, "--reason", "moving").status == 0
    with pytest.raises(dh.SuspendedError, match="moving"):
        dh.Suspension(orders, trigger()).check()
    assert "moving" in run("suspension", "--history", orders).out
    assert run("suspension", "list", "--json").json["suspended"][0]["cause"] == "person"
    assert 'dochistory_suspended{trigger="orders"} 1' in run("stats", "--history", orders, "--prometheus").out
    assert run("suspension", "resume", *words, "--json").json == {"trigger": "orders", "suspended": False, "was": True}
    assert "was not suspended" in run("suspension", "resume", *words).out
    assert run("suspension", "suspend", "--history", orders).status == 2
    made_up = run("suspension", "suspend", "--history", orders, "--trigger", "ordres")
    assert (made_up.status, "did you mean 'orders'?" in made_up.err) == (2, True)
    new = ["--history", orders, "--trigger", "bills", "--create-trigger"]
    assert run("suspension", "suspend", *new).status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audit"], "the audit log holds no document"),
        (["audit", "list", "--unsettled"], "the audit log holds no such document"),
        (["pins", "--older-than", "1d"], "no such snapshot is pinned"),
        (["suspension"], "no trigger of this history is suspended on this machine"),
        (["delivery"], "the history has no stream of guaranteed delivery"),
        (["entries", "--older-than", "1d"], "the history holds no such entry"),
        (["mapper", "pending"], "no id is pending"),
        (["stats", "documents"], "the statistics hold no duplicate and no document in doubt"),
    ],
)
def test_an_empty_list_is_a_sentence(run: Run, orders: Path, words: list[str], said: str) -> None:
    ran = run(*words, "--history", orders)
    assert (ran.status, ran.out) == (0, f"{said}\n")


def test_an_empty_journal_is_a_sentence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").touch()
    assert run("journal", "journal.jsonl").out == "the journal holds no record\n"
    assert run("journal", "journal.jsonl", "--status", "IN_DOUBT").out == "the journal holds no such record\n"


def test_it_sweeps_as_often_as_it_is_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "old.history"
    with dh.open(path, create=True) as history:
        history.begin(documents(["a"]), trigger(), now=T0).complete()
    ran = run("sweep", "--history", path, "--every", "10 ms", "--runs", "2", "--json")
    swept = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["triggers"]["orders"]["entries"] for one in swept] == [1, 0]
    assert "dochistory_next_purge_seconds" in run("stats", "--history", path, "--prometheus").out
    assert run("sweep", "--history", tmp_path / "none.history").status == 2
    assert run("sweep", "--history", path, "--every", "often").status == 2


def test_a_stale_time_to_live_is_told_and_purges_nothing(run: Run, orders: Path, tmp_path: Path) -> None:
    (tmp_path / "dochistory.toml").write_text('[triggers.orders]\nhistory_time_to_live = "3 days"\n')
    words = ["--history", orders, "--settings", tmp_path / "dochistory.toml"]
    ran = run("sweep", *words, "--runs", "1", "--json")
    assert ran.status == 1
    assert list(ran.json["skipped"]) == ["orders"]
    ran = run("purge", *words)
    assert ran.status == 2
    assert 'with history_time_to_live = "30 days" in the settings' in ran.err
    found = [one for one in run("doctor", *words, "--json").json["checks"] if one["name"] == "time to live"]
    assert [one["result"] for one in found] == ["wrong"]
    assert "30 days" in found[0]["found"]


def test_a_sweep_ends_when_it_is_told_to(orders: Path) -> None:
    words = [sys.executable, "-m", "dochistory.cli", "sweep", "--history", str(orders), "--every", "20 ms", "--json"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["triggers"]["orders"]["entries"] == 0
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(60) == 0


def test_the_doctor_notices_a_life_that_is_too_short(run: Run, orders: Path) -> None:
    (orders / "sweeper.json").write_text(json.dumps({"longest_runs": {"orders": 40 * 86400}}))
    ran = run("doctor", "--history", orders, "--json")
    wrong = [check["found"] for check in ran.json["checks"] if check["name"] == "time to live"]
    assert (ran.status, len(wrong)) == (1, 1)


RECORDS = [
    {
        "time": T0,
        "trigger": "orders",
        "key": "a",
        "status": "DUPLICATE",
        "rule": "R9",
        "message": "x",
        "count": 1,
        "row": 0,
    },
    {
        "time": T0 + dt.timedelta(microseconds=1),
        "trigger": "orders",
        "key": 'odd "key"\n',
        "status": "IN_DOUBT",
        "rule": "R10>S3",
        "message": None,
        "count": None,
        "row": 7,
    },
    {
        "time": T0 + dt.timedelta(hours=1),
        "trigger": "bills",
        "key": None,
        "status": "IN_DOUBT",
        "rule": "R11",
        "message": "2024-03-10T12:00:00Z",
        "count": 0,
        "row": 2,
    },
]


def write(sink: journal.Sink, *rows: int) -> None:
    for row in rows:
        sink.write(pa.Table.from_pylist([RECORDS[row]], schema=journal.SCHEMA))


@pytest.fixture(params=["jsonl", "parquet"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A journal of three records."""
    path = tmp_path / ("journal.jsonl" if request.param == "jsonl" else "journal")
    write(journal.JsonLinesSink(path) if request.param == "jsonl" else journal.ParquetSink(path), 0, 1, 2)
    return path


def test_a_journal_is_read_as_it_was_written(written: Path) -> None:
    tables = list(journal.read(written))
    assert pa.concat_tables(tables).to_pylist() == RECORDS
    assert {table.schema for table in tables} == {journal.SCHEMA}


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ([], [0, 1, 2]),
        (["--trigger", "bills"], [2]),
        (["--status", "IN_DOUBT"], [1, 2]),
        (["--rule", "R10"], [1]),
        (["--rule", "R1"], []),
        (["--key", "a"], [0]),
        (["--since", "2024-03-10T12:00:00.000001Z"], [1, 2]),
        (["--limit", "2"], [1, 2]),
        (["--follow", "--all", "--limit", "3"], [0, 1, 2]),
    ],
)
def test_a_journal_is_filtered(run: Run, written: Path, words: list[str], rows: list[int]) -> None:
    ran = run("journal", written, *words, "--json")
    found = [json.loads(line) for line in ran.out.splitlines()] if "--follow" in words else ran.json["records"]
    assert [one["row"] for one in found] == [RECORDS[row]["row"] for row in rows]
    shown = run("journal", written, *words)
    assert shown.status == 0
    assert ("R9" in shown.out) == (0 in rows)


def test_a_rule_that_there_is_not_is_refused_in_a_journal(run: Run, written: Path) -> None:
    assert run("journal", written, "--rule", "R16").status == 0
    for rule, unknown in (("R99", "'R99'"), ("R10>S9", "'S9'"), ("r11", "did you mean 'R11'")):
        ran = run("journal", written, "--rule", rule)
        assert (ran.status, ran.out) == (2, "")
        assert unknown in ran.err


def test_more_records_than_are_shown_are_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(journal.JsonLinesSink(path), *[0] * 60)
    shown = run("journal", path).out.splitlines()
    assert len(shown) == 52
    assert shown[-1] == "the newest 50 of 60; --limit shows more"


def test_following_sees_what_is_written_later_once(tmp_path: Path) -> None:
    for path, sink in (
        (tmp_path / "j.jsonl", journal.JsonLinesSink(tmp_path / "j.jsonl")),
        (tmp_path / "j", journal.ParquetSink(tmp_path / "j")),
    ):
        todo = [lambda sink=sink: write(sink, 0), lambda sink=sink: write(sink, 1, 2), lambda: None]  # type: ignore[misc]

        def sleep(_: float, todo: Any = todo) -> None:
            todo.pop(0)()

        found = journal.follow(path, sleep=sleep, stop=lambda todo=todo: not todo)  # type: ignore[misc]
        assert [row["row"] for table in found for row in table.to_pylist()] == [0, 7, 2]


def test_following_from_the_end_and_over_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    sink = journal.JsonLinesSink(path)
    write(sink, 0)

    def rotate() -> None:
        path.rename(tmp_path / "journal.1")
        write(sink, 2)

    todo = [lambda: write(sink, 1), rotate, lambda: None]
    found = journal.follow(path, from_end=True, sleep=lambda _: todo.pop(0)(), stop=lambda: not todo)
    assert [row["row"] for table in found for row in table.to_pylist()] == [7, 2]


def test_half_a_line_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(journal.JsonLinesSink(path), 0, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    assert [row["row"] for table in journal.read(path) for row in table.to_pylist()] == [0]


@pytest.mark.parametrize("content", ["no journal\n", '{"a": 1}\n', '{"time": "soon"}\n', "[1]\n"])
def test_something_else_than_a_journal_is_told_by_name(run: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "other.jsonl").write_text(content)
    ran = run("journal", "other.jsonl")
    assert (ran.status, ran.out) == (2, "")
    assert "other.jsonl" in ran.err
    assert "not a journal" in ran.err
    assert "JSON" not in ran.err.replace("JsonLinesSink", "")


def test_the_line_that_is_not_of_a_journal_is_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(journal.JsonLinesSink(path), 0, 1)
    with path.open("a") as file:
        file.write("\nnonsense\n")
    assert "from byte 0, line 4: not a journal: name a directory" in run("journal", path).err


def test_a_journal_that_is_not_there_is_told(run: Run, tmp_path: Path) -> None:
    assert "no such journal" in run("journal", "none.jsonl").err
    (tmp_path / "bad.parquet").write_text("no")
    assert "not Parquet" in run("journal", "bad.parquet").err
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    assert "not a journal: its columns are a" in run("journal", "other.parquet").err
