"""What a report says is what the history and the journal hold."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import journal, report
from tests.support import T0, documents, trigger

ORDERS = trigger(history_time_to_live="30 days")
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def told(history_path: Path, tmp_path: Path) -> report.Report:
    """Three days of orders, one of them never ended; and two bills."""
    with dh.open(history_path, create=True) as history:
        for day in range(3):
            at = T0 + dt.timedelta(days=day)
            claim = history.begin(documents([f"{day}-{n}" for n in range(10)]), ORDERS, now=at)
            claim.complete(rows=range(1, 10))
            again = documents([f"{day}-{n}" for n in range(4)])
            verdicts = history.classify(again, ORDERS, now=at + HOUR)
            journal.write(again, verdicts, ORDERS, sinks=[journal.ParquetSink(tmp_path / "journal")], now=at + HOUR)
        history.begin(documents(["b-1", "b-2"]), trigger("bills"), now=T0).complete()
        history.maintain(all=True)
        history.begin(documents(["late"]), ORDERS, now=T0 + dt.timedelta(days=3)).complete()
        return report.gather(history, journal=tmp_path / "journal", now=T0 + dt.timedelta(days=4))


def test_entries_doubts_and_partitions_are_counted_by_trigger(told: report.Report) -> None:
    assert [one.name for one in told.triggers] == ["bills", "orders"]
    orders = told.triggers[1]
    assert (orders.entries, orders.completed, orders.doubts_in_all) == (31, 28, 3)
    assert [doubt.key for doubt in orders.doubts] == ["0-0", "1-0", "2-0"]
    assert orders.doubts[0].age == dt.timedelta(days=4)
    assert sum(one.entries for one in orders.partitions) + orders.in_log == 31
    assert [one.start for one in orders.partitions] == sorted(one.start for one in orders.partitions)
    assert all(one.expires_at == one.start + dt.timedelta(days=31) for one in orders.partitions)


def test_bars_hold_every_document_once(told: report.Report) -> None:
    assert sum(bar.begun for bar in told.bars) == 33
    assert sum(bar.duplicate for bar in told.bars) == 9
    assert sum(bar.in_doubt for bar in told.bars) == 3
    assert 1 < len(told.bars) <= 61
    first = told.bars[0]
    assert first.start <= T0 < first.start + told.bar_width
    assert all(
        later.start - earlier.start == told.bar_width for earlier, later in zip(told.bars, told.bars[1:], strict=False)
    )


def test_verdicts_are_counted_by_rule(told: report.Report) -> None:
    rows = {(row.trigger, row.status, row.rule): row.count for row in told.verdicts}
    assert rows == {("orders", "DUPLICATE", "R9"): 9, ("orders", "IN_DOUBT", "R11"): 3}


def test_what_a_purge_would_free_is_what_it_frees(history_path: Path, told: report.Report) -> None:
    later = T0 + dt.timedelta(days=40)
    assert told.triggers[1].purge_entries == 0
    with dh.open(history_path) as history:
        said = {one.name: one for one in report.gather(history, now=later).triggers}
        gone = history.purge(now=later)
    for name, one in said.items():
        assert (one.purge_entries, one.purge_bytes, one.purge_segments) == (
            gone[name]["entries"],
            gone[name]["bytes"],
            gone[name]["segments"],
        )
    assert gone["orders"]["entries"] == 31


def test_the_list_of_doubts_is_cut_at_the_oldest_and_says_so(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        for n in range(5):
            history.begin(documents([f"k-{n}"]), ORDERS, now=T0 - n * HOUR)
        found = report.gather(history, doubts=2, now=T0).triggers[0]
    assert [doubt.key for doubt in found.doubts] == ["k-4", "k-3"]
    assert found.doubts_in_all == 5


def test_an_empty_history_makes_an_empty_report(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        found = report.gather(history)
    assert (found.triggers, found.bars, found.verdicts, found.has_journal) == ([], [], [], False)


def test_what_is_no_journal_is_refused(history_path: Path, tmp_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        with pytest.raises(dh.SchemaError, match="no journal here"):
            report.gather(history, journal=tmp_path / "gone")
        with pytest.raises(dh.SchemaError, match="not a journal"):
            report.gather(history, journal=pa.table({"x": [1]}))
