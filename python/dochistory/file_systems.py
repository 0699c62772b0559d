"""Properties of file systems that may hold a history. docs/file-systems.md has the same table."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Known:
    """The properties of one kind of file system."""

    result: Literal["ok", "note", "wrong"]
    """`ok`: tried; `note`: not tried, or with conditions; `wrong`: known not to do."""
    found: str


_ONE_MACHINE = "tried; for the processes of one machine"
_NFS = (
    "not tried; version 4 excludes by locks of the server, version 3 only with its lock daemon, and never with nolock"
)
_FUSE = (
    "whether its locks exclude is up to the program behind it: trust the checks of links and locks above, on every host"
)

_KNOWN = {
    "ext4": Known("ok", _ONE_MACHINE),
    "xfs": Known("ok", _ONE_MACHINE),
    "btrfs": Known("ok", _ONE_MACHINE),
    "tmpfs": Known("ok", f"{_ONE_MACHINE}; what is in it is gone with the power"),
    "overlay": Known("ok", f"{_ONE_MACHINE}, in one container; a history belongs on a volume, not in its layer"),
    "nfs4": Known("note", _NFS),
    "nfs": Known("note", _NFS),
    "ceph": Known("note", "not tried; its own client passes locks between hosts on"),
    "lustre": Known(
        "note", "not tried; it passes locks between hosts on only where it is mounted with the option flock"
    ),
    "cifs": Known("note", "not tried; hard links and locks depend on the server and on mount options"),
    "9p": Known("note", "not tried; its locks mostly stay within one machine"),
    "fuse": Known("note", _FUSE),
    "fuseblk": Known("note", _FUSE),
}


def known(kind: str) -> Known:
    """The properties of a kind of file system, by the kernel's name for it."""
    return _KNOWN.get("fuse" if kind.startswith("fuse.") else kind, Known("note", "not tried, nothing is known of it"))


def kinds() -> list[str]:
    """The kinds in the table."""
    return list(_KNOWN)
