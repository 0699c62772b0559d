"""Make the golden store of the present format version, once: `python -m tests.golden.make`."""

import datetime as dt
import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa

import dochistory as dh

HERE = Path(__file__).parent
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ORDERS = dh.Trigger("orders", detect_duplicates=True, use_history=True, history_time_to_live="30 days")

COMPLETED = ["7d444840-9dc0-4f5b-8b5c-5c5b7a2b1c01", "urn:order:completed", "\u00e4\u20ac" * 48]
PROCESSING = ["7d444840-9dc0-4f5b-8b5c-5c5b7a2b1c02", "urn:order:begun"]
RELEASED = ["7d444840-9dc0-4f5b-8b5c-5c5b7a2b1c03", "urn:order:rolled-back"]
IN_LOG = ["7d444840-9dc0-4f5b-8b5c-5c5b7a2b1c04"]
UNKNOWN = ["7d444840-9dc0-4f5b-8b5c-5c5b7a2b1c05", "urn:order:new"]


def fill(directory: Path) -> None:
    """Entries of every kind, in segments with a rolled-up filter and in the log."""
    with dh.open(directory, create=True) as history:
        batch = pa.table({"uuid": [*COMPLETED, *PROCESSING, *RELEASED]})
        claim = history.begin(batch, ORDERS, now=NOW, transaction=("stream", 7))
        claim.complete(rows=range(len(COMPLETED)))
        claim.release(rows=range(len(batch) - len(RELEASED), len(batch)))
        history.unpin(ORDERS, history.pin(ORDERS))
        history.maintain(ORDERS, all=True)
        history.begin(pa.table({"uuid": IN_LOG}), ORDERS, now=NOW).complete()


def main() -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as made:
        fill(Path(made) / "golden.history")
        with tarfile.open(HERE / "v1.tar.gz", "w:gz") as archive:
            archive.add(Path(made) / "golden.history", "golden.history")


if __name__ == "__main__":
    main()
