"""Writers that are killed while readers in other processes ask all the time."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dochistory as dh
from tests.store.crash_writer import ids_of
from tests.store.processes import ROOT
from tests.support import status_of, trigger

KILLS = int(os.environ.get("DOCHISTORY_KILLS", "15"))
READERS = 2


def start(module: str, *words: object, out: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, words)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=out,
        bufsize=0,
    )


def listen(writer: subprocess.Popen[bytes], seconds: float, hear: list[str]) -> None:
    """Takes in what a writer says for a while, a line at a time."""
    assert writer.stdout is not None
    end, rest = time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0:
        if select.select([writer.stdout], [], [], left)[0]:
            read = os.read(writer.stdout.fileno(), 1 << 16)
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            hear += [line.decode() for line in lines]
    hear += rest.decode().splitlines() if rest.endswith(b"\n") else []


def told(reader: subprocess.Popen[bytes], line: str) -> None:
    assert reader.stdin is not None
    reader.stdin.write(f"{line}\n".encode())


@pytest.mark.crash
def test_readers_beside_killed_writers_miss_nothing_acknowledged(directory: Path) -> None:
    """Kills writers in the midst of their work; what each said over a pipe is held against every reader."""
    chance = random.Random(KILLS)
    dh.open(directory, create=True).close()
    readers = [start("tests.store.chaos_reader", directory) for _ in range(READERS)]
    acknowledged: list[int] = []
    first = 0
    steady = start("tests.store.crash_writer", directory, 10_000_000, out=subprocess.DEVNULL)
    try:
        for _ in range(KILLS):
            victim = start("tests.store.crash_writer", directory, first)
            heard: list[str] = []
            assert victim.stdout is not None
            select.select([victim.stdout], [], [], 60)  # it has opened the history
            listen(victim, chance.uniform(0.01, 0.12), heard)
            victim.kill()
            heard += victim.stdout.read().decode().splitlines()
            victim.wait()
            for pipe in (victim.stdin, victim.stdout):
                assert pipe is not None
                pipe.close()
            offered = [int(line.split()[1]) for line in heard if line.startswith("offer")]
            ended = {int(line.split()[1]) for line in heard if line.startswith(("releas", "released"))}
            # What was released may be new again; what was begun and not released must be there for ever.
            begun = [int(line.split()[1]) for line in heard if line.startswith("begun")]
            fresh = [number for number in begun if number not in ended]
            for reader in readers:
                for number in fresh:
                    told(reader, f"acknowledged {number}")
            acknowledged += fresh
            first = max(offered, default=first) + 1
        for reader in readers:
            told(reader, "stop")
            assert reader.stdout is not None
            said = reader.stdout.read().decode().split()
            assert said[0] == "checked", said
            assert int(said[1]) > 0
    finally:
        for process in (*readers, steady):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
    assert len(acknowledged) > KILLS // 2
    with dh.open(directory) as history:
        seen = status_of(history, [one for number in acknowledged for one in ids_of(number)], trigger())
        assert "NEW" not in seen
        history.verify()
    print(f"figure: kills survived = {KILLS}")
    print(f"figure: acknowledged batches held against readers = {len(acknowledged)}")
