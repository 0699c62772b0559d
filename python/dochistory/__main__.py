"""`python -m dochistory`: the command line, as `python -m dochistory.cli` is."""

import sys

from dochistory.cli import main

if __name__ == "__main__":
    sys.exit(main())
