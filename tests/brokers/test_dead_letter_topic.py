"""Dead letters of Kafka: what the brokers delivered fits, and what cannot be written is an error that says why."""

from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

import dochistory as dh
from dochistory._dead_letter_topic import DeadLetterTopic
from dochistory.receiving import Message


class Refusing:
    """A producer that takes no record."""

    error: BaseException

    def __init__(self, config: dict[str, Any]) -> None:
        Refusing.config = config

    config: dict[str, Any]

    def produce(self, *_: Any, **__: Any) -> None:
        raise self.error

    def flush(self, _: float) -> int:
        return 0


def record(size: int = 1) -> Message:
    raw = SimpleNamespace(value=lambda: b"x" * size, key=lambda: b"k", headers=list)
    return Message("order-1", b"x" * size, 0, raw)


TOO_LARGE = confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE))


@pytest.mark.parametrize("error", [TOO_LARGE, BufferError("the queue is full")], ids=["large", "full"])
def test_a_record_that_is_refused_at_once_is_an_error(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    monkeypatch.setattr(Refusing, "error", error, raising=False)
    monkeypatch.setattr(confluent_kafka, "Producer", Refusing)
    topic = DeadLetterTopic("orders.dead", {"bootstrap.servers": "localhost:1", "group.id": "g"})
    with pytest.raises(
        dh.StateError, match=r"dead letter 'order-1' cannot be written to topic orders\.dead: .*(large|full)"
    ):
        topic.send(record())
    assert "group.id" not in Refusing.config


def test_the_client_does_not_limit_what_brokers_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real client, which has no broker: it takes a record that is longer than a client's own limit."""
    monkeypatch.setattr("dochistory._dead_letter_topic._ANSWERS", 0.1)
    topic = DeadLetterTopic("orders.dead", {"bootstrap.servers": "localhost:1"})
    with pytest.raises(dh.StateError, match=r"no broker answered in 0\.1 s"):
        topic.send(record(5_000_000))
    strict = DeadLetterTopic("orders.dead", {"bootstrap.servers": "localhost:1", "message.max.bytes": 1_000_000})
    with pytest.raises(dh.StateError, match=r"MSG_SIZE_TOO_LARGE"):
        strict.send(record(5_000_000))
