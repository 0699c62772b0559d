"""The trigger rules, read one document at a time.

This is the slow twin of the engine: plain Python, no columns, no cleverness. Tests compare the two.
It shares nothing with the engine but the prose both were written from, so a rule misread on one
side shows as a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

Document: TypeAlias = Mapping[str, Any]
State: TypeAlias = Literal["processing", "completed"]
Kind: TypeAlias = Literal["messaging", "jms"]
Mode: TypeAlias = Literal["concurrent", "serial"]
InBatch: TypeAlias = Literal["duplicate", "in_doubt", "new"] | None

LONGEST_KEY: Final = 96
"""The longest usable key, in Unicode code points."""


class Unavailable:
    """Stands for a history whose files cannot be read."""


class TransientError(Exception):
    """What a reference resolver raises, or answers for a row, when it may succeed later."""


@dataclass(frozen=True)
class Settings:
    """The settings of a trigger that take part in a decision, with their defaults."""

    kind: Kind = "messaging"
    detect_duplicates: bool = False
    use_history: bool = False
    processing_mode: Mode = "concurrent"
    suspend_and_retry_on_error: bool = True
    suspend_on_failure: bool = False
    max_delivery_count: int = 100
    max_redelivery_count: int | None = None
    in_batch: InBatch = None

    @property
    def suspends(self) -> bool:
        """Either switch suspends."""
        return self.suspend_and_retry_on_error or self.suspend_on_failure


@dataclass(frozen=True)
class Verdict:
    """What is to be done with one document."""

    status: str | None
    action: str
    acknowledge: str
    rule: str
    key: str | None
    records: bool = False
    """Whether `begin` writes a `processing` entry for it."""


@dataclass(frozen=True)
class Undecided:
    """A document for the resolver, and the rule that left it undecided."""

    row: int
    document: Document
    key: str | None
    reason: str


History: TypeAlias = Mapping[str, State] | Unavailable
Resolver: TypeAlias = Callable[[list[Undecided]], Sequence[Any]]


def key_of(document: Document, kind: str) -> str | None:
    """The first id of the chain that is there; null and "" are not there, blanks are."""
    chain = ("uuid", "track_id", "event_id") if kind == "messaging" else ("uuid", "jms_message_id")
    for column in chain:
        value: str | None = document.get(column)
        if value is not None and value != "":
            return value
    return None


def is_eligible(document: Document, kind: str) -> bool:
    """Guaranteed or persistent; not knowing counts as yes."""
    flag = document.get("guaranteed" if kind == "messaging" else "persistent")
    return flag is None or bool(flag)


def delivery(document: Document, kind: str) -> Literal["first", "again", "undefined"]:
    """What the count says. Redeliveries start at 0, JMS deliveries at 1."""
    count = count_of(document, kind)
    first = 0 if kind == "messaging" else 1
    if count is None or count < first:
        return "undefined"
    return "first" if count == first else "again"


def count_of(document: Document, kind: str) -> int | None:
    """The count as it stands in the document."""
    count: int | None = document.get("redelivery_count" if kind == "messaging" else "delivery_count")
    return count


def classify(
    documents: Sequence[Document], settings: Settings, history: History, resolver: Resolver | None
) -> list[Verdict]:
    """One verdict a document, in order. Nothing is written; `Verdict.records` says what `begin` would write."""
    verdicts: list[Verdict | Undecided] = []
    begun_here: set[str] = set()
    for row, document in enumerate(documents):
        verdict = _without_resolver(row, document, settings, history, resolver is not None, begun_here)
        verdicts.append(verdict)
        if isinstance(verdict, Verdict) and verdict.action == "SUSPEND":
            break
        if isinstance(verdict, Verdict) and verdict.rule == "R8" and verdict.key is not None:
            begun_here.add(verdict.key)
    return _resolved(documents, verdicts, settings, history, resolver)


def _without_resolver(
    row: int, document: Document, settings: Settings, history: History, has_resolver: bool, begun_here: set[str]
) -> Verdict | Undecided:
    """R0 to R16 in their order: the first that matches decides, or leaves the row to the resolver."""
    kind = settings.kind
    key = key_of(document, kind)
    count = count_of(document, kind)

    def in_doubt_unless_resolved(with_resolver: str, without: str) -> Verdict | Undecided:
        if has_resolver:
            return Undecided(row, document, key, with_resolver)
        return _in_doubt(without, key)

    if not settings.detect_duplicates:
        return _new("R0", key)
    if not is_eligible(document, kind):
        return _new("R1", key)
    most = settings.max_delivery_count if kind == "jms" else settings.max_redelivery_count
    if most is not None and count is not None and count >= most:
        return Verdict(None, "REJECT", "NOW", "R2", key)
    if not settings.use_history:
        match delivery(document, kind):
            case "first":
                return _new("R12", key)
            case "again":
                return in_doubt_unless_resolved("R13", "R14")
            case "undefined":
                return Undecided(row, document, key, "R15") if has_resolver else _new("R16", key)
    if key is None:
        return in_doubt_unless_resolved("R3", "R3")
    if len(key) > LONGEST_KEY:
        return in_doubt_unless_resolved("R4", "R4")
    if isinstance(history, Unavailable):
        if settings.suspends:
            return Verdict(None, "SUSPEND", "NO", "R5", key)
        return in_doubt_unless_resolved("R6", "R7")
    if key not in history:
        if key in begun_here:
            return _copy_of_new(row, document, settings, key, has_resolver)
        return _new("R8", key, records=True)
    if history[key] == "completed":
        return _duplicate("R9", key)
    return in_doubt_unless_resolved("R10", "R11")


def _copy_of_new(row: int, document: Document, settings: Settings, key: str, has_resolver: bool) -> Verdict | Undecided:
    """A later copy of a document that is new in this very batch."""
    if settings.in_batch is None and settings.processing_mode == "concurrent" and has_resolver:
        return Undecided(row, document, key, "R8+batch")
    return _as_copy("R8+batch", key, settings)


def _as_copy(rule: str, key: str, settings: Settings) -> Verdict:
    """What the setting for copies in one batch says, or the processing mode where it says nothing."""
    by_mode = "duplicate" if settings.processing_mode == "serial" else "in_doubt"
    match settings.in_batch or by_mode:
        case "duplicate":
            return _duplicate(rule, key)
        case "in_doubt":
            return _in_doubt(rule, key)
        case _:
            return _new(rule, key, records=True)


def _resolved(
    documents: Sequence[Document],
    verdicts: list[Verdict | Undecided],
    settings: Settings,
    history: History,
    resolver: Resolver | None,
) -> list[Verdict]:
    """Asks once about all that is undecided, then goes through the rows; the first suspension takes all that follow."""
    undecided = [one for one in verdicts if isinstance(one, Undecided)]
    answers = dict(zip((one.row for one in undecided), _ask(resolver, undecided), strict=True))
    decided: list[Verdict] = []
    begun_here: set[str] = set()
    for row, verdict in enumerate(verdicts):
        if isinstance(verdict, Undecided):
            verdict = _answered(verdict, answers[row], settings, history, begun_here)
        if verdict.action == "SUSPEND":
            return decided + [_suspended(one, verdict.rule, settings) for one in documents[row:]]
        decided.append(verdict)
    return decided


def _ask(resolver: Resolver | None, undecided: list[Undecided]) -> list[Any]:
    """The answer for each undecided row; a failure of the whole call is everyone's answer."""
    if not undecided or resolver is None:
        return []
    try:
        return list(resolver(undecided))
    except Exception as failure:  # noqa: BLE001 - whatever a resolver raises is an answer
        return [failure] * len(undecided)


def _answered(one: Undecided, answer: Any, settings: Settings, history: History, begun_here: set[str]) -> Verdict:
    """S1 to S7."""
    key = one.key
    if isinstance(answer, TransientError):
        if settings.suspends:
            return Verdict(None, "SUSPEND", "NO", f"{one.reason}>S4", key)
        return _in_doubt(f"{one.reason}>S5", key)
    if isinstance(answer, Exception):
        return _in_doubt(f"{one.reason}>S6", key)
    if answer == "DUPLICATE":
        return _duplicate(f"{one.reason}>S2", key)
    if answer in ("IN_DOUBT", "IN DOUBT"):
        return _in_doubt(f"{one.reason}>S3", key)
    if answer != "NEW":
        return _in_doubt(f"{one.reason}>S7", key)
    rule = f"{one.reason}>S1"
    if one.reason not in ("R6", "R10") or key is None:
        return _new(rule, key, records=one.reason == "R8+batch")
    recordable = not isinstance(history, Unavailable)
    if key not in begun_here:
        begun_here.add(key)
        return _new(rule, key, records=recordable)
    copy = _as_copy(f"{rule}+batch", key, settings)
    return _new(copy.rule, key, records=recordable) if copy.status == "NEW" else copy


def _new(rule: str, key: str | None, *, records: bool = False) -> Verdict:
    return Verdict("NEW", "PROCESS", "AFTER_SERVICE", rule, key, records)


def _duplicate(rule: str, key: str | None) -> Verdict:
    return Verdict("DUPLICATE", "DISCARD", "NOW", rule, key)


def _in_doubt(rule: str, key: str | None) -> Verdict:
    return Verdict("IN_DOUBT", "LOG", "NOW", rule, key)


def _suspended(document: Document, rule: str, settings: Settings) -> Verdict:
    return Verdict(None, "SUSPEND", "NO", rule, key_of(document, settings.kind))
