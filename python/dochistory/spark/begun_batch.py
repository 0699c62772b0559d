"""Batches that were begun: what a service of `exactly_once` sees of one, whether the driver or tasks decided it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory.spark.claims import SparkClaim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import Claim
    from dochistory.spark.stored_rows import InSpark, OnDriver


@dataclass(frozen=True)
class Batch:
    """One batch, begun by the driver, as the service and `on_verdicts` see it where the driver decides."""

    id: int
    """Spark's number of the batch."""
    application: str
    """The name under which the batch's number is remembered."""
    _rows: "OnDriver | InSpark" = field(repr=False)
    claim: "Claim"
    """The claim on what is new; the service may complete or release rows of it by itself."""

    @property
    def documents(self) -> pa.Table:
        """All rows of the batch, in order.

        Where Spark stores them, they come to the driver when this is first read, which is possible
        until the service has ended.

        Raises:
            StateError: [DH-STATE] it has, and Spark has them no longer.
        """
        return self._rows.documents

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Rows by `status`, by `action` and by `rule`."""
        counted = {name: Counter[str]() for name in ("status", "action", "rule")}
        for *words, rows in dh.count_verdicts(self.verdicts):
            for name, word in zip(counted, words, strict=True):
                if word:
                    counted[name][word] += rows
        return {name: dict(sorted(of.items())) for name, of in counted.items()}

    @property
    def verdicts(self) -> pa.Table:
        """The verdict of every row: `status`, `action`, `acknowledge`, `rule`, `key`, `message`."""
        return self.claim.verdicts

    def rows(self, action: str) -> list[int]:
        """The rows whose verdict asks for one action.

        Args:
            action: PROCESS, DISCARD, LOG, SUSPEND or REJECT.

        Returns:
            list of int: their numbers in the batch, from 0.
        """
        asked = pc.equal(self.verdicts["action"].cast(pa.string()), action)
        found: list[int] = pc.indices_nonzero(asked.fill_null(False)).to_pylist()
        return found


@dataclass(frozen=True)
class StagedBatch:
    """One batch, begun by Spark's tasks, as the service and `on_verdicts` see it where executors decide."""

    id: int
    """Spark's number of the batch."""
    application: str
    """The name under which the batch's number is remembered."""
    claim: SparkClaim
    """The claim on what is new; the service may complete or release documents of it by itself."""

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Rows by `status`, by `action` and by `rule`."""
        return self.claim.counts

    @property
    def documents(self) -> "DataFrame":
        """All rows of the batch, each with its verdict: `status`, `action`, `acknowledge`, `rule`, `key`, `message`.

        Where the batch has a column of such a name (the `key` of Kafka's, say), all six are called
        `verdict_status` and so on.
        """
        return self.claim.documents
