"""Every combination of settings, document, history and answer, beside the reference."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from tests.reference import trigger_rules as reference
from tests.reference.trigger_rules import Kind
from tests.rules.compare import compare, engine_answers, engine_trigger, reference_answers
from tests.rules.product import ANSWERS, COLUMN_NAMES, Row, as_batch, prepare, rows, without

SWITCHES = tuple(itertools.product((True, False), repeat=2))
MODES: tuple[reference.Mode, ...] = ("serial", "concurrent")
IN_BATCH: tuple[reference.InBatch, ...] = (None, "duplicate", "in_doubt", "new")


@dataclass(frozen=True)
class Answering:
    """One resolver, once for each side."""

    engine: Callable[[Any], Any] | None
    reference: reference.Resolver | None


def _raising(failure: type[Exception]) -> Callable[[Any], Any]:
    def resolve(_: Any) -> Any:
        raise failure("no answer")

    return resolve


NO_RESOLVER = Answering(None, None)
BY_ROW = Answering(engine_answers, reference_answers)
TRANSIENT = Answering(_raising(dh.TransientError), _raising(reference.TransientError))
BROKEN = Answering(_raising(KeyError), _raising(KeyError))


@dataclass(frozen=True)
class Prepared:
    """A history with every key in its state."""

    kind: Kind
    history: dh.History
    directory: Path
    rows: Sequence[Row]
    known: Mapping[str, reference.State]

    @contextmanager
    def availability(self, available: bool) -> Iterator[reference.History]:
        """The history as the reference is to see it; when unavailable, its directory is away meanwhile."""
        if available:
            yield self.known
            return
        away = self.directory.with_suffix(".away")
        self.directory.rename(away)
        try:
            yield reference.Unavailable()
        finally:
            away.rename(self.directory)

    def compare(
        self, documents: Sequence[dict[str, Any]], settings: reference.Settings, answering: Answering, available: bool
    ) -> int:
        """Compares one batch."""
        trigger = engine_trigger("product", settings, answering.engine)
        with self.availability(available) as known:
            verdicts = self.history.classify(as_batch(self.kind, documents), trigger)
            expected = reference.classify(documents, settings, known, answering.reference)
        return compare(verdicts, expected, documents, f"{settings}, {available=}")

    def compare_alone(
        self, documents: Sequence[dict[str, Any]], settings: reference.Settings, answering: Answering, available: bool
    ) -> int:
        """Compares each document in a batch of its own."""
        trigger = engine_trigger("product", settings, answering.engine)
        batch = as_batch(self.kind, documents)
        with self.availability(available) as known:
            for row, one in enumerate(documents):
                expected = reference.classify([one], settings, known, answering.reference)
                compare(
                    self.history.classify(batch.slice(row, 1), trigger), expected, [one], f"{settings}, {available=}"
                )
        return len(documents)


@pytest.fixture(scope="module", params=["messaging", "jms"])
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    directory = tmp_path_factory.mktemp("product") / "product.history"
    kind: Kind = request.param
    product = rows(kind)
    with dh.open(directory, create=True) as history:
        yield Prepared(kind, history, directory, product, prepare(history, "product", kind, product))


def test_every_row_of_the_product_matches_the_reference(prepared: Prepared) -> None:
    compared = 0
    every_answer = [row.document for row in prepared.rows]
    one_answer = every_answer[:: len(ANSWERS)]
    steady = [one for one in every_answer if one["answer"] != "a transient error"]
    for detect, use, available, switches in itertools.product((True, False), (True, False), (True, False), SWITCHES):
        settings = reference.Settings(
            prepared.kind, detect, use, suspend_and_retry_on_error=switches[0], suspend_on_failure=switches[1]
        )
        for documents, answering in (
            (one_answer, NO_RESOLVER),
            (one_answer, TRANSIENT),
            (one_answer, BROKEN),
            (every_answer, BY_ROW),
            (steady, BY_ROW),
        ):
            compared += prepared.compare(documents, settings, answering, available)
    assert compared > 15_000


@pytest.mark.slow
def test_missing_columns_keep_rows_eligible_counts_undefined(prepared: Prepared) -> None:
    *_, count, eligible = COLUMN_NAMES[prepared.kind]
    whole = [row.document for row in prepared.rows if row.document["answer"] != "a transient error"]
    compared = 0
    for use, available, switch in itertools.product((True, False), repeat=3):
        settings = reference.Settings(prepared.kind, True, use, suspend_and_retry_on_error=switch)
        for missing, answering in itertools.product(((count,), (eligible,), (count, eligible)), (NO_RESOLVER, BY_ROW)):
            compared += prepared.compare(without(whole, *missing), settings, answering, available)
    assert compared > 15_000


def test_every_row_alone_is_decided_as_the_reference_decides_it(prepared: Prepared) -> None:
    *_, count, _ = COLUMN_NAMES[prepared.kind]
    chosen = [row.document for row in prepared.rows if row.document[str(count)] in (None, 0, 2, 100)][::3]
    one_answer = chosen[:: len(ANSWERS)]
    compared = 0
    for use, available in itertools.product((True, False), repeat=2):
        settings = reference.Settings(prepared.kind, True, use)
        for documents, answering in ((one_answer, NO_RESOLVER), (one_answer, TRANSIENT), (chosen, BY_ROW)):
            compared += prepared.compare_alone(documents, settings, answering, available)
    assert compared > 3_000


def test_batches_full_of_copies_match_the_reference(prepared: Prepared) -> None:
    chance = random.Random(f"copies {prepared.kind}")
    *_, count, eligible = COLUMN_NAMES[prepared.kind]
    compared = 0
    combinations = itertools.product(MODES, IN_BATCH, (True, False), (True, False))
    for mode, in_batch, switch, available in combinations:
        settings = reference.Settings(
            prepared.kind, True, True, mode, suspend_and_retry_on_error=switch, in_batch=in_batch
        )
        for answering, _ in itertools.product((NO_RESOLVER, BY_ROW), range(6)):
            few = [row.document for row in chance.sample(prepared.rows, 10)]
            answers = chance.choice((ANSWERS, ANSWERS[:-1], ("NEW",), ("NEW", "DUPLICATE", None)))
            copies = [
                one
                | {"answer": chance.choice(answers), count: chance.choice((None, 0, 1, 2, 100))}
                | {eligible: chance.choice((True, True, None, False))}
                for one in chance.choices(few, k=60)
            ]
            compared += prepared.compare(copies, settings, answering, available)
    assert compared > 15_000
