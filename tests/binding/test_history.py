"""The history object: transactions, single documents, snapshots, upkeep, figures."""

from __future__ import annotations

import time
import types
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import T0, column, documents, entries, fresh_ids, rules, status_of, statuses, trigger


def test_a_transaction_is_known_when_it_comes_again(history: dh.History) -> None:
    first = history.begin(documents(["a"]), trigger(), transaction=("app", 7))
    again = history.begin(documents(["a"]), trigger(), transaction=("app", 7))
    again.complete()
    assert (first.replay, again.replay) == ("first", "unfinished")
    assert rules(again.verdicts) == ["R11"]


def test_a_rerun_hands_out_what_never_ended(history: dh.History) -> None:
    history.begin(documents(["a", "b"]), trigger(), transaction=("app", 1)).complete(rows=[0])
    again = history.begin(documents(["a", "b"]), trigger(), transaction=("app", 1), on_replay="rerun")
    assert statuses(again.verdicts) == ["DUPLICATE", "NEW"]
    again.complete()
    last = history.begin(documents(["a", "b"]), trigger(), transaction=("app", 1), on_replay="rerun")
    assert last.replay == "finished"
    assert statuses(last.verdicts) == ["DUPLICATE", "DUPLICATE"]


def test_transactions_never_go_backwards(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger(), transaction=("app", 2)).complete()
    with pytest.raises(dh.TransactionError, match=r"^\[DH-TRANSACTION\]"):
        history.begin(documents(["b"]), trigger(), transaction=("app", 1))
    assert history.stats(trigger())["transactions"] == {"app": (2, True)}


def test_to_leave_a_replay_to_the_resolver_takes_a_resolver(history: dh.History) -> None:
    with pytest.raises(dh.ConfigError, match="resolver"):
        history.begin(documents(["a"]), trigger(), transaction=("app", 1), on_replay="resolver")
    asks = trigger(resolver=lambda batch: ["DUPLICATE"] * batch.num_rows)
    history.begin(documents(["a"]), asks, transaction=("app", 1), on_replay="resolver")
    again = history.begin(documents(["a"]), asks, transaction=("app", 1), on_replay="resolver")
    assert rules(again.verdicts) == ["R10>S2"]
    with pytest.raises(dh.ConfigError, match="on_replay"):
        history.begin(documents(["a"]), asks, on_replay="again")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"uuid": None, "track_id": "t"}, ("NEW", "R8", "t")),
        ({"event_id": "e", "redelivery_count": 3}, ("NEW", "R8", "e")),
        ({}, ("IN_DOUBT", "R3", None)),
        ({"uuid": "x" * 97}, ("IN_DOUBT", "R4", "x" * 97)),
        ({"uuid": "a", "guaranteed": False}, ("NEW", "R1", "a")),
    ],
)
def test_one_document_is_judged_as_a_batch_of_one(history: dh.History, given: dict[str, Any], verdict: Any) -> None:
    one = history.begin_one(trigger=trigger(), **given)
    assert (one.status, one.rule, one.key) == verdict
    assert (one.message is None) == (one.status == "NEW")
    one.complete()


def test_one_jms_message_has_columns_of_its_own(history: dh.History) -> None:
    jms = trigger(kind="jms", max_delivery_count=3)
    assert history.begin_one(trigger=jms, jms_message_id="m", delivery_count=1).key == "m"
    assert history.begin_one(trigger=jms, uuid="n", delivery_count=3).action == "REJECT"
    with pytest.raises(dh.ConfigError, match="redelivery_count"):
        history.begin_one(trigger=jms, uuid="n", redelivery_count=3)


def test_the_resolver_is_asked_about_one_document(history: dh.History) -> None:
    answer = pa.table({"status": ["DUPLICATE"], "message": ["seen on Monday"]})
    one = history.begin_one(uuid="", trigger=trigger(resolver=lambda _: answer))
    assert (one.rule, one.message) == ("R3>S2", "seen on Monday")


def test_a_snapshot_stays_as_it_was(history: dh.History, directory: Path) -> None:
    history.begin(documents(["a"]), trigger(), now=T0).complete()
    snapshot = history.pin(trigger())
    history.begin(documents(["b"]), trigger(), now=T0).complete()
    history.purge(trigger(), now=T0 + timedelta(days=1))
    with dh.open(directory, read_only=True, snapshot=snapshot) as pinned:
        assert status_of(pinned, ["a", "b"]) == ["DUPLICATE", "NEW"]
        with pytest.raises(dh.ReadOnlyError):
            pinned.begin(documents(["b"]), trigger())
        with pytest.raises(dh.OpenError, match="invoices"):
            status_of(pinned, ["a"], trigger("invoices"))
    history.unpin(trigger(), snapshot)
    history.unpin("orders", snapshot)
    with dh.open(directory, read_only=True, snapshot=snapshot) as gone, pytest.raises(dh.OpenError):
        status_of(gone, ["a"])
    assert status_of(history, ["a", "b"]) == ["NEW", "NEW"]


def test_a_purge_tells_what_went_or_would_go(history: dh.History) -> None:
    history.begin(documents(["a", "b"]), trigger(), now=T0).complete()
    later = T0 + timedelta(hours=3)
    expected = {"orders": 2}
    for dry_run in (True, True, False):
        purged = history.purge(now=later, dry_run=dry_run)
        assert {name: one["entries"] for name, one in purged.items()} == expected
    assert history.purge("orders", now=later)["orders"]["entries"] == 0
    assert status_of(history, ["a", "b"]) == ["NEW", "NEW"]


def test_maintenance_changes_no_answer(directory: Path) -> None:
    ids = fresh_ids(400)
    with dh.open(directory, create=True, auto_maintain=False) as history:
        for start in range(0, 400, 40):
            history.begin(documents(ids[start : start + 40]), trigger(), now=T0).complete()
            history.pin(trigger())
        before = history.stats(trigger())
        heard: list[tuple[int, int]] = []
        done = history.maintain(all=True, progress=lambda done, total: heard.append((done, total)))
        after = history.stats(trigger())
        assert done["orders"]["merged"] == (before["segments"], after["segments"])
        assert after["segments"] < before["segments"] == 10
        assert heard
        assert all(done <= total for done, total in heard)
        assert status_of(history, ids) == ["DUPLICATE"] * 400


def test_maintenance_runs_while_documents_begin(directory: Path) -> None:
    ids = fresh_ids(200)
    with dh.open(directory, create=True) as history:
        for start in range(0, 200, 10):
            history.begin(documents(ids[start : start + 10]), trigger(), now=T0).complete()
            history.pin(trigger())
        # It is done beside this: go on until it shows. Compaction may have left too few segments for a filter.
        while history.stats(trigger())["filters"] == 0:
            history.begin(documents(fresh_ids(10)), trigger(), now=T0).complete()
            history.pin(trigger())
        figures = history.stats(trigger())
        assert figures["segments_uncovered"] < figures["segments"]
        assert status_of(history, ids) == ["DUPLICATE"] * 200


def test_history_may_be_closed_during_maintenance(directory: Path) -> None:
    ids = fresh_ids(240)
    for start in range(0, 240, 10):
        with dh.open(directory, create=True) as history:
            history.begin(documents(ids[start : start + 10]), trigger(), now=T0).complete()
            history.pin(trigger())
    with dh.open(directory, read_only=True) as history:
        assert status_of(history, ids) == ["DUPLICATE"] * 240
        assert history.verify() > 0


def test_auto_maintain_off_leaves_segments_to_maintain(directory: Path) -> None:
    with dh.open(directory, create=True, auto_maintain=False) as history:
        for _ in range(20):
            history.begin(documents(fresh_ids(10)), trigger(), now=T0).complete()
            history.pin(trigger())
        assert history.stats(trigger())["segments"] == 20


def test_what_progress_raises_stops_the_work(history: dh.History) -> None:
    history.begin(documents(fresh_ids(5000)), trigger(), now=T0).complete()

    def stop(done: int, total: int) -> None:
        raise InterruptedError(f"{done} of {total}")

    with pytest.raises(InterruptedError, match="of"):
        history.verify(progress=stop)
    assert history.verify() > 0


def test_figures_are_those_of_the_history(history: dh.History, directory: Path) -> None:
    history.begin(documents(["a", "b"]), trigger(history_time_to_live="3 hours"), now=T0)
    figures = history.stats()
    assert figures["path"] == directory
    assert figures["shards"] == history.shards == 64
    assert datetime.now(UTC) - figures["created_at"] < timedelta(minutes=5)
    assert figures["triggers"] == {"orders": history.stats("orders")}
    orders = figures["triggers"]["orders"]
    assert orders["log_entries"] + orders["segment_entries"] == 2
    assert orders["oldest_started_at"] == T0
    assert orders["history_time_to_live"] == timedelta(hours=3)
    assert history.triggers() == ["orders"]


def test_entries_export_to_any_arrow_consumer(history: dh.History) -> None:
    history.begin(documents(["a", "b"]), trigger(), now=T0).complete(rows=[0])
    stream = history.entries("orders")
    assert stream.schema.names == ["trigger", "key", "status", "started_at"]
    assert sorted(pl.DataFrame(stream)["key"].to_list()) == ["a", "b"]
    stream = history.entries("orders")
    query: Any = duckdb.from_arrow(stream).filter("status = 'processing'").select("key, started_at")
    found = query.fetchall()
    assert [(key, at.astimezone(UTC)) for key, at in found] == [("b", T0)]
    with pytest.raises(dh.ConfigError, match="status"):
        history.entries("orders", status="released")  # type: ignore[arg-type]


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-7)), ZoneInfo("Europe/Berlin")], ids=str)
def test_now_may_be_in_any_time_zone(history: dh.History, zone: Any) -> None:
    claim = history.begin(documents(["a"]), trigger(), now=T0.astimezone(zone))
    assert claim.started_at == T0
    assert claim.started_at.tzinfo is UTC
    assert entries(history, trigger())[0]["started_at"] == T0


@pytest.mark.parametrize("now", [T0.replace(tzinfo=None), T0.date(), 0, "2024-03-10"], ids=repr)
def test_now_must_be_a_time_with_a_zone(history: dh.History, now: Any) -> None:
    with pytest.raises(dh.ConfigError, match="now is"):
        history.classify(documents(["a"]), trigger(), now=now)


def test_names_of_columns_may_come_in_any_mapping(history: dh.History) -> None:
    names: Mapping[str, str] = types.MappingProxyType({"uuid": "my_id"})
    batch = pa.RecordBatch.from_pydict({"my_id": ["a"], "uuid": [1]})
    assert column(history.classify(batch, trigger(), columns=names), "key") == ["a"]


@pytest.mark.parametrize("timeout", [0, 0.5, "250 ms", timedelta(seconds=1)])
def test_a_lock_timeout_may_be_text_a_timedelta_or_seconds(directory: Path, timeout: Any) -> None:
    with dh.open(directory, create=True, lock_timeout=timeout) as history:
        history.begin(documents(["a"]), trigger()).complete()


def test_a_history_is_not_made_in_a_directory_that_is_not_there(tmp_path: Path) -> None:
    said = r"\[DH-OPEN\].*there is no directory .*mistyped to make a history in: mount its disk"
    with pytest.raises(dh.OpenError, match=said):
        dh.open(tmp_path / "mistyped" / "orders.history", create=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shards", [0, 3, 1 << 17])
def test_invalid_number_of_shards_is_refused(directory: Path, shards: int) -> None:
    with pytest.raises(dh.ConfigError, match="shards"):
        dh.open(directory, create=True, shards=shards)
    assert not directory.exists()


def test_rows_that_are_not_the_claims_are_refused(history: dh.History) -> None:
    history.begin(documents(["done"]), trigger()).complete()
    claim = history.begin(documents(["a", "done", "free"], guaranteed=[True, True, False]), trigger())
    strangers: list[Any] = [[1], [3], [-1]]
    for rows in strangers:
        with pytest.raises(dh.StateError):
            claim.complete(rows=rows)
    with pytest.raises(TypeError, match=r"rows are \['0'\]"):
        claim.complete(rows=["0"])  # type: ignore[list-item]
    claim.complete(rows=pa.array([2, 0]))
    claim.complete(rows=pa.chunked_array([[0], [2]]))
    assert status_of(history, ["a", "free"]) == ["DUPLICATE", "NEW"]


@pytest.mark.parametrize("kind", ["int64", "int32", "uint32", "uint64", "int16", "uint8"])
def test_numpys_rows_of_any_integer_are_the_rows(history: dh.History, kind: str) -> None:
    claim = history.begin(documents(["a", "b", "c", "d"]), trigger())
    claim.complete(rows=np.array([3, 9, 1, 9], dtype=kind)[::2])
    assert status_of(history, ["a", "b", "c", "d"]) == ["IN_DOUBT", "DUPLICATE", "IN_DOUBT", "DUPLICATE"]


def test_numpys_rows_that_are_no_rows_are_refused(history: dh.History) -> None:
    claim = history.begin(documents(["a"]), trigger())
    for rows in (np.array([[0]]), np.array([0.0]), np.array([1 << 63], dtype=np.uint64), np.array([-1])):
        with pytest.raises((dh.SchemaError, dh.StateError, ValueError, TypeError, OverflowError)):
            claim.complete(rows=rows)
    assert status_of(history, ["a"]) == ["IN_DOUBT"]


def test_a_claim_that_records_nothing_has_no_number(history: dh.History) -> None:
    claim = history.begin(documents([None]), trigger(), now=T0)
    assert claim.id is None
    assert claim.started_at == T0
    claim.complete()
    claim.release(rows=[])


def test_objects_show_what_they_are(history: dh.History) -> None:
    claim = history.begin(documents(["a", None]), trigger())
    assert repr(claim) == f"<Claim {claim.id}: 1 of 2 documents to process>"
    assert "orders.history" in repr(history)
    assert "R11" in repr(history.begin_one(uuid="a", trigger=trigger()))
    history.close()
    assert "closed" in repr(history)


@pytest.mark.parametrize("threads", [0, -3, 1.5, "two", None, True])
def test_invalid_number_of_threads_gets_a_sentence(history: dh.History, threads: Any) -> None:
    for call in (history.classify, history.begin):
        with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] threads is .*; allowed is a whole number from 1 on"):
            call(documents(["a"]), trigger(), threads=threads)


def test_something_else_than_a_trigger_gets_a_sentence(history: dh.History) -> None:
    wrong: Any = "orders"
    for call in (history.classify, history.begin, history.load):
        with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] trigger is 'orders'; needed is a dochistory.Trigger"):
            call(documents(["a"]), wrong)
    for end in (history.complete, history.release):
        with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] trigger is 'orders'"):
            end(["a"], wrong)
    neither: Any = 7
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] trigger is 7; needed is a trigger, or its name"):
        history.purge(neither)
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] path is 7"):
        dh.open(neither)
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] transaction is 7"):
        history.begin(documents(["a"]), trigger(), transaction=neither)


def test_how_far_a_transaction_came_is_told(history: dh.History) -> None:
    assert history.transaction("orders", "app") is None
    claim = history.begin(documents(["a"]), trigger(), transaction=("app", 3))
    assert history.transaction(trigger(), "app") == (3, "begun")
    assert history.transaction("orders", "other") is None
    claim.complete()
    assert history.transaction("orders", "app") == (3, "completed")
    history.begin(documents(["b"]), trigger(), transaction=("app", 4)).release()
    assert history.transaction("orders", "app") == (4, "released")
    with dh.open(history.path, read_only=True) as reader:
        assert reader.transaction("orders", "app") == (4, "released")


def test_failed_maintenance_is_told_of_what_it_was_of(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    with dh.open(directory, create=True) as history:
        mapper = history.mapper("ids")
        for number in range(13):
            history.begin(documents([str(number)]), trigger())
            history.pin(trigger())  # a segment each
        next(directory.glob("triggers/*/turn")).with_name("upkeep").mkdir()  # the lock of maintenance
        history.begin(documents(["last"]), trigger())
        for number in range(200):
            mapper.create([f"theirs-{number}"], ["ours"])
            if caplog.messages:
                break
            time.sleep(0.02)
    assert [text.partition(":")[0] for text in caplog.messages] == ["maintenance of trigger 'orders'"]
