"""Azure and Google, by what they document: a server on loopback that gives one answer to everything."""

import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import objects
from tests.objects.conftest import QUICK
from tests.servers.objects import AZURE_ACCOUNT, AZURE_KEY

Answer = tuple[int, dict[str, str], str]


@dataclass
class Cloud:
    """What the server answers, and what it was asked."""

    port: int = 0
    choose: Callable[[str], Answer] = lambda _request: (404, {}, "")
    asked: list[str] = field(default_factory=list)

    def azure(self, **options: Any) -> objects.ObjectClient:
        """A client that takes this for Azure."""
        place = f"http://127.0.0.1:{self.port}/{AZURE_ACCOUNT}"
        own = {"azure_storage_account_name": AZURE_ACCOUNT, "azure_storage_endpoint": place}
        if not options:
            options = {"azure_storage_account_key": AZURE_KEY}
        return objects.open_client("az://container/h", {**own, **options}, retries=QUICK)

    def google(self, **options: Any) -> objects.ObjectClient:
        """A client that takes this for Google."""
        own = {"google_base_url": f"http://127.0.0.1:{self.port}"}  # on loopback, plain HTTP is allowed
        return objects.open_client("gs://bucket/h", {**own, **options}, retries=QUICK)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """A running server."""
    found = Cloud()

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            asked = f"{self.command} {self.path} {self.headers.get('Authorization', '')} {body}"
            found.asked.append(asked)
            status, headers, said = found.choose(asked)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(said.encode())), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(said.encode())

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def azure(status: int, code: str, message: str, detail: str = "") -> Answer:
    """An error as Azure words it."""
    more = f"<AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail>" if detail else ""
    message += "\nRequestId:2c25ad7c-a01e-0004-04a3-56c77b000000\nTime:2026-07-10T10:16:22.8096444Z"
    body = f"<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"
    body = f'\ufeff<?xml version="1.0" encoding="utf-8"?>{body}'
    return status, {"x-ms-error-code": code, "Content-Type": "application/xml"}, body


def google(status: int, code: str, message: str) -> Answer:
    """An error as Google words it."""
    return (
        status,
        {},
        f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message}</Message></Error>",
    )


def batch(line: str) -> Answer:
    """Azure's answer to a request that deletes one object."""
    head = "Content-Type: application/http\r\nContent-ID: 0\r\n\r\n"
    body = f"--b\r\n{head}HTTP/1.1 {line}\r\nx-ms-version: 1\r\n\r\n--b--\r\n"
    return 202, {"Content-Type": "multipart/mixed; boundary=b"}, body


SIGNED = "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly"
OLD = "Start [Thu, 09 Jul 2026 10:11:03 GMT] - Expiry [Thu, 09 Jul 2026 18:11:03 GMT] - Current [Fri, 10 Jul 2026 …]"
MAC = "The MAC signature found in the HTTP request 'c2lnbmF0dXJl' is not the same as any computed signature."


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            azure(403, "AuthenticationFailed", SIGNED, f"Signature not valid in the specified time frame: {OLD}"),
            r"\[DH-CREDENTIALS\] .* have expired .*Expiry \[Thu, 09 Jul.*: renew them",
        ),
        (
            azure(401, "InvalidAuthenticationInfo", SIGNED, "Lifetime validation failed. The token is expired."),
            r"\[DH-CREDENTIALS\] .* have expired .*: renew them",
        ),
        (
            azure(403, "AuthenticationFailed", SIGNED, "Request date header too old: 'Tue, 15 Oct 2019 09:00:00 GMT'"),
            r"\[DH-CLOCK\] .*Tue, 15 Oct.*: set this machine's clock",
        ),
        (
            azure(403, "AuthenticationFailed", SIGNED, "The Date header in the request is incorrect."),
            r"\[DH-CLOCK\] .*: set this machine's clock",
        ),
        (azure(403, "AuthenticationFailed", SIGNED, MAC), r"\[DH-CREDENTIALS\] .* does not accept .*: check key"),
        (azure(403, "AuthorizationFailure", SIGNED), r"\[DH-CREDENTIALS\] .* does not accept .*: check key"),
        (
            azure(403, "AuthorizationFailure", "This request is not authorized to perform this operation."),
            r"\[DH-FORBIDDEN\] .* does not let this machine in .*firewall",
        ),
        (azure(404, "ContainerNotFound", "The specified container does not exist."), r"\[DH-BUCKET\] .*create it"),
    ],
)
def test_what_azure_answers_becomes_a_sentence(cloud: Cloud, answer: Answer, sentence: str) -> None:
    cloud.choose = lambda _asked: answer
    client = cloud.azure()
    calls: list[Callable[[], Any]] = [
        lambda: client.put_new("x", b"1"),
        lambda: client.get("x"),
        lambda: client.look("x"),
        lambda: client.list(),
        lambda: client.delete("x"),
    ]
    for call in calls:
        with pytest.raises(dh.ObjectStoreError) as caught:
            call()
        assert re.match(sentence, str(caught.value)), str(caught.value)
        assert "\n" not in str(caught.value)
        assert "RequestId" not in str(caught.value)
        assert "c2lnbmF0dXJl" not in str(caught.value)


@pytest.mark.parametrize("cloud_of", ["azure", "google"])
def test_a_provider_is_asked_again_for_what_has_expired(cloud: Cloud, cloud_of: str) -> None:
    given: list[str] = []

    def provide() -> dict[str, Any]:
        given.append(f"token-{len(given)}")
        return {"token": given[-1], "expires_at": None}

    refused = {
        "azure": azure(401, "InvalidAuthenticationInfo", SIGNED, "Lifetime validation failed. The token is expired."),
        "google": google(401, "AuthenticationRequired", "Authentication required."),
    }[cloud_of]
    there = {"ETag": '"1"', "Last-Modified": "Fri, 10 Jul 2026 10:00:00 GMT"}
    cloud.choose = lambda asked: refused if "token-0" in asked else (200, there, "found")
    assert getattr(cloud, cloud_of)(credential_provider=provide).get("x") == b"found"
    assert given == ["token-0", "token-1"]


@pytest.mark.parametrize("line", ["503 The server is busy.", "500 Operation could not be completed within the time."])
def test_a_deletion_that_azure_puts_off_is_tried_again(cloud: Cloud, line: str) -> None:
    left = [line, line]
    cloud.choose = lambda _asked: batch(left.pop() if left else "202 Accepted")
    cloud.azure().delete("x")
    assert len(cloud.asked) == 3


def test_what_azure_does_not_have_is_deleted(cloud: Cloud) -> None:
    cloud.choose = lambda _asked: batch("404 The specified blob does not exist.")
    cloud.azure().delete("x")
    assert len(cloud.asked) == 1


def test_a_deletion_that_azure_refuses_says_what_to_do(cloud: Cloud) -> None:
    cloud.choose = lambda _asked: batch("403 This request is not authorized to perform this operation.")
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-FORBIDDEN\] cannot delete x .*answers 403.*: allow to .*"):
        cloud.azure().delete("x")
    assert len(cloud.asked) == 1


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("invalid_request", r"\[DH-CREDENTIALS\] .*AADSTS90002: Tenant.*: check key"),
        ("invalid_grant", r"\[DH-CREDENTIALS\] .*AADSTS90002: Tenant.*: check key"),
    ],
)
def test_a_server_of_tokens_that_refuses_is_no_wrong_endpoint(cloud: Cloud, said: str, sentence: str) -> None:
    body = f'{{"error":"{said}","error_description":"AADSTS90002: Tenant \'x\' not found.","error_codes":[90002]}}'
    cloud.choose = lambda _asked: (400, {"Content-Type": "application/json"}, body)
    client = cloud.azure(
        azure_storage_client_id="id",
        azure_storage_client_secret="a-secret",
        azure_storage_tenant_id="tenant",
        azure_storage_authority_host=f"http://127.0.0.1:{cloud.port}",
    )
    with pytest.raises(dh.ObjectStoreError, match=rf"^{sentence}"):
        client.get("x")


def test_a_list_whose_parts_come_again_has_an_end(cloud: Cloud) -> None:
    row = "<Contents><Key>h/a</Key><LastModified>2026-07-10T10:00:00.000Z</LastModified><Size>1</Size></Contents>"
    page = f"<ListBucketResult>{row}<NextContinuationToken>same</NextContinuationToken></ListBucketResult>"
    left = [page, page]
    cloud.choose = lambda _asked: (200, {}, left.pop() if left else page.replace("NextC", "NoC"))
    client = cloud.google(google_bearer_token="t")
    # A store may have been at fault once.
    assert [one.name for one in client.list()] == ["a"]
    cloud.choose = lambda _asked: (200, {}, page)
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-STORE\] cannot list .* repeatedly .*another store"):
        client.list()


def test_an_endpoint_of_google_is_named_and_shown() -> None:
    options = {"google_base_url": "http://127.0.0.1:1", "google_bearer_token": "a-secret"}
    client = objects.open_client("gs://bucket/h", options, retries=QUICK)
    assert "http://127.0.0.1:1" in repr(client)
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-ENDPOINT\] .* nobody answers .*google_base_url"):
        client.get("x")


def test_options_that_are_not_enough_say_what_is(tmp_path: Path) -> None:
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] .*Account .*: name it by azure_storage_account_name"):
        objects.open_client("az://container/h", {})
    source = {"file": "/x"}
    federated = {"type": "external_account", "audience": "a", "subject_token_type": "t", "credential_source": source}
    (tmp_path / "key.json").write_text(json.dumps(federated))
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\] .*external_account.*: .*GoogleCredentialProvider"):
        objects.open_client("gs://bucket/h", {"google_application_credentials": str(tmp_path / "key.json")})
