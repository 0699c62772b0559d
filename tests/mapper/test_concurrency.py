"""Several at once: threads and processes on one mapper."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

import dochistory as dh
from tests.mapper.support import mapped, messages, rules
from tests.store.processes import run, run_together

PROCESSES = 4
ROUNDS = 25


def test_processes_sending_one_id_get_it_as_new_once(path: Path) -> None:
    script = f"""
    from tests.mapper.support import messages, rules
    with dh.open(sys.argv[1]) as history:
        mapper = history.mapper("out")
        ready()
        for number in range({ROUNDS}):
            print(*rules(mapper.begin_send(messages([f"m-{{number}}", "urn:" + "x" * 200 + str(number)]))))
    """
    dh.open(path, create=True).close()
    said = run_together(script, [(path,)] * PROCESSES)
    for lines in zip(*said, strict=True):
        assert Counter(lines) == {"M1 M1": 1, "M3 M3": PROCESSES - 1}


@pytest.mark.slow
def test_processes_taking_one_id_get_it_as_new_once(path: Path) -> None:
    script = f"""
    from tests.mapper.support import messages, rules
    with dh.open(sys.argv[1]) as history:
        mapper = history.mapper("in")
        ready()
        for number in range({ROUNDS}):
            with mapper.unit_of_work() as unit:
                print(*rules(unit.take(messages([f"m-{{number}}"], message_id=[sys.argv[2]]))))
    """
    dh.open(path, create=True).close()
    said = run_together(script, [(path, number) for number in range(PROCESSES)])
    for lines in zip(*said, strict=True):
        assert Counter(lines) == {"N2": 1, "N3": PROCESSES - 1}
    winners = [next(by for by in range(PROCESSES) if said[by][number] == "N2") for number in range(ROUNDS)]
    with dh.open(path) as history:
        ids = [f"m-{number}" for number in range(ROUNDS)]
        assert mapped(history.mapper("in"), ids) == [str(winner) for winner in winners]


@pytest.mark.parametrize("commits", [True, False])
def test_who_takes_an_id_of_an_open_unit_waits_for_its_end(mapper: dh.MessageIdMapper, commits: bool) -> None:
    first = mapper.unit_of_work()
    first.take(messages(["a"], message_id=["first"]))
    seen: list[str] = []

    def second() -> None:
        with mapper.unit_of_work() as unit:
            seen.extend(rules(unit.take(messages(["a"], message_id=["second"]))))

    thread = threading.Thread(target=second)
    thread.start()
    thread.join(0.2)
    assert seen == []
    if commits:
        first.commit()
    else:
        first.roll_back()
    thread.join()
    assert seen == ["N3" if commits else "N2"]
    assert mapped(mapper, ["a"]) == ["first" if commits else "second"]


def test_wait_for_a_unit_beyond_the_timeout_is_an_error(path: Path) -> None:
    with dh.open(path, create=True, lock_timeout="50 ms") as history:
        mapper = history.mapper("in")
        unit = mapper.unit_of_work()
        unit.take(messages(["a"]))
        with (
            pytest.raises(dh.LockedError, match=r"take-\d\d.*process .* since .*one 16th of all ids until"),
            mapper.unit_of_work() as other,
        ):
            other.take(messages(["a"]))
        mapper.create(["b"], ["a unit keeps nobody else from writing"])
        unit.commit()
    assert dh.open(path).mapper("in").lookup(["a", "b"])["found"].to_pylist() == [True, True]


def test_unit_of_a_killed_process_leaves_and_blocks_nothing(path: Path) -> None:
    script = """
    import signal
    from tests.mapper.support import messages
    with dh.open(sys.argv[1], create=True) as history:
        unit = history.mapper("in").unit_of_work()
        unit.take(messages(["a"], message_id=["lost"]))
        print("taken", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with pytest.raises(AssertionError):
        run(script, path)
    with dh.open(path, lock_timeout="10 s") as history, history.mapper("in").unit_of_work() as unit:
        assert rules(unit.take(messages(["a"], message_id=["found"]))) == ["N2"]


def test_threads_share_a_mapper(mapper: dh.MessageIdMapper) -> None:
    won: list[int] = []

    def work(by: int) -> None:
        for number in range(40):
            send = mapper.begin_send(messages([f"m-{number}"]))
            if send.rows:
                send.complete([f"by-{by}"])
                won.append(number)

    threads = [threading.Thread(target=work, args=(by,)) for by in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(40))
    assert mapper.lookup([f"m-{number}" for number in range(40)])["pending"].true_count == 0
