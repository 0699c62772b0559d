"""Loading entries in bulk: what was processed elsewhere is known here."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ORDERS = dh.Trigger("orders", detect_duplicates=True, use_history=True, history_time_to_live="30 days")


def test_loaded_entries_are_known_with_their_status_and_time(tmp_path: Path) -> None:
    ids = [f"urn:document:{number}" for number in range(1000)]
    days = [NOW - dt.timedelta(days=number % 40) for number in range(1000)]
    statuses = ["processing" if number % 10 == 0 else None for number in range(1000)]
    table = pa.table({"id": ids, "started_at": days, "status": pa.array(statuses, pa.string())})
    seen: list[int] = []
    with dh.open(tmp_path / "h", create=True) as history:
        loaded = history.load(table.to_reader(100), ORDERS, columns={"uuid": "id"}, progress=seen.append)

        assert loaded == 1000
        assert seen == list(range(100, 1001, 100))
        rules = history.classify(pa.table({"uuid": ids}), ORDERS, now=NOW)["rule"].to_pylist()
        assert rules == ["R11" if number % 10 == 0 else "R9" for number in range(1000)]
        listed = pa.table(history.entries(ORDERS))
        assert dict(zip(listed["key"].to_pylist(), listed["started_at"].to_pylist(), strict=True)) == dict(
            zip(ids, days, strict=True)
        )
        history.purge(ORDERS, now=NOW)
        left = history.classify(pa.table({"uuid": ids}), ORDERS, now=NOW)["status"].to_pylist()
        assert [status == "NEW" for status in left] == [number % 40 >= 30 for number in range(1000)]


def test_what_was_listed_can_be_loaded_into_another_history(tmp_path: Path) -> None:
    with dh.open(tmp_path / "a", create=True) as first, dh.open(tmp_path / "b", create=True) as second:
        claim = first.begin(pa.table({"uuid": ["a", "b", "c"]}), ORDERS, now=NOW)
        claim.complete(rows=[0, 1])
        second.load(first.entries(ORDERS), ORDERS, columns={"uuid": "key"})

        assert second.classify(pa.table({"uuid": list("abcd")}), ORDERS)["rule"].to_pylist() == [
            "R9",
            "R9",
            "R11",
            "R8",
        ]


def test_loading_again_changes_nothing(tmp_path: Path) -> None:
    table = pa.table({"uuid": ["a", "b"]})
    with dh.open(tmp_path / "h", create=True) as history:
        history.load(table, ORDERS, now=NOW)
        history.load(table, ORDERS, now=NOW)

        assert pa.table(history.entries(ORDERS)).num_rows == 2


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"uuid": ["a", None]}), "row 1 has no key"),
        (pa.table({"uuid": ["x" * 97]}), "more than 96"),
        (pa.table({"uuid": ["a"], "started_at": [1]}), "started_at"),
        (pa.table({"uuid": ["a"], "status": ["done"]}), "done"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_its_reason(tmp_path: Path, table: pa.Table, reason: str) -> None:
    with dh.open(tmp_path / "h", create=True) as history:
        with pytest.raises(dh.SchemaError, match=reason):
            history.load(table, ORDERS)

        assert pa.table(history.entries(ORDERS)).num_rows == 0
