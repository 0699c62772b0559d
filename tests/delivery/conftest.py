"""Fixtures of the tests of guaranteed delivery."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dochistory as dh
from tests.bucket_fixtures import identity, in_bucket, store

__all__ = ["identity", "in_bucket", "store"]


@pytest.fixture(params=["directory", pytest.param("bucket", marks=pytest.mark.slow)])
def history(request: pytest.FixtureRequest, history_path: Path) -> Iterator[dh.History]:
    """An empty history, in a directory and in a bucket."""
    is_directory = request.param == "directory"
    with dh.open(history_path, create=True) if is_directory else request.getfixturevalue("in_bucket")() as opened:
        yield opened
