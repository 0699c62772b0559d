"""Many small staged claims: upkeep puts their segments together, so that files and look-ups stay few."""

from __future__ import annotations

from pathlib import Path

import pytest

import dochistory as dh
from tests.support import documents, status_of, trigger

CLAIMS = 200
PARTS = 4


def claim(history: dh.History, ids: list[str]) -> None:
    """As Spark claims a small batch: a few rows in each of several tasks, committed and completed by the driver."""
    job = history._shards.reserve(trigger(), PARTS)
    with dh.open(history.path, read_only=True, snapshot=job.snapshot) as task:
        receipts = [
            task._shards.stage(documents(ids[part::PARTS]), trigger(), job=job.token, part=part, attempt="a0").receipt
            for part in range(PARTS)
        ]
    job.commit(receipts).complete()


def files(path: Path) -> list[str]:
    return sorted(one.name for one in path.rglob("*") if one.is_file())


@pytest.mark.slow
def test_200_small_claims_leave_few_files_and_known_documents(tmp_path: Path) -> None:
    path = tmp_path / "orders.history"
    ids = [[f"d{number}-{row}" for row in range(8)] for number in range(CLAIMS)]
    most = 0
    for some in ids:
        # Opened anew for each batch, as by `exactly_once`: upkeep has no more time than that.
        with dh.open(path, create=True) as history:
            claim(history, some)
        most = max(most, len(files(path)))
    with dh.open(path) as history:
        assert history.stats(trigger())["segments"] <= 64
        assert status_of(history, [one for some in ids for one in some]) == ["DUPLICATE"] * CLAIMS * 8
        history.maintain(trigger(), all=True)
        assert history.stats(trigger())["segments"] <= 2
        assert status_of(history, [one for some in ids for one in some]) == ["DUPLICATE"] * CLAIMS * 8
    # 800 segments were written.
    assert most <= 100
    assert len(files(path)) <= 20, files(path)
