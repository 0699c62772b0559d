"""The journal of one batch."""

import datetime as dt
import json
import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from dochistory import journal
from tests.support import T0, documents, trigger

SERIAL = trigger(processing_mode="serial")


@pytest.fixture
def batch(history: dh.History) -> pa.RecordBatch:
    """Documents of which a is completed and b processing, and c comes twice."""
    history.begin(documents(["a"]), SERIAL).complete()
    history.begin(documents(["b"]), SERIAL)
    return documents(["n", "a", "b", "c", "c"], redelivery_count=pa.array([0, 1, None, 0, 3], pa.int32()))


def test_there_is_a_record_for_all_that_is_not_simply_processed(history: dh.History, batch: pa.RecordBatch) -> None:
    verdicts = history.classify(batch, SERIAL)
    records = journal.records(batch, verdicts, SERIAL, now=T0)
    assert records.schema == journal.SCHEMA
    rows = [{name: row[name] for name in ("key", "status", "rule", "count", "row")} for row in records.to_pylist()]
    assert rows == [
        {"key": "a", "status": "DUPLICATE", "rule": "R9", "count": 1, "row": 1},
        {"key": "b", "status": "IN_DOUBT", "rule": "R11", "count": None, "row": 2},
        {"key": "c", "status": "DUPLICATE", "rule": "R8+batch", "count": 3, "row": 4},
    ]
    assert records["time"].unique().to_pylist() == [T0]
    assert records["trigger"].unique().to_pylist() == ["orders"]
    assert None not in records["message"].to_pylist()


def test_records_are_logged_with_their_fields(
    history: dh.History, batch: pa.RecordBatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, journal.LOGGER)
    summary = journal.write(batch, history.classify(batch, SERIAL), SERIAL, now=T0)
    assert [(one.levelname, fields(one)["key"]) for one in caplog.records] == [
        ("WARNING", "b"),
        ("INFO", "a"),
        ("INFO", "c"),
    ]
    assert caplog.messages[1].startswith('orders DUPLICATE R9 key="a" count=1: ')
    assert fields(caplog.records[0])["time"] == T0
    assert summary.counts == {("DUPLICATE", "R9"): 1, ("IN_DOUBT", "R11"): 1, ("DUPLICATE", "R8+batch"): 1}
    assert (summary.logged, summary.left_out, summary.total) == (3, 0, 3)


def test_a_status_that_no_record_has_is_refused() -> None:
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] status is .*DUPLICATE.*'NEW'"):
        journal.Filter(status="NEW")  # type: ignore[arg-type]


def fields(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = vars(record)["dochistory"]
    return found


def test_what_is_new_leaves_no_trace(history: dh.History, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    new = documents(["x"])
    sinks: list[journal.Sink] = [
        journal.ParquetSink(tmp_path / "journal"),
        journal.JsonLinesSink(tmp_path / "journal.jsonl"),
    ]
    assert journal.write(new, history.classify(new, SERIAL), SERIAL, sinks=sinks).total == 0
    assert caplog.records == []
    assert not (tmp_path / "journal").exists()
    assert not (tmp_path / "journal.jsonl").exists()


def many(count: int) -> pa.Table:
    """Verdicts of so many duplicates, every tenth in doubt instead."""
    return pa.table(
        {
            "status": pa.array(["IN_DOUBT" if n % 10 == 0 else "DUPLICATE" for n in range(count)]).dictionary_encode(),
            "rule": pa.array(["R11" if n % 10 == 0 else "R9" for n in range(count)]).dictionary_encode(),
            "key": [f"k{n}" for n in range(count)],
            "message": ["said"] * count,
        }
    )


@pytest.mark.parametrize(
    ("most", "sample", "doubtful"),
    [(3, "first", ["k0", "k10", "k20"]), (4, "spread", ["k0", "k250", "k500", "k750"]), (0, "spread", [])],
)
def test_a_flood_is_sampled_and_summed_up(
    caplog: pytest.LogCaptureFixture, most: int, sample: Any, doubtful: list[str]
) -> None:
    caplog.set_level(logging.INFO, journal.LOGGER)
    summary = journal.write(None, many(1_000), SERIAL, most=most, sample=sample)
    *single, last = caplog.records
    assert [fields(one)["key"] for one in single if one.levelname == "WARNING"] == doubtful
    assert len(single) == 2 * most == summary.logged
    assert summary.left_out == 1_000 - 2 * most
    assert last.levelname == "WARNING"
    assert fields(last)["counts"] == [
        {"status": "DUPLICATE", "rule": "R9", "count": 900},
        {"status": "IN_DOUBT", "rule": "R11", "count": 100},
    ]
    assert fields(last)["left_out"] == summary.left_out


def test_all_are_logged_if_wanted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, journal.LOGGER)
    assert journal.write(None, many(3_000), SERIAL, most=None).left_out == 0
    assert len(caplog.records) == 3_000


def test_records_that_nobody_listens_to_are_still_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, journal.LOGGER)
    summary = journal.write(None, many(100), SERIAL)
    assert (summary.logged, summary.left_out) == (10, 90)
    assert caplog.messages[-1].endswith("in all 90 DUPLICATE by R9, 10 IN_DOUBT by R11")


def test_sinks_get_every_record(tmp_path: Path) -> None:
    sink = journal.ParquetSink(tmp_path / "journal")
    for _ in range(2):
        journal.write(None, many(5_000), SERIAL, most=0, sinks=[sink], now=T0)
    files = sorted(tmp_path.glob("journal/*"))
    assert [file.name[:22] for file in files] == ["20240310T120000.000000"] * 2
    kept = pq.read_table(tmp_path / "journal")
    assert kept.num_rows == 10_000
    assert kept.schema.remove_metadata() == journal.SCHEMA


NASTY = ['quote " and \\', "line\nend", "tab\tnul\x00 del\x7f", "Grüße 🎉", "", "{}"]


def test_line_that_was_cut_off_spoils_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "journal.jsonl"
    sink = journal.JsonLinesSink(path)
    journal.write(None, many(3), SERIAL, most=0, sinks=[sink], now=T0)
    os.truncate(path, path.stat().st_size - 5)  # the disk was full
    journal.write(None, many(3), SERIAL, most=0, sinks=[sink], now=T0)
    found = pa.concat_tables(table for table in journal.read(path))
    assert found["key"].to_pylist() == ["k0", "k1", "k0", "k1", "k2"]
    assert "a line was cut off while it was written" in caplog.text


@pytest.mark.parametrize("rows", [6, 70_000])
def test_json_lines_hold_any_key(tmp_path: Path, rows: int) -> None:
    keys = [NASTY[n % 6] for n in range(rows)]
    verdicts = many(rows).set_column(2, "key", pa.array([None, *keys[1:]], pa.string()))
    path = tmp_path / "journal.jsonl"
    for _ in range(2):
        journal.write(None, verdicts, SERIAL, most=0, sinks=[journal.JsonLinesSink(path)], now=T0)
    lines = path.read_bytes().decode().split("\n")
    assert lines.pop() == ""
    found = [json.loads(line) for line in lines]
    assert [one["key"] for one in found] == [None, *keys[1:]] * 2
    assert dt.datetime.fromisoformat(found[0]["time"]) == T0
    assert found[0] | {"time": None} == {
        "time": None,
        "trigger": "orders",
        "key": None,
        "status": "IN_DOUBT",
        "rule": "R11",
        "message": "said",
        "count": None,
        "row": 0,
    }


def test_a_jms_document_is_counted_by_its_deliveries(history: dh.History) -> None:
    jms = trigger("jms", kind="jms")
    history.begin(documents(["a"]), jms).complete()
    again = documents(["a"], n=[4])
    verdicts = history.classify(again, jms, columns={"delivery_count": "n"})
    records = journal.records(again, verdicts, jms, columns={"delivery_count": "n"})
    assert records["count"].to_pylist() == [4]


def test_verdicts_of_another_batch_are_refused(history: dh.History, batch: pa.RecordBatch) -> None:
    with pytest.raises(dh.SchemaError, match="1 documents and 5 verdicts"):
        journal.write(documents(["a"]), history.classify(batch, SERIAL), SERIAL)


@pytest.mark.parametrize("settings", [{"most": -1}, {"sample": "last"}])
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(dh.ConfigError, match="it must be"):
        journal.write(None, many(1), SERIAL, **settings)


def test_polars_documents_with_string_views_are_journaled(history: dh.History) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"uuid": ["a", "b"], "redelivery_count": [1, 0]})
    history.begin(frame, trigger()).complete()
    written = journal.records(frame, history.classify(frame, trigger()), trigger())
    assert written["key"].to_pylist() == ["a", "b"]
    assert written["count"].to_pylist() == [1, 0]
    assert history.audit.keep(frame, history.classify(frame, trigger()), trigger()) == []
    dh.Statistics(history).add(history.classify(frame, trigger()), trigger(), documents=frame, name="uuid")
    assert dh.Statistics(history).documents()["name"].to_pylist() == ["a", "b"]
