"""Print what the named groups and extras of pyproject.toml need, one requirement a line.

Lets the Makefile install dependencies without building the extension: `python tools/requirements.py
demo dev`. A group may include other groups, and name extras of this package (`dochistory[spark]`),
which may name others; those are followed.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PYPROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CALLED = {"dev": "contributing"}
"""What the Makefile calls a group -> its name there."""
OWN = re.compile(rf"{PROJECT['name']}\[([\w,\s-]+)\]")


def requirements(name: str) -> Iterator[str]:
    """All requirements of one group or extra, those of what it names included."""
    groups, name = PYPROJECT["dependency-groups"], CALLED.get(name, name)
    for requirement in groups[name] if name in groups else PROJECT["optional-dependencies"][name]:
        if isinstance(requirement, dict):
            yield from requirements(requirement["include-group"])
        elif own := OWN.fullmatch(requirement):
            for other in own[1].split(","):
                yield from requirements(other.strip())
        else:
            yield requirement


if __name__ == "__main__":
    wanted = [*PROJECT["dependencies"], *(one for name in sys.argv[1:] for one in requirements(name))]
    print("\n".join(dict.fromkeys(wanted)))
