"""What Kafka's client library hands over instead of records, for both receivers of Kafka."""

import threading
from collections.abc import Callable
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


class Unlimited:
    """Calls of a client that have no limit of their own, one after the other.

    Each is made in a thread of its own, which is left behind where it takes longer.
    """

    def __init__(self) -> None:
        self._alone = threading.Lock()

    def within(self, seconds: float, call: Callable[[], object]) -> bool:
        """Make a call, and wait for it.

        Args:
            seconds: how long.
            call: what is called; what it raises meanwhile is raised.

        Returns:
            bool: whether it has ended.
        """
        raised: list[BaseException] = []

        def run() -> None:
            try:
                with self._alone:
                    call()
            except BaseException as error:  # noqa: BLE001 - raised below
                raised.append(error)

        thread = threading.Thread(target=run, name="dochistory-kafka", daemon=True)
        thread.start()
        thread.join(seconds)
        if raised:
            raise raised[0]
        return not thread.is_alive()


def passes(error: Any) -> bool:
    """Whether the client library gets over an error by itself."""
    return not error.fatal() and bool(error.retriable() or error.code() in _PASSING)
