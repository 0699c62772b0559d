"""RabbitMQ by asyncio, a real one: messages side by side, each exactly once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import aio_rabbitmq
from dochistory.once import Retry
from dochistory.receiving import Message
from tests.brokers.campaign import Campaign, eventually, ids_of, messages
from tests.brokers.in_thread import running
from tests.brokers.test_rabbitmq import bodies, declare, depth, publish
from tests.servers.network import network
from tests.servers.rabbitmq import RabbitMQ, server
from tests.support import documents, rules, trigger


@pytest.fixture(scope="module")
def broker() -> Iterator[RabbitMQ]:
    with server() as one:
        yield one


class InLoop:
    """A receiver with an event loop of its own."""

    def __init__(self, receiver: aio_rabbitmq.Receiver) -> None:
        self.receiver = receiver

    def run(self) -> None:
        asyncio.run(self.receiver.run())

    def stop(self) -> None:
        self.receiver.stop()


@contextmanager
def receiving(
    directory: Path, broker: RabbitMQ, queue: str, service: Callable[[Message], Awaitable[object]], **settings: Any
) -> Iterator[aio_rabbitmq.Receiver]:
    """A receiver in a thread, stopped at the end."""
    of = settings.pop("of", None) or trigger("orders")
    settings = {"url": broker.url, **settings}
    one = aio_rabbitmq.Receiver(directory / "orders.history", of, queue, service, **settings)
    with running(InLoop(one)):
        yield one


def test_receiver_that_holds_nothing_is_refused(tmp_path: Path) -> None:
    async def service(_: Message) -> None: ...

    with pytest.raises(dh.ConfigError, match="prefetch is 0"):
        aio_rabbitmq.Receiver(tmp_path / "h", trigger(), "q", service, prefetch=0)


@pytest.mark.slow
def test_messages_run_side_by_side_and_each_once(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "side")
    published = messages(300)
    publish(broker, "side", published)
    ran: list[str | None] = []
    at_once, most = 0, 0

    async def service(message: Message) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        ran.append(message.id)

    with receiving(tmp_path, broker, "side", service, prefetch=50):
        eventually(lambda: len(ran) >= 300 and depth(broker, "side") == 0, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    assert 10 < most <= 50
    with dh.open(tmp_path / "orders.history") as history:
        assert history.audit.list().num_rows == 0  # copies side by side wait for each other


@pytest.mark.slow
def test_service_that_fails_leaves_its_message_in_doubt(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "fails")
    publish(broker, "fails", [("good", b"1"), ("bad", b"2"), ("better", b"3")])
    ran = []

    async def service(message: Message) -> None:
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

    async def service(message: Message) -> None:
        counts.append(message.redelivery_count)
        if len(counts) < 3:
            raise dh.RolledBack("undone")

    with receiving(tmp_path, broker, "released", service):
        eventually(lambda: len(counts) == 3 and depth(broker, "released") == 0, "it runs a third time")
    assert counts == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["retried", "often", "jms"])
def test_message_that_never_succeeds_becomes_a_dead_letter(tmp_path: Path, broker: RabbitMQ, how: str) -> None:
    declare(broker, how)
    publish(broker, how, [("a", b"never")])
    tries: list[str | None] = []

    async def service(message: Message) -> None:
        tries.append(message.id)
        raise ValueError("no") if how == "retried" else dh.RolledBack("undone")

    settings: dict[str, Any] = {"detect_duplicates": True, "use_history": True}
    of = {
        "retried": trigger("orders"),
        "often": trigger("orders", max_redelivery_count=3),
        "jms": dh.Trigger.jms("orders", max_delivery_count=4, **settings),
    }[how]
    with receiving(tmp_path, broker, how, service, of=of, on_error=Retry(3, backoff=0.01)):
        eventually(lambda: depth(broker, f"{how}.dead") == 1, "the dead letter")
    assert (tries, bodies(broker, f"{how}.dead")) == (["a"] * 3, [b"never"])


@pytest.mark.slow
def test_messages_without_ids_stop_the_receiver_loudly(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "nameless")
    publish(broker, "nameless", [(None, b"1"), (None, b"2"), (None, b"3")])

    async def service(_: Message) -> None: ...

    stopped = pytest.raises(dh.SchemaError, match="none of the first 2 messages has an id")
    with stopped, receiving(tmp_path, broker, "nameless", service) as one:
        eventually(lambda: one.is_stopping, "it stops")
    assert depth(broker, "nameless") >= 1


@pytest.mark.slow
def test_suspended_trigger_keeps_the_connection(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "suspended")
    publish(broker, "suspended", [("a", b""), ("b", b"")])
    ran: list[str | None] = []
    suspension = dh.Suspension(tmp_path / "orders.history", trigger("orders"))
    suspension.suspend("the shop is moving")

    async def service(message: Message) -> None:
        ran.append(message.id)

    with receiving(tmp_path, broker, "suspended", service, url=f"{broker.url}?heartbeat=1") as one:
        time.sleep(3.5)  # three heartbeats that a blocked connection would miss
        assert ran == []
        suspension.resume()
        eventually(lambda: len(ran) == 2 and depth(broker, "suspended") == 0, "they are processed")
    assert one.connections == 1


@pytest.mark.slow
def test_stopped_receiver_returns_what_was_not_begun(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "stopped")
    publish(broker, "stopped", [(f"{number}", b"") for number in range(40)])
    ran: list[str | None] = []

    async def service(message: Message) -> None:
        await asyncio.sleep(0.02)
        ran.append(message.id)

    with receiving(tmp_path, broker, "stopped", service, prefetch=5):
        eventually(lambda: len(ran) >= 3, "some are processed")
    assert 3 <= len(ran) < 40
    eventually(lambda: depth(broker, "stopped") == 40 - len(ran), "the rest is in the queue")
    with receiving(tmp_path, broker, "stopped", service):
        eventually(lambda: depth(broker, "stopped") == 0 and len(ran) == 40, "the rest is processed")
    assert len(set(ran)) == 40


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "silence"])
def test_network_that_is_cut_runs_nothing_twice(tmp_path: Path, broker: RabbitMQ, how: str) -> None:
    queue = f"cut-{how}"
    declare(broker, queue)
    published = messages(400)
    publish(broker, queue, published)
    ran: list[str | None] = []

    async def service(message: Message) -> None:
        await asyncio.sleep(0.05)
        ran.append(message.id)

    with network(broker.port) as between:
        url = f"amqp://guest:guest@127.0.0.1:{between.port}/%2F?heartbeat=2"
        with receiving(tmp_path, broker, queue, service, url=url, prefetch=20) as one:
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
def test_kills_restarts_and_poison_run_nothing_twice(tmp_path: Path, broker: RabbitMQ) -> None:
    declare(broker, "campaign")
    campaign = Campaign(tmp_path, "aio_rabbitmq", "campaign", {"url": broker.url, "prefetch": 20})
    published = campaign.endure(broker, lambda some: publish(broker, "campaign", some), 6_000, (0.7, 1.7))
    eventually(lambda: depth(broker, "campaign") == 0, "the queue is empty")
    campaign.check(ids_of(published))
