"""What a real machine does to a store: a full disk, a directory that must not be written, one that goes away."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from tests.store.processes import finish, run, start
from tests.support import documents, fresh_ids, status_of, statuses, trigger

FILL = """
history = dh.open(sys.argv[1])
history.begin(documents(["before"]), trigger()).complete()
claimed, refused = [], None
for number in range(100_000):
    ids = [f"{number} {row} " + "x" * 60 for row in range(500)]
    try:
        history.begin(documents(ids), trigger())
    except dh.DocHistoryError as error:
        refused = error
        break
    claimed.append(number)
print(len(claimed), type(refused).__name__)
try:
    history.begin(documents(["after"]), trigger())
except dh.DocHistoryError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two mebibytes, where we may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    yield place if mounted.returncode == 0 else tmp_path / "none"
    if mounted.returncode == 0:
        subprocess.run(["umount", str(place)], check=True)


def test_on_a_full_disk_nothing_that_was_acknowledged_is_lost(small_disk: Path, directory: Path) -> None:
    """A real file system where that is allowed, else a limit on the size of files, which fails writes as well."""
    real = small_disk.is_dir()
    history_path = small_disk / "full.history" if real else directory
    dh.open(history_path, create=True).close()
    limit = (
        ""
        if real
        else """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
"""
    )
    filled, refused = run(limit + FILL, history_path)
    count, error = filled.split()
    assert int(count) > 0
    assert error in ("StorageError", "FailedError")
    assert refused in ("FailedError", "StorageError")
    with dh.open(history_path, read_only=True) as history:
        assert status_of(history, ["before", "after"]) == ["DUPLICATE", "NEW"]
        for number in range(int(count)):
            ids = [f"{number} {row} " + "x" * 60 for row in range(0, 500, 100)]
            assert set(status_of(history, ids)) == {"IN_DOUBT"}, number
        halves = [f"{count} {row} " + "x" * 60 for row in range(500)]
        assert len(set(status_of(history, halves))) == 1, "a batch is there whole or not at all"
        history.verify()
    if real:
        # Once there is room, the work goes on. Here: somewhere with room.
        moved = directory
        shutil.copytree(history_path, moved)
        with dh.open(moved) as history:
            assert statuses(history.begin(documents(["after"]), trigger()).verdicts) == ["NEW"]


def free_bytes(place: Path) -> int:
    figures = os.statvfs(place)
    return figures.f_bavail * figures.f_frsize


def begin_and_load(path: Path) -> None:
    """Neither has room here for this many ids."""
    for add in (dh.History.begin, dh.History.load):
        with dh.open(path) as history, pytest.raises(dh.StorageError, match="No space left"):
            add(history, documents(fresh_ids(200_000)), trigger())


def load_parts(path: Path) -> None:
    """A file for each time partition, of which only the first ones find room."""
    ids, now = fresh_ids(200_000), dt.datetime.now(dt.UTC)
    started = [now - dt.timedelta(minutes=5 * (number % 10)) for number in range(len(ids))]
    rows = documents(ids, started_at=pa.array(started, pa.timestamp("us", "UTC")))
    with dh.open(path) as history, pytest.raises(dh.StorageError, match="No space left"):
        history.load(rows, trigger())


def maintain(path: Path) -> None:
    """What is there is compacted to about as much."""
    with dh.open(path, auto_maintain=False) as history:
        for _ in range(12):
            history.begin(documents(f"{one} " + "x" * 59 for one in fresh_ids(500)), trigger())
            history.pin(trigger())  # a segment each
    other = path.parent / "other"
    with other.open("wb") as file:
        file.write(bytes(free_bytes(path.parent) - 200_000))
    with dh.open(path) as history:
        with pytest.raises(dh.StorageError, match="No space left"):
            history.maintain(all=True)
        # Nothing depends on what was not written, so the handle goes on.
        assert statuses(history.begin(documents(fresh_ids(10)), trigger()).verdicts) == ["NEW"] * 10


@pytest.mark.parametrize("fill", [begin_and_load, load_parts, maintain])
def test_what_found_no_room_takes_none(small_disk: Path, fill: Callable[[Path], None]) -> None:
    """Else nothing could be begun any more, though there is room for it."""
    if not small_disk.is_dir():
        pytest.skip("no file system can be mounted")
    path = small_disk / "full.history"
    with dh.open(path, create=True) as history:
        history.begin(documents(["before"]), trigger()).complete()
    fill(path)
    assert free_bytes(small_disk) > 150_000
    assert not [*path.rglob("new-*"), *path.rglob("part-*")]
    with dh.open(path) as history:
        assert statuses(history.begin(documents(["before", *fresh_ids(2_000)]), trigger()).verdicts) == [
            "DUPLICATE",
            *["NEW"] * 2_000,
        ]
        history.verify()


def test_background_that_finds_no_room_stops_nothing(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nor is it tried again with each call: each try writes as much as there is room for."""
    if not small_disk.is_dir():
        pytest.skip("no file system can be mounted")
    path = small_disk / "full.history"

    def failed() -> list[float]:
        """When maintenance was told to have failed."""
        told = "maintenance of trigger 'orders': [DH-IO]"
        return [record.created for record in caplog.records if record.getMessage().startswith(told)]

    with dh.open(path, create=True, auto_maintain=False) as history:
        for _ in range(14):
            history.begin(documents(f"{one} " + "x" * 59 for one in fresh_ids(500)), trigger())
            history.pin(trigger())  # a segment each
    (small_disk / "other").write_bytes(bytes(free_bytes(small_disk) - 150_000))
    with dh.open(path) as history:
        for _ in range(600):
            assert statuses(history.begin(documents(fresh_ids(1)), trigger()).verdicts) == ["NEW"]
            if len(failed()) == 3:
                break
            time.sleep(0.05)
    # One second lies between the first try and the second one, and two before the third.
    first, _, third = failed()
    assert third - first > 1.5


READ = """
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with dh.open(sys.argv[1], read_only=True) as history:
    print(*status_of(history, ["there", "elsewhere"]))
    history.verify()
try:
    with dh.open(sys.argv[1]) as history:
        print(history.begin(documents(["late"]), trigger()).new.num_rows)
except dh.DocHistoryError as error:
    print(type(error).__name__)
"""


def open_to_all(path: Path) -> None:
    """Whoever gets the right to enter the directories above may read, and nobody may write."""
    for one in (path, *path.rglob("*")):
        one.chmod(0o555 if one.is_dir() else 0o444)


def test_a_directory_that_must_not_be_written_can_be_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As another user where we are root, whom nothing keeps from writing."""
    home = tmp_path_factory.mktemp("readable")
    path = home / "orders.history"
    with dh.open(path, create=True) as history:
        history.begin(documents(["there"]), trigger()).complete()
    open_to_all(path)
    opened = [home, *home.parents]
    modes = {one: stat.S_IMODE(one.stat().st_mode) for one in opened}
    is_root = os.geteuid() == 0
    try:
        if is_root:
            for one in opened:
                one.chmod(modes[one] | 0o055)
        seen, written = run(READ, path)
    finally:
        for one, mode in modes.items():
            one.chmod(mode)
        for one in (path, *path.rglob("*")):
            one.chmod(0o755 if one.is_dir() else 0o644)
    assert seen == "DUPLICATE NEW"
    assert written in ("StorageError", "0")


def test_a_directory_that_vanishes_is_no_empty_history(directory: Path) -> None:
    ids = fresh_ids(20)
    history = dh.open(directory, create=True)
    history.begin(documents(ids), trigger()).complete()
    other = start(
        """
        with dh.open(sys.argv[1], read_only=True) as history:
            print("open", flush=True)
            sys.stdin.readline()
            for _ in range(3):
                print(*set(status_of(history, sys.argv[2:])), flush=True)
        """,
        directory,
        *ids,
    )
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "open\n"
    shutil.rmtree(directory)
    for one in (status_of(history, ids), status_of(history, fresh_ids(1))):
        # R5: without the history nothing is decided; never NEW, and never made anew.
        assert set(one) <= {None, "DUPLICATE"}, one
    assert not directory.exists()
    assert set(finish(other)) <= {"None", "DUPLICATE"}
    history.close()
    with pytest.raises(dh.OpenError):
        dh.open(directory)
