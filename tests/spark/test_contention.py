"""Claims beside consumers that take small batches of the same documents as fast as they can."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dochistory as dh
from tests.spark.support import Recorder, orders, rows, states

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

CONSUMER = """
import random, sys
from pathlib import Path
import dochistory as dh
from tests.spark.support import Recorder, orders, rows
history, runs, home = Path(sys.argv[1]), Recorder(Path(sys.argv[2])), Path(sys.argv[3])
chance = random.Random(sys.argv[4])
begins = 0
with dh.open(history) as opened:
    while not (home / "over").exists():
        first = 3000 * int((home / "claim").read_text() or 0) + chance.randrange(5000)
        claim = opened.begin(rows([f"d{first + n}" for n in range(3)]), orders())
        if new := claim.new["uuid"].to_pylist():
            runs.run("\\n".join(new))
            claim.complete()
        begins += 1
print(begins)
"""


@pytest.mark.slow
def test_every_claim_succeeds_beside_consumers_at_full_speed(
    spark: "SparkSession", history_path: Path, tmp_path: Path
) -> None:
    claims = int(os.environ.get("DOCHISTORY_CLAIMS", "12"))
    dh.open(history_path, create=True).close()
    recorder, progress = Recorder(tmp_path / "runs"), tmp_path / "claim"
    progress.write_text("0")
    command = [sys.executable, "-c", CONSUMER, str(history_path), str(recorder.path), str(tmp_path)]
    consumers = [subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True) for seed in range(2)]
    lost, began = 0, 0
    try:
        for number in range(claims):
            progress.write_text(str(number))
            # Some are the claim's alone, however late it is.
            ids = [f"d{3000 * number + place}" for place in range(5000)] + [
                f"own{number}-{place}" for place in range(50)
            ]
            frame = spark.createDataFrame(rows(ids).to_pandas())
            with dh.spark.claim(frame, history_path, orders(), parts=2) as claim:
                new = [row.uuid for row in claim.new.collect()]
                assert len(new) == len(claim) == claim.counts["status"].get("NEW", 0)
                assert sum(claim.counts["rule"].values()) == claim.rows == 5050
                recorder.run("\n".join(new))
                claim.complete()
                lost += len(claim.lost)
                began += len(claim)
    finally:
        (tmp_path / "over").touch()
        begins = [int(consumer.communicate(timeout=600)[0] or 0) for consumer in consumers]
    assert [consumer.returncode for consumer in consumers] == [0, 0]
    # Else there was nothing to compete for.
    assert lost > 0
    assert began >= 50 * claims
    assert min(begins) > claims
    runs = recorder.runs()
    assert len(runs) == len(set(runs)), "a document was NEW twice"
    assert set(runs) >= {f"d{number}" for number in range(3000 * claims + 2000)}, "a document was never NEW"
    assert states(history_path, "processing") == set()
    assert states(history_path, "completed") == set(runs)
