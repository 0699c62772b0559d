"""Keep prose at 100 columns: Markdown, comments and docstrings.

    python -m tools.prose          # rewrap what is too wide
    python -m tools.prose --check  # fail where prose is too wide, or words or test names break a rule

Tables, code, headings, one-line docstrings and lines without a space to break at stay as they are.
Only a paragraph that holds a line which is too wide is wrapped again, so that a diff stays small.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools import vocabulary

WIDTH = 100
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)(?=\S)")
# A line that begins so would no longer be read as the middle of a paragraph.
MARKUP = re.compile(r"^([-*+>|#]|\d+[.)])(\s|$)")
VERBATIM = re.compile(r"^\s*(\||#|>|<|!\[|\[[^\]]+\]:|>>>|\.\.\.|@|:[a-z]+)")
FENCE = re.compile(r"^\s*(```|~~~)")
# A line of two columns, or one that ends in a break.
ALIGNED = re.compile(r"\S   +\S|  $")
HEADING = re.compile(r"^\s*(Args|Returns|Raises|Yields|Example|Examples|Attributes|Note|Errors|Panics)s?:\s*$")


def too_wide(line: str, width: int = WIDTH) -> bool:
    """Whether a line of prose is over the width and could be broken."""
    return len(line) > width and " " in line.strip() and not VERBATIM.match(line)


def fill(words: str, first: str, rest: str, width: int = WIDTH) -> list[str]:
    """Wrap words, without a line that would be read as markup."""
    lines = textwrap.wrap(
        words, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    for at in range(1, len(lines)):
        if MARKUP.match(lines[at].strip()):
            # The marker joins the line before; what is left is wrapped again.
            head, _, tail = lines[at].strip().partition(" ")
            lines[at - 1] += " " + head
            remaining = " ".join([tail, *(line.strip() for line in lines[at + 1 :])]).strip()
            return lines[:at] + (fill(remaining, rest, rest, width) if remaining else [])
    return lines


def rewrap(lines: list[str], width: int = WIDTH) -> list[str]:
    """Lines of prose, with paragraphs that are too wide wrapped again."""
    out: list[str] = []
    paragraph: list[str] = []
    is_code = False
    literal: int | None = None  # the indent of the paragraph that ended in `::`

    def flush() -> None:
        nonlocal literal
        if paragraph and paragraph[-1].rstrip().endswith("::"):
            literal = len(paragraph[0]) - len(paragraph[0].lstrip())
        if any(too_wide(line, width) for line in paragraph):
            first = paragraph[0]
            item = ITEM.match(first)
            indent = re.match(r"\s*", first)
            lead = item.group(0) if item else indent.group(0) if indent else ""
            rest = " " * len(lead)
            if not item and len(paragraph) > 1:
                rest = (re.match(r"\s*", paragraph[1]) or [""])[0]
            words = " ".join([first[len(lead) :].strip(), *(line.strip() for line in paragraph[1:])])
            out.extend(fill(words, lead, rest, width))
        else:
            out.extend(paragraph)
        paragraph.clear()

    for line in lines:
        if FENCE.match(line):
            flush()
            is_code = not is_code
            out.append(line)
            continue
        own = len(line) - len(line.lstrip())
        if line.strip() and not paragraph and literal is not None:
            if own > literal:
                out.append(line)
                continue
            literal = None
        if is_code or not line.strip() or VERBATIM.match(line) or HEADING.match(line) or ALIGNED.search(line):
            flush()
            out.append(line)
        elif ITEM.match(line) or (paragraph and is_other(paragraph, line)):
            flush()
            paragraph.append(line)
        else:
            paragraph.append(line)
    flush()
    return out


def is_other(paragraph: list[str], line: str) -> bool:
    """Whether a line's indent says that it belongs to no paragraph before it."""
    item = ITEM.match(paragraph[0])
    before = len(paragraph[-1]) - len(paragraph[-1].lstrip())
    own = len(line) - len(line.lstrip())
    if item:
        return own < len(item.group(1)) + 1
    return own != before and not (len(paragraph) == 1 and own > before)


def comment_blocks(lines: list[str], pattern: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
    """Runs of comment lines with one prefix: where each begins and ends, and the prefix."""
    at = 0
    while at < len(lines):
        match = pattern.match(lines[at])
        if not match:
            at += 1
            continue
        prefix, end = match.group(1), at
        while end < len(lines) and (found := pattern.match(lines[end])) and found.group(1) == prefix:
            end += 1
        yield at, end, prefix
        at = end


def in_comments(lines: list[str], pattern: re.Pattern[str]) -> list[str]:
    """Lines of code with their whole-line comments rewrapped."""
    out, last = [], 0
    for start, end, prefix in comment_blocks(lines, pattern):
        out += lines[last:start]
        last = end
        block = lines[start:end]
        if not any(too_wide(line) for line in block):
            out += block
            continue
        bodies = [line[len(prefix) :].removeprefix(" ") for line in block]
        width = WIDTH - len(prefix) - 1
        # What Python shows as a docstring has entries, which are no paragraphs.
        has_entries = any(HEADING.match(body) for body in bodies)
        wrapped = in_docstring(["", *bodies], width)[1:] if has_entries else rewrap(bodies, width)
        out += [f"{prefix} {body}".rstrip() for body in wrapped]
    return out + lines[last:]


def docstrings(source: str) -> list[tuple[int, int]]:
    """The lines of all docstrings, first and last, counted from 0."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or not body or not isinstance(body[0], ast.Expr):
            continue
        text = body[0].value
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            spans.append((text.lineno - 1, (text.end_lineno or text.lineno) - 1))
    return sorted(spans)


def in_docstring(block: list[str], width: int = WIDTH) -> list[str]:
    """A docstring with what is too wide rewrapped: its paragraphs, and the entries of sections such as `Args:`."""
    if len(block) == 1:
        return block  # one sentence on one line
    base = len(block[0]) - len(block[0].lstrip())
    out: list[str] = [block[0]]
    part: list[str] = []
    in_section, has_entries = False, False

    def flush() -> None:
        if has_entries and part and any(too_wide(line, width) for line in part):
            lead = " " * (base + 4)
            out.extend(fill(" ".join(line.strip() for line in part), lead, lead + " " * 4, width))
        else:
            out.extend(rewrap(part, width))
        part.clear()

    is_code = False
    for line in block[1:]:
        own = len(line) - len(line.lstrip())
        if is_code or FENCE.match(line):
            flush()
            is_code = is_code != bool(FENCE.match(line))
            out.append(line)
        elif HEADING.match(line):
            flush()
            # What is returned is a paragraph, in which no line begins an entry.
            in_section, has_entries = True, line.strip() not in ("Returns:", "Yields:")
            out.append(line)
        elif not line.strip() or line.strip() == '"""':
            flush()
            out.append(line)
        elif own <= base:
            if in_section:
                flush()
                in_section = has_entries = False
            part.append(line)
        elif in_section:
            if own == base + 4 and has_entries:
                flush()
            part.append(line)
        else:
            flush()  # an example or a sketch: as it is
            out.append(line)
    flush()
    return out


def in_python(source: str) -> str:
    """Python with docstrings and whole-line comments rewrapped."""
    lines = source.split("\n")
    for start, end in reversed(docstrings(source)):
        block = lines[start : end + 1]
        if not any(too_wide(line) for line in block):
            continue
        lines[start : end + 1] = in_docstring(block)
    text = "\n".join(lines)
    strings: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            strings.update(range(token.start[0] - 1, token.end[0]))
    lines = text.split("\n")
    marked = [line if at not in strings else "\0" + line for at, line in enumerate(lines)]
    return "\n".join(line.removeprefix("\0") for line in in_comments(marked, re.compile(r"^(\s*#)(?!!)(?: |$)")))


def formatted(path: Path, text: str) -> str:
    """A file's text with its prose rewrapped."""
    if path.suffix == ".md":
        return "\n".join(rewrap(text.split("\n")))
    if path.suffix == ".rs":
        return "\n".join(in_comments(text.split("\n"), re.compile(r"^(\s*//[/!]?)(?: |$)")))
    return in_python(text)


def files(names: Iterable[str]) -> list[Path]:
    """The project's sources and pages."""
    if found := list(names):
        return [Path(name) for name in found]
    command = ["git", "ls-files", "*.md", "*.rs", "*.py", "*.pyi"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return [Path(name) for name in listed.stdout.split()]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail where a rule is broken")
    parser.add_argument(
        "--exempt-names", action="append", default=[], metavar="DIRECTORY", help="test names there may be longer"
    )
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    changed = []
    for path in files(arguments.files):
        text = path.read_text(encoding="utf-8")
        new = formatted(path, text)
        if new != text:
            changed.append(path)
            if not arguments.check:
                path.write_text(new, encoding="utf-8")
    for path in changed:
        print(f"{path}: prose {'over' if arguments.check else 'wrapped at'} {WIDTH} columns")
    found = vocabulary.findings(files([]), arguments.exempt_names) if arguments.check and not arguments.files else []
    for finding in found:
        print(finding)
    return 1 if (changed and arguments.check) or found else 0


if __name__ == "__main__":
    sys.exit(main())
