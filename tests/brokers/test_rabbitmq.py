"""RabbitMQ, a real one: each message runs exactly once, or is in doubt and in the audit log."""

from __future__ import annotations

import asyncio
import inspect
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import aio_pika
import aio_pika.exceptions
import pika
import pytest

import dochistory as dh
from dochistory import aio_rabbitmq, rabbitmq
from dochistory.once import Retry
from dochistory.receiving import Message, Service, Settlement
from tests.brokers.campaign import Campaign, eventually, ids_of, kept_in_audit, messages
from tests.brokers.in_thread import running
from tests.servers import can_have
from tests.servers.network import Network, network
from tests.servers.rabbitmq import RabbitMQ, server
from tests.support import away, documents, rules, trigger


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


class InLoop:
    """A receiver of aio-pika as the others: with an event loop of its own, for services that are no coroutines, too."""

    def __init__(self, history: Path, of: dh.Trigger, queue: str, service: Any, **settings: Any) -> None:
        async def awaited(message: Message) -> None:
            service(message)

        given = service if inspect.iscoroutinefunction(service) else awaited
        self._receiver = aio_rabbitmq.Receiver(history, of, queue, given, **settings)

    @property
    def connections(self) -> int:
        return self._receiver.connections

    @property
    def is_stopping(self) -> bool:
        return self._receiver.is_stopping

    def run(self) -> None:
        asyncio.run(self._receiver.run())

    def stop(self) -> None:
        self._receiver.stop()


Receiving = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(params=["pika", "aio-pika"])
def receiving(request: pytest.FixtureRequest, tmp_path: Path, broker: RabbitMQ) -> Receiving:
    """Runs receivers in threads, stopped at the end: of both client libraries, with the test's own history."""
    kind: Any = rabbitmq.Receiver if request.param == "pika" else InLoop

    def made(queue: str, service: Service, of: dh.Trigger | None = None, **settings: Any) -> Any:
        settings = {"url": broker.url, "prefetch": 20, **settings}
        return running(kind(tmp_path / "orders.history", of or trigger("orders"), queue, service, **settings))

    return made


@pytest.fixture
def queue(broker: RabbitMQ) -> str:
    """A queue of the test's own."""
    name = f"queue-{secrets.token_hex(4)}"
    declare(broker, name)
    return name


# The only quick test whose server pip and Maven cannot bring.
@pytest.mark.skipif(
    not can_have("rabbitmq-server"), reason="RabbitMQ is not installed: install Debian's rabbitmq-server, or be root"
)
def test_copies_and_a_redelivery_run_once(broker: RabbitMQ, queue: str, receiving: Receiving) -> None:
    published = messages(60)
    publish(broker, queue, published)
    ran: list[str | None] = []
    counts: list[int] = []

    def service(message: Message) -> None:
        if message.id == published[0][0]:
            counts.append(message.redelivery_count)
            if len(counts) == 1:
                raise dh.RolledBack("undone")
        ran.append(message.id)

    with receiving(queue, service):
        eventually(lambda: len(ran) >= 60 and depth(broker, queue) == 0, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    assert counts == [0, 1]


@pytest.mark.slow
def test_each_message_runs_once_and_copies_never(
    tmp_path: Path, broker: RabbitMQ, queue: str, receiving: Receiving
) -> None:
    published = messages(300)
    publish(broker, queue, published)
    ran: list[str | None] = []
    with receiving(queue, lambda message: ran.append(message.id)):
        eventually(lambda: len(ran) >= 300 and depth(broker, queue) == 0, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    assert kept_in_audit(tmp_path) == 0


@pytest.mark.slow
def test_service_that_fails_leaves_its_message_in_doubt(
    tmp_path: Path, broker: RabbitMQ, queue: str, receiving: Receiving
) -> None:
    publish(broker, queue, [("good", b"1"), ("bad", b"2"), ("better", b"3")])
    ran = []

    def service(message: Message) -> None:
        if message.id == "bad":
            raise ValueError("the shop is closed")
        ran.append(message.id)

    with receiving(queue, service):
        eventually(lambda: len(ran) == 2 and depth(broker, queue) == 0, "the others are processed")
    with dh.open(tmp_path / "orders.history") as history:
        kept = history.audit.show(1)
        assert (kept["key"], kept["document"]["body"]) == ("bad", b"2")
        assert "ValueError: the shop is closed" in kept["message"]
        assert rules(history.classify(documents(["bad"]), trigger("orders"))) == ["R11"]


@pytest.mark.slow
def test_released_message_comes_again(broker: RabbitMQ, queue: str, receiving: Receiving) -> None:
    publish(broker, queue, [("a", b"")])
    counts: list[int] = []

    def service(message: Message) -> None:
        counts.append(message.redelivery_count)
        if len(counts) < 3:
            raise dh.RolledBack("undone")

    with receiving(queue, service):
        eventually(lambda: len(counts) == 3 and depth(broker, queue) == 0, "it runs a third time")
    assert counts == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["retried", "often", "jms"])
def test_message_that_never_succeeds_becomes_a_dead_letter(
    broker: RabbitMQ, queue: str, receiving: Receiving, how: str
) -> None:
    publish(broker, queue, [("a", b"never"), ("b", b"always")])
    tries: list[str | None] = []

    def service(message: Message) -> None:
        tries.append(message.id)
        if message.body == b"never":
            raise ValueError("no") if how == "retried" else dh.RolledBack("undone")

    settings: dict[str, Any] = {"detect_duplicates": True, "use_history": True}
    of = {
        "retried": trigger("orders"),
        "often": trigger("orders", max_redelivery_count=3),
        "jms": dh.Trigger.jms("orders", max_delivery_count=4, **settings),
    }[how]
    with receiving(queue, service, of=of, on_error=Retry(3, backoff=0.01)):
        eventually(lambda: depth(broker, f"{queue}.dead") == 1, "the dead letter")
        eventually(lambda: "b" in tries, "the other one")
    assert (tries.count("a"), tries.count("b")) == (3, 1)
    assert bodies(broker, f"{queue}.dead") == [b"never"]


@pytest.mark.slow
def test_messages_without_ids_stop_the_receiver_loudly(
    tmp_path: Path, broker: RabbitMQ, queue: str, receiving: Receiving
) -> None:
    publish(broker, queue, [(None, b"1"), (None, b"2"), (None, b"3")])
    stopped = pytest.raises(dh.SchemaError, match=r"none of the first [23] messages has an id")
    with stopped, receiving(queue, print) as one:
        eventually(lambda: one.is_stopping, "it stops")
    # One that came before the others is in doubt by itself.
    assert depth(broker, queue) + kept_in_audit(tmp_path) == 3
    assert kept_in_audit(tmp_path) <= 1


@pytest.mark.slow
def test_suspended_trigger_keeps_the_connection(
    tmp_path: Path, broker: RabbitMQ, queue: str, receiving: Receiving
) -> None:
    publish(broker, queue, [("a", b""), ("b", b"")])
    ran: list[str | None] = []
    suspension = dh.Suspension(tmp_path / "orders.history", trigger("orders"))
    suspension.suspend("the shop is moving")
    with receiving(queue, lambda message: ran.append(message.id), url=f"{broker.url}?heartbeat=1") as one:
        time.sleep(3.5)  # three heartbeats that a blocked connection would miss
        assert ran == []
        suspension.resume()
        eventually(lambda: sorted(map(str, ran)) == ["a", "b"] and depth(broker, queue) == 0, "they are processed")
    assert one.connections == 1


@pytest.mark.slow
def test_stopped_receiver_returns_what_was_not_begun(broker: RabbitMQ, queue: str, receiving: Receiving) -> None:
    publish(broker, queue, [(f"{number}", b"") for number in range(40)])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.02)
        ran.append(message.id)

    with receiving(queue, service, prefetch=5):
        eventually(lambda: len(ran) >= 3, "some are processed")
    assert 3 <= len(ran) < 40
    eventually(lambda: depth(broker, queue) == 40 - len(ran), "the rest is in the queue")
    with receiving(queue, service):
        eventually(lambda: depth(broker, queue) == 0 and len(ran) == 40, "the rest is processed")
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


def test_receiver_stopped_without_a_connection_does_not_spin(tmp_path: Path) -> None:
    one = rabbitmq.Receiver(tmp_path / "orders.history", trigger("orders"), "away", print)
    one.stop()
    start = time.monotonic()
    one._keep_alive()  # noqa: SLF001 - what it does until the service has ended
    assert time.monotonic() - start > 0.1


def test_connection_counts_once_its_queue_is_consumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost:
        """A connection that is lost before its queue is consumed."""

        def __init__(self, _parameters: Any) -> None:
            pass

        def channel(self) -> Any:
            raise pika.exceptions.StreamLostError("cut")

        def close(self) -> None:
            raise pika.exceptions.ConnectionWrongStateError

    monkeypatch.setattr(pika, "BlockingConnection", Lost)
    one = rabbitmq.Receiver(tmp_path / "orders.history", trigger("orders"), "orders", print)
    with pytest.raises(pika.exceptions.StreamLostError, match="cut"):
        one.run()
    assert one.connections == 0


def test_message_whose_channel_is_closed_is_not_begun(tmp_path: Path) -> None:
    class Arrived:
        """A message as aio-pika has it once its connection is gone."""

        @property
        def channel(self) -> Any:
            raise aio_pika.exceptions.ChannelInvalidStateError

    async def service(message: Message) -> None:
        raise AssertionError(message)

    one = aio_rabbitmq.Receiver(tmp_path / "orders.history", trigger("orders"), "orders", service)
    processing = one._process(Message("a", b"", 0, Arrived(), 1, None))  # noqa: SLF001 - the moment is too short
    assert asyncio.run(processing) is Settlement.RETURN
    assert not (tmp_path / "orders.history").exists()


def cut(between: Network, how: str, one: Any, ran: Sequence[str | None]) -> None:
    """Cut the network amid messages, and wait until the receiver is connected again."""
    some, attempts, connections = len(ran) + 50, between.connections, one.connections
    eventually(lambda: len(ran) >= some, "some are processed")
    if how == "silence":
        between.silence()
        eventually(lambda: between.connections > attempts, "it tries to connect again")
        between.restore()
    else:
        between.reset()
    eventually(lambda: one.connections > connections, "it connects again")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "silence"])
def test_network_that_is_cut_runs_nothing_twice(broker: RabbitMQ, queue: str, receiving: Receiving, how: str) -> None:
    published = messages(400)
    publish(broker, queue, published)
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.002)
        ran.append(message.id)

    with network(broker.port) as between:
        url = f"amqp://guest:guest@127.0.0.1:{between.port}/%2F?heartbeat=2"
        with receiving(queue, service, url=url) as one:
            for _ in range(1 if how == "silence" else 3):
                cut(between, how, one, ran)
            eventually(lambda: len(ran) >= 400 and depth(broker, queue) == 0, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))


@pytest.mark.slow
def test_queue_that_is_made_again_is_consumed_again(broker: RabbitMQ, receiving: Receiving) -> None:
    ran: list[str | None] = []
    queue = f"queue-{secrets.token_hex(4)}"
    declare(broker, queue, "classic")  # of a quorum queue that is made again at once, RabbitMQ 3.10 tells nobody
    with receiving(queue, lambda message: ran.append(message.id)):
        publish(broker, queue, [("a", b"x")])
        eventually(lambda: ran == ["a"] and depth(broker, queue) == 0, "it is processed")
        time.sleep(0.5)  # nothing is left to be settled, which would show that the channel is closed
        with channel(broker) as one:
            one.queue_delete(queue)
        declare(broker, queue, "classic")
        publish(broker, queue, [("b", b"x")])
        eventually(lambda: ran == ["a", "b"], "it consumes again")


@pytest.mark.slow
def test_broker_that_does_not_answer_in_time_is_asked_again(
    tmp_path: Path, broker: RabbitMQ, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    connect = pika.BlockingConnection

    def mute_the_second_time(parameters: Any) -> Any:
        made.append(parameters)
        if len(made) == 2:
            with socket.create_server(("127.0.0.1", 0)) as mute:
                where = f"amqp://127.0.0.1:{mute.getsockname()[1]}/?stack_timeout=1&connection_attempts=1"
                return connect(pika.URLParameters(where))
        return connect(parameters)

    ran: list[str | None] = []
    with network(broker.port) as between:
        url = f"amqp://guest:guest@127.0.0.1:{between.port}/%2F"
        given = (tmp_path / "orders.history", trigger("orders"), queue, lambda message: ran.append(message.id))
        one = rabbitmq.Receiver(*given, url=url)
        with running(one):
            eventually(lambda: one.connections == 1, "it is connected")
            monkeypatch.setattr(pika, "BlockingConnection", mute_the_second_time)
            made.append(None)
            between.reset()
            eventually(lambda: one.connections == 2, "it connects a third time")
            monkeypatch.undo()
            publish(broker, queue, [("a", b"x")])
            eventually(lambda: ran == ["a"], "it is processed")
    assert len(made) == 3


@pytest.mark.slow
def test_connection_lost_before_its_channel_is_made_again(
    tmp_path: Path, broker: RabbitMQ, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    connect = aio_pika.connect

    async def lost_the_second_time(url: str) -> Any:
        made.append(await connect(url))
        if len(made) == 2:
            await made[1].transport.connection.close()
        return made[-1]

    monkeypatch.setattr(aio_pika, "connect", lost_the_second_time)
    ran: list[str | None] = []
    given = (tmp_path / "orders.history", trigger("orders"), queue, lambda message: ran.append(message.id))
    with network(broker.port) as between:
        one = InLoop(*given, url=f"amqp://guest:guest@127.0.0.1:{between.port}/%2F")
        with running(one):
            eventually(lambda: one.connections == 1, "it is connected")
            between.reset()
            publish(broker, queue, [("a", b"x")])
            eventually(lambda: ran == ["a"], "it connects a third time")
    assert (len(made), one.connections) == (3, 2)


@pytest.mark.parametrize("prefetch", [0, 1.5, "5", True, 65_536])
@pytest.mark.parametrize("kind", [rabbitmq.Receiver, InLoop])
def test_receiver_that_holds_nothing_is_refused(tmp_path: Path, kind: Any, prefetch: Any) -> None:
    with pytest.raises(dh.ConfigError, match=f"prefetch is {prefetch!r}; allowed is a whole number from 1 to 65535"):
        kind(tmp_path / "h", trigger(), "q", print, prefetch=prefetch)


@pytest.mark.slow
def test_count_of_any_size_stops_no_receiver(broker: RabbitMQ, receiving: Receiving) -> None:
    queue = f"queue-{secrets.token_hex(4)}"
    declare(broker, queue, "classic")  # where the header is the producer's
    with channel(broker) as one:
        for key, headers in (("a", {"x-delivery-count": 2**63 - 1}), ("b", {})):
            one.basic_publish("", queue, b"x", pika.BasicProperties(message_id=key, headers=headers))
    ran: list[tuple[str | None, int]] = []
    of = dh.Trigger.jms("orders", max_delivery_count=2**40, history_time_to_live="1 day")
    with receiving(queue, lambda message: ran.append((message.id, message.redelivery_count)), of):
        eventually(lambda: len(ran) == 2, "both are processed")
    assert sorted(ran, key=str) == [("a", 2**31 - 1), ("b", 0)]


@pytest.mark.slow
@pytest.mark.parametrize("field", ["message_id", "correlation_id"])
def test_message_that_aio_pika_cannot_read_ends_its_receiver(
    tmp_path: Path, broker: RabbitMQ, queue: str, field: str
) -> None:
    with channel(broker) as one:
        one.basic_publish("", queue, b"x", pika.BasicProperties(**{field: b"\xff"}))
    given = (tmp_path / "orders.history", trigger("orders", without_ids="in_doubt"), queue, print)
    reader = InLoop(*given, url=broker.url)
    with pytest.raises(dh.StateError, match=r"aio-pika cannot read the next message, .* dochistory.rabbitmq reads"):
        reader.run()
    assert reader.connections == 3
    dh.open(tmp_path / "orders.history", create=True).close()  # which the test reads meanwhile
    with running(rabbitmq.Receiver(*given, url=broker.url)):  # as the error says
        eventually(lambda: kept_in_audit(tmp_path) == 1, "it is kept for a decision")
    assert depth(broker, queue) == 0


@pytest.mark.slow
def test_coroutines_run_side_by_side_and_each_once(tmp_path: Path, broker: RabbitMQ, queue: str) -> None:
    published = messages(300)
    publish(broker, queue, published)
    ran: list[str | None] = []
    at_once, most = 0, 0

    async def service(message: Message) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        ran.append(message.id)

    one = InLoop(tmp_path / "orders.history", trigger("orders"), queue, service, url=broker.url, prefetch=50)
    with running(one):
        eventually(lambda: len(ran) >= 300 and depth(broker, queue) == 0, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    assert 10 < most <= 50
    assert kept_in_audit(tmp_path) == 0  # copies side by side wait for each other


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize(
    ("receiver", "kind", "prefetch"),
    [("rabbitmq", "quorum", 100), ("rabbitmq", "classic", 100), ("aio_rabbitmq", "quorum", 20)],
)
def test_kills_restarts_and_poison_run_nothing_twice(
    tmp_path: Path, broker: RabbitMQ, receiver: str, kind: str, prefetch: int
) -> None:
    queue = f"campaign-{receiver}-{kind}"
    declare(broker, queue, kind)
    campaign = Campaign(tmp_path, receiver, queue, {"url": broker.url, "prefetch": prefetch})
    published = campaign.endure(broker, lambda some: publish(broker, queue, some), 6_000, (0.5, 1.5), takes=0.0005)
    campaign.empty(lambda: depth(broker, queue))
    campaign.check(ids_of(published))


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["in_doubt", "release", "dead_letter"])
def test_history_that_goes_away_amid_services_is_waited_for(
    tmp_path: Path, broker: RabbitMQ, queue: str, receiving: Receiving, on_error: str
) -> None:
    directory = tmp_path / "orders.history"
    published = [(f"order-{number:02}", b"x") for number in range(60)]  # and no copies
    publish(broker, queue, published)
    ran: list[str | None] = []
    failing = {key for key, _ in published[20:30]}

    def service(message: Message) -> None:
        time.sleep(0.02)
        is_first = message.id not in ran
        ran.append(message.id)
        if message.id in failing and is_first:
            raise ValueError("no")

    policy: Any = Retry(1, then="dead_letter") if on_error == "dead_letter" else on_error
    suspension = dh.Suspension(directory, trigger("orders"), poll_every="0.5 s")
    with receiving(queue, service, suspension=suspension, on_error=policy):
        eventually(lambda: len(ran) >= 15, "some are processed")
        with away(directory):
            eventually(lambda: suspension.status is not None, "the trigger is suspended")
            time.sleep(1)
        runs = len({*ids_of(published)}) + (len(failing) if on_error == "release" else 0)
        eventually(lambda: depth(broker, queue) == 0 and len(ran) == runs, "all are processed")
        eventually(lambda: suspension.status is None, "the trigger resumes")
    assert {key for key in ran if ran.count(key) > 1} == (failing if on_error == "release" else set())
    with dh.open(directory) as history:
        kept = {row["key"] for row in history.audit.list().to_pylist()}
        statuses = history.classify(documents(sorted(map(str, {*ran}))), trigger("orders"))["status"].to_pylist()
    assert kept == (failing if on_error == "in_doubt" else set())
    expected = {"in_doubt": "IN_DOUBT", "release": "DUPLICATE", "dead_letter": "NEW"}[on_error]
    assert statuses == [expected if key in failing else "DUPLICATE" for key in sorted(map(str, {*ran}))]


@pytest.mark.slow
def test_receiver_stopped_while_its_history_is_away_says_so(
    tmp_path: Path, broker: RabbitMQ, queue: str, receiving: Receiving
) -> None:
    directory = tmp_path / "orders.history"
    publish(broker, queue, messages(5))
    going = threading.Event()

    def service(_: Message) -> None:
        going.set()
        time.sleep(0.3)

    stopped = pytest.raises(dh.DocHistoryError, match=r"there is no history here|cannot find .*HISTORY")
    with ExitStack() as gone, stopped, receiving(queue, service):
        eventually(going.is_set, "a service runs")
        gone.enter_context(away(directory))


@pytest.mark.slow
def test_sink_that_fails_ends_the_receiver(broker: RabbitMQ, queue: str, receiving: Receiving) -> None:
    class Sink:
        def write(self, _: Any) -> None:
            raise ConnectionError("the log server restarts")

        def close(self) -> None:
            pass

    publish(broker, queue, [("a", b"x"), ("a", b"x"), ("b", b"x")])
    stopped = pytest.raises(ConnectionError, match="the log server restarts")
    with stopped, receiving(queue, print, sinks=[Sink()]) as one:
        eventually(lambda: one.is_stopping, "it ends")


@pytest.mark.slow
def test_coroutine_in_which_something_is_cancelled_has_failed(tmp_path: Path, broker: RabbitMQ, queue: str) -> None:
    publish(broker, queue, [("a", b"x"), ("b", b"x")])
    ran: list[str | None] = []

    async def service(message: Message) -> None:
        if message.id == "a":
            task = asyncio.create_task(asyncio.sleep(60))
            task.cancel()
            await task
        ran.append(message.id)

    with running(InLoop(tmp_path / "orders.history", trigger("orders"), queue, service, url=broker.url)):
        eventually(lambda: depth(broker, queue) == 0 and ran == ["b"], "the other one is processed")
    with dh.open(tmp_path / "orders.history") as history:
        (kept,) = history.audit.list().to_pylist()
    assert (kept["key"], "CancelledError" in kept["message"]) == ("a", True)


@pytest.mark.slow
def test_stopped_receiver_tries_no_service_again(
    tmp_path: Path, broker: RabbitMQ, queue: str, receiving: Receiving
) -> None:
    publish(broker, queue, [("a", b"x")])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        ran.append(message.id)
        raise ValueError("no")

    with receiving(queue, service, on_error=Retry(10, backoff="1 minute")):
        eventually(lambda: ran == ["a"], "it has failed")
        time.sleep(0.2)
    # `receiving` waits 30 s for its end.
    assert ran == ["a"]
    assert depth(broker, queue) == 1
    with dh.open(tmp_path / "orders.history") as history:
        assert history.classify(documents(["a"]), trigger("orders"))["status"].to_pylist() == ["NEW"]
