"""`dochistory check` and its short form: a store that keeps its promises, and stores that lie."""

import itertools
import json
import time
from collections.abc import Callable

import pytest

import dochistory as dh
from dochistory import objects
from dochistory.cli import main
from tests.objects.conftest import Through
from tests.servers.fault_proxy import Fault, FaultProxy, Request, Say
from tests.servers.objects import Server

Lie = Callable[[Request], Fault | Say | None]


def results(report: objects.Report) -> dict[str, str]:
    return {one.name: one.result for one in report.checks}


def test_a_store_that_keeps_its_promises(client: objects.ObjectClient) -> None:
    report = objects.check(client, rounds=3)
    assert set(results(report).values()) == {"ok"}
    assert report.keeps_promises
    assert len(report.checks) == 7
    assert report.latencies_ms["create"]["count"] >= 3 * 32
    assert 0 < report.latencies_ms["get"]["median"] <= report.latencies_ms["get"]["worst"]
    assert client.list() == []


def test_the_short_form_takes_few_requests(through: Through, proxy: FaultProxy) -> None:
    objects.quick_check(through())
    assert proxy.counts["create"] == 4 * 17 + 2
    assert sum(proxy.counts.values()) < 100
    assert through().list() == []


class ForgetsCondition:
    """A store that stores what it should refuse, now and then."""

    def __init__(self, client: objects.ObjectClient) -> None:
        self._client = client
        self._count = itertools.count()

    def put_new_once(self, name: str, content: bytes) -> str:
        if next(self._count) % 5 == 1:
            self._client.put(name, content)
            return "created"
        return self._client.put_new_once(name, content)


@pytest.mark.parametrize("form", [objects.quick_check, objects.check])
def test_a_store_with_two_winners_is_refused(
    client: objects.ObjectClient, form: Callable[[objects.ObjectClient], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    lying = ForgetsCondition(objects.open_client(client.location.url, client._options))  # noqa: SLF001
    monkeypatch.setattr(client, "put_new_once", lying.put_new_once)
    if form is objects.check:
        report = objects.check(client, rounds=2)
        assert not report.keeps_promises
        assert "of them created the same object" in report.checks[0].found
    else:
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-STORE\] .*created the same object.*nothing was made"):
            objects.quick_check(client)
    assert client.list() == []


def stale(kind: str) -> Lie:
    """Answers of this kind come too late by one: as if nothing had been stored."""

    def lie(request: Request) -> Say | None:
        if kind == "list" and request.kind == "list":
            empty = "<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"
            return Say(200, body=empty)
        if kind == "get" and request.kind == "get" and "/read-" in request.target:
            return Say(404, "NoSuchKey")
        if kind == "delete" and request.kind == "delete" and "/again-" in request.target:
            return Say(204)
        return None

    return lie


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [("list", "list after write"), ("get", "read after write"), ("delete", "delete, then create")],
)
def test_a_stale_answer_is_noticed(through: Through, proxy: FaultProxy, kind: str, wrong: str) -> None:
    proxy.choose = stale(kind)
    report = objects.check(through(), rounds=1)
    assert results(report)[wrong] == "wrong"
    assert [one.name for one in report.checks if one.result == "wrong"] == [wrong]
    with pytest.raises(dh.ObjectStoreError, match=rf"^\[DH-STORE\] .*{wrong}"):
        objects.quick_check(through())


def test_without_the_right_to_list_the_check_says_so(through: Through, proxy: FaultProxy) -> None:
    def choose(request: Request) -> Say | None:
        return Say(403, "AccessDenied") if request.target.endswith("/never") else None

    proxy.choose = choose
    report = objects.check(through(), rounds=1)
    wrong = [one for one in report.checks if one.result == "wrong"]
    assert [one.name for one in wrong] == ["a name that is not there"]
    assert "s3:ListBucket" in wrong[0].found


@pytest.mark.parametrize(("apart", "result"), [(0.0, "ok"), (120.0, "note"), (3600.0, "wrong"), (-3600.0, "wrong")])
def test_clocks_that_are_apart_are_noticed(
    client: objects.ObjectClient, monkeypatch: pytest.MonkeyPatch, apart: float, result: str
) -> None:
    now = time.time
    monkeypatch.setattr("dochistory.objects.promises.time.time", lambda: now() + apart)
    report = objects.check(client, rounds=1)
    assert results(report)["clock"] == result


def test_a_store_where_every_race_fails_is_refused(through: Through, proxy: FaultProxy) -> None:
    proxy.choose = lambda request: (
        Fault.ERROR_BEFORE if "/race-" in request.target and request.kind == "create" else None
    )
    report = objects.check(through(), rounds=2)
    assert [one.name for one in report.checks if one.result == "wrong"] == ["2 rounds of 32 racing creators"]


def test_requests_that_fail_now_and_then_are_no_lie(through: Through, proxy: FaultProxy) -> None:
    count = itertools.count()
    proxy.choose = lambda _request: (
        [Fault.ERROR_AFTER, Fault.DROP_BEFORE][next(count) % 2] if next(count) % 7 == 0 else None
    )
    report = objects.check(through(), rounds=3)
    assert report.keeps_promises, report.checks


def said_options(server: Server) -> list[str]:
    return [
        "--storage-option",
        f"aws_endpoint_url={server.options['aws_endpoint_url']}",
        "--storage-option",
        "aws_region=us-east-1",
    ]


def secret_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aws_access_key_id", "aws_secret_access_key"):
        monkeypatch.setenv(name.upper(), server.options[name])


def test_the_command_says_it_in_plain_words(
    s3: Server, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret_environment(s3, monkeypatch)
    assert main(["check", place, "--rounds", "1", *said_options(s3)]) == 0
    out = capsys.readouterr().out
    assert "exactly one created each object" in out
    assert out.rstrip().endswith("This store keeps what a history rests on.")
    assert main(["check", place, "--rounds", "1", "--json", *said_options(s3)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["keeps_promises"] is True
    assert {one["result"] for one in found["checks"]} == {"ok"}
    assert found["latencies_ms"]["create"]["count"] >= 32


def test_old_name_of_its_options_works_and_says_so(
    s3: Server, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret_environment(s3, monkeypatch)
    old = [word.replace("--storage-option", "--option") for word in said_options(s3)]
    assert main(["check", place, "--rounds", "1", *old]) == 0
    assert capsys.readouterr().err == "dochistory: note: --option is --storage-option now, as in all commands\n"


def test_the_command_fails_for_a_store_that_lies(
    s3: Server, place: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret_environment(s3, monkeypatch)
    proxy.choose = stale("list")
    options = ["--storage-option", f"aws_endpoint_url={proxy.endpoint}", "--storage-option", "aws_region=us-east-1"]
    assert main(["check", place, "--rounds", "1", *options]) == 1
    assert capsys.readouterr().out.rstrip().endswith("This store does NOT keep what a history rests on.")


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["s3://nothing-there/x"], 2, "DH-BUCKET"),
        (["/data/orders.history"], 2, "DH-INPUT"),
        (["s3://bucket/x?y"], 2, "DH-CONFIG"),
        (["s3://bucket/x", "--storage-option", "aws_secret_access_key=shh"], 2, "DH-INPUT"),
        (["s3://bucket/x", "--storage-option", "aws_region"], 2, "DH-INPUT"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence(
    s3: Server,
    words: list[str],
    status: int,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret_environment(s3, monkeypatch)
    assert main(["check", *words, *said_options(s3)]) == status
    err = capsys.readouterr().err
    assert err.rstrip().endswith(f"[{code}]")
    assert err.count("\n") == 1
    assert "shh" not in err
