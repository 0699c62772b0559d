"""Receivers of every broker whose history lies in a bucket: killed and started again, they run nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers import test_kafka, test_rabbitmq, test_stomp
from tests.brokers.campaign import BucketCampaign, ids_of, messages
from tests.servers import artemis, kafka, rabbitmq
from tests.servers.objects import Server, moto

# As many kills as show that the bucket does no harm; the brokers' own tests have more.
pytestmark = [pytest.mark.slow, pytest.mark.crash, pytest.mark.timeout(600)]

COUNT = 400


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with moto() as server:
        yield server


def put_through(campaign: BucketCampaign, between: Callable[[], object] = lambda: None) -> None:
    """Kill receivers, start others, and look at what ran."""
    expected = ids_of(messages(COUNT))
    campaign.killing(4, (2.0, 4.0), receivers=2, takes=0.005)
    between()
    campaign.finish(expected, takes=0.005)
    campaign.check(expected)


@pytest.mark.parametrize("kind", ["rabbitmq", "aio_rabbitmq"])
def test_receivers_of_rabbitmq_run_nothing_twice(tmp_path: Path, s3: Server, kind: str) -> None:
    with rabbitmq.server() as broker:
        test_rabbitmq.declare(broker, "bucket")
        test_rabbitmq.publish(broker, "bucket", messages(COUNT))
        url = f"{s3.url}/{kind}.history"
        put_through(BucketCampaign(tmp_path, kind, "bucket", url, s3.options, url=broker.url, prefetch=20))


def test_receivers_of_kafka_run_nothing_twice(tmp_path: Path, s3: Server) -> None:
    with kafka.server() as broker:
        broker.topic("bucket")
        test_kafka.publish(broker, "bucket", messages(COUNT))
        config = test_kafka.config(broker)
        put_through(BucketCampaign(tmp_path, "kafka", "bucket", f"{s3.url}/kafka.history", s3.options, config=config))


def test_receivers_of_artemis_run_nothing_twice(tmp_path: Path, s3: Server) -> None:
    with artemis.server() as broker:
        test_stomp.publish(broker, "bucket", messages(COUNT))
        more = {"brokers": [*broker.host_and_ports], "prefetch": 20}
        campaign = BucketCampaign(tmp_path, "stomp", "bucket", f"{s3.url}/stomp.history", s3.options, **more)
        put_through(campaign, broker.restart)
