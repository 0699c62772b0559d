"""Loading entries in bulk: what was processed elsewhere is known here."""

import datetime as dt
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from dochistory.progress import Bar

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


@pytest.mark.parametrize("role", ["status", "started_at"])
def test_a_named_column_that_is_not_there_is_not_taken_as_absent(tmp_path: Path, role: str) -> None:
    with dh.open(tmp_path / "h", create=True) as history:
        with pytest.raises(dh.SchemaError, match=f'columns says that {role} is "mispelt", but there is no such column'):
            history.load(pa.table({"uuid": ["a"], "state": ["processing"]}), ORDERS, columns={role: "mispelt"})

        assert pa.table(history.entries(ORDERS)).num_rows == 0


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"uuid": ["a", None]}), "row 1 has no key"),
        (pa.table({"uuid": ["x" * 97]}), "more than 96"),
        (pa.table({"uuid": ["a"], "started_at": [1]}), "started_at"),
        (pa.table({"uuid": ["a"], "status": ["done"]}), "done"),
        (pa.table({"uuid": ["a"], "started_at": pa.array([2**55], pa.timestamp("s"))}), "started_at.*year 8999"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_its_reason(tmp_path: Path, table: pa.Table, reason: str) -> None:
    with dh.open(tmp_path / "h", create=True) as history:
        with pytest.raises(dh.SchemaError, match=reason):
            history.load(table, ORDERS)

        assert pa.table(history.entries(ORDERS)).num_rows == 0


def batches_of(ids: list[str], rows: int) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = pa.table({"uuid": ids}).to_batches(max_chunksize=rows)
    return batches


def parquet_dataset(ids: list[str], directory: Path) -> Any:
    pq.write_table(pa.table({"uuid": ids}), directory / "ids.parquet", row_group_size=10)
    return ds.dataset(directory / "ids.parquet")


@pytest.mark.parametrize("form", ["table", "reader", "list", "generator", "dataset", "scanner"])
def test_entries_load_from_a_table_stream_dataset_or_batches(tmp_path: Path, form: str) -> None:
    ids = [f"urn:document:{number}" for number in range(100)]
    table = pa.table({"uuid": ids})
    documents: Any = {
        "table": lambda: table,
        "reader": lambda: table.to_reader(7),
        "list": lambda: batches_of(ids, 9),
        "generator": lambda: (batch for batch in batches_of(ids, 33)),
        "dataset": lambda: parquet_dataset(ids, tmp_path),
        "scanner": lambda: parquet_dataset(ids, tmp_path).scanner(),
    }[form]()
    with dh.open(tmp_path / "h", create=True) as history:
        assert history.load(documents, ORDERS, now=NOW) == 100
        assert set(history.classify(table, ORDERS)["status"].to_pylist()) == {"DUPLICATE"}


@pytest.mark.parametrize("documents", [7, "ids", [1, 2], np.array([1, 2])])
def test_what_holds_no_columns_is_refused(tmp_path: Path, documents: Any) -> None:
    with dh.open(tmp_path / "h", create=True) as history, pytest.raises((dh.SchemaError, TypeError)):
        history.load(documents, ORDERS)


def test_error_in_progress_stops_a_load_that_can_restart(tmp_path: Path) -> None:
    def stop(done: int) -> None:
        raise InterruptedError(str(done))

    table = pa.table({"uuid": [f"urn:{number}" for number in range(50)]})
    with dh.open(tmp_path / "h", create=True) as history:
        with pytest.raises(InterruptedError, match="10"):
            history.load(table.to_reader(10), ORDERS, progress=stop)
        assert history.load(table.to_reader(10), ORDERS) == 50
        assert set(history.classify(table, ORDERS)["status"].to_pylist()) == {"DUPLICATE"}


def test_bar_shows_progress_of_load_and_maintenance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"uuid": [f"urn:{number}" for number in range(50)]})
    with dh.open(tmp_path / "h", create=True) as history:
        history.load(table, ORDERS, progress=True)
        loaded = capsys.readouterr().err
        history.pin(ORDERS)
        history.maintain(ORDERS, all=True, progress=True)
        history.verify(progress=True)
        others = capsys.readouterr().err.splitlines()
    assert loaded.startswith("loading orders: 100% |########################| 50 in ")
    assert loaded.count("\n") == 1
    assert [line.split(":")[0] for line in others] == ["maintaining orders", "checking orders"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_bar_is_one_line_that_changes() -> None:
    terminal = Terminal()
    with Bar("loading", file=terminal) as bar:
        bar(5)
        bar(10, 20)
        bar(20, 20)
    lines = terminal.getvalue().split("\r")[1:]
    assert lines[0].startswith("loading: 5 in ")
    assert lines[1].startswith("loading:  50% |############------------| 10 in ")
    assert lines[-1].startswith("loading: 100%")
    assert terminal.getvalue().count("\n") == 1
