"""Columns whose names differ by case alone from those that a call looks at."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import documents, trigger

JMS = dh.Trigger.jms("mails", detect_duplicates=True, use_history=True, history_time_to_live="1 day")
A_DAY = datetime(2026, 1, 2, tzinfo=UTC)

Call = Callable[[dh.History, pa.Table], Any]
PASSED_OVER: list[tuple[str, str, dict[str, list[Any]], Call]] = [
    ("uuid", "UUID", {"event_id": ["e"]}, lambda history, table: history.classify(table, trigger())),
    ("uuid", "Uuid", {"track_id": ["t"]}, lambda history, table: history.begin(table, trigger())),
    ("event_id", "Event_ID", {"redelivery_count": [0]}, lambda history, table: history.begin(table, trigger())),
    ("redelivery_count", "REDELIVERY_COUNT", {"uuid": ["a"]}, lambda history, table: history.begin(table, trigger())),
    ("guaranteed", "Guaranteed", {"uuid": ["a"]}, lambda history, table: history.classify(table, trigger())),
    ("jms_message_id", "JMS_Message_ID", {"uuid": ["a"]}, lambda history, table: history.classify(table, JMS)),
    ("status", "Status", {"uuid": ["a"]}, lambda history, table: history.load(table, trigger())),
    ("started_at", "Started_At", {"uuid": ["a"]}, lambda history, table: history.load(table, trigger())),
    ("uuid", "UUID", {"event_id": ["e"]}, lambda history, table: history.load(iter(table.to_batches()), trigger())),
    ("message_id", "Message_Id", {"id": ["a"]}, lambda history, table: history.mapper("m").begin_send(table)),
    ("qos", "QoS", {"id": ["a"]}, lambda history, table: history.mapper("m").begin_send(table)),
    ("stream", "Stream", {"header": ["(0-0-1-0)"]}, lambda history, table: history.delivery("s").receive(table)),
    ("header", "Header", {"stream": ["s"]}, lambda history, table: history.delivery().receive(table)),
]


def statuses(history: dh.History, keys: list[str], **how: Any) -> list[str]:
    answers: list[str] = history.classify(documents(keys), trigger(), **how)["status"].to_pylist()
    return answers


@pytest.mark.parametrize(
    ("role", "name", "others", "call"), PASSED_OVER, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_column_in_another_case_is_refused(
    history: dh.History, role: str, name: str, others: dict[str, list[Any]], call: Call
) -> None:
    with pytest.raises(dh.SchemaError) as raised:
        call(history, pa.table({name: ["x"], **others}))
    assert str(raised.value) == (
        f'[DH-SCHEMA] there is a column "{name}" and no "{role}", and it would be passed over: rename it, or say that '
        f'it is meant, as in columns={{"{role}": "{name}"}}'
    )


def test_what_is_refused_for_its_case_leaves_nothing(history: dh.History) -> None:
    table = pa.table({"UUID": ["a"], "event_id": ["e"]})
    for call in (history.begin, history.load):
        with pytest.raises(dh.SchemaError, match=r'as in columns=\{"uuid": "UUID"\}'):
            call(table, trigger())
    assert history.entries(trigger()).read_all().num_rows == 0


def test_a_column_in_another_case_is_taken_where_it_is_named(history: dh.History) -> None:
    table = pa.table({"UUID": ["a"], "event_id": ["e"]})
    history.begin(table, trigger(), columns={"uuid": "UUID"}).complete()
    assert statuses(history, ["a", "e"]) == ["DUPLICATE", "NEW"]
    loaded = pa.table({"uuid": ["b"], "Status": ["processing"], "AT": [A_DAY]})
    history.load(loaded, trigger(), columns={"status": "Status", "started_at": "AT"}, now=A_DAY)
    assert statuses(history, ["b"], now=A_DAY) == ["IN_DOUBT"]


def test_a_second_column_in_another_case_is_the_users_own(history: dh.History) -> None:
    table = pa.table({"uuid": ["a"], "UUID": ["a"], "Uuid": ["b"]})
    history.begin(table, trigger()).complete()
    assert statuses(history, ["a", "b"]) == ["DUPLICATE", "NEW"]
