"""Mappers and guaranteed delivery in a bucket: what they cost, and what becomes of them when things go wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.delivery.support import header
from tests.delivery.support import messages as parts
from tests.mapper.support import errors, listed, mapped, messages, pending, rules
from tests.objects.conftest import Open
from tests.objects.test_faults import first
from tests.servers.fault_proxy import Fault, FaultProxy
from tests.servers.objects import Server


def test_a_mapper_in_a_bucket_is_one_put_and_one_get_a_change(s3: Server, proxy: FaultProxy, opened: Open) -> None:
    with opened(s3.through(proxy.port), create=True) as history:
        mapper = history.mapper("m")
        mapper.create(["warm"])

        def counted(work: Callable[[], Any]) -> dict[str, int]:
            proxy.reset()
            work()
            return dict(proxy.counts)

        change = {"create": 1, "get": 1}
        assert counted(lambda: mapper.create(["a", "b"], ["1", "2"])) == change
        assert counted(lambda: mapper.update(["a"], ["3"])) == change
        assert counted(lambda: mapper.remove(["b"])) == change
        assert counted(lambda: mapper.lookup(["a", "b"])) == {"get": 2}
        sends: list[dh.MapperSend] = []
        assert counted(lambda: sends.append(mapper.begin_send(messages(["c", "d"])))) == change
        assert counted(lambda: sends[0].complete(["C"], rows=[0])) == change
        # Nobody knows whether it went out: it stays pending.
        assert counted(lambda: sends[0].abort([1])) == {"get": 2}
        assert counted(lambda: mapper.resolve(["d"], "process")) == change
        assert mapped(mapper, ["a", "b", "c", "d"]) == ["3", False, "C", False]


def test_a_poll_in_a_bucket_is_two_puts_and_two_gets(s3: Server, proxy: FaultProxy, opened: Open) -> None:
    with opened(s3.through(proxy.port), create=True) as history:
        inbox = history.delivery("s", start=0)
        proxy.reset()
        poll = inbox.receive(parts([header(0, 1)]))
        assert proxy.counts == {"create": 1, "get": 1}
        poll.commit()
        assert proxy.counts == {"create": 2, "get": 2}


def test_handles_see_each_others_mappings(opened: Open) -> None:
    with opened(create=True) as one, opened() as two:
        first_, second = one.mapper("m"), two.mapper("m")
        send = first_.begin_send(messages(["a", "b"]))
        assert rules(second.begin_send(messages(["a", "c"]))) == ["M3", "M1"]
        send.complete(["A", "B"])
        assert mapped(second, ["a", "b", "c"]) == ["A", "B", False]
        assert pending(first_) == ["c"]
        assert errors(second.create(["a"], ["X"])) == ["EXISTS"]
        assert one.mappers() == two.mappers() == ["m"]
        assert list(two.stats()["mappers"]) == ["m"]


def test_of_units_of_two_handles_the_first_to_commit_wins(opened: Open) -> None:
    incoming = pa.table({"id": ["x", "y"], "message_id": ["o-1", "o-2"]})
    with opened(create=True) as one, opened() as two:
        late, soon = one.mapper("in").unit_of_work(), two.mapper("in").unit_of_work()
        assert rules(late.take(incoming)) == rules(soon.take(incoming)) == ["N2", "N2"]
        soon.commit()
        with pytest.raises(dh.StateError, match=r"^\[DH-STATE\] id .* was mapped by another caller .* nothing of the"):
            late.commit()
        with one.mapper("in").unit_of_work() as again:
            assert rules(again.take(incoming)) == ["N3", "N3"]


def test_units_of_one_handle_wait_for_each_other(opened: Open) -> None:
    incoming = pa.table({"id": ["x"], "message_id": ["o-1"]})
    with opened(create=True) as history:
        mapper, found = history.mapper("in"), []

        def take() -> None:
            with mapper.unit_of_work() as unit:
                found.extend(rules(unit.take(incoming)))

        with mapper.unit_of_work() as unit:
            found += rules(unit.take(incoming))
            other = threading.Thread(target=take)
            other.start()
        other.join()
        assert found == ["N2", "N3"]


@pytest.mark.parametrize("fault", [Fault.ERROR_AFTER, Fault.DROP_AFTER, Fault.LATE, Fault.TWICE], ids=str)
def test_a_change_reported_failed_counts_once(s3: Server, proxy: FaultProxy, opened: Open, fault: Fault) -> None:
    proxy.late = 0.02
    with opened(s3.through(proxy.port), create=True) as history, opened() as other:
        mapper = history.mapper("m")
        mapper.create(["warm"])
        proxy.choose = first(fault)
        send = mapper.begin_send(messages(["a"]))
        assert rules(send) == ["M1"]
        assert rules(other.mapper("m").begin_send(messages(["a"]))) == ["M3"]
        proxy.choose = first(fault)
        send.complete(["A"])
        assert mapped(other.mapper("m"), ["a"]) == ["A"]
        inbox = history.delivery("s", start=0)
        proxy.choose = first(fault, times=2)
        poll = inbox.receive(parts([header(0, 1), header(1, 2)]))
        poll.commit()
        status = other.delivery_status().to_pylist()
        assert [(one["stream"], one["log_received"]) for one in status] == [("s", 2)]


@pytest.mark.slow  # the client tries for some seconds
def test_a_change_nobody_knows_of_is_never_new_again(s3: Server, proxy: FaultProxy, opened: Open) -> None:
    options = {**s3.through(proxy.port), "timeout": "5s"}
    with opened(options, create=True) as history, opened() as other:
        mapper = history.mapper("m")
        mapper.create(["warm"])
        proxy.choose = lambda request: Fault.ERROR_AFTER if request.kind in ("create", "get") else None
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-OBJECTS\]"):
            mapper.begin_send(messages(["a"]))
        proxy.choose = lambda _request: None
        # It was stored: it may have been sent.
        assert rules(other.mapper("m").begin_send(messages(["a"]))) == ["M3"]
        assert rules(mapper.begin_send(messages(["a"]))) == ["M3"]


def test_of_receivers_of_two_handles_one_goes_on(opened: Open) -> None:
    with opened(create=True) as one, opened() as two:
        mine, theirs = one.delivery("s", start=0), two.delivery("s")
        poll = mine.receive(parts([header(0, 1)]))
        with pytest.raises(dh.FencedError, match="another receiver has moved stream"):
            theirs.receive(parts([header(0, 1)]))
        poll.commit()
        [status] = two.delivery_status().to_pylist()
        assert status["log_received"] == 1


def test_a_poll_of_a_lost_process_is_in_doubt(opened: Open, tmp_path: Path) -> None:
    with opened(create=True) as history:
        history.delivery("s", start=0).receive(parts([header(0, 1)]))
    shutil.rmtree(tmp_path / "cache")
    with opened() as history:
        poll = history.delivery("s").receive(parts([header(0, 1)]))
        assert poll.decisions["status"].to_pylist() == ["IN_DOUBT"]
        assert history.delivery("s", log_received=1).receive(parts([header(0, 1)])).decisions["status"].to_pylist() == [
            "DUPLICATE"
        ]


def test_maps_survive_seals_maintenance_and_lost_caches(opened: Open, tmp_path: Path) -> None:
    ids = [f"urn:{number}" for number in range(280)]
    with opened(create=True) as history:
        mapper = history.mapper("m")
        for start in range(0, 280, 2):  # more commits than a log has before it is sealed
            mapper.create(ids[start : start + 2], ids[start : start + 2])
        history.delivery("s", start=7)
        assert {"mapper:m", "delivery:received"} <= set(history.maintain(all=True, grace="0 s"))
        mapper.remove(ids[:10])
    shutil.rmtree(tmp_path / "cache")
    with opened(read_only=True) as history:
        mapper = history.mapper("m")
        assert mapped(mapper, ids) == [False] * 10 + ids[10:]
        assert len(listed(mapper)) == 270
        assert history.verify() > 0
        with pytest.raises(dh.ReadOnlyError):
            mapper.create(["x"])
        with pytest.raises(dh.ReadOnlyError):
            history.delivery("s").receive(parts([header(7, 8)]))


def test_a_lost_file_of_a_mapper_is_an_error(opened: Open, client: Any, tmp_path: Path) -> None:
    with opened(create=True) as history:
        history.mapper("m").create([f"urn:{number}" for number in range(140_000)])
    for one in client.list("mappers/"):
        if "/data-" in one.name:
            client.delete(one.name)
    shutil.rmtree(tmp_path / "cache")
    with opened() as history:
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-MISSING\] .*lifecycle rule"):
            history.mapper("m").lookup(["urn:1"])
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-MISSING\]"):
            history.mapper("m").begin_send(messages(["new"]))


SENDER = """
import json, sys
import dochistory as dh
from tests.mapper.support import messages, rules
url, options, seed = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
history = dh.open(url, storage_options=options)
mapper = history.mapper("m")
for number in range(12):
    ids = [f"m-{(number * (seed + 1) + one) % 12}" for one in range(2)]
    send = mapper.begin_send(messages(ids))
    new = [one for one, rule in zip(ids, rules(send)) if rule == "M1"]
    print(*new, flush=True)
    send.complete([f"{one} by {seed}" for one in new])
"""


@pytest.mark.slow
def test_processes_send_each_message_once(opened: Open, s3: Server, place: str) -> None:
    opened(create=True).close()
    command = [sys.executable, "-c", SENDER, place, json.dumps(dict(s3.options))]
    running = [subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True) for seed in range(3)]
    sent = sorted(one for process in running for one in process.communicate()[0].split())
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sent == sorted(f"m-{number}" for number in range(12))
    with opened() as history:
        found = listed(history.mapper("m"))
        assert sorted(found) == sent
        assert all(value.startswith(f"{one} by ") for one, value in found.items())
