"""Brokers' counts as Arrow functions."""

import sys
from collections.abc import Callable
from subprocess import run
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import brokers
from tests.brokers.rows import ROWS, Row
from tests.support import documents, rules, trigger


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.function)
def test_each_brokers_count_comes_to_our_scale(row: Row) -> None:
    counts = getattr(brokers, row.function)(*(pa.array(column) for column in row.columns))
    assert counts.type == pa.int32()
    assert counts.to_pylist() == row.counts


def test_there_is_a_row_for_every_function() -> None:
    assert {row.function for row in ROWS} == set(brokers.__all__)


@pytest.mark.parametrize("function", brokers.__all__)
def test_no_rows_give_no_counts(function: str) -> None:
    counts = getattr(brokers, function)(pa.array([], pa.int64()))
    assert counts.type == pa.int32()
    assert len(counts) == 0


@pytest.mark.parametrize(
    ("function", "counts"), [("jms", [-1, -1]), ("amqp", [0, 0]), ("rabbitmq_quorum", [0, 0]), ("pubsub", [-1, -1])]
)
def test_a_column_of_nothing_but_nulls_needs_no_type(function: str, counts: list[int]) -> None:
    assert getattr(brokers, function)(pa.nulls(2)).to_pylist() == counts


@pytest.mark.parametrize(
    "column",
    [
        [1, 2, None],
        pa.array([1, 2, None], pa.uint64()),
        pa.array([1, 2, None], pa.int8()),
        pa.array(["1", "2", None], pa.large_string()),
        pa.array(["1", "2", None]).dictionary_encode(),
        pa.array([b"1", b"2", b"\xff"]),
        pa.chunked_array([[1, 2], [None]]),
        pl.Series([1, 2, None]),
        pl.Series(["1", "2", None]),
        pd.Series([1, 2, None]),
    ],
    ids=lambda column: str(getattr(column, "type", type(column).__name__)),
)
def test_counts_come_in_any_form_that_libraries_use(column: Any) -> None:
    assert brokers.sqs(column).to_pylist() == [0, 1, -1]


def test_chunks_stay_chunks() -> None:
    chunked = pa.chunked_array([["1", "2"], ["3"]])
    assert isinstance(brokers.sqs(chunked), pa.ChunkedArray)
    assert brokers.kafka_consumer_group(chunked).to_pylist() == [-1, -1, -1]


def test_largest_unsigned_count_saturates_instead_of_wrapping() -> None:
    assert brokers.amqp(pa.array([2**64 - 1], pa.uint64())).to_pylist() == [2**31 - 1]


@pytest.mark.parametrize("column", [pa.array([True]), pa.array([{}]), 5])
def test_what_holds_no_counts_is_refused(column: Any) -> None:
    with pytest.raises(dh.SchemaError, match=r"^\[DH-SCHEMA\] .* give "):
        brokers.sqs(column)


def test_what_holds_no_flags_is_refused() -> None:
    with pytest.raises(dh.SchemaError, match=r"double holds no flags"):
        brokers.rabbitmq_classic([1.5])


def test_columns_of_different_documents_are_refused() -> None:
    with pytest.raises(dh.SchemaError, match=r"2, 1 rows"):
        brokers.rabbitmq_quorum([1, 2], [True])


def test_trigger_without_history_decides_by_converted_count(history: dh.History) -> None:
    counts = brokers.sqs(["1", "2", None])
    verdicts = history.classify(documents(["a", "b", "c"], redelivery_count=counts), trigger(use_history=False))
    assert rules(verdicts) == ["R12", "R14", "R16"]


def test_importing_the_converters_imports_no_spark() -> None:
    code = "import sys; from dochistory import brokers; brokers.sqs(['1']); sys.exit('pyspark' in sys.modules)"
    assert run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_converter_says_its_traps() -> None:
    for name in brokers.__all__:
        function: Callable[..., Any] = getattr(brokers, name)
        assert "Traps:" in (function.__doc__ or ""), name
