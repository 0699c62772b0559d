"""SQS, as moto serves it: each message runs exactly once, or is in doubt and in the audit log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

import dochistory as dh
from dochistory import sqs
from dochistory.once import Retry
from dochistory.receiving import Message
from tests.brokers.campaign import Campaign, Published, eventually, ids_of, messages
from tests.brokers.in_thread import running
from tests.brokers.receiver_process import POISON
from tests.servers.sqs import server
from tests.support import trigger

pytestmark = pytest.mark.filterwarnings("ignore")  # boto3's own: datetime.utcnow


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with server() as endpoint:
        yield endpoint


def client(endpoint: str) -> Any:
    return boto3.client("sqs", endpoint_url=endpoint)


def queue(endpoint: str, name: str) -> str:
    url: str = client(endpoint).create_queue(QueueName=name)["QueueUrl"]
    return url


def publish(endpoint: str, url: str, published: Sequence[Published]) -> None:
    one = client(endpoint)
    for start in range(0, len(published), 10):
        entries = [
            {
                "Id": str(at),
                "MessageBody": body.decode(),
                "MessageAttributes": {"id": {"DataType": "String", "StringValue": key}},
            }
            for at, (key, body) in enumerate(published[start : start + 10])
        ]
        one.send_message_batch(QueueUrl=url, Entries=entries)


def left(endpoint: str, url: str) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = client(endpoint).get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


@contextmanager
def receiving(
    directory: Path, endpoint: str, url: str, service: Callable[[Message], object], **settings: Any
) -> Iterator[sqs.Receiver]:
    """A receiver in a thread, stopped at the end."""
    settings = {"client": client(endpoint), "id": sqs.attribute("id"), **settings}
    one = sqs.Receiver(directory / "orders.history", trigger("orders"), url, service, **settings)
    with running(one):
        yield one


def test_each_message_runs_once_and_copies_never(tmp_path: Path, endpoint: str) -> None:
    url = queue(endpoint, "once")
    published = messages(100)
    publish(endpoint, url, published)
    ran: list[str | None] = []
    with receiving(tmp_path, endpoint, url, lambda message: ran.append(message.id)):
        eventually(lambda: left(endpoint, url) == 0, "all are processed and deleted")
    assert sorted(map(str, ran)) == sorted(ids_of(published))


def test_released_message_comes_again(tmp_path: Path, endpoint: str) -> None:
    url = queue(endpoint, "released")
    publish(endpoint, url, [("a", b"x")])
    counts: list[int] = []

    def service(message: Message) -> None:
        counts.append(message.redelivery_count)
        if len(counts) < 3:
            raise dh.RolledBack("undone")

    with receiving(tmp_path, endpoint, url, service):
        eventually(lambda: left(endpoint, url) == 0, "it is deleted")
    assert counts == [0, 1, 2]


@pytest.mark.slow
def test_slow_service_keeps_its_message_invisible(tmp_path: Path, endpoint: str) -> None:
    url = queue(endpoint, "slow")
    publish(endpoint, url, [("a", b"x")])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(3)
        ran.append(message.id)

    with receiving(tmp_path, endpoint, url, service, visibility=1):
        eventually(lambda: left(endpoint, url) == 0, "it is deleted")
    assert ran == ["a"]
    with dh.open(tmp_path / "orders.history") as history:
        assert history.audit.list().num_rows == 0


def test_dead_letter_goes_to_its_queue(tmp_path: Path, endpoint: str) -> None:
    url, dead = queue(endpoint, "letters"), queue(endpoint, "dead")
    publish(endpoint, url, [("a", b"never")])

    def service(_: Message) -> None:
        raise ValueError("no")

    policy = Retry(2, backoff=0.01)
    with receiving(tmp_path, endpoint, url, service, on_error=policy, dead_letter_queue=dead):
        eventually(lambda: left(endpoint, url) == 0, "it is gone")
    (found,) = client(endpoint).receive_message(QueueUrl=dead, MessageAttributeNames=["All"])["Messages"]
    assert (found["Body"], sqs.attribute("id")(found)) == ("never", "a")


@pytest.mark.slow
@pytest.mark.crash
def test_kills_and_poison_run_nothing_twice(tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", endpoint)
    url = queue(endpoint, "campaign")
    published: list[Published] = messages(1_500)
    published[200:200] = [("the-poison", POISON)]
    publish(endpoint, url, published)
    campaign = Campaign(tmp_path, "sqs", url, {"visibility": 2})
    campaign.killing(15, (1.0, 2.0), receivers=2, takes=0.002)
    campaign.finish(ids_of(published), takes=0.002)
    campaign.check(ids_of(published))
