"""Keep the docstrings of the extension's stub equal to those that the extension shows.

    python -m tools.stub          # copy them from the extension, which has to be built
    python -m tools.stub --check  # say what differs, and fail

The extension's docstrings stand in rust/python/src; an editor reads the stub.
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from dochistory import _native

STUB = Path(__file__).parents[1] / "python" / "dochistory" / "_native.pyi"


def nodes(tree: ast.Module) -> Iterator[tuple[ast.ClassDef | ast.FunctionDef, object]]:
    """Classes and functions of the stub, each with what the extension has under its name."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        found = getattr(_native, node.name, None)
        if found is None:
            continue  # a type for checkers only
        yield node, found
        for member in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                yield member, inspect.getattr_static(found, member.name, None)


def docstring(found: object) -> str:
    """What the extension shows of it."""
    return inspect.cleandoc(getattr(found, "__doc__", None) or "")


def differing() -> list[str]:
    """The names whose docstrings in the stub are not those of the extension."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    return [node.name for node, found in nodes(tree) if (ast.get_docstring(node) or "") != docstring(found)]


def quoted(text: str, indent: str) -> list[str]:
    """A docstring as lines of source."""
    mark = 'r"""' if "\\" in text else '"""'
    first, *rest = text.split("\n")
    if not rest:
        return [f"{indent}{mark}{first}{mark[-3:]}"]
    return [indent + mark + first, *(f"{indent}{line}".rstrip() for line in rest), f'{indent}"""']


def written() -> str:
    """The stub's text with the extension's docstrings."""
    text = STUB.read_text(encoding="utf-8")
    lines = text.split("\n")

    # From the end, and members before their class.
    def place(one: tuple[ast.ClassDef | ast.FunctionDef, object]) -> tuple[int, int]:
        return one[0].body[0].lineno, one[0].col_offset

    for node, found in sorted(nodes(ast.parse(text)), key=place, reverse=True):
        shown = docstring(found)
        body = node.body[0]
        indent = " " * (node.col_offset + 4)
        is_old = ast.get_docstring(node) is not None
        old = slice(body.lineno - 1, body.end_lineno)
        if is_old:
            lines[old] = quoted(shown, indent) if shown else []
        elif shown and isinstance(node, ast.FunctionDef):
            # What stood behind the colon was `...`.
            at = body.lineno - 1
            lines[at] = lines[at][: body.col_offset].rstrip()
            lines[at + 1 : at + 1] = quoted(shown, indent)
        elif shown and lines[body.lineno - 1].strip() == "...":
            lines[old] = quoted(shown, indent)
        elif shown and body.lineno == node.lineno:
            lines[old] = [lines[body.lineno - 1][: body.col_offset].rstrip(), *quoted(shown, indent)]
        elif shown:
            first = min([body.lineno, *(one.lineno for one in getattr(body, "decorator_list", []))])
            lines[first - 1 : first - 1] = [*quoted(shown, indent), ""]
    return "\n".join(lines)


def main() -> int:
    """Copy, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say what differs")
    if parser.parse_args().check:
        found = differing()
        for name in found:
            print(f"{STUB.name}: the docstring of {name} is not the extension's: run tools/stub.py")
        return 1 if found else 0
    STUB.write_text(written(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
