"""The command line, `dochistory`; `docs/cli.md` is its guide."""

from dochistory.cli.run import main

__all__ = ["main"]
