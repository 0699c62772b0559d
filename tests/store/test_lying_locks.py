"""File systems whose locks are given to whoever asks, played by a library that takes the place of `flock`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import dochistory as dh
from tests.store.processes import PREAMBLE, ROOT, finish
from tests.support import status_of

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
static int lies(void) {
    const char *from = getenv("LIES_FROM");
    return !from || access(from, F_OK) == 0;
}
/* Every lock is given, once the file exists that LIES_FROM names. */
int flock(int fd, int operation) {
    static int (*real)(int, int);
    if (!real) real = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    return lies() ? 0 : real(fd, operation);
}
/* Writes take their time then, so that turns overlap. */
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    if (lies()) usleep(rand() % 500);
    return real(fd, bytes, count, at);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library. Without a compiler of C this fails: nothing else plays such a file system with real processes."""
    home = tmp_path_factory.mktemp("shim")
    (home / "lies.c").write_text(SHIM)
    library = home / "lies.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(home / "lies.c"), "-ldl"], check=True)
    return library


def start(script: str, shim: Path, *arguments: object, lies_from: Path | None = None) -> subprocess.Popen[str]:
    environment = {"LD_PRELOAD": str(shim), "PATH": "/usr/bin:/bin"}
    if lies_from is not None:
        environment["LIES_FROM"] = str(lies_from)
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + script, *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


OPEN = """
try:
    dh.open(sys.argv[1], create=sys.argv[2] == "create")
except dh.FencedError as error:
    print(error)
"""


@pytest.mark.parametrize("how", ["create", "open"])
def test_history_is_not_opened_for_writing_where_locks_lie(directory: Path, shim: Path, how: str) -> None:
    if how == "open":
        dh.open(directory, create=True).close()
    (told,) = finish(start(OPEN, shim, directory, how))
    assert told.startswith("[DH-FENCED]")
    assert "locks on this file system do not exclude each other" in told


CLAIM = """
history = dh.open(sys.argv[1])
history.begin(documents(["first"]), trigger())
print("ready", flush=True)
sys.stdin.readline()
for number in range(60):
    try:
        new = history.begin(documents([f"id-{number}"]), trigger()).new.num_rows
    except dh.FencedError:
        continue
    if new:
        print(number, flush=True)
"""


@pytest.mark.slow
def test_processes_that_no_lock_keeps_apart_get_no_id_twice(directory: Path, shim: Path, tmp_path: Path) -> None:
    for attempt in range(3):
        path, lies_from = directory.with_name(f"{attempt}.history"), tmp_path / f"lies-{attempt}"
        dh.open(path, create=True).close()
        processes = [start(CLAIM, shim, path, lies_from=lies_from) for _ in range(3)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", finish(process)
        # All of them have found the locks to be good; from now on they are not.
        lies_from.touch()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        times = Counter(number for process in processes for number in finish(process))
        assert times
        assert max(times.values()) == 1, times
        with dh.open(path, read_only=True) as history:
            known = status_of(history, [f"id-{number}" for number in times])
            assert set(known) == {"IN_DOUBT"}
            history.verify()
