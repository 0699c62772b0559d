"""Where the system lets no file be mapped (Spark limits its workers' address space), files are read instead."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh

ORDERS = dh.Trigger("orders", detect_duplicates=True, use_history=True, history_time_to_live="30 days")
IDS = 1_500_000

READER = """
import resource, sys
import pyarrow as pa
import dochistory as dh

ids = [f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(0, 3_000_000, 1_000)]
batch = pa.table({"uuid": ids})
trigger = dh.Trigger("orders", detect_duplicates=True, use_history=True, history_time_to_live="30 days")
used = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
limit = used + (8 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with dh.open(sys.argv[1], read_only=True) as history:
    rules = history.classify(batch, trigger)["rule"].to_pylist()
maps = open("/proc/self/maps").read()
print("segment mapped" if "/segment-" in maps else "segment not mapped")
print(rules.count("R9"), rules.count("R8"))
"""


@pytest.mark.slow
def test_history_larger_than_free_address_space_answers(tmp_path: Path) -> None:
    ids = pa.array(f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(IDS))
    with dh.open(tmp_path / "h", create=True) as history:
        history.load(pa.table({"uuid": ids}), ORDERS)
        history.maintain(ORDERS, all=True)

    asked = [sys.executable, "-c", READER, str(tmp_path / "h")]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120)

    assert answer.stdout.splitlines() == ["segment not mapped", f"{IDS // 1000} {IDS // 1000}"], answer.stderr
