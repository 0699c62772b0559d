"""Random lives of a history, beside a plain dict: begin, end, purge and reopen in any order."""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

import dochistory as dh
from tests.reference import trigger_rules as reference
from tests.store.model import Claim, Model
from tests.support import T0, column, documents, entries, rules, status_of, trigger

KEYS: list[str] = [
    "00000000-0000-0000-0000-000000000000",
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "3F2504E0-4F89-41D3-9A0C-0305E82C3301",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "order 1",
    "order 2",
    " ",
    "€" * 96,
]
IDS = st.sampled_from([*KEYS, None, "x" * 97])
BATCHES = st.lists(IDS, max_size=8)
TIME_TO_LIVE = timedelta(hours=1)
TRIGGERS = ("plain", "exact", "asking")
Ending = Literal["completed", "released"]


def all_new(batch: Any) -> list[str]:
    """A resolver that calls everything new."""
    return ["NEW"] * int(batch.num_rows)


def engine_trigger(name: str) -> dh.Trigger:
    """The trigger of that name: expiry by purge, exact expiry, or a resolver."""
    return trigger(
        name,
        history_time_to_live="1 hour",
        processing_mode="serial",
        expiry="exact" if name == "exact" else "until_purged",
        resolver=all_new if name == "asking" else None,
    )


def model(name: str) -> Model:
    """Its model."""
    rules_settings = reference.Settings("messaging", True, True, processing_mode="serial")
    return Model(rules_settings, TIME_TO_LIVE, exact=name == "exact", asks=name == "asking")


class Lives(RuleBasedStateMachine):
    """One history with three triggers, and the model of each."""

    claims: Bundle[tuple[str, Any, dict[int, Claim]]] = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="dochistory-model-"))
        self.now = T0
        self.models = {name: model(name) for name in TRIGGERS}
        self.triggers = {name: engine_trigger(name) for name in TRIGGERS}

    @initialize()
    def create(self) -> None:
        self.history = dh.open(self.home / "history", create=True)

    @rule(target=claims, name=st.sampled_from(TRIGGERS), ids=BATCHES)
    def begin(self, name: str, ids: list[str | None]) -> tuple[str, Any, dict[int, Claim]]:
        claim = self.history.begin(documents(ids), self.triggers[name], now=self.now)
        expected, ends = self.models[name].begin(ids, self.now)
        assert rules(claim.verdicts) == [one.rule for one in expected]
        new = [row for row, one in zip(ids, expected, strict=True) if one.action == "PROCESS"]
        assert column(claim.new, "uuid") == new
        return name, claim, ends

    @rule(claim=claims, ending=st.sampled_from(["completed", "released"]), chosen=st.sets(st.integers(0, 7)))
    def end_rows(self, claim: tuple[str, Any, dict[int, Claim]], ending: Ending, chosen: set[int]) -> None:
        name, engine, ends = claim
        rows = sorted(row for row in chosen & ends.keys() if ends[row].state == "processing")
        (engine.complete if ending == "completed" else engine.release)(rows=rows)
        for row in rows:
            self.models[name].end(ends[row], ending)

    @rule(claim=consumes(claims))
    def complete_all(self, claim: tuple[str, Any, dict[int, Claim]]) -> None:
        name, engine, ends = claim
        if any(one.state == "released" for one in ends.values()):
            return
        engine.complete()
        self.models[name].complete_whole([*ends.values()])

    @rule(name=st.sampled_from(TRIGGERS), keys=st.lists(st.sampled_from(KEYS), max_size=4))
    def complete_by_key(self, name: str, keys: list[str]) -> None:
        # A key that is not known, or no longer counts, would get an entry of its own, which the model has not.
        keys = [key for key in keys if self.models[name].classify([key], self.now)[0].rule[:3] in ("R9", "R10", "R11")]
        self.history.complete(keys, self.triggers[name], now=self.now)
        for one in keys:
            self.models[name].end_by_key(one, "completed")

    @rule(name=st.sampled_from(TRIGGERS), keys=st.lists(st.sampled_from(KEYS), max_size=4))
    def release_by_key(self, name: str, keys: list[str]) -> None:
        self.history.release(keys, self.triggers[name], now=self.now)
        for one in keys:
            self.models[name].end_by_key(one, "released")

    @rule(minutes=st.sampled_from([1, 10, 25, 60, 24 * 60]))
    def wait(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule()
    def purge(self) -> None:
        self.history.purge(now=self.now)
        for one in self.models.values():
            one.purge(self.now)

    @rule()
    def reopen(self) -> None:
        self.history.close()
        self.history = dh.open(self.home / "history")

    @rule()
    def leave_open_and_open_again(self) -> None:
        self.history = dh.open(self.home / "history")

    @precondition(lambda self: hasattr(self, "history"))
    @invariant()
    def every_key_has_the_same_verdict(self) -> None:
        ids: list[str | None] = [*KEYS, None]
        for name in TRIGGERS:
            expected = self.models[name].classify(ids, self.now)
            seen = rules(self.history.classify(documents(ids), self.triggers[name], now=self.now))
            assert seen == [one.rule for one in expected]

    @precondition(lambda self: hasattr(self, "history"))
    @invariant()
    def the_entries_are_those_of_the_model(self) -> None:
        for name in ("plain", "asking"):
            listed = {row["key"]: row["status"] for row in entries(self.history, self.triggers[name])}
            assert listed == self.models[name].states(self.now)

    @precondition(lambda self: hasattr(self, "history"))
    @invariant()
    def a_reader_sees_the_same(self) -> None:
        with dh.open(self.home / "history", read_only=True) as reader:
            for name in TRIGGERS:
                expected = self.models[name].classify([*KEYS], self.now)
                assert status_of(reader, KEYS, self.triggers[name], now=self.now) == [one.status for one in expected]

    def teardown(self) -> None:
        self.history.close()
        shutil.rmtree(self.home)


# The same lives each time, unless DOCHISTORY_LIVES asks for so many others.
OTHERS = int(os.environ.get("DOCHISTORY_LIVES", "0"))

TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=OTHERS or 20,
    derandomize=not OTHERS,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class MoreLives(Lives):
    """The same, and more of them."""


TestMoreLives = pytest.mark.slow(MoreLives.TestCase)
TestMoreLives.settings = settings(TestLives.settings, max_examples=OTHERS or 100)
