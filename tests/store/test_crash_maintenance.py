"""Long jobs are killed in the middle: nothing is lost, nothing is doubled, and they go on where they were."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dochistory as dh
from tests.store.processes import finish, start
from tests.support import documents, fresh_ids, status_of, trigger

pytestmark = pytest.mark.crash

MAINTAIN = """
import signal
left = int(sys.argv[2])
def die(done, total):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
with dh.open(sys.argv[1]) as history:
    history.maintain(all=True, progress=die)
"""


def test_maintenance_killed_at_any_step_changes_no_answer(directory: Path) -> None:
    # One time partition has five minutes, and becomes one segment.
    ids, now = fresh_ids(600), datetime.now(UTC)
    with dh.open(directory, create=True, auto_maintain=False) as history:
        for first in range(0, 600, 50):
            history.begin(documents(ids[first : first + 50]), trigger(), now=now).complete()
            history.pin(trigger())
    steps = 0
    while True:
        process = start(MAINTAIN, directory, steps)
        process.communicate(timeout=120)
        with dh.open(directory) as history:
            assert status_of(history, ids) == ["DUPLICATE"] * 600
            history.verify()
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL
        steps += 1
    assert steps > 1
    with dh.open(directory, read_only=True) as history:
        figures = history.stats(trigger())
    assert figures["segments"] == figures["filters"] == 1
    assert not list(directory.rglob("new-*"))


ROWS = 9_000_000  # two parts of a load, and some more
LOAD = """
import signal
import numpy as np, pyarrow as pa
from tests.store.test_crash_maintenance import entries
def tell(done):
    if done >= 8_600_000 and sys.argv[2] != "none":
        os.kill(os.getpid(), getattr(signal, sys.argv[2]))
with dh.open(sys.argv[1], create=True) as history:
    print(history.load(entries(), trigger(), progress=tell))
"""


def entries() -> pa.RecordBatchReader:
    """Documents with UUIDs of 16 bytes, the same each time."""
    chance = np.random.default_rng(7)
    schema = pa.schema([("uuid", pa.binary(16))])

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(ROWS // 500_000):
            data = pa.py_buffer(chance.bytes(16 * 500_000))
            column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), 500_000, [None, data])
            yield pa.record_batch([column], schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


@pytest.mark.slow
@pytest.mark.parametrize("word", ["SIGKILL", "SIGINT"])
def test_killed_or_interrupted_load_resumes_where_it_was(directory: Path, word: str) -> None:
    process = start(LOAD, directory, word)
    _, complaints = process.communicate(timeout=300)
    assert process.returncode != 0, complaints
    assert word == "SIGKILL" or "KeyboardInterrupt" in complaints
    before = {path: path.stat().st_ino for path in directory.rglob("segment-*")}
    assert before
    assert finish(start(LOAD, directory, "none"), 300) == [str(ROWS)]
    with dh.open(directory, read_only=True) as history:
        assert history.stats(trigger())["segment_entries"] == ROWS
        some = pa.table([next(iter(entries())).column(0)], ["uuid"])
        assert set(history.classify(some, trigger())["status"].to_pylist()) == {"DUPLICATE"}
    assert all(path.stat().st_ino == number for path, number in before.items()), "what was there was written again"
    assert not list(directory.rglob("part-*"))
