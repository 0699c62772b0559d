"""Histories of the reference workload, made once and kept under out/bench-stores."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from benches.progress import Progress
from benches.workload import Part, Workload

STORES = Path("out/bench-stores")
TRIGGER = dh.Trigger(
    "orders",
    detect_duplicates=True,
    use_history=True,
    history_time_to_live=timedelta(days=365),  # partitions of a day
    processing_mode="serial",
)


def fill(path: Path, workload: Workload, progress: Progress | None = None) -> None:
    """Make the history of a workload by `begin` and `complete`, day by day, as it would have come to be."""
    with dh.open(path, create=True) as history:
        for part in workload.parts():
            _add(history, part, workload)
            if progress:
                progress.add(len(part.numbers))
        history.unpin(
            TRIGGER, history.pin(TRIGGER)
        )  # a pin seals the log: sizes do not depend on where it last rolled over
        history.maintain(TRIGGER, all=True)


def _add(history: dh.History, part: Part, workload: Workload) -> None:
    now = workload.day(part.day)
    for numbers, completed in ((part.numbers[~part.open], True), (part.numbers[part.open], False)):
        claim = history.begin(pa.record_batch({"uuid": workload.column(numbers)}), TRIGGER, now=now)
        if completed:
            claim.complete()


def store(workload: Workload) -> Path:
    """The cached history of a workload; made now where there is none. Only for reading."""
    name = f"{'urns' if workload.urns else 'uuids'}-n{workload.n}-p{workload.p}"
    path = STORES / f"{name}-v{dh.__version__}"
    if not path.exists():
        unfinished = path.with_name(f"{path.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        with Progress(f"making {name}", workload.n) as progress:
            fill(unfinished, workload, progress)
        unfinished.rename(path)
    return path


def scratch_copy(workload: Workload, directory: Path) -> Path:
    """A copy of a cached history that may be written to. Segments and filters never change: links will do."""
    source, target = store(workload), directory / "history"
    shutil.copytree(source, target, copy_function=_link_or_copy)
    return target


def _link_or_copy(source: str, target: str) -> Any:
    if Path(source).name.startswith(("segment-", "filter-")):
        Path(target).hardlink_to(source)
        return target
    return shutil.copy2(source, target)
