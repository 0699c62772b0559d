"""Importing another history: every row arrives, both sides agree, and what cannot be right is refused."""

import datetime as dt
import sqlite3
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from dochistory import migration
from tests.support import T0, documents, entries, trigger

ORDERS = trigger(history_time_to_live="40000 days")
INVOICES = trigger("invoices", history_time_to_live="40000 days")
BOTH = {"orders": ORDERS, "invoices": INVOICES}

OLD = pa.table(
    {
        "trigger": ["orders", "orders", "orders", "invoices", "orders"],
        "uuid": ["a", "b", "a", "a", "c"],
        "status": ["processing", "processing", "completed", "completed", "completed"],
        "time": pa.array([T0 - dt.timedelta(hours=n) for n in range(5)], pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[dh.History]:
    with dh.open(tmp_path / "new.history", create=True) as opened:
        yield opened


def known(history: dh.History, name: dh.Trigger) -> dict[str, tuple[str, dt.datetime]]:
    return {row["key"]: (row["status"], row["started_at"]) for row in pa.table(history.entries(name)).to_pylist()}


def test_both_rows_of_a_document_make_one_completed_entry(history: dh.History) -> None:
    done = migration.import_history(history, migration.rows_of(OLD), BOTH)

    assert (done.rows, done.loaded) == (5, {"orders": 4, "invoices": 1})
    assert {key: status for key, (status, _) in known(history, ORDERS).items()} == {
        "a": "completed",
        "b": "processing",
        "c": "completed",
    }
    assert known(history, INVOICES) == {"a": ("completed", T0 - dt.timedelta(hours=3))}
    assert done.checked >= 4
    assert done.differences.num_rows == 0
    rules = history.classify(documents(["a", "b", "c", "d"]), ORDERS)["rule"].to_pylist()
    assert rules == ["R9", "R11", "R9", "R8"]


def test_importing_again_changes_nothing(history: dh.History) -> None:
    for _ in range(2):
        done = migration.import_history(history, migration.rows_of(OLD), BOTH)
        assert done.differences.num_rows == 0
    assert len(entries(history, ORDERS)) == 3


def test_triggers_may_be_called_otherwise_here(history: dh.History) -> None:
    source = migration.rows_of(OLD.drop_columns("time"))
    here = {"orders": trigger("shop.orders"), "invoices": trigger("shop.invoices")}
    loaded = [migration.import_history(history, source, here, now=T0 + dt.timedelta(day)) for day in range(2)]
    assert [done.differences.num_rows for done in loaded] == [0, 0]
    assert [done.loaded for done in loaded] == [{"orders": 4, "invoices": 1}, {"orders": 0, "invoices": 0}]
    assert history.triggers() == ["shop.invoices", "shop.orders"]


def test_several_triggers_there_may_be_one_here(history: dh.History) -> None:
    states = ["processing", "completed", "processing"]
    old = pa.table({"trigger": ["eu", "us", "us"], "uuid": ["a", "a", "b"], "status": states})
    for loaded in ({"eu": 1, "us": 2}, {"eu": 0, "us": 0}):
        done = migration.import_history(history, migration.rows_of(old), {"eu": ORDERS, "us": ORDERS})
        assert (done.loaded, done.differences.to_pylist()) == (loaded, [])


def test_importing_again_without_times_renews_nothing(history: dh.History) -> None:
    old = pa.table({"uuid": ["a", "b", "a"], "status": ["completed", "processing", "processing"]})
    loaded, found = [], []
    for day in range(3):
        now = T0 + dt.timedelta(day)
        loaded.append(migration.import_history(history, migration.rows_of(old), ORDERS, now=now).loaded)
        found.append((known(history, ORDERS), history.stats(ORDERS)["segment_entries"]))
    assert found[0][0] == {"a": ("completed", T0), "b": ("processing", T0)}
    assert found[0] == found[1] == found[2]
    assert loaded == [{"orders": 3}, {"orders": 0}, {"orders": 0}]


def test_rows_without_times_complete_what_was_open(history: dh.History) -> None:
    open_, ended = (pa.table({"uuid": ["a", "b"], "status": [status] * 2}) for status in ("processing", "completed"))
    for old in (open_, ended, open_):
        migration.import_history(history, migration.rows_of(old), ORDERS, now=T0)
    assert known(history, ORDERS) == {"a": ("completed", T0), "b": ("completed", T0)}


def test_a_row_with_a_time_renews_an_older_one(history: dh.History) -> None:
    for day in range(2):
        time = pa.array([T0 + dt.timedelta(day), None], pa.timestamp("us", "UTC"))
        old = pa.table({"uuid": ["a", "b"], "time": time})
        migration.import_history(history, migration.rows_of(old), ORDERS, now=T0 + dt.timedelta(day))
    assert known(history, ORDERS) == {"a": ("completed", T0 + dt.timedelta(1)), "b": ("completed", T0)}


def test_a_difference_is_found_and_named(history: dh.History) -> None:
    history.begin(documents(["b"]), ORDERS).complete()
    done = migration.import_history(history, migration.rows_of(OLD), BOTH)

    found = {"trigger": "orders", "uuid": "b", "there": "IN_DOUBT", "here": "DUPLICATE"}
    assert done.differences.to_pylist() == [found]


def test_sample_has_the_asked_size_and_spreads_over_all_rows(history: dh.History) -> None:
    old = pa.table({"uuid": [f"id-{n}" for n in range(20_000)]})
    readings = iter([old.to_batches(max_chunksize=1_000), []])
    done = migration.import_history(history, lambda: next(readings), ORDERS, sample=200, seed=7)

    assert done.checked == 200 + 200 // 10 + 1
    assert done.differences.num_rows == 200
    quarters = [int(key.removeprefix("id-")) // 5_000 for key in done.differences["uuid"].to_pylist()]
    assert all(quarters.count(quarter) > 20 for quarter in range(4))


def test_without_a_sample_nothing_is_compared(history: dh.History) -> None:
    readings = iter([OLD.to_batches()])
    done = migration.import_history(history, lambda: next(readings), BOTH, sample=0)
    assert (done.checked, done.rows) == (0, 5)


def test_rows_that_the_old_history_lost_meanwhile_are_told(history: dh.History) -> None:
    readings = iter([OLD, OLD.filter(pa.array([False] * 5))])
    done = migration.import_history(history, lambda: next(readings).to_batches(), BOTH)
    said = {(row["trigger"], row["uuid"], row["there"], row["here"]) for row in done.differences.to_pylist()}
    assert said == {
        ("orders", "a", "NEW", "DUPLICATE"),
        ("orders", "b", "NEW", "IN_DOUBT"),
        ("orders", "c", "NEW", "DUPLICATE"),
        ("invoices", "a", "NEW", "DUPLICATE"),
    }


def test_a_data_set_of_files_streams_in(history: dh.History, tmp_path: Path) -> None:
    for part in range(3):
        pq.write_table(pa.table({"uuid": [f"{part}-{n}" for n in range(1_000)]}), tmp_path / f"{part}.parquet")
    source = migration.rows_of(ds.dataset(sorted(tmp_path.glob("*.parquet"))))
    seen: list[int] = []
    done = migration.import_history(history, source, ORDERS, progress=seen.append)
    assert done.loaded == {"orders": 3_000}
    assert seen[-1] == 3_000
    assert len(entries(history, ORDERS)) == 3_000


@pytest.mark.parametrize(
    "time",
    [
        pa.array([T0.timestamp()]),
        pa.array([Decimal(int(T0.timestamp() * 100)).scaleb(-2)]),  # what PostgreSQL extracts
        pa.array([T0.replace(tzinfo=None).isoformat(" ")]),  # what SQLite has
        pa.array([T0.isoformat()], pa.large_string()),
        pa.array([T0.isoformat()], pa.string_view()),  # what Polars has
        pa.array([int(T0.timestamp()) * 1_000_000_000 + 999], pa.timestamp("ns")),
    ],
)
def test_times_are_known_as_databases_give_them(history: dh.History, time: pa.Array) -> None:
    old = pa.table({"uuid": ["a"], "time": time})
    migration.import_history(history, migration.rows_of(old), ORDERS, time_unit="s")
    assert known(history, ORDERS) == {"a": ("completed", T0)}


@pytest.mark.parametrize("type_", [pa.uuid(), pa.binary(16)])
def test_uuids_come_as_16_bytes_too(history: dh.History, type_: pa.DataType) -> None:
    known_, ascii_ = uuid.uuid4(), uuid.UUID(bytes=b"0123456789abcdef")
    old = pa.table({"uuid": pa.array([known_.bytes, ascii_.bytes], type_), "status": ["completed", "processing"]})
    done = migration.import_history(history, migration.rows_of(old), ORDERS)
    assert (done.loaded, done.differences.num_rows) == ({"orders": 2}, 0)
    asked = documents([str(known_), str(ascii_)])
    assert history.classify(asked, ORDERS)["status"].to_pylist() == ["DUPLICATE", "IN_DOUBT"]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_numbers_are_times_in_the_unit_that_is_said(history: dh.History, unit: migration.TimeUnit) -> None:
    count = {"s": 1, "ms": 1_000, "us": 1_000_000}[unit]
    old = pa.table({"uuid": ["a", "b"], "time": pa.array([int(T0.timestamp()) * count, None], pa.int64())})
    migration.import_history(history, migration.rows_of(old), ORDERS, time_unit=unit, now=T0 + dt.timedelta(1))
    assert known(history, ORDERS) == {"a": ("completed", T0), "b": ("completed", T0 + dt.timedelta(1))}


def test_other_names_and_values_are_translated(history: dh.History) -> None:
    old = pa.table({"ID": ["a", "b"], "STATE": ["D", "R"], "WHEN": [T0.replace(tzinfo=None)] * 2})
    done = migration.import_history(
        history,
        migration.rows_of(old),
        ORDERS,
        columns={"uuid": "ID", "status": "STATE", "time": "WHEN"},
        statuses={"D": "completed", "R": "processing"},
    )
    assert done.differences.num_rows == 0
    assert known(history, ORDERS) == {"a": ("completed", T0), "b": ("processing", T0)}


@pytest.mark.parametrize("values", [[1, 0], [True, False], [1.5, 0.5]])
def test_statuses_may_be_numbers(history: dh.History, values: list[float]) -> None:
    done, begun = values
    rows = migration.rows_of(pa.table({"uuid": ["a", "b"], "status": values}))
    migration.import_history(history, rows, ORDERS, statuses={done: "completed", begun: "processing"}, now=T0)
    assert known(history, ORDERS) == {"a": ("completed", T0), "b": ("processing", T0)}


def test_a_status_that_means_neither_is_refused(history: dh.History) -> None:
    rows = migration.rows_of(pa.table({"uuid": ["a"], "status": ["P"]}))
    with pytest.raises(dh.SchemaError, match="statuses says that 'P' means 'done'; it must be completed or processing"):
        migration.import_history(history, rows, ORDERS, statuses={"P": "done"})
    assert known(history, ORDERS) == {}


@pytest.mark.parametrize(
    ("table", "kind", "said"),
    [
        ({"id": ["a"], "trigger": ["orders"]}, dh.SchemaError, "no column 'uuid', but id, trigger"),
        ({"uuid": ["a"]}, dh.SchemaError, "no column 'trigger', but uuid"),
        ({"uuid": ["a"], "trigger": ["x"]}, dh.ConfigError, "'x', which is not described; there are invoices, orders"),
        ({"uuid": ["a"], "trigger": [None]}, dh.SchemaError, "name no trigger"),
        (
            {"uuid": ["a"], "trigger": ["orders"], "status": ["Z"]},
            dh.SchemaError,
            "holds 'Z'; known values are completed",
        ),
        ({"uuid": ["a"], "trigger": ["orders"], "time": ["soon"]}, dh.SchemaError, "needed is a time"),
        ({"uuid": ["a"], "trigger": ["orders"], "time": [2**62]}, dh.SchemaError, "needed is a time"),
        ({"uuid": [None], "trigger": ["orders"]}, dh.SchemaError, "no key"),
        ({"uuid": ["x" * 97], "trigger": ["orders"]}, dh.SchemaError, "more than 96"),
    ],
)
def test_invalid_input_is_refused_by_name(
    history: dh.History, table: dict[str, list[object]], kind: type[Exception], said: str
) -> None:
    typed = {
        name: pa.array(values, pa.string()) if values == [None] else pa.array(values) for name, values in table.items()
    }
    with pytest.raises(kind, match=said):
        migration.import_history(history, migration.rows_of(pa.table(typed)), BOTH)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"status": "STATE"}, "no column 'STATE', but trigger, uuid, status, time: say which column holds the status"),
        ({"time": "began"}, "no column 'began', but trigger, uuid, status, time: say which column holds the time"),
        ({"started_at": "time"}, "columns names 'started_at'; an import looks at trigger, uuid, status, time"),
    ],
)
def test_a_named_column_that_is_not_there_is_not_taken_as_absent(
    history: dh.History, columns: dict[str, str], said: str
) -> None:
    with pytest.raises(dh.SchemaError, match=said):
        migration.import_history(history, migration.rows_of(OLD), BOTH, columns=columns)
    assert history.triggers() == []


@pytest.mark.parametrize(
    ("table", "given", "said"),
    [
        ({"STATUS": ["processing"]}, {}, "there is a column 'STATUS', and it would be passed over"),
        ({"Time": [1]}, {}, "there is a column 'Time', and it would be passed over"),
        ({}, {"statuses": {"P": "processing"}}, "no column 'status', but uuid"),
        ({"time": [1_700_000_000]}, {}, "holds 1700000000, which in 'ms' is in 1970: name the unit"),
        ({"time": [1_700_000_000.5]}, {}, "holds 1700000000.5, which in 'ms' is in 1970: name the unit"),
        ({"time": [1_700_000_000_000]}, {"time_unit": "us"}, "holds 1700000000000, which in 'us' is in 1970"),
    ],
)
def test_what_would_be_taken_as_completed_or_expired_is_refused(
    history: dh.History, table: dict[str, list[object]], given: dict[str, Any], said: str
) -> None:
    with pytest.raises(dh.SchemaError, match=said):
        migration.import_history(history, migration.rows_of(pa.table({"uuid": ["a"], **table})), ORDERS, **given)
    assert history.triggers() == []


def test_rows_of_several_triggers_do_not_become_those_of_one(history: dh.History) -> None:
    with pytest.raises(dh.SchemaError, match=r"names 'orders' and 'invoices', and all rows would become .* 'orders'"):
        migration.import_history(history, migration.rows_of(OLD), ORDERS)
    one = OLD.filter(pc.equal(OLD["trigger"], "invoices"))
    assert migration.import_history(history, migration.rows_of(one), ORDERS).rows == 1


def test_a_column_that_is_there_twice_is_refused_by_name(history: dh.History) -> None:
    old = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["uuid", "uuid"])
    with pytest.raises(dh.SchemaError, match=r"2 columns 'uuid' \(uuid\)"):
        migration.import_history(history, migration.rows_of(old), ORDERS)


def test_a_stream_is_refused_for_it_cannot_be_read_twice() -> None:
    with pytest.raises(TypeError, match="read only once"):
        migration.rows_of(OLD.to_reader())


def test_any_driver_of_a_database_will_do(history: dh.History, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as old:
        old.execute("create table history (topic text, id text, state text, at integer)")
        rows = [
            ("orders", f"o-{n}", "completed" if n % 7 else "processing", None if n < 3 else n) for n in range(2_500)
        ]
        old.executemany("insert into history values (?, ?, ?, ?)", rows)
    old.close()
    query = "select topic as trigger, id as uuid, state as status, at as time from history"
    source = migration.dbapi(lambda: sqlite3.connect(path), query, rows_at_once=1_000)
    done = migration.import_history(history, source, BOTH, time_unit="s")

    assert done.rows == 2_500
    assert done.differences.num_rows == 0
    found = known(history, ORDERS)
    assert len(found) == 2_500
    assert found["o-7"] == ("processing", dt.datetime(1970, 1, 1, 0, 0, 7, tzinfo=dt.UTC))
