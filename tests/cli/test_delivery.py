"""`dochistory delivery`."""

from __future__ import annotations

from pathlib import Path

import pytest

import dochistory as dh
from tests.cli.conftest import Run
from tests.delivery.support import header, messages


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    """A history with a stream that is in doubt from 10 to 30, one that is not, and a subscriber."""
    path = tmp_path / "feed.history"
    with dh.open(path, create=True) as history:
        history.delivery("doubtful", start=10).receive(messages([header(10, 20), header(20, 30)]))
        history.delivery("fine", start=5).receive(messages([header(5, 6)])).commit()
        history.delivery_out("remote1", start=0).build([7])
    return path


def test_status_shows_streams_under_the_names_of_the_table(run: Run, feed: Path) -> None:
    ran = run("delivery", "status", "--history", feed)
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].split()[:3] == ["stream", "log_received", "confirm_received"]
    assert [line.split()[0] for line in lines[1:]] == ["doubtful", "fine", "remote1"]
    assert lines[1].endswith("10..30")


def test_status_as_json_has_every_column(run: Run, feed: Path) -> None:
    streams = run("delivery", "status", "--history", feed, "--json").json["streams"]
    assert [(one["stream"], one["log_received"], one["log_sent"]) for one in streams] == [
        ("doubtful", 10, None),
        ("fine", 6, None),
        ("remote1", None, 7),
    ]
    assert [one["in_doubt_or_applying"] for one in streams] == [True, False, False]
    one = run("delivery", "status", "--history", feed, "--json", "--stream", "fine").json["streams"]
    assert len(one) == 1
    assert run("delivery", "status", "--history", feed, "--stream", "nobody").status == 2


def test_settle_says_how_far_a_stream_was_applied(run: Run, feed: Path) -> None:
    assert (
        "goes on from 20"
        in run("delivery", "settle", "--history", feed, "--stream", "doubtful", "--log-received", 20).out
    )
    with dh.open(feed) as history:
        assert history.delivery("doubtful").status()["log_received"].to_pylist() == [20]
    again = run("delivery", "settle", "--history", feed, "--stream", "doubtful", "--log-received", 20, "--json")
    assert again.json == {"stream": "doubtful", "log_received": 20, "settled": False}


@pytest.mark.parametrize("more", [[], ["--stream", "doubtful"], ["--stream", "doubtful", "--log-received", "x"]])
def test_settle_wants_a_stream_and_an_offset(run: Run, feed: Path, more: list[str]) -> None:
    assert run("delivery", "settle", "--history", feed, *more).status == 2


def test_an_offset_outside_of_what_is_in_doubt_is_refused(run: Run, feed: Path) -> None:
    ran = run("delivery", "settle", "--history", feed, "--stream", "doubtful", "--log-received", 31)
    assert (ran.status, "DH-RESTORED" in ran.err) == (2, True)
