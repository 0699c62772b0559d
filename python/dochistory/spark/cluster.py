"""Whether Spark's workers and the driver share a history, and whether its place does what a history rests on."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dochistory import probe
from dochistory.checks import Check
from dochistory.file_systems import known
from dochistory.spark import cluster_bucket, compat
from dochistory.spark.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_A_SLOT = 2
_SHOWN = 4
# So that no worker is through with its tasks before the others have started.
_STAYS_SECONDS = 0.5


def check_cluster(
    history: "str | os.PathLike[str]",
    spark: "SparkSession | None" = None,
    *,
    tasks: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> list[Check]:
    """Look at a history's place from the driver and from the workers.

    In a directory: all see the driver's files, and the driver theirs; syncs and links work; the
    driver's lock is refused to others. In a bucket: all reach it with these options, and see what
    the others stored; of all that race for one name one alone creates it; clocks agree.

    Writes a few small files or objects into a directory of its own in the history's, and removes
    them. A task that Spark runs twice may leave an object below `tmp-check-`.

    Args:
        history: the history's directory, or its URL. The history must be there.
        spark: the session; the running one, if absent.
        tasks: tasks that look; by default twice as many as run side by side, so that every executor
            gets some.
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like, for
            the driver and the workers; what is absent comes from the environment of each process,
            or from its machine's role.
        cache: for the URL of a bucket: the directory of each machine that keeps what was fetched.

    Returns:
        What was looked at. `wrong` is what a history cannot rest on.

    Raises:
        OSError: the driver itself cannot write to the directory.
        ObjectStoreError: [DH-OBJECTS] the driver itself cannot work in the bucket;
            [DH-CREDENTIALS], [DH-ENDPOINT] and the like say why.
        OpenError: [DH-OPEN] there is no history.
        ConfigError: [DH-CONFIG] the options make no sense, or are for a bucket and this is none.
    """
    session = spark or compat.running_session()
    place = Place.of(history, storage_options, cache)
    looks = tasks or _TASKS_A_SLOT * compat.parallelism(session)
    if place.is_bucket:
        return cluster_bucket.check(place, session, looks)
    directory = Path(place.path)
    with probe.probing(directory) as nonce:
        driver = probe.look(directory, nonce)
        workers = _from_workers(session, directory, nonce, looks)
        left = probe.left_by(directory, nonce)
    return list(_checks(driver, workers, left))


def _from_workers(spark: "SparkSession", directory: Path, nonce: str, tasks: int) -> list[probe.Found]:
    def looked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        found = probe.look(directory, nonce)
        time.sleep(_STAYS_SECONDS)
        yield pa.RecordBatch.from_pydict({"found": [json.dumps(found.as_dict())]})

    rows = compat.collect_arrow(spark.range(0, tasks, 1, tasks).mapInArrow(looked, "found string"))
    return [probe.Found(**json.loads(one)) for one in rows["found"].to_pylist()]


def _checks(driver: probe.Found, workers: list[probe.Found], left: set[tuple[str, int]]) -> Iterator[Check]:
    hosts = sorted({one.host for one in workers})
    yield Check("driver", "wrong" if driver.sees else "ok", driver.sees or f"{driver.host}, history {driver.history}")
    processes = len({(one.host, one.process) for one in workers})
    yield Check("workers", "ok", f"{processes} processes on {len(hosts)} hosts: {_some(hosts)}")
    yield from _same_directory(driver, workers, left)
    everybody = [driver, *(one for one in workers if not one.sees)]
    slowest = max(one.sync_ms for one in everybody)
    yield _all("sync", everybody, "sync", f"a line is durable everywhere, after {slowest:.1f} ms at most")
    yield _all("link", everybody, "link", "a name in use is refused everywhere")
    yield _locks(driver, everybody)
    for kind in sorted({one.file_system for one in everybody}):
        one = known(kind)
        yield Check("file system", one.result, f"{kind}: {one.found}")


def _same_directory(driver: probe.Found, workers: list[probe.Found], left: set[tuple[str, int]]) -> Iterator[Check]:
    """Whether all see the driver's history, and the driver sees what they write."""
    wrong = [one for one in workers if one.sees]
    yield Check(
        "same directory",
        "wrong" if wrong else "ok",
        _told([(one, one.sees) for one in wrong]) or "every worker sees the driver's",
    )
    other = [(one, f"history {one.history}") for one in workers if one.history not in ("", driver.history)]
    yield Check("same history", "wrong" if other else "ok", _told(other) or f"every worker's is {driver.history}")
    lost = [
        (one, "what it wrote did not arrive") for one in workers if not one.sees and (one.host, one.process) not in left
    ]
    yield Check("written by workers", "wrong" if lost else "ok", _told(lost) or "the driver sees all that they wrote")


def _all(name: str, everybody: Sequence[probe.Found], what: str, well: str) -> Check:
    wrong = [(one, str(getattr(one, what))) for one in everybody if getattr(one, what)]
    return Check(name, "wrong" if wrong else "ok", _told(wrong) or well)


def _locks(driver: probe.Found, everybody: Sequence[probe.Found]) -> Check:
    check = _all("locks", everybody, "lock", "while the driver held a lock, it was refused to all others")
    others = sorted({one.host for one in everybody} - {driver.host})
    if check.result == "wrong":
        return check
    if not others:
        found = f"{check.found}; all are on {driver.host}, so nothing is known of locks between hosts"
        return Check("locks", "note", found)
    return Check("locks", "ok", f"{check.found}, also on {_some(others)}")


def _told(found: list[tuple[probe.Found, str]]) -> str:
    """What was found, each once for a host."""
    return "; ".join(sorted({f"on {one.host} {what}" for one, what in found})[:_SHOWN])


def _some(words: list[str]) -> str:
    return ", ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")
