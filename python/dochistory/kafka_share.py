"""Kafka's share groups: many members read one partition, each record processed once. Needs confluent-kafka 2.16.

```python
from dochistory import kafka, kafka_share

kafka_share.Receiver(
    "orders.history", trigger, ["orders"], ship, id=kafka.header("id"),
    config={"bootstrap.servers": "localhost:9092", "group.id": "shipping"},
).run()
```

`docs/kafka.md` says which id, which acknowledgement, and what happens on failure.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import confluent_kafka

import dochistory as dh
from dochistory import _checks, _durations
from dochistory._adapter import Adapter, check_dead_letters, most_held
from dochistory._dead_letter_topic import DeadLetterTopic
from dochistory._kafka import is_error, passes
from dochistory._message_ids import Ids
from dochistory.brokers import single
from dochistory.kafka import position
from dochistory.once import OnError
from dochistory.receiving import LOGGER, Message, Service, Settled, Settlement

__all__ = ["Message", "Receiver"]

_SLICE = 0.1
_ANSWERS = 30.0
"""How long the broker may take to answer at the end, in seconds."""


class Receiver(Adapter):
    """Receives the records of topics as a member of a share group, processes each once, and accepts it.

    The broker locks each record for the member that gets it, for a while. A record whose lock has
    run out is not begun here any more: others get it.

    Args:
        history: the directory of the history.
        trigger: whose records they are; used as `serial`, unless `in_batch` is set.
        topics: the topics.
        service: a plain function, called with each `Message` that is NEW.
        id: called with the record; answers its id: `kafka.header(name)`, `kafka.position`, or your
            own. There is no default: a record's key repeats on purpose.
        config: settings of confluent-kafka's `ShareConsumer`: at least `bootstrap.servers` and
            `group.id`.
        most: the maximum number of records that are held here; their services together must take
            less than the lock. If absent, 100; 10 where the trigger limits the count: what goes
            back counts as a delivery.
        lock: how long the broker locks a record for a member, a duration: the group's
            `share.record.lock.duration.ms`.
        dead_letter_topic: where dead letters go. A `jms` trigger, `max_redelivery_count` and
            `on_error=Retry(…)` need one, unless the policy's `then` says otherwise.
        on_error: what becomes of a record whose service raises.
        claim_ahead: claim as many records as are likely to be processed in this time, in seconds or
            as a duration ("1 s").
        **settings: further settings of `Consumer`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense, or the client library has no share
            groups.
    """

    def __init__(
        self,
        history: str | os.PathLike[str],
        trigger: dh.Trigger,
        topics: Sequence[str],
        service: Service,
        *,
        id: Callable[[Any], object],  # noqa: A002 - what everybody calls it
        config: Mapping[str, Any],
        most: int | None = None,
        lock: str | float = "30 s",
        dead_letter_topic: str | None = None,
        on_error: OnError = "in_doubt",
        claim_ahead: float | str | timedelta = 0.05,
        **settings: Any,
    ) -> None:
        if not hasattr(confluent_kafka, "ShareConsumer"):
            raise dh.ConfigError("[DH-CONFIG] this confluent-kafka has no ShareConsumer: install 2.16 or later")
        _checks.texts("topics", topics)
        check_dead_letters(dead_letter_topic, "dead_letter_topic", on_error, trigger)
        held = most_held("most", most, trigger, 100)
        super().__init__(
            history, trigger, service, on_error=on_error, claim_ahead=claim_ahead, most=held, settings=settings
        )
        self.topics = [*topics]
        self._ids = Ids(id, position)
        self._lock_lasts = _durations.seconds("lock", lock)
        self._config = {"max.poll.records": held, **config, "share.acknowledgement.mode": "explicit"}
        self._dead_letters = DeadLetterTopic(dead_letter_topic, self._config) if dead_letter_topic else None
        self._client: Any = None
        self._held = 0
        self._lock = threading.Lock()
        self._to_settle: list[tuple[Message, Settlement]] = []
        self._has_settled = threading.Event()

    def _receive(self) -> None:
        self._client = confluent_kafka.ShareConsumer(self._config)
        self._client.set_acknowledgement_commit_callback(self._acknowledged)
        self._client.subscribe(self.topics)
        while not self.is_stopping:
            if self._held:
                # The client gives nothing more before all of these are acknowledged.
                self._has_settled.wait(_SLICE)
                self._flush()
            else:
                self._receive_some()

    def _receive_some(self) -> None:
        started = time.monotonic()
        arrived = []
        for record in self._poll():
            if is_error(record):
                continue
            found, damage = self._ids.of(record)
            # The broker has locked it later than that.
            until = started + self._lock_lasts
            count = single.kafka_share_group(record.delivery_count())
            arrived.append(Message(found, record.value() or b"", count, record, until, damage))
        self._held = len(arrived)
        if arrived:
            self._worker.put(arrived)

    def _poll(self) -> Sequence[Any]:
        try:
            records: Sequence[Any] = self._client.poll(_SLICE)
        except confluent_kafka.KafkaException as error:
            # Nothing is polled while records are held: for longer than max.poll.interval.ms, if the
            # trigger is suspended. The group goes on without this member, which joins again.
            if not passes(error.args[0]):
                raise
            _log("%s: %s", self.topics, error)
            return ()
        return records

    def _settle(self, settled: Settled) -> None:
        again = []
        with self._lock:
            for message, how in settled:
                if how is Settlement.RETURN and self._is_current(message) and not self.is_stopping:
                    # Not given back: the broker drops a record that was delivered too often.
                    message.redelivery_count = max(message.redelivery_count, 0) + 1
                    again.append(message)
                else:
                    self._to_settle.append((message, how))
        if again:
            self._worker.put_back(again)
        self._has_settled.set()

    def _flush(self) -> None:
        self._has_settled.clear()
        with self._lock:
            settled, self._to_settle = self._to_settle, []
        for message, how in settled:
            if how is Settlement.DEAD_LETTER and self._dead_letters is not None:
                self._dead_letters.send(message)
            self._acknowledge(message, how)
        self._held -= len(settled)
        if settled:
            self._client.commit_async()

    def _acknowledge(self, message: Message, how: Settlement) -> None:
        of = confluent_kafka.AcknowledgeType
        try:
            self._client.acknowledge(message.raw, of.RELEASE if how is Settlement.RETURN else of.ACCEPT)
        except confluent_kafka.IllegalStateException as error:
            # Its lock is gone, so it comes again: as DUPLICATE, if it was completed.
            _log("%s: not acknowledged: %s", message.id, error)

    def _acknowledged(self, places: Mapping[Any, Any], error: Exception | None) -> None:
        if error is not None:
            _log(
                "%s: %d partitions: not acknowledged, so their records come again: %s", self.topics, len(places), error
            )

    def _is_current(self, message: Message) -> bool:
        return bool(time.monotonic() < message.tag)

    def _keep_alive(self) -> None:
        self._has_settled.wait(_SLICE)
        if self._client is not None:
            self._flush()

    def _leave(self, left: Sequence[Message]) -> None:
        client = self._client
        if client is None:
            return
        self._settle([(message, Settlement.RETURN) for message in left])
        self._flush()
        try:
            client.commit_sync(_ANSWERS)
        except confluent_kafka.KafkaException as error:
            _log("%s: not acknowledged, so their records come again: %s", self.topics, error)
        client.close()
        self._client = None


def _log(text: str, *values: object) -> None:
    logging.getLogger(LOGGER).warning(text, *values)
