"""A history that a call makes by itself is warned of: the path may be mistyped."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import dochistory as dh
from dochistory import _existing
from tests.support import documents, trigger


def test_new_history_of_a_consumer_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for key in "ab":
        with caplog.at_level(logging.WARNING, _existing.LOGGER), dh.Consumer(tmp_path / "new", trigger()) as consumer:
            consumer.begin(documents([key])).complete()
    warned = [record.message for record in caplog.records if "a new history was made here" in record.message]
    assert len(warned) == 1
    assert str(tmp_path / "new") in warned[0]


def test_other_failures_to_open_make_no_history(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        consumer = dh.Consumer(place, trigger(suspend_and_retry_on_error=False))
        with consumer, pytest.raises(dh.DocHistoryError):
            consumer.begin(documents(["a"]))
    assert (tmp_path / "file").read_text() == "no directory"
