"""The runner's figures as tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

OWN = "dochistory"
Result = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One kind of figure: how it is called and in which unit it is said."""

    key: str
    column: str  # its heading in a table that has room for a few words
    title: str
    unit: str
    decimals: int
    rate_of: str | None = None  # documents a second: of so many documents, by the workload's name for their number
    scale: float = 1.0

    def value(self, seconds: float, workload: dict[str, int]) -> float:
        """Seconds (or a plain figure) in this job's unit."""
        return workload[self.rate_of] / seconds / 1e6 if self.rate_of else seconds * self.scale

    def text(self, value: float) -> str:
        """With the decimals that make sense."""
        return f"{value:,.{self.decimals}f}"

    def advantage(self, own: float, peer: float) -> float:
        """How many times better than the peer."""
        return own / peer if self.rate_of else peer / own


JOBS = (
    Job("classify", "classify, M/s", "classify, one thread", "M documents/s", 2, "rows"),
    Job("classify_two_threads", "two threads, M/s", "classify, two threads", "M documents/s", 2, "rows"),
    Job("replay", "all hits, M/s", "classify completed ids only", "M documents/s", 2, "rows"),
    Job("classify_small", "classify 1,000, µs", "classify 1,000", "µs", 0, scale=1e6),
    Job("classify_small_bytes", "1,000 as bytes, µs", "classify 1,000, a byte a document", "µs", 0, scale=1e6),
    Job("begin_complete", "begin + complete, M/s", "begin + complete, durable", "M documents/s", 2, "rows"),
    Job("begin_complete_two_threads", "two threads, M/s", "begin + complete, two threads", "M documents/s", 2, "rows"),
    Job("build", "build, M ids/s", "build", "M ids/s", 2, "n"),
    Job("bytes_an_id", "bytes/id", "on disk", "bytes/id", 1),
    Job("memory_mib", "memory, MiB", "memory", "MiB", 0),
    Job("purge", "purge a day, ms", "purge one day", "ms", 1, scale=1e3),
    Job("open", "open + look-up, ms", "open + first look-up", "ms", 1, scale=1e3),
)


def figures(found: Result, job: Job, workload: dict[str, int]) -> tuple[float, float, float, int] | None:
    """Median, least, most and number of runs, in the job's unit; None where a peer does not do it."""
    value = found.get(job.key)
    if value is None:
        return None
    if not isinstance(value, dict):
        return (job.value(value, workload),) * 3 + (1,)
    least, most = sorted(job.value(value[name], workload) for name in ("least", "most"))
    return job.value(value["median"], workload), least, most, value["runs"]


def listing(result: Result) -> str:
    """Every figure with its spread, and how dochistory compares."""
    lines: list[str] = []
    for job in JOBS:
        lines += ["", f"{job.title} ({job.unit})", *_lines(result, job)]
    lines += ["", *(f"left out: {peer}: {why}" for peer, why in result["left_out"].items())]
    return "\n".join(lines).strip()


def _lines(result: Result, job: Job) -> Iterator[str]:
    own = figures(result["peers"].get(OWN, {}), job, result["workload"])
    for peer, found in result["peers"].items():
        if (figure := figures(found, job, result["workload"])) is None:
            continue
        median, least, most, runs = figure
        compared = f"{job.advantage(own[0], median):8.1f} x" if own and peer != OWN and median else ""
        spread = f"{job.text(least)} … {job.text(most)}, {runs} runs" if runs > 1 else "1 run"
        yield f"  {peer:12} {job.text(median):>12}  {compared:10}  ({spread})"


def markdown(result: Result) -> str:
    """Medians, one row a peer."""
    head = ["", *(job.column for job in JOBS)]
    rows = [head, ["---", *["---:"] * len(JOBS)]]
    for peer, found in result["peers"].items():
        cells = (figures(found, job, result["workload"]) for job in JOBS)
        texts = (job.text(cell[0]) if cell else "" for job, cell in zip(JOBS, cells, strict=True))
        rows.append([f"{peer} {found['version']}", *texts])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
