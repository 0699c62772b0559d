"""The journal: a record of every document that was not simply processed.

```python
from dochistory import journal

claim = history.begin(documents, trigger)
journal.write(documents, claim.verdicts, trigger)  # through `logging`, logger "dochistory.journal"
sinks = [journal.ParquetSink("journal/")]
journal.write(documents, claim.verdicts, trigger, sinks=sinks)  # and every one to files
```

There is a record for each DUPLICATE and each IN_DOUBT, never one for NEW. Sinks get all of them, as
columns. `logging` gets at most `most` of each status a batch, spread over the batch, and always one
summary of the records left out: a million duplicates cost what a thousand cost, and nothing is
dropped silently.

`read` and `follow` read the files of sinks. `journal.mapper` adds the audit records of message id
mappers.
"""

from dochistory.journal import mapper
from dochistory.journal.reading import Filter, as_json_lines, follow, read
from dochistory.journal.sinks import SCHEMA, JsonLinesSink, ParquetSink, Sink
from dochistory.journal.writing import LOGGER, Summary, records, write

__all__ = [
    "LOGGER",
    "SCHEMA",
    "Filter",
    "JsonLinesSink",
    "ParquetSink",
    "Sink",
    "Summary",
    "as_json_lines",
    "follow",
    "mapper",
    "read",
    "records",
    "write",
]
