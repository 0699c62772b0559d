"""Mappings one by one: lookup, create, update, remove, mirror entries, expiry, purge, ids of every form."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import dochistory as dh
from tests.mapper.support import T0, errors, listed, mapped, messages, pending, rules

DAY = dt.timedelta(days=1)


def test_what_is_created_is_found_in_one_direction_only(mapper: dh.MessageIdMapper) -> None:
    assert errors(mapper.create(["a", "b"], ["1", None])) == [None, None]
    assert mapped(mapper, ["a", "b", "1", "c"]) == ["1", None, False, False]
    found = mapper.lookup(["b", "c"])
    assert found["found"].to_pylist() == [True, False], "a mapping to nothing is a mapping"
    assert found["mapped_id"].to_pylist() == [None, None]


def test_rows_with_errors_are_named_and_the_others_are_done(mapper: dh.MessageIdMapper) -> None:
    assert errors(mapper.create(["a", "a", None, "", "x" * 65_536, "b"])) == [
        None,
        "EXISTS",
        "NO_ID",
        "NO_ID",
        "TOO_LONG",
        None,
    ]
    assert errors(mapper.create(["a", "c"], ["1", "2"])) == ["EXISTS", None]
    assert errors(mapper.update(["a", "d", "a"], ["3", "4", "5"])) == [None, "NOT_FOUND", "EXISTS"]
    assert errors(mapper.update(["d", "d"], ["3", "4"])) == ["NOT_FOUND", "NOT_FOUND"]
    assert errors(mapper.remove(["b", "b", "e"])) == [None, "NOT_FOUND", "NOT_FOUND"]
    assert listed(mapper) == {"a": "3", "c": "2"}


def test_an_id_of_up_to_65535_bytes_is_as_good_as_any(mapper: dh.MessageIdMapper) -> None:
    ids = ["x" * 97, "x" * 98, "ä" * 32_767, "y" * 65_535, str(uuid.uuid4()), str(uuid.uuid4()).upper(), " "]
    assert errors(mapper.create(ids, [str(number) for number in range(len(ids))])) == [None] * len(ids)
    assert mapped(mapper, ids) == [str(number) for number in range(len(ids))]
    assert set(listed(mapper)) == set(ids)


@pytest.mark.parametrize("form", ["list", "array", "large", "dictionary", "chunked", "table", "polars", "uuid"])
def test_ids_come_in_any_form(mapper: dh.MessageIdMapper, form: str) -> None:
    made = [uuid.UUID(int=number << 64 | number) for number in range(5)]
    texts = [str(one) for one in made]
    given = {
        "list": texts,
        "array": pa.array(texts),
        "large": pa.array(texts, pa.large_string()),
        "dictionary": pa.array(texts).dictionary_encode(),
        "chunked": pa.chunked_array([texts[:2], texts[2:]]),
        "table": pa.table({"id": texts, "other": [1, 2, 3, 4, 5]}),
        "polars": pl.Series(texts),
        "uuid": pa.array([one.bytes for one in made], pa.binary(16)),
    }[form]
    assert errors(mapper.create(given, texts)) == [None] * 5
    assert mapped(mapper, texts) == texts


def test_columns_that_do_not_fit_are_refused(mapper: dh.MessageIdMapper) -> None:
    with pytest.raises(dh.SchemaError, match="has 1 rows; needed are 2"):
        mapper.create(["a", "b"], ["1"])
    with pytest.raises(dh.SchemaError, match="Int64"):
        mapper.lookup(pa.array([1, 2]))
    with pytest.raises(dh.SchemaError, match='no column "id"'):
        mapper.begin_send(pa.table({"key": ["a"]}))
    with pytest.raises(dh.ConfigError, match="qos is"):
        mapper.begin_send(messages(["a"], qos=["EOIOIO"]))
    with pytest.raises(dh.ConfigError, match="decision is"):
        mapper.resolve(["a"], "perhaps")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"pending": "never"}, {"expiry": "soon"}, {"persist": "long"}])
def test_invalid_settings_are_refused(history: dh.History, wrong: dict[str, str]) -> None:
    with pytest.raises(dh.ConfigError, match=next(iter(wrong))):
        history.mapper("x", **wrong)  # type: ignore[arg-type]


def test_channels_have_ids_of_their_own(history: dh.History) -> None:
    history.mapper("a").create(["1"], ["x"])
    history.mapper("b").create(["1"], ["y"])
    assert mapped(history.mapper("a"), ["1"]) == ["x"]
    assert history.mappers() == ["a", "b"]
    assert history.triggers() == []


def test_mirror_entries_lead_back(history: dh.History) -> None:
    mapper = history.mapper("m", mirror=True)
    assert errors(mapper.create(["a", "b"], ["1", "2"])) == [None, None]
    assert mapped(mapper, ["1", "2"]) == ["a", "b"]
    assert errors(mapper.create(["c", "d", "e"], ["1", "3", "3"])) == ["MIRROR_EXISTS", None, "MIRROR_EXISTS"]
    assert errors(mapper.update(["a", "b"], ["9", "2"])) == [None, None]
    assert mapped(mapper, ["1", "9", "2"]) == [False, "a", "b"]
    mapper.remove(["a"])
    assert mapped(mapper, ["a", "9"]) == [False, False]
    send = mapper.begin_send(messages(["out"]))
    send.complete(["ext"])
    assert mapped(mapper, ["ext"]) == ["out"]


def test_rows_of_one_call_see_each_others_mirrors(history: dh.History) -> None:
    mapper = history.mapper("m", mirror=True)
    assert errors(mapper.create(["a", "d", "A"], ["A", "a", "q"])) == [None, "MIRROR_EXISTS", "EXISTS"]
    assert mapped(mapper, ["a", "A", "d", "q"]) == ["A", "a", False, False]
    with mapper.unit_of_work() as unit:
        assert errors(unit.create(["x", "y", "X"], ["X", "X", "q"])) == [None, "MIRROR_EXISTS", "EXISTS"]
        assert errors(unit.create(["z", "b"], ["A", "B"])) == ["MIRROR_EXISTS", None]
    assert mapped(mapper, ["x", "X", "y", "b", "B"]) == ["X", "x", False, "B", "b"]


def test_a_mirror_leaves_a_doubt_and_another_mapping_alone(history: dh.History) -> None:
    one_way, mapper = history.mapper("m"), history.mapper("m", mirror=True)
    mapper.begin_send(messages(["A", "m2"]))
    assert errors(mapper.create(["a"], ["A"])) == ["MIRROR_EXISTS"]
    mapper.create(["a"], ["x"])
    assert errors(mapper.update(["a"], ["A"])) == ["MIRROR_EXISTS"]
    with mapper.unit_of_work() as unit:
        assert errors(unit.create(["u"], ["A"])) == ["MIRROR_EXISTS"]
    mapper.begin_send(messages(["m1"])).complete(["m2"])
    assert mapped(mapper, ["m1", "m2", "A", "a", "u"]) == ["m2", False, False, "x", False]
    assert rules(mapper.begin_send(messages(["A", "m2"]))) == ["M3", "M3"]
    mapper.remove(["m1"])
    assert pending(mapper) == ["A", "m2"]
    one_way.create(["b", "B", "c"], ["B", "q", "C"])
    mapper.begin_send(messages(["d"])).complete(["b"])
    mapper.update(["c"], ["D"])
    mapper.remove(["b"])
    assert mapped(mapper, ["b", "B", "d", "c", "D"]) == [False, "q", "b", "D", "c"]


@pytest.mark.parametrize("column", [pa.array(["forever"]), pa.array(["7 days"]), pa.array([604_800])])
def test_a_column_that_has_no_times_is_refused(mapper: dh.MessageIdMapper, column: pa.Array) -> None:
    with pytest.raises(dh.SchemaError, match=r"persist_until is (Utf8|Int64); allowed are times"):
        mapper.create(["a"], None, column)
    assert mapped(mapper, ["a"]) == [False]


def test_a_time_too_far_to_be_kept_is_not_the_default(mapper: dh.MessageIdMapper) -> None:
    with pytest.raises(dh.SchemaError, match=r'persist_until holds a time beyond the year 294246.*"forever"'):
        mapper.create(["a", "b"], None, pa.array([None, 2**63 - 1], pa.timestamp("ms", "UTC")))
    assert mapped(mapper, ["a", "b"]) == [False, False]


@pytest.mark.parametrize("until", [dt.timedelta(days=-7), dt.timedelta(0), -5, 0, "0 s"])
def test_entries_are_kept_for_a_time_longer_than_nothing(mapper: dh.MessageIdMapper, until: object) -> None:
    with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] persist_until .*must be longer than 0"):
        mapper.create(["a"], None, until)  # type: ignore[arg-type]
    assert errors(mapper.create(["a"], None, T0)) == [None], "a time that is over may be meant"


def test_an_other_id_that_is_too_long_is_an_error_of_its_row(history: dh.History) -> None:
    mapper = history.mapper("m", mirror=True)
    assert errors(mapper.create(["a", "b"], ["x" * 70_000, "B"])) == ["TOO_LONG", None]
    mapper.begin_send(messages(["c"])).complete(["x" * 70_000])
    assert mapped(mapper, ["a", "b", "c"]) == [False, "B", "x" * 70_000]


def test_an_entry_counts_until_it_is_purged(mapper: dh.MessageIdMapper) -> None:
    mapper.create(["a", "b", "c"], None, pa.array([T0 + DAY, T0 + 2 * DAY, None], pa.timestamp("us", "UTC")), now=T0)
    mapper.create(["d"], None, "forever", now=T0)
    late = T0 + 30 * DAY
    assert mapped(mapper, ["a", "b"], now=late) == [None, None]
    assert mapper.purge(T0 + DAY, dry_run=True)["entries"] == 1
    assert mapper.purge(T0 + DAY)["entries"] == 1
    assert mapped(mapper, ["a", "b", "c", "d"]) == [False, None, None, None]
    assert mapper.purge(T0 + 40 * DAY)["entries"] == 2
    assert mapper.purge(T0 + 40 * DAY)["entries"] == 0
    assert listed(mapper) == {"d": None}
    assert errors(mapper.create(["a"], ["new"])) == [None]
    assert mapped(mapper, ["a"]) == ["new"], "what is written after a purge is not meant by it"


def test_an_exact_expiry_ends_entries_on_time(history: dh.History) -> None:
    mapper = history.mapper("x", expiry="exact")
    mapper.create(["a"], ["1"], T0 + DAY, now=T0)
    assert mapped(mapper, ["a"], now=T0 + DAY - dt.timedelta(microseconds=1)) == ["1"]
    assert mapped(mapper, ["a"], now=T0 + DAY) == [False]
    assert rules(mapper.begin_send(messages(["a"]), now=T0 + DAY)) == ["M1"]
    assert errors(mapper.create(["b", "c"], None, "1 hour", now=T0)) == [None, None]
    assert errors(mapper.create(["b"], None, "1 hour", now=T0 + DAY)) == [None]


def test_what_is_pending_is_purged_only_when_asked(mapper: dh.MessageIdMapper) -> None:
    mapper.begin_send(messages(["p"]), persist_until=T0 + DAY, now=T0)
    assert mapper.purge(T0 + 400 * DAY)["entries"] == 0
    assert rules(mapper.begin_send(messages(["p"]))) == ["M3"]
    assert mapper.purge(T0 + 400 * DAY, include_pending=True)["entries"] == 1
    assert pending(mapper) == []
    assert rules(mapper.begin_send(messages(["p"]))) == ["M1"]


def test_entries_survive_reopening_maintenance_and_a_backup(path: Path) -> None:
    ids = [str(uuid.UUID(int=number)) for number in range(1000)] + [f"urn:{number}" for number in range(1000)]
    with dh.open(path, create=True) as history:
        mapper = history.mapper("m")
        for start in range(0, 2000, 500):
            mapper.create(ids[start : start + 500], ids[start : start + 500])
            mapper.maintain(all=True)
        mapper.remove(ids[:10])
    with dh.open(path, read_only=True) as history:
        mapper = history.mapper("m")
        assert mapped(mapper, ids) == [False] * 10 + ids[10:]
        assert mapper.verify() > 0
        assert history.verify() == mapper.verify()
        assert history.stats()["mappers"]["m"] == mapper.stats()
        with pytest.raises(dh.ReadOnlyError):
            mapper.create(["x"])


def test_a_closed_history_is_said_so(path: Path) -> None:
    with dh.open(path, create=True) as history:
        mapper = history.mapper("m")
    with pytest.raises(dh.StateError, match="closed"):
        mapper.lookup(["a"])


@pytest.mark.slow
def test_a_million_ids_are_mapped_found_sent_and_purged(path: Path) -> None:
    count = 1_000_000
    ids = pa.array(
        [str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)) for number in range(count)]
    )
    external = pa.array([f"ID:{number}" for number in range(count)])
    with dh.open(path, create=True) as history:
        mapper = history.mapper("big")
        assert mapper.create(ids, external, T0 + DAY)["error"].null_count == count
        assert mapper.lookup(ids)["mapped_id"].equals(external)
        send = mapper.begin_send(pa.record_batch({"id": ids}))
        assert set(rules(send)) == {"M2"}
        other = history.mapper("out")
        send = other.begin_send(pa.record_batch({"id": ids}))
        assert len(send.rows) == count
        send.complete(external)
        assert pending(other) == []
    with dh.open(path) as history:
        assert history.mapper("out").lookup(ids)["mapped_id"].equals(external)
        history.mapper("out").maintain(all=True)
        assert history.mapper("out").lookup(ids)["mapped_id"].equals(external)
        assert history.mapper("big").purge(T0 + DAY)["entries"] == count
        assert history.mapper("big").lookup(ids)["found"].true_count == 0
        assert history.mapper("big").stats()["files"] == 0


def test_purge_far_ahead_of_the_clock_has_to_be_forced(mapper: dh.MessageIdMapper) -> None:
    now = dt.datetime.now(dt.UTC)
    mapper.create(["a"], None, now + DAY, now=now)
    mapper.create(["kept"], None, "forever", now=now)
    later = dt.datetime(2099, 1, 1, tzinfo=dt.UTC)
    with pytest.raises(dh.ConfigError, match=r"2099.*ahead of this machine's clock.*force=True"):
        mapper.purge(later)
    assert mapper.purge(later, dry_run=True)["entries"] == 1
    assert mapped(mapper, ["a", "kept"]) == [None, None]
    assert mapper.purge(later, force=True)["entries"] == 1
    assert mapped(mapper, ["a", "kept"]) == [False, None]
