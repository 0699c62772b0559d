"""What a document costs one by one, beside other ways to process each once. `python -m benches.consumers_beside`.

Each way records a document durably before its service, and again after it, as `Consumer.one` does.
All run in one process, in turns; the servers run on this machine. moto is a simulation: its figure
shows what the client costs, and no network.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.servers import free_port, program
from tests.servers.postgres import server as postgres_server

import dochistory as dh

Once = Callable[[str, Callable[[], object]], object]
"""Runs a service once for an id."""


@contextlib.contextmanager
def nothing(_: Path) -> Iterator[Once]:
    """No deduplication."""
    yield lambda _, service: service()


@contextlib.contextmanager
def own(directory: Path) -> Iterator[Once]:
    """`Consumer.one`."""
    trigger = dh.Trigger("orders")
    with dh.Consumer(directory / "orders.history", trigger) as consumer:

        def once(key: str, service: Callable[[], object]) -> None:
            with consumer.one(key) as document:
                if document.new:
                    service()

        yield once


@contextlib.contextmanager
def sqlite(directory: Path) -> Iterator[Once]:
    """A table with a primary key; WAL, and a sync for each commit."""
    database = sqlite3.connect(directory / "ids.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE ids (id TEXT PRIMARY KEY, completed INT) WITHOUT ROWID")

    def once(key: str, service: Callable[[], object]) -> None:
        if database.execute("INSERT INTO ids VALUES (?, 0) ON CONFLICT DO NOTHING", [key]).rowcount:
            service()
            database.execute("UPDATE ids SET completed = 1 WHERE id = ?", [key])

    yield once
    database.close()


@contextlib.contextmanager
def postgresql(_: Path) -> Iterator[Once]:
    """INSERT … ON CONFLICT DO NOTHING."""
    import psycopg

    with postgres_server(durable=True) as where, psycopg.connect(where, autocommit=True) as database:
        database.execute("CREATE TABLE ids (id TEXT PRIMARY KEY, completed BOOL)")

        def once(key: str, service: Callable[[], object]) -> None:
            if database.execute("INSERT INTO ids VALUES (%s, false) ON CONFLICT DO NOTHING", [key]).rowcount:
                service()
                database.execute("UPDATE ids SET completed = true WHERE id = %s", [key])

        yield once


@contextlib.contextmanager
def redis(directory: Path) -> Iterator[Once]:
    """SET NX, and its log synced for each write."""
    port = free_port()
    command = [program("redis-server", "redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", directory]
    served = subprocess.Popen(
        [*command, "--appendonly", "yes", "--appendfsync", "always", "--save", ""], stdout=subprocess.DEVNULL
    )
    try:
        link = _connected(port)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = link.makefile("rb")

        def ask(*words: str) -> bytes:
            parts = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
            link.sendall(f"*{len(words)}\r\n{parts}".encode())
            answer: bytes = answers.readline()
            return answer

        def once(key: str, service: Callable[[], object]) -> None:
            if ask("SET", key, "begun", "NX") == b"+OK\r\n":
                service()
                ask("SET", key, "completed")

        yield once
        link.close()
    finally:
        served.kill()
        served.wait()


@contextlib.contextmanager
def powertools(_: Path) -> Iterator[Once]:
    """Powertools' decorator on moto's DynamoDB."""
    import boto3
    from aws_lambda_powertools.utilities.idempotency import (
        DynamoDBPersistenceLayer,
        IdempotencyConfig,
        idempotent_function,
    )

    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": "eu-central-1"}
    os.environ["POWERTOOLS_SERVICE_NAME"] = "bench"
    warnings.simplefilter("ignore")  # there is no Lambda context here
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    served = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _connected(port).close()
        client = boto3.client("dynamodb", endpoint_url=f"http://127.0.0.1:{port}")
        client.create_table(
            TableName="ids",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        layer = DynamoDBPersistenceLayer(table_name="ids", boto3_client=client)

        def run(key: str, service: Callable[[], object]) -> None:
            del key
            service()

        once = idempotent_function(
            run, data_keyword_argument="key", persistence_store=layer, config=IdempotencyConfig()
        )
        yield lambda key, service: once(key=key, service=service)
    finally:
        served.kill()
        served.wait()


def _connected(port: int) -> socket.socket:
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


WAYS = {
    "no deduplication": nothing,
    "dochistory": own,
    "SQLite": sqlite,
    "PostgreSQL": postgresql,
    "Redis": redis,
    "Powertools, moto": powertools,
}


def main() -> None:
    """Measure in turns, and print the medians in microseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--documents", type=int, default=200, help="a turn")
    options = parser.parse_args()
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in WAYS}
    directory = Path(tempfile.mkdtemp(prefix="dochistory-beside-"))
    os.environ["DOCHISTORY_STATE"] = str(directory / "state")
    try:
        with contextlib.ExitStack() as stack:
            ways = {}
            for name, way in WAYS.items():
                (directory / name).mkdir()
                ways[name] = stack.enter_context(way(directory / name))
            for _ in range(options.turns):
                for name, once in ways.items():
                    _measure(once, taken[name], options.documents)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{'':20} {'NEW us':>12} {'DUPLICATE us':>14}")
    for name, (new, again) in taken.items():
        print(f"{name:20} {statistics.median(new):12,.1f} {statistics.median(again):14,.1f}")


def _measure(once: Once, taken: tuple[list[float], list[float]], documents: int) -> None:
    keys = [str(uuid.uuid4()) for _ in range(documents)]
    ran: list[None] = []
    for times in taken:
        start = time.perf_counter()
        for key in keys:
            once(key, lambda: ran.append(None))
        times.append((time.perf_counter() - start) / documents * 1e6)
    if len(ran) not in (documents, 2 * documents):  # without deduplication all runs twice
        raise RuntimeError(f"{len(ran)} of {documents} documents ran")


if __name__ == "__main__":
    main()
