"""The statements of docs/how-to-lose-data.md and docs/mixed-versions.md: what is noticed, and what is not."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
from pathlib import Path

import pytest

import dochistory as dh
from tests.support import documents, status_of, trigger

DAYS = trigger(history_time_to_live="30 days")


def test_two_copies_in_use_each_take_an_id_as_new(history: dh.History, directory: Path) -> None:
    history.begin(documents(["before"]), DAYS).complete()
    history.close()
    shutil.copytree(directory, directory.with_name("copy"))
    for path in (directory, directory.with_name("copy")):
        with dh.open(path) as one:
            assert status_of(one, ["before", "a"], DAYS) == ["DUPLICATE", "NEW"]
            one.begin(documents(["a"]), DAYS).complete()
            assert one.verify() > 0


def test_a_copy_by_hard_links_shares_the_log_with_its_original(history: dh.History, directory: Path) -> None:
    history.begin(documents(["before"]), DAYS).complete()
    history.close()
    snapshot = directory.with_name("snapshot")
    shutil.copytree(directory, snapshot, copy_function=os.link)
    with dh.open(directory) as one:
        one.begin(documents(["after"]), DAYS).complete()
    with dh.open(snapshot, read_only=True) as kept:
        assert status_of(kept, ["after"], DAYS) == ["DUPLICATE"]


def test_an_older_backup_in_its_place_has_what_it_had(history: dh.History, directory: Path) -> None:
    history.begin(documents(["old"]), DAYS).complete()
    history.close()
    shutil.copytree(directory, directory.with_name("backup"))
    with dh.open(directory) as newer:
        newer.begin(documents(["new"]), DAYS).complete()
    shutil.rmtree(directory)
    directory.with_name("backup").rename(directory)
    with dh.open(directory) as restored:
        assert status_of(restored, ["old", "new"], DAYS) == ["DUPLICATE", "NEW"]
        assert restored.verify() > 0


def test_missing_or_changed_file_is_an_error_and_no_answer(history: dh.History, directory: Path) -> None:
    history.begin(documents(["a"]), DAYS).complete()
    history.unpin(DAYS, history.pin(DAYS))
    history.close()
    for name in ("segment-*", "log-*", "manifest-*"):
        file = next(directory.glob(f"triggers/*/{name}"))
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(dh.CorruptError, match="DH-CORRUPT"), dh.open(directory, read_only=True) as damaged:
            damaged.verify()
        file.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
        with pytest.raises(dh.CorruptError, match=file.name), dh.open(directory, read_only=True) as damaged:
            damaged.verify()
        file.write_bytes(content)


def test_lost_log_end_with_its_lost_record_leaves_no_trace(history: dh.History, directory: Path) -> None:
    history.begin(documents(["kept"]), DAYS)
    (log,) = directory.glob("triggers/*/log-*")
    turn = log.with_name("turn")
    was, end = turn.read_bytes(), len(log.read_bytes().rstrip(b"\0"))
    history.begin(documents(["lost"]), DAYS)
    history.close()
    content = log.read_bytes()
    cut = content[: (end + 7) // 8 * 8]
    log.write_bytes(cut)
    with (
        pytest.raises(dh.CorruptError, match="bytes of it were durable"),
        dh.open(directory, read_only=True) as damaged,
    ):
        damaged.classify(documents(["lost"]), DAYS)
    turn.write_bytes(was)
    with dh.open(directory) as silent:
        assert silent.verify() > 0
        assert status_of(silent, ["kept", "lost"], DAYS) == ["IN_DOUBT", "NEW"]


def test_a_purge_goes_by_the_time_it_is_given(history: dh.History) -> None:
    ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=40)
    history.begin(documents(["expired"]), DAYS, now=ago).complete()
    history.begin(documents(["alive"]), DAYS).complete()
    history.purge(DAYS)
    assert status_of(history, ["expired", "alive"], DAYS) == ["NEW", "DUPLICATE"]


def of_a_newer_version(file: Path) -> None:
    """What a newer package would leave behind: the next file of its kind, of a version that nobody knows yet."""
    found = re.fullmatch(r"manifest-(\d{20})", file.name)
    assert found
    content = bytearray(file.read_bytes())
    content[8:12] = (9).to_bytes(4, "little")
    file.with_name(f"manifest-{int(found[1]) + 1:020}").write_bytes(content)
    file.unlink()


def test_newer_files_stop_older_packages_for_that_trigger_only(history: dh.History, directory: Path) -> None:
    bills = trigger("bills", history_time_to_live="30 days")
    history.begin(documents(["a"]), DAYS).complete()
    history.begin(documents(["a"]), bills).complete()
    claim = history.begin(documents(["b"]), DAYS)
    of_a_newer_version(max(directory.glob("triggers/orders-*/manifest-*")))
    for call in (
        lambda: history.begin(documents(["c"]), DAYS),
        lambda: history.classify(documents(["a"]), DAYS),
        claim.complete,
    ):
        with pytest.raises(dh.OpenError, match="install a newer dochistory"):
            call()
    assert status_of(history, ["a", "c"], bills) == ["DUPLICATE", "NEW"]
    with dh.open(directory) as another, pytest.raises(dh.OpenError, match="newer dochistory"):
        another.begin(documents(["c"]), DAYS)
