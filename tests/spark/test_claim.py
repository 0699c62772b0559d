"""`dochistory.spark.claim`: decided and staged by tasks, begun by one commit."""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.spark.support import orders, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


def frame(spark: "SparkSession", ids: Sequence[str | None]) -> "DataFrame":
    """One document per id, in order, in three partitions."""
    table = rows(ids).append_column("place", pa.array(range(len(ids)), pa.int32()))
    return spark.createDataFrame(table.to_pandas()).repartitionByRange(3, "place").sortWithinPartitions("place")


def verdicts(claim: Any) -> list[tuple[str | None, str | None, str, str]]:
    found = claim.documents.orderBy("place").collect()
    return [(row.uuid, row.status, row.action, row.rule) for row in found]


def known(path: Path, ids: list[str]) -> list[str]:
    with dh.open(path, read_only=True) as history:
        rules: list[str] = history.classify(pa.table({"uuid": ids}), orders())["rule"].to_pylist()
        return rules


def new_ids(claim: Any) -> list[str]:
    return sorted(row.uuid for row in claim.new.collect())


def test_every_row_gets_its_verdict_and_what_is_new_is_begun(spark: "SparkSession", history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(rows(["done"]), orders()).complete()
        history.begin(rows(["doubtful"]), orders())
    ids = ["a", "done", "b", "doubtful", "c", None, "x" * 97]
    with dh.spark.claim(frame(spark, ids), history_path, orders()) as claim:
        assert verdicts(claim) == [
            ("a", "NEW", "PROCESS", "R8"),
            ("done", "DUPLICATE", "DISCARD", "R9"),
            ("b", "NEW", "PROCESS", "R8"),
            ("doubtful", "IN_DOUBT", "LOG", "R11"),
            ("c", "NEW", "PROCESS", "R8"),
            (None, "IN_DOUBT", "LOG", "R3"),
            ("x" * 97, "IN_DOUBT", "LOG", "R4"),
        ]
        assert claim.new.columns == ["uuid", "redelivery_count", "payload", "place"]
        assert new_ids(claim) == ["a", "b", "c"]
        assert (len(claim), claim.rows) == (3, 7)
        assert claim.counts["status"] == {"DUPLICATE": 1, "IN_DOUBT": 3, "NEW": 3}
        assert claim.counts["rule"] == {"R11": 1, "R3": 1, "R4": 1, "R8": 3, "R9": 1}
        assert known(history_path, ["a", "b", "c"]) == ["R11"] * 3
        claim.complete()
    assert known(history_path, ["a", "b", "c", "doubtful"]) == ["R9"] * 3 + ["R11"]


def test_first_copy_in_the_order_of_the_frame_is_processed(spark: "SparkSession", history_path: Path) -> None:
    ids = ["a", "b", "a", "c", "b", "a", "d", "e", "a"]
    with dh.spark.claim(frame(spark, ids), history_path, orders(processing_mode="serial")) as claim:
        rules = [rule for *_, rule in verdicts(claim)]
        assert rules == ["R8", "R8", "R8+batch", "R8", "R8+batch", "R8+batch", "R8", "R8", "R8+batch"]
        assert claim.documents.where("rule = 'R8+batch'").select("status").distinct().collect()[0].status == "DUPLICATE"


def test_the_order_of_copies_may_be_given(spark: "SparkSession", history_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    with dh.spark.claim(frame(spark, ["a", "a", "b", "a"]), history_path, orders(), order_by=F.desc("place")) as claim:
        assert [rule for *_, rule in verdicts(claim)] == ["R8+batch", "R8+batch", "R8", "R8"]


def test_copies_meet_whichever_id_column_their_key_comes_from(spark: "SparkSession", history_path: Path) -> None:
    key = "0f8fad5b-d9cb-469f-a165-70867728950e"
    found = spark.createDataFrame(
        [(bytes.fromhex(key.replace("-", "")), None, 0), (None, key, 1), (None, "other", 2), (None, "", 3)],
        "uuid binary, track_id string, place int",
    )
    with dh.spark.claim(found, history_path, orders(processing_mode="serial"), parts=7) as claim:
        judged = claim.documents.orderBy("place").collect()
        assert [(row.rule, row.key) for row in judged] == [
            ("R8", key),
            ("R8+batch", key),
            ("R8", "other"),
            ("R3", None),
        ]


def test_claimed_documents_in_any_action_were_decided_once(spark: "SparkSession", history_path: Path) -> None:
    with dh.spark.claim(frame(spark, ["a", "b", "c", "a"]), history_path, orders()) as claim:
        claim.complete()
        assert claim.new.count() == 3
        assert claim.documents.limit(2).count() == 2
        claim.documents.show()
        both = claim.new.union(claim.new)
        assert both.groupBy("uuid").count().where("count = 2").count() == 3
        assert claim.documents.repartitionByRange(2, "uuid").where("action = 'PROCESS'").count() == 3
        assert claim.documents.alias("x").join(claim.new.alias("y"), "uuid").count() == 4
    assert known(history_path, ["a", "b", "c"]) == ["R9"] * 3


def test_documents_end_one_by_one_or_all_at_once(spark: "SparkSession", history_path: Path) -> None:
    with dh.spark.claim(frame(spark, ["a", "b", "c", "d", "e"]), history_path, orders()) as claim:
        claim.complete(claim.new.where("uuid in ('a', 'b')"))
        claim.release(claim.documents.where("uuid = 'c'"))
        claim.release(["d"])
        assert known(history_path, ["a", "b", "c", "d", "e"]) == ["R9", "R9", "R8", "R8", "R11"]
        with pytest.raises(dh.StateError, match="1 of 1 keys are not among the documents"):
            claim.complete(["z"])
        claim.complete()
    assert known(history_path, ["a", "b", "c", "d", "e"]) == ["R9", "R9", "R8", "R8", "R9"]


def test_error_leaves_documents_in_doubt_and_roll_back_makes_new(spark: "SparkSession", history_path: Path) -> None:
    with pytest.raises(ValueError, match="broke"), dh.spark.claim(frame(spark, ["a"]), history_path, orders()):
        raise ValueError("the service broke")
    with pytest.raises(dh.RolledBack), dh.spark.claim(frame(spark, ["b"]), history_path, orders()):
        raise dh.RolledBack("undone")
    assert known(history_path, ["a", "b"]) == ["R11", "R8"]


@pytest.mark.slow
def test_a_batch_that_comes_again_is_settled_by_policy(spark: "SparkSession", history_path: Path) -> None:
    def again(number: int, **options: Any) -> tuple[str | None, dict[str, int], list[str]]:
        with dh.spark.claim(
            frame(spark, ["a", "b"]),
            history_path,
            options.pop("trigger", orders()),
            transaction=("app", number),
            **options,
        ) as claim:
            if options.get("on_replay") == "rerun":
                claim.complete()
            return claim.replay, claim.counts["rule"], new_ids(claim)

    asked = orders(
        complete_resolved=False,
        resolver=lambda batch: ["NEW" if key == "a" else "DUPLICATE" for key in batch["dh_key"].to_pylist()],
    )
    assert again(1) == ("first", {"R8": 2}, ["a", "b"])
    assert again(1) == ("unfinished", {"R11": 2}, [])
    assert again(1, trigger=asked, on_replay="resolver") == ("unfinished", {"R10>S1": 1, "R10>S2": 1}, ["a"])
    with dh.open(history_path) as history:
        history.release(["a", "b"], orders())
    assert again(2) == ("first", {"R8": 2}, ["a", "b"])
    assert again(2, on_replay="rerun") == ("unfinished", {"R8": 2}, ["a", "b"])
    assert again(2, on_replay="rerun") == ("finished", {"R9": 2}, [])
    with pytest.raises(dh.TransactionError, match="a new checkpoint with an old application id"):
        again(1)


def test_a_resolver_on_the_driver_is_asked_once_about_all(spark: "SparkSession", history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(rows([f"d{number}" for number in range(20)]), orders())
    calls: list[list[str]] = []

    def resolver(batch: pa.RecordBatch) -> pa.Table:
        keys = batch["dh_key"].to_pylist()
        calls.append(sorted(keys))
        statuses = ["NEW" if int(key[1:]) < 5 else "DUPLICATE" for key in keys]
        return pa.table({"status": statuses, "message": [f"asked about {key}" for key in keys]})

    ids = [f"d{number}" for number in range(20)] + ["n1", "n2"]
    trigger = orders(resolver=resolver)
    with dh.spark.claim(frame(spark, ids), history_path, trigger, resolver_on="driver", parts=4) as claim:
        assert claim.counts["rule"] == {"R10>S1": 5, "R10>S2": 15, "R8": 2}
        assert new_ids(claim) == ["d0", "d1", "d2", "d3", "d4", "n1", "n2"]
        message = claim.documents.where("uuid = 'd7'").collect()[0].message
        assert "asked about d7" in message
    assert calls == [sorted(ids[:20])]


def test_resolver_on_driver_failing_temporarily_suspends(spark: "SparkSession", history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(rows(["d"]), orders())

    def resolver(_batch: pa.RecordBatch) -> list[str]:
        raise dh.TransientError("the database is down")

    trigger = orders(resolver=resolver)
    with dh.spark.claim(frame(spark, ["d"]), history_path, trigger, resolver_on="driver") as claim:
        assert claim.counts["rule"] == {"R10>S4": 1}


def between(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[dh.History], object]) -> None:
    """Let others do this after a claim's snapshot and before its commit: one step for each decision."""
    from dochistory.spark.claims import Claimer

    run, to_do = Claimer.run, list(steps)

    def run_late(self: Any, history: dh.History, *rest: Any) -> Any:
        if to_do:
            to_do.pop(0)(history)
        return run(self, history, *rest)

    monkeypatch.setattr(Claimer, "run", run_late)


def others_are_first(history: dh.History) -> None:
    history.begin(rows(["b", "x"]), orders()).complete()
    history.begin(rows(["c", "y"]), orders())


def test_what_others_begin_meanwhile_is_left_to_them(
    spark: "SparkSession", history_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(monkeypatch, others_are_first)
    evaluated = spark.sparkContext.accumulator(0)

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        evaluated.add(1)
        yield from batches

    documents = frame(spark, ["a", "b", "c", "d", "b", "c", None]).coalesce(1)
    documents = documents.mapInArrow(counted, documents.schema)
    with dh.spark.claim(documents, history_path, orders(processing_mode="serial"), transaction=("app", 1)) as claim:
        assert evaluated.value == 1
        expected = [
            ("a", "NEW", "PROCESS", "R8"),
            ("b", "DUPLICATE", "DISCARD", "R9"),
            ("c", "IN_DOUBT", "LOG", "R11"),
            ("d", "NEW", "PROCESS", "R8"),
            ("b", "DUPLICATE", "DISCARD", "R9"),
            ("c", "IN_DOUBT", "LOG", "R11"),
            (None, "IN_DOUBT", "LOG", "R3"),
        ]
        assert verdicts(claim) == expected
        assert verdicts(claim) == expected
        assert claim.documents.where("uuid = 'b'").select("message").distinct().collect()[0].message
        assert new_ids(claim) == ["a", "d"]
        assert new_ids(claim) == ["a", "d"]
        assert (len(claim), claim.rows) == (2, 7)
        assert claim.counts == {
            "status": {"DUPLICATE": 2, "IN_DOUBT": 3, "NEW": 2},
            "action": {"DISCARD": 2, "LOG": 3, "PROCESS": 2},
            "rule": {"R11": 2, "R3": 1, "R8": 2, "R9": 2},
        }
        with pytest.raises(dh.StateError, match="1 of 1 keys are not among the documents"):
            claim.complete(["c"])
        claim.complete()
    assert known(history_path, ["a", "b", "c", "d"]) == ["R9", "R9", "R11", "R9"]
    with dh.spark.claim(documents, history_path, orders(), transaction=("app", 1)) as claim:
        assert (claim.replay, new_ids(claim)) == ("finished", [])


def test_a_claim_that_loses_everything_begins_nothing(
    spark: "SparkSession", history_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(monkeypatch, others_are_first)
    with dh.spark.claim(frame(spark, ["b", "c"]), history_path, orders()) as claim:
        assert (claim.id, len(claim), new_ids(claim)) == (None, 0, [])
        assert claim.counts["rule"] == {"R11": 1, "R9": 1}
        claim.complete()
    assert known(history_path, ["b", "c"]) == ["R9", "R11"]


def test_a_resolver_settles_what_was_lost_and_new_is_begun(
    spark: "SparkSession", history_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(monkeypatch, others_are_first)
    trigger = orders(
        resolver=lambda batch: ["NEW" if key == "c" else "DUPLICATE" for key in batch["dh_key"].to_pylist()]
    )
    with dh.spark.claim(frame(spark, ["a", "b", "c", "y"]), history_path, trigger) as claim:
        rules = [rule for *_, rule in verdicts(claim)]
        assert rules == ["R8", "R9", "R10>S1", "R10>S2"]
        assert (new_ids(claim), len(claim)) == (["a", "c"], 2)
        assert known(history_path, ["c"]) == ["R11"]
        claim.complete()
    assert known(history_path, ["a", "c", "y"]) == ["R9", "R9", "R9"]


def test_of_more_losses_than_a_driver_decides_tasks_decide_again(
    spark: "SparkSession", history_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dochistory.spark import claims

    between(monkeypatch, others_are_first, lambda history: history.begin(rows(["d"]), orders()))
    monkeypatch.setattr(claims, "MOST", 1)
    with dh.spark.claim(frame(spark, ["a", "b", "c", "d"]), history_path, orders()) as claim:
        assert [rule for *_, rule in verdicts(claim)] == ["R8", "R9", "R11", "R11"]
    space = next((history_path / "triggers").iterdir())
    assert not [name.name for name in space.iterdir() if name.name.startswith(("new-", "pin-"))]


def test_a_transaction_that_others_keep_running_is_a_conflict(
    spark: "SparkSession", history_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(history: dh.History) -> None:
        history.begin(rows(["z"]), orders(), transaction=("app", 1)).release()

    between(monkeypatch, *[run] * 5)
    with pytest.raises(dh.ConflictError, match=r"another run of this transaction.*tried 5 times"):
        dh.spark.claim(frame(spark, ["z"]), history_path, orders(), transaction=("app", 1))
    assert known(history_path, ["z"]) == ["R8"]
    space = next((history_path / "triggers").iterdir())
    assert not [name.name for name in space.iterdir() if name.name.startswith(("new-", "pin-"))]


def test_a_frame_without_rows_is_a_batch_too(spark: "SparkSession", history_path: Path) -> None:
    empty = frame(spark, ["a"]).where("uuid = 'b'")
    with dh.spark.claim(empty, history_path, orders(), transaction=("app", 1)) as claim:
        assert (len(claim), claim.rows, claim.documents.count()) == (0, 0, 0)
        claim.complete()
    with dh.open(history_path, read_only=True) as history:
        assert history.stats(orders())["transactions"] == {"app": (1, True)}


def test_a_claim_starts_when_the_caller_says(spark: "SparkSession", history_path: Path) -> None:
    now = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
    with dh.spark.claim(frame(spark, ["a"]), history_path, orders(), now=now) as claim:
        assert claim.started_at == now
        assert "1 of 1 documents to process" in claim._repr_html_()


def test_what_cannot_be_claimed_is_refused(spark: "SparkSession", history_path: Path) -> None:
    documents = frame(spark, ["a"])
    with pytest.raises(dh.ConfigError, match="uses no history"):
        dh.spark.claim(documents, history_path, orders(use_history=False))
    with pytest.raises(dh.ConfigError, match="resolver_on"):
        dh.spark.claim(documents, history_path, orders(), resolver_on="mars")  # type: ignore[arg-type]
    with pytest.raises(dh.SchemaError, match="none of the id columns"):
        dh.spark.claim(documents.drop("uuid"), history_path, orders())
    for name in ("rule", "Rule"):
        with pytest.raises(dh.SchemaError, match=f"the column {name} exists already"):
            dh.spark.claim(documents.withColumnRenamed("payload", name), history_path, orders())
    assert dh.spark.claim(documents.withColumnRenamed("payload", "rule"), history_path, orders(), prefix="v_").rows == 1
