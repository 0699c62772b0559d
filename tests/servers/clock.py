"""A clock that is wrong, for one process: a library that is loaded before the system's."""

import shutil
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *at) {
    int found = syscall(SYS_clock_gettime, clock, at);
    if (found == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += SHIFT;
    return found;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def shifted(seconds: int, directory: Path) -> dict[str, str]:
    """The environment of a process whose clock is ahead by this number of seconds."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("this test needs a C compiler, cc, which Rust needs, too: there is none on the path")
    source, library = directory / "clock.c", directory / "clock.so"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", f"-DSHIFT=({seconds})", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library)}
