"""Exactly-once statistics: exact counts that survive, a bounded list, and no entry of the history touched."""

from __future__ import annotations

import datetime as dt
import errno
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import metrics, statistics
from tests.bucket_fixtures import identity, in_bucket, store
from tests.store.processes import run, run_together
from tests.support import T0, documents, entries, trigger

__all__ = ["identity", "in_bucket", "store"]

in_directory = pytest.mark.parametrize("history", ["directory"], indirect=True)
"""For what is of the history's directory."""

URL = "s3://bucket/orders.history"
"""Of no server: counting asks nothing of the store."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this machine keeps its state."""
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(params=["directory", "bucket"])
def history(request: pytest.FixtureRequest, directory: Path) -> Iterator[dh.History]:
    """A new, empty history; it needs no bucket for a directory."""
    is_directory = request.param == "directory"
    with dh.open(directory, create=True) if is_directory else request.getfixturevalue("in_bucket")() as opened:
        yield opened


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


def test_the_summary_says_all_of_a_trigger(used: dh.History) -> None:
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
    with dh.Sweeper(used, every="1 hour") as sweeper:
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


@in_directory
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


@pytest.mark.parametrize(
    "line",
    ["1", "null", "[]", "{}", '{"trigger": "orders"}', '{"trigger": "orders", "counts": [[1]], "documents": []}'],
)
def test_damaged_line_is_left_out(used: dh.History, line: str) -> None:
    counting = dh.Statistics(used)
    counting.add(verdicts(used, "a"), trigger())
    before = counts(counting)
    with (counting.path / "statistics" / "verdicts.jsonl").open("a", encoding="utf-8") as out:
        out.write(f"{line}\n")
    assert counts(counting) == before
    assert counting.summary(used)["orders"]["duplicate"] == 1


def test_half_a_line_of_a_process_that_died_spoils_nothing(used: dh.History) -> None:
    kept = dh.Statistics(used)
    one = verdicts(used, "a")
    kept.add(one, trigger())
    path = kept.path / "statistics" / "verdicts.jsonl"
    whole = path.read_bytes()
    for length in range(1, len(whole)):
        path.write_bytes(whole + whole[:length])
        kept.add(one, trigger())
        assert counts(kept)["orders", "R9"] in (2, 3)
    assert counts(kept)["orders", "R9"] >= 2


@in_directory
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


def test_reading_needs_no_right_to_write_and_makes_nothing(used: dh.History, directory: Path, state: Path) -> None:
    kept = dh.Statistics(used)
    assert kept.counts().num_rows == 0
    assert kept.summary(used)["orders"]["new"] == 0
    assert not (directory / "statistics").exists()
    assert not state.exists()


@in_directory
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


def files_below(directory: Path) -> list[str]:
    return sorted(str(one.relative_to(directory)) for one in directory.rglob("*") if one.is_file())


def test_statistics_of_a_bucket_are_kept_by_this_machine(state: Path, tmp_path: Path) -> None:
    kept = dh.Statistics(URL)
    assert (kept.url, repr(kept), kept.counts().num_rows) == (URL, f"<Statistics of {URL!r}>", 0)
    kept.add_counts([("NEW", "PROCESS", "R8", 3)], "orders")
    assert kept.path.parent == state
    assert files_below(tmp_path) == [f"state/{kept.path.name}/statistics/{name}" for name in ("lock", "verdicts.jsonl")]
    assert f"<code>{URL}</code>" in kept._repr_html_()


@pytest.mark.parametrize("spelling", [f"{URL}/", URL.replace("s3:", "s3a:"), URL.replace("s3:", "S3:")])
def test_spellings_of_one_url_share_their_statistics(spelling: str) -> None:
    dh.Statistics(URL).add_counts([("NEW", "PROCESS", "R8", 3)], "orders")
    dh.Statistics(spelling).add_counts([("NEW", "PROCESS", "R8", 1)], "orders")
    assert counts(dh.Statistics(URL)) == {("orders", "R8"): 4}
    assert dh.Statistics("s3://bucket/bills.history").counts().num_rows == 0


def test_machines_count_a_bucket_each_by_itself(tmp_path: Path) -> None:
    machines = [dh.Statistics(URL, state=tmp_path / name) for name in ("one", "two")]
    for number, machine in enumerate(machines, 1):
        machine.add_counts([("NEW", "PROCESS", "R8", number)], "orders")
    machines[0].clear()
    assert [counts(machine) for machine in machines] == [{}, {("orders", "R8"): 2}]
    assert dh.Statistics(URL).counts().num_rows == 0


def test_state_for_a_history_in_a_directory_is_refused(directory: Path, tmp_path: Path) -> None:
    for asked in (dh.Statistics, dh.Sweeper, dh.sweeper.next_purge, dh.sweeper.longest_runs):
        with pytest.raises(
            dh.ConfigError, match=r"^\[DH-CONFIG\] state is for the URL of a bucket, and /.* leave it out"
        ):
            asked(directory, state=tmp_path / "state")


def test_counts_of_a_bucket_survive_killed_processes() -> None:
    script = """
    import signal
    kept = dh.Statistics(sys.argv[1])
    for _ in range(10):
        kept.add_counts([("DUPLICATE", "DISCARD", "R9", 1)], "orders", [["2026-01-01", "a", None, "DUPLICATE", "R9"]])
    os.kill(os.getpid(), signal.SIGKILL)
    """
    for _ in range(2):
        with pytest.raises(AssertionError):
            run(script, URL)
    assert counts(dh.Statistics(URL)) == {("orders", "R9"): 20}
    assert dh.Statistics(URL).documents("orders")["key"].to_pylist() == ["a"] * 20


def test_processes_count_a_bucket_together_and_compact_it() -> None:
    script = """
    from dochistory import statistics
    statistics._COMPACT_BYTES = 5_000
    kept = dh.Statistics(sys.argv[1])
    ready()
    for _ in range(100):
        kept.add_counts([("NEW", "PROCESS", "R8", 1)], "orders")
    """
    run_together(script, [[URL], [URL + "/"], [URL]])
    kept = dh.Statistics(URL)
    assert counts(kept) == {("orders", "R8"): 300}
    assert files_below(kept.path) == ["statistics/lock", "statistics/verdicts.jsonl"]
    assert (kept.path / "statistics" / "verdicts.jsonl").stat().st_size < 10_000


def test_state_that_was_removed_meanwhile_is_made_again() -> None:
    kept = dh.Statistics(URL)
    for _ in range(2):
        kept.add_counts([("NEW", "PROCESS", "R8", 1)], "orders")
        assert counts(kept) == {("orders", "R8"): 1}
        shutil.rmtree(kept.path)
    assert kept.counts().num_rows == 0


FORKS_MEANWHILE = """
    import signal
    from dochistory import statistics
    counted = dh.Statistics(sys.argv[1])
    with counted._shared(write=True):  # as if another thread counted at that moment
        child = os.fork()
        if child == 0:
            time.sleep(20)
            os._exit(0)
    try:
        statistics._COMPACT_BYTES = 0
        signal.alarm(10)
        counted.add_counts([("NEW", "PROCESS", "R8", 2)], "orders")
        print(counted.counts()["count"].to_pylist())
    finally:
        os.kill(child, signal.SIGKILL)
"""


def test_a_process_forked_meanwhile_keeps_nobody_from_counting(directory: Path) -> None:
    dh.open(directory, create=True).close()
    assert run(FORKS_MEANWHILE, directory) == ["[2]"]


@in_directory
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_a_batch_is_counted_though_its_file_finds_no_room(
    history: dh.History, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    counted = dh.Statistics(history)
    refused = OSError(number, os.strerror(number))
    monkeypatch.setattr(statistics, "_COMPACT_BYTES", 0)
    with monkeypatch.context() as disk:
        disk.setattr("dochistory._files.sync", lambda *_: (_ for _ in ()).throw(refused))
        counted.add_counts([("NEW", "PROCESS", "R8", 2)], "orders")
    assert counted.counts()["count"].to_pylist() == [2]
    assert sorted(path.name for path in (counted.path / "statistics").iterdir()) == ["lock", "verdicts.jsonl"]
    counted.add_counts([("NEW", "PROCESS", "R8", 3)], "orders")
    assert counted.counts()["count"].to_pylist() == [5]
