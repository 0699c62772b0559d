"""Damaged ids of messages: one stops no receiver, and all of them put no stream in doubt silently."""

# ruff: noqa: SLF001 - deliveries are handed to a receiver without a broker

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dochistory as dh
from dochistory import aio_rabbitmq, kafka, kafka_share, rabbitmq, sqs, stomp
from dochistory.receiving import Message, Worker
from tests.brokers.campaign import eventually, kept_in_audit
from tests.brokers.test_services import of_topic
from tests.support import documents, statuses, trigger

DAMAGED = {"no UTF-8": b"\xff", "number": 7, "surrogate": "\ud800", "raises": KeyError("order")}


def id_in(delivered: Any) -> object:
    """An `id=` that finds what the test put into a delivery, or raises it."""
    where = delivered[1] if isinstance(delivered, tuple) else delivered
    found = where["id"] if isinstance(where, dict) else where.id
    if isinstance(found, Exception):
        raise found
    return found


def from_rabbitmq(one: Any, found: object) -> list[Message]:
    method = SimpleNamespace(redelivered=False, delivery_tag=1)
    one._arrives(None, method, SimpleNamespace(headers=None, id=found), b"1")
    arrived, one._arrived = one._arrived, []
    return list(arrived)


def from_stomp(one: Any, found: object) -> list[Message]:
    frame = SimpleNamespace(id=found, headers={"ack": "1", "message-id": "m-1"}, body=b"1")
    return [one._message_of(None, frame)]


def from_client(one: Any, found: object) -> list[Message]:
    """What a receiver hands to its worker, of a client that has one message."""
    arrived: list[Message] = []
    record = SimpleNamespace(
        id=found,
        error=lambda: None,
        topic=lambda: "orders",
        partition=lambda: 0,
        offset=lambda: 0,
        value=lambda: b"1",
        delivery_count=lambda: 1,
    )
    received = {"id": found, "MessageId": "m-1", "ReceiptHandle": "h", "Body": "1"}
    one._client = SimpleNamespace(
        consume=lambda *_: [record],
        poll=lambda *_: [record],
        commit=lambda **_: None,
        receive_message=lambda **_: {"Messages": [received]},
    )
    put, one._worker.put = one._worker.put, arrived.extend
    if isinstance(one, kafka.Receiver):
        one._assigned(None, [SimpleNamespace(topic="orders", partition=0)])
        one._turn()
    else:
        one._receive_some()
    one._worker.put = put
    return arrived


RECEIVERS: dict[str, tuple[Callable[..., Any], Callable[[Any, object], list[Message]]]] = {
    "rabbitmq": (rabbitmq.Receiver, from_rabbitmq),
    "stomp": (stomp.Receiver, from_stomp),
    "kafka": (partial(of_topic, kafka.Receiver, config={}), from_client),
    "kafka_share": (partial(of_topic, kafka_share.Receiver, config={}), from_client),
    "sqs": (partial(sqs.Receiver, client=object()), from_client),
}


def is_settled(worker: Worker, settled: Sequence[object], size: int) -> bool:
    return len(settled) == size or worker.failure is not None


@pytest.fixture(params=RECEIVERS)
def receive(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., list[str | None]]:
    """Gives a receiver messages with these ids, so many at a time; answers the ids of those that ran."""
    kind, deliver = RECEIVERS[request.param]

    def receive(batches: Sequence[Sequence[object]], of: dh.Trigger | None = None) -> list[str | None]:
        ran: list[str | None] = []
        settled: list[Any] = []
        one = kind(tmp_path / "orders.history", of or trigger("orders"), "orders", lambda m: ran.append(m.id), id=id_in)
        worker = one._worker
        worker._settle = worker._ender._settle = settled.extend
        worker._is_current = lambda _: True
        arrived = [[message for found in batch for message in deliver(one, found)] for batch in batches]
        with one.consumer:
            worker.start()
            size = 0
            for batch in arrived:
                worker.put(batch)
                size += len(batch)
                eventually(partial(is_settled, worker, settled, size), "it is settled")
            worker.stop()
            eventually(lambda: not worker.is_running, "it ends")
        if worker.failure is not None:
            raise worker.failure
        return ran

    return receive


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_id_counts_as_none(
    tmp_path: Path, receive: Callable[..., Any], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    bad = DAMAGED[how]
    with caplog.at_level(logging.WARNING, "dochistory.receiving"):
        # Alone at first, between others, and many at once.
        assert receive([[bad], ["a", bad, "b"], [bad, bad], ["c"]]) == ["a", "b", "c"]
    assert kept_in_audit(tmp_path) == 4
    with dh.open(tmp_path / "orders.history") as history:
        assert history.audit.list(rule="R3").num_rows == 4
        assert statuses(history.classify(documents(["a", "b", "c"]), trigger("orders"))) == ["DUPLICATE"] * 3
    said = [record.getMessage() for record in caplog.records if "its id cannot be had" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("message ")
    assert "KeyError: 'order'" in said[0] if how == "raises" else "SchemaError: [DH-SCHEMA]" in said[0]


@pytest.mark.parametrize("bad", [KeyError("order"), None], ids=["raises", "none"])
def test_id_that_always_fails_ends_the_receiver(tmp_path: Path, receive: Callable[..., Any], bad: Any) -> None:
    reason = "" if bad is None else r" \(KeyError: 'order'\)"
    with pytest.raises(dh.SchemaError, match=rf"\[DH-SCHEMA\] none of the first 3 messages has an id{reason},"):
        receive([[bad, bad, bad]])
    assert kept_in_audit(tmp_path) == 0
    with pytest.raises(dh.SchemaError, match=rf"\[DH-SCHEMA\] none of the first 2 messages has an id{reason},"):
        receive([[bad], [bad]])
    assert kept_in_audit(tmp_path) == 1


def test_messages_without_ids_run_on_if_that_is_allowed(tmp_path: Path, receive: Callable[..., Any]) -> None:
    of = trigger("orders", without_ids="in_doubt")
    assert receive([[None, KeyError("order")], [None]], of) == []
    assert kept_in_audit(tmp_path) == 3


def test_suspended_message_without_id_counts_once(tmp_path: Path, receive: Callable[..., Any]) -> None:
    suspension = dh.Suspension(tmp_path / "orders.history", trigger("orders"))
    suspension.suspend("the shop is moving")
    looked: list[bool] = []

    def resume(*_: Any, **__: Any) -> bool:
        looked.append(True)
        if len(looked) == 2:
            suspension.resume()
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dh.Consumer, "wait", resume)
        assert receive([[None], ["a"]]) == ["a"]
    assert kept_in_audit(tmp_path) == 1


def incoming(found: object) -> Any:
    """A message as aio-pika has it."""

    async def settle(**_: Any) -> None:
        pass

    channel = SimpleNamespace(is_closed=False)
    given = {"redelivered": False, "headers": {}, "body": b"1", "delivery_tag": 1, "message_id": None}
    return SimpleNamespace(id=found, channel=channel, ack=settle, reject=settle, **given)


def receive_in_loop(directory: Path, given: Sequence[object]) -> tuple[list[str | None], BaseException | None]:
    """As `receive`, of coroutines; also answers why the receiver ended."""
    ran: list[str | None] = []

    async def service(message: Message) -> None:
        ran.append(message.id)

    async def main() -> BaseException | None:
        one = aio_rabbitmq.Receiver(directory / "orders.history", trigger("orders"), "orders", service, id=id_in)
        for found in given:
            await one._handle(incoming(found))
        one.consumer.close()
        return one._failure

    return ran, asyncio.run(main())


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_id_counts_as_none_for_coroutines(tmp_path: Path, how: str) -> None:
    bad = DAMAGED[how]
    assert receive_in_loop(tmp_path, [bad, "a", bad, bad, "b"]) == (["a", "b"], None)
    assert kept_in_audit(tmp_path) == 3


def test_id_that_always_fails_ends_a_loop(tmp_path: Path) -> None:
    _, failure = receive_in_loop(tmp_path, [KeyError("order")] * 2)
    assert isinstance(failure, dh.SchemaError)
    assert "none of the first 2 messages has an id (KeyError: 'order')" in str(failure)
    assert kept_in_audit(tmp_path) == 1
