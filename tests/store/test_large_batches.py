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
    # The fourth and the eighth batch fill the log, which is put into segments in the background.
    batches = [
        [str(uuid.UUID(int=number * STEP % 2**128)) for number in range(first, first + 70_000)]
        for first in range(0, 630_000, 70_000)
    ]
    with dh.open(tmp_path / "large.history", create=True) as history:
        for at, ids in enumerate(batches):
            claim = history.begin(pa.table({"uuid": ids}), trigger(), now=T0)
            assert claim.new.num_rows == 70_000
            some = [batch[at] for batch in batches[: at + 2]]
            begun = [*["DUPLICATE"] * at, "IN_DOUBT", "NEW"][: len(some)]
            assert status_of(history, some) == begun
            ended = history.complete([ids[at], ids[-1]], trigger(), now=T0)
            assert ended == {"changed": 2, "already": 0, "unknown": 0}
            claim.complete(rows=range(60_000))
            ends = [ids[59_999], ids[60_000], ids[69_998], ids[69_999]]
            assert status_of(history, ends) == ["DUPLICATE", "IN_DOUBT", "IN_DOUBT", "DUPLICATE"]
        known = [batch[60_001] for batch in batches]
        assert status_of(history, known) == ["IN_DOUBT"] * len(batches)
    with dh.open(tmp_path / "large.history", read_only=True) as history:
        assert status_of(history, known) == ["IN_DOUBT"] * len(batches)
