"""Documents and settings that cannot be understood are refused before anything is decided."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import documents, entries, trigger


@pytest.mark.parametrize(
    "batch",
    [
        pa.RecordBatch.from_pydict({"uuid": pa.array([1, 2])}),
        pa.RecordBatch.from_pydict({"uuid": pa.array([b"a", b"b"], pa.binary())}),
        pa.RecordBatch.from_pydict({"uuid": pa.array([b"12345678", b"12345678"], pa.binary(8))}),
        pa.RecordBatch.from_pydict({"uuid": pa.array([1, 2]).dictionary_encode()}),
        documents(["a", "b"], redelivery_count=["0", "1"]),
        documents(["a", "b"], redelivery_count=[0.0, 1.0]),
        documents(["a", "b"], guaranteed=["yes", "no"]),
        documents(["a", "b"], guaranteed=[1, 0]),
    ],
    ids=lambda batch: f"{batch.schema.names[-1]} {batch.schema.types[-1]}",
)
def test_a_column_of_the_wrong_type_is_refused_by_name(history: dh.History, batch: pa.RecordBatch) -> None:
    with pytest.raises(dh.SchemaError, match=r"^\[DH-SCHEMA\]") as refused:
        history.begin(batch, trigger())
    assert batch.schema.names[-1] in str(refused.value)
    assert entries(history, trigger()) == []


def test_documents_without_any_id_column_are_refused(history: dh.History) -> None:
    batch = pa.RecordBatch.from_pydict({"payload": pa.array(["a"])})
    with pytest.raises(dh.SchemaError, match="uuid"):
        history.classify(batch, trigger())


def test_a_renamed_column_that_is_missing_is_refused_by_name(history: dh.History) -> None:
    with pytest.raises(dh.SchemaError, match="my_id"):
        history.classify(documents(["a"]), trigger(), columns={"uuid": "my_id"})


def test_a_column_role_that_does_not_exist_is_refused(history: dh.History) -> None:
    with pytest.raises((dh.SchemaError, dh.ConfigError), match="uuuid"):
        history.classify(documents(["a"]), trigger(), columns={"uuuid": "uuid"})


@pytest.mark.parametrize("nonsense", [None, 42, "a", object()])
def test_what_is_not_arrow_is_refused(history: dh.History, nonsense: Any) -> None:
    with pytest.raises((dh.SchemaError, TypeError)):
        history.classify(nonsense, trigger())


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "mqtt"},
        {"processing_mode": "parallel"},
        {"in_batch": "maybe"},
        {"expiry": "never"},
        {"history_time_to_live": "soon"},
        {"history_time_to_live": "-1 hours"},
        {"history_time_to_live": "3 fortnights"},
        {"max_delivery_count": 0},
        {"resolver": "NEW"},
    ],
    ids=lambda settings: "=".join(map(str, next(iter(settings.items())))),
)
def test_invalid_setting_is_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(dh.ConfigError, match=r"^\[DH-CONFIG\]") as refused:
        dh.Trigger("orders", **{"kind": "messaging", **settings})
    assert next(iter(settings)) in str(refused.value)


@pytest.mark.parametrize("name", ["", "x" * 256, "nul\0"], ids=["empty", "long", "nul"])
def test_a_trigger_needs_a_sensible_name(name: str) -> None:
    with pytest.raises(dh.ConfigError, match="name"):
        dh.Trigger(name, kind="messaging")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises((TypeError, dh.ConfigError), match="use_historie"):
        dh.Trigger("orders", kind="messaging", use_historie=True)  # type: ignore[call-arg]


def test_the_defaults_are_the_documented_ones() -> None:
    plain = dh.Trigger.webmethods("orders")
    assert plain.detect_duplicates is False
    assert plain.use_history is False
    assert plain.resolver is None
    assert plain.processing_mode == "concurrent"
    assert plain.suspend_and_retry_on_error is True
    assert plain.suspend_on_failure is False
    assert plain.max_delivery_count == 100
    assert plain.in_batch is None
    assert plain.expiry == "until_purged"


def test_rows_beyond_the_batch_are_refused(history: dh.History) -> None:
    claim = history.begin(documents(["a"]), trigger())
    with pytest.raises((dh.StateError, IndexError, ValueError)):
        claim.complete(rows=[1])
