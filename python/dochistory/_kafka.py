"""What Kafka's client library hands over instead of records, for both receivers of Kafka."""

from typing import Any

import confluent_kafka

_PASSING = (
    confluent_kafka.KafkaError._PARTITION_EOF,  # noqa: SLF001 - the client library's own name
    confluent_kafka.KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    confluent_kafka.KafkaError._TRANSPORT,  # noqa: SLF001
    confluent_kafka.KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001
)
"""Errors that the client library gets over by itself."""


def is_error(record: Any) -> bool:
    """Whether this is no record, but an error that passes.

    Raises:
        KafkaException: it is an error that does not.
    """
    error = record.error()
    if error is None:
        return False
    if not passes(error):
        raise confluent_kafka.KafkaException(error)
    return True


def passes(error: Any) -> bool:
    """Whether the client library gets over an error by itself."""
    return not error.fatal() and bool(error.retriable() or error.code() in _PASSING)
