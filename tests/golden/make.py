"""Make the golden store of the present layout, once: `python -m tests.golden.make`.

`v1.tar.gz` holds triggers only; `v2.tar.gz` message id mappers too; `v3.tar.gz` streams of
guaranteed delivery as well; in `v4.tar.gz` logs have a mark, and `known/` names the spaces; in
`v5.tar.gz` logs and manifests say which rows the last batches had.
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


RECEIVED = {"feed": (300, 300), "half-way": (100, 250), "untouched": (7, 7)}
"""log_received and applying_upto of each stream."""
SENT = (4, 300, 1, 100)
"""send_count, log_sent, resend_count and confirm_sent of the subscriber."""


def poll(history: dh.History, stream: str, *headers: str, batch: int) -> dh.DeliveryPoll:
    """Receive messages, as a batch of an application."""
    messages = pa.table({"header": list(headers)})
    return history.delivery(stream).receive(messages, now=NOW, transaction=("feed", batch))


def tear_logs(room: Path) -> None:
    """Leave half a frame behind each log, as a writer that dies: the next one makes a file of what is there first."""
    for space in room.iterdir():
        log = max(space.glob("log-*"))
        end = len(log.read_bytes().rstrip(b"\0"))
        with log.open("r+b") as file:
            file.seek(end + 64 - end % 8)
            file.write(b"torn" * 8)


def fill_delivery(directory: Path) -> None:
    """A stream that was received, one in doubt, one that only began, and a subscriber; in files and in the log."""
    with dh.open(directory) as history:
        history.delivery(start={"feed": 0, "half-way": 100, "untouched": 7})
        poll(history, "feed", "(0-0-100-0)", "(0-100-200-0)", batch=1).commit()
        history.delivery_out("remote1", publisher="main", start=0).build([100, 200, 300], now=NOW)
    tear_logs(directory / "delivery")
    with dh.open(directory) as history:
        poll(history, "feed", "(0-200-300-0)", batch=2).commit()
        poll(history, "half-way", "(0-100-250-0)", batch=3)
        outbox = history.delivery_out("remote1", publisher="main")
        outbox.on_resend_request(1, 100)
        outbox.build([200, 300], per_message=9, now=NOW)


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
    fill_delivery(directory)


def main() -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as made:
        fill(Path(made) / "golden.history")
        with tarfile.open(HERE / "v5.tar.gz", "w:gz") as archive:
            archive.add(Path(made) / "golden.history", "golden.history")


if __name__ == "__main__":
    main()
