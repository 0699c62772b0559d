"""Check the words of prose, and the length of test names. `tools/prose.py --check` runs it.

Code spans, code blocks and URLs are not prose. A new rule is a row of `BANNED`; a new place to look
is a row of `PROSE`.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

# What reads as translated, or is this project's own word for a thing that has a name; and what to say instead.
BANNED = {
    r"who(m)?ever": "name the person or the program",
    r"anew": "again, or a verb with re-",
    r"so (many|often|long|few)": "a number, or: up to, at most, repeatedly, while",
    r"again and again": "repeatedly",
    r"up-?keep": "maintenance",
    r"left-?overs?": "orphan, stale, remaining",
    r"(take|takes|took|taken|taking)( \w+)? away": "remove, delete, collect",
    r"(roll|rolls|rolled|rolling)[- ]?up": "global filter, compact",
    r"(in|within|holds?|of) (its|our|their|the|a|his) turn": "writer lock",
    r"(rest|rooms) of the house": "name it",
    r"sift(s|ed|ing)?": "filter",
    r"sees? to (it|that)": "ensure",
    r"of no avail|in vain": "without success",
    r"foreseen": "internal error, unexpected",
    r"makes? (a|the) while": "takes time",
    r"is (said|told) (so|as much)": "name who reports what",
    r"nothing that counts": "no effect",
    r"for ever": "forever",
    r"henceforth|thereupon|whence|whereof|thereof|hitherto": "plain words",
}
PATTERN = re.compile(r"(?<![\w-])(?:" + "|".join(f"(?:{word})" for word in BANNED) + r")(?![\w-])", re.IGNORECASE)
# Where prose is checked: patterns of paths from the repository's root, in which `*` matches directories too.
PROSE = (
    "*.md",
    "rust/core/src/*.rs",
    "rust/core/tests/*.rs",
    "rust/python/src/*.rs",
    "python/dochistory/*.py",
    "python/pyspark_dochistory/*.py",
)
LONGEST_NAME = 60
PYTHON_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)\(", re.MULTILINE)
RUST_TEST = re.compile(r"#\[(?:\w+::)?test(?:_case\([^\n]*\))?\]\s*(?:#\[[^\n]*\]\s*)*(?:async )?fn (\w+)\(")


def in_markdown(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page without its code."""
    is_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"^\s*(```|~~~)", line):
            is_code = not is_code
        elif not is_code:
            yield number, line


def in_rust(text: str) -> Iterator[tuple[int, str]]:
    """Comments on lines of their own."""
    for number, line in enumerate(text.split("\n"), 1):
        if found := re.match(r"^\s*//[/!]?(.*)", line):
            yield number, found[1]


def in_python(text: str) -> Iterator[tuple[int, str]]:
    """Docstrings, of attributes too, and comments."""
    lines = text.split("\n")
    found = {
        token.start[0]: token.string.lstrip("#")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith("#!")
    }
    for node in ast.walk(ast.parse(text)):
        # A text that is a statement is the docstring of what it stands in, or of the attribute before it.
        if (
            isinstance(node, ast.Expr)
            and isinstance(value := node.value, ast.Constant)
            and isinstance(value.value, str)
        ):
            found |= {
                number: lines[number - 1] for number in range(value.lineno, (value.end_lineno or value.lineno) + 1)
            }
    yield from sorted(found.items())


def banned_words(path: PurePath, text: str) -> list[str]:
    """What a file's prose says in words that are banned: place, words, and what to say instead."""
    reader = {".md": in_markdown, ".rs": in_rust}.get(path.suffix, in_python)
    found = []
    before = ""
    for number, line in reader(text):
        prose = re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", "`", line).strip()
        # Words may be divided by the end of a line: the line before is searched along with each.
        start = len(before) + 1
        for match in PATTERN.finditer(f"{before} {prose}"):
            if match.end() > start:
                words = " ".join(match[0].split())
                instead = next(said for word, said in BANNED.items() if re.fullmatch(word, words, re.IGNORECASE))
                found.append(f'{path}:{number}: "{words}": {instead}')
        before = prose
    return found


def long_names(path: PurePath, text: str, longest: int = LONGEST_NAME) -> list[str]:
    """Tests of a file whose names are too long."""
    names = (PYTHON_TEST if path.suffix == ".py" else RUST_TEST).findall(text)
    return [f"{path}: {name}: {len(name)} characters, at most {longest}" for name in names if len(name) > longest]


def is_prose(path: PurePath) -> bool:
    """Whether a file's prose is checked."""
    return any(fnmatchcase(path.as_posix(), pattern) for pattern in PROSE)


def findings(paths: list[Path], exempt: list[str]) -> list[str]:
    """All findings in files of the project; that files of each kind were looked at is one of the conditions."""
    found: list[str] = []
    pages = [path for path in paths if is_prose(path)]
    sources = [path for path in paths if path.suffix in (".py", ".rs")]
    if (
        not pages
        or not any(path.suffix == ".rs" for path in sources)
        or not any(path.suffix == ".py" for path in sources)
    ):
        return ["tools/vocabulary.py: no pages, no Python or no Rust to look at: is this the repository's root?"]
    for page in pages:
        found += banned_words(page, page.read_text(encoding="utf-8"))
    for source in sources:
        if not any(source.is_relative_to(directory) for directory in exempt):
            found += long_names(source, source.read_text(encoding="utf-8"))
    return found
