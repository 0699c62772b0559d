"""Exceptions that callers raise, to tell the history what became of their documents; and those that carry columns."""

from typing import TYPE_CHECKING

from dochistory._native import DocHistoryError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PendingMessageError", "RolledBack"]


class RolledBack(Exception):  # noqa: N818 - it reports an outcome, not a fault
    """Raised by a service whose work was definitely undone: its documents are released, and NEW the next time."""


class PendingMessageError(DocHistoryError):
    """[DH-PENDING] Messages cannot be sent and must stay unacknowledged: it is unclear whether they went out before."""

    rows: "pa.RecordBatch"
    """These messages, in the columns they came in, and behind them the columns of their verdicts."""

    def __init__(self, text: str, rows: "pa.RecordBatch") -> None:
        super().__init__(text)
        self.rows = rows
