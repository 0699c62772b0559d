"""What travels to the workers to judge documents there: a pinned snapshot, the trigger's settings, and a clock."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory.spark.settings import settings_of
from dochistory.spark.snapshots import Snapshot

if TYPE_CHECKING:
    import os

    from dochistory import History, Trigger
    from dochistory.spark.place import Place

VERDICT_COLUMNS = ("status", "action", "acknowledge", "rule", "key", "message")
"""What `classify` appends, in this order; all are strings."""


@dataclass(frozen=True)
class Decider:
    """Judges batches of documents by one snapshot."""

    snapshot: Snapshot
    settings: dict[str, Any]
    now: dt.datetime

    @classmethod
    def of(
        cls, history: "History | str | os.PathLike[str] | Place", trigger: "Trigger", now: dt.datetime | None = None
    ) -> "Decider":
        """Decider by what the history holds now.

        Raises:
            OpenError: [DH-OPEN] there is no history at that path.
        """
        # Copies are judged alone, so that a verdict does not depend on how Spark cuts rows into Arrow batches.
        settings = {**settings_of(trigger), "in_batch": "new"}
        return cls(Snapshot.of(history, trigger), settings, now or dt.datetime.now(dt.UTC))

    @property
    def asks(self) -> bool:
        """Whether there is a resolver, whose messages are part of the verdicts."""
        return self.settings["resolver"] is not None

    def asking(self, resolver: Any) -> "Decider":
        """The same with another resolver."""
        return replace(self, settings={**self.settings, "resolver": resolver})

    def codes(self, documents: pa.RecordBatch, columns: Mapping[str, str] | None = None) -> pa.Array:
        """Each verdict as a number (`History.classify_codes`)."""
        trigger = dh.Trigger(**self.settings)
        return self.snapshot.open().classify_codes(documents, trigger, columns=columns, now=self.now)

    def words(self, documents: pa.RecordBatch, columns: Mapping[str, str] | None = None) -> list[pa.Array]:
        """Each verdict as six strings, in the order of `VERDICT_COLUMNS`."""
        trigger = dh.Trigger(**self.settings)
        verdicts = self.snapshot.open().classify(documents, trigger, columns=columns, now=self.now)
        return [_plain(verdicts.column(name), name) for name in VERDICT_COLUMNS]


def _plain(column: pa.Array, name: str) -> pa.Array:
    """The column as the plain strings that Spark takes from Python."""
    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    values = column.dictionary.cast(pa.string())
    if name == "rule":
        values = pc.replace_substring(values, "+batch", "")
    return values.take(column.indices)
