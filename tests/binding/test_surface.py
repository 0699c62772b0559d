"""What the package shows: every name is public, documented and typed, and nothing else is there."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
from importlib.metadata import version
from typing import Any

import pytest

import dochistory as dh
from dochistory import _native

EXPORTS = [name for name in vars(_native) if not name.startswith("_")] + ["__version__"]
CLASSES = [dh.Trigger, dh.History, dh.Claim, dh.DocumentClaim]


def public_members(of: type) -> list[tuple[str, Any]]:
    return [(name, member) for name, member in vars(of).items() if not name.startswith("_")]


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_of_the_extension_is_public_in_the_package(name: str) -> None:
    assert name in dh.__all__
    assert getattr(dh, name) is getattr(_native, name)


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_is_documented(name: str) -> None:
    export = getattr(_native, name)
    assert inspect.getdoc(export)
    if isinstance(export, type) and issubclass(export, dh.DocHistoryError) and export is not dh.DocHistoryError:
        assert (export.__doc__ or "").startswith("[DH-")


@pytest.mark.parametrize("of", CLASSES, ids=lambda of: of.__name__)
def test_every_method_and_property_is_documented(of: type) -> None:
    members = public_members(of)
    assert members
    assert [name for name, member in members if not inspect.getdoc(member)] == []


def test_every_argument_is_documented() -> None:
    methods = [member for of in (dh.History, dh.Claim) for _, member in public_members(of) if callable(member)]
    for method in [*methods, dh.open, dh.Trigger]:
        documented = inspect.getdoc(method) or ""
        arguments = [name for name in inspect.signature(method).parameters if name != "self"]
        assert [name for name in arguments if f"\n    {name}: " not in documented] == [], method


def test_the_version_is_the_packages() -> None:
    assert dh.__version__ == version("dochistory")


def test_importing_the_package_does_not_import_spark_or_pyarrow() -> None:
    script = "import sys, dochistory; print([one for one in ('pyarrow', 'pyspark', 'pandas') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("of", [dh.History, dh.Claim, dh.DocumentClaim], ids=lambda of: of.__name__)
def test_objects_of_a_history_are_made_by_a_history_only(of: Any) -> None:
    with pytest.raises(TypeError):
        of()


def test_the_extension_is_a_module_of_its_own() -> None:
    assert isinstance(_native, types.ModuleType)
    assert {one.__module__ for one in CLASSES} == {"dochistory"}
