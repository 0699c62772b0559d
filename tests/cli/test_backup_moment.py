"""A backup is one moment of a history: what followed something is never in it without that."""

from __future__ import annotations

import errno
import fcntl
import resource
import threading
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import _backup, _moment
from tests.cli.conftest import Run
from tests.store.processes import finish, start
from tests.store.processes import run as run_script
from tests.support import documents, entries, trigger

# Each id goes through them in this order; a copy made space after space has the later ones without the earlier ones.
CHAIN = ("alpha", "beta", "gamma")

WRITER = """
    import pyarrow as pa
    with dh.open(sys.argv[1]) as history:
        mapper = history.mapper("ids")
        number = 0
        while not os.path.exists(sys.argv[2]):
            number += 1
            key = f"{sys.argv[3]}-{number}"
            for name in ("alpha", "beta", "gamma"):
                history.begin(documents([key]), trigger(name)).complete()
            mapper.create([key], [key.upper()], "forever")
            doubtful = pa.table({"uuid": [key], "redelivery_count": [1]})
            history.begin(doubtful, trigger("in_doubt", use_history=False), audit=True)
            if number == 1:
                print("begun", flush=True)
            if number % 50 == 0:
                history.maintain(all=True)
"""


def ids(history: dh.History, name: str) -> set[str]:
    return {row["key"] for row in entries(history, trigger(name), status="completed")}


@pytest.mark.slow
def test_backup_never_holds_a_change_without_an_earlier_one(run: Run, tmp_path: Path) -> None:
    path, stop = tmp_path / "busy.history", tmp_path / "stop"
    with dh.open(path, create=True) as history:
        for name in CHAIN:
            history.begin(documents(["first"]), trigger(name)).complete()
        history.mapper("ids").create(["first"], ["FIRST"], "forever")
    writers = [start(WRITER, path, stop, number) for number in range(2)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "begun\n"
        for number in range(6):
            ran = run("backup", f"copy-{number}", "--history", path)
            assert ran.status == 0, ran.err
    finally:
        stop.touch()
        ended = [writer.communicate(timeout=60)[1] for writer in writers]
    assert ended == ["", ""]
    assert not list(path.glob("*/*/pin-*"))
    seen = []
    for number in range(6):
        with dh.open(tmp_path / f"copy-{number}") as copy:
            alpha, beta, gamma = (ids(copy, name) for name in CHAIN)
            found = copy.mapper("ids").lookup(sorted(alpha))["found"].to_pylist()
            mapped = {key for key, is_there in zip(sorted(alpha), found, strict=True) if is_there}
            audited = set(copy.audit.list()["key"].to_pylist())
            assert alpha >= beta >= gamma >= mapped >= audited
            seen.append(len(audited))
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_backup_blocked_by_a_writer_names_the_lock(run: Run, orders: Path, tmp_path: Path) -> None:
    turn = next(orders.glob("triggers/*/turn"))
    with turn.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = run("backup", "copy.history", "--history", orders, "--lock-timeout", "0.2 s")
    assert ran.status != 0
    assert "[DH-LOCKED]" in ran.err
    assert str(turn) in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders.history"]
    assert run("backup", "copy.history", "--history", orders).status == 0


def test_a_writer_waits_no_longer_than_the_moment_is_held(orders: Path) -> None:
    with _moment.held(orders, 5.0) as moment, dh.open(orders, lock_timeout="1 s") as history:
        history.begin(documents(["during"]), trigger("orders", history_time_to_live="30 days")).complete()
        assert [space.directory.name.startswith("orders-") for space in moment.spaces] == [True]
        # What the moment names stays, whatever happens to the history.
        history.maintain(all=True)
        assert all((moment.spaces[0].directory / name).is_file() for name in moment.spaces[0].files)
    assert not list(orders.glob("triggers/*/pin-*"))


def test_backups_at_the_same_time_do_not_block_each_other(orders: Path) -> None:
    taken: list[int] = []

    def take() -> None:
        for number in range(20):
            with _moment.held(orders, 10.0):
                taken.append(number)

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 60


def test_the_later_of_two_backups_learns_that_its_place_is_taken(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, drafted = tmp_path / "copy.history", _backup._drafted  # noqa: SLF001

    def overtaken(*given: Any) -> int:
        size = drafted(*given)
        assert finish(start("dh.backup(sys.argv[1], sys.argv[2])", orders, target)) == []
        return size

    monkeypatch.setattr(_backup, "_drafted", overtaken)
    with pytest.raises(dh.ConfigError, match=r"copy\.history: exists already"):
        dh.backup(orders, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.history", "orders.history"]


def test_backups_of_one_process_share_no_draft(orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, drafted = tmp_path / "copy.history", _backup._drafted  # noqa: SLF001

    def overtaken(*given: Any) -> int:
        size = drafted(*given)
        monkeypatch.setattr(_backup, "_drafted", drafted)
        dh.backup(orders, target)
        return size

    monkeypatch.setattr(_backup, "_drafted", overtaken)
    with pytest.raises(dh.ConfigError, match=r"copy\.history: exists already"):
        dh.backup(orders, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.history", "orders.history"]


FORKS_MEANWHILE = """
    import signal
    from dochistory import _moment
    children, written_down = [], _moment._written_down

    def forked(*given):
        children.append(os.fork())
        if children[-1] == 0:
            time.sleep(60)
            os._exit(0)
        return written_down(*given)

    _moment._written_down = forked
    try:
        dh.backup(sys.argv[1], sys.argv[2])
        with dh.open(sys.argv[1], lock_timeout="1 s") as history:
            claim = history.begin(documents(["late"]), trigger(history_time_to_live="30 days"))
        print(*statuses(claim.verdicts))
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
"""


def test_a_process_forked_meanwhile_keeps_no_writer_out(orders: Path, tmp_path: Path) -> None:
    assert run_script(FORKS_MEANWHILE, orders, tmp_path / "copy.history") == ["NEW"]


SHORT_OF_SPACE = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
    try:
        dh.backup(sys.argv[1], sys.argv[2])
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_a_full_disk_is_told_with_the_file_at_once(orders: Path, tmp_path: Path) -> None:
    with dh.open(orders) as history:
        history.begin(documents(map(str, range(20_000))), trigger("more")).complete()
    (said,) = finish(start(SHORT_OF_SPACE, orders, tmp_path / "copy.history"))
    assert said.startswith(f"StorageError [DH-IO] {tmp_path}/.copy.history.draft-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders.history"]


def test_a_bad_sector_of_the_source_is_told_with_its_file(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad_sector(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(_backup, "_read", bad_sector)
    with pytest.raises(dh.StorageError, match=r"^\[DH-IO\] .*: Input/output error"):
        dh.backup(orders, tmp_path / "copy.history")


def test_a_damaged_history_is_not_copied_many_times(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dh.open(orders) as history:
        history.begin(documents([None]), trigger("others", without_ids="in_doubt"), audit=True)
    kept = next(orders.glob("audit/kept-*"))
    kept.write_bytes(kept.read_bytes()[:-1])
    copied, copies = _backup._copy, []  # noqa: SLF001

    def counted(*given: Any) -> None:
        copies.append(given)
        copied(*given)

    monkeypatch.setattr(_backup, "_copy", counted)
    with pytest.raises(dh.CorruptError, match=f"{orders}/audit/kept-"):
        dh.backup(orders, tmp_path / "copy.history")
    assert len(copies) <= 3


def test_a_log_that_ends_while_it_is_checked_stops_no_backup(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, copies, checks = _backup._copy, [], []  # noqa: SLF001

    def changing(*given: Any) -> None:
        copies.append(given)
        if len(copies) <= 3:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "log-1")
        copied(*given)

    def verified(history: dh.History, **given: Any) -> int:
        checks.append(history)
        if len(checks) == 1:
            raise dh.StorageError("[DH-IO] cannot open log-1: No such file or directory")
        return verify(history, **given)

    verify = dh.History.verify
    monkeypatch.setattr(_backup, "_copy", changing)
    monkeypatch.setattr(dh.History, "verify", verified)
    dh.backup(orders, tmp_path / "copy.history")
    assert (len(copies), len(checks)) == (4, 2)


def test_a_target_that_cannot_be_looked_at_is_a_storage_error(orders: Path, tmp_path: Path) -> None:
    with pytest.raises(dh.StorageError, match=r"^\[DH-IO\] .*: File name too long"):
        dh.backup(orders, tmp_path / ("n" * 300))


def test_what_a_progress_callback_raises_comes_back(orders: Path, tmp_path: Path) -> None:
    def broken_pipe(*_: int) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        dh.backup(orders, tmp_path / "copy.history", progress=broken_pipe)


def test_too_few_descriptors_are_said_and_never_a_partial_moment(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (64, 64))
    with pytest.raises(dh.DescriptorsError, match="ulimit -n"), _moment.held(orders, 1.0):
        pass


def test_backup_without_descriptors_is_not_tried_again(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def none_left(*_: object) -> None:
        tried.append(1)
        raise OSError(errno.EMFILE, "Too many open files", str(orders))

    monkeypatch.setattr(_moment, "_allow", none_left)
    with pytest.raises(dh.DescriptorsError, match=r"^\[DH-DESCRIPTORS\] .*: Too many open files; close"):
        dh.backup(orders, tmp_path / "copy.history")
    assert (len(tried), [*tmp_path.glob("copy*")]) == (1, [])
