"""The audit log: what is in doubt is kept whole, and processed once at most, whoever decides and whatever crashes."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory.audit import AuditLog
from tests.bucket_fixtures import identity, in_bucket, store
from tests.store.processes import run_together, start
from tests.support import T0, documents, entries, rules, status_of, statuses, trigger

__all__ = ["identity", "in_bucket", "store"]

in_directory = pytest.mark.parametrize("history", ["directory"], indirect=True)
"""For what is of files, of locks and of processes; `tests/objects/test_audit.py` has the like for buckets."""


@pytest.fixture(params=["directory", "bucket"])
def history(request: pytest.FixtureRequest, directory: Path) -> Iterator[dh.History]:
    """A new, empty history; it needs no bucket for a directory."""
    is_directory = request.param == "directory"
    with dh.open(directory, create=True) if is_directory else request.getfixturevalue("in_bucket")() as opened:
        yield opened


@pytest.fixture
def doubtful(history: dh.History) -> dh.History:
    """A history whose log holds documents 1 to 3, of the keys a, b, c, begun by a service that died."""
    history.begin(documents(["a", "b", "c"]), trigger())
    history.begin(batch("a", "b", "c", "new"), trigger(), audit=True).complete()
    return history


def batch(*keys: str | None) -> pa.Table:
    return pa.table(
        {
            "uuid": pa.array(keys, pa.string()),
            "redelivery_count": pa.array([1] * len(keys), pa.int64()),
            "payload": pa.array([f"payload of {key}".encode() for key in keys]),
            "lines": pa.array([[{"sku": key, "pieces": 2}] for key in keys]),
        }
    )


def states(history: dh.History) -> list[str]:
    found: list[str] = history.audit.list()["state"].to_pylist()
    return found


def test_documents_in_doubt_are_kept_whole_and_no_others(doubtful: dh.History) -> None:
    listed = doubtful.audit.list().to_pylist()
    assert [(one["number"], one["key"], one["rule"], one["state"]) for one in listed] == [
        (1, "a", "R11", "open"),
        (2, "b", "R11", "open"),
        (3, "c", "R11", "open"),
    ]
    assert {one["trigger"] for one in listed} == {"orders"}
    assert [one["count"] for one in listed] == [1, 1, 1]
    shown = doubtful.audit.show(2)
    assert shown["document"] == batch("b").to_pylist()[0]
    assert shown["message"]


@in_directory
def test_a_batch_without_doubts_touches_nothing(history: dh.History, directory: Path) -> None:
    claim = history.begin(documents(["a"]), trigger(), audit=True)
    assert history.audit.keep(documents(["a"]), claim.verdicts, trigger()) == []
    assert not (directory / "audit").exists()
    assert history.audit.list().num_rows == 0


def test_documents_in_doubt_are_kept_or_nothing_is_claimed(history: dh.History) -> None:
    class Full:
        def keep(self, *_: object, **__: object) -> list[int]:
            raise dh.StorageError("[DH-IO] the disk is full")

    history.begin(documents(["a"]), trigger())
    with pytest.raises(dh.StorageError, match="disk is full"):
        history.begin(documents(["a", "b"]), trigger(), audit=Full())
    assert status_of(history, ["a", "b"]) == ["IN_DOUBT", "NEW"]


@pytest.mark.parametrize("audit", [None, False])
def test_without_it_nothing_is_kept(history: dh.History, audit: Any) -> None:
    history.begin(documents([None]), trigger(), audit=audit)
    assert history.audit.list().num_rows == 0


@pytest.mark.parametrize("audit", [17, "orders.audit"])
def test_audit_argument_that_is_no_log_is_refused_before_begin(history: dh.History, audit: Any) -> None:
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] audit is"):
        history.begin(documents(["a"]), trigger(), audit=audit)
    assert status_of(history, ["a"]) == ["NEW"]


def test_a_jms_trigger_has_none(history: dh.History) -> None:
    jms = trigger(kind="jms")
    with pytest.raises(dh.ConfigError, match="JMS"):
        history.audit.keep(documents([None]), history.classify(documents([None]), jms), jms)


def test_documents_and_verdicts_of_different_batches_are_refused(doubtful: dh.History) -> None:
    verdicts = doubtful.classify(documents(["a", "b"]), trigger())
    with pytest.raises(dh.SchemaError, match="1 documents and 2 verdicts"):
        doubtful.audit.keep(documents(["a"]), verdicts, trigger())


def test_columns_of_every_type_come_back_as_they_were(history: dh.History) -> None:
    table = pa.table(
        {
            "uuid": pa.array([None, None], pa.string()),
            "dictionary": pa.array(["x", "y"]).dictionary_encode(),
            "time": pa.array([T0, None], pa.timestamp("us", "UTC")),
            "view": pa.array(["v", None], pa.string_view()),
            "price": pa.array([1, None], pa.decimal128(10, 2)),
            "uuid16": pa.array([b"0" * 16, None], pa.binary(16)),
            "dh_number": pa.array([7, 8]),
            "number": pa.array(["ours", "too"]),
        }
    )
    history.begin(table, trigger(without_ids="in_doubt"), audit=True)
    assert history.audit.documents([1, 2]).to_pylist() == table.to_pylist()


@in_directory
def test_numbers_may_be_a_column_and_must_be_numbers(doubtful: dh.History) -> None:
    wrong: Any
    for wrong in (1, "1", ["1"], [None], [1.5]):
        for call in (doubtful.audit.documents, lambda given: doubtful.audit.resolve(given, "process")):
            with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] numbers is .*; allowed is an Arrow array or"):
                call(wrong)
        with pytest.raises(dh.ConfigError, match="numbers"):
            doubtful.audit.resubmit(trigger(), wrong)
    wrong = "1"
    with pytest.raises(dh.ConfigError, match="numbers"):
        doubtful.audit.show(wrong)
    doubtful.audit.resolve(doubtful.audit.list(state="open")["number"], "process")
    with doubtful.audit.resubmit(trigger(), doubtful.audit.list()["number"].combine_chunks()) as again:
        assert again.documents.num_rows == 3


def test_batches_of_different_columns_live_together(history: dh.History) -> None:
    history.begin(pa.table({"uuid": pa.array([None], pa.string()), "a": [1]}), trigger(), audit=True)
    history.begin(pa.table({"uuid": pa.array([None], pa.string()), "b": ["x"]}), trigger(), audit=True)
    history.begin(pa.table({"uuid": pa.array([None], pa.string()), "a": ["text"]}), trigger(), audit=True)
    assert history.audit.documents([1, 2]).to_pylist() == [
        {"uuid": None, "a": 1, "b": None},
        {"uuid": None, "a": None, "b": "x"},
    ]
    with pytest.raises(dh.SchemaError, match="incompatible columns"):
        history.audit.documents([1, 3])


def test_a_replayed_transaction_keeps_no_document_twice(history: dh.History) -> None:
    for _ in range(3):
        history.begin(documents(["a", "b"]), trigger(), transaction=("app", 7), audit=True)
    listed = history.audit.list().to_pylist()
    assert [(one["key"], one["application"], one["batch"]) for one in listed] == [("a", "app", 7), ("b", "app", 7)]
    history.begin(documents(["a"]), trigger(), transaction=("app", 8), audit=True)
    assert history.audit.list()["batch"].to_pylist() == [7, 7, 8]


def test_replay_keeps_documents_without_a_key_once(history: dh.History) -> None:
    rows = {"uuid": ["a", None, None], "payload": ["A", "pay 5 EUR", "pay 5 EUR"], "rate": [1.5, float("nan"), 2.0]}
    for count in range(3):
        table = pa.table({**rows, "redelivery_count": [count] * 3})
        history.begin(table, trigger(), transaction=("app", 1), audit=True)
    # The key is in doubt from the first replay on.
    assert sorted(history.audit.list()["row"].to_pylist()) == [0, 1, 2]
    history.audit.resolve_all("process")
    with history.audit.resubmit(trigger()) as again:
        assert sorted(again.documents["rate"].to_pylist(), key=str) == [
            1.5,
            2.0,
            pytest.approx(float("nan"), nan_ok=True),
        ]


def test_replay_keeps_other_documents_of_a_known_key(history: dh.History) -> None:
    rows = pa.table({"uuid": ["a", "a"], "payload": ["the first", "its copy"]})
    of = trigger(processing_mode="concurrent", in_batch="in_doubt")
    history.begin(rows, of, transaction=("app", 1), audit=True)
    assert history.audit.list()["row"].to_pylist() == [1]
    for _ in range(2):
        history.begin(rows, of, transaction=("app", 1), audit=True)  # both are in doubt now
    assert sorted(history.audit.list()["row"].to_pylist()) == [0, 1]


def test_a_resubmitted_document_is_processed_recorded_and_marked(doubtful: dh.History) -> None:
    with doubtful.audit.resubmit(trigger(), [2]) as again:
        assert again.documents.to_pylist() == batch("b").to_pylist()
        assert again.entries["number"].to_pylist() == [2]
        assert states(doubtful) == ["open", "resubmitting", "open"]
        started = [row["started_at"] for row in entries(doubtful, trigger(), status="processing") if row["key"] == "b"]
        assert len(started) == 2
    assert states(doubtful) == ["open", "resubmitted", "open"]
    assert status_of(doubtful, ["a", "b"]) == ["IN_DOUBT", "DUPLICATE"]


def test_what_was_resubmitted_cannot_be_resubmitted_again(doubtful: dh.History) -> None:
    with doubtful.audit.resubmit(trigger(), [1]):
        pass
    for attempt in (
        lambda: doubtful.audit.resubmit(trigger(), [1]),
        lambda: doubtful.audit.resolve([1], "process"),
        lambda: doubtful.audit.resolve([1], "duplicate"),
    ):
        with pytest.raises(dh.StateError, match=r"document 1 cannot .*: it was resubmitted before"):
            attempt()


def test_documents_resolved_as_process_are_resubmitted_together(doubtful: dh.History) -> None:
    doubtful.audit.resolve([1, 3], "process", by="ada", note="asked the shop")
    assert states(doubtful) == ["process", "open", "process"]
    assert doubtful.audit.list(state="process")["note"].to_pylist() == ["asked the shop"] * 2
    with doubtful.audit.resubmit(trigger()) as again:
        assert again.documents["uuid"].to_pylist() == ["a", "c"]
    assert states(doubtful) == ["resubmitted", "open", "resubmitted"]
    listed = doubtful.audit.list(state="resubmitted")
    assert [(one["by"], one["note"]) for one in listed.to_pylist()] == [("ada", "asked the shop")] * 2
    with doubtful.audit.resubmit(trigger()) as nothing:
        assert nothing.documents.num_rows == 0


def test_a_duplicate_is_completed_and_never_resubmitted(doubtful: dh.History) -> None:
    doubtful.audit.resolve([1], "duplicate", by="ada")
    doubtful.audit.resolve([1], "duplicate", by="bob")
    assert doubtful.audit.show(1)["by"] == "ada"
    assert status_of(doubtful, ["a"]) == ["DUPLICATE"]
    with pytest.raises(dh.StateError, match="duplicates are never resubmitted"):
        doubtful.audit.resubmit(trigger(), [1, 2])
    assert states(doubtful) == ["duplicate", "open", "open"]


def test_document_completed_meanwhile_is_a_duplicate(doubtful: dh.History) -> None:
    doubtful.complete(["a"], trigger())
    with doubtful.audit.resubmit(trigger(), [1, 2]) as again:
        assert again.documents["uuid"].to_pylist() == ["b"]
        assert again.duplicates["number"].to_pylist() == [1]
    assert states(doubtful) == ["duplicate", "resubmitted", "open"]


def test_of_several_documents_of_one_key_one_is_processed(doubtful: dh.History) -> None:
    doubtful.begin(batch("a", "a"), trigger(), audit=True)
    with doubtful.audit.resubmit(trigger(), [1, 4]) as again:
        assert again.entries["number"].to_pylist() == [1]
    with doubtful.audit.resubmit(trigger(), [5]) as again:
        assert again.documents.num_rows == 0
    assert states(doubtful) == ["resubmitted", "open", "open", "duplicate", "duplicate"]


@pytest.mark.parametrize("key", [None, "x" * 97])
def test_documents_without_a_usable_key_are_resubmitted_once_too(history: dh.History, key: str | None) -> None:
    history.begin(batch(key), trigger(), audit=True)
    with history.audit.resubmit(trigger(), [1]) as again:
        assert again.documents["payload"].to_pylist() == batch(key)["payload"].to_pylist()
    assert states(history) == ["resubmitted"]


def test_resubmission_bypasses_classification_for_any_trigger(history: dh.History) -> None:
    by_count = trigger(use_history=False)
    claim = history.begin(batch("a"), by_count, audit=True)
    assert rules(claim.verdicts) == ["R14"]
    asked: list[Any] = []

    def resolver(rows: pa.RecordBatch) -> list[str]:
        asked.append(rows)
        return ["IN_DOUBT"] * len(rows)

    careful = trigger(use_history=False, resolver=resolver)
    with history.audit.resubmit(careful, [1]) as again:
        assert again.documents.num_rows == 1
    assert asked == []
    assert states(history) == ["resubmitted"]


def test_work_that_was_rolled_back_leaves_documents_as_they_were(doubtful: dh.History) -> None:
    doubtful.audit.resolve([1], "process")
    with pytest.raises(dh.RolledBack), doubtful.audit.resubmit(trigger(), [1, 2]):
        raise dh.RolledBack("no effect")
    assert states(doubtful) == ["process", "open", "open"]
    with doubtful.audit.resubmit(trigger(), [1, 2]) as again:
        assert again.documents.num_rows == 2


def test_failed_service_leaves_documents_cut_off_until_decided(doubtful: dh.History) -> None:
    with pytest.raises(ZeroDivisionError), doubtful.audit.resubmit(trigger(), [1, 2]):
        raise ZeroDivisionError
    assert states(doubtful) == ["cut_off", "cut_off", "open"]
    with pytest.raises(dh.StateError, match="interrupted: resolve it first"):
        doubtful.audit.resubmit(trigger(), [1])
    with doubtful.audit.resubmit(trigger(), [3]):
        pass
    doubtful.audit.resolve([1], "process")
    doubtful.audit.resolve([2], "duplicate")
    with doubtful.audit.resubmit(trigger()) as again:
        assert again.documents["uuid"].to_pylist() == ["a"]
    assert states(doubtful) == ["resubmitted", "duplicate", "resubmitted"]


def test_documents_of_other_triggers_and_of_none_are_refused(doubtful: dh.History) -> None:
    with pytest.raises(dh.StateError, match="of another trigger than bills"):
        doubtful.audit.resubmit("bills", [1])
    for attempt in (doubtful.audit.show, lambda number: doubtful.audit.resubmit(trigger(), [number])):
        with pytest.raises(dh.StateError, match="there is no document 99"):
            attempt(99)
    with pytest.raises(dh.ConfigError, match="decision is 'maybe'"):
        doubtful.audit.resolve([1], "maybe")  # type: ignore[arg-type]
    with pytest.raises(dh.ConfigError, match="state is 'lost'"):
        doubtful.audit.list(state="lost")  # type: ignore[arg-type]


def test_typing_error_in_a_trigger_is_no_empty_log(doubtful: dh.History) -> None:
    asked = (doubtful.audit.list, doubtful.audit.resubmit, lambda name: doubtful.audit.resolve_all("process", name))
    for ask in asked:
        with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] neither .* 'ordrs'; the history has orders"):
            ask("ordrs")
    assert doubtful.audit.reconcile("ordrs") == []  # a sweeper asks for triggers that nobody has used yet
    assert doubtful.audit.list(trigger("later")).num_rows == 0
    with doubtful.audit.resubmit("orders", [1]):
        pass  # nothing is locked


def test_under_its_name_a_trigger_is_resubmitted_as_it_was_kept(history: dh.History) -> None:
    history.begin(batch(None), trigger(history_time_to_live="30 days", expiry="exact"), audit=True)
    with history.audit.resubmit("orders", [1]) as again:
        assert again.documents.num_rows == 1
    assert history.stats("orders")["history_time_to_live"] == dt.timedelta(days=30)


def test_only_one_resubmits_documents_of_a_trigger_at_a_time(doubtful: dh.History) -> None:
    impatient = AuditLog(doubtful, lock_timeout=0.05)
    with doubtful.audit.resubmit(trigger(), [1]):
        with pytest.raises(dh.LockedError, match="process"):
            impatient.resubmit(trigger(), [2])
        with pytest.raises(dh.LockedError):
            impatient.resolve([1], "duplicate")
    with impatient.resubmit(trigger(), [2]) as again:
        assert again.documents.num_rows == 1


@in_directory
def test_it_is_read_without_writing(doubtful: dh.History, directory: Path) -> None:
    with pytest.raises(ZeroDivisionError), doubtful.audit.resubmit(trigger(), [1]):
        raise ZeroDivisionError
    with dh.open(directory, read_only=True) as reader:
        assert states(reader) == ["cut_off", "open", "open"]
        assert reader.audit.show(2)["key"] == "b"
        assert reader.audit.verify() > 0
        with pytest.raises(dh.ReadOnlyError):
            reader.audit.resubmit(trigger(), [2])


def test_settled_documents_are_forgotten_by_file_without_reuse(doubtful: dh.History) -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    doubtful.begin(batch(None), trigger(), audit=True)
    with doubtful.audit.resubmit(trigger(), [1, 2]):
        pass
    assert doubtful.audit.forget(later) == 0
    doubtful.audit.resolve([3, 4], "duplicate")
    assert doubtful.audit.forget(T0) == 0
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] before is .*allowed is a datetime with a time zone$"):
        doubtful.audit.forget(later.replace(tzinfo=None))
    assert doubtful.audit.forget(later, dry_run=True) == 3
    assert doubtful.audit.forget(later) == 3
    assert doubtful.audit.list()["number"].to_pylist() == [4]
    doubtful.begin(batch(None), trigger(), audit=True)
    assert doubtful.audit.list()["number"].to_pylist() == [4, 5]
    assert states(doubtful) == ["duplicate", "open"]


@in_directory
def test_damage_is_found(doubtful: dh.History, directory: Path) -> None:
    doubtful.audit.resolve([1], "process")
    for path in (directory / "audit").glob("*.parquet"):
        content = path.read_bytes()
        for at in (5, 100, len(content) // 2, len(content) - 6):
            path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
            with pytest.raises(dh.CorruptError, match=path.name):
                doubtful.audit.verify()
        path.write_bytes(content)
    assert doubtful.audit.verify() > 0


@in_directory
def test_threads_and_processes_may_keep_at_once(history: dh.History, directory: Path) -> None:
    def keep(which: dh.History) -> None:
        for _ in range(5):
            which.begin(batch(None, None), trigger(without_ids="in_doubt"), audit=True)

    threads = [threading.Thread(target=keep, args=(history,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    script = """
    with dh.open(sys.argv[1]) as history:
        ready()
        for _ in range(5):
            history.begin(documents([None, None]), trigger(without_ids="in_doubt"), audit=True)
    """
    run_together(script, [[directory], [directory]])
    for thread in threads:
        thread.join()
    assert history.audit.list()["number"].to_pylist() == list(range(1, 51))
    assert history.audit.verify() > 0


@in_directory
def test_log_on_another_disk_keeps_documents_without_the_history(
    history: dh.History, directory: Path, tmp_path: Path
) -> None:
    log = AuditLog(history, tmp_path / "elsewhere")
    directory.rename(tmp_path / "away")
    claim = history.begin(batch("a"), trigger(suspend_and_retry_on_error=False), audit=log)
    assert rules(claim.verdicts) == ["R7"]
    with pytest.raises(dh.StorageError):
        log.resubmit(trigger(), [1])
    (tmp_path / "away").rename(directory)
    with log.resubmit(trigger(), [1]) as again:
        assert again.documents["uuid"].to_pylist() == ["a"]
    assert status_of(history, ["a"]) == ["DUPLICATE"]


KILLED = """
    import signal
    from dochistory import _files

    class Steps:
        left = int(sys.argv[2])
        def __call__(self):
            if Steps.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            Steps.left -= 1

    step = Steps()
    def stepping(function):
        def run(*arguments, **named):
            step()
            done = function(*arguments, **named)
            step()
            return done
        return run

    class Claim:
        def __init__(self, claim):
            self.claim = claim
            self.complete = stepping(claim.complete)
        def __getattr__(self, name):
            return getattr(self.claim, name)

    class History:
        def __init__(self, history):
            self.history = history
            self.complete = stepping(history.complete)
        def begin(self, *arguments, **named):
            step()
            claim = Claim(self.history.begin(*arguments, **named))
            step()
            return claim
        def __getattr__(self, name):
            return getattr(self.history, name)

    for name in ("link", "fsync", "unlink"):
        setattr(os, name, stepping(getattr(os, name)))
    from dochistory.audit import AuditLog
    with dh.open(sys.argv[1]) as history:
        log = AuditLog(History(history))
"""


@pytest.mark.crash
def test_resubmission_killed_at_any_step_runs_each_document_once(tmp_path: Path) -> None:
    script = (
        KILLED
        + """
        with log.resubmit(trigger(), [1, 2]) as again:
            step()
            with open(sys.argv[3], "a") as effects:
                effects.write("".join(f"{key}\\n" for key in again.documents["uuid"].to_pylist()))
            step()
        print("survived")
    """
    )
    seen = kill_at_every_step(tmp_path, script)
    assert {state for states in seen for state in states} == {"open", "cut_off", "resubmitted"}


def kill_at_every_step(tmp_path: Path, script: str) -> list[list[str]]:
    """Kill it at step 0, 1, 2, … until it survives; after each, recover as an operator would, and check."""
    seen = []
    for at in range(200):
        directory, effects = tmp_path / f"{at}.history", tmp_path / f"{at}.effects"
        effects.touch()
        with dh.open(directory, create=True) as history:
            history.begin(documents(["a", "b", "c"]), trigger())
            history.begin(batch("a", "b", "c"), trigger(), audit=True)
        process = start(script, directory, at, effects)
        printed, complaints = process.communicate()
        assert process.returncode in (0, -9), complaints
        with dh.open(directory) as history:
            found = states(history)
            seen.append(found[:2])
            done = effects.read_text().split()
            assert found[2] == "open"
            assert found[0] == found[1]
            assert found[0] != "open" or done == []
            assert found[0] != "resubmitted" or done == ["a", "b"]
            recover(history, found[0], done, effects)
            assert sorted(effects.read_text().split()) == ["a", "b"]
            assert states(history)[:2] in (["resubmitted"] * 2, ["duplicate"] * 2)
            assert status_of(history, ["a", "b", "c"]) == ["DUPLICATE", "DUPLICATE", "IN_DOUBT"]
            assert history.audit.verify() > 0
        if "survived" in printed:
            return seen
    raise AssertionError("it never came to its end")


def recover(history: dh.History, state: str, done: list[str], effects: Path) -> None:
    """What an operator does, who can see what the service did."""
    if state == "cut_off":
        history.audit.resolve([1, 2], "duplicate" if done else "process", note="looked at its effects")
        state = "process" if not done else "duplicate"
    if state in ("open", "process"):
        with history.audit.resubmit(trigger(), [1, 2]) as again, effects.open("a") as out:
            out.write("".join(f"{key}\n" for key in again.documents["uuid"].to_pylist()))


@pytest.mark.crash
def test_a_kill_while_documents_are_kept_keeps_them_all_or_none(tmp_path: Path) -> None:
    script = (
        KILLED
        + """
        log.keep(documents(["a", "b", None]), history.classify(documents(["a", "b", None]), trigger()), trigger())
        print("survived")
    """
    )
    survived = False
    for at in range(60):
        directory = tmp_path / f"{at}.history"
        with dh.open(directory, create=True) as history:
            history.begin(documents(["a", "b"]), trigger())
        process = start(script, directory, at)
        printed, complaints = process.communicate()
        assert process.returncode in (0, -9), complaints
        with dh.open(directory) as history:
            assert states(history) in ([], ["open"] * 3)
            history.begin(documents(["a"]), trigger(), audit=True)
            assert history.audit.list()["number"].to_pylist() in ([1], [1, 2, 3, 4])
        survived = "survived" in printed
        if survived:
            break
    assert survived


@in_directory
def test_resubmission_of_a_dead_process_is_cut_off_for_others(doubtful: dh.History, directory: Path) -> None:
    script = """
    with dh.open(sys.argv[1]) as history:
        again = history.audit.resubmit("orders", [1])
        print("begun", flush=True)
        sys.stdin.readline()
        os._exit(1)
    """
    process = start(script, directory)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    assert states(doubtful)[0] == "resubmitting"
    process.communicate("\n")
    assert states(doubtful)[0] == "cut_off"
    assert statuses(doubtful.classify(documents(["a"]), trigger())) == ["IN_DOUBT"]


@in_directory
def test_the_directory_of_a_history_may_hold_its_audit_log(doubtful: dh.History, directory: Path) -> None:
    doubtful.close()
    with dh.open(directory, create=True) as again:
        assert again.audit.list().num_rows == 3
        assert again.verify() > 0


@in_directory
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_process_neither_keeps_nor_ends_a_resubmission(doubtful: dh.History) -> None:
    impatient = AuditLog(doubtful, lock_timeout=0.05)
    with doubtful.audit.resubmit(trigger(), [1]) as again:
        awake, asleep = os.pipe()
        child = os.fork()
        if child == 0:
            again.__del__()
            os.close(asleep)
            os.read(awake, 1)  # until the parent closes its end
            os._exit(0)
        os.close(awake)
        with pytest.raises(dh.LockedError):
            impatient.resubmit(trigger(), [2])
    with impatient.resubmit(trigger(), [2]) as another:
        assert another.documents.num_rows == 1
    os.close(asleep)
    assert os.waitpid(child, 0)[1] == 0


@in_directory
def test_a_resubmission_that_cannot_begin_changes_nothing(doubtful: dh.History, directory: Path) -> None:
    import fcntl

    turn = next(directory.glob("triggers/orders-*/turn"))
    with dh.open(directory, lock_timeout=0.05) as impatient, turn.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(dh.LockedError):
            impatient.audit.resubmit(trigger(), [1])
    assert states(doubtful) == ["open"] * 3
    with doubtful.audit.resubmit(trigger(), [1]) as again:
        assert again.documents["uuid"].to_pylist() == ["a"]


@in_directory
def test_log_of_an_older_copy_reuses_no_number(doubtful: dh.History, directory: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(directory / "audit", tmp_path / "copy")
    with doubtful.audit.resubmit(trigger(), [1]):
        pass
    shutil.rmtree(directory / "audit")
    shutil.copytree(tmp_path / "copy", directory / "audit")
    assert states(doubtful) == ["open"] * 3
    with doubtful.audit.resubmit(trigger(), [1, 2]) as again:
        assert again.documents["uuid"].to_pylist() == ["b"]
    assert states(doubtful) == ["duplicate", "resubmitted", "open"]
