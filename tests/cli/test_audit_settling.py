"""`dochistory audit reconcile`, `resolve-all`, `compact`: many documents in doubt at once."""

from __future__ import annotations

from pathlib import Path

import pytest

import dochistory as dh
from tests.cli.conftest import Run
from tests.support import documents, trigger


@pytest.fixture
def doubtful(tmp_path: Path) -> Path:
    """A history with documents 1 (a), 2 (b) and 3 (c) in its audit log; b was completed since."""
    path = tmp_path / "orders.history"
    of = trigger(history_time_to_live="30 days")
    with dh.open(path, create=True) as history:
        slow = history.begin(documents(["a", "b", "c"]), of)
        for key in ("a", "b", "c"):
            history.begin(documents([key]), of, audit=True)
        slow.complete(rows=[1])
    return path


def states(run: Run, doubtful: Path, *more: str) -> list[str]:
    listed = run("audit", "list", "--history", doubtful, "--json", *more).json["documents"]
    return [one["state"] for one in listed]


def test_completed_documents_are_settled(run: Run, doubtful: Path) -> None:
    assert run("audit", "reconcile", "--history", doubtful, "--json").json == {"numbers": [2]}
    assert states(run, doubtful) == ["open", "duplicate", "open"]
    assert states(run, doubtful, "--unsettled") == ["open", "open"]
    assert states(run, doubtful, "--rule", "R3") == []
    assert run("audit", "reconcile", "--history", doubtful).out == "0 settled: they were completed\n"


def test_all_of_a_rule_are_decided(run: Run, doubtful: Path) -> None:
    ran = run("audit", "resolve-all", "--as", "process", "--rule", "R11", "--history", doubtful, "--json")
    assert ran.json == {"process": 3, "duplicate": 0}


def test_a_resolver_decides(run: Run, doubtful: Path, tmp_path: Path) -> None:
    (tmp_path / "settling_shop.py").write_text(
        "def known(batch):\n    return ['NEW' if key == 'a' else 'IN_DOUBT' for key in batch['dh_key'].to_pylist()]\n"
    )
    ran = run("audit", "resolve-all", "--resolver", "settling_shop:known", "--history", doubtful, "--json")
    assert ran.json == {"process": 1, "duplicate": 0}
    assert states(run, doubtful) == ["process", "open", "open"]
    assert "cannot be imported" in run("audit", "resolve-all", "--resolver", "nowhere:f", "--history", doubtful).err


def test_a_file_decides(run: Run, doubtful: Path, tmp_path: Path) -> None:
    decisions = tmp_path / "decisions.csv"
    decisions.write_text("number,key,decision\n1,,process\n,c,duplicate\n")
    ran = run("audit", "resolve-all", "--file", decisions, "--history", doubtful, "--json")
    assert ran.json == {"process": 1, "duplicate": 1}
    assert states(run, doubtful) == ["process", "open", "duplicate"]
    decisions.write_text("number,decision\n2,perhaps\n")
    assert (
        "decisions.csv:2: the decision is 'perhaps'"
        in run("audit", "resolve-all", "--file", decisions, "--history", doubtful).err
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("1,,process\n99,,process\n", "decisions.csv:3: the audit log has no such document"),
        (",nokey,duplicate\n", "decisions.csv:2: the audit log has no such document"),
        ("1,,process\n,a,duplicate\n", "decisions.csv:3: document 1 is decided twice"),
    ],
)
def test_a_file_with_a_wrong_line_decides_nothing(
    run: Run, doubtful: Path, tmp_path: Path, lines: str, said: str
) -> None:
    decisions = tmp_path / "decisions.csv"
    decisions.write_text(f"number,key,decision\n{lines}")
    ran = run("audit", "resolve-all", "--file", decisions, "--history", doubtful)
    assert (ran.status, said in ran.err) == (2, True), ran.err
    assert states(run, doubtful) == ["open"] * 3


def test_a_file_may_come_again(run: Run, doubtful: Path, tmp_path: Path) -> None:
    decisions = tmp_path / "decisions.csv"
    decisions.write_text("number,decision\n1,duplicate\n")
    words = ["audit", "resolve-all", "--file", decisions, "--history", doubtful, "--json"]
    assert run(*words).json == {"process": 0, "duplicate": 1}
    assert run(*words).json == {"process": 0, "duplicate": 0}


def test_one_way_to_decide_is_needed(run: Run, doubtful: Path) -> None:
    assert "give one of" in run("audit", "resolve-all", "--history", doubtful).err


def test_files_are_put_together(run: Run, doubtful: Path) -> None:
    assert run("audit", "compact", "--history", doubtful, "--json").json == {"fewer_files": 2}
    assert states(run, doubtful) == ["open", "open", "open"]
