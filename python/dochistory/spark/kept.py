"""Histories in buckets that a driver keeps open from one call to the next, where a call names a URL.

To open one is a single request, but its first look at a trigger is ten, most of them one after the
other. So a call opens the history, which says that it is there and is still the same one, and goes
on with the handle of the call before. A handle that is kept asks for nothing and holds no lock. One
whose local files were deleted is of no use any more.
"""

import os
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dochistory import History

_MOST = 8
_OF_STORES = ("AWS_", "AZURE_", "GOOGLE_")

# Nobody uses these: who takes one is its only user.
_idle: "OrderedDict[Hashable, History]" = OrderedDict()


def in_place_of(opened: "History", place: Hashable) -> "History":
    """The handle that was kept for this place, if it is of the same history; else the one just opened."""
    kept = _idle.pop(_key(place), None)
    if kept is None:
        return opened
    if not kept._is_usable or kept.id != opened.id:  # noqa: SLF001 - ours
        kept.close()
        return opened
    opened.close()
    return kept


def keep(place: Hashable, history: "History") -> None:
    """Keep a handle whose user has ended without a failure."""
    key = _key(place)
    before = _idle.pop(key, None)
    if before is not None:
        before.close()
    _idle[key] = history
    while len(_idle) > _MOST:
        _idle.popitem(last=False)[1].close()


def _key(place: Hashable) -> Hashable:
    """What another handle would be opened with: by another process, or with other credentials, it is another one."""
    environment = frozenset(one for one in os.environ.items() if one[0].startswith(_OF_STORES))
    return os.getpid(), place, hash(environment)
