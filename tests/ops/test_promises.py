"""Every test that a promise names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text()
# Each promise: its number, and what stands below its heading.
PROMISES = re.findall(r"^### (\d+)\. [^\n]+\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
RUST = [*(ROOT / "rust").glob("core/tests/**/*.rs"), *(ROOT / "rust").glob("core/src/**/*.rs")]


def named_below(promise: str) -> str:
    """The list below a promise's sentences."""
    return "".join(re.findall(r"^- .*\n(?:  .*\n)*", promise, re.MULTILINE))


def test_every_promise_names_a_test() -> None:
    assert [int(number) for number, _ in PROMISES] == list(range(1, len(PROMISES) + 1))
    assert len(PROMISES) >= 25
    for number, promise in PROMISES:
        assert "`" in named_below(promise), f"promise {number} names no test"


def test_every_test_that_a_promise_names_exists() -> None:
    named = [word for _, promise in PROMISES for word in re.findall(r"`([^`]+)`", named_below(promise))]
    file: Path | None = None
    seen = 0
    for word in named:
        if word.startswith("…::"):
            assert file is not None
            place, test = file, word.removeprefix("…::")
        elif "::" in word:
            name, _, test = word.partition("::")
            place = ROOT / "tests" / name
        elif "/" in word or word.endswith(".py"):
            assert any((root / word).exists() for root in (ROOT, ROOT / "tests", ROOT / "rust/core/tests")), word
            file = ROOT / "tests" / word
            continue
        elif word.isupper():
            continue  # a setting of a test
        elif word.endswith(".rs"):
            assert any(one.name == word for one in RUST), word
            continue
        else:
            assert any(re.search(rf"\bfn {re.escape(word)}\(", one.read_text()) for one in RUST), word
            seen += 1
            continue
        file = place
        assert re.search(rf"\bdef {re.escape(test)}\(", place.read_text()), word
        seen += 1
    assert seen > 20
