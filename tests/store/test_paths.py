"""Relative paths mean the directory that the process was in when they were given; a path of a file means none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import journal
from dochistory.audit import AuditLog
from dochistory.settings import settings_from_toml
from dochistory.sweeper import Sweeper
from tests.support import documents, status_of, statuses, trigger


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """We are in the directory where the history will be; this is another one."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "elsewhere"


def test_a_history_is_the_same_after_a_change_of_directory(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dh.open("orders.history", create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
        mapper = history.mapper("orders")
        monkeypatch.chdir(elsewhere)
        assert statuses(history.begin(documents(["a", "b"]), trigger()).verdicts) == ["DUPLICATE", "NEW"]
        assert statuses(history.begin(documents(["c"]), trigger("invoices")).verdicts) == ["NEW"]
        mapper.create(["x"], ["X"])
        history.delivery("s", start=0)
        assert history.path == elsewhere.parent / "orders.history"
    assert list(elsewhere.iterdir()) == []
    with dh.open(elsewhere.parent / "orders.history", read_only=True) as history:
        assert status_of(history, ["a", "b"]) == ["DUPLICATE", "IN_DOUBT"]
        assert history.mappers() == ["orders"]
    assert dh.repair(Path("../orders.history"))["findings"] == []


def test_what_stands_beside_a_history_stays_there_as_well(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = elsewhere.parent
    with dh.open("orders.history", create=True) as history:
        statistics = dh.Statistics("orders.history")
        suspension = dh.Suspension("orders.history", trigger(), state="state")
        sweeper = Sweeper("orders.history", [trigger()])
        log = AuditLog(history, "kept")
        consumer = dh.Consumer("orders.history", trigger(), suspension=suspension)
        sinks: list[journal.Sink] = [journal.ParquetSink("journal"), journal.JsonLinesSink("journal.jsonl")]
        history.begin(documents(["a"]), trigger())
        monkeypatch.chdir(elsewhere)
        doubtful = documents(["a"])
        claim = history.begin(doubtful, trigger())
        statistics.add(claim.verdicts, trigger(), documents=doubtful)
        log.keep(doubtful, claim.verdicts, trigger())
        suspension.suspend("for a while")
        sweeper.sweep()
        for sink in sinks:
            journal.write(doubtful, claim.verdicts, trigger(), sinks=[sink])
        with pytest.raises(dh.SuspendedError):
            consumer.begin(documents(["b"]))
        suspension.resume()
        assert statuses(consumer.begin(documents(["a", "b"])).verdicts) == ["IN_DOUBT", "NEW"]
        consumer.close()
    assert list(elsewhere.iterdir()) == []
    assert {path.name for path in home.iterdir()} == {
        *("elsewhere", "orders.history", "state", "kept", "journal", "journal.jsonl"),
    }
    assert (home / "orders.history" / "statistics" / "verdicts.jsonl").exists()
    assert (home / "orders.history" / "sweeper.json").exists()
    monkeypatch.chdir(home)
    tables = journal.read("journal")
    monkeypatch.chdir(elsewhere)
    assert sum(table.num_rows for table in tables) == 1


def test_a_file_of_settings_names_its_history_from_anywhere(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("dochistory.toml").write_text('history = "orders.history"\n[triggers.orders]\n')
    settings = settings_from_toml("dochistory.toml")
    monkeypatch.chdir(elsewhere)
    assert settings.history == elsewhere.parent / "orders.history"


@pytest.mark.parametrize("given", ["a.file", "a.file/orders.history"])
def test_a_file_is_no_place_of_a_history(tmp_path: Path, given: str) -> None:
    (tmp_path / "a.file").write_text("mine")
    ways: list[dict[str, Any]] = [{"create": True}, {"read_only": True}, {}]
    for how in ways:
        with pytest.raises(dh.OpenError, match=r"^\[DH-OPEN\] .*: a file is in its place, .*; name a directory$"):
            dh.open(tmp_path / given, **how)
    assert (tmp_path / "a.file").read_text() == "mine"
