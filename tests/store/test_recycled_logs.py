"""A log in the file of one that is over, on the disk of this machine. (recycled.rs has the crashes.)"""

import threading
import time
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh
from tests.store.test_lived import ids


def trigger(name: str) -> dh.Trigger:
    return dh.Trigger(
        name,
        detect_duplicates=True,
        use_history=True,
        history_time_to_live=timedelta(days=365),
        processing_mode="serial",
    )


ORDERS, ACCOUNTS = trigger("orders"), trigger("accounts")
BATCH, FULL = 32_768, 8  # a log is full with eight batches, and one more operation
LOCAL = {"ext2", "ext3", "ext4", "xfs"}


def is_local(path: Path) -> bool:
    """Whether files of logs are taken there."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    over = [(point, kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    return max(over, key=lambda mount: len(mount[0]))[1] in LOCAL


def logs(root: Path) -> list[bool]:
    """Whether each log is in the file of another one, the live one last."""
    found = []
    for path in sorted(root.glob("triggers/*/log-*")):
        # The thread that put a log into segments may take its file away now.
        with suppress(FileNotFoundError):
            found.append(path.read_bytes()[56] == 1)
    return found


def kept(root: Path) -> list[Path]:
    return list(root.glob("triggers/*/old-*"))


def live(history: dh.History, root: Path) -> int:
    """Write until the live log is in the file of another one; answers how many ids that took."""
    for number in range(8 * FULL):
        history.begin(ids(number * BATCH, BATCH), ORDERS).complete()
        if logs(root)[-1]:
            return (number + 1) * BATCH
        if number % FULL == FULL - 1:
            # The log before is in segments by the next one's end, which no machine is too slow for.
            history.maintain(ORDERS)
    return (number + 1) * BATCH


def statuses(history: dh.History, documents: pa.RecordBatch) -> set[str]:
    return set(history.classify(documents, ORDERS).column("status").unique().to_pylist())


def test_log_takes_the_file_of_one_that_is_over(tmp_path: Path) -> None:
    root = tmp_path / "history"
    with dh.open(root, create=True) as history:
        known = live(history, root)
        assert logs(root)[-1] == is_local(tmp_path)
        assert len(kept(root)) <= 1
        # Others read it, and write on in it.
        with dh.open(root) as other:
            assert statuses(other, ids(0, known)) == {"DUPLICATE"}
            other.begin(ids(known, 10), ORDERS).complete()
        assert statuses(history, ids(known, 10)) == {"DUPLICATE"}
        assert statuses(history, ids(known + 10, 10)) == {"NEW"}
    assert not kept(root)
    with dh.open(root, read_only=True) as history:
        history.verify()
        assert statuses(history, ids(0, known + 10)) == {"DUPLICATE"}


@pytest.mark.slow
def test_what_is_kept_goes_after_the_last_write(tmp_path: Path) -> None:
    root = tmp_path / "history"
    with dh.open(root, create=True) as history:
        known = live(history, root)
        log = max(root.glob("triggers/*/log-*"))
        blocks = log.stat().st_blocks
        end = time.monotonic() + 60
        while time.monotonic() < end and (kept(root) or log.stat().st_blocks >= blocks):
            time.sleep(0.5)
            if not is_local(tmp_path):
                break
        assert not kept(root)
        if is_local(tmp_path):
            assert log.stat().st_blocks < blocks
        history.begin(ids(known, 10), ORDERS).complete()
        assert statuses(history, ids(0, known + 10)) == {"DUPLICATE"}
    with dh.open(root, read_only=True) as history:
        history.verify()
        assert statuses(history, ids(0, known + 10)) == {"DUPLICATE"}


@pytest.mark.slow
def test_copies_hold_no_later_frames_of_a_log_over_remains(tmp_path: Path) -> None:
    """A backup beside a writer is one moment: what came second is never there without what came first."""
    root, rows = tmp_path / "history", 50
    with dh.open(root, create=True) as history:
        known = live(history, root)
        is_over, written = threading.Event(), count()

        def write() -> None:
            while not is_over.is_set():
                documents = ids(known + next(written) * rows, rows)
                # The directory of accounts is copied before that of orders.
                for each in (ACCOUNTS, ORDERS):
                    history.begin(documents, each).complete()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for number in range(6):
                copy = tmp_path / f"copy-{number}"
                dh.backup(root, copy)
                later = ids(known, 200_000)
                with dh.open(copy, read_only=True) as opened:
                    assert statuses(opened, ids(0, known)) == {"DUPLICATE"}
                    first, second = (count_known(opened, later, each, rows) for each in (ACCOUNTS, ORDERS))
                assert second in (first - 1, first)
        finally:
            is_over.set()
            thread.join()


def count_known(history: dh.History, documents: pa.RecordBatch, of: dh.Trigger, rows: int) -> int:
    """How many batches were begun: of all but the last one each document has ended."""
    found = history.classify(documents, of).column("status").to_pylist()
    batches = [set(found[at : at + rows]) for at in range(0, len(found), rows)]
    begun = batches.index({"NEW"})
    assert all(batch == {"DUPLICATE"} for batch in batches[: max(begun - 1, 0)])
    assert batches[begun - 1 : begun] in ([{"DUPLICATE"}], [{"IN_DOUBT"}], [])
    assert all(batch == {"NEW"} for batch in batches[begun:])
    return begun
