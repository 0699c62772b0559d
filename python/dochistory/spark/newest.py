"""A history in its newest state, for one task of a Spark worker.

A worker is never told that it ends. So a task opens a directory and closes it. Opening a history in
a bucket fetches its files, so a worker keeps that open from task to task: it holds no lock, and
each look-up asks for newer commits.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dochistory.spark.same_bucket import BucketSight
from dochistory.spark.same_directory import Sight

if TYPE_CHECKING:
    from dochistory import History

_MOST_OPEN = 4

_open: "OrderedDict[tuple[int, BucketSight], History]" = OrderedDict()


@contextmanager
def newest(sight: Sight | BucketSight) -> "Iterator[History]":
    """The history that the driver works with, for reading.

    Raises:
        ClusterError: [DH-CLUSTER] this process does not see the driver's directory, or does not
            find its history in the bucket.
        ObjectStoreError: the bucket cannot be reached from here; the sentence says why.
    """
    if isinstance(sight, Sight):
        with sight.open(read_only=True) as history:
            yield history
        return
    key = (os.getpid(), sight)
    history = _open.pop(key) if key in _open else sight.open(read_only=True)
    try:
        yield history
    except BaseException:
        history.close()
        raise
    _open[key] = history
    while len(_open) > _MOST_OPEN:
        _open.popitem(last=False)[1].close()
