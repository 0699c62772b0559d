"""Kafka, a real one: each record runs exactly once, or is in doubt and in the audit log."""

# ruff: noqa: SLF001 - rebalances without a broker

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import dochistory as dh
from dochistory import kafka
from dochistory.once import Retry
from dochistory.receiving import Message
from tests.brokers.campaign import Campaign, Published, eventually, ids_of, kept_in_audit, messages
from tests.brokers.in_thread import running
from tests.servers.kafka import Kafka, server
from tests.servers.network import network
from tests.support import trigger

_COORDINATOR_COMES = (
    confluent_kafka.KafkaError.NOT_COORDINATOR,
    confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
    confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""A new broker's answers to its first group."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with server() as one:
        yield one


def publish(broker: Kafka, topic: str, published: Sequence[Published]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.servers, "log_level": 0, "acks": "all"})
    for at, (key, body) in enumerate(published):
        producer.produce(topic, body, key=str(at % 7), headers=[("id", key.encode())])
        if at % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def config(broker: Kafka, group: str = "shipping") -> dict[str, Any]:
    return {"bootstrap.servers": broker.servers, "group.id": group, "session.timeout.ms": 6000, "log_level": 0}


def committed(broker: Kafka, topic: str, partitions: int = 3, group: str = "shipping") -> int:
    client = confluent_kafka.Consumer(config(broker, group))
    try:
        places = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]
        return sum(max(place.offset, 0) for place in client.committed(places, timeout=10))
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() not in _COORDINATOR_COMES:
            raise
        return 0  # nobody can have committed yet
    finally:
        client.close()


@contextmanager
def receiving(
    directory: Path, broker: Kafka, topic: str, service: Callable[[Message], object], **settings: Any
) -> Iterator[kafka.Receiver]:
    """A receiver in a thread, stopped at the end."""
    settings = {"config": config(broker), "id": kafka.header("id"), **settings}
    one = kafka.Receiver(directory / "orders.history", trigger("orders"), [topic], service, **settings)
    with running(one):
        yield one


def test_records_that_are_read_again_run_once(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("short")
    published = messages(60)
    publish(broker, "short", published)
    ran: list[str | None] = []

    def is_read_by(group: str) -> bool:
        return committed(broker, "short", group=group) == len(published)

    for group in ("first", "again"):  # which has committed nothing, and so gets all
        with receiving(tmp_path, broker, "short", lambda message: ran.append(message.id), config=config(broker, group)):
            eventually(partial(is_read_by, group), "all is committed")
        assert sorted(map(str, ran)) == sorted(ids_of(published))


@pytest.mark.slow
def test_each_record_runs_once_and_copies_never(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("once")
    published = messages(300)
    publish(broker, "once", published)
    ran: list[str | None] = []
    with receiving(tmp_path, broker, "once", lambda message: ran.append(message.id)):
        eventually(lambda: len(ran) >= 300, "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    with receiving(tmp_path, broker, "once", lambda message: ran.append(message.id)):
        time.sleep(2)
    assert (len(ran), committed(broker, "once")) == (300, len(published))


@pytest.mark.slow
def test_released_record_runs_again_before_the_next(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("released", 1)
    publish(broker, "released", [("a", b""), ("b", b"")])
    tries: list[str | None] = []

    def service(message: Message) -> None:
        tries.append(message.id)
        if tries.count("a") < 3:
            raise dh.RolledBack("undone")

    with receiving(tmp_path, broker, "released", service):
        eventually(lambda: tries[-1:] == ["b"], "both are processed")
    assert tries == ["a", "a", "a", "b"]
    assert committed(broker, "released", 1) == 2


@pytest.mark.slow
def test_dead_letter_goes_to_its_topic(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("letters", 1)
    broker.topic("dead", 1)
    publish(broker, "letters", [("a", b"never"), ("b", b"always")])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        if message.body == b"never":
            raise ValueError("no")
        ran.append(message.id)

    policy = Retry(2, backoff=0.01)
    with receiving(tmp_path, broker, "letters", service, on_error=policy, dead_letter_topic="dead"):
        eventually(lambda: ran == ["b"], "the other one is processed")
    client = confluent_kafka.Consumer({**config(broker, "reader"), "auto.offset.reset": "earliest"})
    client.subscribe(["dead"])
    record = client.poll(20)
    client.close()
    assert record is not None
    assert (record.value(), record.headers()) == (b"never", [("id", b"a")])


def test_dead_letters_without_a_topic_are_refused(tmp_path: Path) -> None:
    with pytest.raises(dh.ConfigError, match="dead_letter_topic"):
        kafka.Receiver(tmp_path / "h", trigger(), ["t"], print, id=kafka.position, config={}, on_error=Retry())


@pytest.mark.slow
def test_slow_service_outlasts_the_poll_interval(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("slow", 1)
    publish(broker, "slow", [("a", b""), ("b", b"")])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(4 if message.id == "a" else 0)
        ran.append(message.id)

    impatient = {
        **config(broker),
        "max.poll.interval.ms": 3_000,
        "session.timeout.ms": 3_000,
        "heartbeat.interval.ms": 500,
    }
    with receiving(tmp_path, broker, "slow", service, config=impatient):
        eventually(lambda: len(ran) == 2, "both are processed")
    assert ran == ["a", "b"]


@pytest.mark.slow
def test_member_that_joins_and_leaves_puts_nothing_in_doubt(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("joined")
    published = messages(1_500, duplicates=0)  # a copy that two members run at once is in doubt
    publish(broker, "joined", published)
    ran: list[str | None] = []
    by: Counter[str] = Counter()

    def service_of(name: str) -> Callable[[Message], object]:
        def service(message: Message) -> None:
            time.sleep(0.002)
            ran.append(message.id)
            by[name] += 1

        return service

    with receiving(tmp_path, broker, "joined", service_of("first")):
        eventually(lambda: by["first"] >= 50, "the first one works")
        with receiving(tmp_path, broker, "joined", service_of("second")):
            end = time.monotonic() + 60
            while by["second"] < 50:  # however long it takes to join, there must be something left for it
                assert time.monotonic() < end, "the second one does not work"
                some = messages(300, duplicates=0, seed=len(published))
                publish(broker, "joined", some)
                published += some
                time.sleep(0.5)
        eventually(lambda: len(ran) >= len(ids_of(published)), "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    with dh.open(tmp_path / "orders.history") as history:
        assert history.audit.list().num_rows == 0


class Assigned:
    """A client that knows which of its partitions are paused, as a strategy assigns them."""

    def __init__(self) -> None:
        self.paused: dict[int, bool] = {}

    def pause(self, places: Sequence[Any]) -> None:
        self._set(places, is_paused=True)

    def resume(self, places: Sequence[Any]) -> None:
        self._set(places, is_paused=False)

    def _set(self, places: Sequence[Any], *, is_paused: bool) -> None:
        for one in places:
            assert self.paused[one.partition] is not is_paused, "what was fetched ahead is lost for nothing"
            self.paused[one.partition] = is_paused

    def commit(self, **_: Any) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("was_full", [True, False])
@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("strategy", ["eager", "cooperative"])
def test_rebalance_leaves_every_partition_paused_or_none(
    tmp_path: Path, strategy: str, is_lost: bool, was_full: bool, is_full: bool
) -> None:
    one = kafka.Receiver(tmp_path / "h", trigger(), ["t"], print, id=kafka.position, config={})
    one._client = client = Assigned()
    leave = one._lost_partitions if is_lost else one._revoked

    def rebalance(gone: Sequence[int], come: Sequence[int]) -> None:
        leave(client, [confluent_kafka.TopicPartition("t", number) for number in gone])
        # A partition that goes while it is paused may be so when it comes again.
        assert not any(client.paused[number] for number in gone)
        client.paused |= dict.fromkeys(come, False)
        one._assigned(client, [confluent_kafka.TopicPartition("t", number) for number in come])

    rebalance([], [0, 1, 2])
    one._hold(is_full=was_full)
    one._hold(is_full=was_full)
    if strategy == "eager":
        rebalance([0, 1, 2], [0, 3])
    else:
        rebalance([1, 2], [3])
    one._hold(is_full=is_full)
    assert (client.paused[0], client.paused[3]) == (is_full, is_full)
    rebalance([], [1])
    one._hold(is_full=False)
    assert not any(client.paused.values())


@pytest.mark.slow
def test_cooperative_rebalance_stops_no_partition(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("cooperative", 2)
    cooperative = {**config(broker, "cooperative"), "partition.assignment.strategy": "cooperative-sticky"}
    published = messages(80, duplicates=0)
    publish(broker, "cooperative", published)
    ran: list[str | None] = []
    by: Counter[str] = Counter()

    def service_of(name: str) -> Callable[[Message], object]:
        def service(message: Message) -> None:
            time.sleep(0.25)
            ran.append(message.id)
            by[name] += 1

        return service

    settings: dict[str, Any] = {"config": cooperative, "most": 6}
    with receiving(tmp_path, broker, "cooperative", service_of("first"), **settings):
        eventually(lambda: by["first"] >= 8, "the first one works, and is full")
        with receiving(tmp_path, broker, "cooperative", service_of("second"), **settings):
            eventually(lambda: by["second"] > 0, "the second one works")
            eventually(lambda: len(ran) >= len(ids_of(published)), "all are processed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))


@pytest.mark.slow
def test_suspended_trigger_keeps_its_partitions(
    tmp_path: Path, broker: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    broker.topic("suspended", 1)
    publish(broker, "suspended", [("a", b""), ("b", b"")])
    ran: list[str | None] = []
    suspension = dh.Suspension(tmp_path / "orders.history", trigger("orders"))
    suspension.suspend("the shop is moving")
    impatient = {**config(broker), "max.poll.interval.ms": 6_000}
    with receiving(tmp_path, broker, "suspended", lambda message: ran.append(message.id), config=impatient):
        time.sleep(12)  # the group would think a member dead that does not poll
        assert ran == []
        suspension.resume()
        eventually(lambda: committed(broker, "suspended", 1) == 2, "both are processed")
    assert ran == ["a", "b"]
    assert "took partitions away" not in caplog.text


@pytest.mark.slow
def test_stopped_receiver_leaves_what_was_not_begun(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("stopped", 1)
    publish(broker, "stopped", [(f"{number}", b"") for number in range(40)])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.02)
        ran.append(message.id)

    with receiving(tmp_path, broker, "stopped", service):
        eventually(lambda: len(ran) >= 3, "some are processed")
    assert 3 <= len(ran) < 40
    assert committed(broker, "stopped", 1) == len(ran)
    with receiving(tmp_path, broker, "stopped", service):
        eventually(lambda: committed(broker, "stopped", 1) == 40, "the rest is processed")
    assert ran == [f"{number}" for number in range(40)]
    with dh.open(tmp_path / "orders.history") as history:
        assert history.audit.list().num_rows == 0


@pytest.mark.slow
def test_records_without_ids_stop_the_receiver_loudly(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("nameless", 1)
    publish(broker, "nameless", [("a", b""), ("b", b""), ("c", b"")])
    stopped = pytest.raises(dh.SchemaError, match=r"none of the first [23] messages has an id")
    with stopped, receiving(tmp_path, broker, "nameless", print, id=kafka.header("order")) as one:
        eventually(lambda: one.is_stopping, "it stops")
    kept = kept_in_audit(tmp_path)  # one that came before the others is in doubt by itself
    assert committed(broker, "nameless", 1) == kept <= 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "silence"])
def test_network_that_is_cut_runs_nothing_twice(tmp_path: Path, broker: Kafka, how: str) -> None:
    topic = f"cut-{how}"
    broker.topic(topic)
    published = messages(1_000)
    publish(broker, topic, published)
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.002)
        ran.append(message.id)

    with network(broker.behind, broker.before) as between:
        through = {**config(broker, how), "bootstrap.servers": f"127.0.0.1:{between.port}", "socket.timeout.ms": 2_000}
        with receiving(tmp_path, broker, topic, service, config=through):
            eventually(lambda: len(ran) >= 100, "some are processed")
            before = between.connections
            if how == "silence":
                between.silence()
                time.sleep(8)  # longer than the group waits for a member
                between.restore()
            else:
                between.reset()
            eventually(lambda: between.connections > before, "it connects again")
            eventually(lambda: len(ran) >= 1_000, "all are processed")
            eventually(lambda: committed(broker, topic, group=how) == len(published), "all is committed")
    assert sorted(map(str, ran)) == sorted(ids_of(published))


@pytest.mark.slow
def test_receiver_stopped_in_a_silent_network_ends(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("silent")
    publish(broker, "silent", messages(300))
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.01)
        ran.append(message.id)

    with network(broker.behind, broker.before) as between:
        through = {**config(broker, "silent"), "bootstrap.servers": f"127.0.0.1:{between.port}"}
        with receiving(tmp_path, broker, "silent", service, config=through):
            eventually(lambda: len(ran) >= 50, "some are processed")
            between.silence()
        # `receiving` has waited for its end, for 30 s at most; the network is silent still.


@pytest.mark.slow
@pytest.mark.crash
def test_kills_rebalances_restarts_and_poison_run_nothing_twice(tmp_path: Path, broker: Kafka) -> None:
    broker.topic("campaign")
    campaign = Campaign(tmp_path, "kafka", "campaign", {"config": config(broker)})
    published = campaign.endure(broker, lambda some: publish(broker, "campaign", some), 9_000, (1.5, 3.5), takes=0.0005)
    campaign.check(ids_of(published))
    # Copies at the end of the topic may be left: a last receiver reads them, and commits all.
    if committed(broker, "campaign") < len(published):
        last = campaign.start(takes=0.0)
        eventually(lambda: committed(broker, "campaign") == len(published), "all is committed")
        campaign.terminate(last)
    assert set(Counter(campaign.ran()).values()) == {1}
