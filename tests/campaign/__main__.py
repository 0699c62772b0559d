"""Run the whole campaign and print its report.

`python -m tests.campaign` takes some twenty minutes, by the time of its parts; `--schedules 1000000
--load-seconds 600 --every-byte` is the long one. Every stage is a test that `make test` runs too,
on a smaller scale; its figures are the lines `figure: NAME = NUMBER` that it prints.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field

from tests.store.processes import ROOT

FIGURE = re.compile(r"^figure: (.+) = ([\d.]+)$", re.MULTILINE)


@dataclass
class Stage:
    """One part of the campaign: a command, and what it is told by the environment."""

    name: str
    command: list[str]
    settings: dict[str, str] = field(default_factory=dict)

    def run(self) -> tuple[bool, dict[str, str]]:
        """Run it; whether it went well, and its figures. What it prints is shown as it comes."""
        running = subprocess.Popen(
            self.command,
            cwd=ROOT,
            env=os.environ | self.settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        printed = ""
        with running:
            assert running.stdout is not None
            for line in running.stdout:
                printed += line
                if not line.startswith(("figure:", "   Compiling", "    Blocking")):
                    print(f"  {line}", end="", flush=True)
        return running.returncode == 0, dict(FIGURE.findall(printed))


def engine(name: str, *test: str, **settings: object) -> Stage:
    """A file of the engine's tests, or some of its own, in the release profile: there are many schedules."""
    command = [
        "cargo",
        "test",
        "--locked",
        "--release",
        "--package",
        "dochistory-core",
        "--all-features",
        *(test if len(test) > 1 else ("--test", *test)),
    ]
    return Stage(name, [*command, "--", "--nocapture"], {key: str(value) for key, value in settings.items()})


def tests(name: str, file: str, **settings: object) -> Stage:
    """One file of the Python tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-o", "timeout=0", file]
    return Stage(name, command, {key: str(value) for key, value in settings.items()})


def stages(options: argparse.Namespace) -> list[Stage]:
    """All of it, in order."""
    every_byte = {"DOCHISTORY_DAMAGE": "all"} if options.every_byte else {}
    return [
        engine("crashes and power loss", "crash", DOCHISTORY_SCHEDULES=options.schedules),
        engine("object storage: commits", "--lib", "objects::", DOCHISTORY_SCHEDULES=options.schedules),
        engine("object storage: histories", "objects", DOCHISTORY_SCHEDULES=min(options.schedules, 2_000)),
        engine("failing operations", "faults", DOCHISTORY_FAULTS="all"),
        engine("random lives beside a model", "model", DOCHISTORY_LIVES=options.lives),
        engine("random lives of maps", "values", DOCHISTORY_LIVES=options.lives),
        engine("mapper: crashes", "mapper", MAPPER_RUNS=min(options.schedules, 10_000)),
        engine("delivery: crashes of either side", "delivery", DELIVERY_RUNS=min(options.schedules, 100_000)),
        engine("damaged files", "damage", **every_byte),
        engine("repairs", "repair"),
        engine("fuzzing", "fuzz", DOCHISTORY_FUZZ_RUNS=options.fuzz_runs),
        tests("killed processes", "tests/store/test_kills.py", DOCHISTORY_KILLS=options.kills),
        tests("a machine in trouble", "tests/store/test_machine.py"),
        tests("a driver killed while it reads Kafka", "tests/spark/test_kafka.py", DOCHISTORY_DRIVER_KILLS=4),
        tests("claims beside consumers", "tests/spark/test_contention.py", DOCHISTORY_CLAIMS=100),
        tests("load", "tests/campaign/test_load.py", DOCHISTORY_LOAD_SECONDS=options.load_seconds),
    ]


def main() -> int:
    """The campaign; its exit status is 0 if every stage went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=100_000, help="crash schedules (100,000)")
    parser.add_argument("--lives", type=int, default=5_000, help="random lives (5,000)")
    parser.add_argument("--fuzz-runs", type=int, default=50_000, help="mutated inputs for each target (50,000)")
    parser.add_argument("--kills", type=int, default=100, help="killed writers (100)")
    parser.add_argument("--load-seconds", type=float, default=120, help="seconds of load (120)")
    parser.add_argument("--every-byte", action="store_true", help="flip every byte of long files too")
    options = parser.parse_args()
    report: list[tuple[str, str, str]] = []
    all_well = True
    for stage in stages(options):
        print(f"== {stage.name}", flush=True)
        begun = time.monotonic()
        well, figures = stage.run()
        all_well &= well
        report.append((stage.name, "held" if well else "BROKEN", f"{time.monotonic() - begun:.0f} s"))
        report += [("", name, f"{float(number):,.0f}") for name, number in figures.items()]
    width = max(len(name) for name, _, _ in report)
    print(f"\nCampaign of {dt.datetime.now(dt.UTC):%Y-%m-%d}, {' '.join(sys.argv[1:]) or 'as it comes'}")
    for name, what, figure in report:
        print(f"{name:{width}}  {what:42} {figure:>14}")
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
