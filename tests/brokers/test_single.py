"""The count of a single message, as receivers take it: what the columns' functions say of the same values."""

from typing import Any

import pytest

from dochistory import brokers
from dochistory.brokers import single
from tests.brokers.rows import ROWS

ONES: dict[str, Any] = {
    "sqs": single.sqs,
    "kafka_share_group": single.kafka_share_group,
    "stomp": lambda redelivered, count=None: single.stomp(
        {name: value for name, value in (("redelivered", redelivered), ("JMSXDeliveryCount", count)) if value}
    ),
    "rabbitmq_quorum": lambda delivery=None, redelivered=None, acquired=None: single.rabbitmq(
        bool(redelivered), {"x-delivery-count": delivery, "x-acquired-count": acquired}
    ),
}
HEADERS = [
    "99999999999999999999999",
    "9" * 5_000,
    "-1",
    "1.0",
    " 7 ",
    "٣",
    "",
    "many",
    2**63 - 1,
    -(2**63),
    1.5,
    2.0,
    float("nan"),
]


@pytest.mark.parametrize("row", [row for row in ROWS if row.function in ONES], ids=lambda row: row.function)
def test_one_message_counts_as_its_column_does(row: Any) -> None:
    assert [ONES[row.function](*values) for values in zip(*row.columns, strict=True)] == row.counts


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: str(header)[:8])
def test_any_header_counts_as_it_does_in_a_column(header: Any) -> None:
    assert [single.sqs(header)] == brokers.sqs([header]).to_pylist()
    assert [single.rabbitmq(False, {"x-delivery-count": header})] == brokers.rabbitmq_quorum([header]).to_pylist()


@pytest.mark.parametrize("header", [True, b"\xff", b"3", [1], {}], ids=repr)
def test_header_of_any_type_is_a_count_or_unknown(header: Any) -> None:
    assert single.rabbitmq(False, {"x-delivery-count": header}) == (3 if header == b"3" else -1)
    assert single.rabbitmq(True, {"x-delivery-count": header}) == (3 if header == b"3" else 1)


def test_deliveries_count_from_one_and_unknown_stays() -> None:
    assert [single.delivery_count(count) for count in (-1, 0, 2**31 - 1)] == [-1, 1, 2**31]
