"""Forked children: a consumer works there, whatever the parent's threads did, and the parent's locks stay its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import dochistory as dh
from tests.store.processes import run, start
from tests.support import documents, status_of, statuses, trigger

FORK = """
    import asyncio, signal, warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of forks with threads
    consumer = dh.Consumer(sys.argv[1], trigger())

    async def one(key):
        async with consumer.one(key) as document:
            return document.status

    async def many(keys):
        return await asyncio.gather(*map(one, keys))

    assert asyncio.run(one("parent")) == "NEW"
    # As if other threads were at work at that moment.
    locks = [consumer._locks(), consumer._tallies()._lock, consumer._tallies()._writing]
    for lock in locks:
        lock.acquire()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        print(asyncio.run(one("parent")), *asyncio.run(many(["child-1", "child-2", "child-1"])), flush=True)
        with consumer.one("child-3") as document:
            assert document.new
        consumer.close()
        os._exit(0)
    for lock in locks:
        lock.release()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    print(asyncio.run(one("child-2")), asyncio.run(one("parent-2")))
    consumer.close()
"""


def test_consumer_of_coroutines_works_in_a_forked_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    directory = tmp_path / "orders.history"
    said = run(FORK, directory)
    # The copy of child-1 meets it at work, or when it has ended.
    assert said[0].removesuffix("IN_DOUBT").removesuffix("DUPLICATE") == "DUPLICATE NEW NEW "
    assert said[1:] == ["DUPLICATE NEW"]
    with dh.open(directory) as history:
        ids = ["parent", "parent-2", "child-1", "child-2", "child-3"]
        assert status_of(history, ids) == ["DUPLICATE"] * 5
    # What the parent had counted at the fork is counted once.
    assert sum(dh.Statistics(directory).counts()["count"].to_pylist()) == 8


DIES_IN_A_CALL = """
    import fcntl, signal
    history = dh.open(sys.argv[1], create=True)
    history.begin(documents(["first"]), trigger()).complete()
    opened = {name: os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")}
    (turn,) = [int(name) for name, path in opened.items() if path.endswith("/turn")]
    fcntl.flock(turn, fcntl.LOCK_EX)  # as within a call
    child = os.fork()
    if child == 0:
        os.close(1), os.close(2)
        history.close()
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_keeps_no_lock_of_a_parent_that_was_killed(directory: Path) -> None:
    killed = start(DIES_IN_A_CALL, directory)
    said, _ = killed.communicate(timeout=60)
    try:
        with dh.open(directory, lock_timeout="1 s") as history:
            assert statuses(history.begin(documents(["first", "second"]), trigger()).verdicts) == ["DUPLICATE", "NEW"]
    finally:
        os.kill(int(said), signal.SIGKILL)


OWN_FILE = """
    import pathlib
    home = pathlib.Path(sys.argv[1])
    (home / "data").mkdir(parents=True)
    (home / "HISTORY").write_text("1.0: the first release")  # the changelog of a program
    (home / "data" / "load-2026.csv").write_text("rows")
    opened = (home / "data" / "load-2026.csv").open()
    child = os.fork()
    if child == 0:
        print(opened.read(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_child_keeps_the_files_of_the_program(tmp_path: Path) -> None:
    assert run(OWN_FILE, tmp_path / "program") == ["rows"]


UNIT = """
    import pyarrow as pa
    def message(ours):
        return pa.table({"id": ["theirs"], "message_id": [ours], "qos": ["EO"]})

    history = dh.open(sys.argv[1], create=True)
    with history.mapper("ids").unit_of_work() as unit:
        print(*statuses(unit.take(message("parent")).verdicts), flush=True)
        child = os.fork()
        if child == 0:
            try:
                with unit:
                    sys.exit()  # leaves the block, as an exception does
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        with dh.open(sys.argv[1], lock_timeout="0.1 s") as other, other.mapper("ids").unit_of_work() as second:
            try:
                print(*statuses(second.take(message("other")).verdicts))
            except dh.LockedError as error:
                print(type(error).__name__)
    print(*history.mapper("ids").lookup(["theirs"])["mapped_id"].to_pylist())
"""


def test_a_child_that_leaves_a_unit_lets_nobody_take_its_ids(tmp_path: Path) -> None:
    assert run(UNIT, tmp_path / "orders.history") == ["NEW", "LockedError", "parent"]


MANY_TRIGGERS = """
    import resource, signal, threading, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    history, triggers = dh.open(sys.argv[1], create=True), [trigger(f"trigger-{number}") for number in range(60)]
    for one in triggers:
        history.begin(documents(["known"]), one).complete()
    is_over = threading.Event()

    def work(number):
        while not is_over.is_set():
            number += 7
            status_of(history, ["known"], of=triggers[number % 60])  # opens files, and closes those of others

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    ended = []
    for number in range(150):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            with dh.open(sys.argv[1], read_only=True) as own:
                os._exit(status_of(own, ["known"], of=triggers[0]) != ["DUPLICATE"])
        ended.append(os.waitpid(child, 0)[1])
        if any(ended):
            break
    is_over.set()
    print(set(ended))
"""


@pytest.mark.slow
def test_a_child_opens_a_history_whatever_its_parent_had_open(directory: Path) -> None:
    assert run(MANY_TRIGGERS, directory) == ["{0}"]
