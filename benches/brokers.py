"""What receivers cost beside no deduplication, on real brokers: `python -m benches.brokers`.

Each way receives the same number of messages from a RabbitMQ or Kafka that runs here, with a
service that does nothing. All ways take turns. A rate is that of all messages but the first tenth,
for which it connects and opens its history.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pika
import pyarrow as pa
from tests.servers.kafka import server as kafka_server
from tests.servers.rabbitmq import server as rabbitmq_server

import dochistory as dh
from dochistory import kafka, rabbitmq

TRIGGER = dh.Trigger("orders", processing_mode="serial")
Way = Callable[[Path, "Meter"], None]
"""Receives until the meter has seen all, with a history in this directory."""


class Meter:
    """A service that does nothing, and says how fast messages came."""

    def __init__(self, messages: int) -> None:
        self._messages, self._first = messages, messages // 10
        self._seen, self._started, self._ended = 0, 0.0, 0.0
        self.is_over = threading.Event()

    def __call__(self, _message: object) -> None:
        self._seen += 1
        if self._seen == self._first:
            self._started = time.perf_counter()
        elif self._seen == self._messages:
            self._ended = time.perf_counter()
            self.is_over.set()

    @property
    def rate(self) -> float:
        """Messages a second."""
        return (self._messages - self._first) / (self._ended - self._started)


def receive(one: Any, meter: Meter) -> None:
    """Run a receiver until the meter has seen all."""
    thread = threading.Thread(target=one.run)
    thread.start()
    meter.is_over.wait()
    one.stop()
    thread.join()


def rabbitmq_ways(url: str, queue: str, prefetch: int) -> dict[str, Way]:
    """A queue with this prefetch."""

    def plainly(meter: Meter, *, together: bool) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=prefetch)
        last = 0

        def arrives(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            nonlocal last
            meter(body)
            last = method.delivery_tag
            if not together:
                channel.basic_ack(last)

        channel.basic_consume(queue, arrives)
        while not meter.is_over.is_set():
            connection.process_data_events(time_limit=0.2)
            if together and last:
                channel.basic_ack(last, multiple=True)
                last = 0
        connection.close()

    def deduplicated(directory: Path, meter: Meter) -> None:
        receive(rabbitmq.Receiver(directory, TRIGGER, queue, meter, url=url, prefetch=prefetch), meter)

    return {
        "none, each acknowledged": lambda _, meter: plainly(meter, together=False),
        "none, acknowledged together": lambda _, meter: plainly(meter, together=True),
        "rabbitmq.Receiver": deduplicated,
    }


def fill_queue(url: str, queue: str, messages: int) -> None:
    """Publish messages, and wait until they are in the queue."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    for _ in range(messages):
        properties = pika.BasicProperties(message_id=str(uuid.uuid4()), delivery_mode=2)
        channel.basic_publish("", queue, b"x" * 64, properties)
    while channel.queue_declare(queue, passive=True).method.message_count < messages:
        time.sleep(0.05)
    connection.close()


def kafka_ways(servers: str, topic: str, batch: int) -> dict[str, Way]:
    """A topic in batches of this size; each run is a group of its own."""

    def config() -> dict[str, Any]:
        return {"bootstrap.servers": servers, "group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest"}

    @contextlib.contextmanager
    def batches(meter: Meter) -> Iterator[Iterator[list[Any]]]:
        client = confluent_kafka.Consumer({**config(), "enable.auto.commit": False})
        client.subscribe([topic])

        def received() -> Iterator[list[Any]]:
            while not meter.is_over.is_set():
                if records := client.consume(batch, 0.5):
                    yield records
                    client.commit(asynchronous=False)

        yield received()
        client.close()

    def plainly(_directory: Path, meter: Meter) -> None:
        with batches(meter) as received:
            for records in received:
                for record in records:
                    meter(record.value())

    def begun(directory: Path, meter: Meter) -> None:
        of: Callable[[Any], Any] = kafka.header("id")
        with batches(meter) as received, dh.Consumer(directory, TRIGGER) as consumer:
            for records in received:
                ids = pa.array([str(of(record), "utf-8") for record in records], pa.string())
                claim = consumer.begin(pa.table({"uuid": ids}))
                new = claim.verdicts["action"].to_pylist()
                for record, action in zip(records, new, strict=True):
                    if action == "PROCESS":
                        meter(record.value())
                claim.complete()

    def deduplicated(directory: Path, meter: Meter) -> None:
        one = kafka.Receiver(directory, TRIGGER, [topic], meter, id=kafka.header("id"), config=config(), most=batch)
        receive(one, meter)

    return {"none": plainly, "Consumer.begin": begun, "kafka.Receiver": deduplicated}


def fill_topic(servers: str, topic: str, messages: int) -> None:
    """Produce messages."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": messages + 1})
    for _ in range(messages):
        producer.produce(topic, b"x" * 64, headers=[("id", str(uuid.uuid4()).encode())])
    if producer.flush(120):
        raise RuntimeError("Kafka did not take all messages")


def in_turns(title: str, ways: dict[str, Way], turns: int, messages: int, fill: Callable[[], None]) -> None:
    """Measure all ways in turns, and print the medians; of the ratios, those within a turn."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, way in ways.items():
            fill()
            with tempfile.TemporaryDirectory(prefix="dochistory-brokers-") as directory:
                meter = Meter(messages)
                way(Path(directory) / "orders.history", meter)
                rates[name].append(meter.rate)
    print(title)
    plain = rates[next(iter(ways))]
    for name, found in rates.items():
        ratio = statistics.median(one / other for one, other in zip(found, plain, strict=True))
        spread = f"{min(found):,.0f} … {max(found):,.0f}"
        print(f"  {name:30} {statistics.median(found):10,.0f}/s {spread:>22} {ratio:6.2f}", flush=True)


def main() -> None:
    """Measure both brokers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", choices=["rabbitmq", "kafka"], action="append")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--messages", type=int, default=20_000, help="of RabbitMQ; Kafka gets ten times as many")
    options = parser.parse_args()
    asked, messages = options.broker or ["rabbitmq", "kafka"], options.messages
    with tempfile.TemporaryDirectory() as state:
        os.environ["DOCHISTORY_STATE"] = state
        if "rabbitmq" in asked:
            with rabbitmq_server() as broker:
                for prefetch in (500, 50):
                    queue = f"prefetch-{prefetch}"
                    ways = rabbitmq_ways(broker.url, queue, prefetch)
                    fill = lambda queue=queue: fill_queue(broker.url, queue, messages)  # noqa: E731
                    in_turns(f"RabbitMQ, quorum queue, prefetch {prefetch}", ways, options.turns, messages, fill)
        if "kafka" in asked:
            with kafka_server() as one:
                one.topic("orders", 1)
                fill_topic(one.servers, "orders", 10 * messages)
                ways = kafka_ways(one.servers, "orders", 5_000)
                in_turns("Kafka, batches of 5,000", ways, options.turns, 10 * messages, lambda: None)


if __name__ == "__main__":
    main()
