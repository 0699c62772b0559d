"""Receivers are killed at random moments, and run against each other in processes."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dochistory as dh
from tests.delivery.support import column
from tests.store.processes import ROOT, run_together

KILLS = 15


def receive_and_kill(directory: Path, file: Path, mode: str, chance: random.Random) -> list[int]:
    """Lets a receiver work for a moment and kills it; what it confirmed."""
    command = [sys.executable, "-m", "tests.delivery.crash_receiver", str(directory), str(file), mode]
    receiver = subprocess.Popen(
        [*command, str(chance.randrange(1 << 30))], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with receiver:
        assert receiver.stdout is not None
        assert receiver.stderr is not None
        opened = receiver.stdout.readline()
        time.sleep(chance.uniform(0, 0.2))
        still_working = receiver.poll() is None
        receiver.kill()
        said = receiver.stdout.read().splitlines()
        assert still_working, receiver.stderr.read()
        assert opened == "open\n"
    return [int(line.split()[1]) for line in said]


@pytest.mark.crash
@pytest.mark.parametrize("mode", ["recorded", "own"])
def test_killed_receiver_applies_everything_once_and_in_order(history_path: Path, tmp_path: Path, mode: str) -> None:
    chance, file = random.Random(), tmp_path / "applied"
    with dh.open(history_path, create=True) as history:
        history.delivery("s", start=0)
    confirmed = 0
    for _ in range(KILLS):
        said = receive_and_kill(history_path, file, mode, chance)
        assert said == sorted(said)
        confirmed = max([confirmed, *said])
        applied = [int(line) for line in file.read_text().splitlines()] if file.exists() else []
        assert applied == list(range(1, len(applied) + 1)), "in order, none missed, none twice"
        with dh.open(history_path, read_only=True) as history:
            (row,) = history.delivery_status().to_pylist()
        assert confirmed <= row["log_received"] <= len(applied), "confirmed is durable, and durable is applied"
        if mode == "recorded":
            assert len(applied) <= row["applying_upto"], "what was applied was recorded before"
    assert confirmed > KILLS


@pytest.mark.slow
def test_processes_receiving_one_stream_apply_each_message_once(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.delivery("s", start=0)
    found = run_together(
        """
        from tests.delivery.support import header, messages
        with dh.open(sys.argv[1]) as history:
            inbox = history.delivery("s")
            ready()
            for number in range(200):
                try:
                    poll = inbox.receive(messages([header(number, number + 1)]))
                    for row in poll.messages.to_pylist():
                        print(row["dh_commit"], flush=True)
                    poll.commit()
                except dh.FencedError:
                    inbox = history.delivery("s")
                    if inbox.in_doubt().num_rows:
                        # The other one is at work: nobody but it may settle this.
                        time.sleep(0.001)
                except dh.StateError:
                    inbox = history.delivery("s")
        """,
        [[history_path], [history_path], [history_path]],
    )
    applied = [int(line) for lines in found for line in lines]
    assert len(applied) == len(set(applied)), "none twice"
    with dh.open(history_path, read_only=True) as history:
        (reached,) = column(history.delivery_status(), "log_received")
    assert sorted(applied)[: int(reached)] == list(range(1, int(reached) + 1)), "none missed"
    assert reached > 0
