"""Whether a worker sees the directory that the driver works with, and not another one under the same path.

What travels to the workers carries the history's identity and what the driver did there last: the
state that it pinned, or the number of the newest manifest that it saw. A worker that does not find
them says what it finds instead.
"""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dochistory as dh

if TYPE_CHECKING:
    from dochistory import History

_SHOWN = 5


@dataclass(frozen=True)
class Sight:
    """A history's directory as the driver sees it."""

    path: str
    """Absolute."""
    history: str
    """The history's identity, which a copy has, too."""
    host: str
    """Where the driver runs."""
    trigger: str | None
    """The trigger that it is about; None where it is about none."""
    manifest: int
    """The newest state of the trigger that the driver saw, by its number; a copy that is older does not have it."""

    @classmethod
    def of(cls, history: "History", trigger: str | None) -> "Sight":
        """What the driver sees now."""
        path = str(Path(history.path).absolute())
        return cls(path, history.id, socket.gethostname(), trigger, _newest(history, trigger))

    def open(self, **how: Any) -> "History":
        """Open the history, in a worker.

        Raises:
            ClusterError: [DH-CLUSTER] this worker does not see the driver's directory.
        """
        try:
            opened = dh.open(self.path, **how)
            _newest(opened, self.trigger)  # a snapshot is looked for when it is needed
        except dh.DocHistoryError as error:
            if instead := self._instead():
                raise self._not_seen(instead) from error
            raise
        # A copy that has what the driver pinned is no older than that.
        instead = self._another(opened) or ("" if "snapshot" in how else self._older(opened))
        if instead:
            opened.close()
            raise self._not_seen(instead)
        return opened

    def let_go(self, snapshot: str) -> None:
        """Remove a pin."""
        with dh.open(self.path) as history:
            history.unpin(str(self.trigger), snapshot)

    def _instead(self) -> str:
        """What is there instead of the driver's directory; nothing if it is there."""
        try:
            names = sorted(one.name for one in Path(self.path).iterdir())
        except FileNotFoundError:
            return "no such directory"
        except OSError as error:
            return f"the system says {error.strerror}"
        if "HISTORY" not in names:
            held = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            return f"there is a directory without a history, which holds {held}" if names else "the directory is empty"
        try:
            with dh.open(self.path, read_only=True) as opened:
                return self._another(opened) or self._older(opened)
        except dh.DocHistoryError:
            return ""  # it is there, and what is wrong with it is said already

    def _another(self, opened: "History") -> str:
        return "" if opened.id == self.history else f"there is another history, {opened.id}"

    def _older(self, opened: "History") -> str:
        newest = _newest(opened, self.trigger)
        if newest >= self.manifest:
            return ""
        return (
            f"there is an older copy of the history, whose trigger {self.trigger} is at state {newest}, "
            f"while the driver saw state {self.manifest}"
        )

    def _not_seen(self, instead: str) -> "dh.ClusterError":
        return dh.ClusterError(
            f"[DH-CLUSTER] this worker does not see the driver's directory {self.path}: on {socket.gethostname()} "
            f"{instead}; the driver, on {self.host}, works there with history {self.history}. "
            "Mount one shared directory under this path on all machines; `dochistory doctor --cluster` checks it"
        )


def _newest(history: "History", trigger: str | None) -> int:
    """The number of the trigger's newest state."""
    number: int = 0 if trigger is None else history.stats(dh.Trigger(trigger))["manifest"]
    return number
