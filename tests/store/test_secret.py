"""The secret that keys the ids is read by the owner and the group only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import dochistory as dh
from dochistory.cli import main
from tests.store.processes import run
from tests.support import documents, status_of, trigger

SECRETS = ["HISTORY", "HISTORY.copy"]


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield int(request.param)
    os.umask(before)


def modes(path: Path) -> set[int]:
    return {stat.S_IMODE((path / name).stat().st_mode) for name in SECRETS}


def test_the_secret_is_never_made_readable_by_all(directory: Path, tmp_path: Path, umask: int) -> None:
    wanted = {0o640 & ~umask}
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
    assert modes(directory) == wanted
    assert main(["backup", "--history", str(directory), str(tmp_path / "backup")]) == 0
    assert modes(tmp_path / "backup") == wanted
    (directory / "HISTORY").unlink()
    assert dh.repair(directory, apply=True)["repaired"]
    assert modes(directory) == wanted
    for path in (directory, tmp_path / "backup"):
        with dh.open(path) as history:
            assert status_of(history, ["a"]) == ["DUPLICATE"]


def test_a_backup_is_closed_to_those_to_whom_the_history_is(tmp_path: Path) -> None:
    """The audit log holds whole documents in files that its directory alone keeps from others."""
    path, copy = tmp_path / "orders.history", tmp_path / "backup"
    path.mkdir(0o700)
    with dh.open(path, create=True) as history:
        history.begin(documents(["a"]), trigger())
        history.begin(documents(["a"]), trigger(), audit=True)
    for closed in (path / "audit", *path.glob("triggers/*")):
        closed.chmod(0o550)
    dh.backup(path, copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    for closed in (copy / "audit", *copy.glob("triggers/*")):
        assert stat.S_IMODE(closed.stat().st_mode) == 0o750  # its owner can go on with it
    with dh.open(copy) as history:
        assert status_of(history, ["a"]) == ["IN_DOUBT"]


READ = """
os.setgroups([int(sys.argv[2])])
os.setgid(65534)
os.setuid(65534)
try:
    with dh.open(sys.argv[1], read_only=True) as history:
        print(*status_of(history, ["a"]))
except dh.StorageError as error:
    print("HISTORY" in str(error), "denied" in str(error))
"""


@pytest.mark.parametrize(("group", "told"), [(4321, "DUPLICATE"), (65534, "True True")])
def test_another_user_reads_a_history_by_the_owners_group(
    tmp_path_factory: pytest.TempPathFactory, group: int, told: str
) -> None:
    """Only root can become another user; anybody else is kept out by the mode that the test above looks at."""
    home = tmp_path_factory.mktemp("shared")
    path = home / "orders.history"
    with dh.open(path, create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
    if os.geteuid() != 0:
        assert modes(path) <= {0o640, 0o600}
        return
    for one in (path, *path.rglob("*")):
        os.chown(one, -1, 4321)
    opened = [home, *home.parents]
    before = {one: stat.S_IMODE(one.stat().st_mode) for one in opened}
    try:
        for one in opened:
            one.chmod(before[one] | 0o055)
        assert run(READ, path, group) == [told]
    finally:
        for one, mode in before.items():
            one.chmod(mode)
