"""The message id mapper at a million ids: each write durable on return."""

import uuid
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from benches.conftest import Measure

pytestmark = pytest.mark.benchmark

IDS = 1_000_000


def ids(first: int) -> pa.Array:
    """So many UUIDs that follow from a number."""
    spread = 0x9E3779B97F4A7C15F39CC0605CEDC835
    return pa.array([str(uuid.UUID(int=(first + number) * spread % 2**128)) for number in range(IDS)])


@pytest.fixture(scope="module")
def columns() -> tuple[pa.Array, pa.Array]:
    """Ids, and what they are mapped to."""
    return ids(0), pa.array([f"ID:414d5120{number:012d}" for number in range(IDS)])


def test_create_a_million(measure: Measure, tmp_disk: Path, columns: tuple[pa.Array, pa.Array]) -> None:
    numbers = count()
    with dh.open(tmp_disk / "h", create=True) as history:
        measure(lambda: history.mapper(f"m-{next(numbers)}").create(*columns), IDS, rounds=5)


@pytest.mark.parametrize("found", ["found", "not found"])
def test_look_a_million_up(measure: Measure, tmp_disk: Path, columns: tuple[pa.Array, pa.Array], found: str) -> None:
    wanted = columns[0] if found == "found" else ids(IDS)
    with dh.open(tmp_disk / "h", create=True) as history:
        mapper = history.mapper("m")
        mapper.create(*columns)
        measure(lambda: mapper.lookup(wanted), IDS, rounds=7)


def test_begin_and_complete_sending_a_million(
    measure: Measure, tmp_disk: Path, columns: tuple[pa.Array, pa.Array]
) -> None:
    numbers = count()
    messages = pa.record_batch({"id": columns[0]})
    with dh.open(tmp_disk / "h", create=True) as history:
        measure(lambda: history.mapper(f"m-{next(numbers)}").begin_send(messages).complete(columns[1]), IDS, rounds=5)


def test_begin_and_complete_sending_a_thousand(
    measure: Measure, tmp_disk: Path, columns: tuple[pa.Array, pa.Array]
) -> None:
    numbers = count()
    with dh.open(tmp_disk / "h", create=True) as history:
        mapper = history.mapper("m")

        def job() -> None:
            start = next(numbers) * 1000 % IDS
            part = pa.record_batch({"id": columns[0].slice(start, 1000)})
            mapper.begin_send(part).complete(columns[1].slice(start, 1000))

        measure(job, 1000, rounds=50)
