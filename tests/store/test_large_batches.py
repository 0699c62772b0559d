"""Batches that are so large that they go into a segment at once."""

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import trigger

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
