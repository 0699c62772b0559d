"""`dochistory.spark.exactly_once`: each document is processed once, however often Spark hands a batch over."""

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import dochistory as dh
from dochistory.spark import compat
from tests.spark.support import Service, Stream, orders, rows, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


@pytest.fixture
def stream(spark: "SparkSession", tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


@pytest.fixture
def service() -> Service:
    return Service()


class Rules:
    """The rules of each batch, in the order in which they were begun."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, dict[str, int]]] = []

    def __call__(self, batch: Any) -> None:
        counts: dict[str, int] = {}
        for rule in batch.verdicts["rule"].to_pylist():
            counts[rule] = counts.get(rule, 0) + 1
        self.seen.append((batch.id, counts))


def handler(path: Path, service: Any, trigger: dh.Trigger | None = None, **options: Any) -> Any:
    return dh.spark.exactly_once(path, trigger or orders(), service, **{"documents": "arrow", **options})


def in_status(path: Path, status: Any) -> set[str]:
    with dh.open(path, read_only=True) as history:
        return set(pa.table(history.entries(orders(), status=status))["key"].to_pylist())


def test_every_document_is_processed_once_and_completed(stream: Stream, history_path: Path, service: Service) -> None:
    stream.add(["a", "b", "c"])
    stream.add(["d", "e"])
    stream.run(handler(history_path, service))

    assert service.runs == ["a", "b", "c", "d", "e"]
    assert in_status(history_path, "completed") == {"a", "b", "c", "d", "e"}
    assert in_status(history_path, "processing") == set()


def test_a_replayed_batch_runs_nothing_again(stream: Stream, history_path: Path, service: Service) -> None:
    stream.add(["a", "b"])
    stream.add(["c", "d"])
    rules = Rules()
    stream.run(handler(history_path, service, on_verdicts=rules))
    stream.forget_commit(1)
    stream.add(["e"])
    stream.run(handler(history_path, service, on_verdicts=rules))

    assert service.runs == ["a", "b", "c", "d", "e"]
    assert rules.seen == [(0, {"R8": 2}), (1, {"R8": 2}), (1, {"R9": 2}), (2, {"R8": 1})]


def test_what_a_broker_delivers_again_is_a_duplicate(stream: Stream, history_path: Path, service: Service) -> None:
    stream.add(["a", "b"])
    stream.add(["b", "c", "a"], redelivery_count=1)
    rules = Rules()
    stream.run(handler(history_path, service, on_verdicts=rules))

    assert service.runs == ["a", "b", "c"]
    assert rules.seen == [(0, {"R8": 2}), (1, {"R8": 1, "R9": 2})]


def test_second_consumer_of_a_history_gets_only_what_is_left(
    spark: "SparkSession", tmp_path: Path, history_path: Path, service: Service
) -> None:
    one, other = Stream(spark, tmp_path / "one"), Stream(spark, tmp_path / "other")
    one.add(["a", "b"])
    other.add(["b", "c"])
    one.run(handler(history_path, service))
    other.run(handler(history_path, service))

    assert service.runs == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("mode", "rule", "status"), [("serial", "R8+batch", "DUPLICATE"), ("concurrent", "R8+batch", "IN_DOUBT")]
)
def test_copies_within_a_batch_run_once(
    stream: Stream, history_path: Path, service: Service, mode: str, rule: str, status: str
) -> None:
    stream.add(["a", "b", "a", "a"])
    found: list[tuple[str, str]] = []

    def note(batch: Any) -> None:
        found.extend(
            zip(batch.verdicts["rule"].to_pylist(), batch.verdicts["status"].to_pylist(), strict=True),
        )

    stream.run(handler(history_path, service, orders(processing_mode=mode), on_verdicts=note))

    assert service.runs == ["a", "b"]
    assert found == [("R8", "NEW"), ("R8", "NEW"), (rule, status), (rule, status)]


def fail_once(stream: Stream, handle: Any, service: Service, failure: BaseException, after: int) -> None:
    """Let the service fail in its first batch, having run some documents."""
    service.fail_with, service.fail_after = failure, after
    with pytest.raises(StreamingQueryException, match=str(failure)):
        stream.run(handle)


def test_failed_batch_is_in_doubt_and_others_go_on(stream: Stream, history_path: Path, service: Service) -> None:
    stream.add(["a", "b", "c"])
    stream.add(["d"])
    rules = Rules()
    handle = handler(history_path, service, on_verdicts=rules)
    fail_once(stream, handle, service, ValueError("the service broke"), after=1)
    assert in_status(history_path, "processing") == {"a", "b", "c"}
    stream.run(handle)

    assert service.runs == ["a", "d"]
    assert rules.seen == [(0, {"R8": 3}), (0, {"R11": 3}), (1, {"R8": 1})]
    assert in_status(history_path, "processing") == {"a", "b", "c"}  # until a person has looked
    assert in_status(history_path, "completed") == {"d"}


def test_idempotent_service_may_rerun_a_failed_batch(stream: Stream, history_path: Path, service: Service) -> None:
    stream.add(["a", "b", "c"])
    stream.add(["d"])
    handle = handler(history_path, service, on_replay="rerun")
    fail_once(stream, handle, service, ValueError("the service broke"), after=1)
    stream.run(handle)
    stream.forget_commit(1)
    stream.run(handle)

    assert service.runs == ["a", "a", "b", "c", "d"]
    assert in_status(history_path, "processing") == set()


def test_rerun_omits_what_the_service_completed_itself(stream: Stream, history_path: Path) -> None:
    stream.add(["a", "b", "c"])
    stream.add(["d"])
    runs: list[list[str]] = []

    def service(new: pa.Table, batch: Any) -> None:
        runs.append(new["uuid"].to_pylist())
        if len(runs) == 1:
            batch.claim.complete(rows=[0])
            raise ValueError("the service broke")

    handle = handler(history_path, service, on_replay="rerun")
    with pytest.raises(StreamingQueryException, match="the service broke"):
        stream.run(handle)
    stream.run(handle)
    stream.forget_commit(1)
    stream.run(handle)

    assert runs == [["a", "b", "c"], ["b", "c"], ["d"]]
    assert in_status(history_path, "completed") == {"a", "b", "c", "d"}


def test_rerun_affects_only_the_batch_that_began_the_document(
    stream: Stream, history_path: Path, service: Service
) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(rows(["a"]), orders(), transaction=("somebody else", 0))
    stream.add(["a", "b"])
    stream.run(handler(history_path, service, on_replay="rerun"))

    assert service.runs == ["b"]
    assert in_status(history_path, "processing") == {"a"}


def test_after_a_failure_the_resolver_may_settle_each_document(
    stream: Stream, history_path: Path, service: Service
) -> None:
    stream.add(["a", "b", "c"])
    asked: list[str] = []

    def resolver(batch: pa.RecordBatch) -> list[str]:
        keys = batch.column("dh_key").to_pylist()
        asked.extend(keys)
        return ["DUPLICATE" if key in service.runs else "NEW" for key in keys]

    rules = Rules()
    handle = handler(history_path, service, orders(resolver=resolver), on_replay="resolver", on_verdicts=rules)
    fail_once(stream, handle, service, ValueError("the service broke"), after=1)
    stream.run(handle)

    assert asked == ["a", "b", "c"]
    assert service.runs == ["a", "b", "c"]
    assert rules.seen == [(0, {"R8": 3}), (0, {"R10>S2": 1, "R10>S1": 2})]


def test_a_rolled_back_batch_is_new_the_next_time(stream: Stream, history_path: Path, service: Service) -> None:
    stream.add(["a", "b"])
    rules = Rules()
    handle = handler(history_path, service, on_verdicts=rules)
    fail_once(stream, handle, service, dh.RolledBack("undone"), after=0)
    assert in_status(history_path, "processing") == set()
    stream.run(handle)

    assert service.runs == ["a", "b"]
    assert rules.seen == [(0, {"R8": 2}), (0, {"R8": 2})]


def test_completion_before_a_roll_back_stays_completed(stream: Stream, history_path: Path) -> None:
    stream.add(["a", "b", "c"])
    runs: list[str] = []

    def service(new: pa.Table, batch: Any) -> None:
        runs.extend(new["uuid"].to_pylist()[:2])
        if len(runs) == 2:
            batch.claim.complete(rows=[0, 1])
            raise dh.RolledBack("the rest was undone")

    with pytest.raises(StreamingQueryException, match="the rest was undone"):
        stream.run(handler(history_path, service))
    stream.run(handler(history_path, service))

    assert runs == ["a", "b", "c"]


def test_a_suspended_batch_is_delivered_again_and_loses_nothing(
    stream: Stream, history_path: Path, service: Service
) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(rows(["doubtful"]), orders())
    stream.add(["a", "doubtful", "b"])
    down = [True]

    def resolver(batch: pa.RecordBatch) -> list[str]:
        if down.pop() if down else False:
            raise dh.TransientError("the resolver is down")
        return ["NEW"] * batch.num_rows

    handle = handler(history_path, service, orders(resolver=resolver, resolver_attempts=1))
    with pytest.raises(StreamingQueryException, match=r"\[DH-SUSPENDED\] 2 of the 3 documents of batch 0"):
        stream.run(handle)
    assert service.runs == ["a"]
    stream.run(handle)

    assert service.runs == ["a", "doubtful", "b"]


@pytest.mark.parametrize("decide_on", ["driver", pytest.param("executors", marks=pytest.mark.slow)])
def test_a_new_checkpoint_under_an_old_application_is_refused(
    spark: "SparkSession", tmp_path: Path, history_path: Path, service: Service, decide_on: str
) -> None:
    old, new = Stream(spark, tmp_path / "old"), Stream(spark, tmp_path / "new")
    for ids in (["a"], ["b"], ["c"]):
        old.add(ids)
    new.add(["x"])
    handle = handler(history_path, service, application="orders-loader", decide_on=decide_on)
    old.run(handle)

    with pytest.raises(StreamingQueryException, match=r"DH-TRANSACTION.*orders-loader.*new checkpoint"):
        new.run(handle)
    assert service.runs == ["a", "b", "c"]


def test_a_service_may_take_a_spark_frame(stream: Stream, history_path: Path) -> None:
    stream.add(["a", "b"])
    stream.add(["b", "c"])
    got: list[tuple[int, list[str], list[str]]] = []

    def service(new: "DataFrame", batch: Any) -> None:
        taken = new.orderBy("uuid").collect()
        got.append((batch.id, new.columns, [row.payload for row in taken]))

    stream.run(handler(history_path, service, documents="spark"))

    columns = ["uuid", "redelivery_count", "payload"]
    assert got == [(0, columns, ["payload of a", "payload of b"]), (1, columns, ["payload of c"])]


def test_a_batch_outside_a_stream_needs_a_name_and_a_number(
    spark: "SparkSession", history_path: Path, service: Service
) -> None:
    frame = spark.createDataFrame(rows(["a", "b"]).to_pandas())
    with pytest.raises(dh.ConfigError, match="needs application="):
        handler(history_path, service)(frame, 0)
    with dh.open(history_path, create=True) as history:
        handle = dh.spark.exactly_once(history, orders(), service, application="backfill", documents="arrow")
        handle(frame, 0)
        handle(frame, 0)
        handle(frame, 1)

    assert service.runs == ["a", "b"]


def where_it_is_decided(spark: "SparkSession", history: Path, **options: Any) -> str:
    """Who decides a batch of two documents, of which one is new; both kinds of batches say the same of it."""
    seen: list[Any] = []
    frame = spark.createDataFrame(rows(["old", "new"]).to_pandas())
    with dh.open(history, create=True) as opened:
        opened.begin(rows(["old"]), orders()).complete()
    handle = dh.spark.exactly_once(
        history, orders(), lambda *_: None, application="who", on_verdicts=seen.append, **options
    )
    handle(frame, 0)
    (batch,) = seen
    assert batch.counts == {
        "status": {"DUPLICATE": 1, "NEW": 1},
        "action": {"DISCARD": 1, "PROCESS": 1},
        "rule": {"R8": 1, "R9": 1},
    }
    return {"Batch": "driver", "StagedBatch": "executors"}[type(batch).__name__]


@pytest.mark.parametrize(
    ("is_one_machine", "options", "who"),
    [
        (True, {}, "driver"),
        (True, {"parts": 2}, "executors"),
        (True, {"order_by": "uuid"}, "executors"),
        (False, {}, "executors"),
        (False, {"documents": "arrow"}, "driver"),
        (False, {"decide_on": "driver"}, "driver"),
        (True, {"decide_on": "executors"}, "executors"),
    ],
)
def test_auto_decides_by_where_the_tasks_run(
    spark: "SparkSession",
    history_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_one_machine: bool,
    options: dict[str, Any],
    who: str,
) -> None:
    assert compat.is_one_machine(spark)
    monkeypatch.setattr(compat, "is_one_machine", lambda _: is_one_machine)
    assert where_it_is_decided(spark, history_path, **options) == who


@pytest.mark.parametrize(
    ("master", "is_one"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
        ("", False),
    ],
)
def test_only_a_local_master_is_one_machine(master: str, is_one: bool) -> None:
    conf = SimpleNamespace(get=lambda name, _: {"spark.master": master}[name])
    session: Any = SimpleNamespace(conf=conf)
    assert compat.is_one_machine(session) is is_one


@pytest.mark.parametrize("decide_on", ["driver", "executors"])
@pytest.mark.parametrize("fails", [False, True])
def test_spark_keeps_no_rows_of_batches_that_ended(
    spark: "SparkSession", history_path: Path, decide_on: Any, *, fails: bool
) -> None:
    def service(new: "DataFrame", _batch: object) -> None:
        assert new.count() == 1
        if fails:
            raise dh.RolledBack

    handle = dh.spark.exactly_once(history_path, orders(), service, application="app", decide_on=decide_on)
    before = stored(spark)
    for number in range(2):
        with suppress(dh.RolledBack):
            handle(spark.createDataFrame([(f"kept-{number}",)], "uuid string"), number)
    assert not stored(spark) - before


def test_options_that_cannot_be_are_refused(history_path: Path, service: Service) -> None:
    with pytest.raises(dh.ConfigError, match="on_replay is one of in_doubt, resolver, rerun"):
        handler(history_path, service, on_replay="again")
    with pytest.raises(dh.ConfigError, match="documents is one of spark, arrow"):
        handler(history_path, service, documents="pandas")
    with pytest.raises(dh.ConfigError, match="decide_on is one of auto, driver, executors"):
        handler(history_path, service, decide_on="tasks")
    with pytest.raises(dh.ConfigError, match="parts and order_by are for executors"):
        handler(history_path, service, decide_on="driver", order_by=["uuid"])


BY_BOTH = pytest.mark.parametrize("decide_on", ["driver", "executors"])


@BY_BOTH
def test_released_documents_of_a_suspended_batch_are_left_out(
    spark: "SparkSession", history_path: Path, decide_on: str
) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(rows(["doubtful"]), orders())

    def later(_: pa.RecordBatch) -> list[str]:
        raise dh.TransientError("later")

    runs: list[str] = []

    def service(new: "DataFrame", batch: Any) -> None:
        runs.extend(row.uuid for row in new.collect())
        if decide_on == "driver":
            batch.claim.release(rows=[batch.verdicts["key"].to_pylist().index("n1")])
        else:
            batch.claim.release(["n1"])

    waiting = orders(resolver=later, resolver_attempts=1, processing_mode="serial")
    handle = handler(history_path, service, waiting, application="app", documents="spark", decide_on=decide_on)
    frame = spark.createDataFrame(
        [("n1", 0), ("n2", 0), ("n3", 0), ("doubtful", 1)], "uuid string, redelivery_count int"
    ).coalesce(1)
    with pytest.raises(dh.SuspendedError, match="1 of the 4 documents"):
        handle(frame, 0)
    assert runs == ["n1", "n2", "n3"]
    assert (in_status(history_path, "completed"), in_status(history_path, "processing")) == ({"n2", "n3"}, {"doubtful"})


@BY_BOTH
def test_a_roll_back_before_the_service_releases(spark: "SparkSession", history_path: Path, decide_on: str) -> None:
    def refuse(_: Any) -> None:
        raise dh.RolledBack("not today")

    frame = spark.createDataFrame(rows(["a"]).to_pandas())
    handle = handler(history_path, print, application="app", on_verdicts=refuse, documents="spark", decide_on=decide_on)
    with pytest.raises(dh.RolledBack):
        handle(frame, 0)
    assert in_status(history_path, "processing") == set()


@BY_BOTH
@pytest.mark.parametrize("name", ["key", "Action", "verdict_KEY, status"])
def test_batches_may_have_columns_named_like_verdicts(
    spark: "SparkSession", history_path: Path, name: str, decide_on: str
) -> None:
    schema = "uuid string, " + ", ".join(f"{one} string" for one in name.split(", "))
    runs: list[Any] = []
    handle = handler(
        history_path,
        lambda new, _: runs.extend(new.collect()),
        application="app",
        documents="spark",
        decide_on=decide_on,
    )
    handle(spark.createDataFrame([("a", *name.split(", "))], schema), 0)
    assert [tuple(row) for row in runs] == [("a", *name.split(", "))]
    assert in_status(history_path, "completed") == {"a"}


@BY_BOTH
def test_two_ids_may_come_from_one_column(
    spark: "SparkSession", history_path: Path, service: Service, decide_on: str
) -> None:
    frame = spark.createDataFrame(rows(["a"]).to_pandas())
    handler(history_path, service, application="app", decide_on=decide_on, columns={"track_id": "uuid"})(frame, 0)
    assert in_status(history_path, "completed") == {"a"}


@BY_BOTH
def test_a_batch_without_ids_is_refused_unbegun(
    spark: "SparkSession", history_path: Path, service: Service, decide_on: str
) -> None:
    frame = spark.createDataFrame([(None, "x"), ("", "y"), (None, "z")], "uuid string, payload string").repartition(2)
    with pytest.raises(dh.SchemaError, match=r"none of the 3 documents has an id: uuid is null or empty"):
        handler(history_path, service, application="app", decide_on=decide_on)(frame, 0)
    allowed = handler(history_path, service, orders(without_ids="in_doubt"), application="app", decide_on=decide_on)
    allowed(frame, 0)
    assert service.runs == []
