"""Verdict counts on their way past: of a DataFrame as it is evaluated, of a stream in the progress of every batch."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from dochistory.spark import checks
from dochistory.spark.decode import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

COUNTS = ("documents", "new", "duplicate", "in_doubt", "suspended", "rejected", "no_id", "too_long")
"""What is counted. The last two are about rows of which the history could not be asked (rules R3 and R4)."""


def observed(df: "DataFrame", name: "str | Observation" = "dochistory", *, prefix: str = "") -> "DataFrame":
    """`df`, and counts of its verdicts whenever it is evaluated.

    ```python
    judged = dh.spark.observed(dh.spark.classify(stream, history, trigger))
    query = judged.writeStream.format("noop").option("checkpointLocation", "checkpoint").start()
    query.processAllAvailable()
    dh.spark.report(query.lastProgress)  # {'documents': 100, 'new': 90, 'duplicate': 8, 'in_doubt': 2, ...}
    ```

    Rows are counted as they pass: with a `limit` behind it only those that were needed, and none
    twice for a task that was tried again.

    Args:
        df: what `classify` answered.
        name: the name under which Spark reports the counts; outside a stream, an `Observation`.
        prefix: the prefix that `classify` was given.

    Returns:
        DataFrame: the rows of `df`, unchanged.

    Raises:
        ConfigError: [DH-CONFIG] `df` is no DataFrame of Spark.
    """
    checks.frame("df", df)
    status, action, rule = (F.col(quoted(prefix + one)) for one in ("status", "action", "rule"))
    conditions = {
        "new": status == "NEW",
        "duplicate": status == "DUPLICATE",
        "in_doubt": status == "IN_DOUBT",
        "suspended": action == "SUSPEND",
        "rejected": action == "REJECT",
        "no_id": rule.startswith("R3"),
        "too_long": rule.startswith("R4"),
    }
    counts = [_count(condition).alias(one) for one, condition in conditions.items()]
    return df.observe(name, F.count(F.lit(1)).alias("documents"), *counts)


def _count(condition: "Column") -> "Column":
    return F.count(F.when(condition, F.lit(1)))


def report(progress: Any, name: str = "dochistory") -> dict[str, int] | None:
    """The counts of one batch of a stream.

    For `query.lastProgress`, an element of `query.recentProgress`, or, within a
    `StreamingQueryListener`, `event.progress`.

    Args:
        progress: what Spark says of the batch.
        name: the name that `observed` was given.

    Returns:
        `documents`, `new`, `duplicate`, `in_doubt`, `suspended`, `rejected`, `no_id` and
            `too_long`, each a number of
        rows; None if the batch has no such counts, as before its first batch.
    """
    if progress is None:
        return None
    found = progress.get("observedMetrics") if isinstance(progress, Mapping) else progress.observedMetrics
    row = (found or {}).get(name)
    if row is None:
        return None
    plain: Mapping[str, int] = row if isinstance(row, Mapping) else row.asDict()
    return {one: plain[one] for one in COUNTS if one in plain}
