"""Fixtures of the tests that work on one new history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dochistory as dh


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where a history may be created."""
    return tmp_path / "orders.history"


@pytest.fixture
def history(directory: Path) -> Iterator[dh.History]:
    """A new, empty history."""
    with dh.open(directory, create=True) as opened:
        yield opened
