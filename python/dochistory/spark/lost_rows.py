"""Documents that others were first with between a claim's snapshot and its commit.

The commit leaves them out, so nobody here has begun them, whatever their tasks had decided. The
driver decides their rows again, by what the history holds now, and their verdicts take the place of
the old ones.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import ByteType, LongType, StringType, StructField, StructType

from dochistory.spark import compat, shards, staging
from dochistory.spark.decode import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory._native import StagedClaim

MOST = 1_000_000
"""Documents that one driver decides again; of more a claim is decided by its tasks again."""

PLACE = "__dochistory_place"
"""The column of the kept rows that numbers them, in the order in which their tasks had them."""

_AGAIN = "__dochistory_again"
_KEY = "__dochistory_key"
_DECIDED = StructType(
    [
        StructField(PLACE, LongType()),
        *(StructField(name, ByteType()) for name in staging.WORDS),
        StructField("message", StringType()),
    ]
)


class Lost:
    """The rows of a claim's lost documents, decided again."""

    def __init__(
        self,
        kept: "DataFrame",
        answer: str,
        staged: "StagedClaim",
        ids: list[str],
        found: dict[str, str],
        words: dict[str, list[str]],
    ) -> None:
        """Decide them.

        Args:
            kept: all rows of the claim as their tasks decided them, kept by Spark.
            answer: its column with what the tasks said.
            staged: the claim.
            ids: the id columns.
            found: the trigger's name of a column -> its name in `kept`.
            words: what the numbers of verdicts stand for.
        """
        self._kept, self._answer, self._words = kept, answer, words
        rows = self._rows(staged.lost, ids, list(found.values()))
        documents = pa.table({name: rows[f"c{place}"] for place, name in enumerate(found)})
        again = staged.decide_lost(documents.combine_chunks().to_batches()[0]) if rows else None
        self._before = rows
        self._now = pa.table(
            {
                PLACE: rows[PLACE],
                **{name: staging.numbers(again[name]) if again else pa.array([], pa.int8()) for name in staging.WORDS},
                "message": again["message"].cast(pa.string()) if again else pa.array([], pa.string()),
            }
        )

    def _rows(self, lost: list[str], ids: list[str], columns: list[str]) -> pa.Table:
        """The rows of these documents, in their order. What is suspended stays so: it comes again in any case."""
        schema = StructType([StructField(_KEY, StringType())])
        keys = compat.frame_of(self._kept.sparkSession, pa.table({_KEY: pa.array(lost, pa.string())}), schema)
        kept = self._kept.withColumn(_KEY, shards.key_of(self._kept, ids))
        is_open = F.col(f"{self._answer}.action") != self._words["action"].index("SUSPEND")
        taken = [F.col(quoted(name)).alias(f"c{place}") for place, name in enumerate(columns)]
        said = [F.col(f"{self._answer}.{name}").alias(name) for name in staging.WORDS]
        met = kept.where(is_open).join(F.broadcast(keys), _KEY, "left_semi")
        return compat.collect_arrow(met.select(PLACE, *said, *taken)).sort_by(PLACE)

    def corrected(self) -> "DataFrame":
        """The kept rows, where the lost ones have their new verdicts."""
        again = compat.frame_of(self._kept.sparkSession, self._now, _DECIDED)
        fields = [*staging.WORDS, "message"]
        renamed = again.select(PLACE, F.struct(*fields).alias(_AGAIN))
        joined = self._kept.join(F.broadcast(renamed), PLACE, "left")
        is_lost = F.col(_AGAIN).isNotNull()
        answer = [
            F.when(is_lost, F.col(f"{_AGAIN}.{name}")).otherwise(F.col(f"{self._answer}.{name}")).alias(name)
            for name in fields
        ]
        version = F.col(f"{self._answer}.version").alias("version")
        names = [F.col(quoted(name)) for name in self._kept.columns if name not in (self._answer, PLACE)]
        return joined.select(*names, F.struct(*answer, version).alias(self._answer))

    def change(self) -> dict[str, Any]:
        """By how much the new verdicts change the counts: as a receipt says it, of no rows."""
        changed: dict[str, Any] = {"rows": 0}
        for name in ("status", "action", "rule"):
            counter = Counter[str]()
            for table, sign in ((self._before, -1), (self._now, 1)):
                for one in pc.value_counts(table[name]).to_pylist():
                    if one["values"] >= 0:
                        counter[self._words[name][one["values"]]] += sign * one["counts"]
            changed[name] = dict(counter)
        return changed
