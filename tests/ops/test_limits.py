"""The figures in docs/limits.md are those of the code, and what is refused is refused with a code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from tests.support import documents, rules, trigger

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")


def row(what: str) -> str:
    """The second column of a row of the page."""
    (found,) = [line for line in PAGE.splitlines() if line.startswith(f"| {what} |")]
    return found.split("|")[2].strip()


def figure(what: str) -> int:
    """The last number in it."""
    return int(re.findall(r"\d[\d,]*", row(what))[-1].replace(",", ""))


def constant(name: str) -> str:
    """What the engine sets a limit to, outside of tests."""
    pattern = rf"const {name}: \w+ = (?:if cfg!\(feature = \"small\"\) {{[^}}]*}} else {{ ([^}}]*) }}|(.*));"
    sources = (ROOT / "rust" / "core" / "src").rglob("*.rs")
    (found,) = [match for source in sources for match in re.finditer(pattern, source.read_text(encoding="utf-8"))]
    return found[1] or found[2]


def test_id_beyond_its_limit_of_code_points_is_r4(history: dh.History) -> None:
    most = figure("a document's id")
    assert rules(history.classify(documents(["ä" * most, "ä" * (most + 1)]), trigger())) == ["R8", "R4"]


def test_name_beyond_its_limit_is_refused(history: dh.History) -> None:
    most = int(re.findall(r"\d+", row("a trigger's name"))[1])
    history.begin(documents(["a"]), trigger("x" * most)).complete()
    history.begin(documents(["a"]), trigger("ä" * (most // 2))).complete()
    for name in ("", "x" * (most + 1), "ä" * (most // 2 + 1), "a\0b"):
        with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\] the trigger's name"):
            trigger(name)


@pytest.mark.parametrize(
    "settings",
    [{"history_time_to_live": 0}, {"history_time_to_live": "1 month"}, {"max_delivery_count": 0}],
)
def test_settings_beyond_their_limits_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(dh.ConfigError, match="DH-CONFIG"):
        trigger(**settings)
    trigger(kind="jms", history_time_to_live="1 us", max_delivery_count=1)


def test_shards_beyond_the_limit_or_no_power_of_two_are_refused(tmp_path: Path) -> None:
    most = figure("`shards` of a new history")
    dh.open(tmp_path / "most", create=True, shards=most).close()
    for shards in (0, 3, most * 2):
        with pytest.raises(dh.ConfigError, match="shards"):
            dh.open(tmp_path / "more", create=True, shards=shards)


def test_the_number_of_a_transaction_has_64_bits(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger(), transaction=("app", 2**63 - 1)).complete()
    with pytest.raises(dh.ConfigError, match="transaction"):
        history.begin(documents(["b"]), trigger(), transaction=("other", 2**63))


def test_id_of_a_mapper_beyond_its_limit_is_too_long(history: dh.History) -> None:
    mapper, most = history.mapper("ids"), figure("an id of a mapper")
    answers = mapper.create(["x" * most, "x" * (most + 1)], ["y", "z"], "forever").to_pylist()
    assert [one["error"] for one in answers] == [None, "TOO_LONG"]


def test_mapped_id_beyond_its_limit_is_refused(history: dh.History) -> None:
    mapper, most = history.mapper("ids"), figure("a mapped id")
    mapper.create(["a"], ["y" * most], "forever")
    with pytest.raises(dh.SchemaError, match=f"a mapped id of {most + 1} bytes; the most is {most}$"):
        mapper.create(["b"], ["y" * (most + 1)], "forever")
    assert mapper.lookup(["a", "b"])["found"].to_pylist() == [True, False]


ENGINE: list[tuple[str, str, Callable[[int], str]]] = [
    ("entries of one segment", "MOST_ENTRIES", lambda most: f"{most >> 20} << 20"),
    ("UUIDs in the log of a trigger", "MOST_UUIDS", lambda most: f"{most >> 10} << 10"),
    (
        "new keys of a batch that go into a segment at once",
        "LARGE_BATCH",
        lambda most: f"{most >> 10} << 10",
    ),
    ("entries of a map's log", "MOST_IN_LOG", lambda most: f"{most >> 10} << 10"),
    ("bytes of a map's log", "MOST_LOG_BYTES", lambda most: f"{most} << 20"),
    ("ids that one finding of `repair` names", "MOST_NAMED", lambda most: f"{most:_}"),
]


@pytest.mark.parametrize(("what", "name", "written"), ENGINE, ids=[one[1] for one in ENGINE])
def test_the_page_names_the_engines_own_limit(what: str, name: str, written: Callable[[int], str]) -> None:
    most = int(re.findall(r"\d[\d,]*", row(what))[0].replace(",", ""))
    assert constant(name) == written(most)


def test_the_other_limits_of_the_engine_are_as_the_page_says() -> None:
    assert "1 GiB, and 16,777,216 entries" in row("a change of a map")
    assert constant("MOST_CHANGE_BYTES") == "1 << 30"
    assert (1 << 30) // 64 == 16_777_216
    assert row("a snapshot (`pin`)").startswith("a week")
    assert constant("MOST_AGE_US") == "7 * 24 * 3600 * 1_000_000"
    assert "2^62" in row("numbers of operations and files")
    assert constant("MOST_NUMBER") == "1 << 62"


def test_the_file_kept_for_the_next_log_has_these_lengths() -> None:
    source = (ROOT / "rust/core/src/wal/recycle.rs").read_text(encoding="utf-8")
    least, most = re.findall(r"(\d+) << 20\.\.=(\d+) << 20", source)[-1]
    kept = row("the file of a trigger's log that is over, for the next one (ext4, XFS)")
    assert kept.startswith(f"{least} to {most} MiB")
    assert row("room in the file of a trigger's log behind what counts").startswith(f"up to {most} MiB")
