"""Classify: reading only, on histories of many lengths and numbers of partitions."""

import pytest

from benches.conftest import Measure, Reader, big
from benches.stores import TRIGGER
from benches.workload import Workload

pytestmark = pytest.mark.benchmark

REFERENCE = Workload(10_000_000, 30)


def _classify(measure: Measure, reader: Reader, workload: Workload, rows: int = 1_000_000, threads: int = 1) -> float:
    history, documents = reader(workload), workload.batch(rows).documents
    times = max(1, 20_000 // rows)
    return measure(
        lambda: history.classify(documents, TRIGGER, now=workload.now, threads=threads),
        rows,
        rounds=15,
        times=times,
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_classify_a_million_documents(measure: Measure, reader: Reader, threads: int) -> None:
    _classify(measure, reader, REFERENCE, threads=threads)


@pytest.mark.parametrize("n", [1_000_000, 10_000_000, pytest.param(100_000_000, marks=big)])
def test_growth_with_the_number_of_ids(measure: Measure, reader: Reader, n: int) -> None:
    _classify(measure, reader, Workload(n, 30))


@pytest.mark.parametrize("p", [1, 30, 90])
def test_growth_with_the_number_of_partitions(measure: Measure, reader: Reader, p: int) -> None:
    _classify(measure, reader, Workload(10_000_000, p))


@pytest.mark.parametrize("rows", [1000, 1])
def test_small_batches(measure: Measure, reader: Reader, rows: int) -> None:
    _classify(measure, reader, REFERENCE, rows)


def test_small_batches_as_bytes(measure: Measure, reader: Reader) -> None:
    history, documents = reader(REFERENCE), REFERENCE.batch(1000).documents
    measure(lambda: history.classify_codes(documents, TRIGGER, now=REFERENCE.now), 1000, rounds=15, times=20)


@pytest.mark.parametrize("threads", [1, 2])
def test_full_replay_of_completed_documents(measure: Measure, reader: Reader, threads: int) -> None:
    history, documents = reader(REFERENCE), REFERENCE.replay().documents
    job = lambda: history.classify(documents, TRIGGER, now=REFERENCE.now, threads=threads)  # noqa: E731
    measure(job, documents.num_rows)


def test_ids_that_are_no_uuids(measure: Measure, reader: Reader) -> None:
    _classify(measure, reader, Workload(10_000_000, 30, urns=True))
