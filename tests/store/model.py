"""The history as a plain dict of claims: what the store must be indistinguishable from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tests.reference import trigger_rules as reference


@dataclass
class Claim:
    """One `processing` entry and what became of it."""

    started_at: datetime
    state: Literal["processing", "completed", "released"] = "processing"
    purged: bool = False

    def counts(self, now: datetime, exact: timedelta | None) -> bool:
        """Whether a look-up sees it; `exact` is the time to live where expiry needs no purge."""
        expired = exact is not None and now >= self.started_at + exact
        return self.state != "released" and not self.purged and not expired


@dataclass
class Model:
    """The claims of each key of one trigger."""

    settings: reference.Settings
    time_to_live: timedelta
    exact: bool
    asks: bool
    claims: dict[str, list[Claim]] = field(default_factory=dict)

    def states(self, now: datetime) -> dict[str, reference.State]:
        """What a look-up finds: completed if any claim is, else processing if any claim is."""
        known: dict[str, reference.State] = {}
        for key, claims in self.claims.items():
            seen = {one.state for one in claims if one.counts(now, self.time_to_live if self.exact else None)}
            if seen:
                known[key] = "completed" if "completed" in seen else "processing"
        return known

    def classify(self, ids: list[str | None], now: datetime) -> list[reference.Verdict]:
        """The verdicts of the rules; the resolver, where there is one, calls everything new."""
        resolver: reference.Resolver | None = (lambda rows: ["NEW"] * len(rows)) if self.asks else None
        return reference.classify([{"uuid": one} for one in ids], self.settings, self.states(now), resolver)

    def begin(self, ids: list[str | None], now: datetime) -> tuple[list[reference.Verdict], dict[int, Claim]]:
        """The verdicts, and the new claims by row."""
        verdicts = self.classify(ids, now)
        claims: dict[int, Claim] = {}
        for row, verdict in enumerate(verdicts):
            if verdict.records and verdict.key is not None:
                claims[row] = Claim(now)
                self.claims.setdefault(verdict.key, []).append(claims[row])
        return verdicts, claims

    def end(self, claim: Claim, state: Literal["completed", "released"]) -> None:
        """Ends one claim; a completion that comes after the purge counts again until the next one."""
        if claim.state == "processing":
            claim.state = state
            claim.purged = claim.purged and state == "released"

    def complete_whole(self, claims: list[Claim]) -> None:
        """Completes what a `begin` began; after a purge its keys are named, those that were completed before, too."""
        for claim in claims:
            claim.state, claim.purged = "completed", False

    def end_by_key(self, key: str, state: Literal["completed", "released"]) -> None:
        """Ends all that is still processing under a key."""
        for claim in self.claims.get(key, []):
            if not claim.purged:
                self.end(claim, state)

    def purge(self, now: datetime) -> None:
        """Takes what has expired."""
        for claims in self.claims.values():
            for claim in claims:
                claim.purged = claim.purged or now >= claim.started_at + self.time_to_live
