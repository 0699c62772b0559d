"""The reference workload W(N, P): a history of N ids in P day partitions, and batches to ask about.

Every id is a function of its number, so any part of the workload can be made by itself, anywhere,
and 1e9 ids need no memory. Numbers below N are in the history; of those every thousandth is
`processing` only, the others are completed. Numbers from `FRESH` on are new.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

SEED = 0x5EED_0D0C
FIRST_DAY = datetime(2025, 1, 1, tzinfo=UTC)
BATCH_ROWS = 1_000_000
CHUNK_ROWS = 1_000_000
FRESH = 1 << 40  # the first number that is in no history
FRESH_STRIDE = 1 << 24  # more than the rows of any batch
OPEN_EVERY, OPEN_AT = 1000, 7  # which of the history's ids were begun and never completed
COMPLETED, PROCESSING = 1, 2  # status codes, the same for every peer; 0 is new

_HEX = np.array([list(f"{value:02x}".encode()) for value in range(256)], dtype=np.uint8)
# Where the groups of digits of a UUID stand: in its 36 characters, and in its 32 digits.
_GROUPS = ((0, 0, 8), (9, 8, 4), (14, 12, 4), (19, 16, 4), (24, 20, 12))


def _mixed(value: Numbers) -> Numbers:
    """The finalizer of SplitMix64: one to one, and every bit of the result depends on every bit of the number."""
    value = value * np.uint64(0x9E3779B97F4A7C15) + np.uint64(SEED)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def packed_ids(numbers: Numbers) -> Bytes:
    """UUIDs of version 4 of these numbers, 16 bytes a row."""
    with np.errstate(over="ignore"):
        high = _mixed(numbers * np.uint64(2))
        low = _mixed(numbers * np.uint64(2) + np.uint64(1))
    high = (high & ~np.uint64(0xF000)) | np.uint64(0x4000)
    low = (low & np.uint64((1 << 62) - 1)) | np.uint64(1 << 63)
    words = np.empty((len(numbers), 2), dtype=">u8")
    words[:, 0], words[:, 1] = high, low
    return words.view(np.uint8)


def text_ids(numbers: Numbers) -> Bytes:
    """The same in canonical lower-case text, 36 characters a row."""
    digits = _HEX[packed_ids(numbers)].reshape(-1, 32)
    text = np.full((len(numbers), 36), ord("-"), dtype=np.uint8)
    for in_text, in_digits, width in _GROUPS:
        text[:, in_text : in_text + width] = digits[:, in_digits : in_digits + width]
    return text


def _strings(text: Bytes, offsets: NDArray[np.int32]) -> pa.Array:
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text))


def uuid_column(numbers: Numbers) -> pa.Array:
    """UUIDs of these numbers as an Arrow utf8 column."""
    offsets = np.arange(0, 36 * len(numbers) + 1, 36, dtype=np.int32)
    return _strings(np.ascontiguousarray(text_ids(numbers)).reshape(-1), offsets)


def urn_column(numbers: Numbers) -> pa.Array:
    """Ids of these numbers that are no UUIDs: URNs of 40 to 90 characters."""
    rows = len(numbers)
    text = np.empty((rows, 90), dtype=np.uint8)
    text[:, :4] = np.frombuffer(b"urn:", dtype=np.uint8)
    text[:, 4:40] = text_ids(numbers)
    text[:, 40:76] = text_ids(numbers + np.uint64(1 << 50))
    text[:, 76:] = text_ids(numbers + np.uint64(1 << 51))[:, :14]
    lengths = 40 + (_mixed(numbers) % np.uint64(51)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return _strings(text[np.arange(90) < lengths[:, None]], offsets)


def packed_column(column: pa.Array) -> bytes:
    """Text of UUIDs as 16 bytes each: what a peer that keeps 16-byte keys has to do first, as fast as Python can."""
    _, _, data = column.buffers()
    text = np.frombuffer(data, dtype=np.uint8, count=36 * len(column), offset=36 * column.offset).reshape(-1, 36)
    digits = np.empty((len(column), 32), dtype=np.uint8)
    for in_text, in_digits, width in _GROUPS:
        digits[:, in_digits : in_digits + width] = text[:, in_text : in_text + width]
    return bytes.fromhex(digits.tobytes().decode("ascii"))


def packed_list(column: pa.Array) -> list[bytes]:
    """The same, as the list of `bytes` that key-value stores want."""
    keys: list[bytes] = np.frombuffer(packed_column(column), dtype="V16").tolist()
    return keys


@dataclass(frozen=True)
class Batch:
    """Documents to ask about, and the status codes that a right answer holds."""

    documents: pa.RecordBatch
    codes: Bytes

    @property
    def ids(self) -> pa.Array:
        """The ids alone."""
        return self.documents.column("uuid")


@dataclass(frozen=True)
class Part:
    """Consecutive ids of one day."""

    day: int
    numbers: Numbers

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which of them are `processing` only."""
        is_open: NDArray[np.bool_] = self.numbers % np.uint64(OPEN_EVERY) == OPEN_AT
        return is_open

    @property
    def codes(self) -> Bytes:
        """Their status codes."""
        return np.where(self.open, PROCESSING, COMPLETED).astype(np.uint8)


@dataclass(frozen=True)
class Workload:
    """W(N, P)."""

    n: int
    p: int
    urns: bool = False

    def column(self, numbers: Numbers) -> pa.Array:
        """The ids of these numbers."""
        return urn_column(numbers) if self.urns else uuid_column(numbers)

    @property
    def now(self) -> datetime:
        """A time at which all of the history has begun, and a new partition has."""
        return self.day(self.p)

    @staticmethod
    def day(day: int) -> datetime:
        """A time in this partition."""
        return FIRST_DAY + timedelta(days=day, hours=12)

    def parts(self, rows: int = CHUNK_ROWS) -> Iterator[Part]:
        """The history in order of time, at most so many rows at once and never two days."""
        for day in range(self.p):
            first, last = self.n * day // self.p, self.n * (day + 1) // self.p
            for start in range(first, last, rows):
                yield Part(day, np.arange(start, min(start + rows, last), dtype=np.uint64))

    def batch(self, rows: int = BATCH_ROWS, run: int = 0) -> Batch:
        """1 % completed, 0.1 % processing only, the rest new and different in each run; shuffled."""
        random = np.random.default_rng([SEED, rows, run])
        completed, still_open = max(rows // 100, 1) if rows > 1 else 0, rows // 1000
        done = random.integers(0, self.n // OPEN_EVERY, completed, dtype=np.uint64) * np.uint64(OPEN_EVERY)
        # Another id than the open one, and none twice: the offset grows with the row.
        done = np.unique(done + random.integers(OPEN_AT + 1, OPEN_EVERY, completed, dtype=np.uint64))
        opened = random.permutation(self.n // OPEN_EVERY)[:still_open].astype(np.uint64)
        opened = opened * np.uint64(OPEN_EVERY) + np.uint64(OPEN_AT)
        new = np.arange(rows - len(done) - len(opened), dtype=np.uint64) + np.uint64(FRESH + run * FRESH_STRIDE)
        return self._documents(random.permutation(np.concatenate((done, opened, new))))

    def replay(self, rows: int = BATCH_ROWS) -> Batch:
        """Completed ids only, in any order and none twice."""
        random = np.random.default_rng([SEED, rows])
        rows = min(rows, self.n - self.n // OPEN_EVERY - 1)
        step = self.n // rows
        numbers = np.arange(rows, dtype=np.uint64) * np.uint64(step)
        numbers += random.integers(0, step, rows, dtype=np.uint64)
        numbers += (numbers % np.uint64(OPEN_EVERY) == OPEN_AT).astype(np.uint64)
        return self._documents(random.permutation(np.unique(numbers)))

    def fresh(self, rows: int, run: int = 0) -> Batch:
        """New ids only; those of different runs differ from each other, and from those of `batch`."""
        start = FRESH * 2 + run * FRESH_STRIDE
        return self._documents(np.arange(start, start + rows, dtype=np.uint64))

    def _documents(self, numbers: Numbers) -> Batch:
        counts = pa.array(np.zeros(len(numbers), dtype=np.int32))
        known = np.where(numbers % np.uint64(OPEN_EVERY) == OPEN_AT, PROCESSING, COMPLETED)
        codes = np.where(numbers < np.uint64(FRESH), known, 0).astype(np.uint8)
        return Batch(pa.record_batch({"uuid": self.column(numbers), "redelivery_count": counts}), codes)
