"""STOMP, with a real Artemis: each message runs exactly once, or is in doubt and in the audit log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from stomp import Connection12, ConnectionListener
from stomp.exception import ConnectFailedException

import dochistory as dh
from dochistory import stomp
from dochistory.once import Retry
from dochistory.receiving import Message
from tests.brokers.campaign import Campaign, eventually, ids_of, kept_in_audit, messages
from tests.brokers.in_thread import running
from tests.servers.artemis import Artemis, server
from tests.servers.network import network
from tests.support import trigger


@pytest.fixture(scope="module")
def broker() -> Iterator[Artemis]:
    with server() as one:
        yield one


class Client(ConnectionListener):  # type: ignore[misc]
    """A plain client: publishes, and looks at what a queue holds."""

    def __init__(self, broker: Artemis) -> None:
        self.frames: list[Any] = []
        self.receipts: set[str] = set()
        self.connection = Connection12(broker.host_and_ports)
        self.connection.set_listener("test", self)
        self.connection.connect(wait=True)

    def on_message(self, frame: Any) -> None:
        self.frames.append(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.add(frame.headers["receipt-id"])

    def on_disconnected(self) -> None:
        self.receipts.add("disconnected")

    def close(self) -> None:
        self.connection.disconnect()
        eventually(lambda: "disconnected" in self.receipts, "disconnected")


@contextmanager
def client(broker: Artemis) -> Iterator[Client]:
    one = Client(broker)
    try:
        yield one
    finally:
        one.close()


def publish(broker: Artemis, queue: str, published: Sequence[tuple[str | None, bytes]]) -> None:
    with client(broker) as one:
        for at, (order, body) in enumerate(published):
            headers = {"persistent": "true"} | ({} if order is None else {"order": order})
            if at == len(published) - 1:
                headers["receipt"] = "last"
            one.connection.send(queue, body, headers=headers)
        eventually(lambda: "last" in one.receipts, "the broker has all")


def held(broker: Artemis, queue: str) -> list[Any]:
    """The messages of a queue that no consumer holds; they stay there."""
    with client(broker) as one:
        one.connection.subscribe(queue, "look", "client-individual", headers={"receipt": "subscribed"})
        eventually(lambda: "subscribed" in one.receipts, "subscribed")
        time.sleep(0.3)
        return one.frames


@contextmanager
def receiving(
    directory: Path, broker: Artemis, queue: str, service: Callable[[Message], object], **settings: Any
) -> Iterator[stomp.Receiver]:
    """A receiver in a thread, stopped at the end."""
    of = settings.pop("of", None) or trigger("orders")
    settings = {"brokers": broker.host_and_ports, "id": stomp.header("order"), **settings}
    with running(stomp.Receiver(directory / "orders.history", of, queue, service, **settings)) as one:
        yield one


@pytest.mark.parametrize("name", ["message-id", "ack"])
def test_header_that_changes_with_each_redelivery_is_refused(name: str) -> None:
    with pytest.raises(dh.ConfigError, match="another one after each redelivery"):
        stomp.header(name)


@pytest.mark.parametrize(
    "given",
    [{"on_error": Retry()}, {"of": trigger("orders", max_redelivery_count=3)}, {"of": dh.Trigger.jms("orders")}],
    ids=["retry", "count", "jms"],
)
def test_dead_letters_without_a_destination_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    of = given.pop("of", trigger("orders"))
    with pytest.raises(dh.ConfigError, match="dead_letter_destination"):
        stomp.Receiver(tmp_path / "h", of, "orders", print, id=stomp.header("order"), **given)


def test_receiver_without_a_broker_fails_at_once(tmp_path: Path) -> None:
    one = stomp.Receiver(
        tmp_path / "h", trigger("orders"), "orders", print, id=stomp.header("order"), brokers=[("127.0.0.1", 9)]
    )
    with pytest.raises(ConnectFailedException):
        one.run()


def test_copies_and_a_redelivery_run_once(tmp_path: Path, broker: Artemis) -> None:
    published = messages(60)
    publish(broker, "short", published)
    ran: list[str | None] = []
    counts: list[int] = []

    def service(message: Message) -> None:
        if message.id == published[0][0]:
            counts.append(message.redelivery_count)
            if len(counts) == 1:
                raise dh.RolledBack("undone")
        ran.append(message.id)

    with receiving(tmp_path, broker, "short", service):
        eventually(lambda: len(ran) >= 60, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    assert counts == [0, 1]


@pytest.mark.slow
def test_each_message_runs_once_and_copies_never(tmp_path: Path, broker: Artemis) -> None:
    published = messages(300)
    publish(broker, "once", published)
    ran: list[str | None] = []
    with receiving(tmp_path, broker, "once", lambda message: ran.append(message.id)):
        eventually(lambda: len(ran) >= 300, "all are processed")
        time.sleep(0.5)
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    assert held(broker, "once") == []
    with dh.open(tmp_path / "orders.history") as history:
        assert history.audit.list().num_rows == 0


@pytest.mark.slow
def test_redelivery_changes_the_message_id_and_keeps_headers(broker: Artemis) -> None:
    publish(broker, "twice", [("a", b"1")])
    first, second = held(broker, "twice")[0].headers, held(broker, "twice")[0].headers
    assert first["message-id"] != second["message-id"]
    assert (first["order"], first["redelivered"]) == ("a", "false")
    assert (second["order"], second["redelivered"]) == ("a", "true")


@pytest.mark.slow
def test_service_that_fails_leaves_its_message_in_doubt(tmp_path: Path, broker: Artemis) -> None:
    publish(broker, "fails", [("good", b"1"), ("bad", b"\x00\xff"), ("better", b"3")])
    ran = []

    def service(message: Message) -> None:
        if message.id == "bad":
            raise ValueError("the shop is closed")
        ran.append(message.id)

    with receiving(tmp_path, broker, "fails", service):
        eventually(lambda: ran == ["good", "better"], "the others are processed")
    with dh.open(tmp_path / "orders.history") as history:
        kept = history.audit.show(1)
    assert (kept["key"], kept["document"]["body"]) == ("bad", b"\x00\xff")
    assert held(broker, "fails") == []


@pytest.mark.slow
def test_released_message_comes_again(tmp_path: Path, broker: Artemis) -> None:
    publish(broker, "released", [("a", b"")])
    counts: list[int] = []

    def service(message: Message) -> None:
        counts.append(message.redelivery_count)
        if len(counts) < 3:
            raise dh.RolledBack("undone")

    with receiving(tmp_path, broker, "released", service):
        eventually(lambda: len(counts) == 3, "it runs a third time")
    assert counts == [0, 1, 2]
    assert held(broker, "released") == []


@pytest.mark.slow
def test_message_delivered_too_often_becomes_a_dead_letter(tmp_path: Path, broker: Artemis) -> None:
    publish(broker, "often", [("a", b"\x00 again")])

    def service(_: Message) -> None:
        raise dh.RolledBack("undone")

    limited = trigger("orders", max_redelivery_count=2)
    with receiving(tmp_path, broker, "often", service, of=limited, dead_letter_destination="often.dead"):
        eventually(lambda: len(held(broker, "often.dead")) == 1, "the dead letter")
    (dead,) = held(broker, "often.dead")
    assert (dead.headers["order"], held(broker, "often")) == ("a", [])


@pytest.mark.slow
def test_retried_message_becomes_a_dead_letter(tmp_path: Path, broker: Artemis) -> None:
    publish(broker, "retried", [("a", b"never"), ("b", b"always")])
    tries: list[str | None] = []

    def service(message: Message) -> None:
        tries.append(message.id)
        if message.body == b"never":
            raise ValueError("no")

    policy = Retry(3, backoff=0.01)
    with receiving(tmp_path, broker, "retried", service, on_error=policy, dead_letter_destination="retried.dead"):
        eventually(lambda: tries == ["a", "a", "a", "b"], "three attempts")
        eventually(lambda: len(held(broker, "retried.dead")) == 1, "the dead letter")


@pytest.mark.slow
def test_messages_without_ids_stop_the_receiver_loudly(tmp_path: Path, broker: Artemis) -> None:
    publish(broker, "nameless", [(None, b"1"), (None, b"2"), (None, b"3")])
    stopped = pytest.raises(dh.SchemaError, match=r"none of the first [23] messages has an id")
    with stopped, receiving(tmp_path, broker, "nameless", print) as one:
        eventually(lambda: one.is_stopping, "it stops")
    # One that came before the others is in doubt by itself.
    assert len(held(broker, "nameless")) + kept_in_audit(tmp_path) == 3
    assert kept_in_audit(tmp_path) <= 1


@pytest.mark.slow
def test_suspended_trigger_keeps_the_connection(tmp_path: Path, broker: Artemis) -> None:
    publish(broker, "suspended", [("a", b"")])
    ran: list[str | None] = []
    suspension = dh.Suspension(tmp_path / "orders.history", trigger("orders"))
    suspension.suspend("the shop is moving")
    with receiving(
        tmp_path, broker, "suspended", lambda message: ran.append(message.id), heartbeats=(500, 500)
    ) as receiver:
        time.sleep(3)  # several heartbeats that a blocked connection would miss
        assert ran == []
        suspension.resume()
        eventually(lambda: ran == ["a"], "it is processed")
    assert receiver.connections == 1
    assert held(broker, "suspended") == []


@pytest.mark.slow
def test_stopped_receiver_returns_what_was_not_begun(tmp_path: Path, broker: Artemis) -> None:
    publish(broker, "stopped", [(f"{number}", b"") for number in range(40)])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.02)
        ran.append(message.id)

    with receiving(tmp_path, broker, "stopped", service):
        eventually(lambda: len(ran) >= 3, "some are processed")
    assert 3 <= len(ran) < 40
    with receiving(tmp_path, broker, "stopped", service):
        eventually(lambda: len(ran) == 40, "the rest is processed")
    assert len(set(ran)) == 40
    assert held(broker, "stopped") == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "silence"])
def test_network_that_is_cut_runs_nothing_twice(tmp_path: Path, broker: Artemis, how: str) -> None:
    queue = f"cut-{how}"
    published = messages(400)
    publish(broker, queue, published)
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.002)
        ran.append(message.id)

    with network(broker.port) as between:
        at = [("127.0.0.1", between.port)]
        with receiving(tmp_path, broker, queue, service, brokers=at, heartbeats=(500, 500)) as one:
            eventually(lambda: len(ran) >= 100, "some are processed")
            if how == "silence":
                between.silence()
                eventually(lambda: not one.is_connected, "the receiver notices")
                between.restore()
            else:
                between.reset()
            eventually(lambda: one.connections >= 2, "it connects again")
            broker.restart()
            eventually(lambda: len(ran) >= 400, "all are processed")

    def is_drained() -> bool:
        with receiving(tmp_path, broker, queue, service):
            time.sleep(1)
        return held(broker, queue) == []

    eventually(is_drained, "copies are read, too")
    assert sorted(map(str, ran)) == sorted(ids_of(published))


@pytest.mark.slow
@pytest.mark.crash
def test_kills_restarts_and_poison_run_nothing_twice(tmp_path: Path, broker: Artemis) -> None:
    more = {"brokers": [*broker.host_and_ports], "prefetch": 100}
    campaign = Campaign(tmp_path, "stomp", "campaign", more)
    published = campaign.endure(broker, lambda some: publish(broker, "campaign", some), 6_000, (0.7, 1.7), takes=0.0005)
    # Copies may be left at the end of the queue: a last receiver reads them.
    last = campaign.start(takes=0.0)
    time.sleep(3)
    campaign.terminate(last)
    assert held(broker, "campaign") == []
    campaign.check(ids_of(published))


@pytest.mark.slow
@pytest.mark.parametrize(("header", "count"), [("9" * 23, -1), ("9" * 5_000, -1), ("9" * 18, 2**31 - 1)])
def test_count_of_any_size_stops_no_receiver(tmp_path: Path, broker: Artemis, header: str, count: int) -> None:
    queue = f"count-{len(header)}"
    with client(broker) as one:
        for order, headers in (("a", {"JMSXDeliveryCount": header}), ("b", {})):
            one.connection.send(queue, b"x", headers={"order": order, "persistent": "true", **headers})
    counts: dict[str | None, int] = {}

    def service(message: Message) -> None:
        counts[message.id] = message.redelivery_count

    with receiving(tmp_path, broker, queue, service):
        eventually(lambda: set(counts) == {"a", "b"}, "both are processed")
    assert counts["a"] == max(count, 0)  # the flag says that it is the first delivery
