"""Threads share a history, work while others hold Python, and a forked process is told to open its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.store.processes import ROOT, run
from tests.support import documents, fresh_ids, status_of, statuses, trigger


def ticks_meanwhile(work: Callable[[], object]) -> int:
    """How often another thread came to run Python while `work` ran once."""
    stop = threading.Event()
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0)

    other = threading.Thread(target=tick)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)  # A thread that holds Python is never made to give it up.
    try:
        other.start()
        while ticks == 0:
            time.sleep(0.001)
        before = ticks
        work()
        return ticks - before
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        other.join()


def test_other_threads_run_python_while_documents_are_judged(history: dh.History) -> None:
    batch = documents(fresh_ids(20_000) * 10)
    assert ticks_meanwhile(lambda: history.classify(batch, trigger())) > 10


def test_other_threads_run_python_while_documents_are_begun(history: dh.History) -> None:
    batch = documents(fresh_ids(20_000) * 10)
    assert ticks_meanwhile(lambda: history.begin(batch, trigger()).complete()) > 10


def test_one_handle_serves_many_threads(history: dh.History) -> None:
    ids = fresh_ids(500)
    history.begin(documents(ids[:250]), trigger()).complete()

    def work(_: int) -> list[str | None]:
        return status_of(history, ids)

    with ThreadPoolExecutor(8) as pool:
        assert set(map(tuple, pool.map(work, range(40)))) == {("DUPLICATE",) * 250 + ("NEW",) * 250}


def test_a_claim_may_be_ended_by_other_threads(history: dh.History) -> None:
    ids = fresh_ids(64)
    claim = history.begin(documents(ids), trigger())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: claim.complete(rows=[row]), range(64)))
        list(pool.map(lambda _: claim.complete(), range(8)))
    assert set(status_of(history, ids)) == {"DUPLICATE"}


def test_closing_waits_for_nobody_and_breaks_nothing_under_way(directory: Path) -> None:
    history = dh.open(directory, create=True)
    entered, leave = threading.Event(), threading.Event()

    def slow(batch: pa.RecordBatch) -> list[str]:
        entered.set()
        leave.wait(30)
        return ["DUPLICATE"] * batch.num_rows

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(history.classify, documents([None]), trigger(resolver=slow))
        assert entered.wait(30)
        history.close()
        assert history.closed
        with pytest.raises(dh.StateError):
            history.classify(documents(["a"]), trigger())
        leave.set()
        assert statuses(asked.result(30)) == ["DUPLICATE"]


def test_resolvers_of_several_threads_run_at_once(history: dh.History) -> None:
    meeting = threading.Barrier(3, timeout=30)

    def meet(batch: pa.RecordBatch) -> list[str]:
        meeting.wait()
        return ["DUPLICATE"] * batch.num_rows

    asks = trigger(resolver=meet)
    with ThreadPoolExecutor(3) as pool:
        verdicts = pool.map(lambda _: statuses(history.classify(documents([None]), asks)), range(3))
        assert list(verdicts) == [["DUPLICATE"]] * 3


def test_threads_of_one_call_change_no_verdict(history: dh.History) -> None:
    ids = fresh_ids(150_000)
    history.begin(documents(ids[::3]), trigger()).complete()
    batch = documents(ids + ids[:1000])
    alone = history.classify(batch, trigger())
    for threads in (2, 3, 8):
        assert history.classify(batch, trigger(), threads=threads).equals(alone)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_invalid_number_of_threads_is_refused(history: dh.History, threads: Any) -> None:
    with pytest.raises((dh.ConfigError, TypeError, OverflowError)):
        history.classify(documents(["a"]), trigger(), threads=threads)


FORK = """
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of forks with threads
    history = dh.open(sys.argv[1], create=True)
    claim = history.begin(documents(["a", "b"]), trigger())
    one = history.begin_one(uuid="c", trigger=trigger())
    entries = history.entries(trigger())
    child = os.fork()
    if child == 0:
        uses = {
            "classify": lambda: history.classify(documents(["a"]), trigger()),
            "begin": lambda: history.begin(documents(["a"]), trigger()),
            "complete": lambda: history.complete(["a"], trigger()),
            "stats": lambda: history.stats(),
            "claim": claim.complete,
            "one": one.release,
        }
        for name, use in uses.items():
            try:
                use()
            except dh.ForkedError as refused:
                assert str(refused).startswith("[DH-FORKED]"), refused
            else:
                os._exit(2)
        try:
            entries.read_all()
        except Exception as refused:
            assert "DH-FORKED" in str(refused), refused
        else:
            os._exit(3)
        history.close()
        with dh.open(sys.argv[1]) as own:
            own.complete(["b"], trigger())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    claim.complete(rows=[0])
    print(*status_of(history, ["a", "b", "c"]))
"""


def test_a_forked_process_is_told_to_open_its_own(directory: Path) -> None:
    assert run(FORK, directory) == ["DUPLICATE DUPLICATE IN_DOUBT"]


INTERRUPT = """
    import sys, time, dochistory as dh
    from tests.support import documents, entries, trigger

    def slow(batch):
        print("asked", flush=True)
        time.sleep(60)

    history = dh.open(sys.argv[1], create=True)
    try:
        history.begin(documents([None, "a"]), trigger(resolver=slow))
    except KeyboardInterrupt:
        print("interrupted", len(entries(history, trigger())))
"""


def test_interrupt_in_a_resolver_ends_the_call_unbegun(directory: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPT), str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "interrupted 0\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_passes_through_a_resolver(history: dh.History, error: type[BaseException]) -> None:
    def resolve(_: pa.RecordBatch) -> Any:
        raise error

    for call in (history.classify, history.begin):
        with pytest.raises(error):
            call(documents([None, "a"]), trigger(resolver=resolve))
    assert status_of(history, ["a"]) == ["NEW"]
