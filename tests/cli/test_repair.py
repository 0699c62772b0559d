"""`dochistory repair`: nothing without being asked for, everything said, every file kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import dochistory as dh
from tests.cli.conftest import Run
from tests.support import documents, status_of, trigger

LONG = trigger(history_time_to_live="30 days")


def scratch(file: Path, place: int) -> bytes:
    """Flip a byte; the file as it was."""
    content = file.read_bytes()
    file.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
    return content


def names(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*")}


def test_a_whole_history_needs_no_repair(run: Run, orders: Path) -> None:
    before = names(orders)
    ran = run("repair", "--history", orders)
    said = "every byte of every file is what was written: there is nothing to repair\n"
    assert (ran.status, ran.out) == (0, said)
    assert run("repair", "--history", orders, "--yes", "--json").json == {
        "repaired": False,
        "kept_in": None,
        "audit_kept_in": None,
        "findings": [],
    }
    assert names(orders) == before


def test_a_damaged_log_is_repaired_only_when_told_to(run: Run, orders: Path) -> None:
    log = next(orders.glob("triggers/*/log-*"))
    was = scratch(log, 64 + 96 + 3)  # within the batch that began all three
    damaged = log.read_bytes()
    assert run("verify", "--history", orders).err.endswith("[DH-CORRUPT]\n")
    assert "dochistory repair" in run("verify", "--history", orders).err

    planned = run("repair", "--history", orders)
    assert planned.status == 1
    assert "drops     3 ids" in planned.out
    assert "nothing was changed" in planned.out
    assert log.read_bytes() == damaged

    done = run("repair", "--history", orders, "--yes", "--json")
    assert done.status == 0
    assert done.json["repaired"] is True
    (found,) = done.json["findings"]
    assert (found["trigger"], found["remedy"], found["byte"]) == ("orders", "salvaged", 64)
    assert (found["dropped_entries"], found["exact"]) == (3, True)
    assert found["first_started_at"] == found["last_started_at"] is not None
    kept = Path(done.json["kept_in"]) / log.parent.name / log.name
    assert kept.read_bytes() == damaged != was

    assert run("verify", "--history", orders).status == 0
    with dh.open(orders) as history:
        # The completion of two rows named its keys, so these two are known; the third is what was dropped.
        assert status_of(history, ["0001", "0002", "0003"], LONG) == ["DUPLICATE", "DUPLICATE", "NEW"]
        history.begin(documents(["0004"]), LONG).complete()
    assert run("repair", "--history", orders).status == 0


def test_repair_of_a_log_without_its_end_names_a_lower_bound(run: Run, orders: Path) -> None:
    with dh.open(orders) as history:
        for batch in range(8):
            history.begin(documents([f"more-{batch}-{row}" for row in range(50)]), LONG).complete()
    log = next(orders.glob("triggers/*/log-*"))
    content = log.read_bytes()
    # Within the first batch of fifty: its head can be read, and 350 ids behind it cannot.
    log.write_bytes(content[: content.index(b"more-0-9")])
    planned = run("repair", "--history", orders)
    assert "drops     an unknown number of ids, 50 at least" in planned.out
    (found,) = run("repair", "--history", orders, "--json").json["findings"]
    assert (found["dropped_entries"], found["dropped_at_least"], found["exact"]) == (None, 50, False)
    assert "nothing tells how far the log went" in found["reason"]
    assert run("repair", "--history", orders, "--yes").status == 0
    assert run("verify", "--history", orders).status == 0


def test_filters_and_the_identity_are_repaired_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "large.history"
    ids = [f"id-{number}" for number in range(140_000)]
    with dh.open(path, create=True) as history:
        history.begin(documents(ids), LONG).complete()
        history.maintain(all=True)
    scratch(next(path.glob("triggers/*/filter-*")), 9_000)
    scratch(path / "HISTORY", 40)
    report = dh.repair(path, apply=True)
    assert report["repaired"]
    assert {one["remedy"] for one in report["findings"]} == {"rebuilt"}
    assert all(one["dropped_entries"] == 0 for one in report["findings"])
    with dh.open(path, read_only=True) as history:
        assert set(status_of(history, ids, LONG)) == {"DUPLICATE"}
        assert history.stats("orders")["filters"] == 1
        history.verify()


def test_what_cannot_be_repaired_is_said_and_left_alone(run: Run, orders: Path) -> None:
    (orders / "HISTORY").unlink()
    (orders / "HISTORY.copy").unlink()
    before = names(orders)
    ran = run("repair", "--history", orders, "--yes")
    assert ran.status == 1
    assert "remedy    impossible" in ran.out
    assert "restore the history from a backup" in ran.out
    assert names(orders) == before


def test_a_history_that_is_not_there_is_not_repaired(run: Run, tmp_path: Path) -> None:
    assert run("repair", "--history", tmp_path / "nowhere").status == 2
    with pytest.raises(dh.OpenError):
        dh.repair(tmp_path / "nowhere")


def test_only_the_trigger_that_is_meant_is_repaired(run: Run, orders: Path) -> None:
    with dh.open(orders) as history:
        history.begin(documents(["a"]), trigger("invoices")).complete()
    scratch(next(orders.glob("triggers/invoices-*/manifest-*")), 30)
    assert run("repair", "--history", orders, "--trigger", "orders").status == 0
    assert run("repair", "--history", orders, "--trigger", "absent").status == 2
    assert run("repair", "--history", orders, "--trigger", "invoices", "--yes").status == 0
    with dh.open(orders) as history:
        assert status_of(history, ["a"], trigger("invoices")) == ["DUPLICATE"]


def test_a_repair_can_be_watched_and_stopped(orders: Path) -> None:
    heard: list[tuple[int, int]] = []
    dh.repair(orders, progress=lambda done, total: heard.append((done, total)))
    assert heard
    assert heard[-1][0] == heard[-1][1]

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dh.repair(orders, progress=stop)


def test_repair_of_a_damaged_mapper_names_it_in_the_report(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mapped.history"
    with dh.open(path, create=True) as history:
        mapper = history.mapper("jms")
        mapper.create(["urn:1", "urn:2"], ["first", "second"], "forever")
        mapper.update(["urn:1"], ["later"], "forever")
    scratch(max(path.glob("mappers/*/log-*")), 64 + 96 + 3)
    planned = run("repair", "--history", path)
    assert planned.status == 1
    assert "  mapper    jms" in planned.out
    done = run("repair", "--history", path, "--yes", "--json")
    (found,) = done.json["findings"]
    assert (found["mapper"], found["trigger"], found["delivery"]) == ("jms", None, None)
    assert found["bytes"] > 0
    assert run("repair", "--history", path).status == 0


def test_lost_identity_is_told_with_the_command_that_restores_it(run: Run, orders: Path) -> None:
    (orders / "HISTORY").unlink()
    for words in (["stats"], ["verify"], ["backup", "copy.history"], ["doctor"]):
        ran = run(*words, "--history", orders)
        assert ran.status != 0
        assert "`dochistory repair` restores it" in ran.out + ran.err
        assert "create=True" not in ran.out + ran.err
    with pytest.raises(dh.OpenError, match="`dochistory repair` restores it"):
        dh.open(orders)
    assert run("repair", "--history", orders, "--yes").status == 0
    assert run("verify", "--history", orders).status == 0


def test_trigger_deleted_by_hand_is_noticed_and_repaired(run: Run, orders: Path) -> None:
    for file in orders.glob("triggers/orders-*/*"):
        file.unlink()
    ran = run("verify", "--history", orders)
    assert ran.err.endswith("[DH-CORRUPT]\n")
    assert "all of its files are gone" in ran.err
    planned = run("repair", "--history", orders)
    assert planned.status == 1
    assert "an unknown number of ids" in planned.out
    assert run("repair", "--history", orders, "--yes").status == 0
    assert run("verify", "--history", orders).status == 0
    with dh.open(orders) as history:
        assert status_of(history, ["0001"], LONG) == ["NEW"]


def test_lost_part_of_the_audit_log_is_named_and_repaired(run: Run, orders: Path) -> None:
    with dh.open(orders) as history:
        for _ in range(2):
            history.begin(documents([None, None]), LONG.replace(without_ids="in_doubt"), audit=True)
    next((orders / "audit").glob("kept-0000000000000001-*")).unlink()
    refused = run("verify", "--history", orders)
    assert "2 documents: 1 to 2 [DH-CORRUPT]" in refused.err
    planned = run("repair", "--history", orders)
    assert planned.status == 1
    assert "documents 1 to 2 of the audit log" in planned.out
    assert run("audit", "list", "--history", orders).status == 1
    assert run("backup", "copy.history", "--history", orders).status == 1
    done = run("repair", "--history", orders, "--yes", "--json")
    assert (done.status, done.json["repaired"]) == (0, True)
    assert run("verify", "--history", orders).status == 0
    with dh.open(orders) as history:
        assert history.audit.list()["number"].to_pylist() == [3, 4]
