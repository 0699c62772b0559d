"""Every test here works on a new history of its own, and knows nothing of this machine's suspensions."""

from pathlib import Path

import pytest

from tests.history_fixtures import directory as directory
from tests.history_fixtures import history as history


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state that the receivers of a machine share is this test's own."""
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
