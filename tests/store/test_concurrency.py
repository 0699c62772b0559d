"""Many claim the same documents at once: each document is new to exactly one of them."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import dochistory as dh
from tests.store.processes import finish, run, run_together, start
from tests.support import documents, fresh_ids, status_of, statuses, trigger


def claimed(claims: list[list[str]]) -> Counter[str]:
    """How many claimed each document."""
    return Counter(one for claim in claims for one in claim)


def claim_all(history: dh.History, ids: list[str], batch: int, gate: Callable[[], object]) -> list[str]:
    """Begins all the documents in batches; returns those that were new."""
    gate()
    mine: list[str] = []
    for start_row in range(0, len(ids), batch):
        claim = history.begin(documents(ids[start_row : start_row + batch]), trigger())
        mine += claim.new.column("uuid").to_pylist()
    return mine


@pytest.mark.parametrize("batch", [1, 17, 400])
def test_threads_with_one_handle_claim_each_document_once(history: dh.History, batch: int) -> None:
    ids = fresh_ids(400)
    gate = threading.Barrier(6)
    with ThreadPoolExecutor(6) as pool:
        claims = list(pool.map(lambda _: claim_all(history, ids, batch, gate.wait), range(6)))
    assert claimed(claims) == Counter(ids)


def test_threads_with_own_handles_claim_each_document_once(directory: Path) -> None:
    ids = fresh_ids(400)
    dh.open(directory, create=True).close()
    gate = threading.Barrier(4)

    def work(number: int) -> list[str]:
        with dh.open(directory) as history:
            return claim_all(history, ids[number * 50 :] + ids[: number * 50], 20, gate.wait)

    with ThreadPoolExecutor(4) as pool:
        assert claimed(list(pool.map(work, range(4)))) == Counter(ids)


CLAIM = """
ids = open(sys.argv[2]).read().split()
batch = int(sys.argv[3])
with dh.open(sys.argv[1]) as history:
    ready()
    for row in range(0, len(ids), batch):
        for one in history.begin(documents(ids[row:row + batch]), trigger()).new.column("uuid").to_pylist():
            print(one)
"""


@pytest.mark.parametrize(
    "batch", [pytest.param(1, marks=pytest.mark.slow), 25, pytest.param(300, marks=pytest.mark.slow)]
)
def test_of_processes_exactly_one_gets_each_document(directory: Path, tmp_path: Path, batch: int) -> None:
    ids = fresh_ids(300)
    offered = tmp_path / "ids"
    offered.write_text("\n".join(ids))
    dh.open(directory, create=True).close()
    claims = run_together(CLAIM, [(directory, offered, batch)] * 4)
    assert claimed(claims) == Counter(ids)
    with dh.open(directory) as history:
        assert set(status_of(history, ids)) == {"IN_DOUBT"}


def test_threads_may_create_the_same_history_at_once(directory: Path) -> None:
    ids = fresh_ids(20)
    gate = threading.Barrier(5)

    def work(_: int) -> list[str]:
        gate.wait()
        with dh.open(directory, create=True) as history:
            return claim_all(history, ids, 20, lambda: None)

    with ThreadPoolExecutor(5) as pool:
        assert claimed(list(pool.map(work, range(5)))) == Counter(ids)


def test_readers_in_other_processes_see_acknowledged_documents(history: dh.History, directory: Path) -> None:
    reader = start(
        """
        with dh.open(sys.argv[1], read_only=True) as history:
            for line in sys.stdin:
                print(status_of(history, [line.strip()])[0], flush=True)
        """,
        directory,
    )
    assert reader.stdin is not None
    assert reader.stdout is not None

    def ask(one: str) -> str:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(f"{one}\n")
        reader.stdin.flush()
        return reader.stdout.readline().strip()

    for one in fresh_ids(30):
        assert ask(one) == "NEW"
        claim = history.begin(documents([one]), trigger())
        assert ask(one) == "IN_DOUBT"
        claim.complete()
        assert ask(one) == "DUPLICATE"
    finish(reader)


def test_readers_never_see_half_a_batch(directory: Path) -> None:
    ids = fresh_ids(2_000)
    dh.open(directory, create=True).close()
    writer = start(
        """
        ids = sys.stdin.readline().split()
        with dh.open(sys.argv[1]) as history:
            for row in range(0, len(ids), 100):
                history.begin(documents(ids[row:row + 100]), trigger()).complete()
        """,
        directory,
    )
    assert writer.stdin is not None
    writer.stdin.write(" ".join(ids) + "\n")
    writer.stdin.flush()
    with dh.open(directory, read_only=True) as reader:
        while writer.poll() is None:
            seen = status_of(reader, ids)
            for row in range(0, len(ids), 100):
                assert len(set(seen[row : row + 100])) == 1
        finish(writer)
        assert set(status_of(reader, ids)) == {"DUPLICATE"}


def test_a_purge_in_another_process_disturbs_nobody(history: dh.History, directory: Path) -> None:
    purger = start(
        """
        with dh.open(sys.argv[1]) as history:
            for _ in range(30):
                history.purge()
        """,
        directory,
    )
    kept: list[str] = []
    while purger.poll() is None:
        ids = fresh_ids(50)
        claim = history.begin(documents(ids), trigger())
        assert statuses(claim.verdicts) == ["NEW"] * 50
        claim.complete()
        kept += ids
    finish(purger)
    assert set(status_of(history, kept)) <= {"DUPLICATE"}


def test_a_fork_must_not_write_with_its_parents_handle(directory: Path) -> None:
    lines = run(
        """
        history = dh.open(sys.argv[1], create=True)
        history.begin(documents(["before"]), trigger()).complete()
        child = os.fork()
        if child == 0:
            try:
                history.begin(documents(["child"]), trigger())
            except dh.ForkedError as refused:
                print(str(refused).split("]")[0], flush=True)
            with dh.open(sys.argv[1]) as own:
                own.begin(documents(["own"]), trigger()).complete()
            os._exit(0)
        os.waitpid(child, 0)
        history.begin(documents(["after"]), trigger()).complete()
        print(*status_of(history, ["before", "child", "own", "after"]))
        """,
        directory,
    )
    assert lines == ["[DH-FORKED", "DUPLICATE NEW DUPLICATE DUPLICATE"]


def test_writer_waiting_too_long_learns_who_holds_the_lock(directory: Path) -> None:
    dh.open(directory, create=True).close()
    with _busy_writer(directory) as pid, dh.open(directory, lock_timeout="200 ms") as history:
        refused = _stop_until_locked(pid, history)
    assert str(refused).startswith("[DH-LOCKED]")
    assert str(pid) in str(refused)
    with dh.open(directory, lock_timeout="5 s") as history:
        assert statuses(history.begin(documents(["mine"]), trigger()).verdicts) == ["NEW"]


@contextmanager
def _busy_writer(directory: Path) -> Iterator[int]:
    """A process that begins documents all the time, until the block is left; its number."""
    writer = start(
        """
        with dh.open(sys.argv[1]) as history:
            while True:
                history.begin(documents(fresh_ids(20_000)), trigger())
                print("begun", flush=True)
        """,
        directory,
    )
    assert writer.stdout is not None
    writer.stdout.readline()
    try:
        yield writer.pid
    finally:
        writer.kill()
        writer.communicate()


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """The process stands still within the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _stop_until_locked(pid: int, history: dh.History) -> dh.LockedError:
    """Stops the holder again and again until it is caught with its turn, and its name written down."""
    caught: dh.LockedError | None = None
    for attempt in range(300):
        with _stopped(pid):
            try:
                history.begin(documents([f"attempt {attempt}"]), trigger())
            except dh.LockedError as refused:
                caught = refused
                if str(pid) in str(refused):
                    return refused
        time.sleep(0.005 + attempt % 7 * 0.003)
    pytest.fail(f"the holder was never named: {caught}")


def test_one_duplicate_waits_for_no_writer(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
    caught = 0
    with _busy_writer(directory) as pid, dh.open(directory, lock_timeout="100 ms") as history:
        for attempt in range(300):
            with _stopped(pid):
                try:
                    history.begin_one(uuid=f"attempt {attempt}", trigger=trigger())
                except dh.LockedError:
                    caught += 1
                    assert history.begin_one(uuid="a", trigger=trigger()).rule == "R9"
            if caught == 3:
                break
            time.sleep(0.005 + attempt % 7 * 0.003)
    assert caught == 3


def test_first_duplicate_of_a_handle_needs_no_lock(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
    (lock,) = directory.glob("triggers/*/turn")
    with lock.open("rb+") as held, dh.open(directory, lock_timeout="100 ms") as history:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert history.begin_one(uuid="a", trigger=trigger()).rule == "R9"
        with pytest.raises(dh.LockedError):
            history.begin_one(uuid="b", trigger=trigger())


def test_one_document_of_a_history_for_reading_is_refused(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
    with dh.open(directory, read_only=True) as history, pytest.raises(dh.ReadOnlyError):
        history.begin_one(uuid="a", trigger=trigger())


def test_classifying_waits_for_nobody(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger()).complete()
    with _busy_writer(directory) as pid, dh.open(directory, read_only=True, lock_timeout="100 ms") as history:
        for _ in range(20):
            with _stopped(pid):
                assert status_of(history, ["a", "b"]) == ["DUPLICATE", "NEW"]
            time.sleep(0.01)
