"""Functions of the user's: their failures are theirs, and say what became of the documents."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dochistory as dh
from dochistory.cli import files
from dochistory.cli.failures import Exit
from tests.cli.conftest import Run
from tests.support import documents, trigger

SHOP = """
import sys
import dochistory as dh

def closed(documents): raise ConnectionError("the shop is closed")
def wrong(documents): return documents + 1
def ended(documents): sys.exit(0)
def piped(documents): raise BrokenPipeError
def stopped(documents): raise KeyboardInterrupt
def undone(documents): raise dh.RolledBack("no such table")
def away(documents): raise dh.TransientError("ask later")
async def later(documents): return None
class Later:
    async def __call__(self, documents): return None
called_later = Later()
def in_parts(documents): yield None
def hidden(documents): return later(documents)
"""
FAILURES = {
    "closed": "ConnectionError: the shop is closed",
    "wrong": "TypeError: unsupported operand",
    "ended": "SystemExit: 0",
    "piped": "BrokenPipeError",
    "hidden": "ConfigError: [DH-CONFIG] the ",  # it returned a coroutine
}


@pytest.fixture
def doubtful(tmp_path: Path) -> Path:
    """A history with documents 1 (a), 2 (b) and 3 (c) in its audit log; b was completed since."""
    (tmp_path / "failing_shop.py").write_text(SHOP)
    path = tmp_path / "orders.history"
    of = trigger(history_time_to_live="30 days")
    with dh.open(path, create=True) as history:
        slow = history.begin(documents(["a", "b", "c"]), of)
        for key in ("a", "b", "c"):
            history.begin(documents([key]), of, audit=True)
        slow.complete(rows=[1])
    return path


def states(run: Run, path: Path) -> list[str]:
    return [one["state"] for one in run("audit", "list", "--history", path, "--json").json["documents"]]


@pytest.mark.parametrize(("name", "said"), FAILURES.items())
def test_a_failed_service_is_named_with_its_documents(run: Run, doubtful: Path, name: str, said: str) -> None:
    ran = run("audit", "resubmit", 1, 3, "--service", f"failing_shop:{name}", "--history", doubtful)
    assert (ran.status, ran.out) == (Exit.FUNCTION, "")
    assert ran.err.startswith(f"dochistory: the service 'failing_shop:{name}' failed: {said}")
    assert "documents 1, 3 of the audit log are cut_off now" in ran.err
    assert re.search(r"decide again with `dochistory audit resolve NUMBER… --as process`.* \[DH-FUNCTION\]\n$", ran.err)
    assert states(run, doubtful) == ["cut_off", "open", "cut_off"]


def test_a_failed_service_is_told_to_programs(run: Run, doubtful: Path) -> None:
    ran = run("audit", "resubmit", 1, "--service", "failing_shop:closed", "--history", doubtful, "--json")
    error = json.loads(ran.err)["error"]
    assert (ran.status, error["code"]) == (4, "DH-FUNCTION")
    assert "document 1 of the audit log is cut_off now" in error["message"]


def test_duplicates_of_a_failed_call_are_cut_off_too(run: Run, doubtful: Path) -> None:
    ran = run("audit", "resubmit", 1, 2, "--service", "failing_shop:closed", "--history", doubtful)
    assert states(run, doubtful) == ["cut_off", "cut_off", "open"]
    assert "documents 1, 2 of the audit log are cut_off now" in ran.err


def test_a_service_that_rolled_back_changes_nothing(run: Run, doubtful: Path) -> None:
    ran = run("audit", "resubmit", 1, "--service", "failing_shop:undone", "--history", doubtful)
    assert ran.status == Exit.FUNCTION
    assert "was rolled back: RolledBack: no such table; document 1 of the audit log is as before" in ran.err
    assert states(run, doubtful) == ["open", "open", "open"]


def test_an_interrupted_service_is_told_with_its_documents(run: Run, doubtful: Path) -> None:
    ran = run("audit", "resubmit", 1, "--service", "failing_shop:stopped", "--history", doubtful)
    assert ran.status == Exit.INTERRUPTED
    assert "the service was interrupted; document 1 of the audit log is cut_off now" in ran.err
    assert states(run, doubtful) == ["cut_off", "open", "open"]


def test_a_full_disk_leaves_the_documents_as_they_were(
    run: Run, doubtful: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(files, "_writer", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        ran = run("audit", "resubmit", 1, 3, "--output", "again.csv", "--history", doubtful)
    assert (ran.status, Path("again.csv").exists()) == (Exit.UNAVAILABLE, False)
    assert "again.csv: No space left: nothing was written, and documents 1, 3 of the audit log are as before" in ran.err
    assert states(run, doubtful) == ["open", "open", "open"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_what_may_have_arrived_in_part_is_cut_off_and_named(run: Run, doubtful: Path) -> None:
    ran = run("audit", "resubmit", 1, "--output", "/dev/full", "--format", "jsonl", "--history", doubtful)
    assert (ran.status, states(run, doubtful)) == (Exit.UNAVAILABLE, ["cut_off", "open", "open"])
    assert "document 1 of the audit log is cut_off now, because nobody knows how much arrived" in ran.err


def test_a_reader_that_goes_away_leaves_documents_cut_off(doubtful: Path) -> None:
    words = [sys.executable, "-m", "dochistory", "audit", "resubmit", "1", "--output", "-", "--history", str(doubtful)]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as out:
        ran = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == Exit.PIPE_CLOSED
    assert "the reader of the output went away; document 1 of the audit log is cut_off now" in ran.stderr


@pytest.mark.parametrize("name", ["later", "called_later", "in_parts"])
@pytest.mark.parametrize("command", [["resubmit", "1", "--service"], ["resolve-all", "--resolver"]])
def test_what_runs_nothing_when_called_is_refused(run: Run, doubtful: Path, command: list[str], name: str) -> None:
    ran = run("audit", *command, f"failing_shop:{name}", "--history", doubtful)
    assert (ran.status, re.search(r"is a (coroutine|generator) function", ran.err) is not None) == (Exit.INPUT, True)
    assert states(run, doubtful) == ["open", "open", "open"]


@pytest.mark.parametrize(("name", "said"), FAILURES.items())
def test_a_failed_resolver_is_named_and_decides_nothing(run: Run, doubtful: Path, name: str, said: str) -> None:
    ran = run("audit", "resolve-all", "--resolver", f"failing_shop:{name}", "--history", doubtful)
    assert (ran.status, ran.out) == (Exit.FUNCTION, "")
    assert ran.err.startswith(f"dochistory: the resolver 'failing_shop:{name}' failed: {said}")
    assert "nothing was decided about the documents of trigger 'orders', which stay open" in ran.err
    assert states(run, doubtful) == ["open", "open", "open"]


def test_a_resolver_that_is_away_is_worth_another_try(run: Run, doubtful: Path) -> None:
    ran = run("audit", "resolve-all", "--resolver", "failing_shop:away", "--history", doubtful)
    assert (ran.status, "TransientError: ask later" in ran.err) == (Exit.UNAVAILABLE, True)
