"""Single documents of a consumer: of threads each by itself, of coroutines all that wait together."""

# ruff: noqa: SLF001 - a consumer is made of both

import asyncio
import datetime as dt
import functools
import json
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import dochistory as dh
from dochistory import _columns, journal
from dochistory._combining import Combiner, Request
from dochistory._forks import PerProcess
from dochistory._own_entries import release_own
from dochistory._results import results_of
from dochistory.errors import ResultError
from dochistory.once import Document

if TYPE_CHECKING:
    from dochistory.consumer import Consumer

_TYPES = {
    "uuid": pa.string(),
    "track_id": pa.string(),
    "event_id": pa.string(),
    "jms_message_id": pa.string(),
    "redelivery_count": pa.int64(),
    "delivery_count": pa.int64(),
    "guaranteed": pa.bool_(),
    "persistent": pa.bool_(),
}
_CHAIN = ("uuid", "track_id", "event_id", "jms_message_id")
_NEW = (("NEW", "PROCESS", "R8"), ("NEW", "PROCESS", "R1"))
_Kind = tuple[str | None, str, str]
"""Status, action and rule of a document."""
_Kinds = list[tuple[_Kind, int]]
"""The same of documents, and how many there are."""
_MOST_CLAIMS = 2
"""The documents of more claims than these are completed by their keys, in one write."""


class OneByOne:
    """Begins, completes and releases single documents.

    Args:
        consumer: whose documents they are.
    """

    def __init__(self, consumer: "Consumer") -> None:
        self.consumer = consumer
        self._begins: PerProcess[Combiner[Document]] = PerProcess(lambda: Combiner(self._serve_begins))
        self._ends: PerProcess[Combiner[Document]] = PerProcess(lambda: Combiner(self._serve_ends))
        # How documents of a verdict are acknowledged, as the history said.
        self._acknowledged: dict[tuple[str | None, str, str], str] = {}
        # Documents of many callers are no batch of one producer, in which ids cannot all be missing.
        self._trigger = consumer.trigger.replace(without_ids="in_doubt")

    def begin(self, document: Document) -> None:
        """Begin a document: its verdict is set."""
        consumer = self.consumer
        was_suspended = consumer.suspension.status is not None and consumer._check()
        kind = self._begin_one(document)
        consumer._tallies().add(kind)
        if kind[0] != "NEW" and (error := self._record(document)) is not None:
            raise error
        if was_suspended and document.action != "SUSPEND" and (error := self._resume([document])) is not None:
            raise error

    def complete(self, document: Document) -> None:
        """The service of a document has ended."""
        if document.row is None:
            document.claim.complete()
        else:
            document.claim.complete(rows=[document.row])
        document.is_over = True

    def complete_by_key(self, document: Document) -> None:
        """As `complete`, if the handle is closed that began it."""
        if document.key is not None:
            self.consumer._ask(lambda history: history.complete([document.key], self.consumer.trigger))
        document.is_over = True

    def release_by_key(self, document: Document) -> None:
        """As `release`, if the handle is closed that began it."""
        if document.key is not None:
            keys, started_at = [document.key], document.claim.started_at
            self.consumer._ask(lambda history: release_own(history, self.consumer.trigger, keys, started_at))
        document.is_over = True

    async def begin_async(self, document: Document) -> None:
        """As `begin`. If the coroutine is cancelled meanwhile, the document is released: nobody has seen it."""
        if await _to_its_end(self._begins().run(document)):
            if document.new:
                await asyncio.to_thread(self.release, document)
            raise asyncio.CancelledError

    async def complete_async(self, document: Document) -> None:
        """As `complete`."""
        if await _to_its_end(self._ends().run(document)):
            raise asyncio.CancelledError

    def release(self, document: Document) -> None:
        """The service of a document was undone."""
        if document.row is None:
            document.claim.release()
        else:
            document.claim.release(rows=[document.row])
        document.is_over = True

    def close(self) -> None:
        """End the threads."""
        self._begins().close()
        self._ends().close()

    def _serve_begins(self, requests: list[Request[Document]]) -> list[Request[Document]]:
        consumer = self.consumer
        was_suspended = consumer._check()
        now, later = (requests, []) if len(requests) == 1 else _apart(requests)
        documents = [request.subject for request in now]
        kinds = [(self._begin_one(documents[0]), 1)] if len(documents) == 1 else self._begin_many(documents)
        for kind, count in kinds:
            consumer._tallies().add(kind, count)
        if len(kinds) > 1 or kinds[0][0][0] != "NEW":
            suspended: BaseException | None = None
            for request in now:
                if request.subject.status == "IN_DOUBT" and suspended is not None:
                    request.error = suspended  # the others need not wait until each has failed
                elif request.subject.status != "NEW":
                    request.error = self._record(request.subject)
                    suspended = request.error if isinstance(request.error, dh.SuspendedError) else suspended
        if was_suspended and not any(document.action == "SUSPEND" for document in documents):
            error = self._resume(documents)
            for request in now:
                request.error = request.error or error
        return later

    def _resume(self, documents: Sequence[Document]) -> Exception | None:
        """The trigger's documents can be decided again. If that cannot be written, nobody gets them."""
        try:
            self.consumer.suspension.succeeded()
        except Exception as error:  # noqa: BLE001 - its caller raises it
            for document in documents:
                document.release()
            return error
        return None

    def _begin_one(self, document: Document) -> _Kind:
        now = self.consumer._unseen.own_time()
        claim = self.consumer._ask_to_begin(
            lambda history: history.begin_one(trigger=self._trigger, now=now, **document.asked),
            (lambda: _batch_of([document]), None, now),
        )
        document.claim = claim
        status, action, rule, document.acknowledge, document.key, document.message = claim._verdict
        document.status, document.action, document.rule = kind = status, action, rule
        return kind

    def _begin_many(self, documents: Sequence[Document]) -> _Kinds:
        batch, now = _batch_of(documents), self.consumer._unseen.own_time()
        claim = self.consumer._ask_to_begin(
            lambda history: history.begin(batch, self._trigger, now=now), (lambda: batch, None, now)
        )
        verdicts, counts = claim.verdicts, claim.counts
        kinds = [((status, action, rule), count) for status, action, rule, count in counts]
        keys = verdicts["key"].to_pylist()
        if len(kinds) == 1 and kinds[0][0] in _NEW:
            status, action, rule = kind = kinds[0][0]
            acknowledge = self._acknowledged.get(kind)
            if acknowledge is None:
                acknowledge = self._acknowledged[kind] = verdicts["acknowledge"][0].as_py()
            for row, (document, key) in enumerate(zip(documents, keys, strict=True)):
                document.claim, document.row, document.key = claim, row, key
                document.status, document.action, document.rule = status, action, rule
                document.acknowledge = acknowledge
            return kinds
        columns = [verdicts[name].to_pylist() for name in ("status", "action", "acknowledge", "rule", "message")]
        for row, (document, key, *found) in enumerate(zip(documents, keys, *columns, strict=True)):
            document.claim, document.row, document.key = claim, row, key
            document.status, document.action, document.acknowledge, document.rule, document.message = found
        return kinds

    def _record(self, document: Document) -> BaseException | None:
        """Record a verdict that is not plainly NEW; answers what the caller is to get instead of it."""
        consumer = self.consumer
        status = document.status
        tally = consumer._tallies()
        if tally.lists and status in ("DUPLICATE", "IN_DOUBT"):
            tally.note(_listed(document))
        if status == "DUPLICATE" and not consumer._records("DUPLICATE"):
            return None
        if document.rule == "R3":
            consumer._warn_of_no_id()
        verdicts = _verdicts_of(document)
        try:
            if document.action == "SUSPEND":
                consumer.suspension.note(verdicts)
                consumer.suspension.check()
            if document.status == "IN_DOUBT" and consumer.is_audited:
                consumer.history.audit.keep(_kept(document), verdicts, consumer.trigger)
            if document.status is not None and consumer._records(document.status):
                journal.write(
                    _batch_of([document]), verdicts, consumer.trigger, most=consumer._most, sinks=consumer._sinks
                )
        except dh.DocHistoryError as error:
            try:
                consumer._failed(error)
            except dh.SuspendedError as suspended:
                return suspended
            return error
        except Exception as error:  # noqa: BLE001 - its caller raises it
            return error
        return None

    def _serve_ends(self, requests: list[Request[Document]]) -> list[Request[Document]]:
        claims: dict[int, list[Document]] = {}
        for request in requests:
            claims.setdefault(id(request.subject.claim), []).append(request.subject)
        documents = [request.subject for request in requests]
        if len(claims) > _MOST_CLAIMS and all(document.rule == "R8" for document in documents):
            keys = pa.array([document.key for document in documents], pa.string())
            self.consumer.history.complete(keys, self.consumer.trigger)
        else:
            for some in claims.values():
                claim = some[0].claim
                if some[0].row is None:
                    claim.complete()
                else:
                    claim.complete(rows=[document.row for document in some])
        for document in documents:
            document.is_over = True
        return []

    def keep_failed(self, table: pa.Table, error: BaseException, columns: Any) -> None:
        """Keep documents whose service raised."""
        size = table.num_rows
        said = f"the service failed, and nobody knows how far it came: {type(error).__name__}: {error}"
        keys = self.consumer.history.classify(table, self._trigger.replace(resolver=None), columns=columns)["key"]
        verdicts = pa.table(
            {
                "status": ["IN_DOUBT"] * size,
                "action": ["LOG"] * size,
                "acknowledge": ["NOW"] * size,
                "rule": ["R11"] * size,
                "key": keys,
                "message": [said] * size,
            }
        )
        self.consumer.history.audit.keep(table, verdicts, self.consumer.trigger, columns=columns)

    def _results(self) -> dh.MessageIdMapper:
        return results_of(self.consumer.history, self.consumer.trigger)

    def keep_result(self, document: Document, returned: Any) -> Any:
        """Keep what a service returned, for the duplicates of its document; answers the same, as they get it.

        It is kept before the document is completed: a process that dies in between leaves the
        document in doubt, and never a DUPLICATE without its result. The work is done: a document
        whose result cannot be kept is completed, whatever its policy.

        Raises:
            ResultError: [DH-RESULT] it cannot be kept.
        """
        document.on_error = "in_doubt"  # nothing releases it now, not even a failure to complete it
        try:
            return self._keep_result(document, returned)
        except Exception as error:
            document.complete()
            raise ResultError(
                f"[DH-RESULT] the function ran for document {document.key!r}, which is completed, but its result is "
                f"not kept: {error}",
                document,
                returned,
            ) from error

    def _keep_result(self, document: Document, returned: Any) -> Any:
        # The result of an earlier run that ended in doubt may be there: it is replaced.
        try:
            result = _json(returned)
        except dh.SchemaError:
            if document.key is not None:
                self._results().remove([document.key])
            raise
        if document.key is not None:
            results = self._results()
            error = results.create([document.key], [result])["error"][0].as_py()
            if error == "EXISTS":
                error = results.update([document.key], [result])["error"][0].as_py()
            if error is not None:
                raise dh.SchemaError(f"[DH-SCHEMA] the mapper refused it: {error}")
        return json.loads(result)

    def result_of(self, document: Document) -> Any:
        """What the service returned for a document; None if nothing is kept of it."""
        if document.key is None:
            return None
        found = self._results().lookup([document.key])["mapped_id"][0].as_py()
        return None if found is None else json.loads(found)


def _json(returned: Any) -> str:
    try:
        # Half a character (a lone surrogate) is spelled as JSON's escape.
        return json.dumps(returned, ensure_ascii=False).encode(errors="backslashreplace").decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise dh.SchemaError(
            f"[DH-SCHEMA] the function returned a {type(returned).__name__}, which JSON cannot hold ({error}): return "
            "what json.dumps takes, or leave result= away"
        ) from error


def _apart(requests: list[Request[Document]]) -> tuple[list[Request[Document]], list[Request[Document]]]:
    """Those that begin together, and later ones of the same id: as if each had called by itself."""
    now, later, keys = [], [], set()
    for request in requests:
        asked = request.subject.asked
        key = next((asked[name] for name in _CHAIN if asked.get(name)), None)
        if key is not None and key in keys:
            later.append(request)
            continue
        keys.add(key)
        now.append(request)
    return now, later


def _batch_of(documents: Sequence[Document]) -> pa.RecordBatch:
    names = dict.fromkeys(["uuid", *(name for document in documents for name in document.asked)])
    if unknown := next((name for name in names if name not in _TYPES), None):
        raise dh.ConfigError(f"[DH-CONFIG] there is no argument {unknown}; allowed are {', '.join(_TYPES)}")
    columns = [pa.array([document.asked.get(name) for document in documents], _TYPES[name]) for name in names]
    return pa.RecordBatch.from_arrays(columns, schema=_schema_of(tuple(names)))


@functools.cache
def _schema_of(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, _TYPES[name]) for name in names])


def _kept(document: Document) -> pa.Table:
    """What the audit log keeps of a document."""
    batch = _batch_of([document])
    table = pa.Table.from_batches([batch])
    if document.payload is None:
        return table
    try:
        payload = pa.array([document.payload])
    except (pa.ArrowException, TypeError, ValueError):
        payload = pa.array([str(document.payload).encode(errors="backslashreplace").decode()])
        logging.getLogger("dochistory.consumer").warning(
            "the payload of document %r is a %s, which Arrow cannot hold: its text is kept",
            document.key,
            type(document.payload).__name__,
        )
    return table.append_column("payload", payload)


def _listed(document: Document) -> list[Any]:
    """The row of the statistics' list."""
    return [dt.datetime.now(dt.UTC).isoformat(), document.key, None, document.status, document.rule]


def _verdicts_of(document: Document) -> pa.Table:
    return pa.table(
        {name: pa.array([getattr(document, name)], pa.string()) for name in _columns.VERDICTS},
    )


async def _to_its_end(work: Coroutine[Any, Any, None]) -> bool:
    """Wait for it even if cancelled meanwhile; answers whether that happened."""
    task, is_cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            is_cancelled = True
    task.result()
    return is_cancelled
