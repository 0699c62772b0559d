"""The history's tools, over the streams of guaranteed delivery and the maps of mappers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dochistory as dh
from tests.cli.conftest import Run, run
from tests.delivery.support import header, messages
from tests.golden.make import tear_logs

__all__ = ["run"]  # a fixture

SPACES = ["mapper:jms", "delivery:received", "delivery:sent"]


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    """A history with streams, one of them in doubt, and a mapper: several files and a log of each."""
    path = tmp_path / "feed.history"
    for number in range(4):
        if number:
            tear_logs(path / "delivery")
            tear_logs(path / "mappers")
        with dh.open(path, create=True, auto_maintain=False) as history:
            history.delivery("s", start=0).receive(messages([header(number * 10, number * 10 + 10)])).commit()
            history.delivery_out("r", start=0).build([number * 10 + 10])
            history.mapper("jms").create([f"m-{number}"], [f"ID:{number}"])
    with dh.open(path, auto_maintain=False) as history:
        history.delivery("t", start=0).receive(messages([header(0, 10)]))
    return path


def files_of(feed: Path) -> Iterator[Path]:
    for room in ("mappers", "delivery"):
        for name in ("segment-*", "log-*", "manifest-*"):
            yield from sorted((feed / room).rglob(name))


def test_a_damaged_byte_in_any_file_of_theirs_is_found(feed: Path, run: Run) -> None:
    with dh.open(feed, read_only=True) as history:
        assert history.verify() == history._shards.verify_values() > 0
        seen: list[int] = []
        assert history.verify(progress=lambda done, _total: seen.append(done)) == history.verify(progress=True)
        assert seen
    assert run("verify", "--history", feed, "--json").json["value_bytes"] > 0
    damaged = 0
    for file in files_of(feed):
        whole = file.read_bytes()
        file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 4]) + whole[-8:])
        # Of the manifests only the newest is read, and a log may end with zeros that nobody has written.
        try:
            with pytest.raises((dh.CorruptError, dh.OpenError)), dh.open(feed, read_only=True) as history:
                history.verify()
            assert run("verify", "--history", feed).status != 0
            damaged += 1
        except pytest.fail.Exception:
            assert not file.name.startswith("segment-"), file
        finally:
            file.write_bytes(whole)
    assert damaged >= len(SPACES)


def test_a_backup_gives_the_same_streams_and_the_same_doubts(feed: Path, run: Run, tmp_path: Path) -> None:
    assert run("backup", tmp_path / "copy", "--history", feed).status == 0
    with dh.open(feed) as history, dh.open(tmp_path / "copy") as copy:
        assert copy.delivery_status() == history.delivery_status()
        assert copy.delivery().in_doubt()["stream"].to_pylist() == ["t"]
        poll = copy.delivery("s").receive(messages([header(30, 40), header(40, 50)]))
        assert poll.streams["log_received"].to_pylist() == [50]
        assert copy.mapper("jms").lookup(["m-0", "m-3", "m-4"])["found"].to_pylist() == [True, True, False]


def test_stats_tell_their_sizes(feed: Path, run: Run) -> None:
    figures = run("stats", "--history", feed, "--json").json
    for one in (figures["mappers"]["jms"], figures["delivery"]["received"], figures["delivery"]["sent"]):
        assert one["files"] == 3
        assert one["file_bytes"] + one["log_bytes"] > 0
    shown = run("stats", "--history", feed).out
    assert all(name in shown for name in SPACES)


@pytest.mark.parametrize("how", ["program", "method"])
def test_maintenance_compacts_their_files(feed: Path, run: Run, how: str) -> None:
    with dh.open(feed) as history:
        status = history.delivery_status()
    if how == "program":
        assert set(run("maintain", "--all", "--history", feed, "--json").json["triggers"]) == set(SPACES)
    else:
        with dh.open(feed) as history:
            assert set(history.maintain(all=True)) == set(SPACES)
    with dh.open(feed) as history:
        figures = history.stats()
        spaces = [figures["mappers"]["jms"], figures["delivery"]["received"], figures["delivery"]["sent"]]
        assert [one["files"] for one in spaces] == [1, 1, 1]
        assert history.delivery_status() == status
        assert history.mapper("jms").lookup(["m-0", "m-3"])["found"].to_pylist() == [True, True]


def test_a_purge_of_triggers_takes_nothing_from_them(feed: Path, run: Run) -> None:
    assert run("purge", "--now", "2099-01-01T00:00:00Z", "--history", feed).status == 0
    with dh.open(feed) as history:
        assert history.delivery_status().num_rows == 3
        assert history.mapper("jms").lookup(["m-0"])["found"].to_pylist() == [True]


def test_maintenance_runs_beside_the_commits(tmp_path: Path) -> None:
    with dh.open(tmp_path / "h", create=True) as history:
        inbox = history.delivery("s", start=0)
        for number in range(400):
            inbox.receive(messages([header(number, number + 1)])).commit()
        assert history.delivery("s").status()["log_received"].to_pylist() == [400]
