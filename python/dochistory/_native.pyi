# The engine of dochistory, for Python. Use it through the package `dochistory`, where its functions are documented.
import datetime as dt
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, final, type_check_only

import pyarrow as pa

__all__ = [
    "Claim",
    "ConfigError",
    "ConflictError",
    "CorruptError",
    "DocHistoryError",
    "DocumentClaim",
    "FailedError",
    "FencedError",
    "ForkedError",
    "History",
    "Job",
    "LockedError",
    "OpenError",
    "ReadOnlyError",
    "SchemaError",
    "Staged",
    "StagedClaim",
    "StateError",
    "StorageError",
    "TransactionError",
    "TransientError",
    "Trigger",
    "__version__",
    "open",
    "read_receipt",
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
_Expiry: TypeAlias = Literal["until_purged", "exact"]
_Status: TypeAlias = Literal["NEW", "DUPLICATE", "IN_DOUBT"]
_Resolver: TypeAlias = Callable[[pa.RecordBatch], Any]

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
class _Maintained(TypedDict):
    merged: tuple[int, int]
    rewritten: int
    rolled_up: int

class DocHistoryError(Exception): ...
class StorageError(DocHistoryError): ...
class CorruptError(DocHistoryError): ...
class LockedError(DocHistoryError): ...
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
    def complete(self, rows: Iterable[int] | _Arrow | None = None) -> None: ...
    def release(self, rows: Iterable[int] | _Arrow | None = None) -> None: ...
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
    def commit(self, receipts: Sequence[bytes]) -> StagedClaim: ...
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
    def __len__(self) -> int: ...
    def complete(self, keys: Iterable[str | None] | _Arrow | None = None) -> None: ...
    def release(self, keys: Iterable[str | None] | _Arrow | None = None) -> None: ...

@final
class History:
    @property
    def path(self) -> Path: ...
    @property
    def closed(self) -> bool: ...
    @property
    def shards(self) -> int: ...
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
        part: tuple[int, int] = (0, 1),
    ) -> pa.RecordBatchReader: ...
    def triggers(self) -> list[str]: ...
    def purge(
        self, trigger: Trigger | str | None = None, now: dt.datetime | None = None, dry_run: bool = False
    ) -> dict[str, _Purged]: ...
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
    def reserve(
        self,
        trigger: Trigger,
        parts: int = 1,
        *,
        reads: bool = True,
        routed: bool = False,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "resolver", "rerun"] = "in_doubt",
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
        self, receipts: Sequence[bytes], trigger: Trigger, *, transaction: tuple[str, int] | None = None
    ) -> int: ...
    def abort_entries(self, receipts: Sequence[bytes]) -> None: ...
    def verify(
        self, trigger: Trigger | str | None = None, *, progress: Callable[[int, int], object] | bool | None = None
    ) -> int: ...
    def stats(self, trigger: Trigger | str | None = None) -> dict[str, Any]: ...
    def pin(self, trigger: Trigger | str) -> str: ...
    def unpin(self, trigger: Trigger | str, snapshot: str) -> None: ...
    def close(self) -> None: ...
    def _repr_html_(self) -> str: ...
    def __enter__(self) -> History: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

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
def verdict_words() -> pa.RecordBatch: ...
def repair(
    path: str | os.PathLike[str],
    trigger: Trigger | str | None = None,
    *,
    apply: bool = False,
    lock_timeout: _Duration = "30 s",
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]: ...
