"""Consumers, receivers, suspension and the sweeper with a history in a bucket: each document runs once."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest

import dochistory as dh
from dochistory import objects, sqs, suspension
from dochistory._combining import Request as Waiting
from dochistory.receiving import Message, Worker
from tests.brokers.campaign import BucketCampaign, eventually, ids_of, messages
from tests.brokers.in_thread import running
from tests.brokers.test_sqs import left, publish, queue
from tests.ops.test_suspension import Clock
from tests.servers.fault_proxy import FaultProxy, Request, Say
from tests.servers.objects import KEY, SECRET, Server
from tests.support import documents, fresh_ids, status_of, statuses, trigger

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow")  # boto3's own


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))


Made = Callable[..., dh.Consumer]


@pytest.fixture
def made(s3: Server, place: str) -> Made:
    """Consumers of the history."""

    def one(server: dict[str, str] | None = None, of: dh.Trigger | None = None, **settings: Any) -> dh.Consumer:
        return dh.Consumer(place, of or trigger(), storage_options=server or dict(s3.options), **settings)

    return one


@pytest.fixture
def consumer(made: Made) -> Iterator[dh.Consumer]:
    with made() as one:
        yield one


def test_a_consumer_begins_and_completes_in_a_bucket(consumer: dh.Consumer, made: Made, place: str) -> None:
    claim = consumer.begin(documents(["a", "b"]))
    assert statuses(claim.verdicts) == ["NEW", "NEW"]
    claim.complete()
    assert (consumer.url, repr(consumer)) == (place, f"<Consumer of trigger 'orders' with {place!r}>")
    with made() as other, other.one("a") as document:
        assert (document.status, document.new) == ("DUPLICATE", False)


def test_a_service_runs_once_by_threads_and_coroutines(consumer: dh.Consumer) -> None:
    ran: list[str] = []

    @consumer.once(key=lambda key: key)
    def in_thread(key: str) -> None:
        ran.append(key)

    @consumer.once(key=lambda key: key)
    async def in_loop(key: str) -> str:
        ran.append(key)
        return key

    async def all_of(keys: list[str]) -> list[str]:
        found: list[str] = await asyncio.gather(*(in_loop(key) for key in keys))
        return found

    ids = [f"thread-{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(in_thread, ids))
        list(pool.map(in_thread, ids))
    others = [f"loop-{number}" for number in range(20)]
    assert asyncio.run(all_of(others)) == others
    assert asyncio.run(all_of(others)) == [None] * 20
    assert sorted(ran) == sorted(ids + others)


def test_a_failed_service_is_in_doubt_or_new_again(consumer: dh.Consumer) -> None:
    with pytest.raises(ValueError, match="no"), consumer.one("kept"):
        raise ValueError("no")
    with pytest.raises(dh.RolledBack), consumer.one("undone"):
        raise dh.RolledBack("undone")
    with consumer.one("kept") as kept, consumer.one("undone") as undone:
        assert (kept.status, undone.status) == ("IN_DOUBT", "NEW")


def test_the_directory_of_a_bucket_is_refused(consumer: dh.Consumer) -> None:
    with pytest.raises(dh.StateError, match=r"^\[DH-STATE\] .* in a bucket.* ask for url"):
        _ = consumer.path
    assert status_of(consumer.history, ["a"]) == ["NEW"]


def test_a_consumer_counts_over_restarts(made: Made, place: str, client: objects.ObjectClient) -> None:
    for expected in (["NEW", "NEW"], ["DUPLICATE", "DUPLICATE"]):
        with made(statistics=True) as consumer:
            claim = consumer.begin(documents(["a", "b"], document_name=["Order", "Bill"]))
            assert statuses(claim.verdicts) == expected
            claim.complete()
    with made() as consumer:  # it counts unless told otherwise
        with consumer.one("a") as document:
            assert document.status == "DUPLICATE"
        consumer.close()
        kept = dh.Statistics(place)
        found = kept.summary(consumer.history)["orders"]
        assert (found["new"], found["duplicate"], found["processing"]) == (2, 3, 0)
        page = dh.metrics.prometheus_text(consumer.history, kept)
    assert 'dochistory_documents_total{trigger="orders",what="duplicate"} 3' in page
    assert kept.documents()["name"].to_pylist() == [None, "Order", "Bill"]
    with made(statistics=False) as consumer:
        consumer.begin(documents(["a"]))
    kept.clear("orders")
    assert kept.counts().num_rows == 0
    assert not [one.name for one in client.list() if "statistic" in one.name or "sweeper" in one.name]


def test_counting_asks_nothing_of_the_bucket(made: Made, s3: Server, proxy: FaultProxy, place: str) -> None:
    asked = []
    for is_counted in (False, True):
        with made({**s3.through(proxy.port)}, statistics=is_counted) as consumer:
            consumer.begin(documents(["first"])).complete()
            proxy.reset()
            for batch in (["a", "b"], ["a", "c"]):
                consumer.begin(documents([f"{one}-{is_counted}" for one in batch])).complete()
            asked.append(proxy.counts.total())
    assert asked[0] == asked[1] > 0
    assert dh.Statistics(place).summary()["orders"]["duplicate"] == 2


def test_figures_of_a_bucket_hold_no_secret(made: Made, s3: Server, place: str, tmp_path: Path) -> None:
    with made() as consumer:
        consumer.begin(documents(["a"])).complete()
    dh.Sweeper(place, storage_options=dict(s3.options)).sweep()
    files = [one for one in (tmp_path / "state").rglob("*") if one.is_file()]
    assert sorted(one.name for one in files) == ["lock", "sweeper.json", "verdicts.jsonl"]
    for one in files:
        said = f"{one}\n{one.read_text()}"
        assert not [secret for secret in (KEY, SECRET, *s3.options.values()) if secret in said]


def test_state_that_cannot_be_written_is_warned_of_once(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "file" / "state"))
    with made() as consumer, caplog.at_level(logging.WARNING):
        for _ in range(3):
            consumer.begin(documents(["a"])).complete()
        assert [one.name for one in caplog.records if "missing in the statistics" in one.message] == [
            "dochistory.consumer"
        ]
        assert dh.Sweeper(consumer.history).sweep()["orders"]["entries"] == 0
        assert "is purged next is not written down" in caplog.text
        assert dh.overview.look(consumer.history).next_purge is None


def test_a_consumer_keeps_what_is_in_doubt_whole(made: Made) -> None:
    with made() as consumer:
        consumer.begin(documents(["a", "b"]))  # its process is thought to die here
    with made() as consumer:
        rows = [{"uuid": one, "redelivery_count": 1, "payload": one.encode()} for one in ("a", "b", "c")]
        claim = consumer.begin(rows)
        assert statuses(claim.verdicts) == ["IN_DOUBT", "IN_DOUBT", "NEW"]
        claim.complete()
        with consumer.one("a", payload=b"once more") as again:
            assert again.status == "IN_DOUBT"
        with pytest.raises(ValueError, match="no"), consumer.one("d"):
            raise ValueError("no")
        consumer.keep_failed([{"uuid": "d", "payload": b"d"}], ValueError("no"))
        log = consumer.history.audit
        assert log.list()["key"].to_pylist() == ["a", "b", "a", "d"]
        assert log.show(2)["document"]["payload"] == b"b"
        assert log.show(3)["document"]["payload"] == b"once more"
        ran: list[str] = []
        for _ in range(2):
            log.resolve_all("process")
            with log.resubmit(consumer.trigger) as taken:
                ran += taken.entries["key"].to_pylist()
        assert ran == ["a", "b", "d"]
        assert status_of(consumer.history, ["a", "b", "c", "d"]) == ["DUPLICATE"] * 4


def test_a_batch_is_released_if_its_doubts_cannot_be_kept(made: Made, s3: Server, proxy: FaultProxy) -> None:
    of = trigger(suspend_on_failure=False, suspend_and_retry_on_error=False)
    with made({**s3.through(proxy.port)}, of) as consumer:
        consumer.begin(documents(["a"]))
        proxy.choose = lambda request: Say(403, "AccessDenied") if "/audit/" in request.target else None
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-FORBIDDEN\]"):
            consumer.begin(documents(["a", "b"]))
        proxy.choose = lambda _request: None
        assert statuses(consumer.begin(documents(["a", "b"])).verdicts) == ["IN_DOUBT", "NEW"]
        assert consumer.history.audit.list()["key"].to_pylist() == ["a"]


def test_what_nobody_could_release_is_released_by_the_next_call(made: Made, s3: Server, proxy: FaultProxy) -> None:
    away: list[bool] = []

    def going(request: Request) -> Say | None:
        if "/audit" in request.target:
            away.append(True)
        return Say(403, "AccessDenied") if away else None

    with made({**s3.through(proxy.port)}) as consumer:
        proxy.choose = lambda _request: Say(403, "AccessDenied")
        with pytest.raises(dh.SuspendedError):
            consumer.begin(documents(["a"]))  # nothing was ever here
        proxy.choose = lambda _request: None
        consumer.suspension.resume()
        consumer.begin(documents(["a"]))
        proxy.choose = going
        with pytest.raises(dh.SuspendedError, match=r"history: \[DH-FORBIDDEN\]"):
            consumer.begin(documents(["a", "b", "c"]))
        proxy.choose = lambda _request: None
        consumer.suspension.resume()
        with made() as other:
            assert statuses(other.begin(documents(["c"])).verdicts) == ["IN_DOUBT"]  # it cannot know
        assert statuses(consumer.begin(documents(["a", "b"])).verdicts) == ["IN_DOUBT", "NEW"]
        assert status_of(consumer.history, ["b", "c"]) == ["IN_DOUBT", "NEW"]  # and what is at work is not released
        assert consumer.history.audit.list()["key"].to_pylist() == ["c", "a"]


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
def test_what_a_commit_without_an_answer_began_is_new_again(
    made: Made, s3: Server, proxy: FaultProxy, keys: list[str]
) -> None:
    with made({**s3.through(proxy.port)}) as consumer:

        def begun() -> list[str | None]:
            async def together() -> list[str | None]:
                waiting = [Waiting(consumer.one(key)) for key in keys]
                await asyncio.to_thread(consumer._one_by_one._serve_begins, waiting)  # noqa: SLF001
                return [one.subject.status for one in waiting]

            return asyncio.run(together())

        consumer.begin(documents(["first"]))
        # The commit is there, and nobody can say whether it counts.
        proxy.choose = lambda request: Say(403, "AccessDenied") if "/gate-" in request.target else None
        with pytest.raises(dh.SuspendedError, match=r"history: \[DH-FORBIDDEN\]"):
            begun()
        # What was not asked for because of that began nothing, however often it is tried.
        for _ in range(3):
            consumer.suspension.resume()
            with pytest.raises(dh.SuspendedError):
                begun()
        assert len(consumer._unseen._begun) == 1  # noqa: SLF001
        proxy.choose = lambda _request: None
        consumer.suspension.resume()
        with made() as other:
            assert set(status_of(other.history, keys)) == {"IN_DOUBT"}
        assert set(begun()) == {"NEW"}
        assert set(status_of(consumer.history, keys)) == {"IN_DOUBT"}


def test_single_doubts_that_cannot_be_kept_suspend_the_trigger(made: Made, s3: Server, proxy: FaultProxy) -> None:
    refused: list[str] = []

    def refusing(request: Request) -> Say | None:
        if "/audit" not in request.target:
            return None
        refused.append(request.target)
        return Say(403, "AccessDenied")

    with made({**s3.through(proxy.port)}) as consumer:
        consumer.begin(documents(["a", "b"]))  # its process is thought to die here
        proxy.choose = refusing

        async def together(*keys: str) -> list[BaseException | None]:
            waiting = [Waiting(consumer.one(key)) for key in keys]
            await asyncio.to_thread(consumer._one_by_one._serve_begins, waiting)  # noqa: SLF001
            return [one.error for one in waiting]

        with pytest.raises(dh.SuspendedError, match=r"history: \[DH-FORBIDDEN\]"), consumer.one("a"):
            pass
        of_one = len(refused)
        consumer.suspension.resume()
        failed = asyncio.run(together("a", "b", "new"))
        assert [type(error) for error in failed] == [dh.SuspendedError, dh.SuspendedError, type(None)]
        assert len(refused) == 2 * of_one > 0  # it was not tried again for the second one
        proxy.choose = lambda _request: None
        consumer.suspension.resume()
        with consumer.one("b", payload=b"b") as document:
            assert document.status == "IN_DOUBT"
        assert consumer.history.audit.list()["key"].to_pylist() == ["b"]


def test_what_a_function_returned_is_kept_in_the_bucket(made: Made) -> None:
    ran: list[str] = []

    def work(key: str) -> dict[str, int]:
        ran.append(key)
        return {"ran": len(ran)}

    for _ in range(2):
        with made() as consumer:
            assert consumer.once(key=lambda key: key, result="json")(work)("a") == {"ran": 1}
    assert ran == ["a"]


def test_options_that_make_no_sense_are_refused_at_once(place: str, tmp_path: Path) -> None:
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] "):
        dh.Consumer(place, trigger(), storage_options={"aws_region": ["x"]})
    for options in ({"storage_options": {"aws_region": "x"}}, {"cache": tmp_path}, {"cache_bytes": 1}):
        given: dict[str, Any] = options
        with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] .* for the URL of a bucket"):
            dh.Consumer(tmp_path / "x", trigger(), **given)


def test_a_bucket_that_fails_suspends_and_resumes(made: Made, s3: Server, proxy: FaultProxy, place: str) -> None:
    of, options = trigger(suspend_on_failure=True), {**s3.through(proxy.port)}
    clock = [dt.datetime.now(dt.UTC)]
    suspended = dh.Suspension(place, of, storage_options=options, now=lambda: clock[0])
    with made(options, of, suspension=suspended) as consumer:
        consumer.begin(documents(["a"])).complete()
        proxy.choose = lambda _request: Say(403, "AccessDenied")
        with pytest.raises(dh.SuspendedError, match=r"^\[DH-SUSPENDED\] .*history: \[DH-FORBIDDEN\]"):
            consumer.begin(documents(["b"]))
        assert [one.history for one in suspension.suspended(place)] == [place]
        clock[0] += dt.timedelta(minutes=2)
        with pytest.raises(dh.SuspendedError, match=r"\[DH-FORBIDDEN\]"):
            consumer.begin(documents(["b"]))  # it was polled, in vain
        proxy.choose = lambda _request: None
        clock[0] += dt.timedelta(minutes=10)
        assert statuses(consumer.begin(documents(["a", "b"])).verdicts) == ["DUPLICATE", "NEW"]
        assert suspension.suspended(place) == []


def lose_first_commit(client: objects.ObjectClient, name: str) -> None:
    commits = sorted(one.name for one in client.list(f"triggers/{name}-") if "/commit-" in one.name)
    client.delete(commits[0])


def test_the_wait_grows_where_a_trigger_of_a_bucket_is_damaged(
    s3: Server, place: str, client: objects.ObjectClient, tmp_path: Path
) -> None:
    options = dict(s3.options)
    with dh.open(place, create=True, storage_options=options) as history:
        history.begin(documents(["first"]), trigger())
        history.begin(documents(["second"]), trigger())
    lose_first_commit(client, "orders")
    clock = Clock()
    pausing = dh.Suspension(place, trigger(), state=tmp_path / "state", now=clock, storage_options=options)
    waits: list[float] = []
    with dh.Consumer(place, trigger(), suspension=pausing, storage_options=options) as consumer:
        for _ in range(5):
            with pytest.raises(dh.SuspendedError, match=r"\[DH-MISSING\]") as raised:
                consumer.begin(documents(["third"]))
            status = raised.value.status
            assert status is not None
            assert status.next_poll is not None
            waits.append((status.next_poll - clock()).total_seconds())
            clock.go(waits[-1])
    assert waits == [60, 120, 240, 300, 300]


def test_a_damaged_trigger_holds_up_no_sweep_of_the_others(
    s3: Server, place: str, client: objects.ObjectClient, caplog: pytest.LogCaptureFixture
) -> None:
    before = dt.datetime.now(dt.UTC) - dt.timedelta(hours=5)
    options = dict(s3.options)
    with dh.open(place, create=True, storage_options=options) as history:
        for name in ("aged", "kept"):
            for _ in range(2):
                history.load(documents(fresh_ids(20)), trigger(name, history_time_to_live="1 hour"), now=before)
    lose_first_commit(client, "aged")
    sweeper = dh.Sweeper(place, storage_options=options)
    assert [*sweeper.sweep()] == ["kept"]
    assert "[DH-MISSING]" in sweeper.skipped["aged"]
    assert "aged: not purged: [DH-MISSING]" in caplog.text
    sweeper.stop()


def test_a_failing_bucket_costs_no_second_opening(made: Made, s3: Server, proxy: FaultProxy) -> None:
    of = trigger(suspend_on_failure=False, suspend_and_retry_on_error=False)
    with made({**s3.through(proxy.port)}, of) as consumer:
        consumer.begin(documents(["a"])).complete()
        opened = consumer.history
        proxy.choose = lambda _request: Say(403, "AccessDenied")
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-FORBIDDEN\]"):
            consumer.begin(documents(["b"]))
        proxy.choose = lambda _request: None
        assert statuses(consumer.begin(documents(["a", "b"])).verdicts) == ["DUPLICATE", "NEW"]
        assert consumer.history is opened


def test_the_sweeper_takes_a_url(
    s3: Server, place: str, client: objects.ObjectClient, caplog: pytest.LogCaptureFixture
) -> None:
    options, of = dict(s3.options), trigger(history_time_to_live="1 hour")
    late = dt.datetime.now(dt.UTC) + dt.timedelta(hours=5)
    with dh.open(place, create=True, storage_options=options) as history:
        history.load(documents(fresh_ids(1000)), of)
    caplog.set_level(logging.INFO, "dochistory.sweeper")
    sweeper = dh.Sweeper(place, [of], storage_options=options, now=lambda: late)
    assert repr(place) in repr(sweeper)
    assert sweeper.sweep()["orders"]["entries"] == 1000
    assert sweeper.sweep()["orders"]["entries"] == 0
    assert "orders: purged 1000 entries" in caplog.text
    told: list[dict[str, Any]] = []
    with dh.Sweeper(place, storage_options=options, every=0.01, on_sweep=told.append) as sweeper:
        eventually(lambda: len(told) > 1, "it sweeps again and again")
    assert not sweeper.is_running
    assert dh.sweeper.next_purge(place) == sweeper.next_run
    assert client.list()


def test_a_busy_trigger_holds_up_no_sweep_of_the_others(
    s3: Server, place: str, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    busy, quiet = (trigger(name, history_time_to_live="1 hour") for name in ("busy", "quiet"))
    before, numbers = dt.datetime.now(dt.UTC) - dt.timedelta(hours=5), itertools.count()
    with dh.open(place, create=True, storage_options=dict(s3.options), auto_maintain=False) as other:
        other.load(documents(fresh_ids(20)), quiet, now=before)
        for _ in range(3):
            other.load(documents(fresh_ids(20)), busy)

        def first(request: Request) -> None:
            if request.kind == "create" and "triggers/busy-" in request.target and "/commit-" in request.target:
                other.begin(documents([f"first-{next(numbers)}"]), busy)

        options = s3.through(proxy.port)
        with dh.open(place, storage_options=options, auto_maintain=False, lock_timeout=0.2) as history:
            proxy.choose = first
            purged = dh.Sweeper(history).sweep()
    assert purged["quiet"]["entries"] == 20
    assert next(numbers) > 0
    assert "busy: its files are left for the next run: [DH-LOCKED]" in caplog.text


def test_a_buckets_sweeper_keeps_its_times_on_this_machine(
    s3: Server, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options, short = dict(s3.options), trigger(history_time_to_live=0.001)
    assert (dh.sweeper.next_purge(place), dh.sweeper.longest_runs(place)) == (None, {})
    assert not (tmp_path / "state").exists()
    with dh.open(place, create=True, storage_options=options) as history:
        claim = history.begin(documents(["a"]), short)
        time.sleep(0.01)
        claim.complete()
        sweeper = dh.Sweeper(history, every="1 hour")
        sweeper.sweep()
        assert dh.sweeper.next_purge(history) == dh.sweeper.next_purge(f"{place}/") == sweeper.next_run
        assert dh.sweeper.longest_runs(history)["orders"] >= 0.01
        assert dh.Statistics(history).summary(history)["orders"]["next_purge"] == sweeper.next_run
        assert dh.overview.look(history).next_purge == sweeper.next_run
        page = dh.metrics.prometheus_text(history)
        assert 'dochistory_longest_run_seconds{trigger="orders"} ' in page
        assert "dochistory_next_purge_seconds " in page
    with caplog.at_level(logging.WARNING, "dochistory.sweeper"):
        caplog.clear()
        dh.Sweeper(place, storage_options=options).sweep()
    assert "orders: a service ran for" in caplog.text
    elsewhere = tmp_path / "elsewhere"
    assert dh.sweeper.next_purge(place, state=elsewhere) is None
    with dh.Sweeper(place, storage_options=options, state=elsewhere, every="2 hours") as other:
        assert dh.sweeper.next_purge(place, state=elsewhere) == other.next_run
        assert dh.Statistics(place, state=elsewhere).path.parent == elsewhere
    assert dh.sweeper.longest_runs(place, state=elsewhere) == {}


@pytest.fixture
def endpoint(s3: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """moto's SQS, beside its S3."""
    given = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", f"http://127.0.0.1:{s3.port}")
    return f"http://127.0.0.1:{s3.port}"


def test_a_receiver_runs_each_message_once(s3: Server, place: str, endpoint: str) -> None:
    url = queue(endpoint, "bucket-once")
    published = messages(60)
    publish(endpoint, url, published)
    ran: list[str | None] = []

    def service(message: Message) -> None:
        ran.append(message.id)

    one = sqs.Receiver(
        place,
        trigger(),
        url,
        service,
        id=sqs.attribute("id"),
        client=boto3.client("sqs"),
        storage_options=dict(s3.options),
    )
    with running(one):
        eventually(lambda: left(endpoint, url) == 0, "all are processed and deleted")
    assert sorted(map(str, ran)) == sorted(ids_of(published))


def test_a_receiver_whose_copy_is_deleted_takes_another(made: Made, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    ran: list[str] = []
    settled: list[Any] = []

    def service(message: Message) -> None:
        if message.id == "order-1":
            shutil.rmtree(cache)  # as somebody does who empties the system's directory for temporary files
        ran.append(str(message.id))

    with made(cache=cache) as consumer:
        worker = Worker(consumer, service, settled.extend, most=2)
        worker.put([Message(f"order-{number}", b"", 0, None) for number in range(6)])
        worker.start()
        eventually(lambda: len(settled) == 6 or not worker.is_running, "all are settled")
        worker.stop()
        eventually(lambda: not worker.is_running, "it ends")
        assert worker.failure is None
        assert sorted(ran) == [f"order-{number}" for number in range(6)]
        assert status_of(consumer.history, ran) == ["DUPLICATE"] * 6


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(300)
def test_killed_receivers_run_nothing_twice(s3: Server, place: str, endpoint: str, tmp_path: Path) -> None:
    url = queue(endpoint, "bucket-campaign")
    published = messages(600)
    publish(endpoint, url, published)
    campaign = BucketCampaign(tmp_path, "sqs", url, place, s3.options, visibility=2)
    campaign.killing(8, (2.0, 4.0), receivers=2, takes=0.01)
    campaign.finish(ids_of(published), takes=0.01)
    campaign.check(ids_of(published))
