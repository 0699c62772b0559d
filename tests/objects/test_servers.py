"""The client and the check against real servers, each on loopback."""

from pathlib import Path

import pytest

import dochistory as dh
from dochistory import objects
from tests.objects.conftest import QUICK
from tests.servers.objects import azurite, s3s_fs, versitygw

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # installing a server takes minutes


def used(client: objects.ObjectClient, tmp_path: Path) -> None:
    """Every request once."""
    assert client.put_new("a/x", b"1234") == "created"
    assert client.put_new("a/x", b"12") == "exists"
    client.put("a/y", b"5")
    assert client.get("a/x") == b"1234"
    assert client.get_range("a/x", 1, 2) == b"23"
    assert client.get("a/z") is None
    assert {(one.name, one.size) for one in client.list("a/")} == {("a/x", 4), ("a/y", 1)}
    (tmp_path / "file").write_bytes(b"x" * 1000)
    assert client.put_file("a/file", tmp_path / "file") == "created"
    assert client.get_file("a/file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"x" * 1000
    for name in ("a/x", "a/y", "a/file", "a/z"):
        client.delete(name)
    assert client.list() == []


def test_versitygw_keeps_its_promises(tmp_path: Path) -> None:
    with versitygw(tmp_path / "data") as server:
        client = objects.open_client(f"{server.url}/h", server.options, retries=QUICK)
        used(client, tmp_path)
        assert objects.check(client).keeps_promises


def test_versitygw_does_not_know_other_credentials(tmp_path: Path) -> None:
    with versitygw(tmp_path / "data") as server:
        for wrong in ({"aws_access_key_id": "other"}, {"aws_secret_access_key": "other"}):
            client = objects.open_client(f"{server.url}/h", {**server.options, **wrong}, retries=QUICK)
            with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-CREDENTIALS\] "):
                client.get("x")


def test_azurite_keeps_its_promises(tmp_path: Path) -> None:
    with azurite(tmp_path / "data") as server:
        client = objects.open_client(f"{server.url}/h", server.options, retries=QUICK)
        used(client, tmp_path)
        assert objects.check(client).keeps_promises
        nowhere = objects.open_client("az://nothing-there/h", server.options, retries=QUICK)
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-BUCKET\] "):
            nowhere.put("x", b"")


def test_s3s_fs_is_refused(tmp_path: Path) -> None:
    with s3s_fs(tmp_path / "data") as server:
        client = objects.open_client(f"{server.url}/h", server.options, retries=QUICK)
        report = objects.check(client)
        assert not report.keeps_promises
        assert report.checks[0].result == "wrong"
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-STORE\] .*created the same object"):
            objects.quick_check(client)
