"""Triggers' settings in a file."""

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory.settings import settings_from_toml, triggers_from_toml

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "dochistory.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_every_setting_of_a_trigger_can_stand_in_the_file(write: Write) -> None:
    path = write("""
        [triggers.orders]
        kind = "jms"
        detect_duplicates = true
        use_history = true
        history_time_to_live = "30 days"
        resolver = "tests.ops.test_settings:answer"
        processing_mode = "serial"
        suspend_and_retry_on_error = false
        suspend_on_failure = true
        max_delivery_count = 7
        in_batch = "new"
        expiry = "exact"

        [triggers."with spaces"]
        history_time_to_live = 90
    """)
    triggers = triggers_from_toml(path)
    assert list(triggers) == ["orders", "with spaces"]
    assert triggers["orders"] == dh.Trigger(
        "orders",
        kind="jms",
        detect_duplicates=True,
        use_history=True,
        history_time_to_live="30 days",
        resolver=answer,
        processing_mode="serial",
        suspend_and_retry_on_error=False,
        suspend_on_failure=True,
        max_delivery_count=7,
        in_batch="new",
        expiry="exact",
    )
    assert triggers["with spaces"].history_time_to_live == dt.timedelta(seconds=90)


def answer(batch: Any) -> list[str]:
    return ["NEW"] * len(batch)


no_function = 5


def test_defaults_hold_for_every_trigger_without_own_settings(write: Write) -> None:
    path = write("""
        defaults = {detect_duplicates = true, processing_mode = "serial"}
        triggers.a = {}
        triggers.b.processing_mode = "concurrent"
    """)
    triggers = triggers_from_toml(path)
    assert [triggers[name].processing_mode for name in "ab"] == ["serial", "concurrent"]
    assert all(trigger.detect_duplicates for trigger in triggers.values())


def test_a_default_of_one_kind_leaves_out_triggers_of_the_other(write: Write) -> None:
    path = write("""
        defaults = {max_delivery_count = 7, max_redelivery_count = 5}
        triggers.a = {}
        triggers.b.kind = "messaging"
        triggers.c.kind = "jms"
    """)
    triggers = triggers_from_toml(path)
    assert [triggers[name].max_redelivery_count for name in "abc"] == [5, 5, None]
    assert [triggers[name].max_delivery_count for name in "abc"] == [100, 100, 7]


def test_the_history_is_found_beside_the_file(write: Write) -> None:
    assert settings_from_toml(write('history = "x/orders.history"')).history == write("").parent / "x/orders.history"
    assert settings_from_toml(write('history = "/var/orders.history"')).history == Path("/var/orders.history")
    assert settings_from_toml(write("")).history is None
    assert triggers_from_toml(write("")) == {}


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (1, "nonsense", "not TOML"),
        (2, "[triggers.a]\nkind = \n", "not TOML"),
        (3, '# a\n\ntrigers = 1\nhistory="x"', "unknown setting 'trigers'; there are defaults, history, triggers"),
        (1, "history = 5", "history is 5; it must be text in quotes"),
        (1, "triggers = 5", "triggers is 5: it must be a table"),
        (2, "[triggers]\na = true", "triggers.a is True: it must be a table"),
        (4, "[triggers.a]\n\n# why\nkin = 'jms'", "unknown setting 'kin'"),
        (3, "[triggers.a]\nuse_history = true\nkind = 'telepathy'", 'kind is "telepathy"; allowed is'),
        (2, "[triggers.a]\nuse_history = 1", "use_history is 1; it must be true or false"),
        (2, "[triggers.a]\nuse_history = 'true'", 'use_history is "true"; it must be true or false'),
        (2, "[triggers.a]\nmax_delivery_count = true", "max_delivery_count is true; it must be a whole number"),
        (2, "[triggers.a]\nmax_delivery_count = -1", "max_delivery_count"),
        (2, "[triggers.a]\nmax_delivery_count = 99999999999999999999", "[a-z]"),
        (2, "[triggers.a]\nhistory_time_to_live = '3 fortnights'", "is no unit of time"),
        (2, "[triggers.a]\nhistory_time_to_live = []", "text in quotes or a number of seconds"),
        (3, "[triggers.a]\nkind = 'jms'\nresolver = 'x'", 'it must be "module:function"'),
        (2, "[triggers.a]\nresolver = 'no.such.module:f'", "cannot be imported: No module named 'no'"),
        (2, "[triggers.a]\nresolver = 'tests.ops.test_settings:nothing'", "cannot be imported"),
        (2, "[triggers.a]\nresolver = 'tests.ops.test_settings:no_function'", "is a int; it must be a function"),
        (2, "[defaults]\nkind = 'x'\n[triggers.a]\nuse_history = true", 'kind is "x"'),
        (2, "[defaults]\nfoo = 'x'", "unknown setting 'foo'"),
        (2, "[defaults]\nresolver = 'x'\n[triggers.a]", "module:function"),
        (1, "triggers.a = {use_history = true, kind = 'x'}", 'kind is "x"'),
        (3, 'triggers.b.use_history = true\n\ntriggers."a.b".kind = "x"', 'kind is "x"'),
        (3, '[triggers.a]\nhistory_time_to_live = "1 day"\nin_batch = """\n[triggers.b]\nkind = 1\n"""', "in_batch"),
        (2, "[triggers.a]\nmax_delivery_count = 7", 'a trigger of kind "messaging" does not have it'),
        (3, "[triggers.a]\nkind = 'jms'\nmax_redelivery_count = 7", 'a trigger of kind "jms" does not have it'),
        (4, "[triggers.a]\nkind = 'jms'\nmax_delivery_count = 7\nexpiry = 'x'", "expiry"),
        (2, "[defaults]\nmax_delivery_count = -1\n[triggers.a]", "max_delivery_count is -1; allowed is 1 or more"),
        (1, "[mappers.m]\nhistory_time_to_live = 5", "unknown setting 'mappers'"),
        (1, f"[triggers.{'x' * 300}]\nuse_history = true", "255"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(write: Write, line: int, text: str, said: str) -> None:
    path = write(text)
    with pytest.raises(dh.ConfigError) as raised:
        triggers_from_toml(path)
    told = str(raised.value)
    assert told.startswith(f"[DH-CONFIG] {path}:{line}: ")
    assert told.count("[DH-") == 1
    assert said in told or re.search(said, told)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(dh.ConfigError, match=r"none\.toml: the settings file cannot be read: No such file"):
        triggers_from_toml(tmp_path / "none.toml")
    with pytest.raises(dh.ConfigError, match="cannot be read: Is a directory"):
        triggers_from_toml(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"[defaults]\n# \xe4\n")
    with pytest.raises(dh.ConfigError, match=r"latin\.toml:2: this is not UTF-8"):
        triggers_from_toml(tmp_path / "latin.toml")


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "bom.toml").write_text("[triggers.a]\n", encoding="utf-8-sig")
    assert list(triggers_from_toml(tmp_path / "bom.toml")) == ["a"]
