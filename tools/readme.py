"""Run the first program of README.md, and compare what it prints with what its comments say.

    python tools/readme.py README.md

Needs nothing but the installed package, so it shows that a wheel works.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path


def program(page: str) -> str:
    """The first block of Python."""
    found = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit("the page has no program")
    return found[1]


def promised(source: str) -> list[str]:
    """What the comments behind `print` say."""
    return re.findall(r"^\s*print\(.*\)\s+# (\[.*)$", source, re.MULTILINE)


def main() -> None:
    """Run it in an empty directory."""
    source = program(Path(sys.argv[1]).read_text(encoding="utf-8"))
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(printed):
        os.chdir(place)
        exec(compile(source, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - our own page
        os.chdir("/")
    said, found = promised(source), printed.getvalue().splitlines()
    if not said or found != said:
        raise SystemExit(f"README.md says {said}, and its program prints {found}")
    print(f"README.md prints the {len(said)} lines that it says")


if __name__ == "__main__":
    main()
