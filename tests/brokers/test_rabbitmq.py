"""RabbitMQ, a real one: each message runs exactly once, or is in doubt and in the audit log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest

import dochistory as dh
from dochistory import rabbitmq
from dochistory.once import Retry
from dochistory.receiving import Message
from tests.brokers.campaign import Campaign, eventually, ids_of, kept_in_audit, messages
from tests.brokers.in_thread import running
from tests.servers.network import network
from tests.servers.rabbitmq import RabbitMQ, server
from tests.support import documents, rules, trigger


@pytest.fixture(scope="module")
def broker() -> Iterator[RabbitMQ]:
    with server() as one:
        yield one


@contextmanager
def channel(broker: RabbitMQ) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        yield connection.channel()
    finally:
        connection.close()


def declare(broker: RabbitMQ, queue: str, kind: str = "quorum") -> None:
    with channel(broker) as one:
        one.queue_declare(f"{queue}.dead", durable=True)
        arguments = {
            "x-queue-type": kind,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{queue}.dead",
        }
        one.queue_declare(queue, durable=True, arguments=arguments)


def publish(broker: RabbitMQ, queue: str, published: Sequence[tuple[str | None, bytes]]) -> None:
    with channel(broker) as one:
        one.confirm_delivery()
        for message_id, body in published:
            one.basic_publish("", queue, body, pika.BasicProperties(message_id=message_id, delivery_mode=2))


def depth(broker: RabbitMQ, queue: str) -> int:
    with channel(broker) as one:
        count: int = one.queue_declare(queue, passive=True).method.message_count
    return count


def bodies(broker: RabbitMQ, queue: str) -> list[bytes]:
    found = []
    with channel(broker) as one:
        while (got := one.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(got[2])
    return found


@contextmanager
def receiving(
    directory: Path, broker: RabbitMQ, queue: str, service: Callable[[Message], object], **settings: Any
) -> Iterator[rabbitmq.Receiver]:
    """A receiver in a thread, stopped at the end."""
    of = settings.pop("of", None) or trigger("orders")
    one = rabbitmq.Receiver(directory / "orders.history", of, queue, service, url=broker.url, **settings)
    with running(one):
        yield one


@pytest.mark.slow
def test_each_message_runs_once_and_copies_never(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "once")
    published = messages(300)
    publish(broker, "once", published)
    ran: list[str | None] = []
    with receiving(tmp_path, broker, "once", lambda message: ran.append(message.id)):
        eventually(lambda: len(ran) >= 300 and depth(broker, "once") == 0, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    with dh.open(tmp_path / "orders.history") as history:
        assert history.audit.list().num_rows == 0


@pytest.mark.slow
def test_service_that_fails_leaves_its_message_in_doubt(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "fails")
    publish(broker, "fails", [("good", b"1"), ("bad", b"2"), ("better", b"3")])
    ran = []

    def service(message: Message) -> None:
        if message.id == "bad":
            raise ValueError("the shop is closed")
        ran.append(message.id)

    with receiving(tmp_path, broker, "fails", service):
        eventually(lambda: len(ran) == 2 and depth(broker, "fails") == 0, "the others are processed")
    with dh.open(tmp_path / "orders.history") as history:
        kept = history.audit.show(1)
        assert (kept["key"], kept["document"]["body"]) == ("bad", b"2")
        assert "ValueError: the shop is closed" in kept["message"]
        assert rules(history.classify(documents(["bad"]), trigger("orders"))) == ["R11"]


@pytest.mark.slow
def test_released_message_comes_again(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "released")
    publish(broker, "released", [("a", b"")])
    counts: list[int] = []

    def service(message: Message) -> None:
        counts.append(message.redelivery_count)
        if len(counts) < 3:
            raise dh.RolledBack("undone")

    with receiving(tmp_path, broker, "released", service):
        eventually(lambda: len(counts) == 3 and depth(broker, "released") == 0, "it runs a third time")
    assert counts == [0, 1, 2]


@pytest.mark.slow
def test_retried_message_becomes_a_dead_letter(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "retried")
    publish(broker, "retried", [("a", b"never"), ("b", b"always")])
    tries: list[str | None] = []

    def service(message: Message) -> None:
        tries.append(message.id)
        if message.body == b"never":
            raise ValueError("no")

    policy = Retry(3, backoff=0.01)
    with receiving(tmp_path, broker, "retried", service, on_error=policy):
        eventually(lambda: tries == ["a", "a", "a", "b"], "three attempts")
        eventually(lambda: depth(broker, "retried.dead") == 1, "the dead letter")
    assert bodies(broker, "retried.dead") == [b"never"]


@pytest.mark.slow
def test_message_delivered_too_often_becomes_a_dead_letter(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "often")
    publish(broker, "often", [("a", b"again")])

    def service(_: Message) -> None:
        raise dh.RolledBack("undone")

    with receiving(tmp_path, broker, "often", service, of=trigger("orders", max_redelivery_count=3)):
        eventually(lambda: depth(broker, "often.dead") == 1, "the dead letter")
    assert bodies(broker, "often.dead") == [b"again"]


@pytest.mark.slow
def test_messages_without_ids_stop_the_receiver_loudly(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "nameless")
    publish(broker, "nameless", [(None, b"1"), (None, b"2"), (None, b"3")])
    stopped = pytest.raises(dh.SchemaError, match=r"none of the [23] documents has an id")
    with stopped, receiving(tmp_path, broker, "nameless", print) as one:
        eventually(lambda: one.is_stopping, "it stops")
    # One that came before the others is in doubt by itself.
    assert depth(broker, "nameless") + kept_in_audit(tmp_path) == 3
    assert kept_in_audit(tmp_path) <= 1


@pytest.mark.slow
def test_suspended_trigger_keeps_the_connection(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "suspended")
    publish(broker, "suspended", [("a", b"")])
    ran: list[str | None] = []
    suspension = dh.Suspension(tmp_path / "orders.history", trigger("orders"))
    suspension.suspend("the shop is moving")
    url = f"{broker.url}?heartbeat=1"
    at = pika.URLParameters(url)
    receiver = rabbitmq.Receiver(
        tmp_path / "orders.history", trigger("orders"), "suspended", lambda message: ran.append(message.id), url=at
    )
    thread = threading.Thread(target=receiver.run)
    thread.start()
    time.sleep(3.5)  # three heartbeats that a blocked connection would miss
    assert ran == []
    suspension.resume()
    eventually(lambda: ran == ["a"] and depth(broker, "suspended") == 0, "it is processed")
    assert receiver.connections == 1
    receiver.stop()
    thread.join(30)


@pytest.mark.slow
def test_stopped_receiver_returns_what_was_not_begun(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "stopped")
    publish(broker, "stopped", [(f"{number}", b"") for number in range(40)])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.02)
        ran.append(message.id)

    with receiving(tmp_path, broker, "stopped", service):
        eventually(lambda: len(ran) >= 3, "some are processed")
    assert 3 <= len(ran) < 40
    eventually(lambda: depth(broker, "stopped") == 40 - len(ran), "the rest is in the queue")
    with receiving(tmp_path, broker, "stopped", service):
        eventually(lambda: depth(broker, "stopped") == 0 and len(ran) == 40, "the rest is processed")
    assert len(set(ran)) == 40


@pytest.mark.slow
def test_receiver_stopped_while_the_broker_is_away_ends_cleanly(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "away")
    published = messages(20)
    publish(broker, "away", published)
    campaign = Campaign(tmp_path, "rabbitmq", "away", {"url": broker.url, "prefetch": 10})
    running = campaign.start(takes=0.0)
    eventually(lambda: len(set(campaign.ran())) == len(set(ids_of(published))), "all ran")
    broker.stop()
    try:
        eventually(lambda: "queue 'away'" in campaign.log(), "the receiver noticed")
        campaign.terminate(running)
    finally:
        broker.start()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "silence"])
def test_network_that_is_cut_runs_nothing_twice(tmp_path: Path, broker: RabbitMQ, how: str) -> None:
    queue = f"cut-{how}"
    declare(broker, queue)
    published = messages(400)
    publish(broker, queue, published)
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.002)
        ran.append(message.id)

    with network(broker.port) as between:
        url = pika.URLParameters(f"amqp://guest:guest@127.0.0.1:{between.port}/%2F?heartbeat=2")
        one = rabbitmq.Receiver(tmp_path / "orders.history", trigger("orders"), queue, service, url=url)
        with running(one):
            eventually(lambda: len(ran) >= 100, "some are processed")
            before = between.connections
            if how == "silence":
                between.silence()
                eventually(lambda: between.connections > before, "it tries to connect again")
                between.restore()
            else:
                between.reset()
            eventually(lambda: one.connections == 2, "it connects again")
            eventually(lambda: len(ran) >= 400 and depth(broker, queue) == 0, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_kills_restarts_and_poison_run_nothing_twice(tmp_path: Path, broker: RabbitMQ, kind: str) -> None:
    queue = f"campaign-{kind}"
    declare(broker, queue, kind)
    campaign = Campaign(tmp_path, "rabbitmq", queue, {"url": broker.url, "prefetch": 100})
    published = campaign.endure(broker, lambda some: publish(broker, queue, some), 6_000, (0.5, 1.5), takes=0.0005)
    eventually(lambda: depth(broker, queue) == 0, "the queue is empty")
    campaign.check(ids_of(published))
