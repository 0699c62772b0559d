"""`check_cluster` for a history in a bucket: what driver and workers reach, and whether they agree about it."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dochistory as dh
from dochistory import objects
from dochistory.checks import Check
from dochistory.cli import main
from dochistory.objects import probe
from dochistory.spark import cluster_bucket
from dochistory.spark.same_bucket import BucketSight, Given
from tests.servers.fault_proxy import FaultProxy, Request, Say, fault_proxy
from tests.servers.objects import Server
from tests.spark.where import Where, in_bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

CHECKS = ("driver", "workers", "same store", "same history", "written by workers", "create", "race", "clocks")


@pytest.fixture
def bucket(s3: Server, tmp_path: Path) -> Where:
    """A history in a bucket."""
    place = in_bucket(s3, tmp_path / "cache")
    place.open(create=True).close()
    return place


@pytest.fixture
def proxy(s3: Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3.port) as running:
        yield running


def sight_of(bucket: Where, **options: str) -> BucketSight:
    """What travels to workers, with other options."""
    with bucket.open() as history:
        given = Given({**bucket.given["storage_options"], **options})
        return BucketSight.of(history, bucket.path, given, None)


def results(checks: list[Check]) -> dict[str, str]:
    return {one.name: one.result for one in checks}


def left(bucket: Where) -> list[str]:
    """What checks left in the bucket."""
    listed = objects.open_client(bucket.path, bucket.given["storage_options"]).list()
    return [one.name for one in listed if one.name.startswith("tmp-")]


def refused(request: Request) -> Say | None:
    """What a store says to a key that it does not know."""
    return Say(403, "InvalidAccessKeyId") if b"Credential=stranger/" in request.head else None


def test_check_of_a_bucket_is_clean_and_leaves_nothing(spark: "SparkSession", bucket: Where) -> None:
    checks = dh.spark.check_cluster(bucket.path, spark, tasks=2, **bucket.given)
    assert results(checks) == dict.fromkeys([*CHECKS, "requests"], "ok")
    assert left(bucket) == []


def test_doctor_looks_at_a_bucket_through_spark(
    spark: "SparkSession", bucket: Where, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    options = dict(bucket.given["storage_options"])
    # Workers take what is absent from their own environment, which the driver's does not reach here.
    monkeypatch.setattr("dochistory.cli.context.Context.storage_options", options)
    assert main(["doctor", "--cluster", "--history", bucket.path, "--json"]) == 0
    said = {one["name"]: one["result"] for one in json.loads(capsys.readouterr().out)["checks"]}
    assert {name: said[name] for name in CHECKS} == dict.fromkeys(CHECKS, "ok")


def test_wrong_credential_of_the_driver_is_an_error(
    spark: "SparkSession", bucket: Where, s3: Server, proxy: FaultProxy
) -> None:
    proxy.choose = refused
    options = {**s3.through(proxy.port), "aws_access_key_id": "stranger"}
    with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-CREDENTIALS\]"):
        dh.spark.check_cluster(bucket.path, spark, storage_options=options)


def test_worker_with_a_wrong_credential_is_named(bucket: Where, s3: Server, proxy: FaultProxy) -> None:
    proxy.choose = refused
    client = objects.open_client(bucket.path, dict(s3.options))
    with probe.probing(client) as one:
        sight = sight_of(bucket, **s3.through(proxy.port) | {"aws_access_key_id": "stranger"})
        found, closed = cluster_bucket._look(sight, one.nonce)  # noqa: SLF001 - a worker's part
        driver = probe.look(client, one.nonce)
        checks = list(cluster_bucket._checks(sight, driver, [found], [closed], one.arrived([driver, found])))  # noqa: SLF001
    assert results(checks)["same store"] == "wrong"
    [said] = [one.found for one in checks if one.name == "same store"]
    assert said.startswith(f"on {driver.host} [DH-CREDENTIALS]")
    assert s3.options["aws_secret_access_key"] not in said


def test_worker_that_reaches_another_store_is_named(bucket: Where) -> None:
    sight = sight_of(bucket)
    elsewhere = probe.look(objects.open_client(f"{bucket.path}-other", bucket.given["storage_options"]), "0" * 16)
    assert elsewhere.trouble.endswith("this is another store or bucket")
    with probe.probing(objects.open_client(bucket.path, bucket.given["storage_options"])) as one:
        _, closed = cluster_bucket._look(replace(sight, history="0" * 32), one.nonce)  # noqa: SLF001 - a worker's part
    assert "there is another history" in closed
    assert left(bucket) == []


def unconditional(request: Request) -> None:
    """Let the store not see that an object may only be created."""
    if request.target.endswith("/race"):
        head = re.sub(b"if-none-match", b"x-if-none-match", request.head, flags=re.IGNORECASE)
        object.__setattr__(request, "head", head)  # the proxy hands on what stands there


def test_store_that_lets_several_create_one_object_is_wrong(
    spark: "SparkSession", bucket: Where, s3: Server, proxy: FaultProxy
) -> None:
    proxy.choose = unconditional
    checks = dh.spark.check_cluster(bucket.path, spark, tasks=2, storage_options=s3.through(proxy.port))
    [race] = [one for one in checks if one.name == "race"]
    assert race.result == "wrong"
    assert race.found.startswith("3 of 3 created one object")


def test_check_that_fails_deletes_what_it_made(
    spark: "SparkSession", bucket: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("the job broke")

    monkeypatch.setattr(cluster_bucket, "_from_workers", broken)
    with pytest.raises(ValueError, match="the job broke"):
        dh.spark.check_cluster(bucket.path, spark, **bucket.given)
    assert left(bucket) == []


def test_lost_objects_and_clocks_apart_are_named() -> None:
    one = probe.Found("one", 1, "", "a", winner="a", has_won=True)
    two = probe.Found("two", 2, "", "b", "an object was there that nobody stored", "a", ahead_s=400.0)
    three = probe.Found("three", 3, "", "c", winner="c", ahead_s=-90.0)
    sight = BucketSight("s3://bucket/x", "0" * 32, "one", Given(), None)
    checks = {
        check.name: check
        for check in cluster_bucket._checks(sight, one, [two, three], ["", ""], {"a", "c"})  # noqa: SLF001 - no two hosts here
    }
    assert checks["written by workers"].found == "on two what it stored is not there"
    assert checks["create"].found == "on two an object was there that nobody stored"
    assert checks["race"].found == "under one name 2 different objects were read: a, c"
    assert checks["clocks"].result == "wrong"
    said = checks["clocks"].found
    assert said.startswith("on three the clock is 90 s behind the store's; on two the clock is 400 s ahead of")
