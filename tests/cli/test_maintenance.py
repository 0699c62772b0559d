"""`dochistory stats`, `pins`, `purge`, `maintain`, `verify`, `backup` and `doctor`."""

import datetime as dt
import json
import sys
import threading
from pathlib import Path

import pytest

import dochistory as dh
from dochistory._damage import split
from tests.cli.conftest import Run
from tests.support import documents, entries, status_of, trigger

LATER = "2099-01-01T00:00:00Z"


def test_stats_show_each_trigger(run: Run, orders: Path) -> None:
    shown = run("stats", "--history", orders).out.splitlines()
    assert shown[-1].split()[:3] == ["orders", "3", "3"]
    assert run("stats", "--history", orders, "--json").json["triggers"]["orders"]["log_entries"] == 3
    assert 'dochistory_processing{trigger="orders"} 1' in run("stats", "--history", orders, "--prometheus").out


@pytest.mark.parametrize("words", [["entries"], ["verify"], ["audit", "list"], ["pins"], ["stats", "--prometheus"]])
def test_trigger_is_shown_beside_a_damaged_one(run: Run, orders: Path, words: list[str]) -> None:
    with dh.open(orders) as history:
        history.begin(documents(["a"]), trigger("aged")).complete()
    for damaged in orders.glob("triggers/aged-*/manifest-*"):
        damaged.write_bytes(b"rubbish" + damaged.read_bytes()[7:])
    assert run(*words, "--history", orders, "--trigger", "orders").status == 0
    assert run(*words, "--history", orders, "--trigger", "ordrs").status == 2
    assert run("verify", "--history", orders).status == 1


def test_the_history_is_found_by_environment_and_settings(
    run: Run, orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dochistory.toml").write_text('history = "orders.history"\n')
    assert run("stats").status == 0
    (tmp_path / "dochistory.toml").unlink()
    assert run("stats").status == 2
    monkeypatch.setenv("DOCHISTORY_HISTORY", str(orders))
    assert run("stats").status == 0
    assert run("--history", "elsewhere", "stats").status == 2
    assert run("stats", "--history", "elsewhere").status == 2


def test_a_dry_run_purges_nothing_and_a_purge_what_expired(run: Run, orders: Path) -> None:
    words = ["purge", "--history", orders, "--now", LATER, "--force", "--json"]
    assert run(*words, "--dry-run").json["triggers"]["orders"]["entries"] == 3
    assert len(run("entries", "--history", orders, "--json").json["entries"]) == 3
    assert run("purge", "--history", orders, "--json").json["triggers"]["orders"]["entries"] == 0
    assert run(*words).json["triggers"]["orders"]["entries"] == 3
    assert run("entries", "--history", orders, "--json").json["entries"] == []


def test_a_purge_years_ahead_of_the_clock_has_to_be_forced(run: Run, orders: Path) -> None:
    refused = run("purge", "--history", orders, "--now", LATER)
    assert refused.status == 2
    assert "--force" in refused.err
    assert len(run("entries", "--history", orders, "--json").json["entries"]) == 3


@pytest.mark.usefixtures("orders")
def test_settings_with_another_time_to_live_purge_nothing(run: Run, tmp_path: Path) -> None:
    settings = tmp_path / "dochistory.toml"
    settings.write_text('history = "orders.history"\n[triggers.orders]\nhistory_time_to_live = "40000 days"\n')
    refused = run("purge")
    assert refused.status == 2
    assert "30 days" in refused.err
    assert "40000 days" in refused.err


def test_a_time_to_live_is_changed_on_purpose(run: Run, orders: Path) -> None:
    changed = run("change", "--history", orders, "--trigger", "orders", "--time-to-live", "60 days", "--json").json
    assert changed["trigger"] == "orders"
    with dh.open(orders) as history:
        assert history.stats("orders")["history_time_to_live"] == dt.timedelta(days=60)
        history.begin(documents(["0004"]), trigger(history_time_to_live="60 days"))
    assert run("change", "--history", orders, "--trigger", "bills", "--time-to-live", "60 days").status == 2
    assert "60 days" in run("change", "--history", orders, "--trigger", "orders", "--time-to-live", "1 day").out


def test_classify_takes_kind_and_time_to_live_from_the_history(run: Run, tmp_path: Path) -> None:
    jms = trigger(kind="jms", history_time_to_live="30 days")
    with dh.open(tmp_path / "jms.history", create=True) as history:
        history.begin(documents(["a"]), jms)
    (tmp_path / "ids.csv").write_text("uuid\na\nb\n")
    words = ["classify", "ids.csv", "--history", tmp_path / "jms.history", "--expiry", "exact"]
    assert run(*words).status == 0
    assert run(*words, "--kind", "messaging").status == 2


def test_pinned_states_are_shown_and_let_go(run: Run, orders: Path) -> None:
    with dh.open(orders) as history:
        history.pin("orders")
        history.pin("orders", lease="1 hour")
    listed = run("pins", "--history", orders, "--json").json
    assert [(one["trigger"], one["dropped"]) for one in listed] == [("orders", False)] * 2
    assert run("stats", "--history", orders, "--json").json["triggers"]["orders"]["pins"] == 2
    assert 'dochistory_pins{trigger="orders"} 2' in run("stats", "--history", orders, "--prometheus").out
    assert run("pins", "release", "--history", orders, "--yes", "--older-than", "1 day", "--json").json == []
    unsure = run("pins", "release", "--history", orders)
    assert (unsure.status, "pass --yes" in unsure.err) == (2, True)
    assert len(run("pins", "--history", orders, "--json").json) == 2
    assert "yes" in run("pins", "release", "--history", orders, "--yes").out
    assert run("pins", "--history", orders, "--json").json == []


def test_with_nothing_pinned_there_is_nothing_to_confirm(run: Run, orders: Path) -> None:
    for words in (["pins"], ["pins", "release"], ["pins", "release", "--yes"]):
        ran = run(*words, "--history", orders)
        assert (ran.status, ran.out, ran.err) == (0, "no snapshot is pinned\n", "")
    assert run("pins", "release", "--history", orders, "--json").json == []


def test_maintenance_keeps_every_entry(run: Run, orders: Path) -> None:
    ran = run("maintain", "--history", orders, "--all", "--json")
    assert ran.status == 0
    assert "orders" in ran.json["triggers"]
    assert run("maintain", "--history", orders).out.split("\n")[1].startswith("orders")
    assert len(run("entries", "--history", orders, "--json").json["entries"]) == 3


def test_a_whole_history_is_verified(run: Run, orders: Path) -> None:
    assert "every byte is what was written" in run("verify", "--history", orders).out
    assert run("verify", "--history", orders, "--json").json["whole"] is True


def test_a_backup_is_a_history_of_its_own(run: Run, orders: Path, tmp_path: Path) -> None:
    assert run("backup", "copy.history", "--history", orders).status == 0
    assert [file.name for file in (tmp_path / "copy.history").glob("known/*")] == [
        file.name for file in orders.glob("known/*")
    ]
    with dh.open(orders) as history:
        history.begin(documents(["later"]), trigger(history_time_to_live="30 days"))
    with dh.open(tmp_path / "copy.history") as copy:
        assert status_of(copy, ["0001", "0003", "later"]) == ["DUPLICATE", "IN_DOUBT", "NEW"]
        copy.begin(documents(["mine"]), trigger(history_time_to_live="30 days"))
    with dh.open(orders) as history:
        assert status_of(history, ["mine"]) == ["NEW"]
    assert not list(tmp_path.glob(".*draft*"))


def test_a_history_of_segments_and_pins_is_backed_up(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "large.history"
    with dh.open(path, create=True) as history:
        history.begin(documents([f"id-{n}" for n in range(100_000)]), trigger()).complete()
        history.pin("orders")
        history.maintain(all=True)
        history.begin(documents(["another"]), trigger())
    ran = run("backup", "copy.history", "--history", path, "--json")
    assert ran.status == 0
    with dh.open(tmp_path / "copy.history") as copy:
        assert len(entries(copy, trigger())) == 100_001
        assert status_of(copy, ["id-77", "another"]) == ["DUPLICATE", "IN_DOUBT"]


def test_a_file_of_a_desktop_disturbs_nothing(run: Run, orders: Path, tmp_path: Path) -> None:
    with dh.open(orders) as history:
        history.mapper("ids").create(["theirs"], ["ours"])
    for room in ("triggers", "mappers", "known"):
        (orders / room / ".DS_Store").write_bytes(b"Bud1")
    for command in ("stats", "purge", "maintain", "verify", "repair"):
        assert run(command, "--history", orders).status == 0, command
    assert run("backup", str(tmp_path / "copy"), "--history", orders).status == 0
    with dh.open(tmp_path / "copy", read_only=True) as copy:
        assert (copy.triggers(), copy.mappers()) == (["orders"], ["ids"])


@pytest.mark.parametrize("file", ["manifest", "log"])
def test_a_damaged_trigger_keeps_no_other_from_being_purged(run: Run, orders: Path, file: str) -> None:
    with dh.open(orders) as history:
        history.begin(documents(["a"]), trigger("aged")).complete()
    for damaged in orders.glob(f"triggers/aged-*/{file}-*"):
        damaged.write_bytes(b"rubbish" + damaged.read_bytes()[7:])
    ran = run("purge", "--history", orders, "--now", LATER, "--force", "--json")
    purged = json.loads(ran.out)
    assert purged["triggers"]["orders"]["entries"] > 0
    assert purged["not_purged"]["aged"].startswith("[DH-CORRUPT]")
    assert (ran.status, json.loads(ran.err)["error"]["code"]) == (1, "DH-CORRUPT")
    ran = run("purge", "--history", orders)
    assert (ran.status, "aged: not purged: [DH-CORRUPT]" in ran.err) == (1, True)


@pytest.mark.parametrize("file", ["manifest", "log"])
def test_figures_are_shown_beside_what_is_damaged(run: Run, orders: Path, file: str) -> None:
    with dh.open(orders) as history:
        history.begin(documents(["a"]), trigger("aged")).complete()
        for channel in ("ids", "other"):
            history.mapper(channel).create(["theirs"], ["ours"])
    for room in ("triggers/aged-*", "mappers/other-*"):
        for damaged in orders.glob(f"{room}/{file}-*"):
            damaged.write_bytes(b"rubbish" + damaged.read_bytes()[7:])
    ran = run("stats", "--history", orders, "--json")
    assert ([*ran.json["triggers"]], [*ran.json["mappers"]]) == (["orders"], ["ids"])
    assert [*ran.json["damaged"]] == ["aged", "mapper other"]
    assert (ran.status, json.loads(ran.err)["error"]["code"]) == (1, "DH-CORRUPT")
    ran = run("stats", "--history", orders)
    assert (ran.status, "aged: no figures: [DH-CORRUPT]" in ran.err, "orders" in ran.out) == (1, True, True)
    assert run("stats", "--history", orders, "--trigger", "orders").status == 0
    ran = run("stats", "--history", orders, "--trigger", "aged")
    assert (ran.status, ran.out) == (1, "")
    ran = run("mapper", "purge", "--history", orders, "--json")
    assert (ran.status, [*ran.json["channels"]]) == (1, ["ids"])
    assert ran.json["not_purged"]["other"].startswith("[DH-CORRUPT]")
    assert "other: not purged: [DH-CORRUPT]" in run("mapper", "purge", "--history", orders).err
    assert run("mapper", "pending", "--history", orders, "--channel", "ids").status == 0


def test_only_a_purge_passes_over_what_another_writer_holds() -> None:
    def of(name: str) -> str:
        if name == "held":
            raise dh.LockedError("[DH-LOCKED] held")
        return name.upper()

    found, left = split(["orders", "held", "aged"], of, or_locked=True)
    assert (found, [*left]) == ({"aged": "AGED", "orders": "ORDERS"}, ["held"])
    with pytest.raises(dh.LockedError):
        split(["orders", "held"], of)


def test_a_damaged_history_has_no_backup(run: Run, orders: Path, tmp_path: Path) -> None:
    log = next(orders.glob("triggers/*/log-*"))
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    ran = run("backup", "copy.history", "--history", orders)
    assert (ran.status, "[DH-CORRUPT]" in ran.err) == (1, True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["orders.history"]


def test_the_doctor_says_what_state_it_cannot_read(
    run: Run, orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable = tmp_path / "state" / "dochistory" / "suspended-1.json"
    unreadable.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ran = run("doctor", "--history", orders, "--json")
    found = {check["name"]: check for check in ran.json["checks"]}
    assert (ran.status, found["history"]["result"], found["state"]["result"]) == (1, "ok", "wrong")
    assert str(unreadable) in found["state"]["found"]


def test_the_doctor_finds_everything_well(run: Run, orders: Path) -> None:
    found = run("doctor", "--history", orders, "--json").json
    checks = {check["name"]: check for check in found["checks"]}
    assert {"dochistory", "Python", "pyarrow", "history", "permissions", "disk", "purge"} <= set(checks)
    assert checks["history"]["found"].endswith("triggers: orders")


def test_the_doctor_says_what_is_wrong(run: Run, orders: Path, tmp_path: Path) -> None:
    (tmp_path / "dochistory.toml").write_text("[triggers.orders]\nkin = 1\n")
    (orders / "HISTORY").write_bytes(b"scratched")
    ran = run("doctor", "--history", orders, "--json")
    assert ran.status == 1
    wrong = {check["name"]: check["found"] for check in ran.json["checks"] if check["result"] == "wrong"}
    assert "dochistory.toml:2" in wrong["settings"]
    assert "HISTORY" in wrong["history"]


def test_the_doctor_notices_an_overdue_purge(run: Run, tmp_path: Path) -> None:
    with dh.open(tmp_path / "old.history", create=True) as history:
        history.begin(documents(["a"]), trigger(), now=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    ran = run("doctor", "--history", tmp_path / "old.history", "--json")
    assert ran.status == 1
    assert [check["name"] for check in ran.json["checks"] if check["result"] == "wrong"] == ["purge"]


def test_tables_are_pretty_on_a_terminal_and_plain_without_rich(
    run: Run, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "┃" in run("entries", "--history", orders).out
    monkeypatch.setitem(sys.modules, "rich.console", None)
    plain = run("entries", "--history", orders).out
    assert "┃" not in plain
    assert "0003" in plain


def test_long_work_shows_how_far_it_is_on_a_terminal(run: Run, orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ran = run("verify", "--history", orders)
    assert ran.status == 0
    assert "checking orders: 100% |####" in ran.err
    assert run("verify", "--history", orders, "--json").err == ""


def test_backup_beside_writers_purges_and_compaction_is_whole(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "busy.history"
    with dh.open(path, create=True) as history:
        history.begin(documents(["before"]), trigger()).complete()
        stop = threading.Event()
        writer = threading.Thread(target=busy, args=(history, stop))
        writer.start()
        try:
            for number in range(5):
                ran = run("backup", f"copy-{number}", "--history", path)
                assert (ran.status, ran.err) == (0, "")
        finally:
            stop.set()
            writer.join()
    for number in range(5):
        with dh.open(tmp_path / f"copy-{number}") as copy:
            assert status_of(copy, ["before"]) == ["DUPLICATE"]


def busy(history: dh.History, stop: threading.Event) -> None:
    old = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    number = 0
    while not stop.is_set():
        number += 1
        history.begin(documents([f"{number}-{n}" for n in range(2_000)]), trigger()).complete()
        history.begin(documents([f"old-{number}-{n}" for n in range(2_000)]), trigger(), now=old)
        history.maintain(all=True)
        history.purge(trigger())
