"""A history for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dochistory as dh
from tests.bucket_fixtures import identity, in_bucket, store

__all__ = ["identity", "in_bucket", "store"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the history is."""
    return tmp_path / "messages.history"


@pytest.fixture(params=["directory", pytest.param("bucket", marks=pytest.mark.slow)])
def history(request: pytest.FixtureRequest, path: Path) -> Iterator[dh.History]:
    """An empty history, in a directory and in a bucket."""
    is_directory = request.param == "directory"
    with dh.open(path, create=True) if is_directory else request.getfixturevalue("in_bucket")() as opened:
        yield opened


@pytest.fixture
def mapper(history: dh.History) -> dh.MessageIdMapper:
    """The mapper of a channel with the default policy."""
    return history.mapper("jms-receiver")
