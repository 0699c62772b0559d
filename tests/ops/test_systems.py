"""The page that sets the five systems beside this one: every test that it names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.(?:py|rs))::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_that_is_named_exists(file: str, name: str) -> None:
    python = file.endswith(".py")
    source = (ROOT / ("tests" if python else "rust/core") / file).read_text(encoding="utf-8")
    assert re.search(rf"^(?:    )?(?:async )?{'def' if python else 'fn'} {name}\(", source, re.MULTILINE)


def test_every_sentence_names_a_test() -> None:
    sentences = re.split(r"^- ", PAGE, flags=re.MULTILINE)[1:]
    assert len(sentences) > 50
    assert [sentence for sentence in sentences if not re.search(r"^  - `[\w/.]+::\w+`$", sentence, re.MULTILINE)] == []


def test_there_are_five_systems() -> None:
    assert re.findall(r"^## (\d)\.", PAGE, re.MULTILINE) == ["1", "2", "3", "4", "5"]
