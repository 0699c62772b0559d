"""SQS, as moto serves it: each message runs exactly once, or is in doubt and in the audit log."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions
import pytest

import dochistory as dh
from dochistory import sqs
from dochistory.once import Retry
from dochistory.receiving import Message
from tests.brokers.campaign import Campaign, Published, eventually, ids_of, messages
from tests.brokers.in_thread import running
from tests.brokers.receiver_process import POISON
from tests.servers.fault_proxy import Fault, fault_proxy
from tests.servers.network import network
from tests.servers.sqs import server
from tests.support import trigger

pytestmark = pytest.mark.filterwarnings("ignore")  # boto3's own: datetime.utcnow


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with server() as endpoint:
        yield endpoint


def client(endpoint: str) -> Any:
    return boto3.client("sqs", endpoint_url=endpoint)


def port_of(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


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
def test_credentials_that_expired_are_asked_for_again(tmp_path: Path, endpoint: str) -> None:
    url = queue(endpoint, "expired")
    published = messages(30)
    publish(endpoint, url, published)
    failed: set[str] = set()

    class Expired:
        """A client each of whose calls finds expired credentials at first, as botocore tells it."""

        def __init__(self) -> None:
            self._client = client(endpoint)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name in failed:
                return getattr(self._client, name)

            def expired(**_: Any) -> None:
                failed.add(name)
                raise RuntimeError("Credentials were refreshed, but the refreshed credentials are still expired.")

            return expired

    ran: list[str | None] = []
    with receiving(tmp_path, endpoint, url, lambda message: ran.append(message.id), client=Expired(), visibility=2):
        eventually(lambda: left(endpoint, url) == 0, "all are processed and deleted")
    assert sorted(map(str, ran)) == sorted(ids_of(published))
    assert {"receive_message", "delete_message_batch"} <= failed


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


@pytest.mark.parametrize("is_taken", [True, False], ids=["fifo", "standard"])
def test_dead_letter_of_a_fifo_queue_keeps_its_id(tmp_path: Path, endpoint: str, is_taken: bool) -> None:
    ends = ".fifo" if is_taken else ""
    one = client(endpoint)
    url = one.create_queue(QueueName="ordered.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    fifo: dict[str, Any] = {"Attributes": {"FifoQueue": "true"}} if is_taken else {}
    dead = one.create_queue(QueueName=f"ordered-dead{ends}", **fifo)["QueueUrl"]
    key = f"m-{is_taken}"
    one.send_message(QueueUrl=url, MessageBody="never", MessageGroupId="g", MessageDeduplicationId=key)
    ran: list[str | None] = []

    def service(message: Message) -> None:
        ran.append(message.id)
        raise ValueError("no")

    policy = Retry(2, backoff=0.01)
    settings: dict[str, Any] = {"id": sqs.deduplication_id, "on_error": policy, "dead_letter_queue": dead}
    with receiving(tmp_path, endpoint, url, service, **settings):
        eventually(lambda: left(endpoint, url) == 0, "it is gone")
    assert ran == [key, key]
    asked = {"AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    (found,) = one.receive_message(QueueUrl=dead, **asked)["Messages"]
    kept = sqs.deduplication_id if is_taken else sqs.attribute("MessageDeduplicationId")
    assert (found["Body"], kept(found)) == ("never", key)


def test_dead_letter_that_is_not_taken_runs_no_more(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = queue(endpoint, "untaken")
    publish(endpoint, url, [("a", b"never")])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        ran.append(message.id)
        raise ValueError("no")

    monkeypatch.setattr(sqs, "_AGAIN", 0.1)
    place = f"{endpoint}/123456789012/later"
    policy = Retry(2, backoff=0.01)
    with receiving(tmp_path, endpoint, url, service, on_error=policy, dead_letter_queue=place):
        eventually(lambda: len(ran) == 2, "it has failed")
        time.sleep(0.5)
        assert len(ran) == 2
        assert left(endpoint, url) == 1
        queue(endpoint, "later")
        eventually(lambda: left(endpoint, place) == 1, "it is sent again")
        eventually(lambda: left(endpoint, url) == 0, "and is gone here")
    assert ran == ["a", "a"]


def test_few_messages_may_be_held(tmp_path: Path, endpoint: str) -> None:
    url = queue(endpoint, "few")
    publish(endpoint, url, messages(25))
    most_held = 0

    def service(_: Message) -> None:
        nonlocal most_held
        names = ["ApproximateNumberOfMessagesNotVisible"]
        held = client(endpoint).get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        most_held = max(most_held, *map(int, held.values()))

    with receiving(tmp_path, endpoint, url, service, most=3):
        eventually(lambda: left(endpoint, url) == 0, "all are processed and deleted")
    assert 1 <= most_held <= 3


def test_mistake_of_the_first_call_is_raised(tmp_path: Path, endpoint: str) -> None:
    place = f"{endpoint}/123456789012/ordres"
    with (
        pytest.raises(botocore.exceptions.ClientError, match="NonExistentQueue"),
        receiving(tmp_path, endpoint, place, print) as one,
    ):
        eventually(lambda: one.is_stopping, "it ends")
    nowhere = boto3.client("sqs", endpoint_url="http://127.0.0.1:9")
    with (
        pytest.raises(botocore.exceptions.EndpointConnectionError),
        receiving(tmp_path, endpoint, place, print, client=nowhere) as one,
    ):
        eventually(lambda: one.is_stopping, "it ends")


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("visibility", 0, "visibility is 0 s; the least is 1 s"),
        ("visibility", 50_000, "visibility is 50000; allowed are whole seconds from 1 to 43200"),
        ("visibility", 1.5, "visibility is 1.5; allowed are whole seconds"),
        ("visibility", "soon", "visibility"),
        ("most", "5", "most is '5'; allowed is a whole number from 1 on"),
        ("claim_ahead", 0, "claim_ahead is 0; allowed is a duration above 0"),
        ("claim_ahead", "soon", "claim_ahead"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, name: str, given: Any, said: str) -> None:
    with pytest.raises(dh.ConfigError) as raised:
        sqs.Receiver(tmp_path / "h", trigger(), "q", print, id=sqs.attribute("id"), client=object(), **{name: given})
    assert str(raised.value).startswith(f"[DH-CONFIG] {said}")


@pytest.mark.slow
def test_suspended_trigger_keeps_its_messages_invisible(tmp_path: Path, endpoint: str) -> None:
    url = queue(endpoint, "suspended")
    publish(endpoint, url, [("a", b"x"), ("b", b"x")])
    counts: list[int] = []
    suspension = dh.Suspension(tmp_path / "orders.history", trigger("orders"))
    suspension.suspend("the shop is moving")
    with receiving(tmp_path, endpoint, url, lambda message: counts.append(message.redelivery_count), visibility=1):
        time.sleep(3)  # others would get them twice
        assert counts == []
        suspension.resume()
        eventually(lambda: left(endpoint, url) == 0, "they are deleted")
    assert counts == [0, 0]


@pytest.mark.slow
def test_stopped_receiver_returns_what_was_not_begun(tmp_path: Path, endpoint: str) -> None:
    url = queue(endpoint, "stopped")
    publish(endpoint, url, [(f"{number}", b"x") for number in range(40)])
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.02)
        ran.append(message.id)

    with receiving(tmp_path, endpoint, url, service):
        eventually(lambda: len(ran) >= 3, "some are processed")
    assert 3 <= len(ran) < 40
    visible = client(endpoint).get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    assert int(visible["Attributes"]["ApproximateNumberOfMessages"]) == 40 - len(ran)
    with receiving(tmp_path, endpoint, url, service):
        eventually(lambda: left(endpoint, url) == 0, "the rest is processed")
    assert sorted(map(str, ran)) == sorted(str(number) for number in range(40))


@pytest.mark.slow
def test_messages_without_ids_stop_the_receiver_loudly(tmp_path: Path, endpoint: str) -> None:
    url = queue(endpoint, "nameless")
    client(endpoint).send_message_batch(QueueUrl=url, Entries=[{"Id": str(at), "MessageBody": "x"} for at in range(3)])
    stopped = pytest.raises(dh.SchemaError, match=r"none of the first 3 messages has an id")
    with stopped, receiving(tmp_path, endpoint, url, print) as one:
        eventually(lambda: one.is_stopping, "it stops")
    assert left(endpoint, url) == 3


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "silence"])
def test_network_that_is_cut_runs_nothing_twice(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    url = queue(endpoint, f"cut-{how}")
    published = messages(400)
    publish(endpoint, url, published)
    ran: list[str | None] = []

    def service(message: Message) -> None:
        time.sleep(0.005)
        ran.append(message.id)

    with network(port_of(endpoint)) as between:
        # The receiver's own client, with its own timeouts.
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", f"http://127.0.0.1:{between.port}")
        with receiving(tmp_path, endpoint, url, service, client=None, visibility=2):
            eventually(lambda: len(ran) >= 100, "some are processed")
            before = between.connections
            if how == "silence":
                between.silence()
                time.sleep(4)  # what is held becomes visible to others
                between.restore()
            else:
                between.reset()
            eventually(lambda: between.connections > before, "it connects again")
            eventually(lambda: left(endpoint, url) == 0, "all are processed and deleted")
    assert sorted(map(str, ran)) == sorted(ids_of(published))


@pytest.mark.slow
def test_receiver_stopped_in_a_silent_network_ends(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = queue(endpoint, "silent")
    publish(endpoint, url, [("a", b"x")])
    ran: list[str | None] = []
    with network(port_of(endpoint)) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", f"http://127.0.0.1:{between.port}")
        with receiving(tmp_path, endpoint, url, lambda message: ran.append(message.id), client=None):
            eventually(lambda: ran == ["a"], "it is processed")
            between.silence()
            time.sleep(1.5)  # it waits for an answer
    # `receiving` waits 30 s for its end.


@pytest.mark.slow
def test_answers_that_are_lost_or_wrong_run_nothing_twice(tmp_path: Path, endpoint: str) -> None:
    url = queue(endpoint, "wrong")
    published = messages(200)
    publish(endpoint, url, published)
    chance = random.Random(3)
    faults = [Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.ERROR_BEFORE, Fault.ERROR_AFTER, Fault.TWICE]
    ran: list[str | None] = []
    with fault_proxy(port_of(endpoint)) as proxy:
        proxy.choose = lambda _request: chance.choice(faults) if chance.random() < 0.2 else None
        # What a lost answer brought stays invisible for as long as `visibility`.
        through: dict[str, Any] = {"client": client(proxy.endpoint), "visibility": 1}
        with receiving(tmp_path, endpoint, url, lambda message: ran.append(message.id), **through):
            eventually(lambda: left(endpoint, url) == 0, "all are processed and deleted")
    assert sorted(map(str, ran)) == sorted(ids_of(published))


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
