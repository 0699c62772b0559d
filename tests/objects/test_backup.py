"""`dochistory.backup`: a checked copy, between directories and buckets."""

import os
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import _native, objects
from tests.servers.objects import Server
from tests.support import documents, status_of, statuses, trigger


def fill(history: dh.History) -> None:
    history.begin(documents(["done"]), trigger()).complete()
    history.begin(documents(["begun"]), trigger(), audit=True)
    history.begin(documents(["begun"]), trigger(), audit=True)


def is_whole(history: dh.History) -> bool:
    found = status_of(history, ["done", "begun", "other"])
    return found == ["DUPLICATE", "IN_DOUBT", "NEW"] and history.audit.list()["key"].to_pylist() == ["begun"]


def test_a_copy_goes_from_anywhere_to_anywhere(s3: Server, place: str, tmp_path: Path) -> None:
    options = dict(s3.options)
    with dh.open(tmp_path / "first", create=True) as history:
        fill(history)
        seen: list[int] = []
        copied = dh.backup(history, tmp_path / "second", progress=lambda done, _: seen.append(done))
        assert seen
        assert copied > 0
    again: tuple[str | Path, ...] = (tmp_path / "second", place, f"{place}-again", tmp_path / "last")
    for source, target in pairwise(again):
        assert dh.backup(source, target, storage_options=options) > 0
        with dh.open(target, storage_options=options if objects.is_url(target) else None) as copy:
            assert is_whole(copy)
    with dh.open(tmp_path / "last") as copy:
        assert statuses(copy.begin(documents(["other", "done"]), trigger()).verdicts) == ["NEW", "DUPLICATE"]
    with dh.open(tmp_path / "second", read_only=True) as kept:
        assert is_whole(kept)


def test_what_cannot_be_copied_is_refused_and_leaves_nothing(s3: Server, place: str, tmp_path: Path) -> None:
    options = dict(s3.options)
    with dh.open(tmp_path / "h", create=True) as history:
        fill(history)
    (tmp_path / "there").mkdir()
    for target, said in {
        "there": "exists already",
        "h/copy": "inside the history",
        "no/copy": "create it first",
    }.items():
        with pytest.raises(dh.ConfigError, match=said):
            dh.backup(tmp_path / "h", tmp_path / target)
    with pytest.raises(dh.OpenError):
        dh.backup(tmp_path / "nothing", tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", "there"]
    dh.backup(tmp_path / "h", place, storage_options=options)
    with pytest.raises(dh.OpenError, match="holds other objects"):
        dh.backup(tmp_path / "h", place, storage_options=options)


def test_the_audit_log_in_a_copy_of_a_bucket_is_not_closed(
    s3: Server, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = dict(s3.options)
    beside: list[str] = []
    copied = _native._copy_from_bucket  # noqa: SLF001

    def looked(*given: Any) -> None:
        beside.extend(path.name for path in tmp_path.iterdir())
        copied(*given)

    monkeypatch.setattr(_native, "_copy_from_bucket", looked)
    with dh.open(place, create=True, storage_options=options) as history:
        fill(history)
    dh.backup(place, tmp_path / "copy", storage_options=options)
    assert (tmp_path / "copy" / "audit").stat().st_mode == (tmp_path / "copy" / "known").stat().st_mode
    # What a kill would leave has the name that the documentation gives.
    assert beside
    assert all(name.startswith(".copy.draft-") for name in beside)


def test_what_a_killed_backup_left_is_no_part_of_the_next(s3: Server, place: str, tmp_path: Path) -> None:
    options = dict(s3.options)
    with dh.open(place, create=True, storage_options=options) as history:
        fill(history)
    # In a container both may have one process id.
    with dh.open(tmp_path / f".copy.draft-{os.getpid()}", create=True) as left:
        fill(left)
        left.begin(documents(["other"]), trigger("others")).complete()
    dh.backup(place, tmp_path / "copy", storage_options=options)
    with dh.open(tmp_path / "copy") as copy:
        assert is_whole(copy)
        assert copy.triggers() == ["orders"]


def test_a_copy_that_is_cut_off_is_no_history(
    s3: Server, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = 0

    def counted(request: Callable[..., Any]) -> Callable[..., Any]:
        def send(*arguments: Any) -> Any:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return request(*arguments)

        return send

    for name in ("put", "put_new"):
        monkeypatch.setattr(objects.ObjectClient, name, counted(getattr(objects.ObjectClient, name)))
    monkeypatch.setattr(objects, "quick_check", lambda _client: None)
    with dh.open(tmp_path / "first", create=True) as history:
        fill(history)
    options = dict(s3.options)
    for number in count():
        left, target = number, f"{place}-{number}"
        try:
            dh.backup(tmp_path / "first", target, storage_options=options)
        except KeyboardInterrupt:
            with pytest.raises(dh.OpenError, match="there is no history here"):
                dh.open(target, storage_options=options)
        else:
            break
    assert number > 8
    with dh.open(target, storage_options=options) as copy:
        assert is_whole(copy)
