"""Waits hear the keyboard, and no thread under way at the interpreter's end takes the process down."""

import datetime as dt
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import documents, trigger

ENDS = 20 if os.environ.get("DOCHISTORY_LONG") else 4

HOLDER = """
import fcntl, pathlib, sys, time
files = [open(one, "r+b") for one in pathlib.Path(sys.argv[1]).rglob(sys.argv[2])]
for one in files:
    fcntl.flock(one, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def heard_after(call: Callable[[], object]) -> float:
    """How long after a Ctrl-C the call ends."""
    sent: list[float] = []

    def send() -> None:
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        return time.monotonic() - sent[0]
    finally:
        sender.join()


@pytest.mark.parametrize("what", ["begin", "complete", "load", "purge", "pin", "mapper"])
def test_ctrl_c_is_heard_while_another_writer_is_waited_for(directory: Path, what: str) -> None:
    with dh.open(directory, create=True, lock_timeout="60 s") as history:
        claim = history.begin(documents(["a"]), trigger())
        mapper = history.mapper("orders")
        mapper.create(["a"])
        calls: dict[str, Callable[[], object]] = {
            "begin": lambda: history.begin(documents(["b"]), trigger()),
            "complete": claim.complete,
            "load": lambda: history.load(documents(["b"]), trigger()),
            "purge": lambda: history.purge(trigger(), now=claim.started_at.replace(year=8000), force=True),
            "pin": lambda: history.pin("orders"),
            "mapper": lambda: mapper.create(["c"]),
        }
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(directory), "turn"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdin is not None
            assert holder.stdout.readline() == "held\n"
            try:
                assert heard_after(calls[what]) < 5
            finally:
                holder.stdin.close()
        # The lock that comes too late is given back, and nothing was begun.
        again = history.begin(documents(["b"]), trigger())
        assert again.new.num_rows == 1


EXIT = """
import sys, threading, time
import pyarrow as pa
import dochistory as dh
import uuid

what, path = sys.argv[1:]
history = dh.open(path, create=True)
ids = pa.RecordBatch.from_pydict({"uuid": pa.array([str(uuid.UUID(int=n)) for n in range(50_000)])})
few = pa.RecordBatch.from_pydict({"uuid": pa.array([f"urn:{n}" for n in range(100)])})

def slow(rows):
    end = time.monotonic() + 0.002
    while time.monotonic() < end:
        sum(range(100))
    return ["DUPLICATE"] * rows.num_rows

plain = dh.Trigger("orders")
asking = dh.Trigger("asked", resolver=slow)
history.begin(few, asking)
mapper = history.mapper("orders")
calls = {
    "classify": lambda: history.classify(ids, plain),
    "resolver": lambda: history.classify(few, asking),
    "mapper": lambda: mapper.lookup(few["uuid"]),
    "begin": lambda: history.begin(few, plain).release(),
}
started = threading.Barrier(4)

def loop():
    started.wait()
    while True:
        calls[what]()

for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
started.wait()
time.sleep(0.05)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["classify", "resolver", "mapper", "begin"])
def test_threads_under_way_at_the_end_crash_nothing(directory: Path, what: str) -> None:
    for _ in range(ENDS):
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(EXIT), what, str(directory)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("bad", [b"urn:\xff\xfe", b"\xc3" * 200, b"a\xed\xa0\x80"])
def test_an_id_that_is_no_utf8_is_refused_by_row_and_column(history: dh.History, kind: pa.DataType, bad: bytes) -> None:
    values = [b"good", b"urn:2", bad]
    offsets = pa.py_buffer(np.cumsum([0, *map(len, values)]).astype("i4").tobytes())
    plain = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"".join(values))])
    ids = plain if kind == pa.string() else plain.dictionary_encode()
    batch = pa.RecordBatch.from_arrays([ids], ["uuid"])
    for call in (
        lambda: history.begin(batch, trigger()),
        lambda: history.classify(batch, trigger()),
        lambda: history.complete(ids, trigger()),
        lambda: history.load(batch, trigger()),
    ):
        with pytest.raises(dh.SchemaError, match=r"\[DH-SCHEMA\] row 2 of id column 1 is no text"):
            call()


@pytest.mark.parametrize("year", [1, 998, 9000, 9999])
def test_a_time_that_nothing_could_be_worked_out_from_is_refused(history: dh.History, year: int) -> None:
    zone = dt.timezone(dt.timedelta(hours=-14))
    now = dt.datetime(year, 12, 31, 23, tzinfo=zone)
    for call in (
        lambda: history.begin(documents(["a"]), trigger(), now=now),
        lambda: history.complete(["a"], trigger(), now=now),
        lambda: history.purge(now=now),
    ):
        with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] now is .*1000.*8999"):
            call()
    loaded = documents(["a"], started_at=pa.array([np.datetime64(f"{year:04}-06-01T00:00:00", "us")]))
    with pytest.raises(dh.SchemaError, match=r'"started_at" is .*row 0.*1000.*8999'):
        history.load(loaded, trigger())
    for kept in (1000, 8999):
        history.begin(documents([f"{kept}"]), trigger(), now=dt.datetime(kept, 6, 1, tzinfo=zone))
    assert len(history.entries("orders").read_all()) == 2
    oldest = history.stats("orders")["oldest_started_at"]
    assert oldest is not None
    assert oldest.year == 1000
