"""Where a history is, for tests that run in a directory and in a bucket."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from tests.servers.objects import Server, moto


@dataclass(frozen=True)
class Where:
    """A place, and what entrances are given besides it."""

    path: Any
    given: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, history: Any) -> Where:
        """A place that may be none yet: a path, or an open history."""
        return history if isinstance(history, cls) else cls(history)

    def open(self, **how: Any) -> dh.History:
        """The history."""
        return dh.open(self.path, **self.given, **how)


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    """One moto for a file of tests."""
    with moto() as server:
        yield server


@pytest.fixture(params=["directory", pytest.param("bucket", marks=pytest.mark.slow)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """A place that is the test's own."""
    if request.param == "directory":
        return Where(tmp_path / "test.history")
    return in_bucket(request.getfixturevalue("s3"), tmp_path / "cache")


def in_bucket(s3: Server, cache: Path) -> Where:
    """A place in a bucket that nobody else uses."""
    given = {"storage_options": dict(s3.options), "cache": cache}
    return Where(f"{s3.url}/{secrets.token_hex(4)}/test.history", given)
