"""`dochistory classify`, `entries` and `export`."""

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from dochistory.cli.files import read, write
from tests.cli.conftest import Run
from tests.support import documents, trigger

IDS = ["0001", "0003", "0004", "0004"]
STATUSES = ["DUPLICATE", "IN_DOUBT", "NEW", "IN_DOUBT"]


def write_documents(path: Path) -> None:
    table = pa.table({"uuid": IDS, "amount": [5, 1, 7, 8]})
    write(str(path), None, table.schema, table.to_batches())


@pytest.mark.parametrize(
    "suffix",
    [
        "parquet",
        "arrow",
        "feather",
        "arrows",
        "csv",
        "jsonl",
        "ndjson",
        "csv.gz",
        "jsonl.gz",
        "jsonl.zst",
        "arrows.lz4",
    ],
)
def test_every_format_is_judged_and_written_with_verdicts(run: Run, orders: Path, suffix: str, tmp_path: Path) -> None:
    write_documents(tmp_path / f"in.{suffix}")
    ran = run("classify", f"in.{suffix}", "--history", orders, "--output", f"out.{suffix}")
    assert (ran.status, ran.err) == (0, "")
    judged = read(f"out.{suffix}", None, ["uuid", "key"])
    assert judged.column_names == ["uuid", "amount", "status", "action", "acknowledge", "rule", "key", "message"]
    assert judged["status"].to_pylist() == STATUSES
    assert judged["key"].to_pylist() == IDS
    assert judged["amount"].to_pylist() == [5, 1, 7, 8]


@pytest.mark.parametrize("packing", ["gzip", "zstd", "bz2", "lz4"])
@pytest.mark.parametrize("format_", ["csv", "jsonl", "arrows", "parquet"])
@pytest.mark.parametrize("named", [True, False])
def test_compressed_standard_input_is_unpacked_first(
    run: Run, orders: Path, packing: str, format_: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_documents(tmp_path / f"in.{format_}")
    give(monkeypatch, packed((tmp_path / f"in.{format_}").read_bytes(), packing))
    format_option = ["--input-format", format_] if named else []
    ran = run("classify", "-", *format_option, "--history", orders, "-o", "out.parquet")
    assert (ran.status, ran.err) == (0, "")
    assert pq.read_table(tmp_path / "out.parquet")["status"].to_pylist() == STATUSES


def test_csv_that_begins_like_an_archive_is_csv(
    run: Run, orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, b"BZh9,uuid\n1,0001\n")
    assert run("classify", "-", "--history", orders, "-o", "out.parquet").status == 0
    assert pq.read_table(tmp_path / "out.parquet")["BZh9"].to_pylist() == [1]


def test_compressed_input_that_is_cut_off_is_told(run: Run, orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, packed(b"uuid\n0001\n", "gzip")[:-9])
    ran = run("classify", "-", "--history", orders)
    assert (ran.status, ran.out) == (2, "")
    assert "standard input: this cannot be read as a table" in ran.err


@pytest.mark.parametrize("text", ['[{"uuid": "0001"}]', '\n[\n  {"uuid": "0001"}\n]\n'])
def test_json_array_is_told_that_input_is_one_object_a_line(
    run: Run, orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "in.json").write_text(text)
    ran = run("classify", "in.json", "--history", orders)
    assert (ran.status, ran.out) == (2, "")
    assert "in.json: this cannot be read as jsonl (it holds an array, and JSON input is one object a line" in ran.err
    give(monkeypatch, text.encode())
    ran = run("classify", "-", "--history", orders)
    assert (ran.status, "JSON input is one object a line" in ran.err) == (2, True)


def test_ids_of_json_that_are_numbers_are_refused_with_a_remedy(run: Run, orders: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    ran = run("classify", "in.jsonl", "--column", "uuid=id", "--history", orders)
    assert ran.status == 2
    assert "column id holds numbers, and ids are text: quote them, as `jq -c '.id |= tostring'` does" in ran.err


def packed(content: bytes, packing: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, packing) as stream:
        stream.write(content)
    result: bytes = sink.getvalue().to_pybytes()
    return result


def give(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let the program find this in its standard input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_without_an_output_the_verdicts_are_counted(run: Run, orders: Path, tmp_path: Path) -> None:
    write_documents(tmp_path / "in.csv")
    shown = run("classify", "in.csv", "--history", orders).out.splitlines()
    assert shown[0] == "4 documents of trigger orders"
    assert shown[1].split() == ["status", "action", "acknowledge", "rule", "documents"]
    assert shown[2].split() == ["DUPLICATE", "DISCARD", "NOW", "R9", "1"]
    counted = run("classify", "in.csv", "--history", orders, "--json").json
    assert counted["documents"] == 4
    assert sorted((row["rule"], row["documents"]) for row in counted["verdicts"]) == [
        ("R11", 1),
        ("R8", 1),
        ("R8+batch", 1),
        ("R9", 1),
    ]


def test_classifying_leaves_the_history_as_it_was(run: Run, orders: Path, tmp_path: Path) -> None:
    write_documents(tmp_path / "in.csv")
    before = run("stats", "--history", orders, "--json").out
    run("classify", "in.csv", "--history", orders)
    assert run("stats", "--history", orders, "--json").out == before


def test_ids_that_look_like_numbers_stay_text(run: Run, orders: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("order_id\n0001\n1\n")
    ran = run("classify", "in.csv", "--history", orders, "--column", "uuid=order_id", "-o", "out.jsonl")
    assert ran.status == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["order_id"], row["status"]) for row in rows] == [("0001", "DUPLICATE"), ("1", "NEW")]


def test_ids_that_look_like_times_stay_text(run: Run, orders: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"uuid": "2026-01-01 00:00:00"}\n')
    run("classify", "in.jsonl", "--history", orders, "-o", "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text())["key"] == "2026-01-01 00:00:00"


@pytest.mark.usefixtures("orders")
def test_settings_say_how_a_trigger_judges(run: Run, tmp_path: Path) -> None:
    write_documents(tmp_path / "in.csv")
    settings = 'history = "orders.history"\n[triggers.orders]\ndetect_duplicates = true\nuse_history = true\n'
    (tmp_path / "dochistory.toml").write_text(settings + 'in_batch = "duplicate"\n')
    counted = run("classify", "in.csv", "--json").json
    assert {"R8+batch": "DUPLICATE"}.items() <= {row["rule"]: row["status"] for row in counted["verdicts"]}.items()
    refused = run("classify", "in.csv", "--in-batch", "new")
    assert refused.status == 2
    assert "change in_batch there" in refused.err
    misspelt = run("classify", "in.csv", "--trigger", "order")
    assert (misspelt.status, "did you mean 'orders'?" in misspelt.err) == (2, True)


def test_trigger_without_settings_takes_rules_from_options(run: Run, orders: Path, tmp_path: Path) -> None:
    write_documents(tmp_path / "in.csv")
    counted = run("classify", "in.csv", "--history", orders, "--processing-mode", "serial", "--json").json
    assert ("R8+batch", "DUPLICATE") in [(row["rule"], row["status"]) for row in counted["verdicts"]]


def test_unknown_trigger_is_an_error_unless_said_to_be_new(run: Run, orders: Path, tmp_path: Path) -> None:
    write_documents(tmp_path / "in.csv")
    ran = run("classify", "in.csv", "--history", orders, "--trigger", "ordres")
    assert (ran.status, "did you mean 'orders'?" in ran.err, ran.out) == (2, True, "")
    new = run("classify", "in.csv", "--history", orders, "--trigger", "bills", "--create-trigger")
    assert (new.status, "every document is new to it" in new.err) == (0, True)


def test_verdicts_alone_and_names_of_their_columns(run: Run, orders: Path, tmp_path: Path) -> None:
    write_documents(tmp_path / "in.parquet")
    run("classify", "in.parquet", "--history", orders, "-o", "alone.parquet", "--verdicts-only")
    assert "amount" not in pq.read_table(tmp_path / "alone.parquet").column_names
    run("classify", "in.parquet", "--history", orders, "-o", "out.parquet")
    again = run("classify", "out.parquet", "--history", orders, "-o", "again.parquet")
    assert (again.status, "--prefix" in again.err) == (2, True)
    assert run("classify", "out.parquet", "--history", orders, "-o", "again.csv", "--prefix", "dh_").status == 0
    assert "dh_status" in pa_csv.read_csv(tmp_path / "again.csv").column_names


def test_entries_are_shown_and_found_by_status_and_age(run: Run, orders: Path) -> None:
    shown = run("entries", "--history", orders).out.splitlines()
    assert shown[0].split()[:3] == ["trigger", "key", "status"]
    assert len(shown) == 4
    processing = run("entries", "--history", orders, "--status", "processing", "--json").json
    assert [entry["key"] for entry in processing["entries"]] == ["0003"]
    assert run("entries", "--history", orders, "--older-than", "1 day", "--json").json["entries"] == []
    limited = run("entries", "--history", orders, "--limit", "1")
    assert len(limited.out.splitlines()) == 2
    assert "there are more" in limited.err
    assert run("entries", "--history", orders, "--limit", "3", "--json").json["more"] is False


def test_a_key_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    with dh.open(tmp_path / "odd.history", create=True) as history:
        history.begin(documents(["\x1b[2Jgone\n"]), trigger())
    shown = run("entries", "--history", tmp_path / "odd.history").out
    assert r"\x1b[2Jgone\n" in shown
    assert "\x1b" not in shown


def test_all_entries_are_exported(run: Run, orders: Path, tmp_path: Path) -> None:
    assert run("export", "-o", "all.parquet", "--history", orders).out == "3 entries in all.parquet\n"
    assert sorted(pq.read_table(tmp_path / "all.parquet")["key"].to_pylist()) == ["0001", "0002", "0003"]
    ran = run("export", "-o", "done.jsonl", "--history", orders, "--status", "completed", "--json")
    assert ran.json == {"file": "done.jsonl", "entries": 2}
    assert set(pa_json.read_json(tmp_path / "done.jsonl").column_names) == {"trigger", "key", "status", "started_at"}


def test_an_empty_history_exports_a_table_without_rows(run: Run, tmp_path: Path) -> None:
    dh.open(tmp_path / "new.history", create=True).close()
    assert run("export", "-o", "none.parquet", "--history", tmp_path / "new.history").status == 0
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_a_failed_output_leaves_no_file(run: Run, orders: Path, tmp_path: Path) -> None:
    table = pa.table({"uuid": ["a"], "tags": [["x", "y"]]})
    pq.write_table(table, tmp_path / "in.parquet")
    (tmp_path / "out.csv").write_text("precious")
    ran = run("classify", "in.parquet", "--history", orders, "-o", "out.csv", "--force")
    assert (ran.status, "use parquet or arrow" in ran.err) == (2, True)
    assert (tmp_path / "out.csv").read_text() == "precious"
    assert not list(tmp_path.glob(".dochistory*"))
