# The engine of dochistory, for Python. Use it through the package `dochistory`, where its functions are documented.
import datetime as dt
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, final, type_check_only

import pyarrow as pa

from dochistory.audit import AuditLog

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
_Resolver: TypeAlias = Callable[[pa.RecordBatch], Any]

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
    bytes: int
    segments: int

@type_check_only
class _PurgedValues(TypedDict):
    entries: int
    bytes: int
    files: int

@type_check_only
class _Maintained(TypedDict):
    merged: tuple[int, int]
    rewritten: int
    rolled_up: int

@type_check_only
class _Pin(TypedDict):
    snapshot: str
    pinned_at: dt.datetime
    ends_at: dt.datetime
    process: int
    manifest: int

class DocHistoryError(Exception): ...
class StorageError(DocHistoryError): ...
class CorruptError(DocHistoryError): ...
class LockedError(DocHistoryError): ...
class DescriptorsError(DocHistoryError): ...
class FencedError(DocHistoryError): ...
class FailedError(DocHistoryError): ...
class ReadOnlyError(DocHistoryError): ...
class OpenError(DocHistoryError): ...
class SchemaError(DocHistoryError): ...
class ConfigError(DocHistoryError): ...
class TransactionError(DocHistoryError): ...
class ConflictError(TransactionError): ...
class StateError(DocHistoryError): ...
class ForkedError(DocHistoryError): ...
class ClusterError(DocHistoryError): ...
class RestoredError(DocHistoryError): ...
class TruncatedError(DocHistoryError): ...
class TransientError(Exception): ...

@final
class Trigger:
    def __new__(
        cls,
        name: str,
        *,
        kind: _Kind = "messaging",
        detect_duplicates: bool = False,
        use_history: bool = False,
        history_time_to_live: _Duration = "2 hours",
        resolver: _Resolver | None = None,
        processing_mode: _Mode = "concurrent",
        suspend_and_retry_on_error: bool = True,
        suspend_on_failure: bool = False,
        max_delivery_count: int = 100,
        in_batch: _InBatch | None = None,
        expiry: _Expiry = "until_purged",
        resolver_attempts: int = 3,
        resolver_backoff: _Duration = "100 ms",
    ) -> Trigger: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> _Kind: ...
    @property
    def detect_duplicates(self) -> bool: ...
    @property
    def use_history(self) -> bool: ...
    @property
    def history_time_to_live(self) -> dt.timedelta: ...
    @property
    def resolver(self) -> _Resolver | None: ...
    @property
    def processing_mode(self) -> _Mode: ...
    @property
    def suspend_and_retry_on_error(self) -> bool: ...
    @property
    def suspend_on_failure(self) -> bool: ...
    @property
    def max_delivery_count(self) -> int: ...
    @property
    def in_batch(self) -> _InBatch | None: ...
    @property
    def expiry(self) -> _Expiry: ...
    @property
    def resolver_attempts(self) -> int: ...
    @property
    def resolver_backoff(self) -> dt.timedelta: ...
    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Claim:
    @property
    def id(self) -> int | None: ...
    @property
    def started_at(self) -> dt.datetime: ...
    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None: ...
    @property
    def verdicts(self) -> Any: ...
    @property
    def new(self) -> Any: ...
    @property
    def rows(self) -> pa.UInt32Array: ...
    @property
    def released_rows(self) -> list[int]: ...
    def complete(self, rows: Iterable[int] | _Arrow | None = None) -> None: ...
    def release(self, rows: Iterable[int] | _Arrow | None = None) -> None: ...
    def __enter__(self) -> Claim: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def _repr_html_(self) -> str: ...

@final
class DocumentClaim:
    @property
    def status(self) -> _Status | None: ...
    @property
    def action(self) -> Literal["PROCESS", "DISCARD", "LOG", "SUSPEND", "REJECT"]: ...
    @property
    def acknowledge(self) -> Literal["AFTER_SERVICE", "NOW", "NO"]: ...
    @property
    def rule(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def message(self) -> str | None: ...
    def complete(self) -> None: ...
    def release(self) -> None: ...
    def __enter__(self) -> DocumentClaim: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class MapperSend:
    @property
    def verdicts(self) -> Any: ...
    @property
    def new(self) -> Any: ...
    @property
    def rows(self) -> list[int]: ...
    @property
    def audit(self) -> pa.RecordBatch: ...
    @property
    def id(self) -> int | None: ...
    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None: ...
    def complete(
        self,
        external_ids: _Ids | None = None,
        *,
        rows: Iterable[int] | _Arrow | None = None,
        persist_until: _Until | None = None,
        now: dt.datetime | None = None,
    ) -> None: ...
    def abort(self, rows: Iterable[int] | _Arrow | None = None, *, definite: bool = False) -> None: ...
    def raise_pending(self) -> None: ...

@final
class MapperTaken:
    @property
    def verdicts(self) -> Any: ...
    @property
    def new(self) -> Any: ...
    @property
    def rows(self) -> list[int]: ...
    @property
    def audit(self) -> pa.RecordBatch: ...
    def fail(self, rows: Iterable[int] | _Arrow) -> None: ...

@final
class UnitOfWork:
    def take(
        self,
        messages: _Arrow,
        *,
        columns: Mapping[str, str] | None = None,
        qos: _Qos = "EO",
        persist_until: _Until | None = None,
        now: dt.datetime | None = None,
    ) -> MapperTaken: ...
    def create(
        self,
        ids: _Ids,
        external_ids: _Ids | None = None,
        persist_until: _Until | None = None,
        *,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch: ...
    def update(
        self,
        ids: _Ids,
        external_ids: _Ids | None = None,
        persist_until: _Until | None = None,
        *,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch: ...
    def remove(self, ids: _Ids, *, now: dt.datetime | None = None) -> pa.RecordBatch: ...
    def commit(self, *, now: dt.datetime | None = None) -> int: ...
    def roll_back(self) -> None: ...
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
    @property
    def name(self) -> str: ...
    @property
    def policy(self) -> _Pending: ...
    def lookup(self, ids: _Ids, *, now: dt.datetime | None = None) -> pa.RecordBatch: ...
    def create(
        self,
        ids: _Ids,
        external_ids: _Ids | None = None,
        persist_until: _Until | None = None,
        transactional: bool = False,
        *,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch: ...
    def update(
        self,
        ids: _Ids,
        external_ids: _Ids | None = None,
        persist_until: _Until | None = None,
        transactional: bool = False,
        *,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch: ...
    def remove(self, ids: _Ids, transactional: bool = False, *, now: dt.datetime | None = None) -> pa.RecordBatch: ...
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
    ) -> MapperSend: ...
    def unit_of_work(self) -> UnitOfWork: ...
    def resolve(self, ids: _Ids, decision: _Pending) -> pa.RecordBatch: ...
    def pending(self) -> pa.RecordBatchReader: ...
    def entries(self, *, now: dt.datetime | None = None) -> pa.RecordBatchReader: ...
    def purge(
        self, now: dt.datetime | None = None, include_pending: bool = False, dry_run: bool = False
    ) -> _PurgedValues: ...
    def maintain(self, *, all: bool = False) -> None: ...  # noqa: A002 - a setting's name
    def verify(self) -> int: ...
    def stats(self) -> dict[str, Any]: ...

@final
class Job:
    @property
    def token(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def snapshot(self) -> str | None: ...
    @property
    def claim(self) -> int: ...
    @property
    def started_at(self) -> dt.datetime: ...
    @property
    def parts(self) -> int: ...
    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None: ...
    def commit(self, receipts: Sequence[bytes], *, most_lost: int | None = ...) -> StagedClaim: ...
    def abort(self) -> None: ...

@final
class Staged:
    @property
    def verdicts(self) -> Any: ...
    @property
    def receipt(self) -> bytes: ...

@final
class StagedClaim:
    @property
    def id(self) -> int | None: ...
    @property
    def started_at(self) -> dt.datetime: ...
    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None: ...
    @property
    def lost(self) -> list[str]: ...
    def decide_lost(self, documents: _Arrow, *, columns: Mapping[str, str] | None = None, threads: int = 1) -> Any: ...
    def __len__(self) -> int: ...
    def complete(self, keys: Iterable[str | None] | _Arrow | None = None) -> None: ...
    def release(self, keys: Iterable[str | None] | _Arrow | None = None) -> None: ...
    def __enter__(self) -> StagedClaim: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class History:
    @property
    def path(self) -> Path: ...
    @property
    def id(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    @property
    def shards(self) -> int: ...
    @property
    def _shards(self) -> Shards: ...
    @property
    def audit(self) -> AuditLog: ...
    def transaction(
        self, trigger: Trigger | str, application: str
    ) -> tuple[int, Literal["begun", "completed", "released"]] | None: ...
    def classify(
        self,
        documents: _Arrow,
        trigger: Trigger,
        *,
        now: dt.datetime | None = None,
        columns: Mapping[str, str] | None = None,
        threads: int = 1,
    ) -> Any: ...
    def classify_codes(
        self,
        documents: _Arrow,
        trigger: Trigger,
        *,
        now: dt.datetime | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> pa.Array: ...
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
    ) -> Claim: ...
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
    ) -> DocumentClaim: ...
    def complete(
        self, keys: Iterable[str | None] | _Arrow, trigger: Trigger, *, now: dt.datetime | None = None
    ) -> _Finished: ...
    def release(
        self, keys: Iterable[str | None] | _Arrow, trigger: Trigger, *, now: dt.datetime | None = None
    ) -> _Finished: ...
    def entries(
        self,
        trigger: Trigger | str,
        status: Literal["processing", "completed"] | None = None,
        *,
        since: dt.datetime | None = None,
        before: dt.datetime | None = None,
        part: tuple[int, int] = ...,
        keys: _Ids | None = None,
    ) -> pa.RecordBatchReader: ...
    def triggers(self) -> list[str]: ...
    def purge(
        self,
        trigger: Trigger | str | None = None,
        now: dt.datetime | None = None,
        dry_run: bool = False,
        *,
        force: bool = False,
    ) -> dict[str, _Purged]: ...
    def change(self, trigger: Trigger) -> dt.timedelta: ...
    def maintain(
        self,
        trigger: Trigger | str | None = None,
        *,
        all: bool = False,  # noqa: A002 - a setting's name
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> dict[str, _Maintained]: ...
    def load(
        self,
        documents: _Arrow | Iterable[_Arrow],
        trigger: Trigger,
        *,
        columns: Mapping[str, str] | None = None,
        now: dt.datetime | None = None,
        progress: Callable[[int], object] | bool | None = None,
    ) -> int: ...
    def verify(
        self, trigger: Trigger | str | None = None, *, progress: Callable[[int, int], object] | bool | None = None
    ) -> int: ...
    def stats(self, trigger: Trigger | str | None = None) -> dict[str, Any]: ...
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
    ) -> GuaranteedDelivery: ...
    def delivery_out(self, subscriber: str, *, publisher: str = "", start: int | None = None) -> DeliveryOutbox: ...
    def delivery_status(self) -> pa.RecordBatch: ...
    def mapper(
        self,
        channel: str,
        *,
        pending: _Pending = "error",
        mirror: bool = False,
        expiry: _Expiry = "until_purged",
        persist: _Duration | None = None,
    ) -> MessageIdMapper: ...
    def mappers(self) -> list[str]: ...
    def pin(self, trigger: Trigger | str, *, lease: _Duration | None = None) -> str: ...
    def pins(self, trigger: Trigger | str) -> list[_Pin]: ...
    def unpin(self, trigger: Trigger | str, snapshot: str) -> None: ...
    def close(self) -> None: ...
    def _repr_html_(self) -> str: ...
    def __enter__(self) -> History: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class GuaranteedDelivery:
    @property
    def stream(self) -> str | None: ...
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
    ) -> DeliveryPoll: ...
    def status(self) -> pa.RecordBatch: ...
    def in_doubt(self) -> pa.RecordBatch: ...
    def settle(self, stream: str, log_received: int) -> None: ...

@final
class DeliveryPoll:
    @property
    def replay(self) -> Literal["first", "unfinished", "finished"] | None: ...
    @property
    def state(self) -> Literal["open", "committed", "aborted"]: ...
    @property
    def decisions(self) -> Any: ...
    @property
    def streams(self) -> pa.RecordBatch: ...
    @property
    def released(self) -> pa.RecordBatch: ...
    @property
    def messages(self) -> Any: ...
    @property
    def confirmations(self) -> pa.RecordBatch: ...
    @property
    def resend_requests(self) -> pa.RecordBatch: ...
    def commit(self, log_received: _Offsets | None = None) -> None: ...
    def abort(self) -> None: ...

@final
class DeliveryOutbox:
    @property
    def subscriber(self) -> str: ...
    @property
    def publisher(self) -> str: ...
    @property
    def log_sent(self) -> int: ...
    @property
    def log_send(self) -> int: ...
    @property
    def confirm_sent(self) -> int: ...
    @property
    def resend_count(self) -> int: ...
    @property
    def send_count(self) -> int: ...
    def build(
        self,
        transactions: _Arrow | Iterable[int],
        *,
        per_message: int = 1,
        max_messages: int | None = None,
        now: dt.datetime | None = None,
    ) -> pa.RecordBatch: ...
    def on_confirmation(self, offset: int) -> bool: ...
    def on_resend_request(self, epoch: int, offset: int, *, log_start: int | None = None) -> bool: ...
    def truncation_point(self) -> int: ...
    def remove(self) -> None: ...

@final
class Shards:
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
    ) -> Job: ...
    def job(self, token: str, trigger: Trigger) -> Job: ...
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
    ) -> Staged: ...
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
    ) -> bytes: ...
    def commit_entries(
        self,
        receipts: Sequence[bytes],
        trigger: Trigger,
        *,
        transaction: tuple[str, int] | None = None,
        on_other_rows: _OtherRows = "error",
    ) -> int: ...
    def abort_entries(self, receipts: Sequence[bytes]) -> None: ...
    @staticmethod
    def plan_delivery(
        delivery: GuaranteedDelivery,
        *,
        now: dt.datetime | None = None,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "rerun"] = "in_doubt",
        on_other_rows: _OtherRows = "error",
    ) -> bytes: ...
    def decide_delivery(
        self,
        plan: bytes,
        messages: _Arrow,
        *,
        kept: int = 0,
        columns: Mapping[str, str] | None = None,
        stream: str | None = None,
    ) -> tuple[pa.RecordBatch, bytes]: ...
    @staticmethod
    def merge_delivery(
        delivery: GuaranteedDelivery,
        plan: bytes,
        receipts: Sequence[bytes],
        *,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "rerun"] = "in_doubt",
        on_other_rows: _OtherRows = "error",
    ) -> DeliveryPoll: ...
    def maintain_values(
        self,
        *,
        all: bool = False,  # noqa: A002 - a setting's name
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> dict[str, _Maintained]: ...
    def verify_values(self, *, progress: Callable[[int, int], object] | bool | None = None) -> int: ...

def count_verdicts(verdicts: _Arrow) -> list[tuple[str | None, str, str, int]]: ...
def local_path(path: str | os.PathLike[str]) -> Path: ...
def _close() -> None: ...
def open(  # noqa: A001 - always said as dochistory.open
    path: str | os.PathLike[str],
    create: bool = False,
    read_only: bool = False,
    lock_timeout: _Duration = "30 s",
    snapshot: str | None = None,
    shards: int = 64,
    *,
    auto_maintain: bool = True,
) -> History: ...
def read_receipt(receipt: bytes) -> dict[str, Any]: ...
def repair(
    path: str | os.PathLike[str],
    trigger: Trigger | str | None = None,
    *,
    apply: bool = False,
    lock_timeout: _Duration = "30 s",
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]: ...
def verdict_words() -> pa.RecordBatch: ...
