"""`dochistory demo`: run the demo, where it is installed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import dochistory
from dochistory.cli.context import Add, Context
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.parser import OF_A_HISTORY


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "demo",
        demo,
        "run the demo of the project's source",
        examples=["dochistory demo", "dochistory demo --policy rerun"],
        without=(*OF_A_HISTORY, "--json"),
    )
    command.add_argument(
        "--policy", choices=["in_doubt", "rerun"], default="in_doubt", help="what a killed batch's documents are"
    )


def demo(context: Context) -> Exit:
    """Run the demo of the project's source."""
    place = next((place for place in _places() if (place / "__main__.py").is_file()), None)
    if place is None:
        raise CommandError(
            "the demo is not in the installed package: run `make demo` in the project's source, "
            "or run this in its directory"
        )
    command = [sys.executable, str(place), "--policy", context.options.policy]
    status = subprocess.run(command, check=False).returncode  # noqa: S603 - this very interpreter, a file of ours
    return Exit.DONE if status == 0 else Exit.FOUND


def _places() -> list[Path]:
    package = Path(dochistory.__file__).resolve().parent
    return [Path("examples/demo"), package.parent.parent / "examples" / "demo"]
