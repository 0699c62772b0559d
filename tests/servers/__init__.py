"""Programs that tests need and that pip does not bring: found, or else installed, or the test fails."""

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

_LOCK = Path(tempfile.gettempdir()) / "dochistory-tests-install.lock"


def program(name: str, package: str, folders: str = "") -> str:
    """The path of a program; of Debian's `package`, which is installed if the program is not there.

    Args:
        name: the program.
        package: what brings it.
        folders: a pattern of folders beneath / that are not on the path.
    """
    for _ in range(2):
        beneath = sorted(map(str, Path("/").glob(f"{folders}/{name}"))) if folders else []
        found = shutil.which(name) or next(iter(beneath), None)
        if found:
            return found
        _install(package)
    raise FileNotFoundError(f"the package {package} has been installed, and there is no program {name}")


def can_have(name: str) -> bool:
    """Whether a program is there, or could be installed."""
    return bool(shutil.which(name) or _may_install())


def _may_install() -> bool:
    return os.geteuid() == 0 and bool(shutil.which("apt-get"))


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _install(package: str) -> None:
    if not _may_install():
        raise FileNotFoundError(f"this test needs the Debian package {package}: install it, or run the tests as root")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    with _LOCK.open("w") as lock:  # apt-get refuses to run twice
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["apt-get", "update", "-qq"], install):
            subprocess.run(command, check=True, env=quiet, capture_output=True)
