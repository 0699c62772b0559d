"""Kafka: receives topics as a consumer group, each record processed once. Needs confluent-kafka.

```python
from dochistory import kafka

kafka.Receiver(
    "orders.history", trigger, ["orders"], ship, id=kafka.header("id"),
    config={"bootstrap.servers": "localhost:9092", "group.id": "shipping"},
).run()
```

`docs/kafka.md` says which id, which acknowledgement, and what happens on failure.
"""

import functools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import confluent_kafka

import dochistory as dh
from dochistory import _checks
from dochistory._adapter import Adapter, check_dead_letters
from dochistory._dead_letter_topic import DeadLetterTopic
from dochistory._kafka import Unlimited, is_error
from dochistory._message_ids import Ids
from dochistory.once import OnError
from dochistory.receiving import LOGGER, Message, Service, Settled, Settlement

__all__ = ["Message", "Receiver", "header", "position"]

_SLICE = 0.1
_COMMIT_EVERY = 1.0
_MOMENT = 0.5
_ANSWERS = 10.0
"""How long the brokers may take to commit, and to hear that a member leaves, in seconds."""
_UNKNOWN = -1
"""A consumer group counts no deliveries."""

Place = tuple[str, int]
"""A topic and a partition."""


def header(name: str) -> Callable[[Any], object]:
    """The id is in a header, which the producer sets: the same after a redelivery and after a resend.

    Args:
        name: the header's name.

    Returns:
        callable: for `Receiver(id=…)`.
    """

    def of(record: Any) -> object:
        found = [value for key, value in record.headers() or () if key == name]
        return found[-1] if found else None

    return of


def position(record: Any) -> str:
    """The id is the record's place: the same after a redelivery, but **not** after a producer's resend.

    Right only where the producer is idempotent, and nothing above it sends anything twice.

    Args:
        record: a record of confluent-kafka.

    Returns:
        str: `topic/partition/offset`.
    """
    return f"{record.topic()}/{record.partition()}/{record.offset()}"


class Receiver(Adapter):
    """Receives the records of topics, processes each once, and commits its offset afterwards.

    An offset is committed once all records before it are settled. Kafka cannot take single records
    back: one that must come again is kept here, and its partition's offset stays before it.

    Args:
        history: the directory of the history, or the URL of its bucket.
        trigger: whose records they are; used as `serial`, unless `in_batch` is set.
        topics: the topics.
        service: a plain function, called with each `Message` that is NEW.
        id: called with the record; answers its id: `header(name)`, `position`, or your own. There
            is no default: a record's key repeats on purpose.
        config: settings of confluent-kafka's `Consumer`: at least `bootstrap.servers` and
            `group.id`.
        most: the maximum number of records that are claimed together.
        dead_letter_topic: where dead letters go; `on_error=Retry(…)` needs one, unless its `then`
            says otherwise.
        on_error: what becomes of a record whose service raises.
        claim_ahead: claim as many records as are likely to be processed in this time, in seconds or
            as a duration ("1 s").
        revoke_timeout: how long a rebalance waits for the present record, in seconds.
        **settings: further settings of `Consumer`; for a bucket `storage_options`, `cache`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
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
        most: int = 5_000,
        dead_letter_topic: str | None = None,
        on_error: OnError = "in_doubt",
        claim_ahead: float | str | timedelta = 0.05,
        revoke_timeout: float = 30.0,
        **settings: Any,
    ) -> None:
        _checks.texts("topics", topics)
        check_dead_letters(dead_letter_topic, "dead_letter_topic", on_error)
        super().__init__(
            history,
            trigger,
            service,
            on_error=on_error,
            claim_ahead=claim_ahead,
            most=most,
            settings=settings,
            in_order=True,
        )
        self.topics = [*topics]
        self._ids = Ids(id, position)
        self._most = most
        self._revoke_timeout = revoke_timeout
        self._config = {
            "auto.offset.reset": "earliest",
            **config,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        self._dead_letters = DeadLetterTopic(dead_letter_topic, self._config) if dead_letter_topic else None
        self._client: Any = None
        self._lock = threading.Lock()
        self._partitions: dict[Place, _Partition] = {}
        self._paused: set[Place] = set()
        self._committed = 0.0
        self._unlimited = Unlimited()

    def _receive(self) -> None:
        self._client = confluent_kafka.Consumer(self._config)
        self._client.subscribe(
            self.topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost_partitions
        )
        while not self.is_stopping:
            self._turn()

    def _turn(self) -> None:
        """Poll, hand over what came, and commit what is done; also while nothing more is wanted."""
        self._await_room()
        self._hold(is_full=self.is_stopping or self._worker.waiting > self._most)
        records = self._client.consume(self._most, _SLICE)
        arrived = []
        for record in records:
            if is_error(record):
                continue
            partition = self._partitions.get((record.topic(), record.partition()))
            if partition is None:
                continue
            found, damage = self._ids.of(record)
            tag = (partition, record.offset())
            arrived.append(Message(found, record.value() or b"", _UNKNOWN, record, tag, damage))
        if arrived:
            with self._lock:
                for message in arrived:
                    partition, offset = message.tag
                    partition.offsets.append(offset)
            self._worker.put(arrived)
        if time.monotonic() > self._committed + _COMMIT_EVERY:
            self._commit(self._partitions, asynchronous=True)

    def _await_room(self) -> None:
        """Wait a moment for the service: what the client fetched ahead is lost by a pause, and fetched again."""
        end = time.monotonic() + _MOMENT
        while self._worker.waiting > self._most and not self._paused and time.monotonic() < end:
            if self._worker.stopping.wait(0.002):
                return

    def _hold(self, *, is_full: bool) -> None:
        """Pause or resume: the client keeps polling, so that the group does not think it dead.

        Only those that are not as they should be: both drop what the client has fetched ahead.
        """
        if is_full and (places := self._partitions.keys() - self._paused):
            self._client.pause(_listed(places))
            self._paused |= places
        elif not is_full and self._paused:
            self._client.resume(_listed(self._paused))
            self._paused.clear()

    def _settle(self, settled: Settled) -> None:
        again = []
        for message, how in settled:
            if how is Settlement.DEAD_LETTER and self._dead_letters is not None:
                self._dead_letters.send(message)
        with self._lock:
            for message, how in settled:
                partition, offset = message.tag
                if how is not Settlement.RETURN:
                    partition.settled.add(offset)
                elif self._is_current(message) and not self.is_stopping:
                    again.append(message)
                else:
                    partition.returned.add(offset)
        if again:
            self._worker.put_back(again)

    def _is_current(self, message: Message) -> bool:
        return not message.tag[0].is_gone

    def _assigned(self, _client: Any, places: Iterable[Any]) -> None:
        """New partitions, none of which is paused; by a cooperative strategy others are kept as they are."""
        for one in places:
            self._partitions[one.topic, one.partition] = _Partition()

    def _revoked(self, _client: Any, places: Iterable[Any]) -> None:
        """Others get these partitions: end what was begun, and commit."""
        gone = self._forget(places)
        end = time.monotonic() + self._revoke_timeout
        while any(partition.is_open(self._lock) for partition in gone.values()) and time.monotonic() < end:
            time.sleep(0.005)
        self._commit(gone, asynchronous=False)

    def _lost_partitions(self, _client: Any, places: Iterable[Any]) -> None:
        """Others have these partitions already."""
        logging.getLogger(LOGGER).warning("%s: the group took partitions away", self.topics)
        self._forget(places)

    def _forget(self, places: Iterable[Any]) -> "dict[Place, _Partition]":
        gone = {}
        for one in places:
            partition = self._partitions.pop((one.topic, one.partition), None)
            if partition is not None:
                partition.is_gone = True
                gone[one.topic, one.partition] = partition
        if paused := gone.keys() & self._paused:
            # Else they might come back paused.
            self._client.resume(_listed(paused))
            self._paused -= paused

        def is_dropped(message: Message) -> bool:
            partition, offset = message.tag
            if partition.is_gone:
                with self._lock:
                    partition.returned.add(offset)
            return bool(partition.is_gone)

        self._worker.drop(is_dropped)
        return gone

    def _commit(self, partitions: "Mapping[Place, _Partition]", *, asynchronous: bool) -> None:
        self._committed = time.monotonic()
        with self._lock:
            done = [(place, partition.progress()) for place, partition in partitions.items()]
        offsets = [
            confluent_kafka.TopicPartition(topic, number, upto) for (topic, number), upto in done if upto is not None
        ]
        if not offsets:
            return
        commit, why = functools.partial(self._client.commit, offsets=offsets, asynchronous=asynchronous), None
        try:
            if asynchronous:
                commit()
            elif not self._unlimited.within(_ANSWERS, commit):
                why = f"the brokers did not answer within {_ANSWERS:.0f} s"
        except confluent_kafka.KafkaException as error:
            why = str(error)
        if why is not None:
            # These records come again, and are duplicates.
            logging.getLogger(LOGGER).warning("%s: offsets are not committed: %s", self.topics, why)

    def _keep_alive(self) -> None:
        if self._client is None:
            time.sleep(_SLICE)
        else:
            self._turn()

    def _leave(self, left: Sequence[Message]) -> None:
        del left  # nothing is committed of them
        client, self._client = self._client, None
        if client is None:
            return
        for partition in self._partitions.values():
            partition.is_gone = True
        self._client = client
        self._commit(self._partitions, asynchronous=False)
        self._partitions = {}
        if not self._unlimited.within(_ANSWERS, client.close):
            log = logging.getLogger(LOGGER)
            log.warning("%s: the brokers did not hear that it ends: others get its partitions later", self.topics)
        self._client = None


def _listed(places: Iterable[Place]) -> list[Any]:
    return [confluent_kafka.TopicPartition(topic, number) for topic, number in sorted(places)]


class _Partition:
    """The records of one assigned partition that were handed out, in order."""

    def __init__(self) -> None:
        self.offsets: deque[int] = deque()
        self.settled: set[int] = set()
        self.returned: set[int] = set()
        self.is_gone = False

    def progress(self) -> int | None:
        """The offset after the last record before which all are settled; None if there is nothing new."""
        upto = None
        while self.offsets and self.offsets[0] in self.settled:
            upto = self.offsets.popleft() + 1
            self.settled.remove(upto - 1)
        return upto

    def is_open(self, lock: threading.Lock) -> bool:
        """Whether a record is neither settled nor returned."""
        with lock:
            return any(one not in self.settled and one not in self.returned for one in self.offsets)
