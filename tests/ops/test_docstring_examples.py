"""The examples in docstrings: each is Python, and runs as it stands."""

import ast
import re
import sqlite3
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import documents, trigger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = Path(dh.__file__).parent
EXAMPLE = re.compile(r"^( *)```(python|toml)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def examples(language: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for text in docstrings(path):
            for number, (_, of, code) in enumerate(EXAMPLE.findall(text)):
                if of == language:
                    name = f"{path.relative_to(PACKAGE)}-{len(found)}-{number}"
                    found[name] = textwrap.dedent(code)
    return found


PYTHON = examples("python")
OF_SPARK = [name for name in PYTHON if name.startswith("spark/") or "brokers" in name]
RECEIVERS: dict[str, Any] = {
    "aio_rabbitmq": dh.aio_rabbitmq.Receiver,
    "kafka": dh.kafka.Receiver,
    "kafka_share": dh.kafka_share.Receiver,
    "rabbitmq": dh.rabbitmq.Receiver,
    "sqs": dh.sqs.Receiver,
    "stomp": dh.stomp.Receiver,
}
OF_RECEIVERS = [name for name in PYTHON if name.partition(".")[0] in RECEIVERS]
ALONE = [name for name in PYTHON if name not in (*OF_SPARK, *OF_RECEIVERS)]


class _OverError(Exception):
    """The broker has nothing more: leaves an endless loop."""


class Broker:
    """Hands out one batch."""

    def __init__(self) -> None:
        self.batches = [documents(["a", "b"])]

    def receive(self) -> pa.RecordBatch:
        if not self.batches:
            raise _OverError
        return self.batches.pop()

    def acknowledge(self, verdicts: pa.RecordBatch) -> None:
        assert "NO" not in verdicts["acknowledge"].to_pylist()


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What examples take for granted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    orders = trigger(history_time_to_live="30 days")
    Path("dochistory.toml").write_text("[triggers.orders]\ndetect_duplicates = true\nuse_history = true\n")
    jobs = sqlite3.connect(tmp_path / "is.db")
    jobs.execute("create table history (trigger text, uuid text, status text, time text)")
    jobs.commit()
    jobs.close()
    with dh.open("orders.history", create=True) as history, dh.Consumer("orders.history", orders) as consumer:
        for key in ("x", "y"):
            history.begin(documents([key]), orders)
        again = documents(["x", "y"])
        claim = history.begin(again, orders, audit=True)
        dh.journal.write(again, claim.verdicts, orders, sinks=[dh.journal.ParquetSink("journal/")])
        yield {
            "__name__": "example",
            "dh": dh,
            "history": history,
            "trigger": orders,
            "documents": documents(["a", "b", None]),
            "batches": [documents(["l", "m"])],
            "table": pa.table({"ApproximateReceiveCount": ["1", "3"]}),
            "broker": Broker(),
            "consumer": consumer,
            "message": SimpleNamespace(id="m"),
            "n": 0,
            "body": b"of m",
            "by_sql": dh.resolvers.by_sql,
            "psycopg": SimpleNamespace(connect=lambda _: sqlite3.connect(tmp_path / "is.db")),
            "mapper": history.mapper("jms"),
            "messages": pa.table({"id": ["1", "2"]}),
            "process": len,
            "ship": lambda message: message.body,
            "service": lambda new, *_: new.num_rows,
            "consume": lambda _: None,
            "brokers": dh.brokers,
            "apply": lambda table, _: table.num_rows,
        }


@pytest.mark.parametrize("name", PYTHON)
def test_an_example_is_python(name: str) -> None:
    compile(PYTHON[name], name, "exec")


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
def test_an_example_runs(name: str, names: dict[str, Any]) -> None:
    code = PYTHON[name]
    if "[17]" in code:  # a number of the audit log
        code = code.replace("17", str(names["history"].audit.list(state="open")["number"][0].as_py()))
    try:
        exec(compile(code, name, "exec"), names)
    except _OverError:
        assert "while True:" in code


@pytest.mark.parametrize("name", OF_RECEIVERS)
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")  # boto3's own
def test_an_example_makes_a_receiver_and_runs_it(
    name: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the broker: `tests/brokers` runs receivers with brokers."""
    run: list[object] = []
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")

    async def run_async(receiver: object) -> None:
        run.append(receiver)

    def run_sync(receiver: object) -> None:
        run.append(receiver)

    is_async = name.startswith("aio_")
    monkeypatch.setattr(RECEIVERS[name.partition(".")[0]], "run", run_async if is_async else run_sync)
    exec(compile(PYTHON[name], name, "exec"), names)
    assert len(run) == 1


def test_each_receiver_has_an_example() -> None:
    assert [name.partition(".")[0] for name in OF_RECEIVERS] == sorted(RECEIVERS)


def test_the_examples_of_settings_are_read(tmp_path: Path) -> None:
    (example,) = examples("toml").values()
    file = tmp_path / "dochistory.toml"
    file.write_text(example.replace("shop.resolvers:orders", "tests.support:documents"))
    found = dh.triggers_from_toml(file)["orders"]
    assert (found.history_time_to_live.days, found.suspend_and_retry_on_error) == (30, False)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", OF_SPARK)
def test_an_example_of_spark_runs(name: str, names: dict[str, Any], spark: "SparkSession") -> None:
    df = spark.createDataFrame([("o-1", 0), ("o-2", 1)], "uuid string, redelivery_count int")
    here = Path.cwd()  # Java's own is another
    df.write.parquet(str(here / "incoming"))
    df.createOrReplaceTempView("orders")
    stream = spark.readStream.schema(df.schema).parquet(str(here / "incoming"))
    names.update(spark=spark, df=df, stream=stream, yesterday=names["history"].stats()["created_at"])
    if "brokers" in name:
        names["df"] = (
            spark.createDataFrame([("3",)], "`attributes.ApproximateReceiveCount` string")
            .withColumnRenamed("attributes.ApproximateReceiveCount", "n")
            .selectExpr("named_struct('ApproximateReceiveCount', n) AS attributes")
        )
    code = PYTHON[name].replace('saveAsTable("orders")', f'parquet("{here / "out"}")')
    code = code.replace('"checkpoint"', f'"{here / "checkpoint"}"')
    try:
        exec(compile(code, name, "exec"), names)
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.catalog.dropTempView("orders")
