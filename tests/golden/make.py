"""Make the golden store of the present layout, once: `python -m tests.golden.make`.

`v1.tar.gz` holds triggers only; `v2.tar.gz` message id mappers too; in `v3.tar.gz` logs have a mark, and `known/` names
the spaces.
"""

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

MAPPED = {
    "7d444840-9dc0-4f5b-8b5c-5c5b7a2b1c06": "ID:1",
    "urn:message:mapped": "ID:2",
    "x" * 97: "ID:3",
    "urn:in-log": "ID:4",
}
MAPPED_TO_NOTHING = "urn:message:to-nothing"
PENDING = ["7d444840-9dc0-4f5b-8b5c-5c5b7a2b1c07", "urn:message:pending"]
GONE = ["urn:message:removed", "urn:message:purged"]


def fill_mapper(history: dh.History) -> None:
    """Entries of every kind, in files of both kinds and in the log."""
    mapper = history.mapper("jms")
    ids = [*list(MAPPED)[:3], MAPPED_TO_NOTHING, *GONE]
    week = dt.timedelta(days=7)
    mapper.create(ids, ["early", "ID:2", "ID:3", None, "x", "y"], NOW + 5 * week, now=NOW)
    mapper.update(["urn:message:purged"], ["y"], NOW + week, now=NOW)
    mapper.begin_send(pa.table({"id": PENDING}), transaction=("stream", 3), persist_until=NOW + week, now=NOW)
    mapper.purge(NOW + week)
    mapper.update(list(MAPPED)[:1], ["ID:1"], NOW + 6 * week, now=NOW)
    mapper.remove(["urn:message:removed"])
    mapper.create(["urn:message:passing"], ["z"], NOW + 2 * week, now=NOW)
    mapper.purge(NOW + 2 * week)
    mapper.create(list(MAPPED)[3:], ["ID:4"], "forever", now=NOW)


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
        fill_mapper(history)


def main() -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as made:
        fill(Path(made) / "golden.history")
        with tarfile.open(HERE / "v3.tar.gz", "w:gz") as archive:
            archive.add(Path(made) / "golden.history", "golden.history")


if __name__ == "__main__":
    main()
