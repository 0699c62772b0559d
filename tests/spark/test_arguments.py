"""What makes no sense is said by a sentence with a code, by every entrance alike, and before anything is begun."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dochistory as dh
from dochistory.spark import compat
from tests.spark.support import TIME_TO_LIVE, orders, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

Call = Callable[["DataFrame", Any, Any], object]
HAS_SOURCES, HAS_TABLES = compat.has_data_sources(), compat.has_table_functions()


def nothing(*_: object) -> None:
    raise AssertionError("no service may run")


def _written(df: "DataFrame", history: Any, _: Any) -> None:
    writer = df.write.format("dochistory").mode("append").option("path", str(history))
    writer.option("trigger", "orders").option("history_time_to_live", TIME_TO_LIVE).save()


def _stream_written(df: "DataFrame", history: Any, _: Any) -> None:
    from dochistory.spark import sink

    sink.stream_writer({"path": str(history), "trigger": "orders"}, df.schema)


def _verdict(df: "DataFrame", history: Any, trigger: Any) -> None:
    # A plan of Spark names its columns, and no schema is known before.
    df.select(dh.spark.verdict(history, trigger, columns={"uuid": "uuid"}).status).collect()


def _table_function(df: "DataFrame", history: Any, trigger: Any) -> None:
    dh.spark.register_table(df.sparkSession, "classified", history, trigger, df.schema)


def _streamed(by: str) -> Call:
    def call(df: "DataFrame", history: Any, trigger: Any) -> None:
        handle = dh.spark.exactly_once(history, trigger, nothing, application="app", decide_on=by)  # type: ignore[arg-type]
        handle(df, 0)

    return call


def _registered(df: "DataFrame", history: Any, trigger: Any) -> None:
    dh.spark.register(df.sparkSession, "judged", history, trigger)
    df.selectExpr("judged(uuid).status").collect()


TAKES_IDS: dict[str, Call] = {
    "classify": lambda df, history, trigger: dh.spark.classify(df, history, trigger),
    "classify map": lambda df, history, trigger: dh.spark.classify(df, history, trigger, "map"),
    "verdict": _verdict,
    "register": _registered,
    "claim": lambda df, history, trigger: dh.spark.claim(df, history, trigger),
    "exactly_once driver": _streamed("driver"),
    "exactly_once executors": _streamed("executors"),
    "load": lambda df, history, trigger: dh.spark.load(df, history, trigger),
}
if HAS_TABLES:
    TAKES_IDS["register_table"] = _table_function
OPTIONS: dict[str, Call] = {"write": _written} if HAS_SOURCES else {}
if compat.has_stream_sink():
    OPTIONS["writeStream"] = _stream_written
TAKES_TRIGGERS: dict[str, Call] = {
    **TAKES_IDS,
    "keep_in_doubt": lambda _, history, trigger: dh.spark.keep_in_doubt(history, trigger),
    "audit_sink": lambda _, history, trigger: dh.spark.audit_sink(history, trigger),
    "consumer": lambda _, history, trigger: dh.Consumer(history, trigger),
    "suspension": lambda _, history, trigger: dh.Suspension(history, trigger),
}


def _read(df: "DataFrame", history: Any, _: Any) -> None:
    df.sparkSession.read.format("dochistory").option("path", str(history)).load().collect()


TAKES_PATHS: dict[str, Call] = {
    **TAKES_TRIGGERS,
    **OPTIONS,
    "open": lambda _, history, __: dh.open(history, create=True),
    "repair": lambda _, history, __: dh.repair(history),
    "exactly_once": lambda _, history, trigger: dh.spark.exactly_once(history, trigger, nothing),
    "send_once": lambda _, history, __: dh.spark.send_once(history, "channel", nothing),
    "delivery": lambda _, history, __: dh.spark.delivery(history, nothing),
    "sweeper": lambda _, history, trigger: dh.Sweeper(history, [trigger]),
    "statistics": lambda _, history, __: dh.Statistics(history),
}
if HAS_SOURCES:
    TAKES_PATHS |= {
        "format": _read,
        "read": lambda df, history, __: dh.spark.read(df.sparkSession, history),
    }


@pytest.fixture
def history(history_path: Path) -> Path:
    """A history with one document that ended."""
    with dh.open(history_path, create=True) as opened:
        opened.begin(rows(["done"]), orders()).complete()
    return history_path


def begun(history: Path) -> list[str]:
    with dh.open(history, read_only=True) as opened:
        return sorted(opened.entries(orders()).read_all()["key"].to_pylist())


RUNS_A_JOB = ("verdict", "register", "write")
"""Entrances that say it in a task."""
NO_IDS = {
    "array<string>": "array('x')",
    "struct<a:string>": "named_struct('a', 'x')",
    "map<string,string>": "map('a', 'x')",
    "double": "1.5D",
    "int": "7",
}


@pytest.mark.parametrize(
    ("entrance", "kind", "sql"),
    [
        pytest.param(entrance, kind, sql, marks=pytest.mark.slow if entrance in RUNS_A_JOB and kind != "int" else ())
        for entrance in [*TAKES_IDS, *OPTIONS]
        for kind, sql in NO_IDS.items()
    ],
)
def test_an_id_column_of_another_type_is_refused(
    spark: "SparkSession", history: Path, entrance: str, kind: str, sql: str
) -> None:
    df = spark.sql(f"SELECT {sql} AS uuid")
    with pytest.raises(Exception, match=r"\[DH-SCHEMA\] column .uuid. ") as refused:
        {**TAKES_IDS, **OPTIONS}[entrance](df, history, orders())
    if entrance not in ("verdict", "register"):  # there a worker says it, in Arrow's words
        assert f"is {kind}; allowed is string, or UUIDs as 16 bytes of binary" in str(refused.value)
    assert begun(history) == ["done"]


@pytest.mark.parametrize("entrance", [name for name in [*TAKES_IDS, *OPTIONS] if name not in ("register", "verdict")])
def test_a_count_or_flag_of_another_type_is_refused(spark: "SparkSession", history: Path, entrance: str) -> None:
    call = {**TAKES_IDS, **OPTIONS}[entrance]
    with pytest.raises(Exception, match="column 'redelivery_count' is string; allowed is tinyint"):
        call(spark.sql("SELECT 'x' AS uuid, '1' AS redelivery_count"), history, orders())
    with pytest.raises(Exception, match="column 'guaranteed' is int; allowed is boolean"):
        call(spark.sql("SELECT 'x' AS uuid, 1 AS guaranteed"), history, orders())
    with pytest.raises(Exception, match=r"\[DH-SCHEMA\] there are several columns 'uuid'"):
        call(spark.sql("SELECT 'x' AS uuid, 'y' AS uuid"), history, orders())
    assert begun(history) == ["done"]


BINARY = {
    **{name: call for name, call in TAKES_IDS.items() if not name.startswith(("exactly", "register_table", "load"))},
    "classify": lambda df, history, trigger: dh.spark.classify(df, history, trigger).collect(),
    "classify map": lambda df, history, trigger: dh.spark.classify(df, history, trigger, "map").collect(),
}


# Lengths show when rows come, and a stream's writer has the tasks of the other one.
LENGTHS = [*BINARY, "exactly_once driver", "exactly_once executors", "load", *(["write"] if HAS_SOURCES else [])]


@pytest.mark.parametrize(
    "entrance", [pytest.param(one, marks=pytest.mark.slow) if one == "classify" else one for one in LENGTHS]
)
def test_binary_of_another_length_is_refused(spark: "SparkSession", history: Path, entrance: str) -> None:
    df = spark.sql("SELECT X'0102030405' AS uuid")
    with pytest.raises(Exception, match=r"\[DH-SCHEMA\].*binary, and 5 bytes long in row 0; allowed is text"):
        {**TAKES_IDS, **OPTIONS, **BINARY}[entrance](df, history, orders())
    assert begun(history) == ["done"]


@pytest.mark.slow
def test_uuids_of_binary_work_at_every_entrance(spark: "SparkSession", history_path: Path) -> None:
    ids = [bytes([number]) * 16 for number in range(0x80, 0x87)]
    texts = [f"{one.hex()[:8]}-{one.hex()[8:12]}-{one.hex()[12:16]}-{one.hex()[16:20]}-{one.hex()[20:]}" for one in ids]

    def frame(place: int) -> "DataFrame":
        return spark.createDataFrame([(ids[place],), (None,)], "uuid binary").where("uuid IS NOT NULL")

    seen: list[object] = []

    def service(new: Any, _: object) -> None:
        seen.extend(bytes(row.uuid) for row in new.collect())

    for place, by in enumerate(("driver", "executors")):
        handle = dh.spark.exactly_once(history_path, orders(), service, application=by, decide_on=by)  # type: ignore[arg-type]
        handle(frame(place), 0)
    assert seen == ids[:2]
    assert dh.spark.load(frame(2), history_path, orders()) == 1
    with dh.spark.claim(frame(3), history_path, orders()) as claim:
        claim.complete(claim.new)
    known = 4
    if HAS_SOURCES:
        _written(frame(4), history_path, None)
        known = 5
    with dh.open(history_path) as opened:
        assert sorted(opened.entries(orders()).read_all()["key"].to_pylist()) == texts[:known]
    df = spark.createDataFrame([(one,) for one in ids], "uuid binary").coalesce(1)
    for how in ("udf", "map"):
        judged = dh.spark.classify(df, history_path, orders(), how).collect()
        assert [row.status for row in judged] == ["DUPLICATE"] * known + ["NEW"] * (7 - known)
        assert [row.key for row in judged] == texts


@pytest.mark.parametrize("entrance", TAKES_TRIGGERS)
@pytest.mark.parametrize("trigger", ["orders", None, {"name": "orders"}])
def test_what_is_no_trigger_is_refused(spark: "SparkSession", history: Path, entrance: str, trigger: Any) -> None:
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] trigger is .*; needed is a dochistory.Trigger"):
        TAKES_TRIGGERS[entrance](spark.sql("SELECT 'x' AS uuid"), history, trigger)


TAKES_FRAMES: dict[str, Call] = {
    "df": lambda df, history, trigger: dh.spark.classify(df, history, trigger),
    "df ": lambda df, history, trigger: dh.spark.claim(df, history, trigger),
    "df  ": lambda df, _, __: dh.spark.observed(df),
    "documents": lambda df, history, trigger: dh.spark.load(df, history, trigger),
    "frame": lambda df, history, trigger: dh.spark.exactly_once(history, trigger, nothing)(df, 0),
    "frame ": lambda df, history, _: dh.spark.send_once(history, "channel", nothing)(df, 0),
    "frame  ": lambda df, history, _: dh.spark.delivery(history, nothing)(df, 0),
    "frame   ": lambda df, history, trigger: dh.spark.audit_sink(history, trigger)(df, 0),
}


@pytest.mark.parametrize("name", TAKES_FRAMES)
def test_what_is_no_frame_of_spark_is_refused(history: Path, name: str) -> None:
    wrong: list[tuple[Any, str]] = [
        (rows(["x"]).to_pandas(), "pandas.DataFrame"),
        ([{"uuid": "x"}], "list"),
        (orders(), "dochistory.Trigger"),
    ]
    for given, kind in wrong:
        with pytest.raises(
            dh.ConfigError, match=rf"\[DH-CONFIG\] {name.strip()} is a {kind}; needed is a DataFrame of"
        ):
            TAKES_FRAMES[name](given, history, orders())
    assert begun(history) == ["done"]


def test_swapped_arguments_are_named(spark: "SparkSession", history: Path) -> None:
    df: Any = spark.sql("SELECT 'x' AS uuid")
    path: Any = history
    trigger: Any = orders()
    name: Any = "judged"
    calls: list[tuple[str, Callable[[], object]]] = [
        ("df is a ", lambda: dh.spark.classify(path, df, trigger)),
        ("trigger is ", lambda: dh.spark.classify(df, trigger, path)),
        ("history is a Trigger", lambda: dh.spark.classify(df, trigger, trigger)),
        ("trigger is ", lambda: dh.spark.exactly_once(trigger, path, nothing)),
        ("spark is a str", lambda: dh.spark.register(name, df.sparkSession, path, trigger)),
        ("spark is a ", lambda: dh.spark.ship(path)),
    ]
    if HAS_SOURCES:
        calls.append(("spark is a ", lambda: dh.spark.read(path, df.sparkSession)))
    if HAS_TABLES:
        calls.append(("schema is a ", lambda: dh.spark.register_table(df.sparkSession, name, path, trigger, name)))
    for said, call in calls:
        with pytest.raises(dh.ConfigError, match=rf"\[DH-CONFIG\] {said}.*; needed is"):
            call()
    assert begun(history) == ["done"]


def test_functions_for_batches_show_what_they_are_for(history: Path) -> None:
    path = str(history)
    assert repr(dh.spark.exactly_once(path, orders(), nothing)) == f"<ExactlyOnce of trigger 'orders' with {path!r}>"
    assert repr(dh.spark.send_once(path, "jms", nothing)) == f"<SendOnce of channel 'jms' with {path!r}>"
    assert repr(dh.spark.delivery(path, nothing)) == f"<Delivery with {path!r}>"
    options = {"aws_secret_access_key": "hush"}
    in_bucket = dh.spark.exactly_once("s3://ada:hush@bucket/h", orders(), nothing, storage_options=options)
    assert repr(in_bucket) == "<ExactlyOnce of trigger 'orders' with 's3://…@bucket/h'>"


def test_columns_that_are_no_mapping_are_refused(spark: "SparkSession", history: Path) -> None:
    df = spark.sql("SELECT 'x' AS id")
    wrong: Any = "id"
    calls: list[Callable[[], object]] = [
        lambda: dh.spark.classify(df, history, orders(), columns=wrong),
        lambda: dh.spark.verdict(history, orders(), columns=wrong),
        lambda: dh.spark.claim(df, history, orders(), columns=wrong),
        lambda: dh.spark.load(df, history, orders(), columns=wrong),
        lambda: dh.spark.exactly_once(history, orders(), nothing, columns=wrong),
        lambda: dh.spark.send_once(history, "channel", nothing, columns=wrong),
        lambda: dh.spark.delivery(history, nothing, columns=wrong),
        lambda: dh.spark.keep_in_doubt(history, orders(), columns=wrong),
        lambda: dh.spark.audit_sink(history, orders(), columns=wrong),
    ]
    for call in calls:
        with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] columns is 'id'; allowed is a mapping"):
            call()
    assert begun(history) == ["done"]


@pytest.mark.parametrize("parts", [0, -1, "2", 1.5, True])
def test_invalid_number_of_parts_is_refused(spark: "SparkSession", history: Path, parts: Any) -> None:
    df = spark.sql("SELECT 'x' AS uuid")
    calls: list[Callable[[], object]] = [
        lambda: dh.spark.claim(df, history, orders(), parts=parts),
        lambda: dh.spark.exactly_once(history, orders(), nothing, parts=parts),
        lambda: dh.spark.delivery(history, nothing, parts=parts),
        lambda: dh.open(history)._shards.reserve(orders(), parts),
    ]
    for call in calls:
        with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] parts is .*; allowed is a whole number from 1 on"):
            call()
    assert begun(history) == ["done"]


@pytest.mark.parametrize("given", [None, "service", 5])
def test_what_is_no_function_is_refused_before_a_batch(spark: "SparkSession", history: Path, given: Any) -> None:
    suspension = dh.Suspension(history, orders(), state=history.parent)
    calls: dict[str, Callable[[], object]] = {
        "service": lambda: dh.spark.exactly_once(history, orders(), given),
        "service ": lambda: dh.spark.send_once(history, "channel", given),
        "apply": lambda: dh.spark.delivery(history, given),
        "handle": lambda: dh.spark.suspending(given, suspension),
    }
    if given is not None:
        calls |= {
            "on_verdicts": lambda: dh.spark.exactly_once(history, orders(), nothing, on_verdicts=given),
            "on_verdicts ": lambda: dh.spark.send_once(history, "channel", nothing, on_verdicts=given),
            "on_poll": lambda: dh.spark.delivery(history, nothing, on_poll=given),
            "on_answers": lambda: dh.spark.delivery(history, nothing, on_answers=given),
            "applied": lambda: dh.spark.delivery(history, nothing, applied=given),
            "progress": lambda: dh.spark.load(spark.sql("SELECT 'x' AS uuid"), history, orders(), progress=given),
        }
    for name, call in calls.items():
        with pytest.raises(dh.ConfigError, match=rf"\[DH-CONFIG\] {name.strip()} is {given!r}; allowed is a function"):
            call()
    assert begun(history) == ["done"]


@pytest.mark.parametrize("application", ["", 5])
def test_what_names_no_application_is_refused(spark: "SparkSession", history: Path, application: Any) -> None:
    df = spark.sql("SELECT 'x' AS uuid")
    calls: list[Callable[[], object]] = [
        lambda: dh.spark.exactly_once(history, orders(), nothing, application=application),
        lambda: dh.spark.send_once(history, "channel", nothing, application=application),
        lambda: dh.spark.delivery(history, nothing, application=application),
        lambda: dh.spark.audit_sink(history, orders(), application=application),
        lambda: dh.spark.load(df, history, orders(), application=application),
        lambda: dh.spark.claim(df, history, orders(), transaction=(application, 1)),
    ]
    for call in calls:
        with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] (application|transaction) is .*not empty"):
            call()
    assert begun(history) == ["done"]


@pytest.mark.parametrize("entrance", TAKES_PATHS)
@pytest.mark.parametrize("url", ["hdfs://node/h", "dbfs:/h"])
def test_a_path_that_is_no_directory_is_refused(spark: "SparkSession", tmp_path: Path, entrance: str, url: str) -> None:
    df = spark.sql("SELECT 'x' AS uuid")
    scheme = url.partition(":")[0]
    with pytest.raises(Exception, match=rf"\[DH-OPEN\] {scheme}:/.*`{scheme}:` URLs are not supported here"):
        TAKES_PATHS[entrance](df, url, orders())
    assert list(tmp_path.iterdir()) == []


def test_missing_history_gets_no_advice_to_create(spark: "SparkSession", tmp_path: Path) -> None:
    df = spark.sql("SELECT 'x' AS uuid")
    for entrance in ("classify", "verdict", "register"):
        with pytest.raises(dh.OpenError, match="there is no history here: name the directory"):
            TAKES_IDS[entrance](df, tmp_path / "nowhere", orders())
    assert list(tmp_path.iterdir()) == []


def test_a_file_url_is_the_path_that_it_names(spark: "SparkSession", tmp_path: Path) -> None:
    home = tmp_path / "a b"
    home.mkdir()
    path = home / "test.history"
    df = spark.sql("SELECT 'x' AS uuid")
    with dh.open(path.as_uri(), create=True) as opened:
        assert opened.path == path
        opened.begin(rows(["done"]), orders()).complete()
    for url in (path.as_uri(), f"file:{path}", f"FILE://localhost{path}", Path(path.as_uri())):
        assert [row.status for row in dh.spark.classify(df, url, orders()).collect()] == ["NEW"]
        assert dh.local_path(url) == path
        if HAS_SOURCES:
            assert spark.read.format("dochistory").option("path", str(url)).load().count() == 1
    with pytest.raises(dh.OpenError, match='this names the machine "elsewhere"'):
        dh.open(f"file://elsewhere{path}")
    seen: list[int] = []
    handle = dh.spark.exactly_once(path.as_uri(), orders(), lambda new, _: seen.append(new.count()), application="app")
    handle(df, 0)
    assert seen == [1]
    assert begun(path) == ["done", "x"]
    assert sorted(one.name for one in home.iterdir()) == ["test.history"]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TABLES, reason="table functions of Arrow came with Spark 4.1")
def test_a_table_function_of_other_columns_says_so(spark: "SparkSession", history: Path) -> None:
    df = spark.sql("SELECT 'done' AS uuid, 'x' AS payload")
    dh.spark.register_table(spark, "classified", history, orders(), df.schema)
    df.createOrReplaceTempView("right_one")
    assert [row.status for row in spark.sql("SELECT * FROM classified(TABLE(right_one))").collect()] == ["DUPLICATE"]
    # Columns in another order would be taken for each other.
    for columns in ("payload", "payload, uuid", "uuid, payload, 1 AS more"):
        df.selectExpr(*columns.split(", ")).createOrReplaceTempView("wrong_one")
        with pytest.raises(
            Exception, match=r"\[DH-SCHEMA\] the table function classified was made for the columns uuid"
        ):
            spark.sql("SELECT * FROM classified(TABLE(wrong_one))").collect()
    with pytest.raises(dh.SchemaError, match="none of the id columns"):
        dh.spark.register_table(spark, "lacking", history, orders(), df.select("payload").schema)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "import pyspark; pyspark.__version__ = '3.4.4'",
            "[DH-SPARK] dochistory.spark needs Spark 3.5 or later; this is",
        ),
        ("import sys; sys.modules['pyspark'] = None", "[DH-SPARK] dochistory.spark needs PySpark: pip install"),
    ],
)
def test_a_spark_that_will_not_do_is_said_at_import(script: str, said: str) -> None:
    command = [sys.executable, "-c", f"{script}; import dochistory as dh; dh.spark.classify"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert said in run.stderr.splitlines()[-1]


def test_connect_without_grpcio_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "find_spec", lambda name: None if name == "grpc" else name)
    with pytest.raises(
        compat.UnsupportedError, match=r"\[DH-SPARK\] Spark Connect needs grpcio: pip install 'dochistory"
    ):
        dh.spark.session(master="sc://localhost:15002")


async def later(*_: object) -> None:
    """Calling it runs nothing."""


@pytest.mark.parametrize("service", [later, lambda *_: (yield)])
def test_services_that_a_call_does_not_run_are_refused(tmp_path: Path, service: Any) -> None:
    for make in (
        lambda: dh.spark.exactly_once(tmp_path, orders(), service),
        lambda: dh.spark.send_once(tmp_path, "channel", service),
    ):
        with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] the service "):
            make()


@pytest.mark.parametrize("by", ["driver", "executors"])
def test_what_returns_a_coroutine_has_not_ended(spark: "SparkSession", tmp_path: Path, by: Any) -> None:
    handle = dh.spark.exactly_once(tmp_path / "h", orders(), lambda *_: later(), application="app", decide_on=by)
    with pytest.raises(dh.ConfigError, match="returned a coroutine, whose work has not ended"):
        handle(spark.createDataFrame([("a",)], "uuid string"), 0)
    with dh.open(tmp_path / "h") as history:
        assert history.classify(rows(["a"]), orders())["status"].to_pylist() == ["IN_DOUBT"]
