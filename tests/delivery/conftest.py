"""Fixtures of the tests of guaranteed delivery."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dochistory as dh


@pytest.fixture
def history(history_path: Path) -> Iterator[dh.History]:
    with dh.open(history_path, create=True) as opened:
        yield opened
