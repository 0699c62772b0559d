"""A history in a bucket serves triggers, from any number of handles; what it does not do yet it refuses."""

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.objects.conftest import Open
from tests.objects.test_check import stale
from tests.servers.fault_proxy import Fault, FaultProxy
from tests.servers.objects import Server
from tests.support import documents, fresh_ids, status_of, statuses, trigger


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


def test_entries_and_figures_are_those_of_the_bucket(opened: Open, place: str) -> None:
    ids = fresh_ids(20)
    with opened(create=True) as history:
        history.begin(documents(ids[:12]), trigger()).complete()
        history.begin(documents(ids[12:]), trigger())
    with opened(read_only=True) as history:
        entries = history.entries(trigger()).read_all().to_pylist()
        found = {entry["key"]: entry["status"] for entry in entries}
        assert found == {one: "completed" if one in ids[:12] else "processing" for one in ids}
        figures = history.stats()
        assert str(figures["path"]) == place
        assert figures["triggers"]["orders"]["log_entries"] == 20
        with pytest.raises(dh.ReadOnlyError) as raised:
            history.begin(documents(["1"]), trigger())
        assert str(raised.value) == f"[DH-READ-ONLY] the history at {place} was opened read-only"


def test_a_load_lies_in_the_bucket_whole(opened: Open) -> None:
    ids = fresh_ids(5000)
    with opened(create=True) as history:
        assert history.load(documents(ids), trigger()) == 5000
        assert history.load(documents(ids), trigger()) == 5000
    with opened() as history:
        assert Counter(status_of(history, ids)) == {"DUPLICATE": 5000}
        assert history.maintain(trigger(), all=True)["orders"]["rolled_up"] == 5000
    with opened() as history:
        assert Counter(status_of(history, ids)) == {"DUPLICATE": 5000}
        assert history.stats(trigger())["filters"] == 1


def test_a_changed_time_to_live_counts_for_all_handles(opened: Open) -> None:
    week, day = trigger(history_time_to_live="7 days"), trigger(history_time_to_live="1 day")
    with opened(create=True) as one, opened() as other:
        one.begin(documents(["1"]), week).complete()
        assert other.change(day) == timedelta(days=7)
        with pytest.raises(dh.ConfigError, match="history_time_to_live of 1 day"):
            one.begin(documents(["2"]), week)
        assert status_of(one, ["1"], day) == ["DUPLICATE"]


def test_verify_finds_an_object_that_is_gone_or_damaged(opened: Open, client: Any, place: str, tmp_path: Path) -> None:
    with opened(create=True) as history:
        history.load(documents(fresh_ids(1000)), trigger())
        assert history.verify() > 10_000
        [segment] = [one.name for one in client.list() if "segment" in one.name]
        content = client.get(segment)
        client.put(segment, content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(dh.CorruptError, match=rf"^\[DH-CORRUPT\] {place}/{segment}"):
            history.verify()
        client.delete(segment)
        with pytest.raises(
            dh.ObjectStoreError, match=rf"^\[DH-MISSING\] cannot find {place}/{segment}.*lifecycle rule"
        ):
            history.verify()
    shutil.rmtree(tmp_path / "cache")
    with opened() as history, pytest.raises(dh.ObjectStoreError, match=r"^\[DH-MISSING\] .*lifecycle rule"):
        status_of(history, ["1"])
    client.put(segment, content)
    with opened() as history:
        assert history.verify() > 10_000


def test_a_cache_serves_the_next_handle_and_heals(s3: Server, proxy: FaultProxy, opened: Open, tmp_path: Path) -> None:
    ids, server = fresh_ids(20_000), s3.through(proxy.port)
    now = datetime.now(UTC)
    with opened(create=True) as history:
        history.load(documents(ids, started_at=[now] * len(ids)), trigger())
    [kept] = [one for one in (tmp_path / "cache" / "dochistory-objects").iterdir() if one.suffix != ".lock"]
    size = kept.stat().st_size
    for damage in (False, True):
        if damage:
            kept.write_bytes(b"x" * size)
        proxy.reset()
        with opened(server) as history:
            assert Counter(status_of(history, ids)) == {"DUPLICATE": 20_000}
        assert proxy.bytes_out > size if damage else proxy.bytes_out < size
    with opened(cache_bytes=0) as history:
        # What is kept is compacted only with what is in the same five minutes.
        history.load(documents(fresh_ids(1), started_at=[now]), trigger())
        history.maintain(all=True)
        assert Counter(status_of(history, ids)) == {"DUPLICATE": 20_000}
    with opened(cache_bytes=0) as history:
        history.load(documents(fresh_ids(1)), trigger())
    assert not kept.exists()


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
    assert len(list((tmp_path / "cache").glob("dochistory-replica-*"))) == 2
    claim.complete()
    del claim, history
    assert list((tmp_path / "cache").glob("dochistory-replica-*")) == []
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


@pytest.mark.slow
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
    assert {line[1] for line in told if line[0] == "error"} <= {"[DH-OBJECTS]", "[DH-LOCKED]"}
    assert ["collected"] in told
    with opened() as reader:
        assert set(status_of(reader, completed)) == {"DUPLICATE"}
        assert "NEW" not in status_of(reader, new)
