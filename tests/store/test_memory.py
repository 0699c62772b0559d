"""A writer stays within 64 MiB while a day of its ids is compacted: docs/design.md, "Memory"."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

IDS, MOST_MIB = 3_000_000, 64

# Begins and completes ids of one day in batches of 10,000, compacts them, and says what that took in MiB. Files in the
# page cache are no memory of the process.
LIFE = """
import re, sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID
import pyarrow as pa
import dochistory as dh

IDS, BATCH, DAY = int(sys.argv[2]), 10_000, datetime(2026, 1, 5, tzinfo=timezone.utc)

def mib():
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

def ids(first):
    # Multiples of an odd number below 2**128 all differ, and spread.
    numbers = (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128 for number in range(first, first + BATCH))
    return pa.array([sys.argv[3] + str(UUID(int=number)) for number in numbers])

trigger = dh.Trigger("orders", detect_duplicates=True, use_history=True, history_time_to_live=timedelta(days=365))
with dh.open(sys.argv[1], create=True) as history:
    history.begin(pa.record_batch({"uuid": ids(IDS)}), trigger, now=DAY).complete()
    before = most = mib()
    for first in range(0, IDS, BATCH):
        history.begin(pa.record_batch({"uuid": ids(first)}), trigger, now=DAY).complete()
        most = max(most, mib())
    def look(*_):
        global most
        most = max(most, mib())
    history.maintain(trigger, all=True, progress=look)
    look()
    print(most - before, history.stats(trigger)["segments"])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the memory of a process")
@pytest.mark.parametrize("prefix", ["", "urn:orders:of:the:north:"], ids=["uuids", "urns"])
def test_writer_stays_small_while_a_day_is_compacted(tmp_path: Path, prefix: str) -> None:
    command = [sys.executable, "-c", LIFE, str(tmp_path / "history"), str(IDS), prefix]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    took, segments = re.fullmatch(r"(\S+) (\d+)\n", said).groups()  # type: ignore[union-attr]
    # One that has half of the entries that a segment may have is not compacted again.
    assert int(segments) <= 2, "the ids were compacted"
    assert float(took) <= MOST_MIB, f"{took} MiB for {IDS} ids"
