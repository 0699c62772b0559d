"""The count of a single message, for receivers: as the functions of this package say it of columns.

A header can be anybody's: whatever it holds, the answer is a count from -1 (unknown) to
2,147,483,647.
"""

import re
from collections.abc import Mapping
from typing import Any

from dochistory.brokers.columns import LARGEST, NUMBER, UNKNOWN

_NUMBER = re.compile(NUMBER)


def rabbitmq(redelivered: bool, headers: Mapping[str, Any] | None) -> int:
    """As `brokers.rabbitmq_quorum`, with all that the broker says.

    Args:
        redelivered: the delivery's flag.
        headers: the message's headers.
    """
    counts = [_ordinal((headers or {}).get(name), 0, 0) for name in ("x-delivery-count", "x-acquired-count")]
    largest = max(*counts, int(redelivered))
    return UNKNOWN if largest == 0 and UNKNOWN in counts else largest


def kafka_share_group(delivery_count: object) -> int:
    """As `brokers.kafka_share_group`."""
    return _ordinal(delivery_count, 1, UNKNOWN)


def sqs(approximate_receive_count: object) -> int:
    """As `brokers.sqs`."""
    return _ordinal(approximate_receive_count, 1, UNKNOWN)


def stomp(headers: Mapping[str, str]) -> int:
    """As `brokers.stomp`.

    Args:
        headers: the message's headers.
    """
    flag = {"true": 1, "1": 1, "false": 0, "0": 0}.get(headers.get("redelivered", "").strip().lower(), UNKNOWN)
    return max(_ordinal(headers.get("JMSXDeliveryCount"), 1, UNKNOWN), flag)


def delivery_count(redelivery_count: int) -> int:
    """The same count where the first delivery is 1, as `jms` triggers read it."""
    return redelivery_count + 1 if redelivery_count >= 0 else UNKNOWN


def _ordinal(value: object, first: int, absent: int) -> int:
    """As `Columns.ordinal`."""
    if value is None or value != value:
        return absent
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if isinstance(value, str) and _NUMBER.match(value):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < first:
        return UNKNOWN
    return min(value - first, LARGEST)
