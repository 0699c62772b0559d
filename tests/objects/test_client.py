"""The requests of a client, on moto and on a directory."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import dochistory as dh
from dochistory import objects
from dochistory.objects import transfer
from tests.objects.conftest import Through
from tests.servers.fault_proxy import FaultProxy
from tests.servers.objects import Server


@pytest.fixture(params=["moto", "directory"])
def any_client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[objects.ObjectClient]:
    """A client of either kind of store."""
    if request.param == "moto":
        yield request.getfixturevalue("client")
    else:
        yield objects.open_client(f"file://{tmp_path}/objects")


def test_a_name_is_created_once(any_client: objects.ObjectClient) -> None:
    assert any_client.put_new("orders/commit-1", b"first") == "created"
    assert any_client.put_new("orders/commit-1", b"second") == "exists"
    assert any_client.get("orders/commit-1") == b"first"


def test_of_many_threads_one_creates(any_client: objects.ObjectClient) -> None:
    with ThreadPoolExecutor(16) as threads:
        outcomes = list(threads.map(lambda n: any_client.put_new("x", str(n).encode()), range(16)))
    assert sorted(outcomes) == ["created"] + ["exists"] * 15
    assert any_client.get("x") == str(outcomes.index("created")).encode()


def test_put_takes_the_place_of_what_is_there(any_client: objects.ObjectClient) -> None:
    any_client.put("hint", b"1")
    any_client.put("hint", b"22")
    assert any_client.get("hint") == b"22"


def test_what_is_not_there_is_none(any_client: objects.ObjectClient, tmp_path: Path) -> None:
    assert any_client.get("x") is None
    assert any_client.get_range("x", 0, 10) is None
    assert any_client.look("x") is None
    assert any_client.get_file("x", tmp_path / "x") is False
    assert not (tmp_path / "x").exists()
    any_client.delete("x")


def test_ranges_end_where_the_object_does(any_client: objects.ObjectClient) -> None:
    any_client.put("x", bytes(range(100)))
    assert any_client.get_range("x", 10, 5) == bytes(range(10, 15))
    assert any_client.get_range("x", 90, 50) == bytes(range(90, 100))
    assert any_client.get_range("x", 100, 5) == b""
    assert any_client.get_range("x", 500, 5) == b""
    assert any_client.get_range("x", 5, 0) == b""


def test_a_list_has_names_sizes_and_times(any_client: objects.ObjectClient) -> None:
    before = time.time() - 2
    for name in ("a/commit-1", "a/commit-2", "a/hint", "ab/x", "a/commit/3"):
        any_client.put(name, name.encode())
    assert {one.name for one in any_client.list()} == {"a/commit-1", "a/commit-2", "a/hint", "ab/x", "a/commit/3"}
    found = sorted(any_client.list("a/commit-"), key=lambda one: one.name)
    assert [(one.name, one.size) for one in found] == [("a/commit-1", 10), ("a/commit-2", 10)]
    assert all(before < one.changed_us / 1e6 < time.time() + 2 for one in found)
    assert {one.name for one in any_client.list("a")} == {"a/commit-1", "a/commit-2", "a/hint", "ab/x", "a/commit/3"}
    assert [one.name for one in any_client.list("a/commit-", after="a/commit-1")] == ["a/commit-2"]
    assert any_client.list("nothing/") == []


@pytest.mark.slow
def test_a_list_of_thousands_is_whole(client: objects.ObjectClient) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: client.put(f"many/{n:05}", b""), range(1100)))
    assert len(client.list("many/")) == 1100


def test_a_deleted_name_is_free(any_client: objects.ObjectClient) -> None:
    any_client.put_new("x", b"1")
    any_client.delete("x")
    assert any_client.get("x") is None
    assert any_client.put_new("x", b"2") == "created"


@pytest.mark.parametrize("size", [0, 1, 5 * 64, 5 * 64 + 7])
def test_a_file_comes_back_as_it_was(
    any_client: objects.ObjectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(transfer, "PART", 64)
    (tmp_path / "out").write_bytes(os.urandom(size))
    assert any_client.put_file("segment", tmp_path / "out") == "created"
    assert any_client.put_file("segment", tmp_path / "out") == "exists"
    for known in (None, size, size + 1, 1):
        assert any_client.get_file("segment", tmp_path / "in", known) is True
        assert (tmp_path / "in").read_bytes() == (tmp_path / "out").read_bytes()
        assert any_client.get_file("none", tmp_path / "none", known) is False


def test_a_small_file_of_known_size_takes_one_request(through: Through, proxy: FaultProxy, tmp_path: Path) -> None:
    client = through()
    client.put("x", b"12345")
    proxy.reset()
    assert client.get_file("x", tmp_path / "x", 5)
    assert proxy.counts == {"get": 1}


def test_a_large_file_goes_in_parts(
    through: Through, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "WHOLE", 1 << 20)
    monkeypatch.setattr(transfer, "PART", 5 << 20)
    (tmp_path / "out").write_bytes(os.urandom(11 << 20))
    client = through()
    assert client.put_file("segment", tmp_path / "out") == "created"
    assert (proxy.counts["post"], proxy.counts["put"]) == (2, 3)
    assert client.put_file("segment", tmp_path / "out") == "exists"
    proxy.reset()
    assert client.get_file("segment", tmp_path / "in") is True
    assert proxy.counts == {"head": 1, "get": 3}
    assert (tmp_path / "in").read_bytes() == (tmp_path / "out").read_bytes()


def test_a_file_that_exists_is_replaced(client: objects.ObjectClient, tmp_path: Path) -> None:
    client.put("x", b"1")
    (tmp_path / "x").write_bytes(b"what was there before")
    assert client.get_file("x", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"1"


def test_places_do_not_see_each_other(s3: Server, place: str) -> None:
    one = objects.open_client(f"{place}/one", s3.options)
    two = objects.open_client(f"{place}/one2", s3.options)
    two.put("x", b"2")
    assert one.get("x") is None
    assert one.list() == []


def test_an_idle_client_sends_nothing(through: Through, proxy: FaultProxy) -> None:
    client = through()
    client.put_new("x", b"1")
    proxy.reset()
    time.sleep(0.3)
    assert proxy.counts == {}


def test_each_call_is_one_request(through: Through, proxy: FaultProxy) -> None:
    client = through()
    client.put_new("x", b"1")
    client.put_new("x", b"2")
    client.put("x", b"3")
    client.get("x")
    client.get_range("x", 0, 1)
    client.list("x")
    client.delete("x")
    assert proxy.counts == {"create": 2, "put": 1, "get": 2, "list": 1, "delete": 1}


def test_a_missing_bucket_is_said_so(s3: Server) -> None:
    client = objects.open_client("s3://nothing-there/x", s3.options)
    for request in (lambda: client.put_new("x", b""), lambda: client.get("x"), lambda: client.list()):
        with pytest.raises(
            dh.ObjectStoreError, match=r"^\[DH-BUCKET\] cannot .* at s3://nothing-there/x: .* create it"
        ):
            request()
