"""What RabbitMQ says of a delivery, for any client library."""

from collections.abc import Mapping
from typing import Any


def redeliveries(is_redelivered: bool, headers: Mapping[str, Any] | None) -> int:
    """As `brokers.rabbitmq_quorum` and `brokers.rabbitmq_classic`: the largest of what the broker says.

    Args:
        is_redelivered: the delivery's flag.
        headers: the message's headers.
    """
    said = ((headers or {}).get(name) for name in ("x-delivery-count", "x-acquired-count"))
    return max(int(is_redelivered), *(count if isinstance(count, int) else 0 for count in said))
