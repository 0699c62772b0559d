"""What each broker's count is on our scale: one table for the Arrow functions and for the Spark expressions."""

from typing import Any, NamedTuple


class Row(NamedTuple):
    """Columns as a broker's library gives them, and the counts that they stand for."""

    function: str
    columns: tuple[list[Any], ...]
    counts: list[int]


ABSENT = None

ROWS = [
    Row("jms", ([1, 2, 7, ABSENT, 0, -1],), [0, 1, 6, -1, -1, -1]),
    Row("amqp", ([0, 1, 7, ABSENT, -1],), [0, 1, 7, 0, -1]),
    Row("rabbitmq_quorum", ([ABSENT, 1, 7, 0, -1],), [0, 1, 7, 0, -1]),
    Row(
        "rabbitmq_quorum",
        ([ABSENT, ABSENT, ABSENT, 3, 0, -1], [False, True, ABSENT, True, True, False]),
        [0, 1, 0, 3, 1, -1],
    ),
    Row(
        "rabbitmq_quorum",
        ([ABSENT, ABSENT, 1, ABSENT, -1, -1], [False, True, True, True, False, True], [ABSENT, 2, 4, ABSENT, 3, -1]),
        [0, 2, 4, 1, 3, 1],
    ),
    Row("rabbitmq_classic", ([False, True, ABSENT],), [0, 1, -1]),
    Row("kafka_consumer_group", ([0, 17, ABSENT],), [-1, -1, -1]),
    Row("kafka_share_group", ([1, 2, 7, ABSENT, 0],), [0, 1, 6, -1, -1]),
    Row("sqs", (["1", "2", "7", ABSENT, "0", "", "many", " 3 ", "1.5"],), [0, 1, 6, -1, -1, -1, -1, 2, -1]),
    Row("pulsar", ([0, 1, 7, ABSENT, -1],), [0, 1, 7, -1, -1]),
    Row("nats_jetstream", ([1, 2, 7, ABSENT, 0],), [0, 1, 6, -1, -1]),
    Row("azure_service_bus", ([0, 1, 7, ABSENT, -1],), [0, 1, 7, -1, -1]),
    Row("pubsub", ([1, 2, 7, ABSENT, 0],), [0, 1, 6, -1, -1]),
    Row("stomp", (["true", "false", ABSENT, "?"],), [1, 0, -1, -1]),
    Row(
        "stomp",
        (["true", "false", ABSENT, ABSENT, "false", "true"], ["3", "1", "1", ABSENT, "many", ABSENT]),
        [2, 0, 0, -1, 0, 1],
    ),
    Row("sqs", (["99999999999", "+2"],), [2_147_483_647, 1]),
    Row("amqp", ([0.0, 3.0, 2.5, float("nan")],), [0, 3, -1, 0]),
    Row("rabbitmq_classic", (["true", "False", "?", ABSENT],), [1, 0, -1, -1]),
]
