"""A mapper's audit records in the journal, beside all other documents that were not simply processed.

```python
from dochistory import journal

send = mapper.begin_send(messages)
journal.mapper.write(send, sinks=[journal.ParquetSink("journal/")])  # and through `logging`
```

`journal.read`, `journal.follow` and `dochistory journal` show them beside those of triggers:
`trigger` is `mapper:` and the channel, `key` the id (of a duplicate that was taken in: the id of
the message that came first).
"""

import json
import logging
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from dochistory.journal.sinks import SCHEMA, Sink
from dochistory.journal.writing import LOGGER

__all__ = ["records", "write"]

_LEVEL = {"ERROR": logging.ERROR, "WARNING": logging.WARNING, "INFO": logging.INFO, "SUCCESS": logging.INFO}


class _Flow(Protocol):
    @property
    def audit(self) -> pa.RecordBatch: ...
    @property
    def verdicts(self) -> pa.Table | pa.RecordBatch: ...


def records(flow: _Flow) -> pa.Table:
    """The audit records of one batch as records of the journal.

    Args:
        flow: the result of `begin_send` or `UnitOfWork.take`.

    Returns:
        A table with the columns of `journal.SCHEMA`; `count` is null.
    """
    audit = flow.audit
    # Verdicts are a table if the messages were one.
    status = flow.verdicts.select(["status"]).take(audit["row"])["status"]
    columns = {
        "time": audit["time"],
        "trigger": pa.array([f"mapper:{channel}" for channel in audit["channel"].to_pylist()], pa.string()),
        "key": audit["id"],
        "status": status.cast(pa.string()),
        "rule": audit["rule"].cast(pa.string()),
        "message": audit["text"],
        "count": pa.nulls(audit.num_rows, pa.int64()),
        "row": audit["row"].cast(pa.int64()),
    }
    return pa.table(columns, schema=SCHEMA)


def write(flow: _Flow, *, logger: logging.Logger | None = None, most: int = 1_000, sinks: Sequence[Sink] = ()) -> int:
    """Put the audit records of one batch into the journal.

    Args:
        flow: as in `records`.
        logger: where to log, at the level of the audit record (SUCCESS as INFO); the logger
            `dochistory.journal`, if absent. Each log record has its fields in its attribute
            `dochistory`.
        most: the maximum number of records that go to `logging` one by one; one more record has the
            number of the others.
        sinks: get every record, before anything is logged; what they raise is raised here.

    Returns:
        int: how many there were.
    """
    found = records(flow)
    if not found.num_rows:
        return 0
    for sink in sinks:
        sink.write(found)
    log = logger or logging.getLogger(LOGGER)
    levels = flow.audit["level"].to_pylist()
    for level, record in zip(levels, found.slice(0, most).to_pylist(), strict=False):
        log.log(
            _LEVEL[level],
            "%s %s %s key=%s: %s",
            record["trigger"],
            record["status"],
            record["rule"],
            json.dumps(record["key"]),  # an id may hold anything, line ends too
            record["message"],
            extra={"dochistory": record},
        )
    if found.num_rows > most:
        worst = max(_LEVEL[level] for level in levels)
        log.log(worst, "%s: %d more audit records", found["trigger"][0].as_py(), found.num_rows - most)
    return int(found.num_rows)
