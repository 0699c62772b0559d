"""A history in a bucket serves Spark as one in a directory does, by one URL."""

import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dochistory as dh
from dochistory import objects
from dochistory.spark.options import Options
from dochistory.spark.place import Place
from dochistory.spark.same_bucket import BucketSight, Given
from dochistory.spark.snapshots import Snapshot
from tests.delivery.support import header
from tests.mapper.support import mapped
from tests.servers.fault_proxy import Say, fault_proxy
from tests.servers.objects import Server
from tests.spark.support import Stream, orders, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]

IDS = ["a", "done", "b", "doubtful", "c", None, "x" * 97, "a"]


@pytest.fixture
def url(s3: Server) -> str:
    return f"{s3.url}/{secrets.token_hex(4)}/orders.history"


@pytest.fixture
def given(s3: Server, tmp_path: Path) -> dict[str, Any]:
    """What the entrances are given besides the URL."""
    return {"storage_options": dict(s3.options), "cache": tmp_path / "cache"}


Opened = Callable[..., dh.History]


@pytest.fixture
def opened(url: str, given: dict[str, Any]) -> Opened:
    return lambda **how: dh.open(url, **given, **how)


def frame(spark: "SparkSession", ids: list[str | None]) -> "DataFrame":
    return spark.createDataFrame(rows(ids).to_pandas()).repartition(2)


def judged(df: "DataFrame") -> list[tuple[str | None, str | None, str]]:
    return sorted(((row.uuid, row.status, row.rule) for row in df.collect()), key=str)


def fill(history: dh.History) -> None:
    history.begin(rows(["done"]), orders()).complete()
    history.begin(rows(["doubtful"]), orders())


def rules(history: dh.History, ids: list[str]) -> list[str]:
    found: list[str] = history.classify(rows(ids), orders())["rule"].to_pylist()
    return found


def test_bucket_gives_the_verdicts_of_a_directory(
    spark: "SparkSession",
    url: str,
    given: dict[str, Any],
    opened: Opened,
    history_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with opened(create=True) as one, dh.open(history_path, create=True) as other:
        fill(one)
        fill(other)
    df = frame(spark, IDS)
    wanted = judged(dh.spark.classify(df, history_path, orders()))
    found = dh.spark.classify(df, url, orders(), **given)
    assert judged(found) == wanted
    column = dh.spark.verdict(url, orders(), **given)
    assert judged(df.select("uuid", column.alias("v")).select("uuid", "v.status", "v.rule")) == wanted
    with opened() as history:
        assert judged(dh.spark.classify(df, history, orders(), "map", **given)) == wanted
    found.explain("extended")
    assert "loopback" not in capsys.readouterr().out


def test_next_call_by_the_url_goes_on_with_the_last_ones_handle(
    spark: "SparkSession", s3: Server, url: str, given: dict[str, Any], opened: Opened
) -> None:
    with opened(create=True) as history:
        fill(history)
    with fault_proxy(s3.port) as proxy:
        through = {**given, "storage_options": s3.through(proxy.port)}
        asked = []
        turns: list[list[str | None]] = [["a", "done"], ["b", "a"], ["c", "b"]]
        for ids in turns:
            with dh.spark.claim(frame(spark, ids), url, orders(), parts=1, **through) as claim:
                claim.complete()
            asked.append(dict(proxy.counts))
            assert claim.counts["rule"] == {"R8": 1, "R9": 1}
            proxy.reset()
    # A list is the look of a handle that is new. What workers ask is in these, too.
    assert [one.get("list", 0) for one in asked] == [1, 0, 0]


def test_history_made_again_at_the_url_is_another_one(
    spark: "SparkSession", s3: Server, url: str, given: dict[str, Any]
) -> None:
    for _ in range(2):
        with dh.spark.claim(frame(spark, ["a", "b"]), url, orders(), parts=1, **given) as claim:
            claim.complete()
        assert claim.counts["rule"] == {"R8": 2}
        assert judged(dh.spark.classify(frame(spark, ["a"]), url, orders(), **given)) == [("a", "DUPLICATE", "R9")]
        client = objects.open_client(url, s3.options)
        for name in [one.name for one in client.list("")]:
            client.delete(name)


def test_handle_is_kept_for_one_user_and_unless_something_fails(
    url: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place.of(url, **given)
    first = place.take(create=True)
    place.put_back(first, failed=False)
    assert place.take() is first
    second = place.take()
    assert second is not first
    place.put_back(first, failed=False)
    place.put_back(second, failed=False)
    assert first.closed
    with pytest.raises(dh.OpenError), place.opened() as third:
        third.unpin(orders(), "none")
    assert third is second
    assert second.closed
    with place.opened() as fourth:
        assert not fourth.closed
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another")
    with place.opened() as fifth:
        assert fifth is not fourth


def test_handle_whose_cache_was_deleted_is_not_used_again(
    spark: "SparkSession", url: str, given: dict[str, Any]
) -> None:
    for ids, rules_ in (["a", "b"], {"R8": 2}), (["b", "c"], {"R8": 1, "R9": 1}):
        with dh.spark.claim(frame(spark, [*ids]), url, orders(), parts=1, **given) as claim:
            claim.complete()
        assert claim.counts["rule"] == rules_
        shutil.rmtree(given["cache"])


def test_few_handles_are_kept(s3: Server, given: dict[str, Any]) -> None:
    kept = []
    for _ in range(10):
        with Place.of(f"{s3.url}/{secrets.token_hex(4)}/orders.history", **given).opened(create=True) as history:
            kept.append(history)
    assert [history.closed for history in kept] == [True, True, *[False] * 8]


def seen_by(server: Mapping[str, str], snapshot: Snapshot, cache: Path) -> Snapshot:
    """The same, to a worker with options and a cache of its own."""
    assert isinstance(snapshot.sight, BucketSight)
    return replace(snapshot, sight=replace(snapshot.sight, given=Given(server), cache=str(cache)))


def test_worker_asks_for_a_pin_and_its_files_at_once(
    s3: Server, url: str, given: dict[str, Any], opened: Opened, tmp_path: Path
) -> None:
    with opened(create=True) as history:
        fill(history)
    snapshot = Snapshot.of(Place.of(url, **given), "orders")
    with fault_proxy(s3.port) as proxy:
        for asked in ({"get": 2}, {"get": 1}):  # the next worker of the machine has the file
            proxy.reset()
            with seen_by(s3.through(proxy.port), snapshot, tmp_path / "worker")._opened() as reader:  # noqa: SLF001
                assert rules(reader, ["done", "doubtful", "a"]) == ["R9", "R11", "R8"]
            assert dict(proxy.counts) == asked, proxy.targets


def test_worker_believes_no_description_that_the_bucket_denies(
    s3: Server, url: str, given: dict[str, Any], opened: Opened, tmp_path: Path
) -> None:
    def is_opened() -> None:
        with seen_by(s3.options, snapshot, tmp_path / secrets.token_hex(4))._opened() as reader:  # noqa: SLF001
            rules(reader, ["done"])

    with opened(create=True) as history:
        fill(history)
        snapshot = Snapshot.of(Place.of(url, **given), "orders")
        is_opened()
        history.unpin(orders(), snapshot.token)
        with pytest.raises(dh.OpenError, match="this snapshot is over"):
            is_opened()
    client = objects.open_client(url, s3.options)
    identity = client.get("HISTORY")
    assert identity is not None
    client.delete("HISTORY")
    with pytest.raises(dh.ClusterError, match="there is no history"):
        is_opened()
    other = f"{url}-other"
    dh.open(other, create=True, storage_options=dict(s3.options)).close()
    found = objects.open_client(other, s3.options).get("HISTORY")
    assert found is not None
    client.put("HISTORY", found)
    with pytest.raises(dh.ClusterError, match="there is another history"):
        is_opened()


def test_plan_stays_the_same_whatever_is_collected(
    spark: "SparkSession", url: str, given: dict[str, Any], opened: Opened
) -> None:
    with opened(create=True) as history:
        fill(history)
        found = dh.spark.classify(frame(spark, IDS), url, orders(), **given)
        wanted = judged(found)
        [pin] = history.pins(orders())
        for number in range(4):
            history.begin(rows(["a", f"new-{number}"]), orders()).complete()
            history.maintain(orders(), all=True, grace=0)
        # Workers of another plan have to fetch what was pinned.
        shutil.rmtree(given["cache"] / "dochistory-objects")
        assert judged(found) == judged(found) == wanted
        assert ("a", "NEW", "R8") in wanted
        assert rules(history, ["a"]) == ["R9"]
        history.unpin(orders(), pin["snapshot"])
        assert history.pins(orders()) == []


def test_claim_begins_what_is_new_and_knows_its_replay(
    spark: "SparkSession", url: str, given: dict[str, Any], opened: Opened
) -> None:
    with opened(create=True) as history:
        fill(history)
    df = frame(spark, IDS)
    with dh.spark.claim(df, url, orders(), transaction=("app", 1), **given) as claim:
        assert claim.counts["rule"] == {"R11": 1, "R3": 1, "R4": 1, "R8": 3, "R8+batch": 1, "R9": 1}
        assert sorted(row.uuid for row in claim.new.collect()) == ["a", "b", "c"]
        with opened() as history:
            assert rules(history, ["a", "b", "c"]) == ["R11"] * 3
    with dh.spark.claim(df, url, orders(), transaction=("app", 1), **given) as claim:
        assert claim.replay == "unfinished"
        assert not len(claim)
    with dh.spark.claim(df, url, orders(), transaction=("app", 1), on_replay="rerun", **given) as claim:
        assert sorted(row.uuid for row in claim.new.collect()) == ["a", "b", "c"]
        claim.complete()
    with dh.spark.claim(df, url, orders(), transaction=("app", 1), **given) as claim:
        assert claim.replay == "finished"
    with opened() as history:
        assert rules(history, ["a", "b", "c"]) == ["R9"] * 3
        assert history.pins(orders()) == []


@pytest.mark.parametrize("decide_on", ["driver", "executors"])
def test_stream_processes_each_document_once(
    spark: "SparkSession", url: str, given: dict[str, Any], tmp_path: Path, decide_on: Any
) -> None:
    ran: list[str] = []
    handle = dh.spark.exactly_once(
        url,
        orders(),
        lambda new, _batch: ran.extend(row.uuid for row in new.collect()),
        application="app",
        decide_on=decide_on,
        **given,
    )
    stream = Stream(spark, tmp_path)
    stream.add(["a", "b"])
    stream.run(handle)
    stream.add(["b", "c"])
    stream.run(handle)
    assert sorted(ran) == ["a", "b", "c"]


def test_stream_sends_each_message_once(
    spark: "SparkSession", url: str, given: dict[str, Any], opened: Opened, tmp_path: Path
) -> None:
    sent: list[str] = []

    def service(new: Any, _batch: object) -> list[str]:
        sent.extend(new["uuid"].to_pylist())
        return [f"ext-{one}" for one in new["uuid"].to_pylist()]

    handle = dh.spark.send_once(url, "jms", service, messages="arrow", columns={"id": "uuid"}, **given)
    stream = Stream(spark, tmp_path)
    stream.add(["a", "b"])
    stream.add(["b", "c"])
    stream.run(handle)
    stream.forget_commit(1)
    stream.run(dh.spark.send_once(url, "jms", service, messages="arrow", columns={"id": "uuid"}, **given))
    assert sent == ["a", "b", "c"]
    with opened() as history:
        assert mapped(history.mapper("jms"), sent) == ["ext-a", "ext-b", "ext-c"]


def test_tasks_apply_each_message_of_delivery_once(
    spark: "SparkSession", url: str, given: dict[str, Any], opened: Opened
) -> None:
    applied: list[str] = []
    chain = [header(0, 10), header(10, 20), header(20, 30)]

    def handler() -> Any:
        take = lambda found, _batch: applied.extend(found["header"].to_pylist())  # noqa: E731 - one line says it
        options: dict[str, Any] = {"application": "feed", "messages": "arrow", "start": {"a": 0}, "patience": 9}
        return dh.spark.delivery(url, take, **options, **given)

    def batch(*texts: str) -> "DataFrame":
        return spark.createDataFrame([("a", text) for text in texts], "stream string, header string")

    handle = handler()
    handle(batch(chain[2], chain[0]), 0)
    handle(batch(chain[1], chain[0]), 1)
    handle.close()
    # Another driver takes the last batch again.
    handle = handler()
    handle(batch(chain[1], chain[0]), 1)
    handle.close()
    assert applied == chain
    with opened() as history:
        assert history.delivery_status()["log_received"].to_pylist() == [30]


def test_wrong_credential_sends_and_applies_nothing(
    spark: "SparkSession", url: str, s3: Server, given: dict[str, Any], opened: Opened
) -> None:
    def nothing(*_: Any) -> None:
        raise AssertionError

    opened(create=True).close()
    with fault_proxy(s3.port) as proxy:
        proxy.choose = lambda one: Say(403, "InvalidAccessKeyId") if b"Credential=stranger/" in one.head else None
        wrong = {**s3.through(proxy.port), "aws_access_key_id": "stranger"}
        frame = spark.createDataFrame([("a", header(0, 10))], "stream string, header string")
        send = dh.spark.send_once(
            url, "jms", nothing, application="app", columns={"id": "stream"}, messages="arrow", storage_options=wrong
        )
        with pytest.raises(dh.ObjectStoreError, match=r"^\[DH-CREDENTIALS\]"):
            send(frame, 0)
        # The driver has the right one, and its workers have not.
        with opened() as history:
            deliver = dh.spark.delivery(
                history, nothing, application="app", messages="arrow", start={"a": 0}, storage_options=wrong
            )
            with pytest.raises(Exception, match=r"\[DH-CREDENTIALS\]") as refused:
                deliver(frame, 0)
            assert given["storage_options"]["aws_secret_access_key"] not in str(refused.value)
            assert history.mappers() == []
            assert history.delivery_status()["log_received"].to_pylist() == [0]


@pytest.mark.slow
def test_documents_in_doubt_of_a_stream_are_kept_once(
    spark: "SparkSession", url: str, given: dict[str, Any], opened: Opened
) -> None:
    with opened(create=True) as history:
        fill(history)
    keep = dh.spark.keep_in_doubt(url, orders(), **given)
    sink = dh.spark.audit_sink(url, orders(), application="sink", **given)
    df = frame(spark, ["doubtful", "done", "a"])
    for decide_on in ("driver", "executors"):
        for _ in range(2):
            handle = dh.spark.exactly_once(
                url, orders(), lambda *_: None, application=decide_on, decide_on=decide_on, on_verdicts=keep, **given
            )
            handle(df, 0)
        sink(dh.spark.classify(df, url, orders(), **given), 0)
    with opened() as history:
        found = [(one["application"], one["key"]) for one in history.audit.list().to_pylist()]
    assert sorted(found) == [("driver", "doubtful"), ("executors", "doubtful"), ("sink", "doubtful")]


def test_entries_are_loaded_written_and_read_by_url(
    spark: "SparkSession", url: str, given: dict[str, Any], opened: Opened
) -> None:
    assert dh.spark.load(frame(spark, ["a", "b"]), url, orders(), **given) == 2
    assert dh.spark.load(frame(spark, ["c"]), url, orders(), application="once", **given) == 1
    assert dh.spark.load(frame(spark, ["c"]), url, orders(), application="once", **given) == 0
    with opened() as history:
        assert rules(history, ["a", "b", "c", "d"]) == ["R9", "R9", "R9", "R8"]
        assert history.pins(orders()) == []


FORMAT = """
import sys
import dochistory as dh
from tests.spark.support import rows
url, endpoint = sys.argv[1:]
spark = dh.spark.session(master="local[2]")
frame = spark.createDataFrame(rows(["a", "b"]).to_pandas()).repartition(2)
options = {"path": url, "trigger": "orders", "storage.aws_endpoint_url": endpoint, "storage.aws_region": "us-east-1"}
frame.write.format("dochistory").options(**options, history_time_to_live="2 hours").mode("append").save()
found = spark.read.format("dochistory").options(**options).load()
assert sorted((row.key, row.status) for row in found.collect()) == [("a", "completed"), ("b", "completed")]
storage = {"aws_endpoint_url": endpoint, "aws_region": "us-east-1"}
by_function = dh.spark.read(spark, url, "orders", keys=["a", "z"], storage_options=storage)
assert [row.key for row in by_function.collect()] == ["a"]
"""


@pytest.mark.slow
def test_format_takes_credentials_from_the_environment(url: str, s3: Server, opened: Opened, tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.datasource", reason="data sources of Python came with Spark 4.0: test_older.py")
    keys = {"AWS_ACCESS_KEY_ID": "aws_access_key_id", "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    environment |= {variable: s3.options[option] for variable, option in keys.items()}
    script = [sys.executable, "-c", FORMAT, url, s3.options["aws_endpoint_url"]]
    done = subprocess.run(script, check=False, capture_output=True, cwd=tmp_path, env=environment, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    with opened() as history:
        assert rules(history, ["a", "b", "c"]) == ["R9", "R9", "R8"]


def test_format_refuses_secrets_among_its_options(url: str) -> None:
    options = Options({"path": url, "storage.aws_secret_access_key": "x"}, writing=False)
    with pytest.raises(dh.ConfigError, match=r"storage.aws_secret_access_key may be a secret"):
        options.place()


def test_options_that_make_no_sense_are_refused_at_once(url: str) -> None:
    def nothing(*_: Any) -> None:
        raise AssertionError

    with pytest.raises(dh.ConfigError, match="this is a directory"):
        dh.spark.exactly_once("orders.history", orders(), nothing, storage_options={"aws_region": "x"})
    with pytest.raises(dh.ConfigError, match="credential_provider cannot be sent"):
        dh.spark.exactly_once(
            url, orders(), nothing, storage_options={"credential_provider": threading.Lock().__enter__}
        )


def test_worker_that_reaches_another_store_says_so(url: str, given: dict[str, Any], opened: Opened) -> None:
    with opened(create=True) as history:
        sight = BucketSight.of(history, url, Given(given["storage_options"]), str(given["cache"]))
        assert "loopback" not in repr(sight)
    for changed, said in (
        (replace(sight, history="0" * 32), "another"),
        (replace(sight, path=url + "2"), "no"),
    ):
        with pytest.raises(dh.ClusterError, match=rf"^\[DH-CLUSTER\] this worker does not find .* there is {said} "):
            changed.open(read_only=True)


def test_page_about_buckets_runs(
    spark: "SparkSession", url: str, s3: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "buckets.md").read_text(encoding="utf-8")
    [snippet] = re.findall(r"^```python spark\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(compile(snippet, "buckets.md", "exec"), {"dh": dh, "spark": spark, "url": url, "options": dict(s3.options)})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^print\(.*\)\s+# (\[.*\])$", snippet, re.MULTILINE)
