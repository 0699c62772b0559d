"""A bucket that lost an object: repair says what is lost, and goes on without it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from tests.cli.conftest import Run
from tests.objects.test_commands import run
from tests.servers.objects import Server
from tests.support import documents, fresh_ids, status_of, trigger

__all__ = ["run"]


@pytest.fixture
def lost(s3: Server, place: str, client: Any) -> list[str]:
    """The ids of a segment that a rule deleted."""
    ids = fresh_ids(1000)
    with dh.open(place, create=True, storage_options=dict(s3.options)) as history:
        history.load(documents(ids), trigger())
        history.begin(documents(["in the log"]), trigger()).complete()
    [segment] = [one.name for one in client.list() if "segment" in one.name]
    client.delete(segment)
    return ids


def test_repair_of_a_bucket_goes_on_without_what_is_lost(s3: Server, place: str, client: Any, lost: list[str]) -> None:
    options = dict(s3.options)
    with dh.open(place, storage_options=options) as history, pytest.raises(dh.ObjectStoreError, match="DH-MISSING"):
        status_of(history, ["in the log"])
    before = [one.name for one in client.list()]
    told = dh.repair(place, storage_options=options)
    assert not told["repaired"]
    assert [one.name for one in client.list()] == before
    found = [(one["trigger"], one["remedy"], one["dropped_entries"]) for one in told["findings"]]
    assert ("orders", "dropped", 1000) in found
    assert all(str(one["file"]).startswith(place) for one in told["findings"])
    assert dh.repair(place, storage_options=options, apply=True)["repaired"]
    with dh.open(place, storage_options=options) as history:
        assert status_of(history, ["in the log"]) == ["DUPLICATE"]
        assert Counter(status_of(history, lost)) == {"NEW": 1000}
        assert history.verify() > 0
    assert dh.repair(place, storage_options=options)["findings"] == []


def test_the_command_repairs_a_bucket_only_with_yes(run: Run, place: str, lost: list[str], tmp_path: Path) -> None:
    looked = run("--history", place, "repair")
    assert looked.status == 1
    assert "1,000 ids" in looked.out
    assert "nothing was changed" in looked.out
    repaired = run("--history", place, "repair", "--yes", "--json")
    assert (repaired.status, repaired.json["repaired"]) == (0, True)
    assert run("--history", place, "repair").status == 0
    assert lost
    assert list(tmp_path.iterdir()) == []


def test_repair_needs_a_history(s3: Server, place: str) -> None:
    with pytest.raises(dh.OpenError, match=r"^\[DH-OPEN\]"):
        dh.repair(place, storage_options=dict(s3.options))
