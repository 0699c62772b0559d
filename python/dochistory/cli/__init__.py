"""The command line, `dochistory`; `docs/cli.md` is its guide."""

import json
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(given: Sequence[str] | None = None) -> int:
    """The program `dochistory`; its exit status."""
    words = list(sys.argv[1:] if given is None else given)
    try:
        # Only here, because Ctrl-C may come while this is imported, which takes a second.
        from dochistory.cli.run import main as run

        return run(words)
    except KeyboardInterrupt:
        error = {"code": "DH-INTERRUPTED", "message": "interrupted"}
        said = json.dumps({"error": error}) if "--json" in words else "dochistory: interrupted [DH-INTERRUPTED]"
        print(said, file=sys.stderr)
        return 130
