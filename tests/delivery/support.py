"""What the tests of guaranteed delivery share: messages as columns, decisions and outcomes as plain rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

import dochistory as dh


def messages(headers: Iterable[str | None], **columns: Sequence[Any]) -> pa.RecordBatch:
    """Messages with these headers in order of arrival, and further columns as given."""
    return pa.record_batch({"header": pa.array(list(headers), pa.string()), **columns})


def header(prev: int, cur: int, seq: int = 0, resend_count: int = 0) -> str:
    """A header as text, its offsets padded as the senders pad them."""
    return f"({resend_count}-{prev:010}-{cur:010}-{seq})"


def parsed(text: str) -> tuple[int, int, int, int]:
    """The four numbers of a header."""
    found = re.fullmatch(r"\((\d+)-(\d+)-(\d+)-(\d+)\)", text)
    assert found, text
    resend_count, prev, cur, seq = (int(part) for part in found.groups())
    return resend_count, prev, cur, seq


def column(batch: Any, name: str) -> list[Any]:
    """One column as a list."""
    values: list[Any] = batch.column(name).to_pylist()
    return values


def decisions(poll: dh.DeliveryPoll) -> list[str]:
    """The decision about each message."""
    return column(poll.decisions, "decision")


def statuses(poll: dh.DeliveryPoll) -> list[str]:
    """The status of each message."""
    return column(poll.decisions, "status")


def applied(poll: dh.DeliveryPoll) -> list[tuple[int, int, int]]:
    """prev, cur and seq of what is applied, in order."""
    return [parsed(text)[1:] for text in column(poll.messages, "header")]


def stream_of(poll: dh.DeliveryPoll) -> dict[str, Any]:
    """The outcome of the only stream of a poll."""
    (outcome,) = poll.streams.to_pylist()
    return dict(outcome)


def with_epoch(history: dh.History, log_received: int, epoch: int) -> dh.GuaranteedDelivery:
    """The delivery of stream `s` that has everything up to an offset, and went back so often: each time a message
    arrives whose predecessor is missing, and patience ends at once.
    """
    inbox = history.delivery("s", start=log_received, patience=0)
    for rr in range(epoch):
        poll = inbox.receive(messages([header(log_received + 1, log_received + 2, 0, rr)]))
        poll.commit()
    return inbox
