"""What `docs/capacity.md` says of costs is what is reckoned."""

from pathlib import Path

import pytest
from benches import object_costs as costs

PAGE = Path(__file__).parents[2] / "docs" / "capacity.md"
S3, EXPRESS = costs.STORES[0], costs.STORES[1]


def test_the_page_has_the_table_that_is_reckoned() -> None:
    assert costs.table(costs.LOADS) in PAGE.read_text(encoding="utf-8")


def test_a_batch_is_two_commits_of_one_put_and_one_get() -> None:
    load = costs.Load(ids=1e6, batch=1000, bytes_an_id=0.0)
    day = costs.a_day(load)
    assert day.gets == 2000
    assert 2000 < day.puts < 2100  # sealed logs and gates besides
    assert day.dollars(S3) == pytest.approx(day.puts * 5e-6 + 2000 * 0.4e-6)


def test_every_further_writer_reads_each_commit() -> None:
    alone, four = (costs.a_day(costs.Load(ids=1e6, batch=1000, bytes_an_id=0.0, writers=n)) for n in (1, 4))
    assert four.puts == alone.puts
    assert four.gets - alone.gets == 3 * 2000


def test_bytes_cost_where_the_store_bills_them() -> None:
    load = costs.Load(ids=1e9, batch=1_000_000, rewrites=1.0, nodes=2)
    day = costs.a_day(load)
    assert day.sent == pytest.approx(18e9)
    assert day.fetched == pytest.approx(36e9)
    assert day.dollars(EXPRESS) > 18 * 0.0032 + 36 * 0.0006


def test_what_is_kept_is_billed_by_the_month() -> None:
    month = costs.a_month(costs.Load(ids=1e8, days_kept=30), S3)
    assert month["storage"] == pytest.approx(1e8 * 30 * 18 / 1e9 * 0.023)
    assert month["total"] == pytest.approx(month["storage"] + month["requests"])


def test_requests_are_counted_as_stores_bill_them() -> None:
    counts = {"create": 2, "put": 1, "post": 2, "list": 1, "get": 3, "head": 1, "delete": 9}
    assert costs.counted(counts, 10, 20) == costs.Requests(6, 4, 10, 20)
