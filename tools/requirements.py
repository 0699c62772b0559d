"""Print what the named extras of pyproject.toml need, one requirement a line.

Lets the Makefile install dependencies without building the extension: `python tools/requirements.py
demo dev`. Extras may name other extras of this package (`dochistory[spark]`); those are followed.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
OWN = re.compile(rf"{PROJECT['name']}\[([\w,\s-]+)\]")


def requirements(extra: str) -> Iterator[str]:
    """All requirements of one extra, those of the extras it names included."""
    for requirement in PROJECT["optional-dependencies"][extra]:
        if own := OWN.fullmatch(requirement):
            for other in own[1].split(","):
                yield from requirements(other.strip())
        else:
            yield requirement


if __name__ == "__main__":
    wanted = [*PROJECT["dependencies"], *(one for extra in sys.argv[1:] for one in requirements(extra))]
    print("\n".join(dict.fromkeys(wanted)))
