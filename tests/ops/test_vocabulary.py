"""The checks of words and of test names; `tools/prose.py --check` applies them to the project."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools import vocabulary

ROOT = Path(__file__).parents[2]

SPOKEN = [
    "Whoever asks gets it.",
    "It is built anew.",
    "So many files, so often.",
    "Again and again it looks.",
    "Upkeep runs beside it.",
    "A left-over file.",
    "The next one takes it away.",
    "A rolled-up filter.",
    "It waits in its turn.",
    "The rest of the house.",
    "Rows are sifted.",
    "This was not foreseen.",
    "It polls in vain.",
]


@pytest.mark.parametrize("sentence", SPOKEN)
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.md", "{}\n"),
        ("a.py", '"""{}"""\n'),
        ("a.py", 'class A:\n    b = 1\n    """{}"""\n'),
        ("a.py", "a = 1  # {}\n"),
        ("a.rs", "/// {}\nfn a() {{}}\n"),
    ],
)
def test_banned_words_in_prose_are_found(sentence: str, name: str, form: str) -> None:
    assert vocabulary.banned_words(Path(name), form.format(sentence))


def test_banned_words_divided_by_a_line_are_found_once() -> None:
    assert vocabulary.banned_words(Path("a.md"), "One takes it\naway, and goes.\n") == [
        'a.md:2: "takes it away": remove, delete, collect'
    ]


def test_words_in_code_and_links_are_no_prose() -> None:
    page = "See `upkeep` and [that](https://example.org/anew).\n\n```\nso many, so often\n```\n"
    assert vocabulary.banned_words(Path("a.md"), page) == []


def test_text_of_a_program_is_no_prose() -> None:
    assert vocabulary.banned_words(Path("a.py"), 'a = "built # anew"\n') == []


def test_plain_words_are_not_banned() -> None:
    page = "The sum returns soon. It takes a minute, far away. So far so good; also, turn left over there.\n"
    assert vocabulary.banned_words(Path("a.md"), page) == []


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.py", "def {}() -> None: ...\n"),
        ("a.py", "class A:\n    async def {}(self) -> None: ...\n"),
        ("a.rs", "#[test]\nfn {}() {{}}\n"),
        ("a.rs", "#[test]\n#[ignore]\nfn {}() {{}}\n"),
    ],
)
def test_names_over_60_characters_are_found(name: str, form: str) -> None:
    for length, found in ((60, 0), (61, 1)):
        test = "test_".ljust(length, "x")
        assert len(vocabulary.long_names(Path(name), form.format(test))) == found


def test_pages_and_sources_of_the_package_are_prose() -> None:
    prose = (
        "README.md",
        "docs/a.md",
        "rust/core/src/lib.rs",
        "rust/core/tests/fuzz.rs",
        "rust/python/src/arrow.rs",
        "python/dochistory/cli/run.py",
        "python/pyspark_dochistory/__init__.py",
    )
    others = ("tools/prose.py", "benches/runner.py", "python/dochistory/_native.pyi")
    assert [path for path in prose + others if vocabulary.is_prose(Path(path))] == list(prose)


def test_glossary_has_at_most_25_words_each_once() -> None:
    lines = (ROOT / "docs/glossary.md").read_text().splitlines()
    words = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    assert 10 < len(words) <= 25
    assert len(set(words)) == len(words)


def test_check_of_nothing_fails() -> None:
    assert vocabulary.findings([], [])


def test_check_fails_for_a_page_with_banned_words(tmp_path: Path) -> None:
    """As a contributor runs it, in a repository of its own."""
    for name, text in (("a.md", "Built anew.\n"), ("a.py", "A = 1\n"), ("a.rs", "fn a() {}\n")):
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "tools.prose", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert (ran.returncode, ran.stdout) == (1, 'a.md:1: "anew": again, or a verb with re-\n')
    (tmp_path / "a.md").write_text("Built again.\n")
    assert subprocess.run(command, cwd=tmp_path, check=False, env=environment).returncode == 0
