"""The command line takes the URL of a history in a bucket where it takes a directory."""

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import objects
from dochistory.cli import main
from tests.brokers.campaign import eventually
from tests.cli.conftest import Ran, Run
from tests.servers import free_port
from tests.servers.objects import Server
from tests.support import documents, fresh_ids, status_of, trigger

MONTH = trigger(history_time_to_live="30 days")


@pytest.fixture
def run(s3: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the program with credentials in the environment, as on a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    for name in ("DOCHISTORY_HISTORY", "DOCHISTORY_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3.options.items():
        monkeypatch.setenv(name.upper(), value)

    def ran(*words: object) -> Ran:
        capsys.readouterr()
        status = main([str(word) for word in words])
        return Ran(status, *capsys.readouterr())

    return ran


@pytest.fixture
def made(s3: Server, place: str) -> list[str]:
    """The ids of a history in a bucket: the first five completed, the others begun."""
    ids = fresh_ids(8)
    with dh.open(place, create=True, storage_options=dict(s3.options)) as history:
        history.begin(documents(ids), MONTH).complete(rows=range(5))
    return ids


def test_commands_take_a_url(run: Run, place: str, made: list[str]) -> None:
    at = ("--history", place, "--storage-option", "aws_region=us-east-1")
    stats = run(*at, "stats", "--json").json
    assert (stats["path"], stats["triggers"]["orders"]["log_entries"]) == (place, 8)
    assert 'dochistory_entries{trigger="orders"} 8' in run(*at, "stats", "--prometheus").out
    assert run(*at, "verify", "--json").json["whole"]
    assert run(*at, "purge", "--dry-run", "--json").json["triggers"]["orders"]["entries"] == 0
    assert "orders" in run(*at, "maintain", "--all", "--grace", "1 s", "--json").json["triggers"]
    assert run(*at, "change", "--trigger", "orders", "--time-to-live", "60 days").status == 0
    entries = run(*at, "entries", "--trigger", "orders", "--status", "processing", "--json")
    assert entries.status == 0
    assert all(one in entries.out for one in made[5:])
    assert run(*at, "top", "--runs", "1").status == 0
    doctor = run(*at, "doctor", "--json").json
    assert [one["found"] for one in doctor["checks"] if one["name"] == "history"] == [
        f"{place} opens; triggers: orders"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["stats"], ["backup", "copy"], ["repair"]])
def test_missing_history_gets_no_advice_to_create(run: Run, place: str, command: list[str]) -> None:
    ran = run("--history", place, *command)
    assert (ran.status, "create=True" in ran.err) == (2, False)
    assert ran.err.startswith(f"dochistory: {place}: there is no history here")


@pytest.mark.parametrize("command", [["stats"], ["backup", "copy"], ["repair"], ["repair", "--yes"]])
def test_a_damaged_identity_is_named_by_its_url(
    run: Run, place: str, made: list[str], client: objects.ObjectClient, command: list[str]
) -> None:
    whole = client.get("HISTORY")
    assert made
    assert whole
    client.put("HISTORY", whole[:40])
    ran = run("--history", place, *command)
    assert ran.status == 1
    assert ran.err.startswith(f"dochistory: {place}/HISTORY at byte 36: ")
    assert "restore this object, or an older version of it, from a copy" in ran.err
    assert "dochistory repair" not in ran.err


def test_the_sweeper_purges_a_bucket_and_deletes_objects(
    run: Run, s3: Server, place: str, made: list[str], client: objects.ObjectClient
) -> None:
    with dh.open(place, storage_options=dict(s3.options)) as history:
        history.load(documents(fresh_ids(1000)), MONTH)
        history.change(trigger(history_time_to_live="1 ms"))
    swept = run("--history", place, "sweep", "--runs", "1", "--json")
    assert (swept.status, swept.json["triggers"]["orders"]["entries"]) == (0, 1000 + len(made))
    time.sleep(2.1)  # the store tells ages in whole seconds
    assert run("--history", place, "maintain", "--grace", "1 s").status == 0
    assert not [one.name for one in client.list() if "segment" in one.name]


def test_settings_and_the_environment_name_a_url(
    run: Run, place: str, made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made
    (tmp_path / "dochistory.toml").write_text(
        f'history = "{place}"\n[triggers.orders]\nhistory_time_to_live = "30 days"'
    )
    assert place in run("stats").out
    (tmp_path / "dochistory.toml").unlink()
    monkeypatch.setenv("DOCHISTORY_HISTORY", place)
    monkeypatch.setenv("DOCHISTORY_CACHE", str(tmp_path / "cache"))
    assert place in run("stats").out
    assert (tmp_path / "cache" / "dochistory-objects").is_dir()


def test_backup_goes_to_a_directory_and_back(run: Run, s3: Server, place: str, made: list[str], tmp_path: Path) -> None:
    home, again = tmp_path / "copy.history", f"{place}-again"
    assert run("--history", place, "backup", home).status == 0
    expected = ["DUPLICATE"] * 5 + ["IN_DOUBT"] * 3
    with dh.open(home) as copy:
        assert status_of(copy, made, MONTH) == expected
        assert copy.verify() > 0
        more = fresh_ids(200_000)
        copy.load(documents(more), MONTH)
    assert run("--history", home, "backup", again).status == 0
    with dh.open(again, storage_options=dict(s3.options)) as copy:
        assert status_of(copy, [*made, *more[:3]], MONTH) == expected + ["DUPLICATE"] * 3
        copy.begin(documents(["later"]), MONTH).complete()
    assert run("--history", again, "backup", tmp_path / "third.history").status == 0
    with dh.open(tmp_path / "third.history") as copy, dh.open(home) as first:
        assert status_of(copy, ["later", *more[-2:]], MONTH) == ["DUPLICATE"] * 3
        assert copy.id == first.id


def test_backup_does_not_write_where_something_is(run: Run, place: str, made: list[str], tmp_path: Path) -> None:
    assert run("--history", place, "backup", tmp_path / "copy.history").status == 0
    ran = run("--history", tmp_path / "copy.history", "backup", place)
    assert ran.status == 2
    assert f"dochistory: {place}: the place for the copy holds other objects" in " ".join(ran.err.split())
    assert made


@pytest.mark.slow
def test_backup_takes_the_audit_log_along_both_ways(run: Run, s3: Server, place: str, tmp_path: Path) -> None:
    home, again, options = tmp_path / "copy.history", f"{place}-again", dict(s3.options)
    with dh.open(place, create=True, storage_options=options) as history:
        history.begin(documents(["a", "b"]), trigger())
        for _ in range(2):
            history.begin(documents(["a", "b"]), trigger(), audit=True)
        history.audit.resolve([1], "duplicate")
        before = history.audit.list()
    assert run("--history", place, "backup", home).status == 0
    with dh.open(home) as copy:
        assert copy.audit.list().equals(before)
        with copy.audit.resubmit(trigger(), [2]) as more:
            assert more.entries["key"].to_pylist() == ["b"]
    assert run("--history", home, "backup", again).status == 0
    with dh.open(again, storage_options=options) as copy:
        assert copy.audit.list()["state"].to_pylist() == ["duplicate", "resubmitted", "open", "open"]
        copy.begin(documents([None]), trigger(without_ids="in_doubt"), audit=True)
        assert copy.audit.list()["number"].to_pylist() == [1, 2, 3, 4, 5]
        assert copy.verify() > 0


def test_the_audit_log_of_a_bucket_is_used_by_commands(run: Run, s3: Server, place: str, tmp_path: Path) -> None:
    at = ("--history", place)
    with dh.open(place, create=True, storage_options=dict(s3.options)) as history:
        history.begin(documents(["a", "b", "c", "d"]), trigger())
        history.begin(documents(["a", "b", "c", "d"]), trigger(), audit=True)
        history.complete(["d"], trigger())
    listed = run(*at, "audit", "list", "--json").json
    assert [one["key"] for one in listed["documents"]] == ["a", "b", "c", "d"]
    assert run(*at, "audit", "show", "2", "--json").json["document"]["uuid"] == "b"
    assert run(*at, "audit", "resolve", "1", "--as", "process", "--note", "x").status == 0
    assert run(*at, "audit", "reconcile", "--json").json["numbers"] == [4]
    assert run(*at, "audit", "resubmit", "--output", tmp_path / "again.csv", "--json").json["resubmitted"] == 1
    assert "a" in (tmp_path / "again.csv").read_text()
    assert run(*at, "audit", "resolve-all", "--as", "duplicate", "--json").json == {"process": 0, "duplicate": 2}
    states = [one["state"] for one in run(*at, "audit", "list", "--json").json["documents"]]
    assert states == ["resubmitted", "duplicate", "duplicate", "duplicate"]
    assert run(*at, "audit", "compact").status == 0
    assert run(*at, "audit", "purge", "--older-than", "1s", "--dry-run", "--json").status == 0
    assert run(*at, "verify", "--json").json["audit_bytes"] > 0
    assert run(*at, "repair", "--json").json["findings"] == []


@pytest.mark.slow
def test_maps_are_shown_kept_up_and_copied_by_commands(run: Run, s3: Server, place: str, tmp_path: Path) -> None:
    with dh.open(place, create=True, storage_options=dict(s3.options)) as history:
        mapper = history.mapper("jms")
        mapper.create(["a"], ["A"])
        mapper.begin_send(pa.table({"id": ["p"]}))
        history.delivery("s", start=7)
    assert [one["id"] for one in run("--history", place, "mapper", "pending", "--json").json["pending"]] == ["p"]
    assert run("--history", place, "mapper", "resolve", "p", "--as", "duplicate").status == 0
    assert [one["stream"] for one in run("--history", place, "delivery", "--json").json["streams"]] == ["s"]
    done = run("--history", place, "maintain", "--grace", "1 s", "--json").json["triggers"]
    assert set(done) == {"mapper:jms", "delivery:received"}
    assert run("--history", place, "verify", "--json").json["value_bytes"] > 0
    copy, again = tmp_path / "copy.history", f"{place}-again"
    assert run("--history", place, "backup", copy).status == 0
    assert run("--history", copy, "backup", again).status == 0
    for found in (dh.open(copy), dh.open(again, storage_options=dict(s3.options))):
        with found:
            assert found.mapper("jms").lookup(["a"])["mapped_id"].to_pylist() == ["A"]
            assert found.delivery_status()["log_received"].to_pylist() == [7]


def test_a_secret_on_the_command_line_is_refused(run: Run, place: str) -> None:
    ran = run("--history", place, "--storage-option", "aws_secret_access_key=hidden", "stats")
    assert ran.status == 2
    assert "other users of this machine" in " ".join(ran.err.split())
    assert "hidden" not in ran.err


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("aws_regoin", "; did you mean 'aws_region'?"),
        ("aws_session_tokn", "; did you mean 'aws_session_token'?"),
        ("nonsense", ""),
    ],
)
def test_a_misspelt_option_is_not_taken_for_a_secret(run: Run, place: str, name: str, near: str) -> None:
    ran = run("--history", place, "--storage-option", f"{name}=hidden", "stats")
    assert (ran.status, "hidden" in ran.err) == (2, False)
    assert f"there is no option '{name}'{near} [DH-CONFIG]" in ran.err
    ran = run("check", place, "--storage-option", f"{name}=hidden", "--json")
    assert f"there is no option '{name}'{near}" in json.loads(ran.err)["error"]["message"]


@pytest.mark.parametrize("name", ["secret_access_key", "azure_storage_sas_key", "aws_sse_kms_key_id", "proxy_url"])
def test_a_secret_of_any_store_is_refused(run: Run, place: str, name: str) -> None:
    ran = run("--history", place, "--storage-option", f"{name}=hidden", "stats")
    assert (ran.status, "hidden" in ran.err, "set it in the environment" in ran.err) == (2, False, True)


def test_pins_of_a_bucket_are_listed_and_released(run: Run, s3: Server, place: str, made: list[str]) -> None:
    with dh.open(place, storage_options=dict(s3.options)) as history:
        history.pin(MONTH)
    (pin,) = run("--history", place, "pins", "--json").json
    assert (pin["trigger"], pin["dropped"]) == (MONTH.name, False)
    assert run("--history", place, "pins", "release", "--yes").status == 0
    assert run("--history", place, "pins", "--json").json == []
    assert made


def test_the_page_of_a_bucket_is_written(run: Run, place: str, made: list[str], tmp_path: Path) -> None:
    ran = run("--history", place, "report", "--output", tmp_path / "page.html", "--json")
    assert ran.json == {"file": str(tmp_path / "page.html"), "triggers": 1, "entries": len(made), "damaged": {}}
    page = (tmp_path / "page.html").read_text()
    assert place in page
    assert "they count all documents so far that this machine judged, and do not shrink" in page
    assert "No sweeper of this machine is known" in page
    assert made[5] in page


def test_metrics_and_top_show_a_bucket(run: Run, place: str, made: list[str]) -> None:
    assert run("--history", place, "suspension", "suspend", "--trigger", "orders").status == 0
    printed = run("--history", place, "metrics").out
    assert f'dochistory_processing{{trigger="orders"}} {len(made) - 5}' in printed
    assert 'dochistory_suspended{trigger="orders"} 1' in printed
    seen = run("--history", place, "top", "--runs", "2", "--every", "1 ms", "--json").out
    assert seen.count('"suspended": "suspended by hand"') == 2


def test_metrics_of_a_bucket_are_served(s3: Server, place: str, made: list[str], tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, **{name.upper(): value for name, value in s3.options.items()}, "TMPDIR": str(tmp_path)}
    words = ["--history", place, "metrics", "--serve", f"127.0.0.1:{port}"]
    with subprocess.Popen([sys.executable, "-m", "dochistory.cli", *words], env=environment) as process:
        try:
            eventually(lambda: entries_served(port) == len(made), "it serves the figures")
            with dh.open(place, storage_options=dict(s3.options)) as history:
                history.begin(documents(["later"]), MONTH)
            assert entries_served(port) == len(made) + 1
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not [*tmp_path.glob("dochistory-replica-*")]


def entries_served(port: int) -> int | None:
    """What an endpoint of metrics says; None while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
    except OSError:
        return None
    (found,) = [line for line in page.splitlines() if line.startswith('dochistory_entries{trigger="orders"}')]
    return int(float(found.split()[-1]))


def test_a_trigger_of_a_bucket_is_suspended_and_resumed(run: Run, place: str, made: list[str]) -> None:
    at = ("--history", place)
    assert run(*at, "suspension", "suspend", "--trigger", "orders", "--reason", "moving").status == 0
    (found,) = run(*at, "suspension", "--json").json["suspended"]
    assert (found["history"], found["trigger"], found["reason"]) == (place, "orders", "moving")
    assert run(*at, "suspension", "resume", "--trigger", "orders").out == "orders is resumed\n"
    assert run(*at, "suspension", "--json").json == {"suspended": []}
    assert run(*at, "suspension", "suspend", "--trigger", "unknown").status == 2
    assert made


def test_statistics_of_a_bucket_are_shown_and_cleared(run: Run, s3: Server, place: str, made: list[str]) -> None:
    at = ("--history", place)
    assert "exactly-once statistics" not in run(*at, "stats").out
    with dh.Consumer(place, MONTH, storage_options=dict(s3.options)) as consumer:
        consumer.begin(documents([made[0], made[5], *fresh_ids(2)])).complete()
    shown = run(*at, "stats").out
    assert "exactly-once statistics of this machine" in shown
    assert "R11: 1" in shown
    found = run(*at, "stats", "--json").json["statistics"]["orders"]
    assert (found["new"], found["duplicate"], found["in_doubt"]) == (2, 1, {"R11": 1})
    listed = run(*at, "stats", "documents", "--trigger", "orders", "--json").json["documents"]
    assert sorted(one["key"] for one in listed) == sorted([made[0], made[5]])
    assert made[5] in run(*at, "stats", "documents").out
    for words in (["stats", "--prometheus"], ["metrics"]):
        assert 'dochistory_documents_total{trigger="orders",what="new"} 2' in run(*at, *words).out
    (seen,) = run(*at, "top", "--runs", "1", "--json").json["triggers"]
    assert (seen["counts"]["new"], seen["counts"]["in_doubt"]) == (2, 1)
    assert run(*at, "stats", "clear").status == 2
    assert run(*at, "stats", "clear", "--trigger", "ordres", "--yes").status == 2
    assert run(*at, "stats", "clear", "--yes", "--json").json == {"cleared": "all"}
    assert run(*at, "stats", "documents", "--json").json == {"documents": []}
    assert run(*at, "stats", "--json").json["triggers"]["orders"]["log_entries"] == len(made) + 2


def test_the_next_purge_of_a_bucket_is_shown(run: Run, place: str, made: list[str]) -> None:
    at = ("--history", place)
    assert run(*at, "top", "--runs", "1", "--json").json["next_purge"] is None
    assert run(*at, "sweep", "--runs", "1").status == 0
    dh.Statistics(place).add_counts([("NEW", "PROCESS", "R8", 1)], "orders")
    due = run(*at, "top", "--runs", "1", "--json").json["next_purge"]
    assert dt.datetime.fromisoformat(due) == dh.sweeper.next_purge(place)
    assert run(*at, "stats", "--json").json["statistics"]["orders"]["next_purge"] == due
    assert "dochistory_next_purge_seconds " in run(*at, "metrics").out
    assert "next purge" in run(*at, "top", "--runs", "1").out
    assert made


def test_doctor_warns_of_a_life_too_short_in_a_bucket(run: Run, s3: Server, place: str, made: list[str]) -> None:
    short = trigger("short", history_time_to_live=0.001)
    with dh.open(place, storage_options=dict(s3.options)) as history:
        claim = history.begin(documents(["a"]), short)
        time.sleep(0.01)
        claim.complete()
        dh.Sweeper(history).sweep()
    dh.Suspension(place, MONTH).suspend("moving")
    checks = run("--history", place, "doctor", "--json").json["checks"]
    (warned,) = [one["found"] for one in checks if one["name"] == "time to live"]
    assert warned.startswith("short: a service ran for")
    (suspended,) = [one["found"] for one in checks if one["name"] == "suspension"]
    assert suspended.endswith("moving")
    assert made
