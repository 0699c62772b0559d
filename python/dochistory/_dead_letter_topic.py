"""The topic of a Kafka to which records go that nobody can process."""

from collections.abc import Mapping
from typing import Any

import confluent_kafka

import dochistory as dh
from dochistory.receiving import Message

_ANSWERS = 60.0
"""How long the brokers may take, in seconds."""
_SHARED = (
    "bootstrap.servers",
    "metadata.broker.list",
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl.",
    "enable.sasl.",
    "message.max.bytes",
)
"""How the names begin of settings that say where the brokers are, who is allowed in, and how long a record may be."""
_OWN = {"enable.idempotence": True, "message.max.bytes": 1_000_000_000}
"""What the brokers delivered may be longer than a client sends by default. They say what is too long."""


class DeadLetterTopic:
    """Writes records into a topic.

    Args:
        topic: its name.
        config: the settings of the client that received the records.
    """

    def __init__(self, topic: str, config: Mapping[str, Any]) -> None:
        self._topic = topic
        self._config = _OWN | {name: value for name, value in config.items() if name.startswith(_SHARED)}
        self._producer: Any = None

    def send(self, message: Message) -> None:
        """Write a record: it is durable on return.

        Args:
            message: the record as it was received.

        Raises:
            StateError: [DH-STATE] the brokers did not take it.
        """
        if self._producer is None:
            self._producer = confluent_kafka.Producer(self._config)
        failed: list[Any] = []
        record = message.raw
        try:
            self._producer.produce(
                self._topic,
                record.value(),
                record.key(),
                headers=record.headers(),
                on_delivery=lambda error, _: failed.append(error) if error is not None else None,
            )
        except (confluent_kafka.KafkaException, BufferError) as error:
            failed.append(error)
        if self._producer.flush(_ANSWERS) or failed:
            why = "; ".join(map(str, failed)) or f"no broker answered in {_ANSWERS:g} s"
            raise dh.StateError(
                f"[DH-STATE] the dead letter {message.id!r} cannot be written to topic {self._topic}: {why}"
            )
