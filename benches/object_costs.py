"""What a history in a bucket costs a month, from counted requests: `python -m benches.object_costs`.

Prices are list prices of one region, without discounts, taxes, or traffic between regions. Change
them here if yours differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass

DAYS = 30
SECONDS_A_DAY = 86_400


@dataclass(frozen=True)
class Store:
    """Prices in dollars, and how long a put takes."""

    name: str
    put: float
    """A million puts or lists."""
    get: float
    """A million gets."""
    stored: float
    """A GB for a month."""
    sent: float
    """A GB that is uploaded, on top of its request."""
    fetched: float
    """A GB that is downloaded within the region."""
    put_ms: tuple[int, int]
    """What a put of a small object usually takes."""
    get_ms: tuple[int, int]


STORES = (
    Store("S3", 5.0, 0.4, 0.023, 0.0, 0.0, (20, 100), (10, 60)),
    Store("S3 Express", 1.13, 0.03, 0.11, 0.0032, 0.0006, (5, 10), (3, 10)),
    Store("GCS", 5.0, 0.4, 0.020, 0.0, 0.0, (40, 120), (20, 80)),
    Store("Azure", 5.0, 0.4, 0.018, 0.0, 0.0, (20, 100), (10, 60)),
)
DYNAMO_WRITE = 0.625
"""A million writes of up to 1 KB in DynamoDB, on demand."""


@dataclass(frozen=True)
class Requests:
    """What some work asks of a store."""

    puts: float = 0.0
    gets: float = 0.0
    sent: float = 0.0
    """Bytes."""
    fetched: float = 0.0
    """Bytes."""

    def __add__(self, other: "Requests") -> "Requests":
        return Requests(
            self.puts + other.puts, self.gets + other.gets, self.sent + other.sent, self.fetched + other.fetched
        )

    def times(self, count: float) -> "Requests":
        """The same work so many times."""
        return Requests(self.puts * count, self.gets * count, self.sent * count, self.fetched * count)

    def dollars(self, store: Store) -> float:
        """What they cost, without what stays stored."""
        return (
            self.puts / 1e6 * store.put
            + self.gets / 1e6 * store.get
            + self.sent / 1e9 * store.sent
            + self.fetched / 1e9 * store.fetched
        )


def counted(counts: Mapping[str, int], sent: int, fetched: int) -> Requests:
    """What a proxy counted. Deletions are free; to start and to end an upload in parts costs as a put."""
    puts = sum(counts.get(kind, 0) for kind in ("create", "put", "list", "post"))
    return Requests(puts, sum(counts.get(kind, 0) for kind in ("get", "head")), sent, fetched)


@dataclass(frozen=True)
class Load:
    """What arrives in a day, and how."""

    ids: float
    triggers: int = 1
    writers: int = 1
    """Processes that claim for each trigger."""
    nodes: int = 1
    """Machines that fetch what others wrote, into a cache of their own."""
    batch: int = 10_000
    days_kept: int = 30
    bytes_an_id: float = 18.0
    rewrites: float = 3.0
    """How often an id is written over its life: log, segment, compaction, filter."""
    part: float = 64e6
    """Bytes of one segment."""

    @property
    def batches(self) -> float:
        """Claims a day."""
        return self.ids / self.batch


OPERATION = Requests(puts=1 + 3 / 128 + 1 / 256, gets=1)
"""A begin or a complete: one commit and the look at its block's gate. Every 128 commits the log is sealed, by three
puts more, and every 256 a gate is made (`docs/object-storage.md`)."""
CLASSIFY = Requests(gets=2)
"""A look-up that begins nothing: is there a newer commit, and does the gate stand open."""


def a_day(load: Load, operation: Requests = OPERATION) -> Requests:
    """All requests of one day."""
    written = load.ids * load.bytes_an_id * load.rewrites
    commits = 2 * load.batches
    # Every other process that works on a trigger reads each commit once, and every other node each file.
    followed = Requests(gets=commits * (load.writers - 1))
    files = Requests(puts=written / load.part, gets=written / load.part * load.nodes, sent=written)
    shared = Requests(fetched=written * load.nodes)
    return operation.times(commits) + followed + files + shared


def a_month(load: Load, store: Store, operation: Requests = OPERATION) -> dict[str, float]:
    """Dollars a month, by what they are paid for."""
    requests = a_day(load, operation).times(DAYS).dollars(store)
    kept = load.ids * load.days_kept * load.bytes_an_id / 1e9 * store.stored
    return {"requests": requests, "storage": kept, "total": requests + kept}


def commits_a_second(store: Store) -> tuple[float, float]:
    """Commits of one trigger, at the slow and at the fast end: a put and a get, one commit after the other."""
    slow, fast = (store.put_ms[end] + store.get_ms[end] for end in (1, 0))
    return 1000 / slow, 1000 / fast


def least_batch(load: Load, store: Store) -> float:
    """The smallest batches by which one trigger keeps up at the slow end."""
    return 2 * load.ids / load.triggers / SECONDS_A_DAY / commits_a_second(store)[0]


def dynamo_a_month(ids: float) -> float:
    """The same with one conditional write a document for its claim, and one for its end, in DynamoDB."""
    return 2 * ids * DAYS / 1e6 * DYNAMO_WRITE


def table(loads: Mapping[str, Load]) -> str:
    """Dollars a month as Markdown."""
    lines = ["| | " + " | ".join(store.name for store in STORES) + " | DynamoDB, a write a document |"]
    lines += ["|---|" + "---:|" * (len(STORES) + 1)]
    for name, load in loads.items():
        cells = [_dollars(a_month(load, store)) for store in STORES]
        lines.append(f"| {name} | {' | '.join(cells)} | ${dynamo_a_month(load.ids):,.0f} |")
    return "\n".join(lines)


def _dollars(parts: Mapping[str, float]) -> str:
    return f"${parts['total']:,.0f} ({parts['requests']:,.0f} + {parts['storage']:,.0f})"


LOADS = {
    "1e8 ids a day, batches of 10,000": Load(1e8),
    "1e9 ids a day, batches of 100,000": Load(1e9, batch=100_000),
    "1e10 ids a day, 10 triggers, batches of 200,000": Load(1e10, triggers=10, batch=200_000),
    "1e8 ids a day, 4 writers on 4 nodes": Load(1e8, writers=4, nodes=4),
    "1e8 ids a day over 1,000 triggers, batches of 1,000": Load(1e8, triggers=1000, batch=1000),
    "1e8 ids a day, one by one": Load(1e8, batch=1),
}


if __name__ == "__main__":
    print(table(LOADS))
    for one in STORES:
        slow, fast = commits_a_second(one)
        print(f"{one.name}: {slow:.0f} to {fast:.0f} commits a second and trigger")
        for title, given in LOADS.items():
            print(f"  {title}: batches of {least_batch(given, one):,.0f} or more keep up")
