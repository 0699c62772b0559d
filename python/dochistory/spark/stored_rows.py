"""The rows of a batch, evaluated once, whatever is done with them afterwards.

Spark evaluates a DataFrame again for each action, and a source, a shuffle or a sort may bring its
rows in another order then, or other rows. So what is decided and what the service is handed come
from one evaluation: all of it is on the driver, or Spark stores it.

    OnDriver   all columns come to the driver, and what is new goes back to Spark
    InSpark    Spark stores the rows; only the columns that the history asks for come to the driver
"""

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import LongType, StructField, StructType

import dochistory as dh
from dochistory.spark import compat
from dochistory.spark.decode import quoted
from dochistory.spark.lost_rows import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import Claim

_FEW = 100
"""Rows to leave out that a plan names one by one; more are a table, which Spark broadcasts."""


class OnDriver:
    """The rows of a batch on the driver."""

    def __init__(self, frame: "DataFrame") -> None:
        self._frame = frame
        self.asked = compat.collect_arrow(frame)

    @property
    def documents(self) -> pa.Table:
        """All rows, in order."""
        return self.asked

    def claimed(self, claim: "Claim") -> "Claim":
        """The claim, as the service sees it."""
        return claim

    def new(self, claim: "Claim") -> "DataFrame":
        """The documents to process."""
        return compat.frame_of(self._frame.sparkSession, claim.new, self._frame.schema)

    def let_go(self) -> None:
        """Nothing is stored elsewhere."""


class InSpark:
    """The rows of a batch in Spark's storage, where Spark runs in the driver's own process.

    One job computes them, numbers them and cuts off where they came from: whatever reads them later
    reads what that job stored, or fails. The driver asks about stored rows, and the service gets
    stored rows, so a number is one row for both.

    On several machines this does not hold: a task that is tried again, or runs twice, may leave
    another version of its rows on another executor.
    """

    def __init__(self, frame: "DataFrame", columns: Sequence[str]) -> None:
        """Evaluate the rows, and fetch some of their columns.

        Args:
            frame: the rows.
            columns: the columns to fetch, by names that are unique.
        """
        self._names = frame.schema.names
        self._stored = compat.stored(frame.withColumn(PLACE, F.monotonically_increasing_id()))
        fetched = compat.collect_arrow(self._stored.select(*map(quoted, columns), PLACE))
        self._places = fetched[PLACE].combine_chunks()
        self.asked = fetched.drop_columns([PLACE])
        self._is_there = True

    @cached_property
    def documents(self) -> pa.Table:
        """All rows, in order.

        Raises:
            StateError: [DH-STATE] the batch has ended, and Spark has them no longer.
        """
        return self.asked if self.asked.column_names == self._names else self._whole(self._stored)

    def claimed(self, claim: "Claim") -> "Claim":
        """The claim, as the service sees it: `new` has all columns."""
        return cast("Claim", WholeClaim(claim, self))

    def new(self, claim: "Claim") -> "DataFrame":
        """The documents to process."""
        return self._chosen(claim).drop(PLACE)

    def new_table(self, claim: "Claim") -> pa.Table:
        """The documents to process, on the driver."""
        return self._whole(self._chosen(claim))

    def let_go(self) -> None:
        """Free what Spark stores: the batch has ended."""
        self._is_there = False
        compat.let_go(self._stored)

    def _chosen(self, claim: "Claim") -> "DataFrame":
        """Of the stored rows those that are to be processed."""
        chosen = self._places.take(claim.rows)
        if len(chosen) == len(self._places):
            return self._stored
        others = self._places.filter(pc.invert(pc.is_in(self._places, value_set=chosen)))
        if len(others) <= _FEW:
            return self._stored.where(f"{PLACE} NOT IN ({', '.join(map(str, others.to_pylist()))})")
        # With the smaller half, which is broadcast: so the rows stay in order.
        how, places = ("left_semi", chosen) if len(chosen) < len(others) else ("left_anti", others)
        schema = StructType([StructField(PLACE, LongType(), False)])
        listed = compat.frame_of(self._stored.sparkSession, pa.table({PLACE: places}), schema)
        return self._stored.join(F.broadcast(listed), PLACE, how)

    def _whole(self, rows: "DataFrame") -> pa.Table:
        if not self._is_there:
            raise dh.StateError(
                "[DH-STATE] this batch has ended, and Spark has its rows no longer: "
                "look at them in the service or in on_verdicts"
            )
        return compat.collect_arrow(rows.drop(PLACE))


class WholeClaim:
    """A claim on rows that Spark stores: the history knows some columns of them, and `new` has all."""

    def __init__(self, claim: "Claim", rows: InSpark) -> None:
        self._claim = claim
        self._rows = rows

    @cached_property
    def new(self) -> pa.Table:
        """The documents to process: the rows whose action is PROCESS, in the columns they came in."""
        return self._rows.new_table(self._claim)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the claim's."""
        return getattr(self._claim, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._claim.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return repr(self._claim)


def arrived(frame: "DataFrame", asked: Sequence[str]) -> OnDriver | InSpark:
    """Evaluate a batch whose service takes a DataFrame, in whichever way is the cheaper one.

    Args:
        frame: the batch.
        asked: the columns that the history asks for.
    """
    names = frame.schema.names
    # Spark finds no column by a name that two have, and it makes no difference between cases.
    are_unique = len({name.lower() for name in (*names, PLACE)}) == len(names) + 1
    return InSpark(frame, asked) if are_unique and compat.stores_here(frame) else OnDriver(frame)
