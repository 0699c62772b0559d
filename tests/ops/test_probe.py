"""What a process finds of a directory that another one is probing, and what is known of file systems."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dochistory as dh
from dochistory import file_systems, probe

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def history(tmp_path: Path) -> Path:
    with dh.open(tmp_path / "orders.history", create=True):
        return tmp_path / "orders.history"


def test_a_process_that_sees_the_directory_finds_all_well(history: Path) -> None:
    before = sorted(history.iterdir())
    script = (
        "import sys, json; from pathlib import Path; from dochistory import probe;"
        "print(json.dumps(probe.look(Path(sys.argv[1]), sys.argv[2]).as_dict()))"
    )
    with probe.probing(history) as nonce:
        own = probe.look(history, nonce)
        ran = subprocess.run(
            [sys.executable, "-c", script, str(history), nonce], check=True, capture_output=True, text=True
        )
        left = probe.left_by(history, nonce)
        # A probe is nothing that a history takes for its own.
        dh.open(history).close()
    with dh.open(history) as opened:
        identity = opened.id
    other = json.loads(ran.stdout)
    for found in (own.as_dict(), other):
        assert [found[name] for name in ("sees", "sync", "link", "lock")] == [""] * 4
        assert found["history"] == identity
        assert found["sync_ms"] > 0
        assert found["file_system"] != "unknown"
    assert left == {(own.host, os.getpid()), (own.host, other["process"])}
    assert sorted(history.iterdir()) == before


def test_what_another_directory_is_instead_is_said(history: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(history, copy)
    (tmp_path / "empty").mkdir()
    with probe.probing(history) as nonce:
        assert "No such file" in probe.look(tmp_path / "missing", nonce).sees
        assert probe.look(tmp_path / "empty", nonce).sees == "the directory is empty"
        assert "a moment ago is not there" in probe.look(copy, nonce).sees


def test_locks_that_only_say_yes_are_found_out(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with probe.probing(history) as nonce:
        monkeypatch.setattr(fcntl, "flock", lambda _file, _how: None)
        assert probe.look(history, nonce).lock == "it got the lock that another process holds"


def test_links_that_replace_and_syncs_that_fail_are_found_out(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with probe.probing(history) as nonce:
        monkeypatch.setattr(os, "link", lambda _source, _target: None)
        assert probe.look(history, nonce).link == "a second link took the place of the first"

        def refused(_file: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "fsync", refused)
        assert probe.look(history, nonce).sync == "the system says Input/output error"


def test_a_directory_that_cannot_be_written_cannot_be_probed(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"), probe.probing(tmp_path / "missing"):
        pass


def test_the_page_of_file_systems_says_what_the_doctor_says() -> None:
    page = (DOCS / "file-systems.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", page, re.MULTILINE))
    assert set(rows) == set(file_systems.kinds())
    for kind, said in rows.items():
        assert said.startswith("tried") == (file_systems.known(kind).result == "ok"), kind
    assert file_systems.known("fuse.sshfs") == file_systems.known("fuse")
    assert file_systems.known("zfs").result == "note"
