"""A directory that is replaced under an open handle, which must acknowledge nothing that is not part of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import dochistory as dh
from tests.delivery.support import header
from tests.delivery.support import messages as arrivals
from tests.mapper.support import messages
from tests.support import documents, fresh_ids, status_of, statuses, trigger


def moved(backup: Path, path: Path) -> None:
    path.rename(path.with_name("away"))
    shutil.copytree(backup, path)


def deleted(backup: Path, path: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(backup, path)


def synchronized(backup: Path, path: Path) -> None:
    """As `rsync --archive --delete` does: what differs gets a new file, the rest stays, and what is too much goes."""
    wanted = {one.relative_to(backup): one for one in backup.rglob("*") if one.is_file()}
    for there in [one for one in path.rglob("*") if one.is_file() and one.relative_to(path) not in wanted]:
        there.unlink()
    for name, source in wanted.items():
        there = path / name
        if not there.exists() or there.read_bytes() != source.read_bytes():
            draft = there.with_name(f".{there.name}.draft")
            shutil.copy2(source, draft)
            draft.replace(there)


def overwritten(backup: Path, path: Path) -> None:
    """As `cp --recursive` does: files keep their place, with other content."""
    wanted = {one.relative_to(backup): one for one in backup.rglob("*") if one.is_file()}
    for there in [one for one in path.rglob("*") if one.is_file() and one.relative_to(path) not in wanted]:
        there.unlink()
    for name, source in wanted.items():
        (path / name).write_bytes(source.read_bytes())


WAYS = [moved, deleted, synchronized, overwritten]


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def upkeep(history: dh.History) -> None:
    """Several manifests later."""
    for _ in range(3):
        history.unpin("orders", history.pin("orders"))
        history.begin(documents(fresh_ids(3)), trigger())


@pytest.mark.parametrize("between", [lambda _: None, upkeep], ids=["same manifest", "later manifest"])
@pytest.mark.parametrize("replace", WAYS)
def test_over_a_restored_directory_a_handle_acknowledges_nothing(
    directory: Path, backup: Path, replace: Callable[[Path, Path], None], between: Callable[[dh.History], None]
) -> None:
    with dh.open(directory, create=True) as history, dh.open(directory, read_only=True) as reader:
        history.begin(documents(["before"]), trigger()).complete()
        shutil.copytree(directory, backup)
        claim = history.begin(documents(["after"]), trigger())
        between(history)
        assert status_of(reader, ["before", "after"]) == ["DUPLICATE", "IN_DOUBT"]
        replace(backup, directory)
        with pytest.raises(dh.FencedError, match=r"^\[DH-FENCED\].*orders.*open the history again"):
            history.begin(documents(["lost"]), trigger())
        with pytest.raises(dh.FencedError):
            claim.complete()
        for handle in (history, reader):
            with pytest.raises(dh.FencedError):
                status_of(handle, ["before", "after"])
    with dh.open(directory) as history:
        assert status_of(history, ["before", "after", "lost"]) == ["DUPLICATE", "NEW", "NEW"]
        assert statuses(history.begin(documents(["after"]), trigger()).verdicts) == ["NEW"]
        history.verify()


@pytest.mark.parametrize("replace", [moved, deleted, synchronized])
def test_handle_over_a_restored_directory_in_use_is_fenced(
    directory: Path, backup: Path, replace: Callable[[Path, Path], None]
) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["before"]), trigger()).complete()
        shutil.copytree(directory, backup)
        history.begin(documents(["after"]), trigger()).complete()
        replace(backup, directory)
        with dh.open(directory) as other:
            for _ in range(6):
                upkeep(other)
        with pytest.raises(dh.FencedError):
            history.begin(documents(["after"]), trigger())


def test_handle_that_never_used_the_trigger_is_fenced_too(directory: Path, backup: Path) -> None:
    with dh.open(directory, create=True) as history:
        with dh.open(directory) as other:
            other.begin(documents(["before"]), trigger()).complete()
        shutil.copytree(directory, backup)
        moved(backup, directory)
        with pytest.raises(dh.FencedError):
            history.begin(documents(["before"]), trigger())


def test_another_history_under_the_path_is_not_written_to(directory: Path, tmp_path: Path) -> None:
    dh.open(tmp_path / "other", create=True).close()
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
        moved(tmp_path / "other", directory)
        for one in (trigger(), trigger("invoices")):
            with pytest.raises(dh.FencedError):
                history.begin(documents(["b"]), one)
    with dh.open(directory) as history:
        assert history.triggers() == []


@pytest.mark.parametrize("is_used", [False, True], ids=["empty", "used"])
@pytest.mark.parametrize("name", ["maintain", "verify", "purge", "stats", "triggers", "mappers"])
def test_another_history_is_not_called_damaged(directory: Path, tmp_path: Path, name: str, *, is_used: bool) -> None:
    with dh.open(tmp_path / "other", create=True) as other:
        if is_used:
            other.begin(documents(["a"]), trigger())
            other.mapper("feed").create(["a"], ["b"])
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
        moved(tmp_path / "other", directory)
        with pytest.raises(dh.FencedError, match=r"^\[DH-FENCED\].*open the history again"):
            getattr(history, name)()
    with dh.open(directory) as other:
        assert other.verify() >= 0


def test_deleted_turn_file_fences_the_open_handle(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
        (turn,) = directory.glob("triggers/*/turn")
        turn.unlink()
        with pytest.raises(dh.FencedError, match="turn"):
            history.begin(documents(["b"]), trigger())
        with dh.open(directory) as again:
            assert statuses(again.begin(documents(["a", "b"]), trigger()).verdicts) == ["DUPLICATE", "NEW"]


def test_mapper_over_a_restored_directory_is_fenced(directory: Path, backup: Path) -> None:
    with dh.open(directory, create=True) as history:
        mapper = history.mapper("orders")
        mapper.create(["a"], ["A"])
        shutil.copytree(directory, backup)
        mapper.create(["b"], ["B"])
        moved(backup, directory)
        with pytest.raises(dh.FencedError):
            mapper.create(["c"], ["C"])
        with pytest.raises(dh.FencedError):
            mapper.lookup(["b"])
        with pytest.raises(dh.FencedError), mapper.unit_of_work() as unit:
            unit.take(messages(["d"], message_id=["D"]))


def test_a_stream_of_a_restored_history_takes_nothing_in(directory: Path, backup: Path) -> None:
    with dh.open(directory, create=True) as history:
        inbox = history.delivery("s", start=0)
        inbox.receive(arrivals([header(0, 10)])).commit()
        shutil.copytree(directory, backup)
        inbox.receive(arrivals([header(10, 20)])).commit()
        moved(backup, directory)
        with pytest.raises(dh.FencedError, match="open the history again"):
            inbox.receive(arrivals([header(20, 30)])).commit()
