"""Spark's side of the document history.

Two entrances, which must not be mixed up:

- `classify` *reads*: it adds the verdict to every row of a DataFrame and leaves the history as it was. Spark may run it
  as often as it likes.
- `exactly_once` *commits*: it wraps the function that `foreachBatch` is given, so that the function gets every document
  once, and each batch is begun and completed under its own transaction.

`session` starts a local Spark, with a Java where the machine has none. Nothing here is imported by `import dochistory`.
"""

from dochistory.spark.batches import Batch, ExactlyOnce, StagedBatch, SuspendedError, exactly_once
from dochistory.spark.claims import SparkClaim, claim
from dochistory.spark.classify import classify
from dochistory.spark.compat import UnsupportedError
from dochistory.spark.java import JavaNotFoundError
from dochistory.spark.judge import VERDICT_COLUMNS
from dochistory.spark.load import load
from dochistory.spark.report import observed, report
from dochistory.spark.sessions import session
from dochistory.spark.ship import ship
from dochistory.spark.verdict import register, register_table, verdict

__all__ = [
    "VERDICT_COLUMNS",
    "Batch",
    "ExactlyOnce",
    "JavaNotFoundError",
    "SparkClaim",
    "StagedBatch",
    "SuspendedError",
    "UnsupportedError",
    "claim",
    "classify",
    "exactly_once",
    "load",
    "observed",
    "register",
    "register_table",
    "report",
    "session",
    "ship",
    "verdict",
]
