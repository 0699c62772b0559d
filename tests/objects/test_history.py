"""A history in a bucket serves triggers, from any number of handles; what it does not do yet it refuses."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.objects.test_check import stale
from tests.servers.fault_proxy import Fault, FaultProxy
from tests.servers.objects import Server
from tests.support import documents, fresh_ids, status_of, statuses, trigger

Open = Callable[..., dh.History]


@pytest.fixture
def opened(s3: Server, place: str, tmp_path: Path) -> Open:
    """Handles of the history, each with a replica below `tmp_path/cache`."""

    def made(server: dict[str, Any] | None = None, **options: Any) -> dh.History:
        return dh.open(place, storage_options=server or dict(s3.options), cache=tmp_path / "cache", **options)

    return made


def test_a_trigger_remembers_in_a_bucket(opened: Open) -> None:
    first, second = fresh_ids(100), fresh_ids(100)
    with opened(create=True) as history:
        claim = history.begin(documents(first + second), trigger())
        assert statuses(claim.verdicts) == ["NEW"] * 200
        claim.complete(rows=range(100))
        claim.release(rows=range(150, 200))
    with opened() as history:
        assert status_of(history, first) == ["DUPLICATE"] * 100
        assert status_of(history, second) == ["IN_DOUBT"] * 50 + ["NEW"] * 50
        assert history.begin_one(trigger=trigger(), uuid=first[0]).status == "DUPLICATE"


def test_handles_see_each_others_documents(opened: Open) -> None:
    ids = fresh_ids(30)
    with opened(create=True) as one, opened() as two:
        for start in range(0, 30, 10):
            part = ids[start : start + 10]
            claim = one.begin(documents(part), trigger())
            assert status_of(two, part) == ["IN_DOUBT"] * 10
            claim.complete()
            assert statuses(two.begin(documents(part), trigger()).verdicts) == ["DUPLICATE"] * 10
            one, two = two, one
        assert one.id == two.id


def test_a_large_batch_goes_through_a_segment(opened: Open) -> None:
    ids = pa.array(fresh_ids(140_000))
    with opened(create=True) as history:
        history.begin(pa.record_batch({"uuid": ids}), trigger()).complete()
    with opened() as history:
        found = history.classify(pa.record_batch({"uuid": ids}), trigger())
        assert Counter(statuses(found)) == {"DUPLICATE": 140_000}


def test_purge_and_maintain_work_in_a_bucket(opened: Open) -> None:
    orders = trigger(history_time_to_live="30 days")
    with opened(create=True) as history:
        ids = fresh_ids(500)
        for start in range(0, 500, 10):
            history.begin(documents(ids[start : start + 10]), orders).complete()
        history.maintain(orders)
        assert status_of(history, ids, orders) == ["DUPLICATE"] * 500
        assert history.purge(orders)
    with opened() as history:
        assert history.triggers() == ["orders"]
        assert set(history.maintain(all=True)) == set(history.purge()) == {"orders"}
        assert status_of(history, ids, orders) == ["DUPLICATE"] * 500


def test_an_operation_is_one_put_and_one_get(s3: Server, proxy: FaultProxy, opened: Open) -> None:
    with opened(s3.through(proxy.port), create=True) as history:
        history.begin(documents(["first"]), trigger()).complete()
        proxy.reset()
        claim = history.begin(documents(["0001", "0002", "0003"]), trigger())
        assert proxy.counts == {"create": 1, "get": 1}
        proxy.reset()
        claim.complete(rows=[0])
        assert proxy.counts == {"create": 1, "get": 1}
        proxy.reset()
        claim.release(rows=[1])
        assert proxy.counts == {"create": 1, "get": 1}
        proxy.reset()
        status_of(history, ["0001"])
        assert proxy.counts == {"get": 2}
        proxy.reset()
        time.sleep(0.5)
        assert proxy.counts == {}


REFUSED: dict[str, Callable[[dh.History], Any]] = {
    "path": lambda history: history.path,
    "entries": lambda history: history.entries(trigger()),
    "load": lambda history: history.load(documents(["1"]), trigger()),
    "audit": lambda history: history.begin(documents([None]), trigger(), audit=True),
    "audit log": lambda history: history.audit,
    "pin": lambda history: history.pin(trigger()),
    "verify": lambda history: history.verify(),
    "stats": lambda history: history.stats(),
    "change": lambda history: history.change(trigger()),
    "mapper": lambda history: history.mapper("channel"),
    "delivery": lambda history: history.delivery("s", start=1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_work_in_a_bucket_is_refused(opened: Open, name: str) -> None:
    said = r"^\[DH-STATE\] the history at s3://.* is in a bucket"
    with opened(create=True) as history, pytest.raises(dh.StateError, match=said):
        REFUSED[name](history)


def test_the_history_shows_its_url_and_no_secret(s3: Server, place: str, opened: Open) -> None:
    with opened(create=True) as history:
        assert history.url == place
        assert place in repr(history)
        assert s3.options["aws_secret_access_key"] not in repr(history)


def test_a_history_that_is_not_there_is_not_made(opened: Open, client: Any) -> None:
    with pytest.raises(dh.OpenError, match=r"^\[DH-OPEN\] s3://.*: there is no history here; create=True makes one"):
        opened()
    assert client.list() == []


def test_no_history_is_made_on_a_store_that_lies(s3: Server, proxy: FaultProxy, opened: Open, client: Any) -> None:
    proxy.choose = stale("list")
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-STORE\] s3://.*nothing was made"):
        opened(s3.through(proxy.port), create=True)
    assert client.list() == []


def test_a_bucket_that_is_not_there_is_said_so(s3: Server) -> None:
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-BUCKET\] "):
        dh.open("s3://nothing-there/x", create=True, storage_options=dict(s3.options))


def test_options_of_a_bucket_are_not_for_directories(tmp_path: Path) -> None:
    for options in ({"storage_options": {"aws_region": "x"}}, {"cache": tmp_path}):
        given: dict[str, Any] = options
        with pytest.raises(dh.ConfigError, match="for the URL of a bucket"):
            dh.open(tmp_path / "x", create=True, **given)


def test_the_replica_ends_with_the_last_claim(opened: Open, tmp_path: Path) -> None:
    history = opened(create=True)
    claim = history.begin(documents(["0001"]), trigger())
    history.close()
    assert len(list((tmp_path / "cache").iterdir())) == 2
    claim.complete()
    del claim, history
    assert list((tmp_path / "cache").iterdir()) == []
    with opened() as again:
        assert status_of(again, ["0001"]) == ["DUPLICATE"]


def test_threads_share_commits(s3: Server, proxy: FaultProxy, opened: Open) -> None:
    proxy.latency = 0.02
    with opened(s3.through(proxy.port), create=True) as history:
        history.begin(documents(["first"]), trigger())
        proxy.reset()

        def work(number: int) -> None:
            for turn in range(5):
                history.begin(documents([f"{number}-{turn}"]), trigger()).complete()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert proxy.counts["create"] < 8 * 5 * 2
        assert status_of(history, ["3-4", "7-0"]) == ["DUPLICATE"] * 2


def test_a_store_that_fails_is_never_a_wrong_verdict(s3: Server, proxy: FaultProxy, opened: Open) -> None:
    chance = random.Random(5)
    new: Counter[str] = Counter()
    with opened(create=True) as sound, opened(s3.through(proxy.port)) as history:
        proxy.choose = lambda _request: chance.choice([*Fault]) if chance.random() < 0.1 else None
        for turn in range(40):
            ids = [f"{turn * 2 + n}" for n in range(4)]  # half of them came before
            for handle in (history, sound):
                try:
                    verdicts = handle.begin(documents(ids), trigger()).verdicts
                except dh.ObjectStoreError:
                    continue
                new.update(one for one, status in zip(ids, statuses(verdicts), strict=True) if status == "NEW")
        proxy.choose = lambda _request: None
    assert max(new.values()) == 1
    with opened() as reader:
        assert "NEW" not in status_of(reader, new)


@pytest.mark.crash
@pytest.mark.timeout(600)
def test_killed_processes_and_failing_requests_give_each_id_once(
    s3: Server, place: str, proxy: FaultProxy, opened: Open, tmp_path: Path
) -> None:
    ids, processes, chance = 200, 8, random.Random(17)
    with opened(create=True) as history:
        history.begin(documents(["first"]), trigger()).complete()
    proxy.choose = lambda _request: chance.choice([*Fault]) if chance.random() < 0.1 else None
    options = json.dumps(s3.through(proxy.port))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def started(number: int) -> "subprocess.Popen[bytes]":
        words = [place, options, str(number), str(ids), str(tmp_path / f"told-{number}")]
        return subprocess.Popen([sys.executable, "-m", "tests.objects.claimer", *words], env=environment)

    running = {number: started(number) for number in range(processes)}
    for victim in range(processes, processes + 6):
        time.sleep(chance.uniform(1.0, 3.0))
        number = chance.choice(list(running))
        running[number].kill()
        running.pop(number).wait()
        running[victim] = started(victim)
    for process in running.values():
        assert process.wait(300) == 0
    proxy.choose = lambda _request: None

    told = [line.split() for path in tmp_path.glob("told-*") for line in path.read_text().splitlines()]
    new = Counter(line[1] for line in told if line[0] == "new")
    completed = {line[1] for line in told if line[0] == "completed"}
    assert len(new) > ids // 2
    assert {one: count for one, count in new.items() if count > 1} == {}
    assert {line[1] for line in told if line[0] == "error"} <= {"[DH-OBJECTS]", "[DH-LOCKED]", "[DH-FAILED]"}
    with opened() as reader:
        assert set(status_of(reader, completed)) == {"DUPLICATE"}
        assert "NEW" not in status_of(reader, new)
