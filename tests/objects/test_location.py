"""URLs of object stores."""

from pathlib import Path

import pytest

import dochistory as dh
from dochistory import objects


@pytest.mark.parametrize(
    ("url", "kind", "bucket", "prefix", "canonical"),
    [
        ("s3://bucket/a/b", "s3", "bucket", "a/b", "s3://bucket/a/b"),
        ("s3a://bucket/a/b/", "s3", "bucket", "a/b", "s3://bucket/a/b"),
        ("S3://bucket", "s3", "bucket", "", "s3://bucket"),
        ("gs://bucket/orders.history", "gs", "bucket", "orders.history", "gs://bucket/orders.history"),
        ("az://container/x", "az", "container", "x", "az://container/x"),
        ("abfs://container/x", "az", "container", "x", "az://container/x"),
        ("file:///data/x", "file", "", "data/x", "file:///data/x"),
        ("s3://bucket/ü %20", "s3", "bucket", "ü %20", "s3://bucket/ü %20"),
    ],
)
def test_a_url_names_a_place(url: str, kind: str, bucket: str, prefix: str, canonical: str) -> None:
    location = objects.parse(url)
    assert (location.kind, location.bucket, location.prefix, location.url) == (kind, bucket, prefix, canonical)
    assert objects.parse(location.url) == location


def test_a_url_that_pathlib_shortened_names_the_same() -> None:
    assert objects.parse(str(Path("s3://bucket/a/b"))) == objects.parse("s3://bucket/a/b")


def test_azures_account_may_stand_in_the_url() -> None:
    location = objects.parse("abfss://data@shop.dfs.core.windows.net/orders.history")
    assert (location.bucket, location.account, location.endpoint) == ("data", "shop", None)
    assert location.url == "abfss://data@shop.dfs.core.windows.net/orders.history"
    other = objects.parse("abfss://data@shop.dfs.core.usgovcloudapi.net/x")
    assert other.endpoint == "https://shop.blob.core.usgovcloudapi.net"


@pytest.mark.parametrize(
    "url",
    [
        *("orders.history", "/data/x", "hdfs://name/x", "dbfs:/x", "s3:bucket", "s3://", "s3:///x", "file:///"),
        *("s3://bucket//x", "s3://bucket/../x", "s3://bucket/x?a=1", "s3://bucket/x#y", "s3://host:9000/x"),
        *("s3://bucket@host/x", "abfss://data@evil.example/x", "s3://bucket/\n"),
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] .* is no URL of an object store: "):
        objects.parse(url)


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(dh.ConfigError) as caught:
        objects.parse("s3://user:hunter2@bucket/x")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "is_url"),
    [
        ("s3://b/x", True),
        ("abfss://c@a.dfs.core.windows.net/x", True),
        ("s3:/b/x", True),
        ("C:x", False),
        ("/s3", False),
        ("file:///x", False),
        ("hdfs://x/y", False),
        ("s3", False),
        (Path("s3://b/x"), True),
    ],
)
def test_urls_are_told_from_paths(given: str | Path, is_url: bool) -> None:
    assert objects.is_url(given) is is_url
