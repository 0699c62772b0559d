"""`python -m dochistory.cli`: the command line where no script is installed."""

import sys

from dochistory.cli import main

if __name__ == "__main__":
    sys.exit(main())
