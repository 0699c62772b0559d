"""Figures to watch."""

import datetime as dt
import re
from pathlib import Path

import pytest

import dochistory as dh
from dochistory import metrics
from tests.support import T0, documents, trigger

LATER = T0 + dt.timedelta(hours=3)


@pytest.fixture
def used(history: dh.History) -> dh.History:
    """A history of two triggers; of `orders`, one of three documents has not ended."""
    history.begin(documents(["a", "b"]), trigger(), now=T0).complete()
    history.begin(documents(["c"]), trigger(), now=T0 + dt.timedelta(hours=1), transaction=("app", 1))
    history.begin(documents(["a"]), trigger("bills", history_time_to_live="30 days"), now=T0).complete()
    return history


def test_what_a_history_holds_is_told_by_trigger(used: dh.History) -> None:
    figures = metrics.history_metrics(used, now=LATER)
    assert list(figures) == ["bills", "orders"]
    orders = figures["orders"]
    assert (orders["entries"], orders["processing"]) == (3, 1)
    assert orders["oldest_entry_seconds"] == 3 * 3600
    assert orders["oldest_processing_seconds"] == 2 * 3600
    assert orders["history_time_to_live_seconds"] == 2 * 3600
    assert orders["expired_seconds"] == 3600
    assert (orders["transactions"], orders["unfinished_transactions"]) == (1, 1)
    assert (figures["bills"]["expired_seconds"], figures["bills"]["processing"]) == (0, 0)
    assert figures["bills"]["oldest_processing_seconds"] is None


def test_figures_without_reading_entries_omit_processing(used: dh.History) -> None:
    figures = metrics.history_metrics(used, in_progress=False)["orders"]
    assert (figures["processing"], figures["oldest_processing_seconds"]) == (None, None)
    assert "dochistory_processing" not in metrics.prometheus_text(used, in_progress=False)


def test_an_empty_history_has_no_figures(history: dh.History) -> None:
    assert metrics.history_metrics(history) == {}
    assert metrics.prometheus_text(history, metrics.VerdictCounts()) == ""


@pytest.mark.usefixtures("used")
def test_reading_is_enough(directory: Path) -> None:
    with dh.open(directory, read_only=True) as reader:
        assert metrics.history_metrics(reader)["orders"]["entries"] == 3


@pytest.mark.parametrize("file", ["log", "manifest"])
def test_damaged_trigger_is_named_and_hides_no_other(used: dh.History, directory: Path, file: str) -> None:
    used.begin(documents(["a"]), trigger("aged"), now=T0).complete()
    used.close()
    for damaged in directory.glob(f"triggers/aged-*/{file}-*"):
        damaged.write_bytes(b"rubbish" + damaged.read_bytes()[7:])
    with dh.open(directory, read_only=True) as history:
        page = metrics.prometheus_text(history)
        with pytest.raises(dh.CorruptError):
            history.stats()
    assert 'dochistory_damaged{trigger="aged"} 1' in page
    assert 'dochistory_entries{trigger="orders"}' in page
    assert 'dochistory_entries{trigger="aged"}' not in page


def test_verdicts_are_counted_and_cleared(used: dh.History) -> None:
    counts = metrics.VerdictCounts()
    for _ in range(2):
        counts.add(used.classify(documents(["a", "c", "n"]), trigger()), trigger())
    counts.add(used.classify(documents(["a"]), trigger("bills")), "bills")
    assert counts.table().to_pylist() == [
        {"trigger": "bills", "status": "DUPLICATE", "action": "DISCARD", "rule": "R9", "count": 1},
        {"trigger": "orders", "status": "DUPLICATE", "action": "DISCARD", "rule": "R9", "count": 2},
        {"trigger": "orders", "status": "IN_DOUBT", "action": "LOG", "rule": "R11", "count": 2},
        {"trigger": "orders", "status": "NEW", "action": "PROCESS", "rule": "R8", "count": 2},
    ]
    counts.clear(trigger())
    assert counts.table()["trigger"].to_pylist() == ["bills"]
    counts.clear()
    assert counts.table().num_rows == 0


def test_prometheus_can_read_it(used: dh.History) -> None:
    counts = metrics.VerdictCounts()
    jms = trigger("jms", kind="jms")
    counts.add(used.classify(documents(["a"], delivery_count=[100]), jms), 'odd "name"\\\n')
    text = metrics.prometheus_text(used, counts, now=LATER)
    assert 'dochistory_oldest_entry_age_seconds{trigger="orders"} 10800.0\n' in text
    assert r'dochistory_verdicts_total{trigger="odd \"name\"\\\n",status="",action="REJECT",rule="R2"} 1' in text
    label = r'\w+="(?:[^"\\\n]|\\["\\n])*"'
    sample = re.compile(rf"\w+\{{{label}(,{label})*\}} -?\d+(\.\d+)?(e[+-]\d+)?")
    seen: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP|TYPE) dochistory_\w+ .+", line)
            seen.add(line.split()[2])
        else:
            assert sample.fullmatch(line), line
            assert line.split("{")[0] in seen


def test_what_documents_were_is_counted_by_trigger(used: dh.History) -> None:
    counts = metrics.VerdictCounts()
    asked = documents(["a", "c", "n", None, "x" * 97])
    counts.add(used.classify(asked, trigger()), trigger())
    expected = {"new": 1, "duplicate": 1, "in_doubt": 3, "suspended": 0, "rejected": 0, "no_id": 1, "too_long": 1}
    assert counts.totals() == {"orders": expected}
    page = metrics.prometheus_text(counts=counts)
    assert 'dochistory_documents_total{trigger="orders",what="too_long"} 1\n' in page
    assert 'dochistory_documents_total{trigger="orders",what="suspended"} 0\n' in page


def test_look_ups_and_filter_passes_are_counted_by_handle(used: dh.History, directory: Path) -> None:
    used.unpin("orders", used.pin("orders"))  # a pin seals the log: only segments have filters
    with dh.open(directory, read_only=True) as reader:
        reader.classify(documents(["a", "b", "n", None]), trigger())
        found = reader.stats("orders")
        assert found["looked_up"] == 4
        assert 2 <= found["filter_positives"] <= 3
        assert metrics.history_metrics(reader)["orders"]["filter_positives"] == found["filter_positives"]
    page = metrics.prometheus_text(used)
    assert "# TYPE dochistory_filter_positives_total counter\n" in page


def test_the_oldest_partition_is_as_old_as_its_beginning(used: dh.History) -> None:
    figures = metrics.history_metrics(used, now=LATER)["orders"]
    width = used.stats("orders")["partition"].total_seconds()
    assert 3 * 3600 <= figures["oldest_partition_seconds"] < 3 * 3600 + width


ASKED_FOR = {
    "new": ('dochistory_documents_total{trigger="orders",what="new"}', 1),
    "duplicate": ('dochistory_documents_total{trigger="orders",what="duplicate"}', 1),
    "in_doubt": ('dochistory_documents_total{trigger="orders",what="in_doubt"}', 3),
    "too_long": ('dochistory_documents_total{trigger="orders",what="too_long"}', 1),
    "no_id": ('dochistory_documents_total{trigger="orders",what="no_id"}', 1),
    "filter_positives": ('dochistory_filter_positives_total{trigger="orders"}', None),
    "entries": ('dochistory_entries{trigger="orders"}', 3),
    "bytes": ('dochistory_bytes{trigger="orders"}', None),
    "segments": ('dochistory_segments{trigger="orders"}', None),
    "oldest_partition_seconds": ('dochistory_oldest_partition_age_seconds{trigger="orders"}', None),
    "processing": ('dochistory_processing{trigger="orders"}', 1),
    "oldest_processing_seconds": ('dochistory_oldest_processing_age_seconds{trigger="orders"}', 7200.0),
}
"""What an operator asks for: its name in the dictionaries, its sample for Prometheus, its value where it is known."""


def test_each_required_figure_is_in_the_dictionary_and_the_page(used: dh.History) -> None:
    counts = metrics.VerdictCounts()
    counts.add(used.classify(documents(["a", "c", "n", None, "x" * 97]), trigger()), trigger())
    figures = counts.totals()["orders"] | metrics.history_metrics(used, now=LATER)["orders"]
    page = metrics.prometheus_text(used, counts, now=LATER)
    samples = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    for name, (sample, value) in ASKED_FOR.items():
        assert samples[sample] == str(figures[name]), name
        assert value is None or figures[name] == value, name
