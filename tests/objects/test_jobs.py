"""Pinned states and jobs in a bucket: what Spark's driver and its tasks do there, and what it costs."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory._native import Shards
from tests.delivery.support import header
from tests.objects.conftest import Open
from tests.servers.fault_proxy import Fault, FaultProxy, Request
from tests.servers.objects import Server
from tests.support import documents, fresh_ids, status_of, statuses, trigger


@pytest.fixture
def machine(place: str, s3: Server, proxy: FaultProxy, tmp_path: Path) -> Open:
    """Handles, each on the machine that is named, with a cache of its own."""

    def opened(name: str, **how: Any) -> dh.History:
        return dh.open(place, storage_options=s3.through(proxy.port), cache=tmp_path / name, **how)

    return opened


def spent(proxy: FaultProxy) -> dict[str, int]:
    """The requests since the last time, by their kind."""
    found = dict(proxy.counts)
    proxy.reset()
    return found


def test_requests_of_pins_and_jobs_are_those_of_the_page(machine: Open, proxy: FaultProxy) -> None:
    known, new = fresh_ids(30), fresh_ids(40)
    with machine("driver", create=True) as driver:
        driver.begin(documents(known), trigger()).complete()
        driver.pin(trigger())
        spent(proxy)
        snapshot = driver.pin(trigger())
        assert spent(proxy) == {"create": 1, "get": 4}
        # A worker's first task fetches the one file that there is; the next worker of the machine has it.
        for asked in ({"get": 3}, {"get": 2}):
            with machine("worker", snapshot=snapshot) as worker:
                assert status_of(worker, known) == ["DUPLICATE"] * 30
                assert spent(proxy) == asked
                assert status_of(worker, new) == ["NEW"] * 40
                assert spent(proxy) == {}
        job = driver._shards.reserve(trigger(), 2, prove_later=True)
        assert spent(proxy) == {"create": 2}
        job.prove()
        job.prove()
        assert spent(proxy) == {"get": 1}
        receipts = []
        for part in (0, 1):
            with machine("worker", snapshot=job.snapshot) as worker:
                worker.classify(documents(known), trigger())
                spent(proxy)
                receipts.append(stage(worker, job, part, new[part * 20 :][:20]))
                assert spent(proxy) == {"create": 1}
        claim = job.commit(receipts)
        assert spent(proxy) == {"create": 1, "get": 2 + 2, "delete": 1}
        claim.complete()
        assert spent(proxy) == {"create": 1, "get": 1}
        assert status_of(driver, new) == ["DUPLICATE"] * 40


def test_requests_of_sends_and_shards_are_those_of_the_page(machine: Open, proxy: FaultProxy) -> None:
    streams = dict.fromkeys(("a", "b"), 0)
    with machine("driver", create=True) as driver, machine("worker", read_only=True) as worker:
        for batch in range(3):
            spent(proxy)
            send = driver.mapper("jms").begin_send(pa.table({"id": fresh_ids(3)}), transaction=("app", batch))
            send.complete()
            if batch:
                assert spent(proxy) == {"create": 2, "get": 2}
        inbox = driver.delivery(start=streams)
        for batch in range(4):
            named: Any = {"transaction": ("feed", batch), "on_replay": "in_doubt", "on_other_rows": "error"}
            spent(proxy)
            plan = Shards.plan_delivery(inbox, **named)
            assert spent(proxy) == {"get": 2} or not batch
            receipts = []
            for name in streams:
                arrived = pa.table({"stream": [name], "header": [header(10 * batch, 10 * batch + 10)]})
                receipts.append(worker._shards.decide_delivery(plan, arrived)[1])
                # The first task of a worker process reads the two commits of the batch before.
                assert spent(proxy) == {"get": 7 if name == "a" else 2} or not batch
            poll = Shards.merge_delivery(inbox, plan, receipts, **named)
            poll.commit()
            assert spent(proxy) == {"create": 2, "get": 4} or not batch
        assert driver.delivery_status()["log_received"].to_pylist() == [40, 40]


def stage(worker: dh.History, job: Any, part: int, ids: list[str]) -> bytes:
    """What a task does."""
    staged = worker._shards.stage(documents(ids), trigger(), job=job.token, part=part, attempt=f"a-t{part}")
    assert Counter(statuses(staged.verdicts)) == {"NEW": len(ids)}
    receipt: bytes = staged.receipt
    return receipt


def first_create(fault: Fault) -> Callable[[Request], Fault | None]:
    """The fault of the first object that is created, and none later."""
    left = [fault]
    return lambda request: left.pop() if request.kind == "create" and left else None


def test_a_commit_whose_answer_is_lost_begins_once(machine: Open, proxy: FaultProxy) -> None:
    ids = fresh_ids(20)
    with machine("driver", create=True) as driver:
        driver.begin(documents(["0"]), trigger()).complete()
        for fault in (Fault.DROP_AFTER, Fault.ERROR_AFTER, Fault.TWICE, Fault.DROP_BEFORE):
            job = driver._shards.reserve(trigger(), 1, transaction=("app", 1))
            is_begun = job.replay != "first"
            with machine("worker", snapshot=job.snapshot) as worker:
                staged = worker._shards.stage(documents(ids), trigger(), job=job.token, part=0, attempt="a-t0")
                assert set(statuses(staged.verdicts)) == {"IN_DOUBT" if is_begun else "NEW"}
            proxy.choose = first_create(fault)
            claim = job.commit([staged.receipt])
            proxy.choose = lambda _request: None
            assert len(claim) == (0 if is_begun else 20)
        assert status_of(driver, ids) == ["IN_DOUBT"] * 20


def test_a_driver_killed_before_its_commit_begins_nothing(machine: Open, client: Any) -> None:
    ids = fresh_ids(20)
    with machine("driver", create=True) as driver:
        driver.begin(documents(["0"]), trigger()).complete()
        lost = driver._shards.reserve(trigger(), 1, transaction=("app", 1))
        with machine("worker", snapshot=lost.snapshot) as worker:
            stage(worker, lost, 0, ids)
    # Nobody gives the job up, and another driver runs the batch.
    with machine("other") as driver:
        job = driver._shards.reserve(trigger(), 1, transaction=("app", 1))
        assert job.replay == "first"
        with machine("worker", snapshot=job.snapshot) as worker:
            receipt = stage(worker, job, 0, ids)
        assert len(job.commit([receipt])) == 20
        assert status_of(driver, ids) == ["IN_DOUBT"] * 20
        [pin] = driver.pins(trigger())
        assert pin["snapshot"] == lost.snapshot
        assert any(pin["snapshot"].endswith(one.name.rpartition("/")[2]) for one in client.list())


def test_a_damaged_or_lost_cache_is_fetched_again(machine: Open, tmp_path: Path) -> None:
    ids = fresh_ids(200)
    with machine("driver", create=True) as driver:
        driver.begin(documents(ids), trigger()).complete()
        snapshot = driver.pin(trigger())
    kept = tmp_path / "worker" / "dochistory-objects"
    for turn in range(3):
        with machine("worker", snapshot=snapshot) as worker:
            assert status_of(worker, ids) == ["DUPLICATE"] * 200
        [file] = [one for one in kept.iterdir() if one.stat().st_size > 1000]
        if turn == 0:
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        else:
            shutil.rmtree(kept)


def test_a_snapshot_that_was_let_go_is_refused(machine: Open) -> None:
    with machine("driver", create=True) as driver:
        driver.begin(documents(["1"]), trigger()).complete()
        snapshot = driver.pin(trigger())
        driver.unpin(trigger(), snapshot)
        assert driver.pins(trigger()) == []
        over = pytest.raises(dh.OpenError, match=r"^\[DH-OPEN\] s3://.*/pin-.*this snapshot is over")
        with machine("worker", snapshot=snapshot) as worker, over:
            worker.entries(trigger())
