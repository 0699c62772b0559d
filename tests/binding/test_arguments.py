"""Arguments that make no sense: one sentence with a code, at every function of the extension that takes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import objects
from tests.support import documents, trigger

ORDERS = trigger()
TRANSACTIONS: dict[str, Callable[[dh.History, Any], object]] = {
    "begin": lambda history, given: history.begin(documents(["a"]), ORDERS, transaction=given),
    "begin_send": lambda history, given: history.mapper("c").begin_send(pa.table({"id": ["a"]}), transaction=given),
    "reserve": lambda history, given: history._shards.reserve(ORDERS, transaction=given),
    "commit_entries": lambda history, given: history._shards.commit_entries([], ORDERS, transaction=given),
    "plan": lambda history, given: history._shards.plan_delivery(history.delivery(), transaction=given),
    "receive": lambda history, given: history.delivery().receive(transaction=given),
    "gather": lambda history, given: history._shards.merge_delivery(history.delivery(), b"", [], transaction=given),
}
TRIGGERS: dict[str, Callable[[dh.History, Any], object]] = {
    "classify": lambda history, given: history.classify(documents(["a"]), given),
    "begin": lambda history, given: history.begin(documents(["a"]), given),
    "reserve": lambda history, given: history._shards.reserve(given),
    "job": lambda history, given: history._shards.job("token", given),
    "stage": lambda history, given: history._shards.stage(documents(["a"]), given, job="token", part=0, attempt="a"),
    "stage_entries": lambda history, given: history._shards.stage_entries(
        documents(["a"]), given, job="token", part=0, attempt="a"
    ),
    "commit_entries": lambda history, given: history._shards.commit_entries([], given),
    "load": lambda history, given: history.load(documents(["a"]), given),
    "complete": lambda history, given: history.complete(["a"], given),
    "release": lambda history, given: history.release(["a"], given),
}


@pytest.mark.parametrize("entrance", TRANSACTIONS)
@pytest.mark.parametrize(
    "given",
    [
        *[("a",), ("a", 1, 2), ("a", "b"), ("a", -1), ("a", None), (None, 1), ("", 1), ("a", 1.5), ("a", True)],
        *[("a", 2**63), (b"a", 1), ["a", 1], "ab", 5],
    ],
    ids=repr,
)
def test_invalid_transaction_is_refused(history: dh.History, entrance: str, given: Any) -> None:
    with pytest.raises(dh.ConfigError) as refused:
        TRANSACTIONS[entrance](history, given)
    assert str(refused.value) == (
        f"[DH-CONFIG] transaction is {given!r}; allowed is (name of an application, number of its batch): "
        "text that is not empty, and a whole number from 0 on"
    )
    assert history.triggers() == []


@pytest.mark.parametrize("entrance", TRIGGERS)
@pytest.mark.parametrize("given", ["orders", None, 7])
def test_what_is_no_trigger_is_refused(history: dh.History, entrance: str, given: Any) -> None:
    with pytest.raises(dh.ConfigError) as refused:
        TRIGGERS[entrance](history, given)
    assert str(refused.value) == f"[DH-CONFIG] trigger is {given!r}; needed is a dochistory.Trigger"


@pytest.mark.parametrize("given", [0, -1, "2", 1.5, None, True, 2**32])
def test_invalid_number_of_parts_is_refused(history: dh.History, given: Any) -> None:
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] parts is .*; allowed is a whole number from 1 on"):
        history._shards.reserve(ORDERS, given)


@pytest.mark.parametrize(
    "url", ["s3://bucket/h", "s3a://bucket/h", "gs://b/h", "hdfs://node:8020/h", "dbfs:/h", "wasbs:/h", "http://x/h"]
)
def test_a_url_that_is_no_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (url, Path(url)):
        calls: list[Callable[[Any], object]] = [dh.local_path]
        if not objects.is_url(given):
            calls += [dh.repair, lambda at: dh.open(at, create=True)]
        for call in calls:
            with pytest.raises(
                dh.OpenError, match=rf"\[DH-OPEN\] {given}: .* HDFS cannot hold a history, and a bucket"
            ):
                call(given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a:b", "x:/y", "file", ":/a", "a b:/c", "1a:/b"])
def test_a_name_with_a_colon_stays_a_path(name: str) -> None:
    assert dh.local_path(name) == Path(name).absolute()


def test_a_file_url_names_a_path() -> None:
    assert dh.local_path("file:///a%20b/c%2") == Path("/a b/c%2")
    assert dh.local_path("file:///%C3%BC") == Path("/ü")
    assert dh.local_path("File:/a") == dh.local_path("file://localhost/a") == Path("/a")
    with pytest.raises(dh.OpenError, match='this names the machine "node"'):
        dh.local_path("file://node/a")
    with pytest.raises(dh.ConfigError, match=r"path is 7; allowed is a str or an os\.PathLike"):
        dh.local_path(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_binary_ids_of_16_bytes_are_uuids(history: dh.History, kind: pa.DataType) -> None:
    ids = [bytes(range(n, n + 16)) for n in range(3)]
    column = pa.array([ids[0], None, ids[1]], kind)
    claim = history.begin(pa.table({"uuid": column}), ORDERS)
    assert claim.verdicts["rule"].to_pylist() == ["R8", "R3", "R8"]
    assert claim.new["uuid"].type == kind
    claim.complete()
    fixed = history.classify(pa.table({"uuid": pa.array(ids, pa.binary(16))}), ORDERS)
    assert fixed["status"].to_pylist() == ["DUPLICATE", "DUPLICATE", "NEW"]
    wrong = pa.table({"id": pa.array([ids[0], None, b"short"], kind)})
    with pytest.raises(
        dh.SchemaError, match=r"column \"id\" \(the trigger's uuid\) is binary, and 5 bytes long in row 2"
    ):
        history.begin(wrong, ORDERS, columns={"uuid": "id"})
