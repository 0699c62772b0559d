"""A process whose clock is wrong: `python -m tests.objects.off_clock URL OPTIONS ID…`.

It begins and completes the ids and one that was completed before, puts all files together, and
collects with the usual grace. Prints its time and what it was told.
"""

import json
import sys
import time
from collections import Counter

import dochistory as dh
from tests.support import documents, statuses, trigger


def main(url: str, options: dict[str, str], ids: list[str]) -> None:
    """Work, and say what came of it."""
    with dh.open(url, storage_options=options) as history:
        claim = history.begin(documents(["first", *ids]), trigger())
        claim.complete()
        history.maintain(all=True)
        found = dict(Counter(statuses(claim.verdicts)))
    print(json.dumps({"now": time.time(), "statuses": found}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:])
