"""A PostgreSQL of the test's own: on loopback, its data in a directory of its own, gone when the test is."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers import free_port, program

_BINARIES = "usr/lib/postgresql/*/bin"


@contextmanager
def server(*, durable: bool = False) -> Iterator[str]:
    """A running server on loopback; what `psycopg.connect` takes to reach it.

    Args:
        durable: it syncs each commit, as one at work does.
    """
    initdb, pg_ctl = (program(name, "postgresql", _BINARIES) for name in ("initdb", "pg_ctl"))
    # Not pytest's directory: the server runs as another user, who may not look into that.
    home = Path(tempfile.mkdtemp(prefix="dochistory-postgres-"))
    data = home / "data"
    owner = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    if owner:
        shutil.chown(home, "nobody", "nogroup")

    def run(*command: str) -> None:
        subprocess.run(command, check=True, cwd=home, stdout=subprocess.DEVNULL, **owner)  # type: ignore[call-overload]

    try:
        run(initdb, "--auth=trust", "--username=test", "--no-sync", "--no-instructions", "-D", str(data))
        port = free_port()
        fsync = "on" if durable else "off"
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='{home}' -c fsync={fsync}"
        run(pg_ctl, "start", "--wait", "--silent", "-D", str(data), "-l", str(home / "log"), "-o", options)
        try:
            yield f"host=127.0.0.1 port={port} user=test dbname=postgres"
        finally:
            run(pg_ctl, "stop", "--wait", "--silent", "--mode=immediate", "-D", str(data))
    finally:
        shutil.rmtree(home)
