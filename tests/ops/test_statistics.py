"""Exactly-once statistics: exact counts that survive, a bounded list, and no entry of the history touched."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import metrics, statistics
from tests.store.processes import run, run_together
from tests.support import T0, documents, entries, trigger


@pytest.fixture
def used(history: dh.History) -> dh.History:
    """A history with one document completed (a) and one begun (b)."""
    history.begin(documents(["a", "b"]), trigger(), now=T0).complete(rows=[0])
    return history


def verdicts(history: dh.History, *keys: str | None, of: dh.Trigger | None = None) -> Any:
    return history.classify(documents(keys), of or trigger(), now=T0)


def counts(of: dh.Statistics) -> dict[tuple[str, str], int]:
    return {(row["trigger"], row["rule"]): row["count"] for row in of.counts().to_pylist()}


def test_verdicts_are_counted_by_trigger_and_rule(used: dh.History) -> None:
    kept = dh.Statistics(used)
    for _ in range(3):
        kept.add(verdicts(used, "a", "b", "n", None), trigger())
    kept.add(verdicts(used, "a", of=trigger("bills")), "bills")
    assert kept.counts().to_pylist()[0] == {
        "trigger": "bills",
        "status": "NEW",
        "action": "PROCESS",
        "rule": "R8",
        "count": 1,
    }
    assert counts(kept) == {
        ("bills", "R8"): 1,
        ("orders", "R9"): 3,
        ("orders", "R11"): 3,
        ("orders", "R3"): 3,
        ("orders", "R8"): 3,
    }
    assert kept.counts("bills").num_rows == 1
    assert kept.counts().schema == statistics.COUNTS


def test_the_summary_says_all_of_a_trigger(used: dh.History, directory: Path) -> None:
    kept = dh.Statistics(used)
    kept.add(verdicts(used, "a", "b", "n", None), trigger())
    jms = trigger("jms", kind="jms")
    kept.add(used.classify(documents(["x", "y"], delivery_count=[100, 1]), jms), jms)
    found = kept.summary(used, now=T0 + dt.timedelta(minutes=5))
    assert found["orders"] == {
        "new": 1,
        "duplicate": 1,
        "in_doubt": {"R11": 1, "R3": 1},
        "suspended": 0,
        "rejected": 0,
        "processing": 1,
        "oldest_processing_seconds": 300,
        "oldest_entry_seconds": 300,
        "next_purge": None,
    }
    assert (found["jms"]["rejected"], found["jms"]["new"], found["jms"]["processing"]) == (1, 1, None)
    with dh.Sweeper(directory, every="1 hour") as sweeper:
        assert kept.summary()["orders"]["next_purge"] == sweeper.next_run
        assert kept.summary()["orders"]["processing"] is None


def test_duplicates_and_doubts_are_listed_newest_first(used: dh.History) -> None:
    kept = dh.Statistics(used)
    batch = documents(["a", "n", "b"], document_name=["Order", "Order", "Bill"])
    kept.add(used.classify(batch, trigger()), trigger(), documents=batch, now=T0)
    kept.add(verdicts(used, "a"), trigger(), now=T0 + dt.timedelta(seconds=1))
    listed = kept.documents().to_pylist()
    assert [(row["key"], row["name"], row["status"], row["rule"]) for row in listed] == [
        ("a", None, "DUPLICATE", "R9"),
        ("a", "Order", "DUPLICATE", "R9"),
        ("b", "Bill", "IN_DOUBT", "R11"),
    ]
    assert listed[1]["time"] == T0
    assert kept.documents(status="IN_DOUBT")["key"].to_pylist() == ["b"]
    assert kept.documents(trigger("bills")).num_rows == 0
    assert kept.documents(limit=1).num_rows == 1
    assert kept.documents().schema == statistics.DOCUMENTS
    with pytest.raises(dh.ConfigError, match="'NEW'"):
        kept.documents(status="NEW")  # type: ignore[arg-type]


def test_the_list_is_bounded_and_the_counts_are_not(used: dh.History) -> None:
    kept = dh.Statistics(used, most_documents=15, most_per_batch=10)
    many = used.classify(documents(["a"] * 1_000), trigger(in_batch="new"))
    for _ in range(3):
        kept.add(many, trigger())
    assert kept.documents().num_rows == 15
    assert counts(kept) == {("orders", "R9"): 3_000}


def test_clearing_touches_no_entry_of_the_history(used: dh.History) -> None:
    kept = dh.Statistics(used)
    kept.add(verdicts(used, "a"), trigger())
    kept.add(verdicts(used, "a", of=trigger("bills")), "bills")
    before = entries(used, trigger())
    kept.clear(trigger())
    assert counts(kept) == {("bills", "R8"): 1}
    assert kept.documents().num_rows == 0
    kept.clear()
    assert kept.counts().num_rows == 0
    assert entries(used, trigger()) == before
    kept.add(verdicts(used, "a"), trigger())
    assert counts(kept) == {("orders", "R9"): 1}


@pytest.mark.usefixtures("used")
def test_they_survive_restarts_and_killed_processes(directory: Path) -> None:
    script = """
    import signal
    with dh.open(sys.argv[1]) as history:
        kept = dh.Statistics(history)
        for _ in range(10):
            kept.add(history.classify(documents(["a"]), trigger()), trigger())
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with pytest.raises(AssertionError):
        run(script, directory)
    assert counts(dh.Statistics(directory)) == {("orders", "R9"): 10}


def test_half_a_line_of_a_process_that_died_spoils_nothing(used: dh.History, directory: Path) -> None:
    kept = dh.Statistics(used)
    kept.add(verdicts(used, "a"), trigger())
    path = directory / "statistics" / "verdicts.jsonl"
    whole = path.read_bytes()
    for length in range(1, len(whole)):
        path.write_bytes(whole + whole[:length])
        kept.add(verdicts(used, "a"), trigger())
        assert counts(kept)["orders", "R9"] in (2, 3)
    assert counts(kept)["orders", "R9"] >= 2


def test_threads_and_processes_may_add_during_compaction(
    used: dh.History, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_COMPACT_BYTES", 5_000)
    kept = dh.Statistics(used)
    one = verdicts(used, "a")

    def add() -> None:
        for _ in range(50):
            kept.add(one, trigger())

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    script = """
    from dochistory import statistics
    statistics._COMPACT_BYTES = 5_000
    with dh.open(sys.argv[1]) as history:
        kept = dh.Statistics(history)
        one = history.classify(documents(["a"]), trigger())
        ready()
        for _ in range(50):
            kept.add(one, trigger())
    """
    run_together(script, [[directory], [directory]])
    for thread in threads:
        thread.join()
    assert counts(kept) == {("orders", "R9"): 250}
    assert (directory / "statistics" / "verdicts.jsonl").stat().st_size < 60_000


def test_reading_needs_no_right_to_write_and_makes_nothing(used: dh.History, directory: Path) -> None:
    kept = dh.Statistics(used)
    assert kept.counts().num_rows == 0
    assert kept.summary(used)["orders"]["new"] == 0
    assert not (directory / "statistics").exists()


def test_a_history_that_is_away_is_an_error_and_not_made(directory: Path, used: dh.History) -> None:
    one = verdicts(used, "a")
    with pytest.raises(dh.StorageError, match="DH-IO"):
        dh.Statistics(directory.with_name("none.history")).add(one, trigger())
    assert not directory.with_name("none.history").exists()


def test_something_else_than_verdicts_is_refused(used: dh.History) -> None:
    kept = dh.Statistics(used)
    with pytest.raises(dh.SchemaError, match="no column action"):
        kept.add(pa.table({"status": ["NEW"], "rule": ["R8"], "key": ["a"], "message": ["x"]}), trigger())
    with pytest.raises(dh.SchemaError, match="2 documents and 1 verdicts"):
        kept.add(verdicts(used, "a"), trigger(), documents=documents(["a", "b"]))
    with pytest.raises(dh.ConfigError):
        dh.Statistics(used, most_documents=-1)


def test_an_empty_batch_counts_nothing(used: dh.History) -> None:
    kept = dh.Statistics(used)
    kept.add(verdicts(used), trigger())
    assert kept.counts().num_rows == 0


def test_prometheus_gets_them(used: dh.History) -> None:
    kept = dh.Statistics(used)
    kept.add(verdicts(used, "a", "b"), trigger())
    text = metrics.prometheus_text(used, kept)
    assert 'dochistory_verdicts_total{trigger="orders",status="DUPLICATE",action="DISCARD",rule="R9"} 1' in text


@pytest.mark.parametrize("plain", [True, False])
def test_verdicts_are_counted_whatever_table_they_stand_in(used: dh.History, plain: bool) -> None:
    table = pa.concat_tables(
        [pa.Table.from_batches([verdicts(used, "a", None, "n")]), pa.Table.from_batches([verdicts(used, "b", "n")])]
    )
    if plain:
        table = table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))
    assert dh.count_verdicts(table) == [
        ("DUPLICATE", "DISCARD", "R9", 1),
        ("IN_DOUBT", "LOG", "R11", 1),
        ("IN_DOUBT", "LOG", "R3", 1),
        ("NEW", "PROCESS", "R8", 2),
    ]
    with pytest.raises(dh.SchemaError, match="no column rule"):
        dh.count_verdicts(table.drop_columns(["rule"]))
