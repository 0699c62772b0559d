"""`python -m benches.spark`: every figure of the Spark side, as a table, in out/spark.json, and as a chart."""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benches.machine import machine
from benches.timing import Sample

RESULT = Path("out/spark.json")
OWN = (
    *("udf", "map", "map, payload", "udf: status", "map: status", "map, payload: status", "crossing: text"),
    *("one worker", "one worker, one core", "two workers"),
    *("stream", "stream in tasks", "stream, 1e8 ids"),
)

_WITHIN = "stream dropDuplicatesWithinWatermark"


@dataclass(frozen=True)
class Planned:
    """One job and with what it runs."""

    name: str
    job: str
    rows: int
    runs: int
    cores: int = 2
    n: int = 10_000_000
    bound: bool = False
    """To as many cores of the machine as Spark has task slots."""


def plan(scale: float, runs: int) -> list[Planned]:
    """All jobs; with a scale below 1 on fewer documents."""
    rows, stream = round(10_000_000 * scale), round(200_000 * scale)
    few, n = max(rows // 10, 1000), 10_000_000 if scale > 0.1 else 1_000_000
    batches = 4 * runs
    all_n = [
        Planned("udf", "udf", rows, runs),
        Planned("map", "map", rows, runs),
        Planned("map, payload", "map_payload", few, runs),
        Planned("one worker", "workers", rows, runs, cores=1),
        Planned("one worker, one core", "workers", rows, runs, cores=1, bound=True),
        Planned("two workers", "workers", rows, runs, cores=2),
        Planned("crossing", "crossing", few, runs),
        Planned("left join", "left_join", few, runs),
        Planned("dropDuplicates", "drop_duplicates", few, runs),
        Planned("stream", "stream", stream, batches),
        Planned("stream in tasks", "stream_in_tasks", stream, batches),
        Planned("stream nothing", "stream_nothing", stream, batches),
        Planned("stream dropDuplicatesWithinWatermark, empty at first", "stream_within_watermark", stream, batches),
        Planned("stream dropDuplicatesWithinWatermark", "stream_within_watermark_filled", stream, 2 * runs),
        Planned("stream dropDuplicates", "stream_drop_duplicates", stream, 2 * runs),
        Planned("stream transformWithState, empty at first", "stream_with_state", max(stream // 100, 100), runs),
        Planned("stream Delta MERGE", "stream_delta_merge", stream, runs),
    ]
    large = Planned("stream, 1e8 ids", "stream", stream, batches, n=100_000_000)
    return [replace(one, n=n) for one in all_n] + ([large] if scale > 0.1 else [])


def measure(planned: Planned) -> dict[str, Any]:
    """Run one job; what it found, or why it found nothing."""
    older = Path(".venv-matrix/4.0/bin/python")  # as `make test-matrix` sets it up
    is_older = planned.job == "stream_delta_merge" and older.exists()
    command = [
        str(older) if is_older else sys.executable,
        "-m",
        "benches.spark.jobs",
        planned.job,
        "--n",
        str(planned.n),
    ]
    command += ["--rows", str(planned.rows), "--runs", str(planned.runs), "--cores", str(planned.cores)]
    command += ["--bound"] if planned.bound else []
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        lines = [line for line in run.stderr.splitlines() if "Error" in line or "Exception" in line]
        return {"left_out": (lines or run.stderr.splitlines() or ["it ended without a word"])[-1].strip()}
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def rates(result: dict[str, Any]) -> dict[str, tuple[Sample, int]]:
    """Of every figure its seconds and the documents that they were for."""
    found = {}
    for name, job in result["jobs"].items():
        for of, seconds in job.get("seconds", {}).items():
            found[name if of in ("own", "batch") or len(job["seconds"]) == 1 else f"{name}: {of}"] = (
                Sample.of(seconds),
                job["rows"],
            )
    return found


def listing(result: dict[str, Any]) -> str:
    """Documents a second, and the comparisons that the project makes promises about."""
    found = rates(result)
    lines = [
        f"{name:52} {rows / one.median / 1e6:8.3f} M/s  ({rows / one.most / 1e6:.3f} … {rows / one.least / 1e6:.3f}, "
        f"{one.runs} runs of {rows:,})"
        for name, (one, rows) in found.items()
    ]
    lines += [f"{name:52} {value:8.2f} {unit}" for name, value, unit in comparisons(found)]
    lines += [_parts(name, job["parts"]) for name, job in result["jobs"].items() if job.get("parts")]
    lines += [f"left out: {name}: {job['left_out']}" for name, job in result["jobs"].items() if "left_out" in job]
    return "\n".join(lines)


def _parts(name: str, parts: dict[str, float]) -> str:
    """Where the time of a batch goes, by Spark's own clock."""
    took = ", ".join(f"{part} {ms:,.0f}" for part, ms in sorted(parts.items(), key=lambda one: -one[1]))
    return f"ms of a batch, {name}: {took}"


def comparisons(found: dict[str, tuple[Sample, int]]) -> list[tuple[str, float, str]]:
    """How the own figures stand to the others."""
    rate = {name: rows / one.median for name, (one, rows) in found.items()}
    wanted = [
        ("udf, of a constant function", "udf", "udf: constant", "x"),
        ("udf, of a constant function and words", "udf", "udf: constant, words", "x"),
        ("udf, status alone, of a constant", "udf: status", "udf: constant", "x"),
        ("map, of an identity", "map", "map: identity", "x"),
        ("map, status alone, of an identity", "map: status", "map: identity", "x"),
        ("map with payload, of an identity", "map, payload", "map, payload: identity", "x"),
        ("two workers, of one", "two workers", "one worker", "x"),
        ("two workers, of one on one core", "two workers", "one worker, one core", "x"),
        ("stream, of dropDuplicatesWithinWatermark", "stream", _WITHIN, "x"),
        ("stream, of one that is empty at first", "stream", f"{_WITHIN}, empty at first", "x"),
        ("stream in tasks, of dropDuplicatesWithinWatermark", "stream in tasks", _WITHIN, "x"),
        ("nothing, of one that is empty at first", "stream nothing", f"{_WITHIN}, empty at first", "x"),
        ("stream at 1e8 ids, of that at 1e7", "stream, 1e8 ids", "stream", "x"),
    ]
    return [(said, rate[own] / rate[other], unit) for said, own, other, unit in wanted if {own, other} <= set(rate)]


def draw(result: dict[str, Any], path: Path) -> None:
    """Streams on the left, batches on the right; logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = {name: rows / one.median for name, (one, rows) in rates(result).items()}
    figure, panels = plt.subplots(1, 2, figsize=(13, 4), layout="constrained")
    for panel, title, is_stream in zip(panels, ("a stream of new ids", "a DataFrame"), (True, False), strict=True):
        shown = sorted((rate, name) for name, rate in found.items() if name.startswith("stream") == is_stream)
        names = [name.removeprefix("stream ").replace("stream", "dochistory") for _, name in shown]
        own = ["#2b6cb0" if name in OWN else "#a0aec0" for _, name in shown]
        bars = panel.barh(names, [rate for rate, _ in shown], color=own, log=True)
        panel.bar_label(bars, labels=[f" {rate / 1e6:,.3f}" for rate, _ in shown], fontsize=8)
        panel.set_title(f"{title}: M documents/s, longer is better", fontsize=9)
        panel.margins(x=0.25)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"Spark, {result['machine']['cores']} cores of {result['machine']['cpu']}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Measure, tell, draw."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--scale", type=float, default=1.0, help="1: 10 M documents with 1 KiB each; 0.1: a tenth")
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--only", help="jobs whose name begins so; the others keep their last figures")
    arguments.add_argument("--draw", action="store_true", help="only draw the last figures")
    given = arguments.parse_args()
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {"jobs": {}}
    result = {**known, "machine": machine()}
    planned = [one for one in plan(given.scale, given.runs) if given.only is None or one.name.startswith(given.only)]
    for number, one in enumerate([] if given.draw else planned):
        print(f"{time.strftime('%H:%M:%S')} {number + 1} of {len(planned)}: {one.name} …", file=sys.stderr, flush=True)
        result["jobs"][one.name] = measure(one)
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=1))
    print(listing(result))
    draw(result, Path("docs/images/spark.png") if given.scale == 1 else Path("out/spark.png"))


if __name__ == "__main__":
    main()
