"""Load: eight threads in each of four processes offer the same documents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.campaign.load import run

SECONDS = float(os.environ.get("DOCHISTORY_LOAD_SECONDS", "20"))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_under_load_every_document_is_claimed_exactly_once(tmp_path: Path) -> None:
    figures = run(tmp_path / "load.history", SECONDS)
    for name in ("documents", "offered", "claims", "duplicates", "errors", "offered_per_second", "seconds"):
        print(f"figure: load {name} = {figures[name]}")
    assert (figures["duplicates"], figures["missing"], figures["errors"]) == (0, 0, 0)
    assert figures["claims"] == figures["documents"] > 0
    assert figures["offered"] > figures["documents"]
