"""What goes wrong with a bucket: a sentence that says what to do, and nothing is lost or claimed twice."""

import datetime as dt
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import objects
from tests.servers.clock import shifted
from tests.servers.fault_proxy import Fault, FaultProxy, Request, Say
from tests.servers.objects import Server
from tests.store.processes import run
from tests.support import documents, fresh_ids, status_of, statuses, trigger


@pytest.fixture
def history(s3: Server, place: str, proxy: FaultProxy) -> Iterator[dh.History]:
    """A history that the proxy stands before; `first` is completed."""
    with dh.open(place, create=True, storage_options=s3.through(proxy.port)) as opened:
        opened.begin(documents(["first"]), trigger()).complete()
        yield opened


TROUBLE: dict[str, tuple[Say, str]] = {
    "expired": (Say(400, "ExpiredToken"), r"\[DH-CREDENTIALS\] .* expired .*renew them"),
    "region": (Say(301, "PermanentRedirect"), r"\[DH-REGION\] .*set aws_region"),
    "clock": (Say(403, "RequestTimeTooSkewed"), r"\[DH-CLOCK\] .*set this machine's clock"),
    "bucket": (Say(404, "NoSuchBucket"), r"\[DH-BUCKET\] .*create it, or correct the URL"),
    "forbidden": (Say(403, "AccessDenied"), r"\[DH-FORBIDDEN\] .*s3:ListBucket"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_a_bucket_that_refuses_says_so_and_loses_nothing(history: dh.History, proxy: FaultProxy, name: str) -> None:
    said, sentence = TROUBLE[name]
    calls: list[Callable[[], Any]] = [
        lambda: history.begin(documents(["1"]), trigger()),
        lambda: status_of(history, ["first"]),
        lambda: history.complete(["first"], trigger()),
        lambda: history.load(documents(["2"]), trigger()),
        history.triggers,
    ]
    for call in calls:
        proxy.choose = lambda _request: said
        with pytest.raises(dh.ObjectStoreError, match=sentence):
            call()
        proxy.choose = lambda _request: None
    assert status_of(history, ["first", "1", "2"]) == ["DUPLICATE", "NEW", "NEW"]
    assert statuses(history.begin(documents(["1"]), trigger()).verdicts) == ["NEW"]


def test_what_is_not_there_is_said_of_the_url(history: dh.History, place: str) -> None:
    with pytest.raises(dh.OpenError, match="is not one of trigger") as caught:
        history.unpin(trigger(), "none")
    assert place in str(caught.value)
    assert "replica" not in str(caught.value)


def test_without_the_right_to_list_a_missing_commit_is_no_end(history: dh.History, proxy: FaultProxy) -> None:
    # S3 then answers 403 for a name that is not there.
    def choose(request: Request) -> Say | None:
        beyond = request.kind == "get" and "commit-00000000000000000004" in request.target
        return Say(403, "AccessDenied") if beyond else None

    proxy.choose = choose
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-FORBIDDEN\] .*s3:ListBucket"):
        status_of(history, ["first"])


def test_an_endpoint_where_nobody_answers_is_said_so(s3: Server, place: str) -> None:
    options = {**s3.options, "aws_endpoint_url": "http://127.0.0.1:1"}
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-ENDPOINT\] .*check aws_endpoint_url"):
        dh.open(place, storage_options=options)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.ERROR_AFTER, Fault.DROP_AFTER], ids=str)
def test_a_commit_whose_answer_is_lost_is_in_doubt(
    history: dh.History, s3: Server, place: str, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.choose = lambda _request: fault
    start = time.monotonic()
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-OBJECTS\] "):
        history.begin(documents(["1"]), trigger())
    assert time.monotonic() - start < 90
    proxy.choose = lambda _request: None
    with dh.open(place, storage_options=dict(s3.options)) as other:
        assert status_of(other, ["1"]) == ["IN_DOUBT"]
    assert status_of(history, ["1", "first"]) == ["IN_DOUBT", "DUPLICATE"]


def test_a_writer_whose_clock_is_an_hour_ahead_harms_nobody(
    history: dh.History, s3: Server, place: str, tmp_path: Path
) -> None:
    ahead = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    with dh.open(place, storage_options=dict(s3.options), cache=tmp_path) as other:
        other.begin(documents(["1"]), trigger(), now=ahead).complete()
        other.maintain(all=True, grace=0)
        assert statuses(history.begin(documents(["1", "2"]), trigger()).verdicts) == ["DUPLICATE", "NEW"]
        assert statuses(other.begin(documents(["2", "3"]), trigger(), now=ahead).verdicts) == ["IN_DOUBT", "NEW"]
    assert status_of(history, ["first", "1", "2", "3"]) == ["DUPLICATE", "DUPLICATE", "IN_DOUBT", "IN_DOUBT"]


def test_without_the_right_to_list_no_history_is_made(
    s3: Server, place: str, proxy: FaultProxy, client: objects.ObjectClient
) -> None:
    def choose(request: Request) -> Say | None:
        name = request.target.split("?")[0].split("orders.history/")[-1]
        is_missing = request.kind in ("get", "head") and client.get(name) is None
        return Say(403, "AccessDenied") if request.kind == "list" or is_missing else None

    proxy.choose = choose
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-FORBIDDEN\] .*s3:ListBucket"):
        dh.open(place, create=True, storage_options=s3.through(proxy.port))
    assert client.list() == []


def test_a_listing_that_fails_is_no_answer(history: dh.History, place: str, s3: Server, proxy: FaultProxy) -> None:
    proxy.choose = lambda request: Say(400, "ExpiredToken") if request.kind == "list" else None
    with dh.open(place, storage_options=s3.through(proxy.port)) as other:
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-CREDENTIALS\] "):
            other.begin(documents(["first", "1"]), trigger())
        proxy.choose = lambda _request: None
        assert statuses(other.begin(documents(["first", "1"]), trigger()).verdicts) == ["DUPLICATE", "NEW"]
    assert status_of(history, ["1"]) == ["IN_DOUBT"]


def test_what_needs_no_list_works_without_the_right(history: dh.History, proxy: FaultProxy) -> None:
    proxy.choose = lambda request: Say(403, "AccessDenied") if request.kind == "list" else None
    assert statuses(history.begin(documents(["first", "1"]), trigger()).verdicts) == ["DUPLICATE", "NEW"]
    for call in (history.triggers, history.stats, history.purge, history.maintain):
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-FORBIDDEN\] cannot list .*allow to .* list"):
            call()


@pytest.mark.usefixtures("history")
def test_credentials_in_the_environment_that_expired_are_said_so(
    s3: Server, place: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.through(proxy.port).items():
        monkeypatch.setenv(name.upper(), value)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token-that-is-secret")
    with dh.open(place) as other:
        proxy.choose = lambda _request: Say(400, "ExpiredToken", "The provided token has expired")
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-CREDENTIALS\] .*renew them") as raised:
            other.begin(documents(["1"]), trigger())
        assert "a-token-that-is-secret" not in str(raised.value)
        proxy.choose = lambda _request: None
        assert status_of(other, ["first", "1"]) == ["DUPLICATE", "NEW"]


def test_a_region_and_an_endpoint_that_are_wrong_are_said_so(
    s3: Server, place: str, history: dh.History, proxy: FaultProxy
) -> None:
    proxy.choose = lambda _request: Say(301, "PermanentRedirect")
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-REGION\] .*set aws_region"):
        dh.open(place, storage_options=s3.through(proxy.port))
    proxy.choose = lambda _request: Say(404, body="<html>not here</html>")
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-ENDPOINT\] .*check aws_endpoint_url"):
        dh.open(place, create=True, storage_options=s3.through(proxy.port))
    proxy.choose = lambda _request: None
    assert status_of(history, ["first"]) == ["DUPLICATE"]


@pytest.mark.usefixtures("history")
def test_a_history_without_its_identity_is_not_made_again(s3: Server, place: str, client: objects.ObjectClient) -> None:
    # What a lifecycle rule deletes first is what is oldest.
    identity = client.get("HISTORY")
    assert identity is not None
    client.delete("HISTORY")
    before = sorted(one.name for one in client.list())
    for gone in ([], [one for one in before if one.startswith("known/")]):
        for name in gone:
            client.delete(name)
        with pytest.raises(dh.OpenError, match=r"^\[DH-OPEN\] .*HISTORY is missing.*lifecycle rule.*restore"):
            dh.open(place, create=True, storage_options=dict(s3.options))
        assert "HISTORY" not in [one.name for one in client.list()]
    client.put("HISTORY", identity)
    with dh.open(place, storage_options=dict(s3.options)) as again:
        assert statuses(again.begin(documents(["first", "1"]), trigger()).verdicts) == ["DUPLICATE", "NEW"]


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_history_replaced_under_a_handle_fences_the_handle(
    s3: Server, place: str, client: objects.ObjectClient, tmp_path: Path, *, is_restored: bool
) -> None:
    options = dict(s3.options)
    with dh.open(place, create=True, storage_options=options) as old:
        for one in ("a", "b", "c"):
            old.begin(documents([one]), trigger()).complete()
        dh.backup(place, tmp_path / "copy", storage_options=options)
        for stored in client.list():
            client.delete(stored.name)
        if is_restored:
            dh.backup(tmp_path / "copy", place, storage_options=options)
        with dh.open(place, create=not is_restored, storage_options=options) as new:
            assert statuses(new.begin(documents(["d"]), trigger()).verdicts) == ["NEW"]
        for one in ("d", "e"):
            with pytest.raises(dh.FencedError, match=r"^\[DH-FENCED\] .*another history was put in the place"):
                old.begin(documents([one]), trigger())
        with pytest.raises(dh.FencedError):
            old.classify(documents(["d"]), trigger())
    known = [*"abc"] if is_restored else []
    with dh.open(place, storage_options=options) as late:
        begun = statuses(late.begin(documents([*"abcde"]), trigger()).verdicts)
    assert begun == ["DUPLICATE" if one in known else "IN_DOUBT" if one == "d" else "NEW" for one in "abcde"]


def put_in_place(s3: Server, place: str, client: objects.ObjectClient, copy: Path, *, is_restored: bool) -> dh.History:
    """Delete a history, and open another one in its place: made again, or restored from a backup."""
    options = dict(s3.options)
    for stored in client.list():
        client.delete(stored.name)
    if is_restored:
        dh.backup(copy, place, storage_options=options)
    return dh.open(place, create=not is_restored, storage_options=options)


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("is_collected", [False, True])
def test_a_handle_ends_nothing_in_a_longer_history_at_its_place(
    s3: Server, place: str, client: objects.ObjectClient, tmp_path: Path, *, is_restored: bool, is_collected: bool
) -> None:
    # Its own commits, and their gate, are of a block that the other history has left behind.
    with dh.open(place, create=True, storage_options=dict(s3.options)) as old:
        old.begin(documents(["a"]), trigger()).complete()
        dh.backup(place, tmp_path / "copy", storage_options=dict(s3.options))
        held = [old.begin(documents([f"held {one}"]), trigger()) for one in range(3)]
        ids = [f"new {number}" for number in range(260)]
        with put_in_place(s3, place, client, tmp_path / "copy", is_restored=is_restored) as new:
            for one in ids:
                new.begin(documents([one]), trigger())
            if is_collected:
                new.maintain(trigger(), grace=dt.timedelta(0))
        with pytest.raises(dh.FencedError, match=r"another history was put in the place"):
            held[0].complete()
        with pytest.raises(dh.FencedError):
            held[1].release()
        with pytest.raises(dh.FencedError):
            old.begin(documents(["x"]), trigger())
    with dh.open(place, storage_options=dict(s3.options)) as late:
        assert Counter(status_of(late, ids)) == {"IN_DOUBT": len(ids)}
        assert status_of(late, ["held 0", "held 1", "x"]) == ["NEW"] * 3


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("commits", [256, 258])
def test_a_long_history_leaves_no_gap_in_one_at_its_place(
    s3: Server, place: str, client: objects.ObjectClient, tmp_path: Path, *, is_restored: bool, commits: int
) -> None:
    with dh.open(place, create=True, storage_options=dict(s3.options)) as old:
        for number in range(commits):
            old.begin(documents([f"old {number}"]), trigger())
        dh.backup(place, tmp_path / "copy", storage_options=dict(s3.options))
        with put_in_place(s3, place, client, tmp_path / "copy", is_restored=is_restored) as new:
            new.begin(documents(["new"]), trigger())
        for _ in range(2):
            with pytest.raises(dh.FencedError, match=r"another history was put in the place"):
                old.begin(documents(["x"]), trigger())
    assert [one.name for one in client.list("triggers/") if "gate-0" in one.name and not one.name.endswith("0")] == []
    with dh.open(place, storage_options=dict(s3.options)) as late:
        assert status_of(late, ["new", "x"]) == ["IN_DOUBT", "NEW"]


def test_a_reservation_in_a_history_made_again_is_taken_back(
    s3: Server, place: str, client: objects.ObjectClient, tmp_path: Path
) -> None:
    with dh.open(place, create=True, storage_options=dict(s3.options)) as old:
        for one in ("a", "b", "c"):
            old.begin(documents([one]), trigger())
        with put_in_place(s3, place, client, tmp_path, is_restored=False) as new:
            new.begin(documents(["new"]), trigger())
        job = old._shards.reserve(trigger(), 1, prove_later=True)
        with pytest.raises(dh.FencedError, match=r"another history was put in the place"):
            job.prove()
    with dh.open(place, storage_options=dict(s3.options)) as late:
        assert status_of(late, ["new", "a"]) == ["IN_DOUBT", "NEW"]


@pytest.mark.parametrize("part", ["segment", "commit-00000000000000000001", "gate-", "commit-"])
def test_what_a_lifecycle_rule_deleted_is_missed_not_new(
    s3: Server, place: str, history: dh.History, client: objects.ObjectClient, part: str
) -> None:
    history.load(documents(["loaded"]), trigger())
    gone = {one.name: client.get(one.name) for one in client.list("triggers/") if part in one.name}
    assert gone
    for name in gone:
        client.delete(name)
    with dh.open(place, storage_options=dict(s3.options)) as fresh:
        try:
            found = statuses(fresh.begin(documents(["first", "loaded"]), trigger()).verdicts)
        except dh.StorageError as error:
            assert "restore" in str(error)  # noqa: PT017 - the other outcome is as good
        else:
            assert found == ["DUPLICATE", "DUPLICATE"]
    for name, content in gone.items():
        client.put(name, content or b"")
    with dh.open(place, storage_options=dict(s3.options)) as fresh:
        assert statuses(fresh.begin(documents(["first", "loaded"]), trigger()).verdicts) == ["DUPLICATE"] * 2


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_process_whose_clock_is_an_hour_off_harms_nobody(
    history: dh.History, s3: Server, place: str, client: objects.ObjectClient, tmp_path: Path, hours: int
) -> None:
    ids = fresh_ids(3000)
    history.load(documents(ids[:1000]), trigger())
    snapshot = history.pin(trigger(), lease="30 min")
    before = {one.name for one in client.list()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.objects.off_clock", place, json.dumps(dict(s3.options)), *ids[1000:]],
        env={**os.environ, **shifted(hours * 3600, tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert abs(said["now"] - time.time() - hours * 3600) < 120
    assert said["statuses"] == {"DUPLICATE": 1, "NEW": 2000}
    # By the store's clock nothing is old, and the pin's lease is not over.
    assert before <= {one.name for one in client.list()}
    with dh.open(place, storage_options=dict(s3.options), snapshot=snapshot) as pinned:
        assert Counter(status_of(pinned, ids)) == {"DUPLICATE": 1000, "NEW": 2000}
    assert Counter(status_of(history, ["first", *ids])) == {"DUPLICATE": 3001}


FULL = """
import json, resource, sys
import dochistory as dh
from tests.support import documents, trigger
url, options, cache, *ids = sys.argv[1:]
with dh.open(url, storage_options=json.loads(options), cache=cache) as history:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    print(history.classify(documents(ids), trigger()).to_pylist()[0]["message"])
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    print(history.classify(documents(ids), trigger())["status"].to_pylist())
"""


def test_a_disk_that_is_full_is_said_so_and_serves_again(
    history: dh.History, s3: Server, place: str, tmp_path: Path
) -> None:
    ids = fresh_ids(20_000)
    history.load(documents(ids), trigger())
    # A file that may not grow stands for a full disk.
    script = [sys.executable, "-c", FULL, place, json.dumps(dict(s3.options)), str(tmp_path / "cache"), "first", ids[0]]
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    refused, served = done.stdout.splitlines()
    assert "File too large" in refused
    assert "object-" in refused  # the file
    assert served == "['DUPLICATE', 'DUPLICATE']"


def test_a_handle_whose_copy_was_deleted_says_so(s3: Server, place: str, tmp_path: Path) -> None:
    with dh.open(place, create=True, storage_options=s3.options, cache=tmp_path / "cache") as history:
        history.begin(documents(["a"]), trigger())
        mapper = history.mapper("m")
        mapper.create(["a"], ["b"])
        shutil.rmtree(tmp_path / "cache")
        calls: list[Callable[[], Any]] = [
            history.verify,
            lambda: history.entries(trigger()).read_all(),
            lambda: mapper.pending().read_all(),
            lambda: history.begin(documents(["b"]), trigger()),
        ]
        for call in calls:
            with pytest.raises(dh.FencedError, match=r"the local copy .* was deleted .*; open the history again"):
                call()
        assert status_of(history, ["a", "b"]) == ["IN_DOUBT", "NEW"]


def test_a_consumer_whose_copy_was_deleted_takes_another(s3: Server, place: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with dh.Consumer(place, trigger(), storage_options=s3.options, cache=cache) as consumer:
        consumer.begin(documents(["a"])).complete()
        shutil.rmtree(cache)
        with pytest.raises(dh.FencedError):
            consumer.begin(documents(["b"]))
        assert statuses(consumer.begin(documents(["a", "b"])).verdicts) == ["DUPLICATE", "NEW"]


def test_the_exception_of_a_signals_handler_comes_through(s3: Server, place: str, proxy: FaultProxy) -> None:
    def handler(*_: object) -> None:
        raise TimeoutError("enough")

    with dh.open(place, create=True, storage_options=s3.through(proxy.port)) as history:
        history.begin(documents(["a"]), trigger())
        proxy.choose = lambda _request: time.sleep(1.0)
        previous = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            with pytest.raises(TimeoutError, match=r"^enough$"):
                history.stats(trigger())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
            proxy.choose = lambda _request: None
        assert status_of(history, ["a"]) == ["IN_DOUBT"]


FORKED = """
    import json, signal
    options = json.loads(sys.argv[2])
    with dh.open(sys.argv[1], create=True, storage_options=options) as history:
        history.begin(documents(["a"]), trigger()).complete()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            for call in (lambda: dh.open(sys.argv[1], storage_options=options), history.triggers):
                try:
                    call()
                except dh.ForkedError as error:
                    print(error, flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        print(history.triggers(), flush=True)
"""


def test_forked_child_is_told_that_buckets_do_not_work_there(s3: Server, place: str) -> None:
    said = run(FORKED, place, json.dumps(s3.options))
    assert "had used object storage before this process was forked off" in said[0]
    assert re.fullmatch(r"\[DH-FORKED\] the history at .* was opened by process \d+: open it again .*", said[1])
    assert said[2:] == ["['orders']"]


@pytest.mark.parametrize("name", ["HISTORY", "gate-0", "-segment-", "pin-"])
def test_a_conflict_that_stores_nothing_is_not_taken_for_success(
    place: str, s3: Server, proxy: FaultProxy, name: str
) -> None:
    """Some stores refuse a create once because another request is under way, although nothing is there."""
    met: list[str] = []

    def choose(request: Request) -> Say | None:
        if request.kind != "create" or name not in request.target or met:
            return None
        met.append(request.target)
        return Say(409, "OperationAborted")

    proxy.choose = choose
    ids = fresh_ids(20)
    with dh.open(place, create=True, storage_options=s3.through(proxy.port)) as history:
        history.begin(documents(ids), trigger()).complete()
        history.load(documents(["loaded"]), trigger())
        pin = history.pin(trigger())
    assert met
    with dh.open(place, storage_options=dict(s3.options)) as other:
        assert set(status_of(other, [*ids, "loaded"])) == {"DUPLICATE"}
        other.verify()
    with dh.open(place, storage_options=dict(s3.options), snapshot=pin) as pinned:
        assert status_of(pinned, ["loaded"]) == ["DUPLICATE"]


@pytest.mark.slow
def test_after_a_failure_a_reader_sees_what_was_collected(s3: Server, place: str, proxy: FaultProxy) -> None:
    with (
        dh.open(place, create=True, storage_options=dict(s3.options)) as other,
        dh.open(place, storage_options=s3.through(proxy.port)) as history,
    ):
        history.begin(documents(["first"]), trigger())
        proxy.choose = lambda request: Say(403, "AccessDenied") if "/commit-" in request.target else None
        with pytest.raises(dh.ObjectStoreError):
            history.begin(documents(["refused"]), trigger())
        proxy.choose = lambda _request: None
        # The commits behind that which `history` knows are gone, and their gate is closed.
        for number in range(300):
            other.begin(documents([f"id-{number}"]), trigger())
        other.maintain(all=True, grace=0)
        assert statuses(history.classify(documents(["id-0", "refused"]), trigger())) == ["IN_DOUBT", "NEW"]
