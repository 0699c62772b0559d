"""`python -m benches.spark`: every figure of the Spark side, in out/spark.json, in out/spark.md as tables, drawn."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benches.machine import machine
from benches.timing import Sample

RESULT, TABLE, CHART = Path("out/spark.json"), Path("out/spark.md"), Path("docs/images/spark.png")
OLDER = Path(".venv-matrix/4.0/bin/python")  # as `make test-matrix` sets it up
LONGEST_SECONDS = 900
OWN = (
    *("udf", "udf: byte", "udf: status", "map", "map: byte", "map: status"),
    *("map, payload", "map, payload: byte", "map, payload: status", "crossing: text"),
    *("3 M against 5 M", "3 M against 5 M: map", "150,000 against 5 M", "150,000 against 5 M: map"),
    *("stream, writing", "stream, writing, payload"),
    *("workers: one", "workers: two", "commit of 64 segments", "stream", "stream in tasks", "stream, 1e8 ids"),
)

_WITHIN = "stream dropDuplicatesWithinWatermark"


@dataclass(frozen=True)
class Planned:
    """One job and with what it runs."""

    name: str
    job: str
    rows: int
    runs: int
    n: int = 10_000_000


def plan(scale: float, runs: int) -> list[Planned]:
    """All jobs; with a scale below 1 on fewer documents."""
    rows, stream = round(10_000_000 * scale), round(200_000 * scale)
    few, n = max(rows // 10, 1000), 10_000_000 if scale > 0.1 else 1_000_000
    batches, less = 4 * runs, max(runs - 2, 2)
    users = [
        Planned("3 M against 5 M", "versus", max(3 * rows // 10, 1000), runs, n // 2),
        Planned("150,000 against 5 M", "versus", max(3 * rows // 200, 1000), 2 * runs, n // 2),
    ]
    all_n = [
        Planned("stream, writing", "stream_writing", stream, batches),
        Planned("stream nothing, writing", "stream_nothing_writing", stream, batches),
        Planned("stream, writing, payload", "stream_writing_payload", stream, 2 * runs),
        Planned("stream nothing, writing, payload", "stream_nothing_writing_payload", stream, 2 * runs),
        Planned(f"{_WITHIN}, writing", "stream_within_watermark_writing", stream, runs),
        Planned("udf", "udf", rows, less),
        Planned("map", "map", rows, runs),
        Planned("map, payload", "map_payload", few, runs),
        Planned("workers", "workers", max(3 * rows // 10, 1000), runs),
        Planned("crossing", "crossing", few, runs),
        Planned("left join", "left_join", few, less),
        Planned("dropDuplicates", "drop_duplicates", few, less),
        Planned("commit of 64 segments", "commit", max(stream // 64 * 64, 640), 2 * runs),
        Planned("stream", "stream", stream, batches),
        Planned("stream in tasks", "stream_in_tasks", stream, 2 * runs),
        Planned("stream nothing", "stream_nothing", stream, batches),
        Planned(f"{_WITHIN}, empty at first", "stream_within_watermark", stream, batches),
        Planned(_WITHIN, "stream_within_watermark_filled", stream, runs),
        Planned("stream dropDuplicates, empty at first", "stream_drop_duplicates", stream, 2 * runs),
        Planned("stream transformWithState, empty at first", "stream_with_state", max(stream // 100, 100), less),
        Planned("stream Delta MERGE", "stream_delta_merge", stream, runs),
    ]
    large = Planned("stream, 1e8 ids", "stream", stream, batches, n=100_000_000)
    return users + [replace(one, n=n) for one in all_n] + ([large] if scale > 0.1 else [])


def measure(planned: Planned) -> dict[str, Any]:
    """Run one job; what it found, or why it found nothing. It never fails."""
    python = str(OLDER) if planned.job == "stream_delta_merge" and OLDER.exists() else sys.executable
    command = [python, "-m", "benches.spark.jobs", planned.job, "--n", str(planned.n)]
    command += ["--rows", str(planned.rows), "--runs", str(planned.runs)]
    started = time.monotonic()
    # Into files: a JVM that outlives its Python keeps a pipe open, and whoever reads that to its end waits for it.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True) as job:
            try:
                job.wait(LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                return {"left_out": f"it was not done in {LONGEST_SECONDS} seconds"}
            finally:
                # The job, its JVM and its workers, where anything of them is left.
                with suppress(ProcessLookupError):
                    os.killpg(job.pid, signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        said, complained = out.read(), err.read()
    lines = complained.splitlines()
    if job.returncode:
        named = [line for line in lines if "Error" in line or "Exception" in line]
        return {"left_out": (named or lines or ["it ended without a word"])[-1].strip()}
    try:
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
    except (IndexError, ValueError):
        return {"left_out": "it said nothing that could be read"}
    return {**found, "took": round(time.monotonic() - started)}


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
    """Documents a second, the comparisons that the project makes promises about, and where a batch's time goes."""
    found = rates(result)
    of = result["machine"]
    on = f"{of['cores']} cores of {of['cpu']}, {of['system']}, Python {of['python']}"
    lines = [
        f"{on}. Medians, with the least and the most.",
        "",
        "| | M documents/s | ms | runs |",
        "|---|---:|---:|---|",
    ]
    lines += [_row(name, one, rows) for name, (one, rows) in found.items()]
    lines += ["", "| | | |", "|---|---:|---|"]
    lines += [f"| {name} | {value:.2f} {unit} | {wanted} |" for name, value, unit, wanted in comparisons(found)]
    lines += [""] + [_parts(name, job["parts"]) for name, job in result["jobs"].items() if job.get("parts")]
    lines += [f"- left out: {name}: {job['left_out']}" for name, job in result["jobs"].items() if "left_out" in job]
    return "\n".join(lines) + "\n"


def _row(name: str, one: Sample, rows: int) -> str:
    rate = f"{rows / one.median / 1e6:.3f} ({rows / one.most / 1e6:.3f} … {rows / one.least / 1e6:.3f})"
    ms = f"{one.median * 1e3:,.0f} ({one.least * 1e3:,.0f} … {one.most * 1e3:,.0f})"
    return f"| `{name}` | {rate} | {ms} | {one.runs} of {rows:,} |"


def _parts(name: str, parts: dict[str, float]) -> str:
    """Where the time of a batch goes, by Spark's own clock."""
    took = ", ".join(f"{part} {ms:,.0f}" for part, ms in sorted(parts.items(), key=lambda one: -one[1]))
    return f"- ms of a batch, `{name}`: {took}"


def comparisons(found: dict[str, tuple[Sample, int]]) -> list[tuple[str, float, str, str]]:
    """How the own figures stand to the others: what is compared, how, its unit, and what is aimed at."""
    rate = {name: rows / one.median for name, (one, rows) in found.items()}
    stream = f"stream, of {_WITHIN.removeprefix('stream ')}"
    wanted = [
        (
            f"stream with a service that writes, of {_WITHIN.removeprefix('stream ')} that writes",
            "stream, writing",
            f"{_WITHIN}, writing",
            "",
        ),
        ("stream that writes, of one that lets everything through", "stream, writing", "stream nothing, writing", ""),
        (
            "stream that writes 1 KiB a document, of one that lets everything through",
            "stream, writing, payload",
            "stream nothing, writing, payload",
            "",
        ),
        *(
            (f"classify of {those}, of {other}", those, f"{those}: {other}", "")
            for those in ("3 M against 5 M", "150,000 against 5 M")
            for other in ("dropDuplicates", "left join", "join by broadcast")
        ),
        ("udf, of a constant function and words", "udf", "udf: constant, words", "0.9"),
        ("udf as a byte, of a constant byte", "udf: byte", "udf: constant", "0.9"),
        ("udf, of a constant byte without words", "udf", "udf: constant", ""),
        ("udf, status alone, of a constant byte", "udf: status", "udf: constant", ""),
        ("map, of a constant and words", "map", "map: constant, words", "0.9"),
        ("map as a byte, of an identity", "map: byte", "map: identity", "0.9"),
        ("map, of an identity without words", "map", "map: identity", ""),
        ("map, status alone, of an identity", "map: status", "map: identity", ""),
        ("map with payload, of an identity", "map, payload", "map, payload: identity", "0.9"),
        ("two workers, of one, each on a core", "workers: two", "workers: one", "1.8"),
        (f"{stream}, both with an idle service", "stream", _WITHIN, "6"),
        (f"{stream} that is empty at first, idle", "stream", f"{_WITHIN}, empty at first", "6"),
        ("stream in tasks, of the same", "stream in tasks", _WITHIN, ""),
        (
            "a stream that does nothing, of one that is empty at first",
            "stream nothing",
            f"{_WITHIN}, empty at first",
            "",
        ),
        ("stream, of dropDuplicates that is empty at first", "stream", "stream dropDuplicates, empty at first", ""),
        ("stream, of Delta MERGE", "stream", "stream Delta MERGE", ""),
        ("stream, of transformWithState", "stream", "stream transformWithState, empty at first", ""),
        ("classify of 1 M against 1e7, of a left join", "crossing: text", "left join", ""),
        ("classify of 1 M against 1e7, of dropDuplicates of all 11 M", "crossing: text", "dropDuplicates", ""),
        ("stream at 1e8 ids, of that at 1e7", "stream, 1e8 ids", "stream", "flat"),
    ]
    compared = [
        (said, rate[own] / rate[other], "x", aim) for said, own, other, aim in wanted if {own, other} <= set(rate)
    ]
    commits = [("commit of 64 staged segments", one.median * 1e3, "ms", "50") for one, _ in _of(found, "commit of")]
    return compared + commits


def _of(found: dict[str, tuple[Sample, int]], begin: str) -> list[tuple[Sample, int]]:
    return [one for name, one in found.items() if name.startswith(begin)]


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
    all_jobs = plan(given.scale, given.runs)
    known = json.loads(RESULT.read_text())["jobs"] if RESULT.exists() and (given.only or given.draw) else {}
    result: dict[str, Any] = {"machine": machine(), "jobs": {}}
    for number, one in enumerate(all_jobs):
        if given.draw or (given.only is not None and not one.name.startswith(given.only)):
            result["jobs"] |= {one.name: known[one.name]} if one.name in known else {}
            continue
        print(f"{time.strftime('%H:%M:%S')} {number + 1} of {len(all_jobs)}: {one.name} …", file=sys.stderr, flush=True)
        result["jobs"][one.name] = measure(one)
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps({**result, "jobs": known | result["jobs"]}, indent=1))
    TABLE.write_text(listing(result))
    print(TABLE.read_text())
    draw(result, CHART if given.scale == 1 else Path("out/spark.png"))


if __name__ == "__main__":
    main()
