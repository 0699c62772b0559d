"""Histories of the reference workload, made once and kept under out/bench-stores."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dochistory as dh
from benches.workload import Workload
from dochistory.progress import Bar

STORES = Path("out/bench-stores")
TRIGGER = dh.Trigger(
    "orders",
    detect_duplicates=True,
    use_history=True,
    history_time_to_live=timedelta(days=365),  # partitions of a day
    processing_mode="serial",
)


def batches(workload: Workload) -> Iterator[pa.RecordBatch]:
    """All entries of a workload, day by day, as `load` takes them."""
    for part in workload.parts():
        rows = len(part.numbers)
        started_at = pa.repeat(pa.scalar(workload.day(part.day), pa.timestamp("us", "UTC")), rows)
        statuses = pa.DictionaryArray.from_arrays(part.open.astype(np.int8), ["completed", "processing"])
        columns = {"uuid": workload.column(part.numbers), "started_at": started_at, "status": statuses}
        yield pa.record_batch(columns)


def fill(path: Path, workload: Workload, progress: Callable[[int], object] | None = None) -> None:
    """Make the history of a workload by `load`, day by day. What an interrupted run of it left is used."""
    with dh.open(path, create=True) as history:
        history.load(batches(workload), TRIGGER, progress=progress)
        history.maintain(TRIGGER, all=True)


def store(workload: Workload) -> Path:
    """The cached history of a workload; made now where there is none. Only for reading."""
    name = f"{'urns' if workload.urns else 'uuids'}-n{workload.n}-p{workload.p}"
    path = STORES / f"{name}-v{dh.__version__}"
    if not path.exists():
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        with Bar(f"making {name}", workload.n) as bar:
            fill(unfinished, workload, bar)
        unfinished.rename(path)
    return path


def scratch_copy(workload: Workload, directory: Path) -> Path:
    """A copy of a cached history that may be written to."""
    return linked_copy(store(workload), directory / "history")


def linked_copy(source: Path, target: Path) -> Path:
    """A copy of a history that may be written to. Segments and filters never change: links will do."""
    shutil.copytree(source, target, copy_function=_link_or_copy)
    return target


def _link_or_copy(source: str, target: str) -> Any:
    if Path(source).name.startswith(("segment-", "filter-")):
        Path(target).hardlink_to(source)
        return target
    return shutil.copy2(source, target)
