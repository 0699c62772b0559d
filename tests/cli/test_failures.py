"""Bad input gets one sentence and an exit status, never a traceback."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from dochistory.cli.failures import Exit, explained
from tests.cli.conftest import Run
from tests.support import documents, entries, trigger

H = "orders.history"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--history", "x"], 2, "COMMAND"),
        (["frobnicate"], 2, "unknown command: 'frobnicate'"),
        (["stat"], 2, "did you mean 'stats'?"),
        (["purge", "--dry-rum"], 2, "did you mean '--dry-run'?"),
        (["stats", "--frobnicate"], 2, "unrecognized arguments"),
        (["stats"], 2, "pass --history with a directory or a URL"),
        (["stats", "--history", "nowhere"], 2, "nowhere: no such directory"),
        (["stats", "--history", "."], 2, "not a dochistory directory"),
        (
            ["stats", "--history", H, "--trigger", "order"],
            2,
            "no trigger 'order'; it has orders; did you mean 'orders'?",
        ),
        (["stats", "--history", H, "--lock-timeout", "soon"], 2, "'soon' is not a duration"),
        (["entries", "--history", H, "--limit", "-1"], 2, "from 1 up"),
        (["classify", "docs.csv", "--history", H, "--threads", "-1"], 2, "from 1 up"),
        (["entries", "--history", H, "--status", "lost"], 2, "invalid choice: 'lost'"),
        (["purge", "--history", H, "--now", "2030-13-01"], 2, "'2030-13-01' is not a time, such as 2026-11-21"),
        (["journal", "x", "--since", "soon"], 2, "nor how long ago it was, such as 90m"),
        (["classify", "none.csv", "--history", H], 2, "none.csv: no such file"),
        (["classify", ".", "--history", H, "--input-format", "csv"], 2, "directory"),
        (["classify", "data.xlsx", "--history", H], 2, "unknown suffix"),
        (["classify", "broken.parquet", "--history", H], 2, "broken.parquet: this cannot be read as parquet"),
        (["classify", "broken.arrow", "--history", H], 2, "broken.arrow: this cannot be read as arrow"),
        (["classify", "broken.jsonl", "--history", H], 2, "broken.jsonl: this cannot be read as jsonl"),
        (["classify", "broken.csv.gz", "--history", H], 2, "broken.csv.gz: this cannot be read as csv"),
        (["classify", "ragged.csv", "--history", H], 2, "ragged.csv: this cannot be read as csv"),
        (["classify", "empty.csv", "--history", H], 2, "empty.csv: this cannot be read as csv"),
        (["classify", "no_id.csv", "--history", H], 2, "uuid"),
        (["classify", "number.parquet", "--history", H], 2, "uuid"),
        (["classify", "docs.csv", "--history", H, "--column", "uuid"], 2, "NAME=COLUMN"),
        (["classify", "docs.csv", "--history", H, "--column", "uuid=nope"], 2, "nope"),
        (["classify", "docs.csv", "--history", H, "-o", "no/where.csv"], 2, "no: no such directory"),
        (["export", "-o", "x.what", "--history", H], 2, "unknown suffix"),
        (["stats", "--history", H, "--lock-timeout", "1 month"], 2, "no fixed length: write days"),
        (["backup", ".", "--history", H], 2, "exists already: name a new directory [DH-INPUT]"),
        (["backup", f"{H}/copy", "--history", H], 2, "inside the history"),
        (["backup", "no/where", "--history", H], 2, "no: no such directory"),
        (["stats", "--settings", "none.toml"], 2, "none.toml: the settings file cannot be read"),
        (["stats", "--settings", "bad.toml"], 2, "bad.toml:2: kind is"),
    ],
)
def test_bad_input_gets_one_sentence(run: Run, orders: Path, words: list[str], status: int, said: str) -> None:
    _bad_files(orders.parent)
    ran = run(*words)
    assert ran.status == status
    assert said in ran.err
    assert re.fullmatch(r"dochistory: .+ \[DH-[A-Z]+\]\n", ran.err)
    assert ran.out == ""


def _bad_files(directory: Path) -> None:
    (directory / "data.xlsx").write_bytes(b"PK")
    for name in ("broken.parquet", "broken.arrow", "broken.jsonl", "broken.csv.gz"):
        (directory / name).write_bytes(b"nothing of the kind")
    (directory / "ragged.csv").write_text("uuid,amount\na,1\nb\n")
    (directory / "empty.csv").write_text("")
    (directory / "no_id.csv").write_text("amount\n1\n")
    (directory / "docs.csv").write_text("uuid\na\n")
    pq.write_table(pa.table({"uuid": [1, 2]}), directory / "number.parquet")
    (directory / "bad.toml").write_text('[triggers.orders]\nkind = "telepathy"\n')


def test_missing_credentials_are_not_worth_another_try() -> None:
    found = explained(dh.ObjectStoreError("[DH-CREDENTIALS] cannot get HISTORY at s3://b/h: there are no credentials"))
    assert found is not None
    assert (found.status, found.code) == (Exit.INPUT, "DH-CREDENTIALS")


def test_programs_get_errors_as_json(run: Run) -> None:
    ran = run("stats", "--history", "nowhere", "--json")
    assert json.loads(ran.err)["error"]["code"] == "DH-INPUT"
    assert ran.out == ""


def test_a_damaged_history_is_found(run: Run, orders: Path) -> None:
    assert run("verify", "--history", orders).status == 0
    log = next(orders.glob("triggers/*/log-*"))
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    ran = run("verify", "--history", orders)
    assert (ran.status, "[DH-CORRUPT]" in ran.err) == (1, True)


def test_a_locked_history_is_worth_another_try(run: Run, orders: Path) -> None:
    with dh.open(orders) as history:
        history.begin(documents(["a"]), trigger("returns")).complete()
    holder = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); "
        "sys.stdin.read()"
    )
    turn = next(orders.glob("triggers/orders-*/turn"))
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(turn)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        ran = run("purge", "--history", orders, "--lock-timeout", "100 ms", "--now", "2099-01-01T00:00:00Z", "--force")
        process.communicate("")
    assert (ran.status, "[DH-LOCKED]" in ran.err) == (3, True)
    # The others did not wait for that.
    with dh.open(orders, read_only=True) as history:
        assert [len(entries(history, trigger(name))) for name in ("orders", "returns")] == [3, 0]


def test_internal_error_is_a_sentence_with_traceback_on_demand(
    run: Run, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> dh.History:
        raise RuntimeError("the sky\nfell")

    monkeypatch.setattr(dh, "open", broken)
    ran = run("stats", "--history", orders)
    assert ran.status == 70
    assert "RuntimeError: the sky fell; internal error" in ran.err
    with pytest.raises(RuntimeError, match="the sky"):
        run("stats", "--history", orders, "--debug")


@pytest.mark.parametrize("url", ["hdfs://node/h", "dbfs:/h", "http://x/y"])
def test_a_history_that_is_no_directory_is_refused(run: Run, url: str) -> None:
    for words in (["--history", url, "stats"], ["--history", url, "verify"], ["--history", url, "repair"]):
        ran = run(*words)
        assert ran.status == 2
        assert f"dochistory: {url}: " in ran.err
        assert ran.err.endswith(
            "a bucket (s3://, gs://, az://, abfss://) serves only where its URL is taken [DH-OPEN]\n"
        )


def test_a_file_url_names_a_history(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a b.history"
    with dh.open(path, create=True) as history:
        history.begin(documents(["a"]), trigger(history_time_to_live="30 days")).complete()
    assert run("--history", path.as_uri(), "verify").status == 0
    assert run("--history", path.as_uri(), "backup", (tmp_path / "copy").as_uri()).status == 0
    assert dh.open(tmp_path / "copy", read_only=True).triggers() == ["orders"]
