"""Fill a history from a DataFrame or from Parquet files, on all of Spark's workers."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

import dochistory as dh
from dochistory import _checks
from dochistory.spark import checks, compat
from dochistory.spark.decode import quoted
from dochistory.spark.load_files import Files
from dochistory.spark.place import Place
from dochistory.spark.same_bucket import BucketSight
from dochistory.spark.same_directory import Sight
from dochistory.spark.settings import COLUMNS, check_case
from dochistory.spark.shipped import iterating
from dochistory.spark.staging import attempt_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from dochistory import History, Trigger

_OWN = ("started_at", "status")
_STAGED = StructType([StructField("receipt", BinaryType())])

# Published together: large enough to be worth a commit, small enough to be done again.
_FILES_A_STEP = 64


def load(
    documents: "DataFrame | str | os.PathLike[str]",
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    *,
    columns: Mapping[str, str] | None = None,
    application: str | None = None,
    on_other_rows: Literal["error", "look_up"] = "error",
    files_a_step: int = _FILES_A_STEP,
    progress: Callable[[int, int, int], object] | None = None,
    maintain: bool = True,
    spark: "SparkSession | None" = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> int:
    """Record documents that were processed elsewhere, or before there was this history.

    Workers write the segments, this process publishes them. Files of Parquet are published step by
    step, and each step is a transaction: a load that breaks off and is started again goes on after
    the last step that was published.

    Args:
        documents: a DataFrame, or the path of Parquet files. With the trigger's id columns, and
            optionally `started_at` (timestamp: when the service began; now, if absent or null) and
            `status` (`completed` or `processing`; completed, if absent or null).
        history: the history, its directory, which every worker must see under the same path, or the
            URL of its bucket; it is created if it is not there.
        trigger: whose documents they are.
        columns: the trigger's name of a column, or `started_at` or `status` -> its name in
            `documents`.
        application: the name under which steps are remembered. For files it is made of their names,
            unless given; for a DataFrame there is none unless given, and then it is one step:
            loaded once under that name, and not again.
        on_other_rows: what is done with a step that was published before under this application
            with other rows: `error` raises before anything is recorded, `look_up` records its rows
            as well. The last step that was published is compared; those before it are passed over
            unread.
        files_a_step: files that are published together.
        progress: called after every step with the entries published so far, the steps done, and the
            steps in all.
        maintain: put small segments together at the end.
        spark: the session; the running one, if absent.
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like. They
            travel to the workers, and are shown nowhere; what is absent comes from the environment
            of each process, or from its machine's role.
        cache: for the URL of a bucket: a directory on a local disk of every machine, which keeps
            what was fetched; one below the system's directory for temporary files, if absent.

    Returns:
        The number of entries published; those of steps that an earlier run published do not count.

    Raises:
        SchemaError: [DH-SCHEMA] there is no id column, a row has no id or one of more than 96
            characters, or files differ in the type of a column.
        ConfigError: [DH-CONFIG] `documents` is neither a DataFrame of Spark nor a path,
            `files_a_step` is below 1, or another argument is none of the above.
        TransactionError: [DH-TRANSACTION] the steps are fewer than those that were loaded before
            under this application, or its last one had other rows.
    """
    _checks.trigger(trigger)
    _checks.columns(columns)
    _checks.count("files_a_step", files_a_step)
    _checks.function("progress", progress, optional=True)
    _checks.application(application)
    _checks.choice("on_other_rows", on_other_rows, ("error", "look_up"))
    steps: list[DataFrame]
    if isinstance(documents, str | os.PathLike):
        session = spark or compat.running_session()
        own = {name: name for name in (*COLUMNS[trigger.kind], *_OWN)}
        files = Files(session, os.fspath(documents), (own | dict(columns or {})).values())
        application = application or "load " + hashlib.sha256("\n".join(files.names).encode()).hexdigest()[:16]
        steps = files.steps(files_a_step)
    else:
        checks.frame("documents", documents)
        steps = [documents]
    place = Place.of(history, storage_options, cache)
    with place.opened(create=True) as opened:
        done = _already(opened, trigger, application)
        if done >= len(steps):
            raise _fewer(application, done + 1, len(steps))
        loaded = 0
        for number, step in enumerate(steps):
            # The last one that was published comes again, so that its rows are compared.
            if number >= done:
                transaction = None if application is None else (application, number)
                loaded += _step(step, place, opened, trigger, dict(columns or {}), transaction, on_other_rows)
            if progress is not None:
                progress(loaded, number + 1, len(steps))
        if maintain and loaded:
            opened.maintain(trigger, all=True)
    return loaded


def _fewer(application: str | None, before: int, now: int) -> dh.TransactionError:
    return dh.TransactionError(
        f"[DH-TRANSACTION] application {application!r} has loaded {before} steps before, and this load has {now}: "
        "other files, or another files_a_step? Nothing was recorded. Load under another application"
    )


def _already(history: "History", trigger: "Trigger", application: str | None) -> int:
    """The number of the last step that was published; -1 before the first."""
    known: Mapping[str, tuple[int, bool]] = history.stats(trigger)["transactions"]
    return -1 if application is None else known.get(application, (-1, True))[0]


def _step(
    df: "DataFrame",
    place: Place,
    history: "History",
    trigger: "Trigger",
    columns: dict[str, str],
    transaction: tuple[str, int] | None,
    on_other_rows: Literal["error", "look_up"],
) -> int:
    found = checks.columns(trigger, df.schema, {name: at for name, at in columns.items() if name not in _OWN})
    own = {name: columns.get(name, name) for name in _OWN}
    if missing := [own[name] for name in _OWN if name in columns and own[name] not in df.columns]:
        raise dh.SchemaError(f"[DH-SCHEMA] there is no column {missing[0]} among {', '.join(df.columns)}")
    check_case(own, df.columns)
    # Whatever else is in the rows stays where it is, and the rest gets the names that it goes by here.
    taken = {**found, **{name: at for name, at in own.items() if at in df.columns}}
    narrow = df.select(*(_taken(df, at).alias(name) for name, at in taken.items()))
    staged = narrow.mapInArrow(iterating(_staging(place.sight(history, trigger.name), trigger)), _STAGED)
    rows = compat.collect_arrow(staged)
    receipts = rows["receipt"].to_pylist()
    try:
        if not receipts:
            return 0
        return history._shards.commit_entries(receipts, trigger, transaction=transaction, on_other_rows=on_other_rows)
    except BaseException:
        history._shards.abort_entries(receipts)
        raise


def _taken(df: "DataFrame", name: str) -> "Column":
    """A column; a time without a zone, or a day, is one of the session's time zone, as everywhere in Spark."""
    is_local = df.schema[name].dataType.typeName() in ("timestamp_ntz", "date")
    return df[quoted(name)].cast("timestamp") if is_local else df[quoted(name)]


def _staging(
    sight: Sight | BucketSight, trigger: "Trigger"
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def staged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        with sight.open() as history:
            receipt = stage(history, trigger, chain([first], batches), first.schema)
        yield pa.RecordBatch.from_arrays([pa.array([receipt], pa.binary())], ["receipt"])

    return staged


def stage(
    history: "History",
    trigger: "Trigger",
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    columns: Mapping[str, str] | None = None,
) -> bytes:
    """Stage the documents of one task; answers the receipt by which they are published."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("documents are staged by tasks of Spark")
    job = history._shards.reserve(trigger, reads=False)
    documents = pa.RecordBatchReader.from_batches(schema, batches)
    attempt = attempt_name(context)
    try:
        return history._shards.stage_entries(
            documents, trigger, job=job.token, part=0, attempt=attempt, columns=columns or None
        )
    except BaseException:
        # Nobody else knows of the job, which keeps files from being removed for a week.
        with suppress(dh.DocHistoryError):
            job.abort()
        raise
