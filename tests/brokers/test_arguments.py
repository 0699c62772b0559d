"""Arguments of receivers that make no sense: refused by the constructor, which names the argument."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pika.exceptions
import pytest
from stomp.exception import ConnectFailedException

import dochistory as dh
from dochistory import aio_rabbitmq, kafka, kafka_share, rabbitmq, sqs, stomp
from tests.support import trigger

RECEIVERS: dict[str, Callable[..., Any]] = {
    "rabbitmq": partial(rabbitmq.Receiver, queue="orders"),
    "aio_rabbitmq": partial(aio_rabbitmq.Receiver, queue="orders"),
    "stomp": partial(stomp.Receiver, destination="orders", id=print),
    "kafka": partial(kafka.Receiver, topics=["orders"], id=print, config={}),
    "kafka_share": partial(kafka_share.Receiver, topics=["orders"], id=print, config={}),
    "sqs": partial(sqs.Receiver, queue="orders", id=print, client=object()),
}


def receiver(name: str, directory: Path, **given: Any) -> Any:
    return RECEIVERS[name](**{"history": directory / "h", "trigger": trigger(), "service": print, **given})


@pytest.mark.parametrize("name", RECEIVERS)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"trigger": "orders"}, "trigger is 'orders'; needed is a dochistory.Trigger"),
        ({"id": "message_id"}, "id is 'message_id'; allowed is a function"),
        ({"on_error": "again"}, "on_error is 'again'; allowed is"),
    ],
    ids=["trigger", "id", "on_error"],
)
def test_argument_of_any_receiver_is_named(tmp_path: Path, name: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(dh.ConfigError, match=rf"^\[DH-CONFIG\] {said}"):
        receiver(name, tmp_path, **given)


URLS = ["localhost", "http://localhost", "amqp://localhost:abc"]


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        *((name, {"url": url}, "url is not an AMQP URL") for name in ("rabbitmq", "aio_rabbitmq") for url in URLS),
        ("rabbitmq", {"url": "amqp://h?heartbeat=x"}, "url is not an AMQP URL: Invalid heartbeat"),
        *(
            (name, {"topics": "orders"}, "topics is 'orders'; allowed is a list of")
            for name in ("kafka", "kafka_share")
        ),
        *(("stomp", {"heartbeats": given}, "heartbeats is ") for given in (1000, [1000], [1000, -1], ["1 s", 1000])),
    ],
)
def test_argument_of_one_receiver_is_named(tmp_path: Path, name: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(dh.ConfigError, match=rf"^\[DH-CONFIG\] {said}"):
        receiver(name, tmp_path, **given)


def test_url_that_is_refused_shows_no_password(tmp_path: Path) -> None:
    with pytest.raises(dh.ConfigError) as refused:
        receiver("aio_rabbitmq", tmp_path, url="http://me:secret@localhost")
    assert "secret" not in str(refused.value)


def test_heartbeats_may_be_a_list(tmp_path: Path) -> None:
    one = receiver("stomp", tmp_path, heartbeats=[1000, 2000], brokers=[("127.0.0.1", 9)])
    with pytest.raises(ConnectFailedException):
        one.run()


def test_receiver_without_a_broker_says_where_it_looked(tmp_path: Path) -> None:
    one = receiver("rabbitmq", tmp_path, url="amqp://127.0.0.1:9?connection_attempts=1")
    with pytest.raises(pika.exceptions.AMQPConnectionError, match=r"queue 'orders': .*host=127.0.0.1 port=9 .*refused"):
        one.run()


def test_receiver_runs_once(tmp_path: Path) -> None:
    one = receiver("rabbitmq", tmp_path, url="amqp://127.0.0.1:9?connection_attempts=1")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        one.run()
    with pytest.raises(dh.StateError, match="this receiver has run"):
        one.run()


def test_receiver_of_coroutines_runs_once(tmp_path: Path) -> None:
    async def service(_: object) -> None:
        pass

    one = receiver("aio_rabbitmq", tmp_path, url="amqp://127.0.0.1:9", service=service)
    with pytest.raises(OSError, match="9"):
        asyncio.run(one.run())
    with pytest.raises(dh.StateError, match="this receiver has run"):
        asyncio.run(one.run())
