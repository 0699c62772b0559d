"""Spark's side of the document history.

Entrances, which must not be mixed up:

- `classify` *reads*: it adds the verdict to every row of a DataFrame and leaves the history as it
  was. Spark may run it
  as often as it likes.
- `exactly_once` *commits*: it wraps the function that `foreachBatch` is given, so that the function
  gets every document
  once, and each batch is begun and completed under its own transaction. `send_once` does the same for messages that go
  out by a message id mapper.

`delivery` commits too: it wraps the function that applies the messages of guaranteed delivery.

`session` starts a local Spark, with a Java where the machine has none. Nothing here is imported by
`import dochistory`.
"""

from dochistory.errors import SuspendedError
from dochistory.spark import compat as compat  # first: it says so where there is no Spark, or one that is too old
from dochistory.spark.batches import ExactlyOnce, exactly_once
from dochistory.spark.begun_batch import Batch, StagedBatch
from dochistory.spark.claims import SparkClaim, claim
from dochistory.spark.classify import classify
from dochistory.spark.cluster import check_cluster
from dochistory.spark.compat import UnsupportedError
from dochistory.spark.decider import VERDICT_COLUMNS
from dochistory.spark.delivery import Delivery, DeliveryBatch, delivery
from dochistory.spark.guards import audit_sink, keep_in_doubt, suspending
from dochistory.spark.java import JavaNotFoundError
from dochistory.spark.load import load
from dochistory.spark.read import read
from dochistory.spark.report import observed, report
from dochistory.spark.sending import SendBatch, SendOnce, send_once
from dochistory.spark.sessions import session
from dochistory.spark.ship import ship
from dochistory.spark.verdict import register, register_table, verdict

__all__ = [
    "VERDICT_COLUMNS",
    "Batch",
    "Delivery",
    "DeliveryBatch",
    "ExactlyOnce",
    "JavaNotFoundError",
    "SendBatch",
    "SendOnce",
    "SparkClaim",
    "StagedBatch",
    "SuspendedError",
    "UnsupportedError",
    "audit_sink",
    "check_cluster",
    "claim",
    "classify",
    "delivery",
    "exactly_once",
    "keep_in_doubt",
    "load",
    "observed",
    "read",
    "register",
    "register_table",
    "report",
    "send_once",
    "session",
    "ship",
    "suspending",
    "verdict",
]
