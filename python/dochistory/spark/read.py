"""A history as tables of Spark, by a function: what `spark.read.format("dochistory")` does by options."""

import datetime as dt
import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import dochistory as dh
from dochistory import _checks
from dochistory.spark import checks, compat
from dochistory.spark.options import STORAGE, TABLES, Table
from dochistory.spark.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dochistory import History, Trigger


def read(
    spark: "SparkSession",
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger | str | None" = None,
    *,
    table: Table = "entries",
    keys: Iterable[str] | None = None,
    status: Literal["processing", "completed"] | None = None,
    started_from: dt.datetime | None = None,
    started_to: dt.datetime | None = None,
    partitions: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> "DataFrame":
    """A table of a history; what the arguments leave out is not read.

    ```python
    dh.spark.read(spark, "orders.history", trigger, keys=["o-1", "o-2"])
    dh.spark.read(spark, "orders.history", trigger, status="processing", started_to=yesterday)
    ```

    Args:
        spark: the session; Spark 4.0 or later.
        history: the history, its directory, which every worker must see under the same path, or the
            URL of its bucket.
        trigger: the trigger, or its name; all, if absent.
        table: `entries` (`trigger`, `key`, `status`, `started_at`), `transactions` or `statistics`.
        keys: only the entries of these keys. They are looked up when Spark plans the read, however
            many others there are; up to some hundred thousand. For more, `classify` a DataFrame of
            them.
        status: only entries in this state. What is in progress is looked for only in files that
            hold some of it.
        started_from: only entries whose service began then or later, a datetime with a time zone.
        started_to: only entries whose service began earlier than that.
        partitions: tasks for each trigger; one a million entries, if absent. Of no use with `keys`.
        storage_options: for the URL of a bucket: region, endpoint and the like, as in `classify`,
            but no secrets: Spark shows what a read is given.
        cache: as in `classify`.

    Returns:
        DataFrame: the rows of the table; see docs/spark-more.md for its columns.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
        OpenError: [DH-OPEN] the path names neither a directory of this machine nor a bucket.
        UnsupportedError: before Spark 4.0.
    """
    compat.check_data_sources()
    checks.session(spark)
    _checks.choice("table", table, TABLES)
    _checks.count("partitions", partitions, optional=True)
    place = Place.of(history, storage_options, cache)
    name = trigger.name if isinstance(trigger, dh.Trigger) else trigger
    options = {
        "path": place.path,
        "cache": place.cache,
        **{STORAGE + option: str(value) for option, value in place.given.options.items()},
        "trigger": name,
        "table": table,
        "keys": None if keys is None else _listed(keys),
        "status": status,
        "from": _time("started_from", started_from),
        "to": _time("started_to", started_to),
        "partitions": None if partitions is None else str(partitions),
    }
    reader = spark.read.format("dochistory")
    return reader.options(**{option: value for option, value in options.items() if value is not None}).load()


def _listed(keys: Iterable[str]) -> str:
    listed = [keys] if isinstance(keys, str) else list(keys)
    if wrong := [key for key in listed if not isinstance(key, str)]:
        raise dh.ConfigError(f"[DH-CONFIG] keys has {wrong[0]!r}; allowed is text")
    return json.dumps(listed)


def _time(name: str, given: dt.datetime | None) -> str | None:
    if given is None:
        return None
    _checks.moment(name, given)
    return given.isoformat()
