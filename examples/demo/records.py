"""Records that the demo's processes write, to count afterwards what happened."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    """One delivery of a batch by Spark."""

    phase: str
    """`first` or `again` (the second delivery of everything)."""
    batch: int
    verdicts: Counter[tuple[str, str]]
    """(rule, status) -> documents."""

    @property
    def name(self) -> str:
        """Its label in tables and pictures."""
        return f"{self.batch}" if self.phase == "first" else f"{self.batch}'"


def note_runs(work: Path, digests: Iterable[str]) -> None:
    """The service ran for these mails; durable before anybody can be killed."""
    with (work / "runs.txt").open("a") as file:
        file.writelines(f"{digest}\n" for digest in digests)
        file.flush()
        os.fsync(file.fileno())


def note_verdicts(work: Path, phase: str, batch: Any) -> None:
    """A batch was begun with these verdicts; shown at once as progress."""
    pairs = zip(batch.verdicts["rule"].to_pylist(), batch.verdicts["status"].to_pylist(), strict=True)
    counts = Counter(pairs)
    line = {"phase": phase, "batch": batch.id, "verdicts": [[*pair, n] for pair, n in sorted(counts.items())]}
    with (work / "verdicts.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    shown = ", ".join(f"{n} {status} by {rule}" for (rule, status), n in sorted(counts.items()))
    print(f"   batch {batch.id:2d}: {len(batch.documents)} mails: {shown}", flush=True)


def records(work: Path) -> list[Run]:
    """All batches handed over, in order."""
    lines = map(json.loads, (work / "verdicts.jsonl").read_text().splitlines())
    return [
        Run(line["phase"], line["batch"], Counter({(rule, status): n for rule, status, n in line["verdicts"]}))
        for line in lines
    ]


def runs_of_mails(work: Path) -> Counter[str]:
    """Digest of a mail -> number of runs of the service."""
    return Counter((work / "runs.txt").read_text().splitlines())
