"""Frames as users have them: odd names, the verdicts' names taken, files that differ, times without a zone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from tests.spark.support import orders
from tests.support import entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BY = ["driver", "executors"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "orders.history"


@pytest.fixture
def exact_case(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


def begin(home: Path, *ids: str) -> None:
    with dh.open(home, create=True) as history:
        history.begin(pa.table({"uuid": [*ids]}), orders())


def known(home: Path) -> dict[str, str]:
    with dh.open(home, read_only=True) as history:
        return {row["key"]: row["status"] for row in entries(history, orders())}


def kept(home: Path) -> list[str]:
    with dh.open(home) as history:
        return [row["key"] for row in history.audit.list().to_pylist()]


def handle(home: Path, by: str, **options: Any) -> Any:
    def service(new: DataFrame, _: Any) -> None:
        new.count()

    return dh.spark.exactly_once(home, orders(), service, application="a", decide_on=by, **options)  # type: ignore[arg-type]


def write(frame: DataFrame, home: Path, **options: str) -> None:
    writer = frame.write.format("dochistory").mode("append").option("path", str(home)).option("trigger", "orders")
    writer.options(history_time_to_live="2 hours", **options).save()


@pytest.mark.parametrize("by", BY)
def test_doubts_are_kept_where_a_column_is_called_key(spark: SparkSession, home: Path, by: str) -> None:
    begin(home, "p")
    frame = spark.createDataFrame([("p", "k"), ("new", "k")], "uuid string, key string")
    handle(home, by, on_verdicts=dh.spark.keep_in_doubt(home, orders()))(frame, 0)
    assert kept(home) == ["p"]
    assert known(home) == {"new": "completed", "p": "processing"}


@pytest.mark.parametrize("by", BY)
def test_doubts_are_those_of_the_batch_not_of_its_own_columns(spark: SparkSession, home: Path, by: str) -> None:
    begin(home, "z")
    frame = spark.createDataFrame([("p",), ("q",)], "uuid string")
    judged = dh.spark.classify(frame, home, orders()).localCheckpoint()
    begin(home, "p")
    handle(home, by, on_verdicts=dh.spark.keep_in_doubt(home, orders()))(judged, 0)
    assert kept(home) == ["p"]


@pytest.mark.parametrize("by", BY)
def test_documents_are_new_again_where_doubts_are_not_kept(spark: SparkSession, home: Path, by: str) -> None:
    begin(home, "p")
    frame = spark.createDataFrame([("p",), ("new",)], "uuid string")

    def full(_: Any) -> None:
        raise OSError("no space is left")

    with pytest.raises(OSError, match="no space"):
        handle(home, by, on_verdicts=full)(frame, 0)
    assert known(home) == {"p": "processing"}
    # Once a service has seen them, nothing is given back.
    broken = dh.spark.exactly_once(home, orders(), lambda *_: 1 / 0, application="a", decide_on=by)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        broken(frame, 0)
    with pytest.raises(OSError, match="no space"):
        handle(home, by, on_replay="rerun", on_verdicts=full)(frame, 0)
    assert known(home) == {"new": "processing", "p": "processing"}


def test_a_claim_completes_what_the_id_columns_name(spark: SparkSession, home: Path) -> None:
    frame = spark.createDataFrame([("n1",), ("n2",)], "uuid string")
    with dh.spark.claim(frame, home, orders()) as claim:
        claim.complete(spark.createDataFrame([("n1", "n2")], "uuid string, key string"))
        claim.release(claim.documents.where("uuid = 'n2'").select("key"))
    assert known(home) == {"n1": "completed"}


def test_a_row_without_a_status_is_what_record_says(spark: SparkSession, home: Path) -> None:
    frame = spark.sql("select 'a' uuid, cast(null as string) status union all select 'b', 'completed'")
    writer = frame.write.format("dochistory").mode("append").option("path", str(home)).option("trigger", "orders")
    writer.option("record", "processing").option("history_time_to_live", "2 hours").save()
    assert known(home) == {"a": "processing", "b": "completed"}


@pytest.mark.parametrize("by", BY)
def test_names_with_a_backtick_or_a_dot_are_names(spark: SparkSession, home: Path, by: str) -> None:
    frame = spark.createDataFrame([("a", "x", "y")], "`i``d` string, `odd``name` string, `b.c` string")
    handle(home, by, columns={"uuid": "i`d"})(frame, 0)
    assert known(home) == {"a": "completed"}
    for how in ("udf", "map"):
        judged = dh.spark.classify(frame, home, orders(), columns={"uuid": "i`d"}, how=how)
        assert [row["status"] for row in judged.collect()] == ["DUPLICATE"]


def test_names_that_spark_cannot_tell_apart_are_refused(spark: SparkSession, home: Path) -> None:
    frame = spark.createDataFrame([("a", "1", "2")], "uuid string, x string, X string")
    with pytest.raises(dh.SchemaError, match=r"'x' and 'X' from each other"):
        dh.spark.claim(frame, home, orders())
    with pytest.raises(dh.SchemaError, match=r"'x' and 'X' from each other"):
        dh.spark.classify(frame, home, orders())


ENTRANCES: dict[str, Callable[[DataFrame, Path], object]] = {
    "classify": lambda frame, home: dh.spark.classify(frame, home, orders()),
    "claim": lambda frame, home: dh.spark.claim(frame, home, orders()),
    "exactly_once": lambda frame, home: handle(home, "driver")(frame, 0),
    "load": lambda frame, home: dh.spark.load(frame, home, orders()),
    "write": lambda frame, home: write(frame, home),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("names", [("UUID", "event_id"), ("uuid", "Event_ID")])
def test_a_column_in_another_case_is_not_passed_over(
    spark: SparkSession, home: Path, entrance: str, names: tuple[str, str]
) -> None:
    begin(home, "a")
    frame = spark.createDataFrame([("a", "e")], [*names])
    with pytest.raises(Exception, match=r"\[DH-SCHEMA\] there is a column '(UUID|Event_ID)' and no '(uuid|event_id)'"):
        ENTRANCES[entrance](frame, home)
    assert known(home) == {"a": "processing"}
    judged = dh.spark.classify(frame, home, orders(), columns={"uuid": names[0], "event_id": names[1]})
    assert [row["status"] for row in judged.collect()] == ["IN_DOUBT"]


@pytest.mark.parametrize("entrance", ["load", "write"])
def test_a_status_in_another_case_is_not_passed_over(spark: SparkSession, home: Path, entrance: str) -> None:
    begin(home, "a")
    frame = spark.createDataFrame([("b", "processing")], "uuid string, Status string")
    with pytest.raises(Exception, match=r"\[DH-SCHEMA\] there is a column 'Status' and no 'status'"):
        ENTRANCES[entrance](frame, home)
    assert known(home) == {"a": "processing"}
    write(frame, home, **{"columns.status": "Status"})
    assert known(home) == {"a": "processing", "b": "processing"}


@pytest.mark.usefixtures("exact_case")
def test_names_may_differ_by_case_where_the_session_says_so(spark: SparkSession, home: Path) -> None:
    frame = spark.createDataFrame([("a", "1", "2")], "uuid string, x string, X string")
    handle(home, "executors")(frame, 0)
    assert known(home) == {"a": "completed"}


@pytest.mark.usefixtures("spark")
def test_each_file_is_loaded_whatever_its_name(home: Path, tmp_path: Path) -> None:
    files = tmp_path / "seen"
    files.mkdir()
    names = ["ids1", "ids[1]", "ids{a,b}", "ids*", "ids?", "i d%20s"]
    for number, name in enumerate(names):
        pq.write_table(pa.table({"uuid": [f"{number}-a", f"{number}-b"]}), files / f"{name}.parquet")
    assert dh.spark.load(str(files), home, orders(), files_a_step=2) == 2 * len(names)
    assert set(known(home)) == {f"{number}-{one}" for number in range(len(names)) for one in "ab"}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("files_a_step", [1, 64])
def test_a_column_that_one_file_lacks_counts_in_the_others(home: Path, tmp_path: Path, files_a_step: int) -> None:
    files = tmp_path / "seen"
    files.mkdir()
    pq.write_table(pa.table({"uuid": ["a"]}), files / "a.parquet")
    pq.write_table(pa.table({"uuid": ["b"], "status": ["processing"]}), files / "b.parquet")
    assert dh.spark.load(str(files), home, orders(), files_a_step=files_a_step) == 2
    assert known(home) == {"a": "completed", "b": "processing"}


@pytest.mark.usefixtures("spark")
def test_files_that_differ_in_what_is_looked_at_are_refused(home: Path, tmp_path: Path) -> None:
    files = tmp_path / "seen"
    files.mkdir()
    pq.write_table(pa.table({"uuid": ["a"], "status": ["processing"]}), files / "a.parquet")
    pq.write_table(pa.table({"uuid": ["b"], "status": [1]}), files / "b.parquet")
    with pytest.raises(dh.SchemaError, match=r"column status is .* in .*\.parquet, and .* in .*\.parquet"):
        dh.spark.load(str(files), home, orders())
    assert not home.exists()


@pytest.mark.usefixtures("spark")
def test_files_may_differ_in_what_is_not_looked_at(home: Path, tmp_path: Path) -> None:
    files = tmp_path / "seen"
    files.mkdir()
    for name, payload in (("a", [1]), ("b", ["text"])):
        pq.write_table(pa.table({"uuid": [name], "payload": payload}), files / f"{name}.parquet")
    assert dh.spark.load(str(files), home, orders()) == 2
    assert known(home) == {"a": "completed", "b": "completed"}


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_time_without_a_zone_is_one_of_the_session(spark: SparkSession, home: Path, kind: str) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.sql(f"select 'a' uuid, {kind} '2026-11-20 08:00:00' started_at")
        dh.spark.load(frame, home, orders())
        writer = frame.write.format("dochistory").mode("append").option("path", str(home)).option("trigger", "orders")
        if kind == "timestamp_ntz":
            with pytest.raises(Exception, match=r"column 'started_at' is timestamp_ntz; cast it to timestamp"):
                writer.option("history_time_to_live", "2 hours").save()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    with dh.open(home, read_only=True) as history:
        (entry,) = entries(history, orders())
    assert entry["started_at"].isoformat() == "2026-11-20T13:00:00+00:00"


def test_streams_are_applied_whatever_their_columns_are_called(spark: SparkSession, home: Path, tmp_path: Path) -> None:
    said = tmp_path / "applied"

    def apply(stream: str, messages: pa.Table) -> None:
        said.write_text(f"{stream} {messages['b.x'].to_pylist()} {messages['dh_commit'].num_chunks > 0}")

    take = dh.spark.delivery(home, apply, application="f", first_contact=True, messages="stream")
    take(spark.createDataFrame([("a", "(0-0-10-0)", "m1")], "stream string, header string, `b.x` string"), 0)
    assert said.read_text() == "a ['m1'] True"


def test_a_stream_whose_messages_are_not_made_is_in_no_doubt(spark: SparkSession, home: Path) -> None:
    frame = spark.sql("select 'a' stream, '(0-0-10-0)' header, interval '1-2' year to month months")
    take = dh.spark.delivery(home, lambda *_: None, application="f", first_contact=True, messages="arrow")
    for _ in range(2):
        with pytest.raises(Exception, match=r"[Ii]nterval"):
            take(frame, 0)
    with dh.open(home) as history:
        assert history.delivery(first_contact=True).in_doubt().num_rows == 0
