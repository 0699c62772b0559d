"""What a function for `foreachBatch` keeps open from batch to batch. No Spark runs here."""

import pickle
import shutil
from pathlib import Path

import pytest

import dochistory as dh
from dochistory.spark.open_history import OpenHistory
from tests.spark.support import orders

pytestmark = pytest.mark.spark


def begun(kept: OpenHistory, key: str) -> str | None:
    with kept.open() as history:
        return history.begin_one(uuid=key, redelivery_count=0, trigger=orders()).status


def test_all_batches_work_with_one_handle(tmp_path: Path) -> None:
    kept = OpenHistory(tmp_path / "history")
    with kept.open() as first:
        pass
    with kept.open() as second:
        assert second is first


def test_failed_batch_reopens_the_files(tmp_path: Path) -> None:
    kept = OpenHistory(tmp_path / "history")
    with pytest.raises(RuntimeError, match="the service failed"), kept.open() as first:
        raise RuntimeError("the service failed")
    with kept.open() as second:
        assert second is not first


def test_history_whose_directory_vanished_is_not_created(tmp_path: Path) -> None:
    kept = OpenHistory(tmp_path / "history")
    assert begun(kept, "a") == "NEW"
    shutil.rmtree(tmp_path / "history")
    with pytest.raises(dh.OpenError):
        begun(kept, "a")
    assert not (tmp_path / "history").exists()


def test_directory_put_in_its_place_answers(tmp_path: Path) -> None:
    kept, other = OpenHistory(tmp_path / "history"), OpenHistory(tmp_path / "other")
    assert [begun(kept, "a"), begun(other, "b")] == ["NEW", "NEW"]
    (tmp_path / "history").rename(tmp_path / "old")
    (tmp_path / "other").rename(tmp_path / "history")
    assert begun(kept, "a") == "NEW"
    assert begun(kept, "b") == "IN_DOUBT"


def test_another_process_opens_it_for_itself(tmp_path: Path) -> None:
    kept = OpenHistory(tmp_path / "history")
    assert begun(kept, "a") == "NEW"
    sent: OpenHistory = pickle.loads(pickle.dumps(kept))
    with kept.open() as here, sent.open() as there:
        assert there is not here


def test_a_history_that_the_caller_opened_stays_the_callers(tmp_path: Path) -> None:
    with dh.open(tmp_path / "history", create=True) as history:
        kept = OpenHistory(history)
        with pytest.raises(RuntimeError), kept.open():
            raise RuntimeError("the service failed")
        with kept.open() as same:
            assert same is history
