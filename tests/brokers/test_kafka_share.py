"""Share groups of a real Kafka: each record runs exactly once, or is in doubt and in the audit log."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

import dochistory as dh
from dochistory import kafka, kafka_share
from dochistory.once import Retry
from dochistory.receiving import Message
from tests.brokers.campaign import Campaign, eventually, ids_of, messages
from tests.brokers.in_thread import running
from tests.brokers.test_kafka import publish
from tests.servers.kafka import WITH_SHARE_GROUPS, Kafka, server
from tests.support import trigger


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with server(WITH_SHARE_GROUPS) as one:
        yield one


def prepare(broker: Kafka, name: str, lock: int = 30_000) -> dict[str, Any]:
    """A topic of one partition, and a group of the same name; answers the settings of a member."""
    broker.topic(name, 1)
    broker.share_group(name, lock)
    return {"bootstrap.servers": broker.servers, "group.id": name, "log_level": 0}


@contextmanager
def receiving(
    directory: Path, config: dict[str, Any], service: Callable[[Message], object], **settings: Any
) -> Iterator[kafka_share.Receiver]:
    """A receiver in a thread, stopped at the end."""
    of = settings.pop("of", None) or trigger("orders")
    settings = {"id": kafka.header("id"), "config": config, "most": 20, **settings}
    one = kafka_share.Receiver(directory / "orders.history", of, [config["group.id"]], service, **settings)
    with running(one):
        yield one


def test_counted_dead_letters_without_a_topic_are_refused(tmp_path: Path) -> None:
    of = trigger(max_redelivery_count=3)
    with pytest.raises(dh.ConfigError, match="max_redelivery_count or a jms trigger leads to dead letters"):
        kafka_share.Receiver(tmp_path / "h", of, ["t"], print, id=kafka.position, config={})


@pytest.mark.slow
def test_members_of_one_partition_run_each_record_once(tmp_path: Path, broker: Kafka) -> None:
    config, published = prepare(broker, "members"), messages(600)
    ran: list[str | None] = []
    by: Counter[str] = Counter()

    def service_of(name: str) -> Callable[[Message], object]:
        def service(message: Message) -> None:
            time.sleep(0.005)
            ran.append(message.id)
            by[name] += 1

        return service

    with receiving(tmp_path, config, service_of("a")), receiving(tmp_path, config, service_of("b")):
        for at in range(0, len(published), 20):  # a member gets what was produced together as a whole
            publish(broker, "members", published[at : at + 20])
        eventually(lambda: len(ran) >= 600, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    assert min(by["a"], by["b"]) > 0
    more: list[str | None] = []
    with receiving(tmp_path, config, lambda message: more.append(message.id)):
        publish(broker, "members", [("last", b"")])
        eventually(lambda: bool(more), "the last one is processed")
    assert more == ["last"]  # all before it were accepted


@pytest.mark.slow
def test_released_record_runs_again_without_a_further_delivery(tmp_path: Path, broker: Kafka) -> None:
    config = prepare(broker, "released")
    publish(broker, "released", [("a", b"")])
    counts: list[tuple[int, int]] = []

    def service(message: Message) -> None:
        counts.append((message.redelivery_count, message.raw.delivery_count()))
        if len(counts) < 3:
            raise dh.RolledBack("undone")

    with receiving(tmp_path, config, service):
        eventually(lambda: len(counts) == 3, "it runs a third time")
    assert counts == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.slow
def test_record_that_never_succeeds_becomes_a_dead_letter(tmp_path: Path, broker: Kafka) -> None:
    config = prepare(broker, "letters")
    broker.topic("letters.dead", 1)
    publish(broker, "letters", [("a", b"never"), ("b", b"always")])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        if message.body == b"never":
            raise ValueError("no")
        ran.append(message.id)

    policy = Retry(2, backoff=0.01)
    with receiving(tmp_path, config, service, on_error=policy, dead_letter_topic="letters.dead"):
        eventually(lambda: ran == ["b"], "the other one is processed")
    reader = {"bootstrap.servers": broker.servers, "group.id": "reader", "auto.offset.reset": "earliest"}
    client = confluent_kafka.Consumer(reader)
    client.subscribe(["letters.dead"])
    record = client.poll(20)
    client.close()
    assert record is not None
    assert (record.value(), record.headers()) == (b"never", [("id", b"a")])


@pytest.mark.slow
def test_record_whose_lock_runs_out_is_not_run_twice(tmp_path: Path, broker: Kafka) -> None:
    config = prepare(broker, "locks", lock=2_000)
    publish(broker, "locks", [(f"{number}", b"") for number in range(10)])
    ran: list[str | None] = []
    is_slow = threading.Event()

    def slow(message: Message) -> None:
        is_slow.set()
        time.sleep(5)
        ran.append(message.id)

    def quick(message: Message) -> None:
        ran.append(message.id)

    # The first holds all ten, and runs one of them for longer than it may hold any.
    with receiving(tmp_path, config, slow, lock="2 s", claim_ahead=0.001):
        eventually(is_slow.is_set, "the first one began")
        with receiving(tmp_path, config, quick, lock="2 s"):
            eventually(lambda: len(ran) >= 9, "the other one gets the rest")
        eventually(lambda: len(ran) >= 10, "all ran")
    assert sorted(map(str, ran)) == [str(number) for number in range(10)]
    with dh.open(tmp_path / "orders.history") as history:
        # The other one got what was in progress, too, and could not know how it would end.
        history.audit.reconcile()
        assert set(history.audit.list()["state"].to_pylist()) <= {"duplicate"}


@pytest.mark.parametrize("code", ["_MAX_POLL_EXCEEDED", "_TRANSPORT", "TOPIC_AUTHORIZATION_FAILED"])
def test_only_an_error_that_stays_ends_a_member(tmp_path: Path, code: str) -> None:
    def poll(_: float) -> None:
        raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(getattr(confluent_kafka.KafkaError, code)))

    one = kafka_share.Receiver(tmp_path / "h", trigger(), ["t"], print, id=kafka.position, config={})
    one._client = SimpleNamespace(poll=poll)  # noqa: SLF001
    ending = pytest.raises(confluent_kafka.KafkaException) if code[0] != "_" else nullcontext()
    with ending:
        one._receive_some()  # noqa: SLF001


@pytest.mark.slow
def test_suspension_outlasts_the_poll_interval(tmp_path: Path, broker: Kafka) -> None:
    config = prepare(broker, "suspended") | {"max.poll.interval.ms": 6_000}  # no less than the session's timeout
    suspension = dh.Suspension(tmp_path / "orders.history", trigger("orders"))
    ran: list[str | None] = []
    with receiving(tmp_path, config, lambda message: ran.append(message.id), suspension=suspension):
        publish(broker, "suspended", [("a", b"")])
        eventually(lambda: ran == ["a"], "it receives")
        suspension.suspend("the shop is moving")
        publish(broker, "suspended", [("b", b"")])
        time.sleep(8)
        suspension.resume()
        eventually(lambda: ran == ["a", "b"], "what it held runs")
        publish(broker, "suspended", [("c", b"")])
        eventually(lambda: ran == ["a", "b", "c"], "it is a member again")


@pytest.mark.slow
@pytest.mark.crash
def test_kills_restarts_and_poison_run_nothing_twice(tmp_path: Path, broker: Kafka) -> None:
    config = prepare(broker, "campaign", lock=3_000)
    campaign = Campaign(tmp_path, "kafka_share", "campaign", {"config": config, "lock": "3 s", "most": 20})
    published = campaign.endure(broker, lambda some: publish(broker, "campaign", some), 4_000, (1.5, 3.5), takes=0.0005)
    campaign.check(ids_of(published))
