"""Workers that see another directory than the driver: `python -m tests.spark.elsewhere_script HOME`. Answers with JSON.

The history's path leads through `/proc/self/cwd`, and so to another place in each process: the
driver works in `HOME/driver`, and whatever Spark starts in `HOME/worker`.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dochistory as dh
from dochistory.spark.claims import Claimer
from tests.spark.support import orders, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HISTORY = Path("/proc/self/cwd/orders.history")


class Places:
    """The two directories."""

    def __init__(self, home: Path) -> None:
        self.driver, self.worker = home / "driver" / "orders.history", home / "worker" / "orders.history"
        self.kept = home / "kept"

    def clear(self) -> None:
        """The workers see nothing."""
        if self.worker.is_symlink():
            self.worker.unlink()
        shutil.rmtree(self.worker, ignore_errors=True)

    def empty(self) -> None:
        """They see an empty directory."""
        self.worker.mkdir()

    def strange(self) -> None:
        """They see a directory of something else."""
        self.worker.mkdir()
        (self.worker / "notes.txt").touch()

    def another(self) -> None:
        """They see another history."""
        with dh.open(self.worker, create=True) as history:
            history.begin(rows(["x"]), orders())

    def older(self) -> None:
        """They see the history as it was yesterday."""
        shutil.copytree(self.kept, self.worker)

    def copy(self) -> None:
        """They see the history as it is just now, in a directory of their own."""
        shutil.copytree(self.driver, self.worker)

    def same(self) -> None:
        """They see what the driver sees."""
        self.worker.symlink_to(self.driver)


def claimed(frame: "DataFrame") -> str:
    with dh.spark.claim(frame, HISTORY, orders()) as claim:
        claim.release()
        return f"claimed {len(claim)}"


def classified(frame: "DataFrame") -> str:
    new = dh.spark.classify(frame, HISTORY, orders()).where("rule = 'R8'").count()
    return f"classified {new}"


def loaded(frame: "DataFrame") -> str:
    return f"loaded {dh.spark.load(frame, HISTORY, orders(), maintain=False)}"


def said(work: Callable[["DataFrame"], str], frame: "DataFrame") -> str:
    """What came of it: the last sentence of ours, where it failed."""
    try:
        return work(frame)
    except Exception as error:  # noqa: BLE001 - whatever Spark makes of it
        lines = [line for line in str(error).splitlines() if "[DH-" in line]
        return lines[-1] if lines else f"{type(error).__name__}: {error}"


def main(home: Path) -> dict[str, dict[str, str]]:
    """Each entrance, in each situation."""
    spark = dh.spark.session(master="local[2,1]", config={"spark.local.dir": str(home / "local")})
    os.chdir(home / "driver")
    places = Places(home)
    with dh.open(HISTORY, create=True) as history:
        history.begin(rows(["old"]), orders()).complete()
        history.maintain(orders(), all=True)
    shutil.copytree(places.driver, places.kept)
    with dh.open(HISTORY) as history:
        history.begin(rows(["older"]), orders()).complete()
        history.unpin(orders(), history.pin(orders()))
    works: dict[str, Callable[[DataFrame], str]] = {
        "claim": claimed,
        "classify": classified,
        "load": loaded,
    }
    frame = spark.createDataFrame(rows(["a", "b"]).to_pandas())
    found: dict[str, dict[str, str]] = {}
    for situation in ("missing", "empty", "strange", "another", "older", "same"):
        places.clear()
        getattr(places, situation, places.clear)()
        found[situation] = {name: said(work, frame) for name, work in works.items()}
    # A copy is made when the job is under way, so that all that the driver did is in it.
    staged = Claimer._staged  # noqa: SLF001 - the last step before the tasks run

    def copied(self: Claimer, *rest: Any) -> Any:
        made = staged(self, *rest)
        places.clear()
        places.copy()
        return made

    Claimer._staged = copied  # type: ignore[method-assign,assignment] # noqa: SLF001
    new = spark.createDataFrame(rows(["c"]).to_pandas())
    found["copy"] = {"claim": said(claimed, new)}
    spark.stop()
    with dh.open(HISTORY) as history:
        found["after"] = {"rules": " ".join(history.classify(rows(["a", "b", "c"]), orders())["rule"].to_pylist())}
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
