"""What was acknowledged is there again after the history was closed, by any number of later openings."""

from __future__ import annotations

from pathlib import Path

import pytest

import dochistory as dh
from tests.support import T0, documents, entries, fresh_ids, status_of, statuses, trigger


def test_every_state_survives_reopening(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        claim = history.begin(documents(["p", "c", "r"]), trigger())
        claim.complete(rows=[1])
        claim.release(rows=[2])
        history.complete(["k"], trigger())
    with dh.open(directory) as history:
        assert status_of(history, ["p", "c", "r", "k", "n"]) == ["IN_DOUBT", "DUPLICATE", "NEW", "DUPLICATE", "NEW"]


def test_what_is_not_closed_is_there_too(directory: Path) -> None:
    history = dh.open(directory, create=True)
    history.begin(documents(["a"]), trigger()).complete()
    with dh.open(directory) as other:
        assert status_of(other, ["a"]) == ["DUPLICATE"]
    history.close()


def test_many_openings_add_up(directory: Path) -> None:
    ids = fresh_ids(40)
    for row, one in enumerate(ids):
        with dh.open(directory, create=True) as history:
            assert status_of(history, ids) == ["DUPLICATE"] * row + ["NEW"] * (len(ids) - row)
            history.begin(documents([one]), trigger()).complete()


def test_start_times_survive_reopening(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger(), now=T0)
    with dh.open(directory) as history:
        assert entries(history, trigger()) == [
            {"trigger": "orders", "key": "a", "status": "processing", "started_at": T0}
        ]


def test_a_claim_is_completed_by_key_after_its_process_is_gone(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a", "b"]), trigger())
    with dh.open(directory) as history:
        history.complete(["a"], trigger())
        history.release(["b"], trigger())
        assert status_of(history, ["a", "b"]) == ["DUPLICATE", "NEW"]


def test_a_purge_survives_reopening(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger(), now=T0).complete()
        history.begin(documents(["b"]), trigger(), now=T0.replace(hour=20)).complete()
        history.purge(now=T0.replace(hour=21))
    with dh.open(directory) as history:
        assert status_of(history, ["a", "b"]) == ["NEW", "DUPLICATE"]


def test_a_large_history_survives_reopening(directory: Path) -> None:
    ids = fresh_ids(30_000) + [f"order {row}" for row in range(30_000)]
    with dh.open(directory, create=True) as history:
        for start in range(0, len(ids), 7_000):
            history.begin(documents(ids[start : start + 7_000]), trigger()).complete()
    with dh.open(directory, read_only=True) as history:
        assert set(status_of(history, ids)) == {"DUPLICATE"}
        assert set(status_of(history, fresh_ids(10_000))) == {"NEW"}


def test_a_reader_sees_what_a_writer_adds_later(directory: Path) -> None:
    with dh.open(directory, create=True) as writer, dh.open(directory, read_only=True) as reader:
        assert status_of(reader, ["a"]) == ["NEW"]
        claim = writer.begin(documents(["a"]), trigger())
        assert status_of(reader, ["a"]) == ["IN_DOUBT"]
        claim.complete()
        assert status_of(reader, ["a"]) == ["DUPLICATE"]
        writer.purge(now=claim.started_at.replace(year=claim.started_at.year + 1), force=True)
        assert status_of(reader, ["a"]) == ["NEW"]


def test_two_writers_in_one_process_share_one_history(directory: Path) -> None:
    with dh.open(directory, create=True) as one, dh.open(directory) as other:
        assert statuses(one.begin(documents(["a"]), trigger()).verdicts) == ["NEW"]
        assert statuses(other.begin(documents(["a", "b"]), trigger()).verdicts) == ["IN_DOUBT", "NEW"]
        assert statuses(one.begin(documents(["b"]), trigger()).verdicts) == ["IN_DOUBT"]


def test_an_intact_history_verifies(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(fresh_ids(1000)), trigger()).complete()
        history.verify()
    with dh.open(directory) as history:
        history.verify()
        assert history.stats() is not None


def test_a_closed_history_answers_no_more(directory: Path) -> None:
    history = dh.open(directory, create=True)
    history.close()
    with pytest.raises(dh.StateError):
        history.classify(documents(["a"]), trigger())
    history.close()


@pytest.mark.parametrize("convert", [str, Path])
def test_a_directory_may_be_text_or_a_path(directory: Path, convert: type) -> None:
    with dh.open(convert(directory), create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
    with dh.open(convert(directory)) as history:
        assert status_of(history, ["a"]) == ["DUPLICATE"]
