"""Batches that come again: which of their documents the log keeps already."""

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from dochistory.audit import store


def not_kept(entries: pa.Table, kept: Iterable[pa.Table], count: str) -> pa.Table:
    """The entries of a batch without those that were kept of it before.

    Documents are compared as a whole, and as often as they occur: one without a key has nothing
    else, and two of one key may differ.

    Args:
        entries: what is in doubt of the batch now.
        kept: what was kept of it, with the columns `key` and `document`.
        count: the documents' column that changes with each delivery.

    Returns:
        pa.Table: the rest of the entries.
    """
    known = Counter(one for table in kept for one in _documents(table, count))
    wanted = []
    for row, one in enumerate(_documents(entries, count)):
        if known[one] > 0:
            known[one] -= 1
        else:
            wanted.append(row)
    return entries.take(pa.array(wanted, pa.int64()))


def _documents(table: pa.Table, count: str) -> Iterator[tuple[str | None, str]]:
    """Each document with its key, as something that can be compared; NaN is equal to itself."""
    for key, document in zip(table["key"].to_pylist(), table[store.DOCUMENT].to_pylist(), strict=True):
        # What is null may be a column that the batch did not have.
        given = sorted((name, value) for name, value in document.items() if value is not None and name != count)
        yield key, repr(given)
