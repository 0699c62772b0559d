"""Fixtures of the command line's tests: a working directory with a history in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dochistory as dh
from dochistory.cli import main
from tests.support import documents, trigger


class Ran(NamedTuple):
    """What one run of the program gave."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The standard output as one JSON document."""
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the program in an empty directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("DOCHISTORY_HISTORY", "DOCHISTORY_SETTINGS"):
        monkeypatch.delenv(name, raising=False)

    def ran(*words: object) -> Ran:
        capsys.readouterr()
        status = main([str(word) for word in words])
        return Ran(status, *capsys.readouterr())

    return ran


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A history whose trigger `orders` has completed 0001 and 0002, and begun 0003."""
    path = tmp_path / "orders.history"
    with dh.open(path, create=True) as history:
        claim = history.begin(documents(["0001", "0002", "0003"]), trigger(history_time_to_live="30 days"))
        claim.complete(rows=[0, 1])
    return path
