"""Asking a resolver again after a temporary failure: a trigger does so, and `resolvers.retrying`."""

import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import dochistory as dh

LONGEST = 30.0
"""The longest wait before an attempt, in seconds."""


@dataclass(frozen=True)
class Retrying:
    """A resolver that asks another one again, only about the rows that failed temporarily."""

    resolver: Callable[[pa.RecordBatch], Any]
    attempts: int
    backoff: float
    longest: float = LONGEST
    sleep: Callable[[float], object] = time.sleep
    share: Callable[[float, float], float] = field(default=random.uniform)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        given, answers = self._first(batch)
        for attempt in itertools.count(1):
            if answers is None:
                return given
            rows = [row for row, answer in enumerate(answers) if _is_transient(answer)]
            if not rows:
                return answers
            if attempt == self.attempts:
                if isinstance(given, dh.TransientError) and len(rows) == len(answers):
                    raise answer_of(answers[0])
                return answers
            wait = min(self.backoff * 2 ** min(attempt - 1, 16), self.longest)
            self.sleep(self.share(wait / 2, wait))
            for row, answer in zip(rows, self._again(batch, rows), strict=True):
                answers[row] = answer
        raise AssertionError  # the loop has no end of its own

    def _first(self, batch: pa.RecordBatch) -> tuple[Any, list[Any] | None]:
        """What the resolver gave, and its answers; none if they cannot hold errors."""
        try:
            given = self.resolver(batch)
        except dh.TransientError as error:
            return error, [error] * batch.num_rows
        answers = listed(given)
        return (given, None) if answers is None or len(answers) != batch.num_rows else (answers, answers)

    def _again(self, batch: pa.RecordBatch, rows: Sequence[int]) -> list[Any]:
        """Answers about some rows; what goes wrong for all of them is the answer for each."""
        try:
            given = self.resolver(batch.take(pa.array(rows, pa.int64())))
        except Exception as error:  # noqa: BLE001 - it becomes these rows' answer
            return [error] * len(rows)
        answers = listed(given, arrow=True)
        if answers is not None and len(answers) == len(rows):
            return answers
        what = f"a {type(given).__name__}" if answers is None else f"{len(answers)} answers"
        return [dh.SchemaError(f"[DH-SCHEMA] the resolver gave {what} for {len(rows)} rows")] * len(rows)


def ask(resolver: Callable[[pa.RecordBatch], Any], attempts: int, backoff: float, batch: pa.RecordBatch) -> Any:
    """A trigger's question, for the engine."""
    return Retrying(resolver, attempts, backoff)(batch)


def _is_transient(answer: Any) -> bool:
    return isinstance(answer_of(answer), dh.TransientError)


def answer_of(answer: Any) -> Any:
    """An answer without its message."""
    return answer[0] if isinstance(answer, tuple) and len(answer) == 2 else answer


def listed(given: Any, *, arrow: bool = False) -> list[Any] | None:
    """Answers as a list, with messages as pairs; none of what is no column.

    Args:
        given: what a resolver gave.
        arrow: also of what Arrow holds, in which there are no errors.
    """
    if hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__"):
        return _of_arrow(given) if arrow else None
    if isinstance(given, Mapping):
        status = listed(given["status"], arrow=True) if "status" in given else None
        messages = listed(given["message"], arrow=True) if "message" in given else None
        if status is None or messages is None:
            return status
        pairs = [*zip(status, messages, strict=False)]
        return [*pairs, *status[len(pairs) :]]
    if given is None or isinstance(given, str | bytes | set | frozenset):
        return None
    try:
        return [*given]
    except TypeError:
        return None


def _of_arrow(given: Any) -> list[Any] | None:
    """Answers that Arrow holds: a column, or a table of `status` and `message`."""
    if isinstance(given, pa.Array | pa.ChunkedArray):
        answers: list[Any] = given.to_pylist()
        return answers
    try:
        table = pa.table(given)
    except (TypeError, ValueError, pa.ArrowException):
        return [*given]
    if "status" not in table.column_names:
        return None
    return listed({name: table[name] for name in ("status", "message") if name in table.column_names})
