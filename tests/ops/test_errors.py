"""The page of errors: every code that the sources have is there, with its class, and no other."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

import dochistory as dh
from tests.store.processes import ROOT

CODE = re.compile(r"DH-[A-Z]+(?:-[A-Z]+)*\b")
ROW = re.compile(r"^\| `\[(DH-[A-Z-]+)\]` \| ([^|]+) \|", re.MULTILINE)
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ELSEWHERE = {"ImportError": "builtins", "UnsupportedError": "dochistory.spark", "JavaNotFoundError": "dochistory.spark"}


def test_page_has_every_code_of_the_sources_once() -> None:
    folders = ("python/dochistory", "rust/core/src", "rust/python/src")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".rs")]
    codes = {code for path in files for code in CODE.findall(path.read_text(encoding="utf-8"))}
    assert len(codes) > 30
    listed = [code for code, _ in ROW.findall(PAGE)]
    assert sorted(listed) == sorted(codes)


@pytest.mark.parametrize(("code", "classes"), [row for row in ROW.findall(PAGE) if row[1].startswith("`")])
def test_classes_of_a_code_exist_and_say_it(code: str, classes: str) -> None:
    for name in re.findall(r"`(\w+)`", classes):
        if name in ELSEWHERE:
            assert issubclass(getattr(import_module(ELSEWHERE[name]), name), Exception)
            continue
        kind = getattr(dh, name)
        assert issubclass(kind, dh.DocHistoryError)
        # A code of its own, or a more exact one of a class that has several.
        assert code in (kind.__doc__ or "") or name in ("StorageError", "ObjectStoreError")
