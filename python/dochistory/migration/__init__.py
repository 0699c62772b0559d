"""Migration from another history: the table of ids of a JDBC history, a broker or a home-made solution.

```python
import dochistory as dh
from dochistory import migration

table = "select trigger, uuid, status, time from history"
source = migration.dbapi(lambda: psycopg.connect("dbname=is"), table)
with dh.open("orders.history", create=True) as history:
    done = migration.import_history(history, source, dh.triggers_from_toml("dochistory.toml"))
    assert not done.differences.num_rows
```

Rows are read as a stream. Afterwards they are read once more, and the answers of both sides are
compared for a random sample of ids.
"""

from dochistory.migration.columns import TimeUnit
from dochistory.migration.importing import Imported, first_rows, import_history
from dochistory.migration.sources import Source, dbapi, rows_of

__all__ = ["Imported", "Source", "TimeUnit", "dbapi", "first_rows", "import_history", "rows_of"]
