"""The audit log of a bucket: lost objects are missed, killed and slow processes lose nothing and run nothing twice.

`tests/ops/test_audit.py` runs what is the same as in a directory.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import objects
from dochistory.audit import AuditLog, bucket, chain, manifest
from tests.bucket_fixtures import identity, store
from tests.objects.conftest import Open
from tests.servers.fault_proxy import Choose, Fault, FaultProxy, Request
from tests.servers.objects import Server
from tests.store.processes import ROOT, run_together
from tests.support import documents, status_of, trigger

__all__ = ["identity", "store"]


@pytest.fixture
def client(s3: Server, place: str) -> objects.ObjectClient:
    """A client that waits for nobody."""
    return objects.open_client(place, s3.options)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two manifests."""
    monkeypatch.setattr(chain, "_BLOCK", 2)


@pytest.fixture
def history(opened: Open) -> Iterator[dh.History]:
    """A log with documents 1 to 3 in two files, of which 1 is to be processed and 2 was resubmitted."""
    with opened(create=True) as made:
        made.begin(documents(["a", "b", "c"]), trigger())
        made.begin(documents(["a", "b"]), trigger(), audit=True)
        made.begin(documents(["c"]), trigger(), audit=True)
        made.audit.resolve([1], "process")
        with made.audit.resubmit(trigger(), [2]):
            pass
        yield made


def states(history: dh.History) -> list[str]:
    found: list[str] = history.audit.list()["state"].to_pylist()
    return found


def files(client: objects.ObjectClient, kind: str) -> list[str]:
    return sorted(one.name for one in client.list("audit/") if kind in one.name)


def test_every_object_that_is_gone_is_missed_by_name(history: dh.History, opened: Open, client: Any) -> None:
    names = files(client, ".parquet")
    assert len(names) == 5
    for name in names:
        content = client.get(name)
        client.delete(name)
        with opened() as fresh:
            for look in (fresh.audit.list, fresh.audit.verify, fresh.verify):
                with pytest.raises(dh.CorruptError, match=rf"{name}: the file is lost"):
                    look()
        client.put(name, content)
    assert history.verify() > 0


def test_a_damaged_object_is_found_and_repaired(history: dh.History, s3: Server, place: str, client: Any) -> None:
    (name, _) = files(client, "kept")
    content = client.get(name)
    client.put(name, content[:100] + bytes([content[100] ^ 0xFF]) + content[101:])
    with pytest.raises(dh.CorruptError, match=name):
        history.verify()
    planned = dh.repair(place, storage_options=dict(s3.options))
    assert [one["documents"] for one in planned["findings"]] == [[(1, 2)]]
    assert not planned["repaired"]
    done = dh.repair(place, apply=True, storage_options=dict(s3.options))
    assert done["repaired"]
    assert str(done["audit_kept_in"]).startswith(f"{place}/repaired-")
    kept = client.list(str(done["audit_kept_in"]).removeprefix(f"{place}/"))
    assert [one.size for one in kept] == [len(content)]
    assert history.audit.list()["number"].to_pylist() == [3]
    assert dh.repair(place, storage_options=dict(s3.options))["findings"] == []
    assert history.verify() > 0


def test_of_a_lost_decision_documents_wait_for_another(
    history: dh.History, s3: Server, place: str, client: Any
) -> None:
    client.delete(files(client, "decided")[0])
    assert dh.repair(place, apply=True, storage_options=dict(s3.options))["repaired"]
    assert states(history) == ["cut_off", "resubmitted", "open"]


@pytest.mark.parametrize("kind", ["manifest", "gate"])
def test_lost_manifests_and_gates_are_errors(
    history: dh.History, opened: Open, s3: Server, place: str, client: Any, kind: str
) -> None:
    for name in files(client, kind):
        client.delete(name)
    with opened() as fresh:
        for look in (fresh.audit.list, fresh.verify, lambda: fresh.begin(documents(["c"]), trigger(), audit=True)):
            with pytest.raises(dh.CorruptError, match=r"^\[DH-CORRUPT\] .*(is missing|is lost)"):
                look()
    (found,) = dh.repair(place, apply=True, storage_options=dict(s3.options))["findings"]
    assert (found["remedy"], found["dropped_entries"]) == ("impossible", None)
    assert history.audit is not None


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 4])
def test_a_handle_keeps_nothing_in_another_log_at_its_place(
    history: dh.History,
    opened: Open,
    s3: Server,
    place: str,
    client: Any,
    tmp_path: Path,
    *,
    is_restored: bool,
    kept: int,
) -> None:
    # It may have more manifests, so that its next one would leave a gap, or fewer.
    verdicts = history.classify(documents(["a"]), trigger())
    dh.backup(place, tmp_path / "copy", storage_options=dict(s3.options))
    for _ in range(kept):
        history.audit.keep(documents(["a"]), verdicts, trigger())
    for stored in client.list():
        client.delete(stored.name)
    if is_restored:
        dh.backup(tmp_path / "copy", place, storage_options=dict(s3.options))
    with opened(create=not is_restored) as new:
        new.audit.keep(documents(["a"]), verdicts, trigger())
        before = (states(new), files(client, ""))
        for call in (
            lambda: history.audit.keep(documents(["a"]), verdicts, trigger()),
            history.audit.list,
        ):
            with pytest.raises(dh.FencedError, match=r"^\[DH-FENCED\] .*another audit log was put in the place"):
                call()
        assert (states(new), files(client, "")) == before
        new.audit.keep(documents(["a"]), verdicts, trigger())
    with opened() as late:
        assert len(states(late)) == len(before[0]) + 1


@pytest.mark.usefixtures("short_blocks")
def test_old_gates_are_believed_and_damaged_ones_are_not(history: dh.History, opened: Open, client: Any) -> None:
    verdicts = history.classify(documents(["a"]), trigger())
    for gate in files(client, "gate"):
        client.put(gate, b"open")
    with opened() as later:
        for _ in range(5):
            later.audit.keep(documents(["a"]), verdicts, trigger())
        newest = files(client, "gate")[-1]
        content = client.get(newest)
        client.put(newest, content.replace(b"open ", b"open 0")[: len(content)])
        with pytest.raises(dh.CorruptError, match=r"neither open nor closed"):
            later.audit.list()
        client.put(newest, content)
        assert len(states(later)) == 8


@pytest.mark.usefixtures("history")
def test_what_a_handle_could_not_prove_is_no_gap_in_another_log(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    old = chain.Chain(client)
    known = old.newest()
    assert known is not None
    for name in (*files(client, ""), chain.KNOWN):
        client.delete(name)
    new = chain.Chain(client).publish(manifest.Manifest("new", 0, 0, 0, ()))
    get = client.get

    def unanswered(name: str) -> Any:
        if "gate-" in name:
            raise dh.ObjectStoreError("[DH-OBJECTS] no answer")
        return get(name)

    with monkeypatch.context() as patched:
        patched.setattr(client, "get", unanswered)
        with pytest.raises(dh.ObjectStoreError):
            old.publish(known)
    with pytest.raises(dh.FencedError):
        old.newest()
    assert chain.Chain(client).newest() == new


@pytest.mark.usefixtures("short_blocks", "history")
def test_an_old_gate_is_no_other_logs_than_a_later_one(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for gate in files(client, "gate"):
        client.put(gate, b"open")
    log, other = chain.Chain(client), chain.Chain(client)
    newest = log.newest()
    assert newest is not None
    while newest.number % 2:
        newest = log.publish(newest)
    number, is_genuine = newest.number, log._is_genuine  # noqa: SLF001

    def overtaken(asked: int) -> bool:
        # The next manifest is there, which another thread reads, and on which another process builds.
        if client.get(f"audit/{chain.manifest_name(number + 1)}") is not None:
            monkeypatch.undo()
            monkeypatch.setattr(chain, "_BLOCK", 2)
            found = log.newest()
            assert found is not None
            other.publish(found)
        return is_genuine(asked)

    monkeypatch.setattr(log, "_is_genuine", overtaken)
    assert log.publish(newest).number == number + 1
    last = chain.Chain(client).newest()
    assert last is not None
    assert last.number == number + 2


def test_requests_of_an_audit_log_are_counted(opened: Open, s3: Server, proxy: FaultProxy) -> None:
    with opened(create=True) as made:
        made.begin(documents(["a", "b"]), trigger()).complete(rows=[])
        made.begin(documents(["a"]), trigger(), audit=True)
    with opened(s3.through(proxy.port)) as history:
        verdicts = history.classify(documents(["b"]), trigger())
        history.audit.keep(documents(["b"]), verdicts, trigger())
        proxy.reset()
        history.audit.keep(documents(["b"]), verdicts, trigger())
        assert proxy.counts == {"put": 1, "create": 1, "get": 1}
        proxy.reset()
        history.audit.list()
        assert proxy.counts == {"get": 3}, "the next manifest, the gate, and the file that another handle kept"
        proxy.reset()
        history.audit.list()
        assert proxy.counts == {"get": 2}
        history.begin(documents(["first"]), trigger()).complete()
        proxy.reset()
        history.begin(documents(["new"]), trigger(), audit=True).complete()
        assert proxy.counts == {"create": 2, "get": 2}, "nothing is in doubt, so nothing is asked of the log"
        kinds: Counter[str] = Counter()
        proxy.choose = lambda request: kinds.update([request.kind] if "audit" in request.target else [])
        with history.audit.resubmit(trigger(), [1]):
            pass
        assert kinds == {"put": 3, "create": 2, "get": 10, "list": 1, "delete": 1}


@pytest.mark.slow
def test_several_processes_keep_at_once_and_lose_nothing(opened: Open, s3: Server, place: str, client: Any) -> None:
    opened(create=True).close()
    script = """
    import json
    with dh.open(sys.argv[1], storage_options=json.loads(sys.argv[2])) as history:
        doubtful = trigger(without_ids="in_doubt")
        verdicts = history.classify(documents([None, None]), doubtful)
        ready()
        for _ in range(15):
            print(*history.audit.keep(documents([None, None]), verdicts, doubtful))
    """
    told = run_together(script, [[place, json.dumps(dict(s3.options))]] * 4)
    numbers = sorted(int(number) for lines in told for line in lines if line != "ready" for number in line.split())
    assert numbers == list(range(1, 121))
    with opened() as history:
        assert history.audit.list()["number"].to_pylist() == numbers
        assert history.audit.verify() > 0
        # Files of two documents were put together, and nothing is left of what lost a race.
        history.audit.compact()
        assert history.audit.list()["number"].to_pylist() == numbers
    assert len(files(client, "kept")) < 32


def sometimes(seed: int) -> Choose:
    import random

    chance = random.Random(seed)

    def choose(request: Request) -> Fault | None:
        return chance.choice([*Fault]) if "/audit/" in request.target and chance.random() < 0.2 else None

    return choose


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_failed_requests_lose_and_run_nothing_twice(opened: Open, s3: Server, proxy: FaultProxy, seed: int) -> None:
    keys = [f"key-{number}" for number in range(8)]
    with opened(create=True) as made:
        made.begin(documents(keys), trigger())
    proxy.late, proxy.choose = 0.02, sometimes(seed)
    ran: list[str] = []
    with opened(s3.through(proxy.port)) as history:
        verdicts = {key: history.classify(documents([key]), trigger()) for key in keys}
        for key in keys:
            eventually_kept(history, key, verdicts[key])
        for number in history.audit.list()["number"].to_pylist():
            try:
                with history.audit.resubmit(trigger(), [number]) as again:
                    ran += again.entries["key"].to_pylist()
            except (dh.StorageError, dh.StateError):
                continue
    proxy.choose = lambda _request: None
    assert len(set(ran)) == len(ran)
    with opened() as history:
        assert set(history.audit.list()["key"].to_pylist()) == set(keys)
        by_state = dict(zip(history.audit.list()["key"].to_pylist(), states(history), strict=True))
        assert all(by_state[key] in ("resubmitted", "cut_off", "resubmitting", "duplicate") for key in ran)
        assert history.audit.verify() > 0


def eventually_kept(history: dh.History, key: str, verdicts: Any) -> None:
    for _ in range(20):
        try:
            assert len(history.audit.keep(documents([key]), verdicts, trigger())) == 1
        except dh.ObjectStoreError:
            continue
        return
    raise AssertionError


@pytest.mark.slow
def test_resubmitters_without_leases_run_nothing_twice(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "LEASE_S", -1.0)  # every turn is lost at once
    keys = [f"key-{number}" for number in range(6)]
    ran: list[str] = []
    lock = threading.Lock()

    def act(handle: dh.History) -> None:
        for number in range(1, len(keys) + 1):
            try:
                with handle.audit.resubmit(trigger(), [number]) as again, lock:
                    ran.extend(again.entries["key"].to_pylist())
            except (dh.LockedError, dh.StateError, dh.TransactionError):
                continue

    with opened(create=True) as one, opened() as two, opened() as three:
        one.begin(documents(keys), trigger())
        one.begin(documents(keys), trigger(), audit=True)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(act, [one, two, three]))
        assert len(set(ran)) == len(ran)
        left = [key for key, status in zip(keys, status_of(one, keys), strict=True) if status == "IN_DOUBT"]
        assert set(ran) | set(left) == set(keys)
        assert set(states(one)) <= {"resubmitted", "cut_off", "open", "duplicate"}


def test_who_was_overtaken_between_plan_and_claim_gets_nothing(
    history: dh.History, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "LEASE_S", -1.0)

    class Slow:
        """A history whose claims begin after another process settled the plan."""

        def begin(self, *arguments: Any, **named: Any) -> dh.Claim:
            with opened() as other:
                other.audit.resolve([3], "process")
            return history.begin(*arguments, **named)

        def __getattr__(self, name: str) -> Any:
            return getattr(history, name)

    slow: Any = Slow()
    with pytest.raises(dh.LockedError, match="nothing was handed out"):
        AuditLog(slow).resubmit(trigger(), [1])
    assert states(history) == ["cut_off", "resubmitted", "process"]
    with pytest.raises(dh.StateError, match="interrupted"):
        history.audit.resubmit(trigger(), [1])
    history.audit.resolve([1], "process")
    with history.audit.resubmit(trigger()) as again:
        assert sorted(again.documents["uuid"].to_pylist()) == ["a", "c"]


@pytest.mark.slow
def test_a_turn_that_is_renewed_is_not_taken_away(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "LEASE_S", 4.0)
    monkeypatch.setattr(bucket, "_RENEWED_S", 0.2)
    with bucket.Turn(client, "orders", 0.1):
        with pytest.raises(dh.LockedError, match="held by process"):
            bucket.Turn(client, "orders", 6.0).take()
        with bucket.Turn(client, "bills", 0.1):
            pass
    with bucket.Turn(client, "orders", 0.1) as left:
        left.let_go()  # as if its process had died
    assert bucket.Turn(client, "orders", 0.0).is_taken()
    with bucket.Turn(client, "orders", 30.0):
        assert len(client.list("audit/turn-orders-")) == 1
    assert client.list("audit/turn-") == []


@pytest.mark.parametrize("minutes", [-60, 11, 60])
def test_a_turn_is_over_by_the_clock_of_the_store(client: Any, monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + minutes * 60)
    turn = bucket.Turn(client, "orders", 0.0)
    assert not turn.is_taken()
    with turn:
        assert bucket.Turn(client, "orders", 0.0).is_taken()
        monkeypatch.setattr(bucket, "LEASE_S", -2.0)  # as if it had not been renewed for long
        assert not bucket.Turn(client, "orders", 0.0).is_taken()


def acted(what: str, url: str, options: Any, steps: int, out: Path) -> bool:
    command = [sys.executable, "-m", "tests.objects.audit_actor", what, url, json.dumps(dict(options)), str(steps)]
    done = subprocess.run([*command, str(out)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -9), done.stderr
    return "survived" in done.stdout


def new_history(s3: Server, identity: bytes) -> str:
    """The URL of a history that holds a, b, c in progress; without the check that opening one makes."""
    url = f"{s3.url}/{secrets.token_hex(4)}/killed.history"
    objects.open_client(url, s3.options).put_new("HISTORY", identity)
    with dh.open(url, storage_options=dict(s3.options)) as history:
        history.begin(documents(["a", "b", "c"]), trigger())
    return url


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(600)
def test_resubmission_killed_at_any_request_runs_each_once(
    s3: Server, identity: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "LEASE_S", -1.0)  # nobody waits until the dead one's turn is over
    seen = set()
    for at in range(100):
        url, effects = new_history(s3, identity), tmp_path / f"{at}.effects"
        with dh.open(url, storage_options=dict(s3.options)) as history:
            history.begin(documents(["a", "b", "c"]), trigger(), audit=True)
        effects.touch()
        survived = acted("resubmit", url, s3.options, at, effects)
        with dh.open(url, storage_options=dict(s3.options)) as history:
            found, done = states(history), effects.read_text().split()
            seen.add(found[0])
            assert found[0] == found[1]
            assert found[0] != "open" or done == []
            assert found[0] != "resubmitted" or done == ["a", "b"]
            if found[0] == "cut_off":
                history.audit.resolve([1, 2], "duplicate" if done else "process")
            if not done:
                with history.audit.resubmit(trigger(), [1, 2]) as again:
                    effects.write_text("".join(f"{key}\n" for key in again.documents["uuid"].to_pylist()))
            assert effects.read_text().split() == ["a", "b"]
            assert states(history)[:2] in (["resubmitted"] * 2, ["duplicate"] * 2)
            assert status_of(history, ["a", "b", "c"]) == ["DUPLICATE", "DUPLICATE", "IN_DOUBT"]
            assert history.audit.verify() > 0
        if survived:
            assert seen == {"open", "cut_off", "resubmitted"}
            return
    raise AssertionError("it never came to its end")


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(600)
def test_a_kill_at_any_request_keeps_documents_all_or_none(s3: Server, identity: bytes, tmp_path: Path) -> None:
    for at in range(60):
        url = new_history(s3, identity)
        survived = acted("keep", url, s3.options, at, tmp_path / "unused")
        with dh.open(url, storage_options=dict(s3.options)) as history:
            before = states(history)
            assert before in ([], ["open"] * 3)
            history.begin(documents(["a"]), trigger(), audit=True)
            assert history.audit.list()["number"].to_pylist() == [*range(1, len(before) + 2)]
            history.audit.compact()
            assert history.audit.verify() > 0
        if survived:
            assert before
            return
    raise AssertionError("it never came to its end")


def test_a_log_of_a_bucket_may_be_in_a_directory(history: dh.History, tmp_path: Path) -> None:
    log = AuditLog(history, tmp_path / "elsewhere")
    assert log.directory == tmp_path / "elsewhere"
    history.begin(pa.table({"uuid": ["c"]}), trigger(), audit=log)
    assert log.list()["key"].to_pylist() == ["c"]
    assert history.audit.list().num_rows == 3
