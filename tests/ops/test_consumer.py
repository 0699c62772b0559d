"""Consumers: one document at a time, by threads and by coroutines; policies, stored results, what is kept."""

from __future__ import annotations

import asyncio
import functools
import logging
import pickle
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import journal
from dochistory._one_by_one import OneByOne
from dochistory.once import Retry
from tests.support import documents, rules, statuses, trigger


@pytest.fixture
def consumer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dh.Consumer]:
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    with dh.Consumer(tmp_path / "orders.history", trigger()) as one:
        yield one


def rule_of(consumer: dh.Consumer, *ids: str) -> list[str]:
    return rules(consumer.history.classify(documents(ids), trigger()))


def test_leaving_the_block_completes(consumer: dh.Consumer) -> None:
    with consumer.one("a", redelivery_count=0) as document:
        assert (document.new, document.status, document.rule, document.key) == (True, "NEW", "R8", "a")
    with consumer.one("a") as document:
        assert (document.new, document.status, document.rule) == (False, "DUPLICATE", "R9")
    assert document.acknowledge == "NOW"


def test_raising_leaves_the_document_in_doubt_and_kept(consumer: dh.Consumer) -> None:
    with pytest.raises(ValueError, match="no"), consumer.one("a"):
        raise ValueError("no")
    with consumer.one("a", payload=b"the order") as document:
        assert (document.status, document.rule, document.new) == ("IN_DOUBT", "R11", False)
    kept = consumer.history.audit.show(1)
    assert (kept["key"], kept["document"]["payload"]) == ("a", b"the order")


@pytest.mark.parametrize("error", [dh.RolledBack("undone"), ValueError("no")])
def test_released_document_is_new_again(consumer: dh.Consumer, error: Exception) -> None:
    policy: Any = "release" if isinstance(error, ValueError) else "in_doubt"
    with pytest.raises(type(error)), consumer.one("a", on_error=policy):
        raise error
    assert rule_of(consumer, "a") == ["R8"]


def test_a_batch_whose_count_finds_no_descriptor_is_begun(
    consumer: dh.Consumer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def exhausted(*_: object) -> None:
        raise dh.DescriptorsError("[DH-DESCRIPTORS] none")

    monkeypatch.setattr(dh.Statistics, "add_counts", exhausted)
    assert statuses(consumer.begin(documents(["a"])).verdicts) == ["NEW"]
    assert "a batch is missing in the statistics" in caplog.text


def test_interrupt_releases_nothing(consumer: dh.Consumer) -> None:
    with pytest.raises(KeyboardInterrupt), consumer.one("a", on_error="release"):
        raise KeyboardInterrupt
    assert rule_of(consumer, "a") == ["R11"]


@pytest.mark.parametrize("given", [uuid.UUID(int=7), str(uuid.UUID(int=7)), str(uuid.UUID(int=7)).encode()])
def test_ids_of_all_kinds_are_one_id(consumer: dh.Consumer, given: object) -> None:
    with consumer.one(given) as document:
        assert document.new
    assert rule_of(consumer, str(uuid.UUID(int=7))) == ["R9"]


@pytest.mark.parametrize("given", [7, b"\xff", 1.5, ["a"], "\ud800", "a\udfffb"])
def test_what_is_no_id_is_refused(consumer: dh.Consumer, given: object) -> None:
    with pytest.raises(dh.SchemaError, match="DH-SCHEMA"):
        consumer.one(given)
    with pytest.raises(dh.SchemaError, match="DH-SCHEMA"):
        consumer.one(track_id=given)
    with pytest.raises(dh.SchemaError, match="DH-SCHEMA"):
        consumer.begin([{"uuid": "good"}, {"uuid": given}])


@pytest.mark.parametrize("other", ["uuid", "redeliverycount"])
def test_another_id_is_refused_as_a_typing_error_is(consumer: dh.Consumer, other: str) -> None:
    typed: dict[str, Any] = {other: "b"}
    with pytest.raises(dh.ConfigError, match=rf"\[DH-CONFIG\] one was given {other}; allowed .* track_id"):
        consumer.one("a", **typed)


def test_text_beyond_ascii_is_an_id_and_a_payload(consumer: dh.Consumer) -> None:
    with consumer.one("Größe 🎈") as document:
        assert document.new
    with consumer.one(payload="half \ud800") as document:
        assert document.rule == "R3"
    assert consumer.history.audit.show(1)["document"]["payload"] == r"half \ud800"


def test_list_of_dicts_is_a_batch(consumer: dh.Consumer) -> None:
    one = uuid.uuid4()
    claim = consumer.begin([{"uuid": one, "total": 3}, {"uuid": b"b"}, {"uuid": "c", "total": None}])
    assert claim.new.column_names == ["uuid", "total"]
    claim.complete()
    assert rule_of(consumer, str(one), "b", "c") == ["R9"] * 3
    with pytest.raises(dh.SchemaError, match="not a document"):
        consumer.begin([1, 2])


def test_suspended_trigger_begins_none(consumer: dh.Consumer) -> None:
    consumer.suspension.suspend("the shop is moving")
    with pytest.raises(dh.SuspendedError, match="the shop is moving"), consumer.one("a"):
        raise AssertionError
    consumer.suspension.resume()
    assert rule_of(consumer, "a") == ["R8"]


def test_decorated_function_runs_once(consumer: dh.Consumer) -> None:
    ran: list[str] = []

    @consumer.once(key=lambda order: order["id"])
    def handle(order: dict[str, str]) -> int:
        ran.append(order["id"])
        return 7

    assert [handle({"id": "a"}), handle({"id": "a"}), handle({"id": "b"})] == [7, None, 7]
    assert ran == ["a", "b"]
    assert handle.__name__ == "handle"


def test_decorated_function_returns_its_stored_result(consumer: dh.Consumer, tmp_path: Path) -> None:
    ran: list[str] = []

    @consumer.once(key=lambda key: key, result="json")
    def handle(key: str) -> dict[str, Any]:
        ran.append(key)
        return {"key": key, "places": [1, 2]}

    first = handle("a")
    assert handle("a") == first == {"key": "a", "places": [1, 2]}
    consumer.close()
    with dh.Consumer(tmp_path / "orders.history", trigger()) as other:
        again = other.once(key=lambda key: key, result="json")(handle.__wrapped__)  # type: ignore[attr-defined]
        assert again("a") == first
    assert ran == ["a"]


POLICIES: list[Any] = ["in_doubt", "release", Retry(2, backoff=0)]


@pytest.mark.parametrize("policy", POLICIES, ids=["in_doubt", "release", "retry"])
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
@pytest.mark.parametrize("returned", [{1}, "x" * 17_000_000, "not written"], ids=["no_json", "too_long", "not_written"])
def test_service_whose_result_is_not_kept_runs_once(
    consumer: dh.Consumer, monkeypatch: pytest.MonkeyPatch, policy: Any, is_async: bool, returned: object
) -> None:
    ran: list[str] = []

    def work(key: str) -> object:
        ran.append(key)
        return returned

    async def work_in_loop(key: str) -> object:
        return work(key)

    decorated = consumer.once(key=lambda key: key, result="json", on_error=policy)(work_in_loop if is_async else work)

    def call() -> Any:
        return asyncio.run(decorated("a")) if is_async else decorated("a")

    with monkeypatch.context() as patched:
        if returned == "not written":
            patched.setattr(OneByOne, "_results", full_disk)
        with pytest.raises(dh.ResultError, match=r"^\[DH-RESULT\] the function ran for document 'a', which") as it:
            call()
    assert (it.value.returned, it.value.document.key) == (returned, "a")  # type: ignore[union-attr]
    assert rule_of(consumer, "a") == ["R9"]
    assert (call(), ran) == (None, ["a"])


def full_disk(*_: object) -> Any:
    raise dh.StorageError("[DH-IO] cannot write x: no space left on device")


def test_result_and_completion_that_both_fail_release_nothing(
    consumer: dh.Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OneByOne, "_results", full_disk)
    monkeypatch.setattr(OneByOne, "complete", full_disk)
    with pytest.raises(dh.StorageError):
        consumer.once(key=lambda key: key, result="json", on_error="release")(lambda _: 1)("a")
    assert rule_of(consumer, "a") == ["R11"]


def test_result_of_an_earlier_run_is_replaced(consumer: dh.Consumer) -> None:
    with pytest.raises(dh.ResultError):
        leave_result(consumer, "a", {1})
    assert consumer.once(key=lambda key: key, result="json")(lambda _: 1)("a") is None
    leave_result(consumer, "b", 2)
    assert consumer.once(key=lambda key: key, result="json")(lambda _: 1)("b") == 2


def leave_result(consumer: dh.Consumer, key: str, returned: Any) -> None:
    """A run ends after its result was kept and before it is completed; the document runs again."""
    with consumer.one(key) as document:
        OneByOne(consumer).keep_result(document, 1)
        document.release()
    consumer.once(key=lambda key: key, result="json")(lambda _: returned)(key)


@pytest.mark.parametrize(
    ("returned", "kept"),
    [((1, 2), [1, 2]), ({"a": {1: 2}}, {"a": {"1": 2}}), ("a\ud800", "a\ud800"), ("größer", "größer")],
)
def test_all_callers_get_the_result_as_json_holds_it(consumer: dh.Consumer, returned: object, kept: object) -> None:
    handle = consumer.once(key=lambda key: key, result="json")(lambda _: returned)
    assert [handle("a"), handle("a")] == [kept, kept]


def test_long_result_comes_back_whole(consumer: dh.Consumer) -> None:
    handle = consumer.once(key=lambda key: key, result="json")(lambda _: "x" * 200_000)
    assert handle("a") == handle("a") == "x" * 200_000


def test_decorated_function_in_doubt_raises(consumer: dh.Consumer) -> None:
    handle = consumer.once(key=lambda key: key)(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        handle("a")
    with pytest.raises(dh.InDoubtError, match=r"\[DH-IN-DOUBT\] document 'a' is in doubt \(R11\), and is kept"):
        handle("a")


def test_error_about_a_document_reaches_another_process(consumer: dh.Consumer) -> None:
    with pytest.raises(ZeroDivisionError):
        consumer.once(key=lambda key: key)(lambda _: 1 / 0)("a")
    with pytest.raises(dh.InDoubtError) as raised:
        consumer.once(key=lambda key: key, payload=lambda _: threading.Lock())(print)("a")
    arrived = pickle.loads(pickle.dumps(raised.value))
    assert (type(arrived), str(arrived)) == (dh.InDoubtError, str(raised.value))
    assert (arrived.document.key, arrived.document.rule) == ("a", "R11")


def test_decorated_function_is_retried_and_then_a_dead_letter(consumer: dh.Consumer) -> None:
    ran: list[str] = []

    @consumer.once(key=lambda key: key, on_error=Retry(3, backoff=0.001))
    def handle(key: str) -> str:
        ran.append(key)
        if len(ran) < 3 or key == "never":
            raise ValueError("no")
        return "done"

    assert handle("a") == "done"
    with pytest.raises(dh.DeadLetterError, match="failed 3 times"):
        handle("never")
    assert (len(ran), rule_of(consumer, "a", "never")) == (6, ["R9", "R8"])


class Handler:
    """An object that is called, with a coroutine function behind it."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def __call__(self, key: str) -> str:
        await asyncio.sleep(0)
        self.ran.append(key)
        return f"{key} done"


@pytest.mark.parametrize("wrap", [lambda handler: handler, functools.partial])
def test_decorated_coroutine_object_runs_before_it_completes(consumer: dh.Consumer, wrap: Any) -> None:
    handler = Handler()
    handle = consumer.once(key=lambda key: key, result="json")(wrap(handler))
    waiting = handle("a")
    assert (handler.ran, rule_of(consumer, "a")) == ([], ["R8"])

    async def main() -> tuple[str, str]:
        return await waiting, await handle("a")

    assert asyncio.run(main()) == ("a done", "a done")
    assert (handler.ran, rule_of(consumer, "a")) == (["a"], ["R9"])


def test_generator_functions_are_refused_at_the_decoration(consumer: dh.Consumer) -> None:
    def handle(key: str) -> Iterator[str]:
        yield key

    async def handle_later(key: str) -> AsyncIterator[str]:
        yield key

    for function in (handle, handle_later, functools.partial(handle)):
        with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] the function .*handle.* is a generator function"):
            consumer.once(key=lambda key: key)(function)


@pytest.mark.filterwarnings("error")  # of a coroutine that was never awaited
@pytest.mark.parametrize(("policy", "rule"), [("in_doubt", "R11"), ("release", "R8")])
def test_function_that_returns_a_coroutine_has_failed(consumer: dh.Consumer, policy: Any, rule: str) -> None:
    handler = Handler()

    async def forgets(key: str) -> Any:
        return handler(key)

    handle = consumer.once(key=lambda key: key, on_error=policy)(lambda key: handler(key))
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] the service returned a coroutine"):
        handle("a")
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] the service returned a coroutine"):
        asyncio.run(consumer.once(key=lambda key: key, on_error=policy)(forgets)("b"))
    assert (handler.ran, rule_of(consumer, "a", "b")) == ([], [rule, rule])


@pytest.mark.parametrize("wrong", [{"on_error": "again"}, {"result": "xml"}, {"key": "id"}])
def test_arguments_that_make_no_sense_are_refused(consumer: dh.Consumer, wrong: dict[str, Any]) -> None:
    with pytest.raises(dh.ConfigError, match="DH-CONFIG"):
        consumer.once(**{"key": lambda key: key, **wrong})


def test_threads_run_each_document_once(consumer: dh.Consumer) -> None:
    ran: list[str] = []
    start = threading.Barrier(16)

    def work() -> None:
        start.wait()
        for number in range(60):
            with consumer.one(f"order-{number}") as document:
                if document.new:
                    ran.append(document.key or "")

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ran) == sorted(f"order-{number}" for number in range(60))
    assert rule_of(consumer, *ran) == ["R9"] * 60
    consumer.close()
    counts = {row["rule"]: row["count"] for row in dh.Statistics(consumer.path).counts().to_pylist()}
    assert counts["R8"] == 60
    assert sum(counts.values()) == 16 * 60
    # Whoever came while another thread processed the document kept it, too.
    assert consumer.history.audit.list().num_rows == counts.get("R11", 0)


def test_coroutines_share_syncs_and_block_no_event_loop(consumer: dh.Consumer) -> None:
    ran: list[str] = []
    ticks = [0]

    @consumer.once(key=lambda key: key)
    async def handle(key: str) -> None:
        await asyncio.sleep(0.01)
        ran.append(key)

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.001)
            ticks[0] += 1

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        await asyncio.gather(*(handle(f"order-{number % 500}") for number in range(500)))
        await asyncio.gather(*(handle(f"order-{number}") for number in range(500)))
        ticking.cancel()

    asyncio.run(main())
    assert sorted(ran) == sorted(f"order-{number}" for number in range(500))
    assert ticks[0] > 5


def test_cancelled_coroutine_leaves_no_document_begun(consumer: dh.Consumer) -> None:
    async def main() -> None:
        async def work() -> None:
            async with consumer.one("a"):
                raise AssertionError

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert rule_of(consumer, "a") == ["R8"]


def test_same_id_at_once_is_new_for_one_coroutine(consumer: dh.Consumer) -> None:
    async def main() -> list[str | None]:
        others = asyncio.Event()
        seen: list[str | None] = []

        async def work() -> str | None:
            async with consumer.one("a") as document:
                seen.append(document.status)
                if len(seen) == 5:
                    others.set()
                if document.new:
                    await others.wait()
                return document.status

        return list(await asyncio.gather(*(work() for _ in range(5))))

    assert sorted(map(str, asyncio.run(main()))) == ["IN_DOUBT"] * 4 + ["NEW"]
    assert consumer.history.audit.list().num_rows == 4


def test_document_without_id_is_warned_of_once_counted_and_kept(
    consumer: dh.Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dochistory.consumer"):
        for _ in range(3):
            with consumer.one(payload=b"nameless") as document:
                assert document.rule == "R3"
    assert [record.name for record in caplog.records].count("dochistory.consumer") == 1
    assert consumer.history.audit.list(rule="R3").num_rows == 3
    consumer.close()
    page = dh.metrics.prometheus_text(None, dh.Statistics(consumer.path))
    assert 'what="no_id"} 3' in page


def test_sinks_get_single_documents_that_are_not_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    sink = journal.JsonLinesSink(tmp_path / "journal.jsonl")
    with dh.Consumer(tmp_path / "h", trigger(), sinks=[sink]) as consumer:
        for _ in range(2):
            with consumer.one("a"):
                pass
    (records,) = journal.read(tmp_path / "journal.jsonl")
    assert records["rule"].to_pylist() == ["R9"]


def test_batch_that_is_all_new_costs_little(consumer: dh.Consumer) -> None:
    batches = [documents(str(uuid.uuid4()) for _ in range(500)) for _ in range(40)]
    consumer.begin(batches[0]).complete()
    start = time.process_time()
    for batch in batches[1:]:
        assert statuses(consumer.begin(batch).verdicts.slice(0, 1)) == ["NEW"]
    assert (time.process_time() - start) / 39 < 0.01  # the figure itself is measured in benches


def test_audit_is_reconciled_with_what_was_completed(consumer: dh.Consumer) -> None:
    slow = consumer.begin(documents(["a", "b"]))
    consumer.begin(documents(["a", "b"]))
    slow.complete(rows=[0])
    audit = consumer.history.audit
    assert audit.reconcile() == [1]
    assert [(row["key"], row["state"], row["by"]) for row in audit.list().to_pylist()] == [
        ("a", "duplicate", "reconcile"),
        ("b", "open", None),
    ]
    assert audit.reconcile() == []
    assert audit.list(state=dh.audit.OPEN)["key"].to_pylist() == ["b"]


def test_sweeper_reconciles_before_it_purges(consumer: dh.Consumer) -> None:
    slow = consumer.begin(documents(["a"]))
    consumer.begin(documents(["a"]))
    slow.complete()
    dh.Sweeper(consumer.history).sweep()
    assert consumer.history.audit.list()["state"].to_pylist() == ["duplicate"]


def test_open_documents_are_resolved_by_a_resolver(consumer: dh.Consumer) -> None:
    consumer.begin(documents(["a", "b", "c"]))
    consumer.begin(documents(["a", "b", "c"]))
    known = dh.resolvers.by_table({"key": ["a", "b"], "status": ["NEW", "DUPLICATE"]})
    audit = consumer.history.audit
    assert audit.resolve_all(known) == {"process": 1, "duplicate": 1}
    assert audit.list()["state"].to_pylist() == ["process", "duplicate", "open"]
    assert audit.resolve_all("process", rule="R3") == {"process": 0, "duplicate": 0}
    assert audit.resolve_all("duplicate", rule="R11") == {"process": 0, "duplicate": 1}


@pytest.mark.parametrize("decision", ["foo", None, 5])
def test_decision_that_is_none_is_refused_with_nothing_open(consumer: dh.Consumer, decision: Any) -> None:
    with pytest.raises(dh.ConfigError, match=r"allowed is process, duplicate or a resolver"):
        consumer.history.audit.resolve_all(decision)


def test_files_of_single_documents_are_put_together(consumer: dh.Consumer) -> None:
    audit = consumer.history.audit
    for number in range(70):
        for _ in range(2):
            consumer.begin(documents([f"order-{number}"]))
    files = [*audit.directory.glob("kept-*")]
    assert len(files) < 40
    assert audit.list()["key"].to_pylist() == [f"order-{number}" for number in range(70)]
    assert audit.compact() >= 1
    assert audit.documents([1, 35, 70])["uuid"].to_pylist() == ["order-0", "order-34", "order-69"]
    assert audit.verify() > 0


def test_compaction_that_died_before_its_manifest_keeps_all(
    consumer: dh.Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = consumer.history.audit
    for number in range(5):
        for _ in range(2):
            consumer.begin(documents([f"order-{number}"]))

    def dies(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("dochistory.audit.files.Directory.publish", dies)
        with pytest.raises(OSError, match="killed"):
            audit.compact()
    assert len([*audit.directory.glob("kept-*")]) == 6
    assert audit.list()["number"].to_pylist() == [1, 2, 3, 4, 5]
    consumer.begin(documents(["order-0"]))
    assert audit.compact() > 0
    assert audit.list()["number"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert audit.verify() > 0


@pytest.mark.parametrize("columns", [None, {"uuid": "id"}])
def test_an_empty_poll_begins_nothing(consumer: dh.Consumer, columns: Any) -> None:
    claim = consumer.begin([], columns=columns)
    assert (claim.new.num_rows, claim.verdicts.num_rows) == (0, 0)
    claim.complete()


class ClosedMeanwhile:
    """A handle that another thread closes between the look at it and the call."""

    closed = False

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any, **__: Any) -> Any:
            self.closed = True
            raise dh.StateError("[DH-STATE] the history is closed")

        return call


def test_handle_that_others_close_meanwhile_is_opened_again(
    consumer: dh.Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def together() -> None:
        async def one(key: str) -> None:
            async with consumer.one(key) as document:
                assert document.new

        await asyncio.gather(*map(one, ["c", "d"]))

    monkeypatch.setattr(consumer, "_opened", ClosedMeanwhile())
    consumer.begin(documents(["a"])).complete()
    monkeypatch.setattr(consumer, "_opened", ClosedMeanwhile())
    with consumer.one("b") as document:
        assert document.new
    monkeypatch.setattr(consumer, "_opened", ClosedMeanwhile())
    asyncio.run(together())
    assert rule_of(consumer, *"abcd") == ["R9"] * 4
