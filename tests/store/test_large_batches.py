"""Batches that go into a segment at once, or into the log without being indexed."""

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import T0, status_of, trigger

STEP = 0x9E3779B97F4A7C15F39CC0605CEDC835  # spreads numbers over all UUIDs


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_batch_is_found_with_any_number_of_threads(tmp_path: Path, threads: int) -> None:
    serial = trigger(processing_mode="serial")
    ids = [str(uuid.UUID(int=number * STEP % 2**128)) for number in range(200_000)]
    documents = pa.table({"uuid": [*ids, ids[0]]})
    with dh.open(tmp_path / "large.history", create=True) as history:
        claim = history.begin(documents, serial, threads=threads)
        assert claim.verdicts["status"].value_counts().to_pylist() == [
            {"values": "NEW", "counts": 200_000},
            {"values": "DUPLICATE", "counts": 1},
        ]
    with dh.open(tmp_path / "large.history") as history:
        again = history.classify(documents, serial, threads=threads)
        assert set(again["status"].to_pylist()) == {"IN_DOUBT"}
        history.complete(ids[:10], serial)
        counts = history.classify(documents, serial)["status"].value_counts().to_pylist()
        assert {one["values"]: one["counts"] for one in counts} == {"IN_DOUBT": 199_990, "DUPLICATE": 11}
        history.verify()


def test_entries_left_out_of_the_index_are_found_and_end(tmp_path: Path) -> None:
    # Four batches fill the log. It is frozen then, and nothing small was looked up, which would index it.
    ids = [str(uuid.UUID(int=number * STEP % 2**128)) for number in range(560_000)]
    with dh.open(tmp_path / "large.history", create=True) as history:
        for first in (0, 280_000):
            logged = range(first, first + 280_000, 70_000)
            for start in logged:
                claim = history.begin(pa.table({"uuid": ids[start : start + 70_000]}), trigger(), now=T0)
                claim.complete(rows=range(60_000))
            whole = history.classify(pa.table({"uuid": ids[first : first + 280_000]}), trigger(), now=T0)
            counts = {one["values"]: one["counts"] for one in whole["status"].value_counts().to_pylist()}
            assert counts == {"DUPLICATE": 240_000, "IN_DOUBT": 40_000}
            some = [ids[start + at] for start in logged for at in (0, 59_999, 60_000, 69_999)]
            assert status_of(history, some) == ["DUPLICATE", "DUPLICATE", "IN_DOUBT", "IN_DOUBT"] * 4
            open_ids = [ids[start + 69_999] for start in logged]
            assert history.complete(open_ids, trigger(), now=T0) == {"changed": 4, "already": 0, "unknown": 0}
            assert status_of(history, some) == ["DUPLICATE", "DUPLICATE", "IN_DOUBT", "DUPLICATE"] * 4
        known = [ids[start + 60_000] for start in range(0, 560_000, 70_000)]
        assert status_of(history, known) == ["IN_DOUBT"] * 8
    with dh.open(tmp_path / "large.history", read_only=True) as history:
        assert status_of(history, known) == ["IN_DOUBT"] * 8
