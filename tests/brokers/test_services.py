"""Services whose work begins after they returned: refused, or failed; never completed and acknowledged."""

# ruff: noqa: SLF001 - deliveries are handed to a receiver without a broker

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dochistory as dh
from dochistory import aio_rabbitmq, kafka, kafka_share, rabbitmq, sqs, stomp
from dochistory.once import Retry
from dochistory.receiving import Message, Settlement, Worker
from tests.brokers.campaign import eventually, kept_in_audit
from tests.support import documents, rules, statuses, trigger


def of_topic(kind: Callable[..., Any], history: Path, of: dh.Trigger, topic: str, service: Any, **given: Any) -> Any:
    """A receiver that takes several topics, of one."""
    return kind(history, of, [topic], service, **given)


RECEIVERS: dict[str, Callable[..., Any]] = {
    "rabbitmq": rabbitmq.Receiver,
    "stomp": functools.partial(stomp.Receiver, id=print),
    "kafka": functools.partial(of_topic, kafka.Receiver, id=print, config={}),
    "kafka_share": functools.partial(of_topic, kafka_share.Receiver, id=print, config={}),
    "sqs": functools.partial(sqs.Receiver, id=print, client=object()),
}


async def ship(_message: Message) -> None:
    raise AssertionError


class Ships:
    """An object that is called."""

    async def __call__(self, message: Message) -> None:
        await ship(message)

    async def ship(self, message: Message) -> None:
        await ship(message)


def ships_in_parts(message: Message) -> Iterator[Message]:
    yield message


async def ships_in_parts_later(message: Message) -> AsyncIterator[Message]:
    yield message


COROUTINES = [ship, Ships(), Ships().ship, functools.partial(ship), functools.partial(functools.partial(Ships()))]
GENERATORS = [ships_in_parts, ships_in_parts_later, functools.partial(ships_in_parts)]


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize("service", COROUTINES)
def test_receiver_that_awaits_nothing_refuses_coroutines(tmp_path: Path, receiver: str, service: Any) -> None:
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] the service .*[sS]hip.* dochistory\.aio_rabbitmq"):
        RECEIVERS[receiver](tmp_path / "h", trigger(), "orders", service)


@pytest.mark.parametrize("receiver", [*RECEIVERS, "aio_rabbitmq"])
@pytest.mark.parametrize("service", GENERATORS)
def test_receiver_refuses_generators(tmp_path: Path, receiver: str, service: Any) -> None:
    kind = RECEIVERS.get(receiver, aio_rabbitmq.Receiver)
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] the service ships_in_parts.* is a generator function"):
        kind(tmp_path / "h", trigger(), "orders", service)


@pytest.mark.parametrize("receiver", [*RECEIVERS, "aio_rabbitmq"])
def test_receiver_refuses_what_cannot_be_called(tmp_path: Path, receiver: str) -> None:
    kind = RECEIVERS.get(receiver, aio_rabbitmq.Receiver)
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] the service is 'ship'; allowed is a function"):
        kind(tmp_path / "h", trigger(), "orders", "ship")


@pytest.mark.filterwarnings("error")  # of a coroutine that was never awaited
@pytest.mark.parametrize("service", [ship, ships_in_parts, ships_in_parts_later])
def test_returned_coroutine_is_in_doubt_and_kept(tmp_path: Path, service: Any) -> None:
    settled: list[Any] = []
    with dh.Consumer(tmp_path / "orders.history", trigger("orders")) as consumer:
        worker = Worker(consumer, lambda message: service(message), settled.extend)
        worker.start()
        worker.put([Message("a", b"1", 0, None)])
        eventually(lambda: bool(settled), "it is settled")
        worker.stop()
        eventually(lambda: not worker.is_running, "it ends")
        assert worker.failure is None
        assert [how for _, how in settled] == [Settlement.ACKNOWLEDGE]
        assert rules(consumer.history.classify(documents(["a"]), trigger("orders"))) == ["R11"]
        assert "whose work has not ended" in consumer.history.audit.show(1)["message"]


def test_returned_coroutine_is_released_if_the_policy_says(tmp_path: Path) -> None:
    settled: list[Any] = []
    with dh.Consumer(tmp_path / "orders.history", trigger("orders")) as consumer:
        worker = Worker(consumer, lambda message: ship(message), settled.extend, on_error="release")
        worker.start()
        worker.put([Message("a", b"1", 0, None)])
        eventually(lambda: bool(settled), "it is settled")
        worker.stop()
        eventually(lambda: not worker.is_running, "it ends")
        assert [how for _, how in settled] == [Settlement.RETURN]
        assert rules(consumer.history.classify(documents(["a"]), trigger("orders"))) == ["R8"]


def test_what_was_not_run_is_new_if_a_dead_letter_is_not_taken(tmp_path: Path) -> None:
    def fails(message: Message) -> None:
        if message.id == "b":
            raise ValueError("poison")

    def settle(some: Any) -> None:
        if any(how is Settlement.DEAD_LETTER for _, how in some):
            raise OSError("the topic takes no such message")

    batch = [Message(one, b"1", 0, None) for one in "abcd"]
    with dh.Consumer(tmp_path / "orders.history", trigger("orders")) as consumer:
        worker = Worker(consumer, fails, settle, on_error=Retry(1, then="dead_letter"))
        for message in batch:
            worker.put([message])
        worker.start()
        eventually(lambda: not worker.is_running, "it ends")
        assert isinstance(worker.failure, OSError)
        found = consumer.history.classify(documents([*"abcd"]), trigger("orders"))
        assert statuses(found)[1:] == ["NEW", "NEW", "NEW"]


def incoming(settled: list[str], message_id: Any) -> Any:
    """A message as aio-pika has it."""

    async def ack() -> None:
        settled.append("ack")

    async def reject(*, requeue: bool) -> None:
        settled.append(f"reject requeue={requeue}")

    return SimpleNamespace(
        message_id=message_id,
        redelivered=False,
        headers={},
        body=b"1",
        delivery_tag=1,
        channel=SimpleNamespace(is_closed=False),
        ack=ack,
        reject=reject,
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("service", "said"),
    [(lambda _: None, "returned a NoneType, which cannot be awaited"), (Ships().ship, ""), (lambda m: ship(m), "")],
)
def test_service_of_coroutines_ends_or_fails(tmp_path: Path, service: Any, said: str) -> None:
    settled: list[str] = []

    async def main() -> None:
        one = aio_rabbitmq.Receiver(tmp_path / "orders.history", trigger("orders"), "orders", service)
        await one._handle(incoming(settled, "a"))
        assert one._failure is None
        one.consumer.close()

    asyncio.run(main())
    assert settled == ["ack"]
    assert kept_in_audit(tmp_path) == 1
    with dh.open(tmp_path / "orders.history") as history:
        assert (said or "AssertionError") in history.audit.show(1)["message"]


@pytest.mark.filterwarnings("error")
def test_coroutine_that_returns_a_coroutine_has_failed(tmp_path: Path) -> None:
    settled: list[str] = []

    async def forgets(message: Message) -> Any:
        return ship(message)

    async def main() -> None:
        one = aio_rabbitmq.Receiver(tmp_path / "orders.history", trigger("orders"), "orders", forgets)
        await one._handle(incoming(settled, "a"))
        one.consumer.close()

    asyncio.run(main())
    with dh.open(tmp_path / "orders.history") as history:
        assert "returned a coroutine, whose work has not ended" in history.audit.show(1)["message"]
