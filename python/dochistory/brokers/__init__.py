"""Redelivery counts of brokers, converted to the one scale that triggers read.

That scale is: 0 for the first delivery, above 0 for a further one, -1 for unknown. There is a
function for each kind of broker, and it works on columns in three ways:

```python
brokers.sqs(table["ApproximateReceiveCount"])       # Arrow, Polars, pandas or a list: an Arrow int32 column
brokers.sqs(df["attributes.ApproximateReceiveCount"])  # a Spark column: an int column of Spark, no Python worker
brokers.sqs(["1", "3", None])                       # -> [0, 2, -1]
```

The result is never null, and has as many rows as the argument. Counts may be integers, floats
without a fraction, or text, as brokers' libraries hand them over; text that is no number, a
fraction, and a number below the broker's first one are unknown (-1), so that a damaged header stops
no stream. A column of another type is a `SchemaError`.

**The common trap.** Brokers count in memory, at least in part, and may start again from the first
count after a crash or a change of leader: the count of a message that was delivered before can read
"first". So with `use_history` a count never decides anything; without it, a trigger is no more
reliable than its broker's count.

This module imports no Spark until it is given a Spark column.
"""

from typing import TYPE_CHECKING, Any, overload

import dochistory as dh
from dochistory.brokers.arrow import ArrowColumns
from dochistory.brokers.columns import UNKNOWN, Columns
from dochistory.brokers.spark import SparkColumns

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = [
    "amqp",
    "azure_service_bus",
    "jms",
    "kafka_consumer_group",
    "kafka_share_group",
    "nats_jetstream",
    "pubsub",
    "pulsar",
    "rabbitmq_classic",
    "rabbitmq_quorum",
    "sqs",
    "stomp",
]


@overload
def jms(delivery_count: "Column") -> "Column": ...
@overload
def jms(delivery_count: Any) -> Any: ...
def jms(delivery_count: Any) -> Any:
    """JMS: the property `JMSXDeliveryCount`, 1 at the first delivery.

    Traps: a trigger of kind `jms` takes the property itself, in its column `delivery_count`;
    convert only for a `messaging` trigger. The property is optional before JMS 2.0, and a provider
    may count from its last restart.

    Args:
        delivery_count: the property; null where the message has none.

    Returns:
        The count less one; -1 where the property is absent, or below 1.
    """
    return _ordinal(delivery_count, first=1)


@overload
def amqp(delivery_count: "Column") -> "Column": ...
@overload
def amqp(delivery_count: Any) -> Any: ...
def amqp(delivery_count: Any) -> Any:
    """AMQP 1.0: the field `delivery-count` of the message's header, 0 at the first delivery.

    Traps: the field counts *failed* deliveries. One that a receiver released, or lost with its
    connection, need not count, so 0 does not prove that nobody has seen the message.

    Args:
        delivery_count: the field; null where the message has no header.

    Returns:
        The count; 0 where it is absent, which is the field's default by the standard; -1 below 0.
    """
    return _ordinal(delivery_count, first=0, absent=0)


@overload
def rabbitmq_quorum(
    delivery_count: "Column", redelivered: "Column | None" = None, acquired_count: "Column | None" = None
) -> "Column": ...
@overload
def rabbitmq_quorum(delivery_count: Any, redelivered: Any = None, acquired_count: Any = None) -> Any: ...
def rabbitmq_quorum(delivery_count: Any, redelivered: Any = None, acquired_count: Any = None) -> Any:
    """RabbitMQ, quorum queues: the header `x-delivery-count`, absent at the first delivery.

    Traps: from RabbitMQ 4.3 on `x-delivery-count` counts failures only: a message that was returned
    by `basic.nack`, or released, comes again without it. `x-acquired-count` counts every time that
    a consumer got the message, so give both. Give the flag `redelivered` of the delivery too: it
    shows a further delivery that no header counts. Headers are lost when a message is published
    again, for example by dead-lettering by hand.

    Args:
        delivery_count: the header `x-delivery-count`; null where it is absent.
        redelivered: the delivery's flag, boolean or text; leave it out if you do not have it.
        acquired_count: the header `x-acquired-count` (RabbitMQ 4.3 and later); null where it is
            absent.

    Returns:
        The larger of both headers, 0 where they are absent, and at least 1 where `redelivered` is
        true; -1 where a header is no count, unless the flag or the other header shows more.
    """
    made = _backend(delivery_count, redelivered, acquired_count)
    counts = [made.ordinal(delivery_count, 0, 0)]
    if acquired_count is not None:
        counts.append(made.ordinal(acquired_count, 0, 0))
    # An unreadable header counts more than "absent, so 0", but less than a sign of a redelivery.
    return made.combined(counts, None if redelivered is None else made.flag(redelivered))


@overload
def rabbitmq_classic(redelivered: "Column") -> "Column": ...
@overload
def rabbitmq_classic(redelivered: Any) -> Any: ...
def rabbitmq_classic(redelivered: Any) -> Any:
    """RabbitMQ, classic queues: the flag `redelivered` of the delivery; nothing is counted.

    Traps: the flag says that the message *may* have been delivered before, not that anybody saw it.
    It is lost when a broker without a durable copy restarts, and when a message is published again.

    Args:
        redelivered: the flag, boolean, 0 and 1, or text (`true`, `false`).

    Returns:
        1 where it is true, 0 where it is false, -1 where it is absent.
    """
    return _backend(redelivered).flag(redelivered)


@overload
def kafka_consumer_group(records: "Column") -> "Column": ...
@overload
def kafka_consumer_group(records: Any) -> Any: ...
def kafka_consumer_group(records: Any) -> Any:
    """Kafka, consumer groups: nothing is counted, so the count is always unknown.

    Traps: neither a low offset nor a committed one shows that a record was not handed out before; a
    group that lost its commits reads everything again. Use the history.

    Args:
        records: any column of the records, the key or the offset, say; only its length counts.

    Returns:
        -1 for every row.
    """
    return _backend(records).constant(records, UNKNOWN)


@overload
def kafka_share_group(delivery_count: "Column") -> "Column": ...
@overload
def kafka_share_group(delivery_count: Any) -> Any: ...
def kafka_share_group(delivery_count: Any) -> Any:
    """Kafka, share groups (`KafkaShareConsumer`): the record's `deliveryCount`, 1 at the first delivery.

    Traps: the count belongs to the share group, so another group, or a group whose start offset was
    reset, counts from 1 again. The broker may lose the last increments when the group's coordinator
    fails over. Records that are read by a consumer group have no count: use `kafka_consumer_group`.

    Args:
        delivery_count: the record's count; null where there is none.

    Returns:
        The count less one; -1 where it is absent, or below 1.
    """
    return _ordinal(delivery_count, first=1)


@overload
def sqs(approximate_receive_count: "Column") -> "Column": ...
@overload
def sqs(approximate_receive_count: Any) -> Any: ...
def sqs(approximate_receive_count: Any) -> Any:
    """Amazon SQS: the attribute `ApproximateReceiveCount`, 1 at the first receipt.

    Traps: SQS sends the attribute only to a receiver that asks for it by name; without that the
    count is -1 everywhere. It is text. It is approximate, as its name says, and counts receipts:
    looking at a message in the console is one.

    Args:
        approximate_receive_count: the attribute, text or number; null where it was not asked for.

    Returns:
        The count less one; -1 where it is absent, or below 1.
    """
    return _ordinal(approximate_receive_count, first=1)


@overload
def pulsar(redelivery_count: "Column") -> "Column": ...
@overload
def pulsar(redelivery_count: Any) -> Any: ...
def pulsar(redelivery_count: Any) -> Any:
    """Apache Pulsar: the message's `redelivery_count`, 0 at the first delivery.

    Traps: the broker keeps it in memory for shared and key-shared subscriptions only: under an
    exclusive or failover subscription, and after a topic was unloaded or its broker restarted, it
    is 0 again.

    Args:
        redelivery_count: the message's count.

    Returns:
        The count; -1 where it is absent, or below 0.
    """
    return _ordinal(redelivery_count, first=0)


@overload
def nats_jetstream(num_delivered: "Column") -> "Column": ...
@overload
def nats_jetstream(num_delivered: Any) -> Any: ...
def nats_jetstream(num_delivered: Any) -> Any:
    """NATS JetStream: `num_delivered` of the message's metadata, 1 at the first delivery.

    Traps: it belongs to the consumer: a consumer that was deleted and created again counts from 1.
    With replicas the last increments may be lost with the leader. Core NATS delivers at most once
    and has no metadata.

    Args:
        num_delivered: the metadata's count; null for messages of core NATS.

    Returns:
        The count less one; -1 where it is absent, or below 1.
    """
    return _ordinal(num_delivered, first=1)


@overload
def azure_service_bus(delivery_count: "Column") -> "Column": ...
@overload
def azure_service_bus(delivery_count: Any) -> Any: ...
def azure_service_bus(delivery_count: Any) -> Any:
    """Azure Service Bus, Python library: the message's `delivery_count`, 0 at the first delivery.

    Traps: the Python library hands the AMQP header's field over as it is. The libraries for .NET
    and Java, and what the portal shows, count from 1: convert columns that such a program wrote
    with `kafka_share_group` or `jms`, not with this. A message that was received and deleted, or
    deferred, is not counted.

    Args:
        delivery_count: the message's count; null where it has no header.

    Returns:
        The count; -1 where it is absent, or below 0.
    """
    return _ordinal(delivery_count, first=0)


@overload
def pubsub(delivery_attempt: "Column") -> "Column": ...
@overload
def pubsub(delivery_attempt: Any) -> Any: ...
def pubsub(delivery_attempt: Any) -> Any:
    """Google Cloud Pub/Sub: the message's `delivery_attempt`, 1 at the first delivery.

    Traps: it is counted only where the subscription has a dead-letter policy; otherwise it is
    absent, or 0 in libraries that know no null. It is approximate, and counts expired deadlines as
    well as refusals.

    Args:
        delivery_attempt: the message's attempt.

    Returns:
        The attempt less one; -1 where it is absent, or below 1.
    """
    return _ordinal(delivery_attempt, first=1)


@overload
def stomp(redelivered: "Column", delivery_count: "Column | None" = None) -> "Column": ...
@overload
def stomp(redelivered: Any, delivery_count: Any = None) -> Any: ...
def stomp(redelivered: Any, delivery_count: Any = None) -> Any:
    """STOMP (Artemis, ActiveMQ Classic): the header `redelivered`, and `JMSXDeliveryCount` where it is sent.

    Traps: Artemis sends `redelivered` only, `true` or `false`; a message that three consumers lost
    is `true`, as one that was lost once. ActiveMQ Classic leaves it away at the first delivery. The
    header `message-id` is no id: Artemis gives the same message another one at each redelivery.

    Args:
        redelivered: the header, boolean or text; null where it is absent.
        delivery_count: the header `JMSXDeliveryCount`, 1 at the first delivery; leave it out if
            you do not have it.

    Returns:
        The larger of the count less one and the flag; -1 where neither says anything.
    """
    made = _backend(redelivered, delivery_count)
    flag = made.flag(redelivered)
    return flag if delivery_count is None else made.largest(made.ordinal(delivery_count, 1, UNKNOWN), flag)


def _ordinal(values: Any, *, first: int, absent: int = UNKNOWN) -> Any:
    return _backend(values).ordinal(values, first, absent)


def _backend(*values: Any) -> Columns:
    spark = [_is_spark_column(value) for value in values if value is not None]
    if any(spark) and not all(spark):
        raise dh.SchemaError("[DH-SCHEMA] the arguments are Spark columns and others: give columns of one kind")
    return SparkColumns() if any(spark) else ArrowColumns()


def _is_spark_column(value: object) -> bool:
    # By name, without importing Spark. Classic and Connect have their own classes under pyspark.sql.
    return any(base.__name__ == "Column" and base.__module__.startswith("pyspark.sql.") for base in type(value).__mro__)
