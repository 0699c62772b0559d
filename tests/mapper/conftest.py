"""A history for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dochistory as dh


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the history is."""
    return tmp_path / "messages.history"


@pytest.fixture
def history(path: Path) -> Iterator[dh.History]:
    """An empty history."""
    with dh.open(path, create=True) as opened:
        yield opened


@pytest.fixture
def mapper(history: dh.History) -> dh.MessageIdMapper:
    """The mapper of a channel with the default policy."""
    return history.mapper("jms-receiver")
