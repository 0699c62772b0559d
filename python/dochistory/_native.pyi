# The engine of dochistory, for Python. Use it through the package `dochistory`, where its functions are documented.
import datetime as dt
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Protocol, TypeAlias, TypedDict, Unpack, final, overload, type_check_only

import pyarrow as pa

from dochistory.audit import AuditLog
from dochistory.objects import ObjectClient

__all__ = [
    "Claim",
    "ClusterError",
    "ConfigError",
    "ConflictError",
    "CorruptError",
    "DeliveryOutbox",
    "DeliveryPoll",
    "DescriptorsError",
    "DocHistoryError",
    "DocumentClaim",
    "FailedError",
    "FencedError",
    "ForkedError",
    "GuaranteedDelivery",
    "History",
    "Job",
    "LockedError",
    "MapperSend",
    "MapperTaken",
    "MessageIdMapper",
    "ObjectStoreError",
    "OpenError",
    "ReadOnlyError",
    "RestoredError",
    "SchemaError",
    "Shards",
    "Staged",
    "StagedClaim",
    "StateError",
    "StorageError",
    "TransactionError",
    "TransientError",
    "Trigger",
    "TruncatedError",
    "UnitOfWork",
    "__version__",
    "_close",
    "_copy_from_bucket",
    "_copy_to_bucket",
    "_is_there",
    "_log_extent",
    "_open_described",
    "_seconds",
    "count_verdicts",
    "local_path",
    "open",
    "read_receipt",
    "repair",
    "verdict_words",
]

__version__: str

@type_check_only
class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@type_check_only
class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

_Arrow: TypeAlias = _ArrowArray | _ArrowStream
_Duration: TypeAlias = str | dt.timedelta | float
_Kind: TypeAlias = Literal["messaging", "jms"]
_Mode: TypeAlias = Literal["serial", "concurrent"]
_InBatch: TypeAlias = Literal["duplicate", "in_doubt", "new"]
_OtherRows: TypeAlias = Literal["error", "look_up"]
_Expiry: TypeAlias = Literal["until_purged", "exact"]
_Status: TypeAlias = Literal["NEW", "DUPLICATE", "IN_DOUBT"]
_Offsets: TypeAlias = int | Mapping[str, int]
_Pending: TypeAlias = Literal["error", "process", "duplicate"]
_Qos: TypeAlias = Literal["BE", "EO", "EOIO"]
_Ids: TypeAlias = _Arrow | Iterable[str | None]
_Until: TypeAlias = dt.datetime | _Duration | _Arrow
_Answers: TypeAlias = _Arrow | Sequence[object] | Mapping[str, Sequence[object]]
_Resolver: TypeAlias = Callable[[pa.RecordBatch], _Answers]
_Columns: TypeAlias = pa.RecordBatch | pa.Table

@type_check_only
class _Keeper(Protocol):
    def keep(
        self,
        documents: pa.Table,
        verdicts: pa.Table,
        trigger: Trigger,
        /,
        *,
        columns: Mapping[str, str] | None,
        transaction: tuple[str, int] | None,
    ) -> object: ...

@type_check_only
class _Finished(TypedDict):
    changed: int
    already: int
    unknown: int

@type_check_only
class _Purged(TypedDict):
    entries: int
    log_entries: int
    bytes: int
    segments: int

@type_check_only
class _PurgedValues(TypedDict):
    entries: int
    log_entries: int
    bytes: int
    files: int

@type_check_only
class _Maintained(TypedDict):
    merged: tuple[int, int]
    rewritten: int
    rolled_up: int

@type_check_only
class _Partition(TypedDict):
    start: dt.datetime
    entries: int
    bytes: int
    segments: int

@type_check_only
class _TriggerFigures(TypedDict):
    segment_entries: int
    log_entries: int
    open_entries: int
    segment_bytes: int
    log_bytes: int
    filter_bytes: int
    segments: int
    segments_uncovered: int
    filters: int
    looked_up: int
    filter_positives: int
    begun_without_id: int
    manifest: int
    pins: int
    oldest_started_at: dt.datetime | None
    purged_upto: dt.datetime | None
    partition: dt.timedelta
    history_time_to_live: dt.timedelta
    kind: _Kind | None
    transactions: dict[str, tuple[int, bool]]
    longest_run: dt.timedelta | None
    partitions: list[_Partition]

@type_check_only
class _ValueFigures(TypedDict):
    file_entries: int
    later_entries: int
    pending_entries: int
    log_entries: int
    files: int
    file_bytes: int
    log_bytes: int
    manifest: int
    transactions: dict[str, tuple[int, bool]]

@type_check_only
class _Figures(TypedDict):
    path: Path
    id: str
    created_at: dt.datetime
    shards: int
    triggers: dict[str, _TriggerFigures]
    mappers: dict[str, _ValueFigures]
    delivery: dict[str, _ValueFigures]

@type_check_only
class _Finding(TypedDict):
    trigger: str | None
    mapper: str | None
    delivery: str | None
    file: Path | str
    byte: int
    reason: str
    remedy: Literal["rebuilt", "salvaged", "dropped", "impossible"]
    dropped_entries: int | None
    dropped_at_least: int
    exact: bool
    reopened_entries: int | None
    first_started_at: dt.datetime | None
    last_started_at: dt.datetime | None
    first_kept_until: dt.datetime | None
    last_kept_until: dt.datetime | None
    returned_entries: int | None
    ids: list[str]
    bytes: int
    meaning: str

@type_check_only
class _Repaired(TypedDict):
    repaired: bool
    kept_in: Path | str | None
    findings: list[_Finding]

@type_check_only
class _Receipt(TypedDict):
    part: int
    attempt: str
    rows: int
    entries: int
    bytes: int
    rule: dict[str, int]
    status: dict[str, int]
    action: dict[str, int]

@type_check_only
class _Pin(TypedDict):
    snapshot: str
    pinned_at: dt.datetime
    ends_at: dt.datetime
    process: int
    manifest: int

class DocHistoryError(Exception):
    """Anything that goes wrong with a document history."""

class StorageError(DocHistoryError):
    """[DH-IO] The operating system refused a file operation; the text names the file."""

class CorruptError(DocHistoryError):
    """[DH-CORRUPT] A file is not what was written; the text names the file and the byte."""

class LockedError(DocHistoryError):
    """[DH-LOCKED] Another writer held the trigger for longer than lock_timeout; the text names it."""

class DescriptorsError(DocHistoryError):
    """[DH-DESCRIPTORS] Too many files are open, in this process or on this machine: nothing was decided."""

class FencedError(DocHistoryError):
    """[DH-FENCED] What this handle holds is not what stands under its path (the directory was replaced or restored), another writer is in its turn (the file system's locks do not exclude each other), or has moved the stream that this one receives or sends; the text says which. Nothing was acknowledged."""

class FailedError(DocHistoryError):
    """[DH-FAILED] An earlier write failed, so this handle writes no more: open the history again."""

class ReadOnlyError(DocHistoryError):
    """[DH-READ-ONLY] The history was opened for reading."""

class ObjectStoreError(StorageError):
    """[DH-OBJECTS] An object store refused a request or did not answer. More exact codes: [DH-BUCKET] no such bucket, [DH-CREDENTIALS] expired, unknown or none, [DH-REGION], [DH-ENDPOINT], [DH-FORBIDDEN], [DH-CLOCK] clocks too far apart, [DH-MISSING] an object is gone, [DH-STORE] the store does not keep its promises, [DH-EXTRA] a package is not installed."""

class OpenError(DocHistoryError):
    """[DH-OPEN] There is no history (create=True makes one), the directory is something else's, the path is no directory of this machine (s3a://), or a snapshot was let go."""

class SchemaError(DocHistoryError):
    """[DH-SCHEMA] The documents' columns are not as needed; the text names the column, what it is and what it may be."""

class ConfigError(DocHistoryError):
    """[DH-CONFIG] A setting or argument makes no sense; the text names it and what is allowed."""

class TransactionError(DocHistoryError):
    """[DH-TRANSACTION] The numbers of an application's batches went backwards, or a known number came with other rows."""

class ConflictError(TransactionError):
    """[DH-CONFLICT] Others were first with documents of a staged claim, so nothing of it was begun: decide again."""

class StateError(DocHistoryError):
    """[DH-STATE] The call does not fit its object: it is closed, or the rows are not the claim's."""

class ForkedError(DocHistoryError):
    """[DH-FORKED] The history was opened before this process was forked off: open it again here."""

class ClusterError(DocHistoryError):
    """[DH-CLUSTER] A worker sees another directory than the driver under the history's path; the text says what it sees."""

class RestoredError(DocHistoryError):
    """[DH-RESTORED] One side of a stream was restored to an older state than the other remembers: extract the subscription again."""

class TruncatedError(DocHistoryError):
    """[DH-TRUNCATED] A resend was asked for of what is no longer in the publisher's log: extract the subscription again."""

class TransientError(Exception):
    """Raised by a resolver that cannot answer now but may be able to later: a database that is down."""

@type_check_only
class _SettingsOfKind(TypedDict, total=False):
    detect_duplicates: bool
    use_history: bool
    history_time_to_live: _Duration
    resolver: _Resolver | None
    processing_mode: _Mode
    suspend_and_retry_on_error: bool
    suspend_on_failure: bool
    max_delivery_count: int
    in_batch: _InBatch | None
    expiry: _Expiry
    resolver_attempts: int
    resolver_backoff: _Duration
    max_redelivery_count: int | None
    complete_resolved: bool
    without_ids: Literal["refuse", "in_doubt"]

class _Settings(_SettingsOfKind, total=False):
    name: str
    kind: _Kind

@final
class Trigger:
    """The settings of one trigger: whose documents are judged, and how.

    Without further settings a trigger detects duplicates by the history, and remembers each id for
    30 days. `Trigger.webmethods` and `Trigger.jms` start from the defaults of the documented
    systems. Settings are checked here; a trigger never changes, compares by value, and can be
    pickled if its resolver can.

    Args:
        name: id of the trigger; a history keeps each trigger's keys apart. 1 to 255 bytes of UTF-8.
        kind: `messaging` (redeliveries are counted, from 0) or `jms` (deliveries are counted, from
            1).
        detect_duplicates: whether documents are judged at all; if not, all are NEW (rule R0).
        use_history: whether the document history is asked; if not, the counts decide (R12 to R16).
        history_time_to_live: how long an entry counts after its service began: text ("30 days",
            "PT2H"), a timedelta, or seconds.
        resolver: called with one pyarrow RecordBatch of the documents that are left undecided, at
            most once a batch (again only for what others changed while `begin` asked); answers NEW,
            DUPLICATE or IN_DOUBT for each. See `History.classify`.
        processing_mode: `serial` (an earlier row of a batch has ended when a later one begins) or
            `concurrent`.
        suspend_and_retry_on_error: the server's switch: suspend rather than leave documents in
            doubt when the history or the resolver is down.
        suspend_on_failure: the trigger's own switch for the same; either is enough.
        max_delivery_count: a JMS message that was delivered this number of times is rejected (R2);
            a messaging trigger does not have it.
        max_redelivery_count: a document of a messaging trigger that was delivered again this number
            of times is rejected (R2, too); None for no limit, as in the systems that the rules come
            from. A JMS trigger does not have it.
        in_batch: what later copies of a new key in one batch are: `duplicate`, `in_doubt` or `new`;
            None leaves it to the processing mode and the resolver.
        expiry: `until_purged` (an entry counts until a purge removes it) or `exact` (until its time
            to live is over).
        complete_resolved: whether `begin` completes documents in progress that the resolver calls
            DUPLICATE, so that nobody has to ask again; False leaves them in progress, as the
            systems do that the rules come from.
        without_ids: what `begin` does with a batch of several documents none of which has an id,
            where the history is used and there is no resolver: `refuse` (an error; nearly always
            the ids are in another column) or `in_doubt` (R3).
        resolver_attempts: how often the resolver is asked in all if it fails for the moment
            (`TransientError`), before that counts; only about the documents that it failed for. 1
            for once.
        resolver_backoff: how long to wait before the second time, a duration; each time twice as
            long, 30 seconds at most, and a random share of that between a half and all.

    Raises:
        ConfigError: [DH-CONFIG] a setting makes no sense.
    """

    FIELDS: Final[tuple[str, ...]]
    def __new__(
        cls,
        name: str,
        *,
        kind: _Kind = "messaging",
        detect_duplicates: bool = True,
        use_history: bool = True,
        history_time_to_live: _Duration = "30 days",
        resolver: _Resolver | None = None,
        processing_mode: _Mode = "concurrent",
        suspend_and_retry_on_error: bool = True,
        suspend_on_failure: bool = False,
        max_delivery_count: int = 100,
        in_batch: _InBatch | None = None,
        expiry: _Expiry = "until_purged",
        resolver_attempts: int = 3,
        resolver_backoff: _Duration = "100 ms",
        max_redelivery_count: int | None = None,
        complete_resolved: bool = True,
        without_ids: Literal["refuse", "in_doubt"] = "refuse",
    ) -> Trigger: ...
    @property
    def name(self) -> str:
        """Id of the trigger."""
    @property
    def kind(self) -> _Kind:
        """Where its documents come from: `messaging` or `jms`."""
    @property
    def detect_duplicates(self) -> bool:
        """Whether documents are judged at all."""
    @property
    def use_history(self) -> bool:
        """Whether the document history is asked."""
    @property
    def history_time_to_live(self) -> dt.timedelta:
        """How long an entry counts after its service began, as a timedelta."""
    @property
    def resolver(self) -> _Resolver | None:
        """Who is asked about undecided documents."""
    @property
    def processing_mode(self) -> _Mode:
        """`serial` or `concurrent`."""
    @property
    def suspend_and_retry_on_error(self) -> bool:
        """The server's switch for suspending."""
    @property
    def suspend_on_failure(self) -> bool:
        """The trigger's own switch for suspending."""
    @property
    def max_delivery_count(self) -> int:
        """A JMS message that was delivered this number of times is rejected."""
    @property
    def max_redelivery_count(self) -> int | None:
        """A document of a messaging trigger that was delivered again this number of times is rejected;
        None for no limit.
        """
    @property
    def complete_resolved(self) -> bool:
        """Whether `begin` completes documents in progress that the resolver calls DUPLICATE."""
    @property
    def without_ids(self) -> Literal["refuse", "in_doubt"]:
        """`refuse` or `in_doubt`."""
    @property
    def in_batch(self) -> _InBatch | None:
        """What later copies of a new key in one batch are; None leaves it to the processing mode."""
    @property
    def expiry(self) -> _Expiry:
        """`until_purged` or `exact`."""
    @property
    def resolver_attempts(self) -> int:
        """How often the resolver is asked in all, if it fails for the moment."""
    @property
    def resolver_backoff(self) -> dt.timedelta:
        """How long to wait before it is asked the second time, as a timedelta."""
    @classmethod
    def webmethods(cls, name: str, **settings: Unpack[_SettingsOfKind]) -> Trigger:
        """A trigger of messages with the defaults of webMethods.

        It detects nothing until `detect_duplicates` and `use_history` are set, and an entry lives
        for 2 hours.

        Args:
            name: id of the trigger.
            settings: those that differ from the defaults, by the names that the constructor gives
                them.

        Returns:
            Trigger: of kind `messaging`.

        Raises:
            ConfigError: [DH-CONFIG] a setting makes no sense.
            TypeError: there is no such setting, or it is `kind`.
        """
    @classmethod
    def jms(cls, name: str, **settings: Unpack[_SettingsOfKind]) -> Trigger:
        """A trigger of JMS messages with the defaults of webMethods.

        It detects nothing until `detect_duplicates` and `use_history` are set, and an entry lives
        for 2 hours.

        Args:
            name: id of the trigger.
            settings: those that differ from the defaults, by the names that the constructor gives
                them.

        Returns:
            Trigger: of kind `jms`.

        Raises:
            ConfigError: [DH-CONFIG] a setting makes no sense.
            TypeError: there is no such setting, or it is `kind`.
        """
    def replace(self, **changes: Unpack[_Settings]) -> Trigger:
        """The same trigger with some settings changed.

        Args:
            changes: settings, by the names that the constructor gives them.

        Returns:
            Trigger: a new one.

        Raises:
            ConfigError: [DH-CONFIG] a setting makes no sense.
            TypeError: there is no such setting.
        """
    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Claim:
    """Documents that were begun together, and their verdicts. `History.begin` makes it.

    What is to be processed is `new`; when the service has ended, in success or failure, say
    `complete()`; when its work was undone for certain, say `release()`. Both are durable on return,
    and change nothing when said again. A document that has ended refuses the other end: what was
    released may be another claim's by now. A document that is neither completed nor released stays
    `processing`, and is in doubt when it comes again. A claim may be ended after its history was
    closed.

    In a `with` block `RolledBack` releases what has not ended, and is raised further. Any other
    exception ends nothing, and neither does leaving the block: only `complete()` says that the
    services have ended.
    """

    @property
    def id(self) -> int | None:
        """Number of the claim, unique within its trigger; None if the history keeps track of none of
        its documents.
        """
    @property
    def started_at(self) -> dt.datetime:
        """When the service began, as a datetime in UTC: the `now` of `begin`."""
    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None:
        """Of a transaction: `first`, `unfinished` (it was begun before and did not end) or `finished`;
        else None.
        """
    @property
    def verdicts(self) -> _Columns:
        """The verdict of every row: `status`, `action`, `acknowledge`, `rule`, `key`, `message`; see
        `History.classify`.
        """
    @property
    def new(self) -> _Columns:
        """The documents to process: the rows whose action is PROCESS, in the columns they came in. A
        pyarrow RecordBatch where one came in, else a Table.
        """
    @property
    def counts(self) -> list[tuple[str | None, str, str, int]]:
        """How many documents have which verdict: (status or None, action, rule, number of documents)
        for each that occurs, as `count_verdicts` counts them.
        """
    @property
    def rows(self) -> pa.UInt32Array:
        """The row numbers of `new` in the batch that was begun, in order: a pyarrow uint32 array. What
        `complete(rows=…)` and `release(rows=…)` take.
        """
    @property
    def released_rows(self) -> list[int]:
        """The rows that were released by themselves, in order."""
    def complete(self, rows: Iterable[int] | _Arrow | None = None) -> None:
        """The services ended, in success or failure: the documents are DUPLICATE from now on. Durable
        on return.

        Args:
            rows: row numbers of the batch that was begun, any iterable of integers; all rows but
                those that were released by themselves, if absent.

        Raises:
            StateError: [DH-STATE] a row is not one of those to process, or was released, by itself
                or with the claim.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def release(self, rows: Iterable[int] | _Arrow | None = None) -> None:
        """The services' work was undone for certain: the documents are NEW when they come again.

        Args:
            rows: row numbers of the batch that was begun, any iterable of integers; all rows but
                those that were completed by themselves, if absent.

        Raises:
            StateError: [DH-STATE] a row is not one of those to process, or was completed, by itself
                or with the claim.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def __enter__(self) -> Claim: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def _repr_html_(self) -> str: ...

@final
class DocumentClaim:
    """One document that was begun, and its verdict. `History.begin_one` makes it.

    In a `with` block `RolledBack` releases it, unless it was completed, and is raised further. Any
    other exception ends nothing, and neither does leaving the block: only `complete()` says that
    the service has ended.
    """

    @property
    def status(self) -> _Status | None:
        """`NEW`, `DUPLICATE` or `IN_DOUBT`; None when the trigger is suspended or the document is
        rejected.
        """
    @property
    def action(self) -> Literal["PROCESS", "DISCARD", "LOG", "SUSPEND", "REJECT"]:
        """`PROCESS`, `DISCARD`, `LOG`, `SUSPEND` or `REJECT`."""
    @property
    def acknowledge(self) -> Literal["AFTER_SERVICE", "NOW", "NO"]:
        """`AFTER_SERVICE`, `NOW` or `NO`."""
    @property
    def rule(self) -> str:
        """The rules that led here, such as `R8` or `R10>S1`."""
    @property
    def key(self) -> str | None:
        """The key; None if the document has none."""
    @property
    def message(self) -> str | None:
        """One sentence for the journal; None for what is NEW."""
    @property
    def _verdict(self) -> tuple[_Status | None, str, str, str, str | None, str | None]:
        """Status, action, rule, acknowledge, key and message, for a consumer: one call for all."""
    @property
    def started_at(self) -> dt.datetime | None:
        """When the service began, as a datetime in UTC: the `now` of `begin_one`. None if the history
        keeps no track of the document.
        """
    def complete(self) -> None:
        """The service ended, in success or failure. Durable on return; again changes nothing. Nothing
        to do unless the action is PROCESS.

        Raises:
            StateError: [DH-STATE] it was released: another claim may have begun it since.
        """
    def release(self) -> None:
        """The service's work was undone for certain: the document is NEW when it comes again. Durable
        on return; again changes nothing.

        Raises:
            StateError: [DH-STATE] it was completed.
        """
    def __enter__(self) -> DocumentClaim: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class MapperSend:
    """A batch of messages that go out, judged, and pending where they are to be sent.
    `MessageIdMapper.begin_send` makes it.

    Send what is `new`; say `complete` of what was sent, `abort` of what was not. What neither is
    said of stays pending, and is in doubt when it comes again.
    """

    @property
    def verdicts(self) -> _Columns:
        """The verdict of every message, in order: `status` (NEW, DUPLICATE, IN_DOUBT, FAILED; null
        while it waits), `action` (PROCESS, SKIP, RAISE, HOLD), `rule` ("M1" to "M8"), `reason` and
        `audit` (ERROR, WARNING, INFO or null), all dictionary<int8, utf8>; `found` and `retryable`
        (boolean), `mapped_id` (utf8), `pending_since` (timestamp[us, UTC]). The rules are those of
        `docs/mapper.md`. Rows that fail change those behind them, so it is computed for each call.
        A pyarrow RecordBatch where one came in, else a Table.
        """
    @property
    def new(self) -> _Columns:
        """The messages to send of which nothing was said yet, in the columns they came in."""
    @property
    def rows(self) -> list[int]:
        """The row numbers of `new`."""
    @property
    def audit(self) -> pa.RecordBatch:
        """The records for the audit log: `time` (timestamp[us, UTC]), `channel`, `id`, `arrived_as`,
        `text` (utf8), `level`, `rule` (dictionary<int8, utf8>), `row` (uint32). A pyarrow
        RecordBatch.
        """
    @property
    def id(self) -> int | None:
        """Number of the claim of its transaction; None without one."""
    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None:
        """Of a transaction: `first`, `unfinished` (it was begun before and did not end) or `finished`;
        else None.
        """
    def complete(
        self,
        external_ids: _Ids | None = None,
        *,
        rows: Iterable[int] | _Arrow | None = None,
        persist_until: _Until | None = None,
        now: dt.datetime | None = None,
    ) -> None:
        """These messages were sent: map them, and remove what is pending, in one step. Durable on
        return; again changes nothing.

        Args:
            external_ids: the other side's ids, one for each of `rows` (or of `new`); None maps to
                nothing, which is a mapping.
            rows: row numbers of the batch; all of `new`, if absent.
            persist_until: a datetime, a duration from now on, "forever", or a column of times; the
                mapper's, if absent.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Raises:
            StateError: [DH-STATE] a row was not to be sent, or was said to have failed.
            SchemaError: [DH-SCHEMA] the columns have other lengths than the rows.
            LockedError: [DH-LOCKED] another writer held the mapper for longer than `lock_timeout`.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def abort(self, rows: Iterable[int] | _Arrow | None = None, *, definite: bool = False) -> None:
        """These messages failed. Later messages of their queues are held. Durable on return.

        Args:
            rows: row numbers of the batch; all of `new`, if absent.
            definite: whether they were certainly not delivered: then they are pending no more, and
                a retry is NEW. Else nobody knows, and they stay pending.

        Raises:
            As `complete`.
        """
    def raise_pending(self) -> None:
        """Raise `PendingMessageError`, with the rows, if the action of any is RAISE: such messages
        stay unacknowledged.

        Raises:
            PendingMessageError: [DH-PENDING] the action of some is RAISE; `rows` holds them.
        """

@final
class MapperTaken:
    """Messages that a unit of work took in. `UnitOfWork.take` makes it."""

    @property
    def verdicts(self) -> _Columns:
        """The verdict of every message, in order: `status` (NEW, DUPLICATE, IN_DOUBT, FAILED; null
        while it waits), `action` (PROCESS, SKIP, RAISE, HOLD), `rule` ("N1" to "N4"), `reason` and
        `audit` (SUCCESS, ERROR or null), all dictionary<int8, utf8>; `found` and `retryable`
        (boolean), `mapped_id` (utf8: of a duplicate, the message that came first), `pending_since`
        (timestamp[us, UTC]). The rules are those of `docs/mapper.md`. SKIP is still acknowledged to
        the source. A pyarrow RecordBatch where one came in, else a Table.
        """
    @property
    def new(self) -> _Columns:
        """The messages to process that did not fail, in the columns they came in."""
    @property
    def rows(self) -> list[int]:
        """The row numbers of `new`."""
    @property
    def audit(self) -> pa.RecordBatch:
        """The records for the audit log: `time` (timestamp[us, UTC]), `channel`, `id` (of a duplicate:
        the message that came first), `arrived_as`, `text` (utf8), `level`, `rule` (dictionary<int8,
        utf8>), `row` (uint32). A pyarrow RecordBatch.
        """
    def fail(self, rows: Iterable[int] | _Arrow) -> None:
        """These messages failed: they are not mapped when the unit commits. Later messages of their
        queues, and copies of them, are held until they are taken again. What was mapped by hand
        since stays mapped.

        Args:
            rows: row numbers of the batch.

        Raises:
            StateError: [DH-STATE] a row was not to be processed, the unit is over, or a later
                `take` of it called a copy a duplicate, which may be acknowledged: roll it back.
        """

@final
class UnitOfWork:
    """A unit of work: messages that are taken in, and their mappings, become durable together.
    `MessageIdMapper.unit_of_work` makes it.

    Leaving `with` commits; an exception rolls back, and so does the end of the process. Concurrent
    takers of an id of an open unit block until it ends, up to `lock_timeout`: exactly one of them
    gets the id as NEW.
    """

    def take(
        self,
        messages: _Arrow,
        *,
        columns: Mapping[str, str] | None = None,
        qos: _Qos = "EO",
        persist_until: _Until | None = None,
        now: dt.datetime | None = None,
    ) -> MapperTaken:
        """Judge messages that come in. Those to process are mapped, from their `id` to their
        `message_id`, when the unit commits.

        Args:
            messages: anything with Arrow's C interface. Columns `id` (the external id),
                `message_id` (ours; what it is mapped to), `qos` (BE, EO, EOIO), `queue` (of EOIO).
            columns: the mapper's name of a column -> its name in `messages`, where they differ.
            qos: the quality of service where no column says it.
            persist_until: until when mappings are kept: a datetime, a duration from now on,
                "forever", or a column of times; the mapper's, if absent.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            MapperTaken: the verdicts, and the messages to process.

        Raises:
            SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
            LockedError: [DH-LOCKED] another unit of work held one of the ids, or of their
                sixteenths, for longer than `lock_timeout`.
            StateError: [DH-STATE] the unit is over.
        """
    def create(
        self,
        ids: _Ids,
        external_ids: _Ids | None = None,
        persist_until: _Until | None = None,
        *,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch:
        """Map ids when the unit commits.

        Args:
            ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
            external_ids: what they are mapped to, a column of text of the same length; None maps to
                nothing.
            persist_until: a datetime, a duration from now on, "forever", or a column of times; the
                mapper's, if absent.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            As `MessageIdMapper.create`.

        Raises:
            As `UnitOfWork.take`.
        """
    def update(
        self,
        ids: _Ids,
        external_ids: _Ids | None = None,
        persist_until: _Until | None = None,
        *,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch:
        """Map ids to others when the unit commits.

        Args:
            ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
            external_ids: what they are mapped to, a column of text of the same length; None maps to
                nothing.
            persist_until: a datetime, a duration from now on, "forever", or a column of times; the
                mapper's, if absent.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            As `MessageIdMapper.update`.

        Raises:
            As `UnitOfWork.take`.
        """
    def remove(self, ids: _Ids, *, now: dt.datetime | None = None) -> pa.RecordBatch:
        """Remove mappings when the unit commits.

        Args:
            ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            As `MessageIdMapper.remove`.

        Raises:
            As `UnitOfWork.take`.
        """
    def commit(self, *, now: dt.datetime | None = None) -> int:
        """Make all of it durable, in one step, and let its ids go. Again is an error.

        Args:
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            int: how many ids changed.

        Raises:
            StateError: [DH-STATE] the unit is over; or somebody mapped one of its ids without a
                unit meanwhile: then nothing of it is done.
            LockedError: [DH-LOCKED] another writer held the mapper for longer than `lock_timeout`.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def roll_back(self) -> None:
        """Forget all of it, and let its ids go: the messages are NEW when they come again. Again
        changes nothing.

        Raises:
            Nothing; again changes nothing.
        """
    def __enter__(self) -> UnitOfWork: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class MessageIdMapper:
    """A durable map from ids to other ids, for the messages of one channel. `History.mapper` makes it.

    Ids are text of up to 65,535 bytes, a dictionary of text, or UUIDs as 16 bytes: an Arrow array,
    a table with a column `id`, or any iterable of text. All methods may be called by many threads
    at once; none holds Python while it works.
    """

    @property
    def name(self) -> str:
        """The channel's name."""
    @property
    def policy(self) -> _Pending:
        """What is done with a message that is pending: `error`, `process` or `duplicate`."""
    def lookup(self, ids: _Ids, *, now: dt.datetime | None = None) -> pa.RecordBatch:
        """What the mapper knows of some ids. Writes nothing.

        Args:
            ids: the ids.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            A pyarrow RecordBatch with a row for each id, in order: `found` (boolean: it is mapped),
            `mapped_id` (utf8: to what; a mapping may be to nothing), `pending` (boolean),
            `pending_since` (timestamp[us, UTC]), `resolved` (dictionary<int8, utf8>: process,
            duplicate or null), `persist_until` (timestamp[us, UTC], of the mapping, else of what is
            pending; null: forever).

        Raises:
            SchemaError: [DH-SCHEMA] the ids are no text and no UUIDs.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
        """
    def create(
        self,
        ids: _Ids,
        external_ids: _Ids | None = None,
        persist_until: _Until | None = None,
        transactional: bool = False,
        *,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch:
        """Map ids to other ids. Durable on return.

        Args:
            ids: the ids.
            external_ids: what they are mapped to, a column of text of the same length; None maps to
                nothing.
            persist_until: a datetime, a duration from now on, "forever", or a column of times; the
                mapper's, if absent.
            transactional: join this thread's open unit of work, and be durable when that commits;
                else durable on return, whatever becomes of the unit.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            `id` and `error` for each row: null where it is done, else EXISTS (it is mapped, or
            stood in an earlier row), NO_ID, TOO_LONG (more than 65,535 bytes) or MIRROR_EXISTS (the
            other id is mapped or pending). The other rows are done.

        Raises:
            SchemaError: [DH-SCHEMA] the columns are no text, or have different lengths.
            StateError: [DH-STATE] `transactional`, and there is no unit of work.
            LockedError: [DH-LOCKED] another writer held the mapper for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def update(
        self,
        ids: _Ids,
        external_ids: _Ids | None = None,
        persist_until: _Until | None = None,
        transactional: bool = False,
        *,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch:
        """Map ids that are mapped to other ids than before. Durable on return.

        Args:
            ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
            external_ids: what they are mapped to, a column of text of the same length; None maps to
                nothing.
            persist_until: a datetime, a duration from now on, "forever", or a column of times; the
                mapper's, if absent.
            transactional: join this thread's open unit of work; see `create`.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            A pyarrow RecordBatch with a row for each id: `id` (as it came), `error`
            (dictionary<int8, utf8>: null where it is done, else NOT_FOUND (it is not mapped),
            EXISTS (it stood in an earlier row: the first one counts), NO_ID, TOO_LONG or
            MIRROR_EXISTS). The other rows are done.

        Raises:
            As `MessageIdMapper.create`.
        """
    def remove(self, ids: _Ids, transactional: bool = False, *, now: dt.datetime | None = None) -> pa.RecordBatch:
        """Remove mappings. Durable on return.

        Args:
            ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
            transactional: join this thread's open unit of work; see `create`.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            A pyarrow RecordBatch with a row for each id: `id` (as it came), `error`
            (dictionary<int8, utf8>: null where it is done, else NOT_FOUND (it is not mapped), NO_ID
            or TOO_LONG). The other rows are done.

        Raises:
            As `MessageIdMapper.create`.
        """
    def begin_send(
        self,
        messages: _Arrow,
        *,
        columns: Mapping[str, str] | None = None,
        qos: _Qos = "EO",
        persist_until: _Until | None = None,
        raise_pending: bool = False,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "rerun"] = "in_doubt",
        on_other_rows: _OtherRows = "error",
        now: dt.datetime | None = None,
    ) -> MapperSend:
        """Judge messages that go out, and make those to send pending, in one step. Durable on return,
        before anything is sent.

        Args:
            messages: anything with Arrow's C interface. Columns `id` (ours), `qos` (BE, EO, EOIO),
                `queue` (of EOIO).
            columns: the mapper's name of a column -> its name in `messages`, where they differ.
            qos: the quality of service where no column says it.
            persist_until: until when pending entries are kept at least, and the mappings of M5; see
                `create`. A purge takes pending entries only when asked to.
            raise_pending: raise `PendingMessageError`, and write nothing, if the action of any row
                is RAISE.
            transaction: (application, number of the batch): a batch that comes again is known by
                it.
            on_replay: what ids are that this very transaction began to send and never ended:
                `in_doubt` (pending, by the rules) or `rerun` (NEW again: for receivers that are
                idempotent for each batch).
            on_other_rows: what is done with a known number that comes with other rows: `error`
                (nothing is written), or `look_up` (each row is what the mapper holds of it).
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            MapperSend: the verdicts, the messages to send, and the right to end them.

        Raises:
            PendingMessageError: [DH-PENDING] with `raise_pending`.
            SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
            ConfigError: [DH-CONFIG] an argument makes no sense.
            TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
                number came with other rows.
            LockedError: [DH-LOCKED] another writer held the mapper for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def unit_of_work(self) -> UnitOfWork:
        """Begin a unit of work, in which messages are taken in.

        Returns:
            UnitOfWork: to be used in a `with` block.

        Raises:
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def resolve(self, ids: _Ids, decision: _Pending) -> pa.RecordBatch:
        """Decide single ids that are pending: their next arrival is treated so, once, whatever the
        channel's policy is. A mapping comes first: while an id is mapped too, its arrivals are M2.

        Args:
            ids: the ids.
            decision: `process` (it was not delivered: send it), `duplicate` (it was), or `error`
                (undecided again).

        Returns:
            `id` and `error` for each row: null where it is done, else NOT_PENDING, NO_ID or
            TOO_LONG.

        Raises:
            ConfigError: [DH-CONFIG] there is no such decision.
            SchemaError: [DH-SCHEMA] the ids are no text and no UUIDs.
            LockedError: [DH-LOCKED] another writer held it for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
            FailedError: [DH-FAILED] an earlier write failed.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def pending(self) -> pa.RecordBatchReader:
        """The ids whose sending was begun and never ended, in no order. One that is mapped too is
        among them, with `found`: while its mapping counts, its next arrival is M2.

        Returns:
            A pyarrow RecordBatchReader: `channel` (dictionary<int8, utf8>), `id` (utf8), and the
            columns of `lookup`.

        Raises:
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def entries(self, *, now: dt.datetime | None = None) -> pa.RecordBatchReader:
        """All entries, in no order.

        Args:
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            A pyarrow RecordBatchReader: `channel` (dictionary<int8, utf8>), `id` (utf8), and the
            columns of `lookup`.

        Raises:
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def purge(
        self,
        now: dt.datetime | None = None,
        include_pending: bool = False,
        dry_run: bool = False,
        *,
        force: bool = False,
    ) -> _PurgedValues:
        """Remove expired mappings. They are gone at once; a file goes when all in it is gone. A
        mapping beside a pending entry stays as long as that: a purge never takes a doubt unasked.

        Args:
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
            include_pending: take pending entries too whose time has come: that silently turns "in
                doubt" into "new".
            dry_run: only say what would go.
            force: purge even if `now` is more than a day ahead of this machine's clock and every
                mapping that can expire goes.

        Returns:
            `entries` (`log_entries` of them in the log), `bytes` and `files` that went.

        Raises:
            ConfigError: [DH-CONFIG] `now` is doubtful (see `force`).
            LockedError: [DH-LOCKED] another writer held it for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
            FailedError: [DH-FAILED] an earlier write failed.
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def maintain(self, *, all: bool = False) -> None:
        """Put files together. Writing does it by itself when it pays.

        Args:
            all: go as far as it goes, rather than as far as it pays; wait for maintenance that runs
                already. Without it, nothing is done where some is under way.

        Raises:
            LockedError: [DH-LOCKED] another writer held it for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
            FailedError: [DH-FAILED] an earlier write failed.
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def verify(self) -> int:
        """Check every byte of the mapper's files.

        Returns:
            int: how many bytes there were.

        Raises:
            CorruptError: [DH-CORRUPT] a byte is not what was written; the text names the file and
                the place.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def stats(self) -> _ValueFigures:
        """Figures of the mapper.

        Returns:
            `file_entries`, `later_entries`, `pending_entries`, `log_entries` (numbers of entries),
            `files` (their number), `file_bytes`, `log_bytes`, `manifest` (number of the newest),
            `transactions` (application -> last batch, whether it ended).

        Raises:
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def _repr_html_(self) -> str: ...

@final
class Job:
    """Work that is divided among tasks: what `Shards.reserve` reserved for it.

    The tasks stage (`Shards.stage`, `Shards.stage_entries`), wherever they run; the process that
    has their receipts commits. Until then nothing of it shows in the history. A job that nobody
    commits or gives up is forgotten after a week.
    """

    @property
    def token(self) -> str:
        """The job as text, which tasks need to stage its parts."""
    @property
    def id(self) -> str:
        """The name of the job."""
    @property
    def snapshot(self) -> str | None:
        """What tasks open the history with (`snapshot=`) to classify; None if the job only loads."""
    @property
    def claim(self) -> int:
        """Number of the claim that it will begin."""
    @property
    def started_at(self) -> dt.datetime:
        """When the services begin, as a datetime in UTC: the `now` of `reserve`."""
    @property
    def parts(self) -> int:
        """Parts that the work is divided into."""
    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None:
        """Of a transaction: `first`, `unfinished` (it was begun before and did not end) or `finished`;
        else None. Only where it was reserved.
        """
    def commit(self, receipts: Sequence[bytes], *, most_lost: int | None = ...) -> StagedClaim:
        """Begin what the tasks staged: all of it, or nothing; or all but what others were first with.
        Durable on return.

        Args:
            receipts: the receipt of one attempt of each part that has rows.
            most_lost: how many documents may be left out because others were first with them since
                the reservation; None for any number. Their tasks took them for NEW, and they are
                not: `StagedClaim.lost` names them, and `decide_lost` decides them again. Do not
                process them before.

        Raises:
            ConflictError: [DH-CONFLICT] others were first with more of these documents, or with
                this transaction, or the batch has other rows than it had under its number before,
                which are to be looked up: decide again, from a new job that is given these
                receipts.
            TransactionError: [DH-TRANSACTION] the application's numbers went backwards meanwhile,
                or a known number came with other rows.
            StateError: [DH-STATE] the job was committed or given up before.
            ClusterError: [DH-CLUSTER] what a task staged is not here: it works in another
                directory.
            ConfigError: [DH-CONFIG] the receipts are not this job's, or a part is there twice.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def prove(self) -> None:
        """Ask the bucket whether what was reserved with `prove_later` counts. `commit` does it, too,
        if nobody did before.

        Raises:
            ConflictError: [DH-CONFLICT] it does not, because this process slept while others wrote:
                decide again, from a new job.
            ObjectStoreError: [DH-OBJECTS], …: the bucket cannot be used.
        """
    def abort(self) -> None:
        """Give the job up: its files go, except those that were committed. Again changes nothing."""

@final
class Staged:
    """One part of a job, decided and staged. `Shards.stage` makes it."""

    @property
    def verdicts(self) -> _Columns:
        """The verdict of every row: `status`, `action`, `acknowledge`, `rule`, `key`, `message`; see
        `History.classify`.
        """
    @property
    def receipt(self) -> bytes:
        """What to hand to the driver that commits the job."""

@final
class StagedClaim:
    """Documents that the tasks of a job began together. `Job.commit` makes it.

    `complete()` when the services have ended, in success or failure; `release()` when their work
    was undone for certain. Both are durable on return, and change nothing when said again. A
    document that has ended refuses the other end: what was released may be another claim's by now.
    What is neither stays `processing`, and is in doubt when it comes again. A `with` block ends it
    as that of a `Claim` does.
    """

    @property
    def id(self) -> int | None:
        """Number of the claim, unique within its trigger; None if there was nothing to begin."""
    @property
    def started_at(self) -> dt.datetime:
        """When the services began, as a datetime in UTC."""
    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None:
        """Of a transaction: `first`, `unfinished` (it was begun before and did not end) or `finished`;
        else None.
        """
    @property
    def lost(self) -> list[str]:
        """The ids of the documents that others were first with, and that this claim therefore leaves
        out (`most_lost`).
        """
    def decide_lost(self, documents: _Arrow, *, columns: Mapping[str, str] | None = None, threads: int = 1) -> _Columns:
        """Decide documents that the claim leaves out again, by what the history holds now, and begin
        under this claim what is NEW after all: others released it meanwhile, or the resolver says
        so. Durable on return.

        Args:
            documents: the rows of lost documents, in order of arrival; all rows of an id belong
                together.
            columns: the trigger's name of a column -> its name in `documents`, where they differ.
            threads: threads to use for many documents.

        Returns:
            The verdict of every row, as `History.classify` gives it.

        Raises:
            StateError: [DH-STATE] the claim has ended as a whole, or its time was purged, and a
                document would have to be begun.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            StorageError: [DH-IO] the operating system refused a file operation.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def __len__(self) -> int: ...
    def complete(self, keys: Iterable[str | None] | _Arrow | None = None) -> None:
        """The services ended, in success or failure: the documents are DUPLICATE from now on. Durable
        on return.

        Args:
            keys: an Arrow array, documents in the trigger's columns, or any iterable of text; all
                but those that were released by themselves, if absent.

        Raises:
            StateError: [DH-STATE] some keys are not of this claim, or were released, by themselves
                or with the claim.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def release(self, keys: Iterable[str | None] | _Arrow | None = None) -> None:
        """The services' work was undone for certain: the documents are NEW when they come again.

        Args:
            keys: an Arrow array, documents in the trigger's columns, or any iterable of text; all
                but those that were completed by themselves, if absent.

        Raises:
            StateError: [DH-STATE] some keys are not of this claim, or were completed, by themselves
                or with the claim.
        """
    def __enter__(self) -> StagedClaim: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class History:
    """A durable history of the ids of documents. `open` makes it.

    Documents come as anything with Arrow's C interface (pyarrow RecordBatch, Table or reader,
    Polars, pandas, DuckDB). Columns of a `messaging` trigger: `uuid`, `track_id`, `event_id` (the
    key is the first of them that holds a value), the count `redelivery_count` (0 first, above 0
    again, -1 unknown) and the flag `guaranteed`; of a `jms` trigger: `uuid`, `jms_message_id`,
    `delivery_count` (1 first) and `persistent`. Ids are text, a dictionary of text, or UUIDs as 16
    bytes; counts are integers; flags are boolean. One id column must be there; others may be absent
    (unknown; flags: true).

    All methods may be called by many threads at once; none holds Python while it works. After a
    fork the child must open the history again.
    """

    @property
    def path(self) -> Path:
        """The directory. A history in a bucket has none: it has a `url`."""
    @property
    def url(self) -> str | None:
        """The URL of a history in a bucket; None for one in a directory."""
    @property
    def id(self) -> str:
        """The history's own id, which copies of it share, in 32 hexadecimal digits."""
    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
    @property
    def _is_usable(self) -> bool:
        """Whether it is open, and its local copy of a bucket was not deleted. Not public."""
    @property
    def shards(self) -> int:
        """Number of key ranges that Spark may divide the history's work into."""
    @property
    def _shards(self) -> Shards: ...
    @property
    def _objects(self) -> ObjectClient | None: ...
    @property
    def audit(self) -> AuditLog:
        """The history's audit log: documents in doubt, whole, to be looked at and resubmitted; see
        `dochistory.audit`.
        """
    def transaction(
        self, trigger: Trigger | str, application: str
    ) -> tuple[int, Literal["begun", "completed", "released"]] | None:
        """How far the last transaction of an application came. What this tells is durable, unless the
        history was opened for reading.

        Args:
            trigger: the trigger, or its name.
            application: the first half of the transaction.

        Returns:
            (number of the batch, `begun` | `completed` | `released`); None if the application never
            began a batch.

        Raises:
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
        """
    def classify(
        self,
        documents: _Arrow,
        trigger: Trigger,
        *,
        now: dt.datetime | None = None,
        columns: Mapping[str, str] | None = None,
        threads: int = 1,
    ) -> _Columns:
        """Judge documents by what the history holds now. Writes nothing, so it may be asked as often
        as one likes.

        The rules are those of exactly-once processing by publish-subscribe and JMS triggers;
        `docs/rules.md` lists them.

        Args:
            documents: the documents, in order of arrival.
            trigger: whose documents they are.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
            columns: the trigger's name of a column -> its name in `documents`, where they differ.
            threads: threads to use for large batches.

        Returns:
            A row for each document, in order: a pyarrow RecordBatch where one came in, else a
            Table. Columns: `status` (NEW, DUPLICATE, IN_DOUBT; null when suspended or rejected),
            `action` (PROCESS, DISCARD, LOG, SUSPEND, REJECT), `acknowledge` (AFTER_SERVICE, NOW,
            NO) and `rule` ("R8", "R10>S1", "R8+batch"), all dictionary<int8, utf8>; `key` (text;
            null if there is none); `message` (utf8: a sentence for the journal; null for what is
            NEW).

        A resolver is asked once about all documents that are left undecided. It gets a pyarrow
        RecordBatch of their columns and `dh_trigger`, `dh_key`, `dh_count`, `dh_reason` (the rule
        that left it undecided), `dh_started_at` (timestamp[us, UTC]; null unless it is processing)
        and `dh_row`; it answers an Arrow array or any sequence of NEW, DUPLICATE, IN_DOUBT, a table
        with the columns `status` and `message`, a mapping of two such sequences, or a sequence of
        pairs. It may raise `TransientError`, or answer an exception for a single document; what
        failed for the moment is asked about again before it counts (`Trigger.resolver_attempts`).

        Raises:
            SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
            ConfigError: [DH-CONFIG] an argument makes no sense.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def classify_codes(
        self,
        documents: _Arrow,
        trigger: Trigger,
        *,
        now: dt.datetime | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> pa.Array:
        """As `classify`, but each verdict is one number: a row of `verdict_words`.

        A resolver is asked as in `classify`; what it says by way of messages is not in the answer.

        Args:
            documents: the documents, in order of arrival.
            trigger: whose documents they are.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
            columns: the trigger's name of a column -> its name in `documents`, where they differ.

        Returns:
            A pyarrow array with a row for each document, in order: int8 where there is one id
            column, else int16. A row without a key is -1 - code, any other `code + 128 * source`;
            the source is the place of the id column that holds the key, among those that are there.

        Raises:
            As `classify`.
        """
    def begin(
        self,
        documents: _Arrow,
        trigger: Trigger,
        *,
        now: dt.datetime | None = None,
        columns: Mapping[str, str] | None = None,
        threads: int = 1,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "resolver", "rerun"] = "in_doubt",
        on_other_rows: _OtherRows = "error",
        audit: _Keeper | bool | None = None,
    ) -> Claim:
        """Judge documents, and write `processing` for those to process, in one atomic step: of two
        that bring the same id at once exactly one gets it as NEW. Durable on return.

        Args:
            documents: the documents, in order of arrival.
            trigger: whose documents they are.
            now: the time at which the services begin, a datetime with a time zone; the clock's, if
                absent.
            columns: the trigger's name of a column -> its name in `documents`, where they differ.
            threads: threads to use for large batches.
            transaction: (application, number of the batch): a batch that comes again is known by
                it.
            on_replay: what documents are that this very transaction began and never ended:
                `in_doubt` (by the rules), `resolver` (the same, and the trigger must have a
                resolver), `rerun` (NEW again: for services that are idempotent for each batch).
            on_other_rows: what is done with a known number that comes with other rows: `error`
                (nothing is recorded), or `look_up` (each row is what the history holds of it).
            audit: True keeps the documents in doubt, whole, in the history's audit log before this
                returns; or an audit log of your own (`dochistory.audit`). What fails there is
                raised, and nothing is claimed. Without it, a warning is logged of the first
                document that has no id; False logs none.

        Returns:
            Claim: the verdicts (`Claim.verdicts`, in the columns of `classify`), the documents to
            process (`Claim.new`), and the right to end them.

        Raises:
            SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
            ConfigError: [DH-CONFIG] an argument makes no sense.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
                number came with other rows.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
            FailedError: [DH-FAILED] an earlier write failed.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def begin_one(
        self,
        *,
        trigger: Trigger,
        uuid: str | None = None,
        track_id: str | None = None,
        event_id: str | None = None,
        jms_message_id: str | None = None,
        redelivery_count: int | None = None,
        delivery_count: int | None = None,
        guaranteed: bool | None = None,
        persistent: bool | None = None,
        now: dt.datetime | None = None,
    ) -> DocumentClaim:
        """Begin one document; the same as `begin` with a batch of one. One that this handle has read
        as completed is answered without the writer lock.

        Args:
            trigger: whose document it is.
            uuid: its id.
            track_id: stands in where there is no uuid (messaging).
            event_id: stands in where there is neither (messaging).
            jms_message_id: stands in where there is no uuid (JMS).
            redelivery_count: 0 first, above 0 again, -1 or None unknown (messaging).
            delivery_count: 1 first, above 1 again, -1 or None unknown (JMS).
            guaranteed: whether it is delivered with a guarantee; None counts as true (messaging).
            persistent: whether it is persistent; None counts as true (JMS).
            now: the time at which the service begins, a datetime with a time zone; the clock's, if
                absent.

        Returns:
            DocumentClaim: the verdict as plain values, and the right to end the document.

        Raises:
            As `begin`.
        """
    def complete(
        self, keys: Iterable[str | None] | _Arrow, trigger: Trigger, *, now: dt.datetime | None = None
    ) -> _Finished:
        """The services of these documents ended, begun by this process or another.
        Durable on return.

        A key that nobody began is recorded as completed now.

        Args:
            keys: an Arrow array, documents in the trigger's columns, or any iterable of text.
            trigger: whose documents they are.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            How many keys `changed`, were `already` completed, and were `unknown`.

        Raises:
            SchemaError: [DH-SCHEMA] the keys are no text and no UUIDs.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def release(
        self, keys: Iterable[str | None] | _Arrow, trigger: Trigger, *, now: dt.datetime | None = None
    ) -> _Finished:
        """The work of these documents' services was undone for certain: take `processing` away, so
        that they are NEW when they come again. What is completed stays so. Durable on return.

        Args:
            keys: an Arrow array, documents in the trigger's columns, or any iterable of text.
            trigger: whose documents they are.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.

        Returns:
            How many keys `changed`, were `already` released, and were `unknown`.

        Raises:
            As `complete`.
        """
    def entries(
        self,
        trigger: Trigger | str,
        status: Literal["processing", "completed"] | None = None,
        *,
        since: dt.datetime | None = None,
        before: dt.datetime | None = None,
        part: tuple[int, int] = ...,
        keys: _Ids | None = None,
    ) -> pa.RecordBatchReader:
        """The entries of a trigger, as a pyarrow RecordBatchReader, in no order; of a key with several
        open claims, one for each.

        Args:
            trigger: the trigger, or its name.
            status: `processing` or `completed`; None lists both.
            since: only entries whose service began then or later, a datetime with a time zone.
            before: only entries whose service began earlier than that, a datetime with a time zone.
            part: (number from 0, count): one of `count` equal parts of the keys, for several
                readers of one snapshot.
            keys: only entries of these keys, an Arrow array or any iterable of text: they are
                looked up, and nothing else is read.

        Returns:
            Columns `trigger`, `status` (dictionary<int8, utf8>), `key` (utf8), `started_at`
            (timestamp[us, UTC]).

        Raises:
            ConfigError: [DH-CONFIG] the status or the part is none, or the history has no trigger
                of that name.
            SchemaError: [DH-SCHEMA] the keys are none.
        """
    def triggers(self) -> list[str]:
        """The names of the triggers that have entries, or had some.

        Returns:
            list of str: the names, sorted.

        Raises:
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def purge(
        self,
        trigger: Trigger | str | None = None,
        now: dt.datetime | None = None,
        dry_run: bool = False,
        *,
        force: bool = False,
    ) -> dict[str, _Purged]:
        """Drop what expired: entries whose service began a time to live ago, or longer. Drops whole
        files.

        Args:
            trigger: the trigger, or its name; every trigger, if absent. The time to live that the
                history keeps counts.
            now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
            dry_run: only say what would go.
            force: purge even if `now` is more than a day ahead of this machine's clock and every
                entry of a trigger goes.

        Returns:
            For each trigger: `entries` (`log_entries` of them in the log), `bytes` and `segments`
            (files) that went.

        Raises:
            ConfigError: [DH-CONFIG] the history has no trigger of that name, the trigger's settings
                are not those that the history keeps, or `now` is doubtful (see `force`).
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
        """
    def change(self, trigger: Trigger) -> dt.timedelta:
        """Change a trigger's time to live. Its next purge goes by the new one; opening the trigger
        with the old one raises `ConfigError`. What is begun can be ended all the same. The kind
        of a trigger never changes.

        Args:
            trigger: the trigger, with the time to live that is to be kept from now on.

        Returns:
            The time to live before, as a timedelta.

        Raises:
            ConfigError: [DH-CONFIG] the history has no such trigger, or one of another kind.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
        """
    def maintain(
        self,
        trigger: Trigger | str | None = None,
        *,
        all: bool = False,
        progress: Callable[[int, int], object] | bool | None = None,
        grace: _Duration | None = None,
    ) -> dict[str, _Maintained]:
        """Put small files together and roll filters up. `begin` does it by itself when it pays, unless
        told otherwise.

        Args:
            trigger: the trigger, or its name; every trigger, mapper and stream of guaranteed
                delivery, if absent.
            all: go as far as it goes, rather than as far as it pays; wait for maintenance that runs
                already. Without it, nothing is done where some is under way.
            progress: called with (entries done, entries in all) from time to time; what it raises
                stops the work, which does no harm.
            grace: in a bucket, how long objects stay that no state needs any more, because others
                may be reading them; 15 minutes, if absent.

        Returns:
            For each trigger, by its name: `merged` (files before, files after), `rewritten` and
            `rolled_up` (entries). Mappers are called `mapper:` and their channel; guaranteed
            delivery `delivery:received` and `delivery:sent`.

        Raises:
            ConfigError: [DH-CONFIG] the history has no trigger of that name.
            LockedError: [DH-LOCKED] another writer held it for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
            FailedError: [DH-FAILED] an earlier write failed.
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def load(
        self,
        documents: _Arrow | Iterable[_Arrow],
        trigger: Trigger,
        *,
        columns: Mapping[str, str] | None = None,
        now: dt.datetime | None = None,
        progress: Callable[[int], object] | bool | None = None,
    ) -> int:
        """Load entries in bulk: documents that were processed elsewhere, or before there was this
        history.

        Entries are published, durably, 4,194,304 at a time. **Resuming:** a load that was broken
        off (a kill, Ctrl-C, an error) leaves what it published. Run it again with the same entries
        in the same order, in batches of any size: the parts that are there are recognised by their
        content and not written again. Once a load has come to its end, its parts are forgotten: to
        load a completed entry again then lists it once in `entries` and twice in `stats`, until
        `maintain`, and its time to live starts at the later `started_at`; one that is processing is
        listed once more, and still ends as a whole.

        Other writers may go on meanwhile; their turns come between the parts. Afterwards `maintain`
        puts small files together.

        Args:
            documents: the trigger's id columns, and optionally `started_at` (timestamp; when the
                service began) and `status` (utf8: `completed` or `processing`, null means
                completed). Anything with Arrow's C interface, read as a stream where it is one, a
                pyarrow dataset, or an iterable of record batches.
            trigger: whose documents they are.
            columns: other names of the trigger's columns, `started_at` and `status`: role -> name.
            now: `started_at` of entries that have none, a datetime with a time zone; the clock's,
                if absent.
            progress: called with the number of entries read so far, after each batch and each
                262,144 entries; what it raises stops the load. True shows a bar on standard error.

        Returns:
            The number of entries read, those included that were there from an interrupted run.

        Raises:
            SchemaError: [DH-SCHEMA] a column has the wrong type, or a row has no key or one of more
                than 96 characters.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
        """
    def verify(
        self, trigger: Trigger | str | None = None, *, progress: Callable[[int, int], object] | bool | None = None
    ) -> int:
        """Check every byte of the history's files, those of mappers, of guaranteed delivery and of the
        audit log among them.

        Args:
            trigger: the trigger, or its name; everything, if absent.
            progress: called with (bytes done, bytes in all) of a trigger from time to time; what it
                raises stops the check.

        Returns:
            The number of bytes checked.

        Raises:
            ConfigError: [DH-CONFIG] the history has no trigger of that name.
            CorruptError: [DH-CORRUPT] a file is damaged; the text names it and the place.
        """
    @overload
    def stats(self, trigger: None = None) -> _Figures:
        """Figures of the history.

        Args:
            trigger: the trigger, or its name, whose figures alone are wanted.

        Returns:
            Of the history: `path`, `id`, `created_at`, `shards`, `triggers`, and `mappers` and
            `delivery` (name -> figures; of the last two see `MessageIdMapper.stats`). Of a trigger:
            entries (`segment_entries`, `log_entries`, `open_entries`), bytes (`segment_bytes`,
            `log_bytes`, `filter_bytes`), files (`segments`, `segments_uncovered`, `filters`), what
            this handle was asked since it was opened (rows `looked_up`, and `filter_positives`: how
            often a filter let one of them through to an exact look-up; `begun_without_id`:
            documents that `begin` found to have no id), `manifest` (number of the newest),
            `oldest_started_at`, `purged_upto`, `partition`, `history_time_to_live`, `transactions`
            (application -> last batch, whether it ended), `longest_run` (timedelta from `begin` to
            the end of a claim, the longest that this handle saw; None before the first), and
            `partitions` (a list, oldest first, of what lies in segments: `start`, `entries`,
            `bytes`, `segments`).

        Raises:
            ConfigError: [DH-CONFIG] the history has no trigger of that name; one that is about to
                begin is given as a `Trigger`, and has no entries.
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    @overload
    def stats(self, trigger: Trigger | str) -> _TriggerFigures:
        """Figures of the history.

        Args:
            trigger: the trigger, or its name, whose figures alone are wanted.

        Returns:
            Of the history: `path`, `id`, `created_at`, `shards`, `triggers`, and `mappers` and
            `delivery` (name -> figures; of the last two see `MessageIdMapper.stats`). Of a trigger:
            entries (`segment_entries`, `log_entries`, `open_entries`), bytes (`segment_bytes`,
            `log_bytes`, `filter_bytes`), files (`segments`, `segments_uncovered`, `filters`), what
            this handle was asked since it was opened (rows `looked_up`, and `filter_positives`: how
            often a filter let one of them through to an exact look-up; `begun_without_id`:
            documents that `begin` found to have no id), `manifest` (number of the newest),
            `oldest_started_at`, `purged_upto`, `partition`, `history_time_to_live`, `transactions`
            (application -> last batch, whether it ended), `longest_run` (timedelta from `begin` to
            the end of a claim, the longest that this handle saw; None before the first), and
            `partitions` (a list, oldest first, of what lies in segments: `start`, `entries`,
            `bytes`, `segments`).

        Raises:
            ConfigError: [DH-CONFIG] the history has no trigger of that name; one that is about to
                begin is given as a `Trigger`, and has no entries.
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def delivery(
        self,
        stream: str | None = None,
        *,
        start: _Offsets | None = None,
        log_received: _Offsets | None = None,
        own_transaction: bool = False,
        patience: int = 1,
        batch_mode: bool = False,
        reset_patience: bool = True,
        first_contact: bool = False,
        held_limit: int = 1_048_576,
        keep_rows: bool = True,
    ) -> GuaranteedDelivery:
        """Open the receiving side of guaranteed delivery.

        Args:
            stream: the stream (a publisher-subscriber pair) to receive; all that there are, if
                absent.
            start: where a stream starts that the history does not know yet: up to this log offset
                the subscriber has everything, by the extraction that began the subscription. An
                offset, or a mapping of streams to offsets. Streams that are known stay as they are.
            log_received: how far the caller has applied, by its own data: settles what is in doubt.
                An offset, or a mapping.
            own_transaction: the caller writes `log_received` in one transaction with what it
                applies, and says it with `log_received` whenever it opens the delivery: then
                `receive` records nothing before it hands out a poll, and nothing is ever in doubt.
            patience: polls to wait for a missing message before a resend is requested.
            batch_mode: request at once what is missing at the end of a poll.
            reset_patience: a new message of the stream starts the wait again, even if it is not the
                missing one.
            first_contact: a stream that nobody gave a start for begins at the lowest `prev` that
                arrives with `seq` 0.
            held_limit: most messages of one stream that are held after a poll; the highest `prev`
                goes first, which costs a resend.
            keep_rows: keep the rows of held messages (in memory), so that `DeliveryPoll.messages`
                has them when they are released.

        Returns:
            GuaranteedDelivery: the receiving side.

        Raises:
            RestoredError: [DH-RESTORED] `log_received` is outside of what may have been applied:
                the history or the caller's data was restored to an older state.
            ConfigError: [DH-CONFIG] an argument makes no sense.
            FencedError: [DH-FENCED] another process has started one of the streams at the same
                moment.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading, and a stream is to be
                started or settled.
        """
    def delivery_out(self, subscriber: str, *, publisher: str = "", start: int | None = None) -> DeliveryOutbox:
        """Open the sending side of guaranteed delivery to one subscriber.

        Args:
            subscriber: who is sent to.
            publisher: whose log is sent, where a history serves several: `truncation_point` is that
                of one publisher's log.
            start: where a new subscriber starts: it has everything up to this log offset, by the
                extraction that began the subscription. A subscriber that is known stays as it is.

        Returns:
            DeliveryOutbox: the sending side.

        Raises:
            StateError: [DH-STATE] the subscriber is not known, and `start` does not say where it
                starts.
            FencedError: [DH-FENCED] another process has started it at the same moment.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading, and the subscriber is
                new.
        """
    def delivery_status(self) -> pa.RecordBatch:
        """All streams of guaranteed delivery, as they stand on disk, a row each, under the column
        names of SYSREMOTEUSER.

        Returns:
            A pyarrow RecordBatch: `publisher`, `stream` (the stream received, or the subscriber);
            of the sending side `log_send`, `time_sent`, `log_sent`, `confirm_sent`, `send_count`,
            `resend_count`; of the receiving side `time_received`, `log_received`,
            `confirm_received`, `receive_count`, `rereceive_count`; and `applying_upto`, above
            `log_received` where a batch is being applied or is in doubt. Offsets and counts are
            uint64, times timestamp[us, UTC]; null where there is no such side, or never.
            `confirm_received` is written with the next change: a confirmation may be given again
            after a restart, and is never forgotten.

        Raises:
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def mapper(
        self,
        channel: str,
        *,
        pending: _Pending = "error",
        mirror: bool = False,
        expiry: _Expiry = "until_purged",
        persist: _Duration | None = None,
    ) -> MessageIdMapper:
        """The message id mapper of a channel. Nothing is made of it before it first writes.

        Args:
            channel: its name; each channel has ids of its own.
            pending: what is done with a message whose sending was begun and never ended: `error`
                (raise, and keep it), `process` (send it) or `duplicate` (take it as sent). An
                administrator's decision, and so not stored.
            mirror: write the second direction of each mapping as well, so that the other id is
                found too.
            expiry: `until_purged` (a mapping counts until a purge takes it) or `exact` (until its
                time).
            persist: how long entries are kept where a call does not say: text, a timedelta,
                seconds, or "forever".

        Returns:
            MessageIdMapper: the mapper of the channel.

        Raises:
            ConfigError: [DH-CONFIG] an argument makes no sense.
        """
    def mappers(self) -> list[str]:
        """The channels whose mappers hold entries, or held some.

        Returns:
            list of str: the channels, sorted.

        Raises:
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def pin(self, trigger: Trigger | str, *, lease: _Duration | None = None) -> str:
        """Pin the present state of a trigger. A history that is opened with `snapshot=` and the text
        that this answers sees this state, in any process, until `unpin`. Maintenance releases
        forgotten pins go after a week, or when their lease is over.

        Args:
            trigger: the trigger, or its name. The snapshot speaks of no other.
            lease: how long it is needed at most, a duration; a week, if absent, which is the
                longest.

        Returns:
            str: the name of the snapshot.

        Raises:
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
        """
    def pins(self, trigger: Trigger | str) -> list[_Pin]:
        """The states of a trigger that are pinned, oldest first. Each keeps its files from being
        purged or merged away.

        Args:
            trigger: the trigger, or its name.

        Returns:
            Of each a dict: `snapshot` (what `unpin` takes), `pinned_at` and `ends_at` (datetime),
            `process` (int), `manifest` (int).

        Raises:
            ConfigError: [DH-CONFIG] the history has no trigger of this name.
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def unpin(self, trigger: Trigger | str, snapshot: str) -> None:
        """Let a pinned state go, so that a purge can remove its files. Again changes nothing.

        Args:
            trigger: the trigger, or its name.
            snapshot: what `pin` answered.

        Raises:
            OpenError: [DH-OPEN] this is no snapshot of the trigger.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def _described(self, trigger: Trigger | str, snapshot: str) -> tuple[bytes, bytes] | None:
        """What a process that reads a pinned state in a bucket need not fetch then. Not public: Spark
        sends it to its workers.

        Args:
            trigger: the trigger, or its name.
            snapshot: what `pin` answered.

        Returns:
            tuple of bytes, or None: the object `HISTORY` and the pin's object; None for a
            directory, and where this handle did not pin that state last.
        """
    def close(self) -> None:
        """Close it; again changes nothing. What is under way in other threads comes to its end.

        Raises:
            Nothing; closing again, or after a fork, changes nothing.
        """
    def _repr_html_(self) -> str: ...
    def __enter__(self) -> History: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class GuaranteedDelivery:
    """The receiving side of guaranteed delivery: every operation applied in the right order, none
    missed, none applied twice. `History.delivery` opens it, for one stream (a publisher-subscriber
    pair) or for all.

    A message has a header `(resend_count-prev-cur-seq)`: the epoch, the log offsets of the last
    COMMIT in the previous message and in this one, and the number of the part of a transaction that
    spans messages. One call of `receive` is one poll; row order is order of arrival. What a history
    keeps of a stream is a row of watermarks, and no list of ids.

    Not durable, by the rules: messages that are held or buffered, and the wait for what is missing.
    After a crash they are requested again; a transaction that spans messages then starts again at
    its first part.
    """

    @property
    def stream(self) -> str | None:
        """The one stream that this delivery receives; None if it receives all."""
    def receive(
        self,
        messages: _Arrow | None = None,
        *,
        now: dt.datetime | None = None,
        columns: Mapping[str, str] | None = None,
        threads: int = 1,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "rerun"] = "in_doubt",
        on_other_rows: _OtherRows = "error",
    ) -> DeliveryPoll:
        """Decide one poll: which messages are applied, in which order, and what is held, dropped or
        asked for again.

        Unless the delivery was opened with `own_transaction`, a poll that applies something is
        recorded (`applying_upto`) before this returns; it ends with `commit`, or with `abort` if
        certainly nothing of it was applied. If neither happens, what it applies is in doubt when
        the delivery is opened again.

        Args:
            messages: what arrived, in order of arrival; None if nothing did (which counts as a poll
                too). Columns: `stream` (text; may be absent in the delivery of one stream), and
                `header` (text) or `resend_count`, `prev`, `cur`, `seq` (integers). A null header is
                a damaged message. Other columns come back in `DeliveryPoll.messages`.
            now: the time of `time_received`, a datetime with a time zone; the clock's, if absent.
            columns: name of a column as above -> its name in `messages`, where they differ.
            threads: threads to use; a stream is never shared by two.
            transaction: (application, number of the batch): a batch that comes again is known by
                it.
            on_replay: what becomes of streams that this very batch was about to apply when the
                process ended: `in_doubt`, or `rerun` (handed out again, if it ends where it ended
                before: for work that is idempotent for each batch).
            on_other_rows: what is done with a known number that comes with other messages: `error`
                (nothing is recorded), or `look_up` (each stream decides by its own row).

        Returns:
            DeliveryPoll: the decisions, the messages to apply, and the right to commit.

        Raises:
            SchemaError: [DH-SCHEMA] a column is missing or has the wrong type, or messages that are
                held have other columns.
            ConfigError: [DH-CONFIG] an argument makes no sense.
            StateError: [DH-STATE] an earlier poll is neither committed nor aborted; or the history
                is closed.
            FencedError: [DH-FENCED] another receiver has moved a stream since this delivery read
                it.
            TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
                number came with other messages.
            LockedError: [DH-LOCKED] another writer held the history's streams for longer than
                `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading, and something is to be
                recorded.
            FailedError: [DH-FAILED] an earlier write failed.
        """
    def status(self) -> pa.RecordBatch:
        """The streams and how they stand in this delivery.

        Returns:
            A pyarrow RecordBatch with a row for each stream: `stream` (utf8), `log_received`,
            `rereceive_count`, `confirm_received`, `receive_count` (uint64), `time_received`
            (timestamp[us, UTC]; null is never), `applying_upto` (uint64).

        Raises:
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def in_doubt(self) -> pa.RecordBatch:
        """Streams of which nobody knows how far they were applied before a crash. Everything up to
        `log_received` was applied, and nothing after `applying_upto`. Their messages are held until
        `settle`, or until the delivery is opened with `log_received`.

        Returns:
            A pyarrow RecordBatch with a row for each stream: `stream` (utf8), `log_received`,
            `applying_upto` (uint64: log offsets).

        Raises:
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def settle(self, stream: str, log_received: int) -> None:
        """Say how far a stream in doubt was applied: up to `log_received`, the end of a transaction.
        Durable on return.

        Args:
            stream: the stream.
            log_received: a log offset: the end of a transaction.

        Raises:
            RestoredError: [DH-RESTORED] it lies outside of what may have been applied.
            StateError: [DH-STATE] there is no such stream, or a poll is neither committed nor
                aborted.
            FencedError: [DH-FENCED] another receiver has moved the stream.
        """

@final
class DeliveryPoll:
    """What `GuaranteedDelivery.receive` decided about one poll.

    Apply `messages` in order, each transaction whole; then `commit()`; only then send
    `confirmations` and `resend_requests`. Nothing of a poll counts before it is committed.
    """

    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None:
        """Of a poll with `transaction`: `first`, `unfinished` (it was handed out before and not
        committed) or `finished`; else None.
        """
    @property
    def state(self) -> Literal["open", "committed", "aborted"]:
        """`open`, `committed` or `aborted`."""
    @property
    def decisions(self) -> _Columns:
        """A row for each message, in order: `decision` (CORRUPT, STALE, FUTURE, DUPLICATE, OVERLAP,
        CONFLICT, HOLD, PART, APPLY, UNKNOWN), `status` (NEW, DUPLICATE, IN_DOUBT, HELD), both
        dictionary<int8, utf8>; `transaction` (uint64: `prev`, which groups the parts; null if
        CORRUPT), `apply_rank` (uint32: place in the order of application within the stream; null if
        not applied), `reason` (dictionary<int8, utf8>: the rules that matched, in words). A pyarrow
        RecordBatch where one came in, else a Table.
        """
    @property
    def streams(self) -> pa.RecordBatch:
        """A row for each stream that had messages or waits for some: `stream` (utf8), `log_received`,
        `rereceive_count`, `confirm`, `resend_epoch`, `resend_from` (uint64), `patience` (uint32:
        polls left before a resend is requested; null if nothing is missing), `held`,
        `buffered_parts` (uint64: messages). `confirm`, `resend_epoch` and `resend_from` are null
        until the poll is committed. A pyarrow RecordBatch.
        """
    @property
    def released(self) -> pa.RecordBatch:
        """Messages of earlier polls that are applied now: `stream` (utf8), `prev`, `cur` (uint64: log
        offsets), `seq`, `apply_rank` (uint32). A pyarrow RecordBatch.
        """
    @property
    def messages(self) -> _Columns:
        """The messages to apply, in the order of application, stream by stream: their columns as they
        came in, those held until now included, and `dh_stream`; `dh_transaction` (uint64: the same
        for all parts of a transaction); `dh_commit` (uint64: the log offset that `log_received` has
        once this and its other parts are applied); `dh_apply_rank`. Every transaction is there with
        all its parts. A pyarrow RecordBatch where one came in, else a Table.

        Raises:
            StateError: [DH-STATE] a held message is released, and the delivery was opened with
                `keep_rows=False`.
        """
    @property
    def confirmations(self) -> pa.RecordBatch:
        """What to confirm to the publishers: `stream` (utf8), `confirm` (uint64: a log offset). A
        confirmation that gets lost comes again when the delivery is opened again, or with the next
        one. A pyarrow RecordBatch.

        Raises:
            StateError: [DH-STATE] the poll is not committed.
        """
    @property
    def resend_requests(self) -> pa.RecordBatch:
        """What to ask the publishers for: `stream` (utf8), `resend_epoch`, `resend_from` (uint64). A
        pyarrow RecordBatch.

        Raises:
            StateError: [DH-STATE] the poll is not committed.
        """
    def commit(self, log_received: _Offsets | None = None) -> None:
        """Everything in `messages` is applied. Durable on return; again changes nothing.

        Args:
            log_received: how far the caller has applied, where that is not all: a log offset, or a
                mapping of streams to log offsets; each that of a COMMIT of this poll, or where the
                stream stood before. A stream that was not applied whole goes back: a resend is
                requested from there.

        Raises:
            StateError: [DH-STATE] the poll was aborted, or such an offset lies outside of what it
                brings.
            FencedError: [DH-FENCED] another receiver has moved a stream since this poll was
                decided: nothing was recorded.
            LockedError: [DH-LOCKED] another writer held the history's streams for longer than
                `lock_timeout`.
        """
    def abort(self) -> None:
        """Certainly nothing of `messages` was applied: it is as if the poll had not been. Its messages
        have to be received again. Durable on return; again changes nothing.

        Raises:
            StateError: [DH-STATE] the poll was committed.
            FencedError: [DH-FENCED] another receiver has moved a stream since this poll was
                decided.
        """

@final
class DeliveryOutbox:
    """The sending side of guaranteed delivery: what one subscriber of a publisher's log was sent and
    has confirmed. `History.delivery_out` opens it. All changes are durable on return. One process
    sends to a subscriber at a time.
    """

    @property
    def subscriber(self) -> str:
        """Who subscribes."""
    @property
    def publisher(self) -> str:
        """Whose log is sent."""
    @property
    def log_sent(self) -> int:
        """Log offset of the last COMMIT that was sent: `build` goes on behind it."""
    @property
    def log_send(self) -> int:
        """Log offset of the last COMMIT that there is to send."""
    @property
    def confirm_sent(self) -> int:
        """Log offset that the subscriber has confirmed."""
    @property
    def resend_count(self) -> int:
        """The epoch: how often the subscriber asked for a resend."""
    @property
    def send_count(self) -> int:
        """How many messages were sent, each part counting as one."""
    def build(
        self,
        transactions: _Arrow | Iterable[int],
        *,
        per_message: int = 1,
        max_messages: int | None = None,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch:
        """Build the messages for the transactions after `log_sent`, and note them as sent, durable on
        return: send them after that. A message that gets lost on the way, even here, is asked for
        again.

        Args:
            transactions: those that there are to send, in the order of the log: a table with the
                columns `offset` (integer: log offset of the COMMIT) and optionally `parts`
                (integer: messages that it takes; it must depend on the transaction only); or the
                offsets alone, as an Arrow array or any iterable. Those up to `log_sent` are passed
                over.
            per_message: at most this number of transactions that take one message go into one
                together.
            max_messages: stop before the transaction that would make it more than this number of
                messages; the rest is built by the next call. One transaction is always built whole.
            now: the time of `time_sent`, a datetime with a time zone; the clock's, if absent.

        Returns:
            The messages in order, a pyarrow RecordBatch: `header` (utf8), `resend_count`, `prev`,
            `cur` (uint64), `seq` (uint32), `first` (uint32: number of the first of `transactions`
            that it carries), `count` (uint32: how many; a part carries its share of one).

        Raises:
            SchemaError: [DH-SCHEMA] the offsets do not rise, or are no integers.
            FencedError: [DH-FENCED] another sender has moved the stream.
            StateError: [DH-STATE] the history is closed.
        """
    def on_confirmation(self, offset: int) -> bool:
        """The subscriber says that it has everything up to `offset`. Durable on return.

        Args:
            offset: a log offset: the `confirm` of the confirmation.

        Returns:
            bool: whether that is news.

        Raises:
            RestoredError: [DH-RESTORED] that was never sent: this side was restored to an older
                state.
            FencedError: [DH-FENCED] another sender has moved the stream.
        """
    def on_resend_request(self, epoch: int, offset: int, *, log_start: int | None = None) -> bool:
        """The subscriber asks for everything after `offset`, under `epoch`. If that is news, drop what
        was built and not sent, and build what comes after `log_sent`. Durable on return.

        Args:
            epoch: the `resend_epoch` of the request.
            offset: its `resend_from`.
            log_start: the oldest offset that the log still has; if absent, it is taken to be
                truncated as far as it may be.

        Returns:
            bool: whether that is news.

        Raises:
            TruncatedError: [DH-TRUNCATED] the log does not reach back so far: extract the
                subscription again.
            RestoredError: [DH-RESTORED] that was never sent: this side was restored to an older
                state.
            FencedError: [DH-FENCED] another sender has moved the stream.
        """
    def truncation_point(self) -> int:
        """Up to here the publisher's log may be truncated: all of its subscribers have confirmed it.

        Returns:
            int: a log offset.

        Raises:
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
            StateError: [DH-STATE] the history is closed.
            ForkedError: [DH-FORKED] it was opened before this process was forked off.
        """
    def remove(self) -> None:
        """The subscriber leaves: nothing is kept for it any more, and the log need not be.

        Raises:
            FencedError: [DH-FENCED] another sender has moved the stream.
        """

@final
class Shards:
    """What many processes do on one history together, as `dochistory.spark` and the command line use
    it. Not public: it may change with any version.

    A job (`reserve`) is work divided among tasks; they stage its parts (`stage`, `stage_entries`),
    and one process publishes them (`Job.commit`, `commit_entries`). A poll of guaranteed delivery
    is divided by `plan_delivery`, decided in shards by `decide_delivery`, and put together by
    `merge_delivery`.
    """

    def reserve(
        self,
        trigger: Trigger,
        parts: int = 1,
        *,
        reads: bool = True,
        routed: bool = False,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "resolver", "rerun"] = "in_doubt",
        on_other_rows: _OtherRows = "error",
        receipts: Sequence[bytes] | None = None,
        now: dt.datetime | None = None,
        prove_later: bool = False,
    ) -> Job:
        """Reserve numbers for work that is divided among tasks, and pin what they read. Nothing of it
        shows in the history.

        Args:
            trigger: whose documents they are.
            parts: parts that the work is divided into.
            reads: whether the tasks classify (`stage`); False for jobs that only load entries
                (`stage_entries`).
            routed: whether part p holds exactly the documents whose key has `pmod(xxhash64(key),
                parts) == p` in Spark; any other row is then an error, as copies of an id would not
                meet.
            transaction: (application, number of the batch): a batch that comes again is known by
                it.
            on_replay: as in `History.begin`.
            on_other_rows: as in `History.begin`.
            receipts: those of an attempt at the same batch that met a `ConflictError`: they say
                which rows it has. Without them a number that is known counts as the same batch,
                until the commit compares.
            now: the time at which the services begin, a datetime with a time zone; the clock's, if
                absent.
            prove_later: return before a bucket has said that the reservation counts; `Job.prove`
                asks.

        Raises:
            TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
                number came with other rows.
            ConfigError: [DH-CONFIG] an argument makes no sense, or the trigger uses no history.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
            ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
        """
    def job(self, token: str, trigger: Trigger) -> Job:
        """A job that was reserved elsewhere.

        Args:
            token: its `token`.
            trigger: whose documents it is about.

        Raises:
            ConfigError: [DH-CONFIG] the text is no job's token, or the job is another trigger's.
        """
    def stage(
        self,
        documents: _Arrow,
        trigger: Trigger,
        *,
        job: str,
        part: int,
        attempt: str,
        columns: Mapping[str, str] | None = None,
        threads: int = 1,
    ) -> Staged:
        """Decide all documents of one part of a job by its snapshot, and stage `processing` for those
        to process: durable on return, and not part of the history until the job is committed. The
        same rows in the same order get the same verdicts, however often they are staged.

        The history has to be opened with the job's snapshot; that handle writes nothing else.

        Args:
            documents: all documents of the part, in order of arrival.
            trigger: whose documents they are.
            job: the job's `token`.
            part: number of the part, from 0.
            attempt: a name that no other attempt at this job has: letters, digits and hyphens.
            columns: the trigger's name of a column -> its name in `documents`, where they differ.
            threads: threads to use for large parts.

        Raises:
            SchemaError: [DH-SCHEMA] a column is missing or has the wrong type, or a row belongs to
                another part.
            ConfigError: [DH-CONFIG] an argument makes no sense, or the history was not opened with
                the job's snapshot.
            StorageError: [DH-IO] the operating system refused a file operation.
            CorruptError: [DH-CORRUPT] a file of the history is damaged.
        """
    def stage_entries(
        self,
        documents: _Arrow,
        trigger: Trigger,
        *,
        job: str,
        part: int,
        attempt: str,
        columns: Mapping[str, str] | None = None,
        now: dt.datetime | None = None,
    ) -> bytes:
        """Stage entries of one part of a job: durable on return, and not part of the history until
        `commit_entries`.

        Args:
            documents: as in `History.load`.
            trigger: whose documents they are.
            job: the `token` of a job that was reserved with `reads=False`.
            part: number of the part, from 0.
            attempt: a name that no other attempt at this job has: letters, digits and hyphens.
            columns: other names of the trigger's columns, `started_at` and `status`: role -> name.
            now: `started_at` of entries that have none, a datetime with a time zone; the job's
                `started_at`, if absent.

        Returns:
            The receipt, to hand to the committing driver.

        Raises:
            SchemaError: [DH-SCHEMA] a column has the wrong type, or a row has no key or one of more
                than 96 characters.
            ConfigError: [DH-CONFIG] an argument makes no sense.
            StorageError: [DH-IO] the operating system refused a file operation.
        """
    def commit_entries(
        self,
        receipts: Sequence[bytes],
        trigger: Trigger,
        *,
        transaction: tuple[str, int] | None = None,
        on_other_rows: _OtherRows = "error",
    ) -> int:
        """Publish entries that tasks staged, of one job or of several, in one manifest. Durable on
        return.

        Args:
            receipts: what `stage_entries` answered.
            trigger: whose documents they are.
            transaction: (application, number of the batch): one that was committed before publishes
                nothing again.
            on_other_rows: what is done with a known number that comes with other rows: `error`
                (nothing is published), or `look_up` (they are published, too: an entry may be
                recorded twice without harm).

        Returns:
            The number of entries published.

        Raises:
            TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
                number came with other rows.
            StateError: [DH-STATE] a job was committed or given up before.
            ConfigError: [DH-CONFIG] a receipt is another trigger's, or a part is there twice.
            LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
        """
    def abort_entries(self, receipts: Sequence[bytes]) -> None:
        """Give the jobs of these receipts up: their files go, except those that were committed.

        Args:
            receipts: what `stage_entries` answered.
        """
    @staticmethod
    def plan_delivery(
        delivery: GuaranteedDelivery,
        *,
        now: dt.datetime | None = None,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "rerun"] = "in_doubt",
        on_other_rows: _OtherRows = "error",
    ) -> bytes:
        """staticmethod(function) -> method

        Convert a function to be a static method.

        A static method does not receive an implicit first argument.
        To declare a static method, use this idiom:

             class C:
                 @staticmethod
                 def f(arg1, arg2, argN):
                     ...

        It can be called either on the class (e.g. C.f()) or on an instance
        (e.g. C().f()). Both the class and the instance are ignored, and
        neither is passed implicitly as the first argument to the method.

        Static methods in Python are similar to those found in Java or C++.
        For a more advanced concept, see the classmethod builtin.
        """
    def decide_delivery(
        self,
        plan: bytes,
        messages: _Arrow,
        *,
        kept: int = 0,
        columns: Mapping[str, str] | None = None,
        stream: str | None = None,
    ) -> tuple[pa.RecordBatch, bytes]:
        """Decide some streams of a poll for the process that made the plan: all messages that it
        brought of these streams. Reads the streams' rows in this history, which may be open for
        reading, and changes nothing. Nothing counts before `merge_delivery` was given the receipt;
        an answer that is thrown away has never been.

        Args:
            plan: from `plan_delivery`.
            messages: the messages, in order of arrival, in the columns that
                `GuaranteedDelivery.receive` takes.
            kept: the first `kept` rows are messages of earlier polls, handed in again because
                `keep` said so.
            columns: name of a column -> its name in `messages`, where they differ.
            stream: whose messages they are, if there is no column that says so.

        Returns:
            A row for each message: the columns of `DeliveryPoll.decisions`, `commit` (uint64: the
            log offset that `log_received` has once this and its other parts are applied; null if
            not applied) and `keep` (hand it in again with the next poll, if this one is committed).
            And the receipt.

        Raises:
            SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
            StateError: [DH-STATE] the plan is of another version; or not all that was kept was
                handed in.
        """
    @staticmethod
    def merge_delivery(
        delivery: GuaranteedDelivery,
        plan: bytes,
        receipts: Sequence[bytes],
        *,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "rerun"] = "in_doubt",
        on_other_rows: _OtherRows = "error",
    ) -> DeliveryPoll:
        """staticmethod(function) -> method

        Convert a function to be a static method.

        A static method does not receive an implicit first argument.
        To declare a static method, use this idiom:

             class C:
                 @staticmethod
                 def f(arg1, arg2, argN):
                     ...

        It can be called either on the class (e.g. C.f()) or on an instance
        (e.g. C().f()). Both the class and the instance are ignored, and
        neither is passed implicitly as the first argument to the method.

        Static methods in Python are similar to those found in Java or C++.
        For a more advanced concept, see the classmethod builtin.
        """
    def maintain_values(
        self,
        *,
        all: bool = False,
        progress: Callable[[int, int], object] | bool | None = None,
        grace: _Duration | None = None,
    ) -> dict[str, _Maintained]:
        """`History.maintain` of the mappers and of guaranteed delivery alone.

        Args:
            all: go as far as it goes, rather than as far as it pays; wait for maintenance that runs
                already. Without it, nothing is done where some is under way.
            progress: called with (entries done, entries in all) from time to time; what it raises
                stops the work, which does no harm.
            grace: as of `History.maintain`.

        Returns:
            As `History.maintain`.

        Raises:
            As `History.maintain`.
        """
    def verify_values(self, *, progress: Callable[[int, int], object] | bool | None = None) -> int:
        """`History.verify` of the files of mappers and of guaranteed delivery alone.

        Args:
            progress: called with (bytes done, bytes in all) from time to time; what it raises stops
                the work.

        Returns:
            int: the number of bytes checked.

        Raises:
            CorruptError: [DH-CORRUPT] a byte is not what was written.
        """

def count_verdicts(verdicts: _Arrow) -> list[tuple[str | None, str, str, int]]:
    """Count verdicts by status, action and rule.

    Args:
        verdicts: what `classify` answered, or `claim.verdicts`; or a table with columns of these
            names.

    Returns:
        (status or None, action, rule, number of rows) for each that occurs, sorted.

    Raises:
        SchemaError: [DH-SCHEMA] a column is missing, or is no text.
    """

def local_path(path: str | os.PathLike[str]) -> Path:
    """The directory that a path or a `file:` URL names, as an absolute path that outlives a change of
    the working directory.

    Args:
        path: a path, or a URL such as `file:///data/orders.history`.

    Returns:
        pathlib.Path: the directory, absolute.

    Raises:
        OpenError: [DH-OPEN] the URL is of another kind (`s3a://`, `hdfs://`, `dbfs:/`), or names
            another machine.
        ConfigError: [DH-CONFIG] this is no path.
    """

def _seconds(setting: str, value: _Duration) -> float:
    """A duration in seconds.

    Args:
        setting: what an error calls it.
        value: text ("30 days", "PT2H"), a timedelta, or a number of seconds.

    Returns:
        float: the seconds.

    Raises:
        ConfigError: [DH-CONFIG] it is no duration.
    """

def _copy_from_bucket(
    url: str, directory: str | os.PathLike[str], storage_options: Mapping[str, object] | None = None
) -> list[str]:
    """Copy a history in a bucket into a new directory. Not public: `dochistory backup` uses it.

    Args:
        url: the history.
        directory: where the copy is made. Nothing is synced.
        storage_options: as for `open`.

    Returns:
        list of str: the triggers that were copied.
    """

def _copy_to_bucket(
    directory: str | os.PathLike[str], url: str, storage_options: Mapping[str, object] | None = None
) -> None:
    """Copy a history in a directory, to which nobody else writes, to a URL where nothing is but the
    copy of its audit log. Not public: `dochistory backup` uses it, and checks the store before.

    Args:
        directory: the history; its log is put into segments.
        url: where the copy is made.
        storage_options: as for `open`.
    """

def _open_described(
    client: object,
    trigger: str,
    snapshot: str,
    name: str,
    described: tuple[bytes, bytes],
    cache: str | os.PathLike[str] | None = None,
) -> History:
    """Open a pinned state of a history in a bucket for reading, and fetch its files. Not public:
    Spark's workers use it. The pin itself is not asked for, so the caller has to see that it is
    there, and the same.

    Args:
        client: the client of the history's place.
        trigger: the name of the trigger whose state it is.
        snapshot: what `pin` answered.
        name: the name of the pin's object.
        described: what `History._described` said where the state was pinned.
        cache: as for `open`.

    Returns:
        History: the open history.

    Raises:
        OpenError: [DH-OPEN] the pin was removed, and its files with it.
        CorruptError: [DH-CORRUPT] what was said of it is damaged.
        StorageError: [DH-IO] the operating system refused a file operation.
        ObjectStoreError: [DH-OBJECTS], …: the bucket cannot be used.
    """

def _is_there(path: str) -> bool:
    """Whether there is a file of this name. Other threads of Python wait meanwhile: for files of this
    machine that each document asks for: to let others in would cost more than the answer.
    """

def _log_extent(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Where the frames of a log file end, and its length, in bytes; none if there is no such file."""

def _close() -> None:
    """Before the interpreter ends: let the calls under way come out of Python, and nobody in again."""

def open(  # noqa: A001 - always said as dochistory.open
    path: str | os.PathLike[str],
    create: bool = False,
    read_only: bool = False,
    lock_timeout: _Duration = "30 s",
    snapshot: str | None = None,
    shards: int = 64,
    *,
    auto_maintain: bool = True,
    storage_options: Mapping[str, object] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes: int | None = None,
) -> History:
    """Open the history in a directory, or in a bucket.

    Args:
        path: the directory; a relative path is made absolute now. Or the URL of a bucket
            (`s3://bucket/orders.history`, `gs://`, `az://`, `abfss://`).
        create: make the history if there is none.
        read_only: never write, and need no right to write.
        lock_timeout: how long to wait for another writer's operation: text ("30 s"), a timedelta,
            or seconds.
        snapshot: what `History.pin` answered: see that state, and never another.
        shards: number of key ranges that Spark may divide a new history's work into; a power of two
            up to 65,536. A history that exists keeps its own.
        auto_maintain: put small files together, in a thread of its own, when `begin` has made many.
        storage_options: credentials, region, endpoint and the like of a bucket, by the names of
            delta-rs and Polars; what is absent comes from the environment, or the machine's role.
        cache: a directory on a local disk, where the processes of a machine keep the files that
            they fetched from the bucket, and this handle its copy of the rest; if absent, nothing
            is kept, and the copy is where the system keeps temporary files.
        cache_bytes: how many bytes of files are kept that no open handle uses; 16 GiB, if absent.

    Returns:
        History: the open history; leaving a `with` block closes it.

    Raises:
        OpenError: [DH-OPEN] there is no history and `create` is not set, or the directory holds
            other files.
        CorruptError: [DH-CORRUPT] the history's identity file is damaged.
        StorageError: [DH-IO] the operating system refused a file operation.
        FencedError: [DH-FENCED] the file system gives a lock to two at a time, so several writers
            would not exclude each other.
        ConfigError: [DH-CONFIG] an argument makes no sense.
        ObjectStoreError: [DH-OBJECTS], [DH-BUCKET], …: the bucket cannot be used; [DH-STORE] a
            store on which a history would be made does not keep what it rests on.
    """

def read_receipt(receipt: bytes) -> _Receipt:
    """What a receipt says of its part.

    Args:
        receipt: the `receipt` of a staged part, or what `stage_entries` answered.

    Returns:
        `part`, `attempt`, `rows`, `entries`, `bytes`, and the rows by `rule`, `status` (without
        those that have none) and `action`.

    Raises:
        ConfigError: [DH-CONFIG] these bytes are no receipt.
    """

def repair(
    path: str | os.PathLike[str],
    trigger: Trigger | str | None = None,
    *,
    apply: bool = False,
    lock_timeout: _Duration = "30 s",
    progress: Callable[[int, int], object] | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> _Repaired:
    """Say what is damaged in a history and what a repair would drop; with `apply`, repair it.

    What can be read stays: entries on undamaged pages of a segment, whole frames of the log.
    Filters are rebuilt without loss. Every file that goes out of use is kept in a directory
    `repaired-<time>` within the history, so that a repair can be undone by hand. Ids that are
    dropped are new when they come again.

    Args:
        path: the directory, or the URL of a bucket.
        trigger: this trigger, or its name, only; needed where a damaged file has taken the name
            with it.
        apply: repair. Otherwise nothing is written, and the right to write is not needed.
        lock_timeout: how long to wait for another writer's operation: text ("30 s"), a timedelta,
            or seconds.
        progress: called with (files looked at, files in all) of a trigger from time to time; what
            it raises stops the work.
        storage_options: as for `open`.

    Returns:
        `repaired`: whether it was repaired; `kept_in`: the directory of the files that went out of
        use, or None; `findings`: a list with, for each damaged place, `trigger`, `mapper` or
        `delivery` (whose it is, the others None; all None: it concerns all; of guaranteed delivery
        "received" or "sent"), `file`, `byte`, `reason`, `remedy` ("rebuilt": nothing is lost but
        what `reopened_entries` says; "salvaged": what can be read is kept; "dropped";
        "impossible"), `dropped_entries` and `reopened_entries` (entries whose end is forgotten;
        numbers at most, None: nothing tells), `dropped_at_least` (how many of the dropped ones are
        certain), `exact` (whether `dropped_entries` is exact), `first_started_at` and
        `last_started_at` (datetimes between which the dropped entries' services began, or None),
        `first_kept_until` and `last_kept_until` (of a map's entries; None: forever, or unknown),
        `returned_entries` (of a map: entries that count as they were before, as a later one is
        lost; numbers at most), `ids` (of a map: which ids were dropped or went back, as far as they
        can be read, up to 1,000; streams that are received are then in doubt), `bytes` (that cannot
        be read), `meaning`.

    Raises:
        OpenError: [DH-OPEN] there is no history, or one of a newer format.
        LockedError: [DH-LOCKED] another writer held a trigger for longer than `lock_timeout`.
        StorageError: [DH-IO] the operating system refused a file operation.
    """

def verdict_words() -> pa.RecordBatch:
    """What the codes of `History.classify_codes` mean: row n is code n. Codes may mean something else
    in another version: do not store them.

    Returns:
        A pyarrow RecordBatch, all utf8: `status` (null when suspended or rejected), `action`,
        `acknowledge`, `rule` and `message` (null for what is NEW).

    Raises:
        Nothing.
    """
