"""`dochistory mapper lookup`, `pending`, `resolve` and `purge`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import dochistory as dh
from tests.cli.conftest import Run
from tests.mapper.support import messages, rules


@pytest.fixture
def mapped(tmp_path: Path) -> Path:
    """A history whose mapper `jms` has sent a, and has b and c pending."""
    path = tmp_path / "messages.history"
    with dh.open(path, create=True) as history:
        send = history.mapper("jms").begin_send(messages(["a", "b", "c"]), persist_until="1 day")
        send.complete(["ext-a"], rows=[0], persist_until="1 day")
    return path


def test_lookup_shows_what_is_known_of_ids(run: Run, mapped: Path) -> None:
    ran = run("mapper", "lookup", "a", "b", "x", "--history", mapped, "--json")
    assert ran.status == 0
    assert ran.json["channel"] == "jms"
    assert [(row["id"], row["mapped_id"], row["pending"]) for row in ran.json["ids"]] == [
        ("a", "ext-a", False),
        ("b", None, True),
        ("x", None, False),
    ]
    assert "ext-a" in run("mapper", "lookup", "a", "--history", mapped, "--channel", "jms").out


def test_ids_come_from_the_standard_input_too(run: Run, mapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("b\nc\n\n"))
    ran = run("mapper", "lookup", "a", "-", "--history", mapped, "--json")
    assert [row["id"] for row in ran.json["ids"]] == ["a", "b", "c"]


def test_pending_shows_what_nobody_ended(run: Run, mapped: Path) -> None:
    ran = run("mapper", "pending", "--history", mapped, "--json")
    assert (ran.status, sorted(row["id"] for row in ran.json["pending"]), ran.json["more"]) == (0, ["b", "c"], False)
    assert run("mapper", "pending", "--history", mapped, "--check").status == 1
    assert run("mapper", "pending", "--history", mapped, "--check", "--older-than", "1 hour").status == 0
    ran = run("mapper", "pending", "--history", mapped, "--limit", 1)
    assert (ran.status, "there are more" in ran.err) == (0, True)


def test_resolve_decides_the_next_arrival(run: Run, mapped: Path) -> None:
    assert run("mapper", "resolve", "b", "--as", "process", "--history", mapped).status == 0
    ran = run("mapper", "resolve", "a", "c", "--as", "duplicate", "--history", mapped, "--json")
    assert ran.status == 1
    assert ran.json["ids"] == [{"id": "a", "error": "NOT_PENDING"}, {"id": "c", "error": None}]
    with dh.open(mapped) as history:
        assert rules(history.mapper("jms").begin_send(messages(["a", "b", "c"]))) == ["M2", "M4", "M5"]


def test_purge_takes_pending_ids_only_when_asked(run: Run, mapped: Path) -> None:
    words = ["mapper", "purge", "--now", "2099-01-01T00:00:00Z", "--history", mapped, "--json"]
    assert run(*words, "--dry-run").json["channels"]["jms"]["entries"] == 1
    ran = run(*words)
    assert (ran.status, "--force" in ran.err) == (2, True)
    assert run(*words, "--force").json["channels"]["jms"]["entries"] == 1
    assert run(*words, "--force").json["channels"]["jms"]["entries"] == 0
    assert run(*words, "--force", "--include-pending").json["channels"]["jms"]["entries"] == 2


def test_a_channel_that_is_not_there_is_said_so(run: Run, mapped: Path) -> None:
    ran = run("mapper", "pending", "--channel", "other", "--history", mapped)
    assert (ran.status, "it has jms" in ran.err) == (2, True)
    with dh.open(mapped) as history:
        history.mapper("second").create(["a"])
    ran = run("mapper", "lookup", "a", "--history", mapped)
    assert (ran.status, "--channel NAME (there are jms, second)" in ran.err) == (2, True)
    assert run("mapper", "resolve", "a", "--history", mapped).status == 2


def test_a_backup_holds_the_mappers(run: Run, mapped: Path, tmp_path: Path) -> None:
    assert run("backup", tmp_path / "copy", "--history", mapped).status == 0
    with dh.open(tmp_path / "copy") as copy:
        assert copy.mapper("jms").lookup(["a"])["mapped_id"].to_pylist() == ["ext-a"]
        assert rules(copy.mapper("jms").begin_send(messages(["b"]))) == ["M3"]
