"""What the driver does for a claim that Spark's tasks staged: one commit, and the end of all of it."""

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from benches.conftest import Measure, Writer
from benches.spark.commit import PARTS, staged
from benches.stores import TRIGGER
from benches.workload import Workload
from dochistory import _native

pytestmark = pytest.mark.benchmark


@pytest.mark.parametrize("meanwhile", [0, 20_000], ids=["alone", "others-began-20000"])
def test_commit_of_64_staged_segments(measure: Measure, scratch: Writer, meanwhile: int) -> None:
    """200,000 documents in 64 files; and when others have begun some since, with which they have to be compared."""
    seeds = count(1)
    path = scratch(Workload(1_000_000, 30))
    with dh.open(path, auto_maintain=False) as history:

        def next_job() -> tuple[tuple[Any], dict[str, Any]]:
            job = history._shards.reserve(TRIGGER, PARTS)
            receipts = staged(path, job, 200_000 // PARTS, next(seeds))
            if meanwhile:
                others = [f"{next(seeds):08x}-ffff-4000-8000-{row:012x}" for row in range(meanwhile)]
                history.begin(pa.table({"uuid": others}), TRIGGER)
            return ((job, receipts),), {}

        def commit(work: tuple[_native.Job, list[bytes]]) -> None:
            job, receipts = work
            assert len(job.commit(receipts)) == 200_000 // PARTS * PARTS

        measure(commit, 200_000, setup=next_job)
