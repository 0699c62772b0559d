"""Histories in a bucket, for tests that run in a directory and in a bucket: one moto a run, a place for each test.

A new history is checked by some 90 requests. Here its identity is put without them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest

import dochistory as dh
from dochistory import objects
from tests.servers.objects import Server, moto

InBucket = Callable[[], dh.History]


@pytest.fixture(scope="session")
def store() -> Iterator[Server]:
    """One moto for the whole run."""
    with moto() as server:
        yield server


@pytest.fixture(scope="session")
def identity(store: Server) -> bytes:
    """The identity file of a history."""
    url = f"{store.url}/template.history"
    dh.open(url, create=True, storage_options=dict(store.options)).close()
    found: bytes | None = objects.open_client(url, store.options).get("HISTORY")
    assert found is not None
    return found


@pytest.fixture
def in_bucket(store: Server, identity: bytes) -> InBucket:
    """Opens a handle of one history that is the test's own."""
    url = f"{store.url}/{secrets.token_hex(4)}/test.history"
    objects.open_client(url, store.options).put_new("HISTORY", identity)
    return lambda: dh.open(url, storage_options=dict(store.options))
