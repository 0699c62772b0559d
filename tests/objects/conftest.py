"""Fixtures of the tests of object stores: moto, a proxy before it, a client in a folder of its own."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import objects
from dochistory.objects.retries import Retries
from tests.servers.fault_proxy import FaultProxy, fault_proxy
from tests.servers.objects import Server, moto

QUICK = Retries(attempts=6, first_wait=0.01, longest_wait=0.05, deadline=10.0)
"""Retries that a test can wait for."""


@pytest.fixture(scope="session")
def s3() -> Iterator[Server]:
    """One moto for the whole run."""
    with moto() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine's own credentials."""
    import os

    for name in [*os.environ]:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def place(s3: Server) -> str:
    """The URL of a folder that is the test's own."""
    return f"{s3.url}/{secrets.token_hex(4)}/orders.history"


@pytest.fixture
def client(s3: Server, place: str) -> objects.ObjectClient:
    """A client of that folder."""
    return objects.open_client(place, s3.options, retries=QUICK)


@pytest.fixture
def proxy(s3: Server) -> Iterator[FaultProxy]:
    """A proxy before moto."""
    with fault_proxy(s3.port) as running:
        yield running


Through = Callable[..., objects.ObjectClient]


@pytest.fixture
def through(s3: Server, place: str, proxy: FaultProxy) -> Through:
    """Clients of the folder by the proxy."""

    def made(retries: Retries = QUICK, **options: Any) -> objects.ObjectClient:
        return objects.open_client(place, {**s3.through(proxy.port), "timeout": "10s", **options}, retries=retries)

    return made


Open = Callable[..., dh.History]


@pytest.fixture
def opened(s3: Server, place: str, tmp_path: Path) -> Open:
    """Handles of the history, each with a replica below `tmp_path/cache`."""

    def made(server: dict[str, Any] | None = None, **options: Any) -> dh.History:
        return dh.open(place, storage_options=server or dict(s3.options), cache=tmp_path / "cache", **options)

    return made
