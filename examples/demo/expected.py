"""What the rules demand of the demo, computed from the mails alone, and whether it happened."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dochistory as dh
from mails import LONGEST_ID, MAILS, batches
from records import Run, runs_of_mails
from stream import TRIGGER

Verdicts = Counter[tuple[str, str]]


def usable(mail_id: str | None) -> bool:
    """Whether the history can remember this id."""
    return bool(mail_id) and len(mail_id or "") <= LONGEST_ID


def verdicts_of(ids: list[str | None], rule: str, status: str) -> Verdicts:
    """The verdicts of a batch in which all usable ids get this one."""
    found: Verdicts = Counter()
    for one in ids:
        if not one:
            found["R3", "IN_DOUBT"] += 1
        elif len(one) > LONGEST_ID:
            found["R4", "IN_DOUBT"] += 1
        else:
            found[rule, status] += 1
    return found


def demanded(policy: str, count: int, killed: int) -> list[Run]:
    """Every batch that Spark should hand over, with its verdicts."""
    ids = [mails["message_id"].to_pylist() for mails in batches(count)]
    new, duplicate, in_doubt = ("R8", "NEW"), ("R9", "DUPLICATE"), ("R11", "IN_DOUBT")
    first = [Run("first", n, verdicts_of(ids[n], *new)) for n in range(killed + 1)]
    replayed = Run("first", killed, verdicts_of(ids[killed], *(in_doubt if policy == "in_doubt" else new)))
    rest = [Run("first", n, verdicts_of(ids[n], *new)) for n in range(killed + 1, count)]
    again = [
        Run("again", n, verdicts_of(ids[n], *(in_doubt if n == killed and policy == "in_doubt" else duplicate)))
        for n in range(count)
    ]
    return [*first, replayed, *rest, *again]


def check(work: Path, runs: list[Run], policy: str, count: int, killed: int) -> list[str]:
    """All figures that are not what the rules demand, each as a sentence."""
    wrong: list[str] = []

    def compare(what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            wrong.append(f"{what}: found {found}, the rules demand {wanted}")

    wanted = demanded(policy, count, killed)
    compare("batches handed over", [(run.phase, run.batch) for run in runs], [(run.phase, run.batch) for run in wanted])
    for run, right in zip(runs, wanted, strict=False):
        compare(f"verdicts of batch {run.name}", sorted(run.verdicts.items()), sorted(right.verdicts.items()))

    mails = MAILS.to_pylist()
    unusable = Counter("none" if not one["message_id"] else "long" for one in mails if not usable(one["message_id"]))
    compare("mails whose id is too long, and without one", unusable, Counter(long=48, none=1))

    # The number of runs for each mail differs only in the batch that was killed half-way.
    cut = [one for one in batches(count)[killed].to_pylist() if usable(one["message_id"])]
    half = len(cut) // 2
    wanted_runs = Counter({one["sha256"]: 1 for one in mails if usable(one["message_id"])})
    in_doubt = policy == "in_doubt"
    wanted_runs.update({one["sha256"]: 0 if in_doubt else 1 for one in cut[:half]})
    wanted_runs.subtract({one["sha256"]: 1 if in_doubt else 0 for one in cut[half:]})
    compare("runs per mail", spread(runs_of_mails(work)), spread(+wanted_runs))
    compare("mails with another number of runs", len(differing(runs_of_mails(work), +wanted_runs)), 0)

    delivered = pa.concat_tables(pq.read_table(file) for file in sorted((work / "delivered").glob("*.parquet")))
    effects = Counter(delivered["sha256"].to_pylist())
    left = {one["sha256"] for one in cut} if in_doubt else set()
    wanted_effects = {one["sha256"] for one in mails if usable(one["message_id"])} - left
    compare("effects per mail", spread(effects), {1: len(wanted_effects)})
    compare("mails with an effect", len(set(effects) ^ wanted_effects), 0)

    with dh.open(work / "mails.history", read_only=True) as history:
        open_ids = set(pa.table(history.entries(TRIGGER, status="processing"))["key"].to_pylist())
    compare("ids left in doubt", len(open_ids ^ ({one["message_id"] for one in cut} if in_doubt else set())), 0)
    return wrong


def spread(runs: Counter[str]) -> dict[int, int]:
    """The number of mails for each number of runs."""
    return dict(sorted(Counter(runs.values()).items()))


def differing(one: Counter[str], other: Counter[str]) -> set[str]:
    """The mails whose numbers differ."""
    return {digest for digest in one.keys() | other.keys() if one[digest] != other[digest]}
