"""Whether Spark's workers and the driver reach one bucket, and agree about what is in it."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

import dochistory as dh
from dochistory import objects
from dochistory.checks import Check
from dochistory.objects import probe
from dochistory.objects.promises import SKEW_NOTE_S, SKEW_WRONG_S
from dochistory.spark import compat
from dochistory.spark.place import Place
from dochistory.spark.same_bucket import BucketSight
from dochistory.spark.shipped import iterating

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 4
# So that no worker is through with its tasks before the others have started.
_STAYS_SECONDS = 0.5


def check(place: Place, spark: "SparkSession", tasks: int) -> list[Check]:
    """Look at a history's bucket from the driver and from the workers.

    Raises:
        OpenError: [DH-OPEN] there is no history.
        ObjectStoreError: the driver itself cannot work there.
    """
    with place.opened() as history:
        sight = place.sight(history, None)
    if not isinstance(sight, BucketSight):
        raise dh.StateError(f"[DH-STATE] {place.path} is not in a bucket")
    with probe.probing(objects.open_client(place.path, place.given.options)) as one:
        driver = probe.look(one.client, one.nonce)
        workers, refused = _from_workers(spark, sight, one.nonce, tasks)
        arrived = one.arrived([driver, *workers])
    found = [*_checks(sight, driver, workers, refused, arrived)]
    if one.left:
        found.append(Check("tidy", "note", f"{one.left} objects of the check below tmp-check- could not be deleted"))
    return found


def _from_workers(
    spark: "SparkSession", sight: BucketSight, nonce: str, tasks: int
) -> tuple[list[probe.Found], list[str]]:
    """What the workers saw, and what each said instead of opening the history; nothing where it could."""

    def looked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        found, refused = _look(sight, nonce)
        time.sleep(_STAYS_SECONDS)
        yield pa.RecordBatch.from_pydict({"found": [json.dumps(found.as_dict())], "refused": [refused]})

    frame = spark.range(0, tasks, 1, tasks).mapInArrow(iterating(looked), "found string, refused string")
    rows = compat.collect_arrow(frame)
    return [probe.Found(**json.loads(one)) for one in rows["found"].to_pylist()], rows["refused"].to_pylist()


def _look(sight: BucketSight, nonce: str) -> tuple[probe.Found, str]:
    found = probe.look(objects.open_client(sight.path, sight.given.options), nonce)
    if found.trouble:
        return found, ""
    try:
        sight.open(read_only=True).close()
    except (dh.DocHistoryError, OSError) as error:
        return found, str(error)
    return found, ""


def _checks(
    sight: BucketSight, driver: probe.Found, workers: list[probe.Found], refused: list[str], arrived: set[str]
) -> Iterator[Check]:
    yield Check("driver", "wrong" if driver.trouble else "ok", driver.trouble or f"{driver.host}, {sight.history}")
    hosts = sorted({one.host for one in workers})
    processes = len({(one.host, one.process) for one in workers})
    yield Check("workers", "ok", f"{processes} processes on {len(hosts)} hosts: {_some(hosts)}")
    apart = [(one, one.trouble) for one in workers if one.trouble]
    yield _check("same store", apart, "every worker reads what the driver stored")
    closed = [(one, said) for one, said in zip(workers, refused, strict=True) if said]
    yield _check("same history", closed, f"every worker opens {sight.history}")
    lost = [(one, "what it stored is not there") for one in workers if not one.trouble and one.name not in arrived]
    yield _check("written by workers", lost, "the driver lists and reads all that they stored")
    everybody = [one for one in (driver, *workers) if not one.trouble]
    again = [(one, one.create) for one in everybody if one.create]
    yield _check("create", again, "a name in use is refused everywhere")
    yield _race(everybody)
    yield _clocks(everybody)
    put, get = (max((getattr(one, kind) for one in everybody), default=0.0) for kind in ("put_ms", "get_ms"))
    yield Check("requests", "ok", f"a put took {put:.0f} ms at most, a get {get:.0f} ms")


def _race(everybody: Sequence[probe.Found]) -> Check:
    """Whether of all processes one alone heard that it was the first under one name."""
    if not everybody:
        return Check("race", "wrong", "no process could try")
    winners = [(one, "created the object that another one had created") for one in everybody if one.has_won]
    if len(winners) > 1:
        return Check("race", "wrong", f"{len(winners)} of {len(everybody)} created one object: {_told(winners)}")
    if len(seen := {one.winner for one in everybody}) > 1:
        return Check("race", "wrong", f"under one name {len(seen)} different objects were read: {_some(sorted(seen))}")
    return Check("race", "ok", f"of {len(everybody)} that raced for one name, one created it, and all read its object")


def _clocks(everybody: Sequence[probe.Found]) -> Check:
    worst = max((abs(one.ahead_s) for one in everybody), default=0.0)
    if worst <= SKEW_NOTE_S:
        return Check("clocks", "ok", f"every clock and the store's differ by less than {max(1.0, worst + 1):.0f} s")
    told = _told([(one, _off(one.ahead_s)) for one in everybody if abs(one.ahead_s) > SKEW_NOTE_S])
    result: Literal["note", "wrong"] = "wrong" if worst > SKEW_WRONG_S else "note"
    return Check("clocks", result, f"{told}: set these clocks (NTP)")


def _off(ahead_s: float) -> str:
    return f"the clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the store's"


def _check(name: str, wrong: list[tuple[probe.Found, str]], well: str) -> Check:
    return Check(name, "wrong" if wrong else "ok", _told(wrong) or well)


def _told(found: list[tuple[probe.Found, str]]) -> str:
    """What was found, each once for a host."""
    return "; ".join(sorted({f"on {one.host} {what}" for one, what in found})[:_SHOWN])


def _some(words: list[str]) -> str:
    return ", ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")
