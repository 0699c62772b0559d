"""Exactly-once processing of documents by triggers, on a durable history of their ids.

```python
import dochistory as dh

trigger = dh.Trigger("orders")
with dh.open("orders.history", create=True) as history:
    claim = history.begin(documents, trigger)  # verdicts, and `processing` for what is new: durable on return
    process(claim.new)
    claim.complete()
```
"""

import os
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dochistory._forks import leave_locks as _leave_locks
from dochistory._native import (
    Claim,
    ClusterError,
    ConfigError,
    ConflictError,
    CorruptError,
    DeliveryOutbox,
    DeliveryPoll,
    DescriptorsError,
    DocHistoryError,
    DocumentClaim,
    FailedError,
    FencedError,
    ForkedError,
    GuaranteedDelivery,
    History,
    LockedError,
    MapperSend,
    MapperTaken,
    MessageIdMapper,
    ObjectStoreError,
    OpenError,
    ReadOnlyError,
    RestoredError,
    SchemaError,
    StateError,
    StorageError,
    TransactionError,
    TransientError,
    Trigger,
    TruncatedError,
    UnitOfWork,
    __version__,
    count_verdicts,
    local_path,
    open,  # noqa: A004 - always said as dochistory.open
    verdict_words,
)
from dochistory._repair import repair
from dochistory.errors import (
    DeadLetterError,
    DocumentError,
    InDoubtError,
    PendingMessageError,
    RejectedError,
    ResultError,
    RolledBack,
    SuspendedError,
)

if TYPE_CHECKING:
    from dochistory import audit as audit
    from dochistory import brokers as brokers
    from dochistory import consumer as consumer
    from dochistory import journal as journal
    from dochistory import kafka as kafka
    from dochistory import kafka_share as kafka_share
    from dochistory import metrics as metrics
    from dochistory import migration as migration
    from dochistory import once as once
    from dochistory import overview as overview
    from dochistory import progress as progress
    from dochistory import rabbitmq as rabbitmq
    from dochistory import receiving as receiving
    from dochistory import report as report
    from dochistory import resolvers as resolvers
    from dochistory import settings as settings
    from dochistory import spark as spark
    from dochistory import statistics as statistics
    from dochistory import suspension as suspension
    from dochistory import sweeper as sweeper
    from dochistory._backup import backup as backup
    from dochistory.consumer import Consumer as Consumer
    from dochistory.settings import triggers_from_toml as triggers_from_toml
    from dochistory.statistics import Statistics as Statistics
    from dochistory.suspension import Suspension as Suspension
    from dochistory.sweeper import Sweeper as Sweeper

__all__ = [
    "Claim",
    "ClusterError",
    "ConfigError",
    "ConflictError",
    "Consumer",
    "CorruptError",
    "DeadLetterError",
    "DeliveryOutbox",
    "DeliveryPoll",
    "DescriptorsError",
    "DocHistoryError",
    "DocumentClaim",
    "DocumentError",
    "FailedError",
    "FencedError",
    "ForkedError",
    "GuaranteedDelivery",
    "History",
    "InDoubtError",
    "LockedError",
    "MapperSend",
    "MapperTaken",
    "MessageIdMapper",
    "ObjectStoreError",
    "OpenError",
    "PendingMessageError",
    "ReadOnlyError",
    "RejectedError",
    "RestoredError",
    "ResultError",
    "RolledBack",
    "SchemaError",
    "StateError",
    "Statistics",
    "StorageError",
    "SuspendedError",
    "Suspension",
    "Sweeper",
    "TransactionError",
    "TransientError",
    "Trigger",
    "TruncatedError",
    "UnitOfWork",
    "__version__",
    "audit",
    "backup",
    "brokers",
    "consumer",
    "count_verdicts",
    "errors",
    "journal",
    "local_path",
    "metrics",
    "migration",
    "once",
    "open",
    "overview",
    "progress",
    "receiving",
    "repair",
    "report",
    "resolvers",
    "settings",
    "statistics",
    "suspension",
    "sweeper",
    "triggers_from_toml",
    "verdict_words",
]
os.register_at_fork(after_in_child=_leave_locks)

if find_spec("pyspark") is not None:  # else `from dochistory import *` would fail
    __all__ += ["spark"]
_ADAPTERS = {
    "aio_rabbitmq": "aio_pika",
    "kafka": "confluent_kafka",
    "kafka_share": "confluent_kafka",
    "rabbitmq": "pika",
    "sqs": "boto3",
    "stomp": "stomp",
}
"""Adapters of brokers, and the packages that they need."""
__all__ += [name for name, package in _ADAPTERS.items() if find_spec(package) is not None]

_PLACES = {
    "Consumer": "consumer",
    "Statistics": "statistics",
    "Suspension": "suspension",
    "Sweeper": "sweeper",
    "backup": "_backup",
    "triggers_from_toml": "settings",
}
"""Names that are imported with their module when they are asked for."""

_MOVED = ("Job", "Staged", "StagedClaim", "read_receipt")
"""What was public, and is a primitive of `dochistory.spark`."""


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"dochistory.{_PLACES[name]}"), name)
    # Some modules need optional packages, so each is imported on first use.
    if name in __all__ or name == "spark" or name in _ADAPTERS:
        return import_module(f"dochistory.{name}")
    if name in ("journals", "mapper_journal"):
        return import_module(f"dochistory.{name}")  # which warns
    if name in _MOVED:
        warnings.warn(
            f"dochistory.{name} is deprecated: it is a primitive of dochistory.spark, now dochistory._native.{name}, "
            "and may change with any version",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(import_module("dochistory._native"), name)
    raise AttributeError(f"module 'dochistory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
