"""The mails, cut into the files that Spark takes one batch each."""

import os
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

MAILS = pq.read_table(Path(__file__).parent.parent / "data" / "mail_2002.parquet", columns=["message_id", "sha256"])
ROWS = MAILS.num_rows
LONGEST_ID = 96


def batches(count: int) -> list[pa.Table]:
    """All mails in the order sent, in `count` pieces of about the same size."""
    edges = [ROWS * n // count for n in range(count + 1)]
    return [MAILS.slice(start, end - start) for start, end in pairwise(edges)]


def prepare(directory: Path, count: int, redelivery_count: int) -> None:
    """Write one file per batch; the Message-ID serves as the document's `uuid`."""
    directory.mkdir()
    for number, mails in enumerate(batches(count)):
        counts = pa.array([redelivery_count] * mails.num_rows, pa.int32())
        file = directory / f"{number:03d}.parquet"
        pq.write_table(mails.rename_columns(["uuid", "sha256"]).append_column("redelivery_count", counts), file)
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))  # Spark takes the oldest file first
