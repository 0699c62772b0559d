"""The files of an audit log: one that is gone, damaged or another log's is missed, named, and put right when told."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import dochistory as dh
from dochistory import _files, audit
from dochistory.audit.files import Directory
from tests.ops.test_audit import batch, doubtful, states
from tests.store.processes import start
from tests.support import documents, trigger

__all__ = ["doubtful"]


@pytest.fixture
def log(doubtful: dh.History, directory: Path) -> Path:
    """A log of two files of documents (1 to 3, 4 to 5), a decision (1) and a resubmission with its outcome (2)."""
    doubtful.begin(batch("a", "b"), trigger(), audit=True)
    doubtful.audit.resolve([1], "process", by="ada")
    with doubtful.audit.resubmit(trigger(), [2]):
        pass
    return directory / "audit"


def files(log: Path, kind: str = "") -> list[Path]:
    return sorted(path for path in log.glob("*.parquet") if kind in path.name)


def flip(path: Path, at: int = 40) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])


def test_every_file_that_is_gone_is_missed_by_name(log: Path, doubtful: dh.History) -> None:
    assert len(files(log)) == 5
    for path in files(log):
        content = path.read_bytes()
        path.unlink()
        for look in (doubtful.audit.list, doubtful.audit.verify, lambda: doubtful.audit.resubmit(trigger(), [3])):
            with pytest.raises(dh.CorruptError, match=rf"{path.name}: the file is lost"):
                look()
        path.write_bytes(content)
    assert doubtful.audit.verify() > 0


def test_a_missing_file_is_named_with_the_documents_it_held(log: Path, doubtful: dh.History) -> None:
    files(log, "kept")[0].unlink()
    with pytest.raises(dh.CorruptError, match="with it 3 documents: 1 to 3"):
        doubtful.audit.list()


def test_missing_last_file_reuses_no_number_and_keeps_documents(log: Path, doubtful: dh.History) -> None:
    files(log, "kept")[-1].unlink()
    verdicts = doubtful.classify(batch(None), trigger())
    assert doubtful.audit.keep(batch(None), verdicts, trigger()) == [6]


def test_a_log_that_is_deleted_whole_is_missed(log: Path, doubtful: dh.History) -> None:
    shutil.rmtree(log)
    for look in (doubtful.audit.list, doubtful.audit.verify):
        with pytest.raises(dh.CorruptError, match="the manifest of the audit log here is lost"):
            look()
    with pytest.raises(dh.CorruptError):
        doubtful.begin(batch(None), trigger(), audit=True)
    report = audit.repair(log.parent, apply=True)
    assert report["findings"][0]["dropped_entries"] is None
    assert states(doubtful) == []
    doubtful.begin(batch(None), trigger(), audit=True)
    assert doubtful.audit.list()["number"][0].as_py() > 1_000_000
    assert audit.repair(log.parent)["findings"] == []


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damaged_manifest_is_an_error_until_repaired(log: Path, doubtful: dh.History, damage: str) -> None:
    before = doubtful.audit.list()
    (path,) = log.glob("manifest-*")
    if damage == "flip":
        flip(path)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        path.unlink()
    with pytest.raises(dh.CorruptError):
        doubtful.audit.list()
    planned = audit.repair(log.parent)
    assert [(one["remedy"], one["dropped_entries"]) for one in planned["findings"]] == [("rebuilt", None)]
    assert audit.repair(log.parent, apply=True)["repaired"]
    assert doubtful.audit.list().equals(before)
    assert audit.repair(log.parent)["findings"] == []


def test_lost_file_of_documents_is_dropped_by_name(log: Path, doubtful: dh.History) -> None:
    path = files(log, "kept")[0]
    flip(path)
    damaged = path.read_bytes()
    names = sorted(log.iterdir())
    planned = audit.repair(log.parent)
    assert sorted(log.iterdir()) == names
    (found,) = planned["findings"]
    assert (found["dropped_entries"], found["exact"], found["documents"]) == (3, True, [(1, 3)])
    done = audit.repair(log.parent, apply=True)
    assert done["findings"] == planned["findings"]
    assert (done["kept_in"] / path.name).read_bytes() == damaged
    assert doubtful.audit.list()["number"].to_pylist() == [4, 5]
    assert doubtful.audit.verify() > 0


def test_of_a_lost_decision_the_documents_wait_for_another(log: Path, doubtful: dh.History) -> None:
    files(log, "decided")[0].unlink()
    (found,) = audit.repair(log.parent, apply=True)["findings"]
    assert (found["dropped_entries"], found["reopened_entries"], found["documents"]) == (0, 1, [(1, 1)])
    assert states(doubtful) == ["cut_off", "resubmitted", "open", "open", "open"]
    with pytest.raises(dh.StateError, match="interrupted"):
        doubtful.audit.resubmit(trigger(), [1])
    assert audit.repair(log.parent)["findings"] == []


@pytest.mark.parametrize("kinds", [["resubmission"], ["outcome"], ["resubmission", "outcome"]])
def test_a_lost_resubmission_runs_no_document_twice(log: Path, doubtful: dh.History, kinds: list[str]) -> None:
    for kind in kinds:
        files(log, kind)[0].unlink()
    assert audit.repair(log.parent, apply=True)["repaired"]
    assert states(doubtful)[1] == ("cut_off" if len(kinds) == 2 else "resubmitted")
    with pytest.raises(dh.StateError):
        doubtful.audit.resubmit(trigger(), [2])
    assert audit.repair(log.parent)["findings"] == []


def test_a_file_of_another_log_is_refused_and_moved_away(log: Path, doubtful: dh.History, tmp_path: Path) -> None:
    with dh.open(tmp_path / "other.history", create=True) as other:
        for _ in range(3):
            other.begin(documents([None, None, None]), trigger(without_ids="in_doubt"), audit=True)
    foreign = files(tmp_path / "other.history" / "audit", "kept-0000000000000007")[0]
    shutil.copy(foreign, log)
    before = states_without(doubtful, foreign.name)
    (found,) = audit.repair(log.parent, apply=True)["findings"]
    assert (found["dropped_entries"], found["remedy"]) == (0, "dropped")
    assert states(doubtful) == before
    assert not (log / foreign.name).exists()


def states_without(history: dh.History, foreign: str) -> list[str]:
    with pytest.raises(dh.CorruptError, match=f"{foreign}: this file is of another audit log"):
        history.audit.list()
    return ["process", "resubmitted", "open", "open", "open"]


def test_the_log_of_another_history_is_refused_and_left_alone(log: Path, doubtful: dh.History, tmp_path: Path) -> None:
    with dh.open(tmp_path / "other.history", create=True) as other:
        other.begin(documents([None]), trigger(), audit=True)
    shutil.rmtree(log)
    shutil.copytree(tmp_path / "other.history" / "audit", log)
    with pytest.raises(dh.CorruptError, match="not the audit log"):
        doubtful.audit.list()
    report = audit.repair(log.parent, apply=True)
    assert (report["repaired"], report["findings"][0]["remedy"]) == (False, "impossible")


def as_older_packages_wrote_it(log: Path) -> None:
    """Without manifests, and without the log's id in its files."""
    import zlib

    for path in [*log.glob("manifest-*"), log.parent / "known" / "audit"]:
        path.unlink()
    for path in files(log):
        table = pq.read_table(path)
        metadata = {key: value for key, value in table.schema.metadata.items() if key != b"dochistory.log"}
        pq.write_table(table.replace_schema_metadata(metadata), path)
        path.rename(path.with_name(f"{path.stem.rpartition('-')[0]}-{zlib.crc32(path.read_bytes()):08x}.parquet"))


def test_a_log_of_an_older_package_is_read_and_gets_a_manifest(log: Path, doubtful: dh.History) -> None:
    as_older_packages_wrote_it(log)
    before = states(doubtful)
    assert doubtful.audit.verify() > 0
    assert not list(log.glob("manifest-*"))
    doubtful.begin(batch(None), trigger(), audit=True)
    assert states(doubtful) == [*before, "open"]
    assert len(list(log.glob("manifest-*"))) == 1
    files(log, "kept")[0].unlink()
    with pytest.raises(dh.CorruptError, match="1 to 3"):
        doubtful.audit.list()


def test_what_an_older_package_adds_later_counts_too(log: Path, doubtful: dh.History) -> None:
    kept = [path.read_bytes() for path in log.glob("manifest-*")]
    names = [path.name for path in log.glob("manifest-*")]
    doubtful.begin(batch("c"), trigger(), audit=True)
    newest = files(log, "kept")[-1]
    for path in log.glob("manifest-*"):
        path.unlink()
    (log / names[0]).write_bytes(kept[0])
    assert states(doubtful)[-1] == "open"
    doubtful.begin(batch("c"), trigger(), audit=True)
    assert doubtful.audit.list()["number"].to_pylist() == [1, 2, 3, 4, 5, 6, 7]
    newest.unlink()
    with pytest.raises(dh.CorruptError, match=newest.name):
        doubtful.audit.list()


def test_what_was_forgotten_is_not_missed_and_does_not_come_back(log: Path, doubtful: dh.History) -> None:
    import datetime as dt

    doubtful.audit.resolve([1, 3], "duplicate")
    path = files(log, "kept")[0]
    content = path.read_bytes()
    assert doubtful.audit.forget(dt.datetime.now(dt.UTC) + dt.timedelta(days=1)) == 3
    # As if the process had been killed before the file lost its name.
    path.write_bytes(content)
    assert doubtful.audit.list()["number"].to_pylist() == [4, 5]
    assert doubtful.audit.verify() > 0


@pytest.mark.slow
@pytest.mark.usefixtures("log")
def test_readers_meet_no_error_while_others_keep_and_forget(doubtful: dh.History, directory: Path) -> None:
    script = """
    import datetime as dt
    with dh.open(sys.argv[1]) as history:
        for _ in range(30):
            history.begin(documents([None]), trigger(), audit=True)
            history.audit.resolve([history.audit.list()["number"].to_pylist()[-1]], "duplicate")
            history.audit.forget(dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    """
    process = start(script, directory)
    reads = 0
    while process.poll() is None:
        doubtful.audit.verify()
        assert 3 in doubtful.audit.list()["number"].to_pylist()
        reads += 1
    assert process.communicate()[1] == ""
    assert reads > 2


def test_history_verifies_and_repairs_its_audit_log_too(log: Path, doubtful: dh.History) -> None:
    whole = doubtful.verify()
    assert whole > doubtful.audit.verify() > 0
    path = files(log, "kept")[0]
    flip(path)
    with pytest.raises(dh.CorruptError, match=path.name):
        doubtful.verify()
    assert doubtful.verify(trigger()) > 0, "of one trigger its own files only"
    assert dh.repair(log.parent, trigger())["findings"] == []
    planned = dh.repair(log.parent)
    assert [one["documents"] for one in planned["findings"]] == [[(1, 3)]]
    assert (planned["repaired"], planned["audit_kept_in"]) == (False, None)
    done = dh.repair(log.parent, apply=True)
    assert (done["repaired"], done["kept_in"]) == (True, None)
    assert done["audit_kept_in"] is not None
    assert (Path(done["audit_kept_in"]) / path.name).exists()
    assert dh.repair(log.parent)["findings"] == []
    assert doubtful.verify() > 0


def test_lock_on_a_full_disk_is_held_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    one, other = (_files.Lock(tmp_path / "lock", 0.05) for _ in range(2))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with one, pytest.raises(dh.LockedError):
            other.take()
    with other:
        pass


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO])
def test_refusal_of_the_system_is_no_damage(
    log: Path, doubtful: dh.History, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuses(place: Any, **_: Any) -> Any:
        raise OSError(number, f"[Errno {number}] Failed to open local file", str(place))

    expected = dh.DescriptorsError if number == errno.EMFILE else dh.StorageError
    with monkeypatch.context() as patched:
        patched.setattr("pyarrow.parquet.ParquetFile", refuses)
        for call in (doubtful.audit.list, doubtful.audit.verify, lambda: audit.repair(log.parent)):
            with pytest.raises(expected) as raised:
                call()
            assert "DH-CORRUPT" not in str(raised.value)
    assert doubtful.audit.list().num_rows == 5


@pytest.mark.parametrize("kind", ["decided", "outcome", "resubmission"])
def test_no_bit_of_an_event_changes_what_is_believed(log: Path, doubtful: dh.History, kind: str) -> None:
    (path,) = files(log, kind)
    content = path.read_bytes()
    for at in range(0, len(content), 11):
        flip(path, at)
        with pytest.raises(dh.CorruptError, match="do not match the checksum"):
            doubtful.audit.list()
        path.write_bytes(content)
    assert states(doubtful) == ["process", "resubmitted", "open", "open", "open"]


def test_documents_are_read_only_if_no_bit_of_theirs_is_wrong(log: Path, doubtful: dh.History) -> None:
    path = files(log, "kept")[0]
    content = path.read_bytes()
    for at in range(0, len(content), 97):
        flip(path, at)
        with pytest.raises(dh.CorruptError):
            doubtful.audit.documents([1])
        path.write_bytes(content)
    assert doubtful.audit.documents([1]).num_rows == 1


def killed(monkeypatch: pytest.MonkeyPatch, step: str, call: Callable[[], object]) -> None:
    """A call during which the process ends, before a step."""
    with monkeypatch.context() as patched:

        def gone(*_: object) -> None:
            os._exit(9)

        patched.setattr(Directory, step, gone)
        child = os.fork()
        if not child:
            call()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def _compacts(directory: Path) -> None:
    with dh.open(directory) as history:
        history.audit.compact()


@pytest.mark.parametrize("step", ["publish", "remove"])
def test_a_repair_after_a_compaction_was_killed_doubles_nothing(
    log: Path, doubtful: dh.History, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = doubtful.audit.list()
    killed(monkeypatch, step, lambda: _compacts(log.parent))
    (manifest,) = log.glob("manifest*")
    flip(manifest, 20)
    assert audit.repair(log.parent, apply=True)["repaired"]
    assert doubtful.audit.list()["number"].to_pylist() == before["number"].to_pylist()
    assert doubtful.audit.list()["state"].to_pylist() == before["state"].to_pylist()
    assert doubtful.audit.verify() > 0


def test_a_repair_that_was_killed_says_the_same_again(
    log: Path, doubtful: dh.History, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(log, "decided")[0].unlink()

    def told(found: dict[str, Any]) -> list[tuple[str, list[tuple[int, int]]]]:
        return [(one["remedy"], one["documents"]) for one in found["findings"]]

    expected = [("dropped", [(1, 1)])]
    assert told(audit.repair(log.parent)) == expected
    killed(monkeypatch, "publish", lambda: audit.repair(log.parent, apply=True))
    assert told(audit.repair(log.parent)) == expected
    assert told(audit.repair(log.parent, apply=True)) == expected
    assert states(doubtful)[0] == "cut_off"
