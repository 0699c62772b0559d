"""A trigger is a value: it never changes, compares by its settings, and travels to other processes."""

from __future__ import annotations

import copy
import datetime
import inspect
import math
import pickle
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import documents, rules, trigger


def always_new(batch: pa.RecordBatch) -> list[str]:
    return ["NEW"] * batch.num_rows


FULL = {
    "kind": "jms",
    "detect_duplicates": False,
    "use_history": False,
    "history_time_to_live": timedelta(days=30, microseconds=1),
    "resolver": always_new,
    "processing_mode": "serial",
    "suspend_and_retry_on_error": False,
    "suspend_on_failure": True,
    "max_delivery_count": 7,
    "in_batch": "new",
    "expiry": "exact",
    "complete_resolved": False,
    "without_ids": "in_doubt",
}
OF_MESSAGES: dict[str, object] = {"max_redelivery_count": 5}
"""What a trigger of kind `jms` does not have."""


def with_kind(setting: str) -> dict[str, Any]:
    """The kind that has this setting."""
    return {"kind": "jms"} if setting == "max_delivery_count" else {}


@pytest.mark.parametrize("settings", [{}, FULL], ids=["defaults", "everything"])
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_survives_copying_and_pickling(settings: dict[str, Any], how: Any) -> None:
    one = dh.Trigger("orders", **settings)
    other = how(one)
    assert other == one
    assert hash(other) == hash(one)
    assert {name: getattr(other, name) for name in FULL} == {name: getattr(one, name) for name in FULL}


def test_it_tells_its_settings() -> None:
    one: Any = dh.Trigger("orders", **FULL)  # type: ignore[arg-type]
    assert one.name == "orders"
    assert {name: getattr(one, name) for name in FULL} == FULL


@pytest.mark.parametrize("setting", FULL | OF_MESSAGES)
def test_triggers_differ_by_every_setting(setting: str) -> None:
    changed = {**with_kind(setting), setting: (FULL | OF_MESSAGES)[setting]}
    one = dh.Trigger("orders", **changed)
    assert one != dh.Trigger("orders", **with_kind(setting))
    assert one != dh.Trigger("invoices", **changed)


def test_it_is_no_other_kind_of_thing() -> None:
    assert dh.Trigger("orders") != "orders"


def test_it_never_changes() -> None:
    with pytest.raises(AttributeError):
        dh.Trigger("orders").use_history = True  # type: ignore[misc]


def test_repr_of_a_trigger_evaluates_to_an_equal_one() -> None:
    one = trigger(history_time_to_live="36 hours", in_batch="duplicate")
    assert eval(repr(one), {"Trigger": dh.Trigger, "datetime": datetime}) == one


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("2 hours", timedelta(hours=2)),
        ("PT2H", timedelta(hours=2)),
        ("1 day 12 hours", timedelta(hours=36)),
        (timedelta(milliseconds=1.5), timedelta(microseconds=1500)),
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
    ],
)
def test_a_time_to_live_may_be_text_a_timedelta_or_seconds(given: Any, meant: timedelta) -> None:
    assert dh.Trigger("orders", history_time_to_live=given).history_time_to_live == meant


@pytest.mark.parametrize(
    "given", ["soon", "", -1, 0, 0.0, timedelta(0), timedelta.max, math.inf, math.nan, True, [], b"2 hours", 10**30]
)
def test_a_time_to_live_that_is_none_is_refused_by_name(given: Any) -> None:
    with pytest.raises(dh.ConfigError, match="history_time_to_live"):
        dh.Trigger("orders", history_time_to_live=given)


def test_a_resolver_may_be_any_callable(history: dh.History) -> None:
    class Resolver:
        def __call__(self, batch: pa.RecordBatch) -> list[str]:
            return ["DUPLICATE"] * batch.num_rows

    assert rules(history.classify(documents([None]), trigger(resolver=Resolver()))) == ["R3>S2"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"detect_duplicates": "yes"}, "detect_duplicates is 'yes'; allowed is True or False"),
        ({"kind": 7}, "kind is 7"),
        ({"max_delivery_count": "many"}, "max_delivery_count is 'many'; allowed is a whole number"),
        ({"in_batch": 1}, "in_batch is 1"),
        ({"resolver_attempts": 0}, "resolver_attempts is 0; allowed is a whole number from 1 on"),
        ({"resolver_attempts": True}, "resolver_attempts is True"),
        ({"resolver_backoff": -1}, "resolver_backoff"),
        ({"name": 5}, "name is 5; allowed is text"),
    ],
)
def test_settings_of_the_wrong_type_get_a_sentence_with_a_code(settings: Any, said: str) -> None:
    with pytest.raises(dh.ConfigError) as raised:
        dh.Trigger(**{"name": "orders", **settings})
    assert str(raised.value).startswith("[DH-CONFIG] ")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "foreign", "own"),
    [
        ("messaging", "max_delivery_count", "max_redelivery_count"),
        ("jms", "max_redelivery_count", "max_delivery_count"),
    ],
)
def test_a_setting_that_the_kind_lacks_is_refused(kind: Any, foreign: str, own: str) -> None:
    said = f'{foreign} is 3, and a trigger of kind "{kind}" does not have it: leave it out, or set {own}'
    with pytest.raises(dh.ConfigError) as raised:
        dh.Trigger("orders", kind=kind, **{foreign: 3})  # type: ignore[arg-type]
    assert said in str(raised.value)


def test_fields_are_the_constructors_settings() -> None:
    assert tuple(inspect.signature(dh.Trigger).parameters) == dh.Trigger.FIELDS


def test_a_replaced_setting_leaves_the_others() -> None:
    changed: dict[str, Any] = {
        "name": "other",
        "kind": "jms",
        "detect_duplicates": False,
        "use_history": False,
        "history_time_to_live": timedelta(days=3),
        "resolver": len,
        "processing_mode": "serial",
        "suspend_and_retry_on_error": False,
        "suspend_on_failure": True,
        "max_delivery_count": 7,
        "in_batch": "in_doubt",
        "expiry": "exact",
        "resolver_attempts": 1,
        "resolver_backoff": timedelta(seconds=2),
        "complete_resolved": False,
        "without_ids": "in_doubt",
    }
    assert {*changed, *OF_MESSAGES} == set(dh.Trigger.FIELDS)
    for name, value in (changed | OF_MESSAGES).items():
        before = dh.Trigger("orders", **with_kind(name))
        assert before.replace() == before
        after = before.replace(**{name: value})
        for field in dh.Trigger.FIELDS:
            assert getattr(after, field) == (value if field == name else getattr(before, field)), (name, field)
    everything = dh.Trigger("orders").replace(**changed)
    assert {field: getattr(everything, field) for field in changed} == changed


def test_a_replaced_setting_is_checked() -> None:
    with pytest.raises(dh.ConfigError, match="DH-CONFIG"):
        dh.Trigger("orders").replace(history_time_to_live="soon")
    with pytest.raises(TypeError, match="colour"):
        dh.Trigger("orders").replace(colour="red")  # type: ignore[call-arg]


def test_a_trigger_alone_detects_by_the_history_for_30_days() -> None:
    one = dh.Trigger("orders")
    assert (one.kind, one.detect_duplicates, one.use_history) == ("messaging", True, True)
    assert one.history_time_to_live == timedelta(days=30)
    assert repr(one) == "Trigger(\"orders\", kind='messaging')"


@pytest.mark.parametrize(("made", "kind"), [(dh.Trigger.webmethods, "messaging"), (dh.Trigger.jms, "jms")])
def test_documented_triggers_have_the_documented_defaults(made: Any, kind: Any) -> None:
    one = made("orders")
    assert (one.name, one.kind, one.detect_duplicates, one.use_history) == ("orders", kind, False, False)
    assert one.history_time_to_live == timedelta(hours=2)
    same = dh.Trigger(
        "orders",
        kind=kind,
        detect_duplicates=False,
        use_history=False,
        history_time_to_live="2 hours",
        complete_resolved=False,
        without_ids="in_doubt",
    )
    assert one == same
    assert eval(repr(one), {"Trigger": dh.Trigger, "datetime": datetime}) == one


def test_documented_triggers_take_every_other_setting() -> None:
    one = dh.Trigger.webmethods("orders", use_history=True, detect_duplicates=True, in_batch="new")
    assert (one.use_history, one.in_batch) == (True, "new")
    assert one.history_time_to_live == timedelta(hours=2)
    with pytest.raises(TypeError, match="of kind jms"):
        dh.Trigger.jms("orders", kind="messaging")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        dh.Trigger.jms("orders", colour="red")  # type: ignore[call-arg]


def test_default_trigger_on_a_history_of_0_1_0_names_both_ways(history: dh.History) -> None:
    # What 0.1.0 stored of a trigger without a time to live.
    old = dh.Trigger("orders", history_time_to_live="2 hours")
    history.begin(documents(["a"]), old).complete()
    assert rules(history.classify(documents(["a"]), dh.Trigger("orders"))) == ["R9"]
    with pytest.raises(dh.ConfigError, match=r"2 hours before 0\.2\.0, 30 days since") as raised:
        history.begin(documents(["b"]), dh.Trigger("orders"))
    assert 'history_time_to_live="2 hours"' in str(raised.value)
    assert 'dochistory change --trigger "orders" --time-to-live "30 days"' in str(raised.value)
    with pytest.raises(dh.ConfigError):
        history.purge(dh.Trigger("orders"))
    assert history.change(dh.Trigger("orders")) == timedelta(hours=2)
    assert rules(history.begin(documents(["a", "b"]), dh.Trigger("orders")).verdicts) == ["R9", "R8"]


def test_trigger_that_detected_nothing_begins_to_remember(history: dh.History) -> None:
    assert rules(history.begin(documents(["a"]), dh.Trigger.webmethods("orders")).verdicts) == ["R0"]
    history.begin(documents(["a"]), dh.Trigger("orders")).complete()
    assert rules(history.begin(documents(["a"]), dh.Trigger("orders")).verdicts) == ["R9"]
