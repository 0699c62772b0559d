"""What the figures were measured on, and the memory of this process."""

import os
import platform
import re
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self


def machine() -> dict[str, Any]:
    """Processor, memory, system."""
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def quietest_core(cores: set[int]) -> int:
    """Which of these cores disks have interrupted least since the machine was started."""
    row = re.search(r"^\s*BLOCK:(.*)$", Path("/proc/softirqs").read_text(), re.MULTILINE)
    interrupts = list(map(int, row[1].split())) if row else []
    return min(sorted(cores), key=lambda core: interrupts[core] if core < len(interrupts) else 0)


def busy_cores(seconds: float = 2.0) -> float:
    """How many cores were busy over the last seconds, while this process slept."""
    before, started = _busy_ticks(), time.monotonic()
    time.sleep(seconds)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - started)


def _busy_ticks() -> int:
    user, nice, system, _idle, _waiting, *interrupts = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, *interrupts)))


def memory_kib() -> int:
    """Memory of this process, files in the page cache apart."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


class PeakMemory:
    """The highest `memory_kib` while a job ran, looked at every few milliseconds by a thread."""

    def __enter__(self) -> Self:
        self.before = self.peak = memory_kib()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self.peak = max(self.peak, memory_kib())

    def _watch(self) -> None:
        while not self._over.is_set():
            self.peak = max(self.peak, memory_kib())
            time.sleep(0.002)
