"""Exceptions that callers raise, to tell the history what became of their documents."""

__all__ = ["RolledBack"]


class RolledBack(Exception):  # noqa: N818 - it reports an outcome, not a fault
    """Raised by a service whose work was definitely undone: its documents are released, and NEW the next time."""
