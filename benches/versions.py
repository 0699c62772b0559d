"""Two builds of the package, measured in turns: is the second slower than the first?

    python -m benches.versions OLD.whl NEW.whl             # 5 rounds, the older and the newer in turns
    python -m benches.versions OLD.whl NEW.whl --rounds 9 --only classify

Each round is a process of its own, so that builds cannot disturb each other; the table gives the
median of all rounds and their spread. Wheels come from `maturin build --release`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

N = 1_000_000
STEP, START = 150, 1_000_000_000


def rate(job: Callable[[], Any], rows: int, times: int) -> float:
    """Rows a second, in millions: the median of some calls."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        job()
        took.append(time.perf_counter() - began)
    return rows / statistics.median(took) / 1e6


def price(job: Callable[[], Any], times: int) -> float:
    """Microseconds of a call: the median."""
    return 1 / rate(job, 1, times)


def jobs(directory: Path) -> dict[str, float]:
    """All measurements of the build that this process imports."""
    import datetime as dt

    import numpy as np
    import pyarrow as pa

    import dochistory as dh

    def ids(count: int, seed: int) -> pa.Array:
        raw = np.random.default_rng(seed).integers(0, 256, (count, 16), dtype=np.uint8)
        raw[:, 6], raw[:, 8] = (raw[:, 6] & 0x0F) | 0x40, (raw[:, 8] & 0x3F) | 0x80
        text = raw.tobytes().hex()
        parts = (text[at : at + 32] for at in range(0, len(text), 32))
        return pa.array([f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}" for one in parts])

    trigger = dh.Trigger(
        "orders", detect_duplicates=True, use_history=True, history_time_to_live="30 days", processing_mode="serial"
    )
    known, others = ids(N, 1), ids(N, 2)
    times = np.datetime64("2026-01-01", "us") + np.arange(N) * np.timedelta64(2_500_000, "us")
    entries = pa.record_batch({
        "uuid": known,
        "started_at": pa.array(times).cast(pa.timestamp("us", "UTC")),
        "status": pa.repeat(pa.scalar("completed"), N),
    })  # fmt: skip
    found: dict[str, float] = {}
    began = time.perf_counter()
    with dh.open(directory / "loaded", create=True, auto_maintain=False) as history:
        history.load([entries], trigger)
        found["load 1e6 (M/s)"] = N / (time.perf_counter() - began) / 1e6
        history.maintain(trigger, all=True)
    now = dt.datetime(2026, 1, 30, tzinfo=dt.UTC)
    with dh.open(directory / "loaded", read_only=True) as history:
        misses, hits = pa.record_batch({"uuid": others}), pa.record_batch({"uuid": known})
        few, one = misses.slice(0, 1000), misses.slice(0, 1)
        history.classify(misses, trigger, now=now)
        found["classify 1 (us)"] = price(lambda: history.classify(one, trigger, now=now), 2000)
        found["classify 1,000 (us)"] = price(lambda: history.classify(few, trigger, now=now), 500)
        found["classify 1e6 misses (M/s)"] = rate(lambda: history.classify(misses, trigger, now=now), N, 9)
        found["classify 1e6 hits (M/s)"] = rate(lambda: history.classify(hits, trigger, now=now), N, 5)
    with dh.open(directory / "begun", create=True, auto_maintain=False) as history:
        began = time.perf_counter()
        history.begin(misses, trigger).complete()
        found["begin + complete 1e6 (M/s)"] = N / (time.perf_counter() - began) / 1e6
        batches = iter([pa.record_batch({"uuid": ids(1000, 100 + number)}) for number in range(40)])
        found["begin + complete 1,000 (us)"] = price(lambda: history.begin(next(batches), trigger).complete(), 40)
    with dh.open(directory / "feed", create=True) as history:
        numbers = np.arange(N, dtype=np.uint64)
        names = pa.array([f"publisher-{number:05}" for number in range(10_000)])
        previous = START + (numbers // 10_000) * STEP
        headers = [f"(0-{one:010}-{one + STEP:010}-0)" for one in previous.tolist()]
        stream = pa.DictionaryArray.from_arrays(pa.array((numbers % 10_000).astype(np.int32)), names)
        batch = pa.record_batch({"stream": stream, "header": pa.array(headers)})
        inbox = history.delivery(start=dict.fromkeys(names.to_pylist(), START), own_transaction=True)
        found["delivery headers (M/s)"] = rate(lambda: inbox.receive(batch), N, 5)
    return found


def unpacked(wheel: Path, into: Path) -> Path:
    """The directory from which the wheel's package is imported."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)
    return into


def measured(package: Path, scratch: Path) -> dict[str, float]:
    """One round in a process of its own."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        command = [sys.executable, __file__, "--round", str(package), directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"a round of {package} failed:\n{done.stderr}")
        return dict(json.loads(done.stdout))


def main() -> None:
    """Measure both in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="jobs whose names contain this")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp"), help="where histories are written")
    options = parser.parse_args()
    rounds: list[list[dict[str, float]]] = [[], []]
    with tempfile.TemporaryDirectory() as directory:
        packages = [unpacked(options.old, Path(directory) / "old"), unpacked(options.new, Path(directory) / "new")]
        for number in range(options.rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for which in order:
                rounds[which].append(measured(packages[which], options.scratch))
                print(f"round {number + 1} of {options.rounds}, {('old', 'new')[which]}", file=sys.stderr)
    print("| job | old | spread | new | spread | new / old |\n|---|---|---|---|---|---|")
    for job in rounds[0][0]:
        if options.only not in job:
            continue
        old, new = ([one[job] for one in build] for build in rounds)
        medians = [statistics.median(build) for build in (old, new)]
        cells = [f"{medians[at]:.3g} | {min(build):.3g} to {max(build):.3g}" for at, build in enumerate((old, new))]
        print(f"| {job} | {cells[0]} | {cells[1]} | {medians[1] / medians[0]:.2f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--round"]:
        sys.path.insert(0, sys.argv[2])
        print(json.dumps(jobs(Path(sys.argv[3]))))
    else:
        main()
