"""Histories on object storage, next to a Delta table and DynamoDB's way: `python -m benches.objects`.

Everything runs against moto on loopback by a proxy that adds a latency to each request, counts the
requests, and so tells what they would cost. In turn on the same machine: the client by itself; a
history in a directory and, once `dochistory.open` takes URLs, in a bucket; a Delta table with
`MERGE` (delta-rs); a conditional put a document (DynamoDB, moto's).
"""

import argparse
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.servers.fault_proxy import FaultProxy, fault_proxy
from tests.servers.objects import Server, moto

import dochistory as dh
from benches.machine import machine
from benches.object_costs import DYNAMO_WRITE, STORES, Requests, counted
from benches.stores import TRIGGER
from dochistory import objects

RESULT = Path("out/objects.json")
Job = Callable[[], Any]


@contextmanager
def slowed(server: Server, latency_ms: float) -> Iterator[FaultProxy]:
    """The store, so much farther away."""
    with fault_proxy(server.port, latency=latency_ms / 1000) as proxy:
        yield proxy


def measured(proxy: FaultProxy, job: Job, runs: int, documents: int) -> dict[str, Any]:
    """Seconds of each run, and the requests of all of them; after one run to warm up."""
    job()
    proxy.reset()
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - started)
    requests = counted(proxy.counts, proxy.bytes_in, proxy.bytes_out)
    a_run = requests.times(1 / runs)
    return {
        "documents": documents,
        "seconds": statistics.median(seconds),
        "least": min(seconds),
        "most": max(seconds),
        "documents_a_second": documents / statistics.median(seconds),
        "puts": a_run.puts,
        "gets": a_run.gets,
        "kinds": {kind: count / runs for kind, count in sorted(proxy.counts.items())},
        "bytes_sent_a_document": a_run.sent / documents,
        "dollars_a_million_documents": dollars(requests, documents * runs),
    }


def dollars(requests: Requests, documents: int) -> dict[str, float]:
    """For each store, what the requests of a million documents cost."""
    return {store.name: requests.dollars(store) / documents * 1e6 for store in STORES}


def ids(count: int) -> list[str]:
    """New ids."""
    return [str(uuid.uuid4()) for _ in range(count)]


def of_client(server: Server, proxy: FaultProxy, home: Path) -> dict[str, float]:
    """Milliseconds of each request of the client, latency included; GB/s of a file in parts."""
    client = objects.open_client(f"{server.url}/{uuid.uuid4()}", server.through(proxy.port))
    numbers = iter(range(10**9))
    client.put("there", b"x" * 1000)
    calls: dict[str, Job] = {
        "create": lambda: client.put_new(f"new/{next(numbers)}", b"x" * 1000),
        "get": lambda: client.get("there"),
        "get, not there": lambda: client.get("nothing"),
        "list": lambda: client.list("nothing"),
    }
    found = {name: median_ms(call) for name, call in calls.items()}
    large = home / "large"
    large.write_bytes(b"x" * (64 << 20))
    started = time.perf_counter()
    client.put_file("large", large)
    found["put 64 MiB"] = (time.perf_counter() - started) * 1000
    started = time.perf_counter()
    client.get_file("large", home / "back")
    found["get 64 MiB"] = (time.perf_counter() - started) * 1000
    (home / "back").unlink()
    return found


def median_ms(call: Job, times: int = 30) -> float:
    """What a call takes, the first one apart."""
    call()
    took = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        took.append(time.perf_counter() - started)
    return statistics.median(took) * 1000


def claims(history: dh.History, batch: int) -> Job:
    """Begin and complete a batch of new documents."""

    def job() -> None:
        documents = pa.record_batch({"uuid": ids(batch)})
        history.begin(documents, TRIGGER).complete()

    return job


def of_history(where: str, options: dict[str, str] | None, proxy: FaultProxy, batch: int, runs: int) -> dict[str, Any]:
    """A history's begin and complete, in a directory or in a bucket."""
    more: dict[str, Any] = {} if options is None else {"storage_options": options}
    with dh.open(where, create=True, **more) as history:
        return measured(proxy, claims(history, batch), runs, batch)


def of_delta(server: Server, proxy: FaultProxy, batch: int, runs: int) -> dict[str, Any]:
    """The same job as a table: MERGE what is new as processing, MERGE it as completed."""
    import deltalake

    where = f"{server.url}/{uuid.uuid4()}/table"
    options = {**server.through(proxy.port), "allow_http": "true"}
    schema = pa.schema([("uuid", pa.string()), ("status", pa.string())])
    deltalake.write_deltalake(where, schema.empty_table(), storage_options=options)

    def job() -> None:
        table = deltalake.DeltaTable(where, storage_options=options)
        rows = pa.table({"uuid": ids(batch), "status": ["processing"] * batch}, schema)
        merge = table.merge(rows, "old.uuid = new.uuid", source_alias="new", target_alias="old")
        merge.when_not_matched_insert_all().execute()
        done = pa.table({"uuid": rows["uuid"], "status": ["completed"] * batch}, schema)
        merge = table.merge(done, "old.uuid = new.uuid", source_alias="new", target_alias="old")
        merge.when_matched_update_all().execute()

    return measured(proxy, job, runs, batch)


def of_dynamo(proxy: FaultProxy, batch: int, runs: int) -> dict[str, Any]:
    """A conditional put for each document, then an update, by 8 threads."""
    import boto3
    from botocore.config import Config

    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1"}
    config = Config(max_pool_connections=8)
    client = boto3.client("dynamodb", endpoint_url=proxy.endpoint, config=config, **keys)
    name = f"t{uuid.uuid4().hex}"
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "uuid", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "uuid", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )

    def one(uuid_: str) -> None:
        key = {"uuid": {"S": uuid_}}
        client.put_item(
            TableName=name,
            Item=key,
            ConditionExpression="attribute_not_exists(#u)",
            ExpressionAttributeNames={"#u": "uuid"},
        )
        client.update_item(
            TableName=name, Key=key, UpdateExpression="SET s = :c", ExpressionAttributeValues={":c": {"S": "completed"}}
        )

    def job() -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(one, ids(batch)))

    found = measured(proxy, job, runs, batch)
    writes = found["kinds"]["post"]
    found["dollars_a_million_documents"] = {"DynamoDB": writes / batch * DYNAMO_WRITE}
    client.close()
    return found


def takes_urls(server: Server) -> bool:
    """Whether this version opens a history in a bucket."""
    try:
        dh.open(f"{server.url}/{uuid.uuid4()}", create=True, storage_options=dict(server.options)).close()
    except (dh.OpenError, TypeError):
        return False
    return True


def run(server: Server, latency_ms: float, batch: int, runs: int, home: Path) -> dict[str, Any]:
    """All that is compared, in turn, at one latency."""
    with slowed(server, latency_ms) as proxy:
        found: dict[str, Any] = {"client": of_client(server, proxy, home)}
        found["directory"] = of_history(str(home / f"{latency_ms}.history"), None, proxy, batch, runs)
        if takes_urls(server):
            where = f"{server.url}/{uuid.uuid4()}/orders.history"
            found["bucket"] = of_history(where, server.through(proxy.port), proxy, batch, runs)
        found["delta"] = of_delta(server, proxy, batch, runs)
        found["dynamo"] = of_dynamo(proxy, min(batch, 400), 1)
    return found


def shown(latency_ms: float, found: dict[str, Any]) -> Iterator[str]:
    """The figures as Markdown."""
    yield f"\n{latency_ms:g} ms added: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in found["client"].items())
    yield "| way | documents/s | documents a batch | puts a batch | gets a batch | dollars a million documents |"
    yield "|---|---:|---:|---:|---:|---|"
    for way, one in found.items():
        if way != "client":
            costs = {
                name: cost for name, cost in one["dollars_a_million_documents"].items() if name in ("S3", "DynamoDB")
            }
            said = ", ".join(f"{name} {cost:.4f}" for name, cost in costs.items())
            figures = f"{one['documents_a_second']:,.0f} | {one['documents']:,} | {one['puts']:.1f} | {one['gets']:.1f}"
            yield f"| {way} | {figures} | {said} |"


def main() -> None:
    """Measure, print and keep."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--latencies", type=float, nargs="+", default=[0.0, 20.0, 60.0], help="ms added to each request"
    )
    options.add_argument("--batch", type=int, default=10_000, help="documents in a batch")
    options.add_argument("--runs", type=int, default=5)
    given = options.parse_args()
    results = {}
    with moto() as server, tempfile.TemporaryDirectory() as home:
        for latency_ms in given.latencies:
            results[f"{latency_ms:g} ms"] = run(server, latency_ms, given.batch, given.runs, Path(home))
            print("\n".join(shown(latency_ms, results[f"{latency_ms:g} ms"])), flush=True)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"machine": machine(), "batch": given.batch, "results": results}, indent=1))


if __name__ == "__main__":
    main()
