"""Exceptions of the package's Python side."""

from typing import TYPE_CHECKING, Any, Literal

from dochistory._native import DocHistoryError

if TYPE_CHECKING:
    import pyarrow as pa

    from dochistory._suspended import Status
    from dochistory.once import Document

__all__ = [
    "DeadLetterError",
    "DocumentError",
    "InDoubtError",
    "PendingMessageError",
    "RejectedError",
    "ResultError",
    "RolledBack",
    "SuspendedError",
]


class RolledBack(Exception):  # noqa: N818 - it reports an outcome, not a fault
    """Raised by a service whose work was definitely rolled back: its documents are released, and NEW the next time."""


class SuspendedError(DocHistoryError):
    """[DH-SUSPENDED] The trigger is suspended: nothing is begun; unacknowledged documents must be delivered again."""

    def __init__(
        self,
        message: str,
        status: "Status | None" = None,
        *,
        cause: Literal["history", "resolver", "person"] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """Since when, why, and when it is tried again; None where nobody keeps track of that."""
        self.cause = status.cause if status is not None else cause
        """What is down: the history, the resolver; or a person suspended it."""


class PendingMessageError(DocHistoryError):
    """[DH-PENDING] Messages cannot be sent and must stay unacknowledged: it is unclear whether they went out before."""

    rows: "pa.RecordBatch"
    """These messages, in the columns they came in, and behind them the columns of their verdicts."""

    def __init__(self, text: str, rows: "pa.RecordBatch") -> None:
        super().__init__(text)
        self.rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        # By its text alone it could not be made again: a pool of processes would wait for it forever.
        return type(self), (str(self), self.rows)


class DocumentError(DocHistoryError):
    """A document that does not run, or whose result is not kept."""

    def __init__(self, text: str, document: "Document | None" = None) -> None:
        super().__init__(text)
        self.document = document
        """The document, with its verdict."""


class InDoubtError(DocumentError):
    """[DH-IN-DOUBT] The document was begun, and nobody knows how it ended: acknowledge it, and decide later."""


class RejectedError(DocumentError):
    """[DH-REJECTED] The document was delivered too often: put it where dead letters are kept."""


class DeadLetterError(DocumentError):
    """[DH-DEAD-LETTER] The service failed as often as its policy allows: put the document where dead letters are."""


class ResultError(DocumentError):
    """[DH-RESULT] The function ran and the document is completed, but its result is not kept for duplicates."""

    def __init__(self, text: str, document: "Document | None" = None, returned: object = None) -> None:
        super().__init__(text, document)
        self.returned = returned
        """What the function returned."""
