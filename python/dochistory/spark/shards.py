"""Where copies of an id meet: the same key goes to the same task, whatever Spark and its adaptive plans do."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from dochistory.spark import compat
from dochistory.spark.decode import id_text, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ARRIVAL = "__dochistory_arrival"
_SHARD = "__dochistory_shard"


def key_of(df: "DataFrame", ids: list[str]) -> "Column":
    """The key of each row as text: the first of the id columns that holds a value; null where none does.

    Args:
        df: the documents.
        ids: its id columns, in the order of the key chain: text, or UUIDs as 16 bytes.
    """
    texts = (id_text(df[quoted(name)]) for name in ids)
    return F.coalesce(*(F.when(text != "", text) for text in texts))


def by_shard(df: "DataFrame", ids: list[str], parts: int, order_by: "list[Column]") -> "DataFrame":
    """The rows of `df`, those of part p in partition p: by `pmod(xxhash64(key), parts)`, which the engine checks.

    Within a partition they stand in the order of `order_by`, and rows that are equal by it (all, if
    it is empty) in the order in which `df` has them: partition by partition, as `collect` would
    bring them.
    """
    known = F.pmod(F.xxhash64(key_of(df, ids)), F.lit(parts))
    # Rows without a key have no copies; they are spread.
    spread = F.pmod(F.monotonically_increasing_id(), F.lit(parts))
    shard = F.when(key_of(df, ids).isNull(), spread).otherwise(known).cast("int")
    kept = [df[quoted(name)] for name in df.columns]
    numbered = df.select(*kept, F.monotonically_increasing_id().alias(_ARRIVAL), shard.alias(_SHARD))
    routed = compat.route(numbered, parts, _SHARD)
    return routed.sortWithinPartitions(*order_by, _ARRIVAL).drop(_ARRIVAL, _SHARD)
