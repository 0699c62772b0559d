"""Requests that fail: nothing is created twice, nothing that failed is called done, and each error says what to do."""

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import objects
from dochistory.objects import transfer
from dochistory.objects.retries import Retries
from tests.objects.conftest import QUICK, Through
from tests.servers.fault_proxy import Choose, Fault, FaultProxy, Request, Say

CONFLICT = Say(409, "ConditionalRequestConflict")
ABORTED = Say(409, "OperationAborted")


def first(fault: Fault | Say, kind: str = "create", times: int = 1) -> Choose:
    """The first requests of a kind fail so."""
    left = [times]

    def choose(request: Request) -> Fault | Say | None:
        if request.kind != kind or not left[0]:
            return None
        left[0] -= 1
        return fault

    return choose


@pytest.mark.parametrize("fault", [*(one for one in Fault if one is not Fault.TWICE), CONFLICT, ABORTED], ids=str)
def test_ones_own_object_is_known_again(through: Through, proxy: FaultProxy, fault: Fault | Say) -> None:
    proxy.late = 0.02
    proxy.choose = first(fault)
    client = through()
    assert client.put_new("commit-1", b"mine") == "created"
    assert client.get("commit-1") == b"mine"


@pytest.mark.parametrize("fault", [*Fault, CONFLICT, ABORTED], ids=str)
def test_anothers_object_is_not_taken_for_ones_own(through: Through, proxy: FaultProxy, fault: Fault | Say) -> None:
    proxy.late = 0.02
    client = through()
    client.put_new("commit-1", b"theirs")
    proxy.choose = first(fault)
    assert client.put_new("commit-1", b"mine") == "exists"
    assert client.get("commit-1") == b"theirs"


def test_a_request_that_was_doubled_leaves_ones_own(through: Through, proxy: FaultProxy) -> None:
    proxy.choose = first(Fault.TWICE)
    client = through()
    # Nothing failed, so the client has no reason to look: its caller compares what exists with its own.
    assert client.put_new("commit-1", b"mine") == "exists"
    assert client.get("commit-1") == b"mine"


def test_before_a_second_attempt_the_client_looks(through: Through, proxy: FaultProxy) -> None:
    seen: list[str] = []
    fail = first(Fault.ERROR_AFTER)

    def choose(request: Request) -> Fault | Say | None:
        seen.append(request.kind)
        return fail(request)

    proxy.choose = choose
    assert through().put_new("x", b"1") == "created"
    assert seen == ["create", "get"]


def test_an_object_in_the_way_that_then_is_gone_is_unknown(through: Through, proxy: FaultProxy) -> None:
    refused = Say(412, "PreconditionFailed")
    fails = first(Fault.ERROR_BEFORE)
    proxy.choose = lambda request: fails(request) or (refused if request.kind == "create" else None)
    with pytest.raises(dh.ObjectStoreError, match=r"\[DH-OBJECTS\] .* may have had an effect"):
        through().put_new("x", b"1")


def test_a_store_that_fails_for_good_is_unknown(through: Through, proxy: FaultProxy) -> None:
    proxy.choose = lambda _request: Fault.ERROR_AFTER
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-OBJECTS\] cannot create x .* may have had an effect"):
        through().put_new("x", b"1")
    assert proxy.counts["create"] <= QUICK.attempts
    proxy.choose = lambda _request: None
    assert through().get("x") == b"1"


def test_attempts_are_bounded_in_time(through: Through, proxy: FaultProxy) -> None:
    proxy.choose = lambda _request: Fault.ERROR_BEFORE
    started = time.monotonic()
    with pytest.raises(dh.ObjectStoreError):
        through(retries=Retries(attempts=1000, first_wait=0.01, longest_wait=0.01, deadline=0.3)).get("x")
    assert 2 < proxy.counts["get"] < 100
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("fault", [Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.ERROR_BEFORE, Fault.ERROR_AFTER], ids=str)
@pytest.mark.parametrize("kind", ["put", "get", "list", "delete", "head"])
def test_requests_that_may_be_repeated_are(through: Through, proxy: FaultProxy, fault: Fault, kind: str) -> None:
    client = through()
    client.put("x", b"0")
    proxy.choose = first(fault, kind, times=2)
    calls: dict[str, Callable[[], Any]] = {
        "put": lambda: client.put("x", b"1"),
        "get": lambda: client.get("x"),
        "list": lambda: client.list("x"),
        "delete": lambda: client.delete("x"),
        "head": lambda: client.look("x"),
    }
    answer = calls[kind]()
    assert proxy.counts[kind] >= 3
    assert answer is None or answer == b"0" or "x" in str(answer)
    assert client.get("x") == {"put": b"1", "delete": None}.get(kind, b"0")


@pytest.mark.parametrize(
    ("said", "code", "advice"),
    [
        (Say(404, "NoSuchBucket"), "DH-BUCKET", "create it, or correct the URL"),
        (Say(400, "ExpiredToken"), "DH-CREDENTIALS", "have expired .*: renew them"),
        (Say(403, "ExpiredToken"), "DH-CREDENTIALS", "have expired .*: renew them"),
        (Say(403, "InvalidAccessKeyId"), "DH-CREDENTIALS", "does not accept the credentials"),
        (Say(403, "SignatureDoesNotMatch"), "DH-CREDENTIALS", "check key, secret and token"),
        (Say(401), "DH-CREDENTIALS", "check key, secret and token"),
        (Say(404, "XAdminUserNotFound"), "DH-CREDENTIALS", "check key, secret and token"),
        (Say(404), "DH-ENDPOINT", "no object store"),
        (Say(301, "PermanentRedirect"), "DH-REGION", "set aws_region"),
        (Say(400, "AuthorizationHeaderMalformed"), "DH-REGION", "set aws_region"),
        (Say(403, "AccessDenied"), "DH-FORBIDDEN", "s3:ListBucket"),
        (Say(403, "RequestTimeTooSkewed"), "DH-CLOCK", r"set this machine's clock \(NTP\)"),
        (Say(501), "DH-ENDPOINT", "no object store"),
        (Say(400), "DH-ENDPOINT", "no object store"),
        (Say(400, "SomethingElse"), "DH-OBJECTS", "; nothing was changed"),
    ],
    ids=str,
)
def test_an_answer_becomes_a_sentence(through: Through, proxy: FaultProxy, said: Say, code: str, advice: str) -> None:
    proxy.choose = lambda _request: said
    client = through()
    calls: list[Callable[[], Any]] = [
        lambda: client.put_new("commit-1", b""),
        lambda: client.get("commit-1"),
        lambda: client.get_range("commit-1", 0, 1),
        lambda: client.list(),
    ]
    for call in calls:
        with pytest.raises(dh.ObjectStoreError) as caught:
            call()
        text = str(caught.value)
        assert re.match(rf"\[{code}\] cannot .* at {client.location.url}: .*{advice}", text), text
        assert "\n" not in text
    assert sum(proxy.counts.values()) == len(calls)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "http://nowhere.invalid:80"])
def test_an_endpoint_where_nobody_answers(endpoint: str, s3: Any) -> None:
    options = {**s3.options, "aws_endpoint_url": endpoint, "allow_http": "true"}
    client = objects.open_client("s3://bucket/x", options, retries=QUICK)
    with pytest.raises(
        dh.ObjectStoreError, match=r"^\[DH-ENDPOINT\] .* nobody answers at the endpoint .*aws_endpoint_url"
    ):
        client.get("x")


def test_plain_http_elsewhere_must_be_allowed(s3: Any) -> None:
    options = {**s3.options, "aws_endpoint_url": "http://store.example"}
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-ENDPOINT\] .* plain HTTP .*allow_http=true"):
        objects.open_client("s3://bucket/x", options, retries=QUICK).get("x")


def test_credentials_that_expired_are_renewed(through: Through, proxy: FaultProxy) -> None:
    given: list[str] = []

    def renew() -> dict[str, Any]:
        given.append(f"key-{len(given)}")
        return {"access_key_id": given[-1], "secret_access_key": "s", "token": None, "expires_at": None}

    proxy.choose = lambda request: Say(400, "ExpiredToken") if b"key-0/" in request.head else None
    client = through(credential_provider=renew, aws_access_key_id=None, aws_secret_access_key=None)
    assert client.put_new("x", b"1") == "created"
    assert client.get("x") == b"1"
    assert given == ["key-0", "key-1"]
    assert proxy.counts == {"create": 2, "get": 1}


def test_many_faults_create_nothing_twice(through: Through, proxy: FaultProxy) -> None:
    chance = random.Random(17)
    proxy.late = 0.01
    proxy.choose = lambda _request: chance.choice([*Fault, CONFLICT]) if chance.random() < 0.3 else None
    clients = [through(retries=Retries(20, 0.001, 0.01, 30.0)) for _ in range(3)]
    won: dict[str, list[int]] = {}
    for number in range(40):
        name = f"commit-{number}"
        for writer in chance.sample(range(3), 3):
            own = f"writer {writer}".encode()
            if clients[writer].put_new(name, own) == "created" or clients[writer].get(name) == own:
                won.setdefault(name, []).append(writer)
    proxy.choose = lambda _request: None
    assert {name: len(writers) for name, writers in won.items()} == {f"commit-{number}": 1 for number in range(40)}
    for name, (writer,) in won.items():
        assert clients[0].get(name) == f"writer {writer}".encode()


def upload(through: Through, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """The upload of a file in parts, which takes longer than a request is tried."""
    monkeypatch.setattr(transfer, "WHOLE", 1 << 20)
    monkeypatch.setattr(transfer, "PART", 5 << 20)
    monkeypatch.setattr(transfer, "THREADS", 1)
    (tmp_path / "out").write_bytes(bytes(11 << 20))
    client = through(retries=Retries(5, 0.01, 0.05, deadline=0.2))
    return lambda: client.put_file("segment", tmp_path / "out")


@pytest.mark.parametrize("fault", [Fault.ERROR_BEFORE, Fault.ERROR_AFTER, Fault.DROP_BEFORE, Fault.DROP_AFTER], ids=str)
def test_a_part_that_fails_late_does_not_end_its_upload(
    through: Through, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    sent = upload(through, tmp_path, monkeypatch)
    fails = [fault]

    def choose(request: Request) -> Fault | None:
        if "partNumber=1" in request.target:
            time.sleep(0.5)
        return fails.pop() if fails and "partNumber=3" in request.target else None

    proxy.choose = choose
    assert sent() == "created"
    assert not fails


def test_an_upload_whose_end_has_no_answer_is_seen(
    through: Through, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = upload(through, tmp_path, monkeypatch)

    def choose(request: Request) -> Fault | Say | None:
        if request.kind != "post" or "uploadId" not in request.target:
            return None
        time.sleep(0.5)
        return ends.pop() if len(ends) > 1 else ends[0]

    ends: list[Fault | Say] = [Say(404, "NoSuchUpload"), Fault.ERROR_AFTER]
    proxy.choose = choose
    assert sent() == "created"
