"""A process is killed at every step of both directions: what the next arrival of the same message gets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dochistory as dh
from tests.mapper.support import mapped, messages, pending, rules
from tests.store.processes import PREAMBLE, ROOT

pytestmark = pytest.mark.crash

# The steps of sending out; `die` ends the process as a kill does, at the step that is named.
RECEIVER = """
import signal
from tests.mapper.support import messages, rules
def die(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
with dh.open(sys.argv[1], create=True) as history:
    mapper = history.mapper("jms", pending=sys.argv[4])
    die("before")
    send = mapper.begin_send(messages(sys.argv[3].split(",")), now=None)
    die("pending")
    for row in send.rows:
        with open(sys.argv[1] + ".outside", "a") as outside:
            outside.write(sys.argv[3].split(",")[row] + "\\n")
        die("sending")
    die("sent")
    send.complete()
    die("mapped")
    with open(sys.argv[1] + ".acknowledged", "a") as source:
        source.write("yes\\n")
    die("acknowledged")
"""

# The steps of taking in.
SENDER = """
import signal
from tests.mapper.support import messages, rules
def die(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
with dh.open(sys.argv[1], create=True) as history:
    mapper = history.mapper("jms")
    die("before")
    with mapper.unit_of_work() as unit:
        die("begun")
        taken = unit.take(messages(sys.argv[3].split(","), message_id=sys.argv[3].split(",")))
        die("taken")
        with open(sys.argv[1] + ".processed", "a") as work:
            work.writelines(sys.argv[3].split(",")[row] + "\\n" for row in taken.rows)
        die("processed")
    die("committed")
    with open(sys.argv[1] + ".acknowledged", "a") as source:
        source.write("yes\\n")
    die("acknowledged")
"""


def killed(script: str, path: Path, step: str, ids: str = "a,b", policy: str = "error") -> None:
    """Run one arrival in a process that dies at a step."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + script, str(path), step, ids, policy],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == (0 if step == "none" else -9), done.stderr.decode()


def outside(path: Path, what: str = "outside") -> list[str]:
    """What the other side got."""
    file = Path(f"{path}.{what}")
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize(
    ("step", "sent", "next_rules"),
    [
        ("before", [], ["M1", "M1"]),
        ("pending", [], ["M3", "M3"]),
        ("sending", ["a"], ["M3", "M3"]),
        ("sent", ["a", "b"], ["M3", "M3"]),
        ("mapped", ["a", "b"], ["M2", "M2"]),
        ("acknowledged", ["a", "b"], ["M2", "M2"]),
        ("none", ["a", "b"], ["M2", "M2"]),
    ],
)
def test_sending_out_killed_at_each_step(path: Path, step: str, sent: list[str], next_rules: list[str]) -> None:
    killed(RECEIVER, path, step)
    assert outside(path) == sent
    with dh.open(path, create=True) as history:
        mapper = history.mapper("jms")
        send = mapper.begin_send(messages(["a", "b"]))
        assert rules(send) == next_rules
        if next_rules[0] == "M3":
            with pytest.raises(dh.PendingMessageError):
                send.raise_pending()
            assert pending(mapper) == ["a", "b"]


@pytest.mark.parametrize("step", ["pending", "sending", "sent"])
def test_administrator_who_looks_gets_each_message_sent_once(path: Path, step: str) -> None:
    killed(RECEIVER, path, step)
    there = outside(path)
    with dh.open(path) as history:
        mapper = history.mapper("jms")
        mapper.resolve([id_ for id_ in pending(mapper) if id_ in there], "duplicate")
        mapper.resolve([id_ for id_ in pending(mapper) if id_ not in there], "process")
    killed(RECEIVER, path, "none")
    killed(RECEIVER, path, "none")
    assert sorted(outside(path)) == ["a", "b"]
    with dh.open(path) as history:
        assert pending(history.mapper("jms")) == []


@pytest.mark.parametrize("policy", ["process", "duplicate"])
def test_the_policy_settles_what_a_kill_left_pending(path: Path, policy: str) -> None:
    killed(RECEIVER, path, "pending")
    killed(RECEIVER, path, "none", policy=policy)
    assert outside(path) == (["a", "b"] if policy == "process" else [])
    killed(RECEIVER, path, "none", policy=policy)
    assert len(outside(path)) == (2 if policy == "process" else 0)


@pytest.mark.parametrize(
    ("step", "next_rules"),
    [
        ("before", ["N2", "N2"]),
        ("begun", ["N2", "N2"]),
        ("taken", ["N2", "N2"]),
        ("processed", ["N2", "N2"]),
        ("committed", ["N3", "N3"]),
        ("acknowledged", ["N3", "N3"]),
        ("none", ["N3", "N3"]),
    ],
)
def test_taking_in_killed_at_each_step(path: Path, step: str, next_rules: list[str]) -> None:
    killed(SENDER, path, step)
    with dh.open(path, create=True) as history:
        mapper = history.mapper("jms")
        with mapper.unit_of_work() as unit:
            assert rules(unit.take(messages(["a", "b"], message_id=["a", "b"]))) == next_rules
        assert mapped(mapper, ["a", "b"]) == ["a", "b"]
