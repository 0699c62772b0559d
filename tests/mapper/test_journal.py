"""A mapper's audit records in the journal."""

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import journal
from tests.cli.conftest import Run, run
from tests.mapper.support import messages

__all__ = ["run"]  # a fixture


def test_mapper_audits_appear_in_the_journal_beside_triggers(
    mapper: dh.MessageIdMapper, tmp_path: Path, caplog: pytest.LogCaptureFixture, run: Run
) -> None:
    caplog.set_level(logging.INFO, journal.LOGGER)
    mapper.begin_send(messages(["b"])).abort([0])  # nobody knows whether it went out
    sinks = [journal.ParquetSink(tmp_path / "journal")]
    assert journal.mapper.write(mapper.begin_send(messages(["a", "b", None])), sinks=sinks) == 2
    incoming = pa.table({"id": ["x", "x"], "message_id": ["o-1", "o-2"]})
    with mapper.unit_of_work() as unit:
        taken = unit.take(incoming)
        assert journal.mapper.write(taken, sinks=sinks) == 1
    assert journal.mapper.write(mapper.begin_send(messages(["new"]))) == 0

    (table,) = journal.read(tmp_path / "journal", journal.Filter(status="IN_DOUBT", rule="M3"))
    assert table.schema == journal.SCHEMA
    assert table.select(["trigger", "key", "row"]).to_pylist() == [
        {"trigger": "mapper:jms-receiver", "key": "b", "row": 1}
    ]
    assert [(one.levelname, vars(one)["dochistory"]["rule"]) for one in caplog.records] == [
        ("ERROR", "M3"),
        ("ERROR", "M8"),
        ("INFO", "N3+batch"),
    ]
    # A duplicate is a success of the message that came first.
    assert vars(caplog.records[2])["dochistory"]["key"] == "o-1"
    assert "mapper:jms-receiver" in run("journal", tmp_path / "journal").out


def test_more_than_a_few_records_are_counted(mapper: dh.MessageIdMapper, caplog: pytest.LogCaptureFixture) -> None:
    assert journal.mapper.write(mapper.begin_send(messages([None] * 5)), most=2) == 5
    assert [one.levelname for one in caplog.records] == ["ERROR"] * 3
    assert caplog.messages[2] == "mapper:jms-receiver: 3 more audit records"
