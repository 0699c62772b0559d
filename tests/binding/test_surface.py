"""What the package shows: every name is public, documented and typed, and nothing else is there."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
import types
from importlib.metadata import version
from typing import Any

import pytest

import dochistory as dh
from dochistory import _native

PRIMITIVES = ["Job", "Shards", "Staged", "StagedClaim", "read_receipt"]
EXPORTS = [name for name in vars(_native) if not name.startswith("_") and name not in PRIMITIVES] + ["__version__"]
INTERNAL = {"checks", "cli", "display", "file_systems", "monitoring", "notebook", "objects", "probe"}
"""Modules of the package that other modules use, or the shell."""
CLASSES = [dh.Trigger, dh.History, dh.Claim, dh.DocumentClaim]


def public_members(of: type) -> list[tuple[str, Any]]:
    return [(name, member) for name, member in vars(of).items() if not name.startswith("_")]


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_of_the_extension_is_public_in_the_package(name: str) -> None:
    assert name in dh.__all__
    # The package's own `repair` takes in the audit log, which the engine does not know.
    is_wrapped = name == "repair"
    assert (getattr(dh, name) is getattr(_native, name)) is not is_wrapped


def test_a_history_shows_what_its_users_need() -> None:
    shown = {name for name, _ in public_members(dh.History)}
    assert shown == {
        *("path", "url", "id", "closed", "shards", "close"),
        *("classify", "classify_codes", "begin", "begin_one", "complete", "release", "transaction"),
        *("entries", "triggers", "load", "audit"),
        *("purge", "change", "maintain", "verify", "stats", "pin", "pins", "unpin"),
        *("mapper", "mappers", "delivery", "delivery_out", "delivery_status"),
    }


OF_HISTORY = {name: name for name in ("reserve", "job", "stage", "stage_entries", "commit_entries", "abort_entries")}
OF_HISTORY |= {"delivery_portion": "decide_delivery", "maintain_values": "maintain_values"}
OF_HISTORY |= {"verify_values": "verify_values"}


@pytest.mark.parametrize("name", OF_HISTORY)
def test_a_primitive_warns_under_its_old_name(history: dh.History, name: str) -> None:
    now = OF_HISTORY[name]
    assert now in dir(history._shards)
    with pytest.warns(DeprecationWarning, match=rf"History\.{name} is deprecated: .* History\._shards\.{now}\b"):
        method = getattr(history, name)
    assert method.__name__ == now


def test_a_primitive_under_its_old_name_works(history: dh.History) -> None:
    with pytest.warns(DeprecationWarning, match="verify_values"):
        assert history.verify_values() == 0  # type: ignore[attr-defined]


def test_a_delivery_is_planned_under_the_old_names(history: dh.History) -> None:
    delivery: Any = history.delivery("s", start=1)
    with pytest.warns(DeprecationWarning, match=r"GuaranteedDelivery\.plan .* History\._shards\.plan_delivery"):
        plan = delivery.plan()
    with pytest.warns(DeprecationWarning, match=r"GuaranteedDelivery\.gather .* History\._shards\.merge_delivery"):
        poll = delivery.gather(plan, [])
    assert poll.state == "open"


def test_an_attribute_that_never_was_is_an_error(history: dh.History) -> None:
    for of in (history, history.delivery()):
        with pytest.raises(AttributeError, match="object has no attribute 'reserved'"):
            of.reserved  # type: ignore[union-attr] # noqa: B018


@pytest.mark.parametrize("name", ["Job", "Staged", "StagedClaim", "read_receipt"])
def test_a_class_of_primitives_warns_under_its_old_name(name: str) -> None:
    assert name not in dh.__all__
    with pytest.warns(DeprecationWarning, match=rf"dochistory\.{name} is deprecated: .* dochistory\._native\.{name}\b"):
        assert getattr(dh, name) is getattr(_native, name)


@pytest.mark.parametrize("name", [*EXPORTS, *PRIMITIVES])
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


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", [name for name in dh.__all__ if not hasattr(_native, name)])
def test_every_public_name_works_without_an_import(name: str) -> None:
    assert run(f"import dochistory as dh; print(getattr(dh, {name!r}) is not None)") == "True"


def test_dir_shows_the_public_names_and_no_others() -> None:
    shown = [name for name in dir(dh) if not name.startswith("__")]
    assert shown == [name for name in sorted(dh.__all__) if not name.startswith("__")]
    assert {"Consumer", "Statistics", "Suspension", "Sweeper", "triggers_from_toml", "journal", "spark"} <= set(shown)


def test_every_public_module_is_shown() -> None:
    found = {module.name for module in pkgutil.iter_modules(dh.__path__) if not module.name.startswith("_")}
    assert found - set(dh.__all__) == INTERNAL | MOVED


MOVED = {"journals", "mapper_journal"}


@pytest.mark.parametrize(("old", "new"), [("journals", "journal"), ("mapper_journal", "journal.mapper")])
def test_a_module_warns_under_its_old_name_and_works(old: str, new: str) -> None:
    script = (
        "import sys, warnings; warnings.simplefilter('always'); caught = []; "
        "warnings.showwarning = lambda text, kind, *_: caught.append((str(text), kind.__name__)); "
        f"import dochistory as dh; old = dh.{old}; new = dh.{new}; "
        "print(caught, old.__all__ == [name for name in old.__all__ if getattr(old, name) is getattr(new, name)])"
    )
    said = f"dochistory.{old} is deprecated: it is dochistory.{new} now"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"[('{said}', 'DeprecationWarning')] True"


def test_all_names_can_be_imported_without_spark() -> None:
    script = (
        "import sys; sys.modules['pyspark'] = None; from dochistory import *; print(Sweeper.__name__, 'spark' in dir())"
    )
    assert run(script) == "Sweeper False"


def test_importing_the_package_does_not_import_spark_or_pyarrow() -> None:
    loaded = "[one for one in ('pyarrow', 'pyspark', 'pandas') if one in sys.modules]"
    assert run(f"import sys, dochistory; dir(dochistory); print({loaded})") == "[]"


@pytest.mark.parametrize("of", [dh.History, dh.Claim, dh.DocumentClaim], ids=lambda of: of.__name__)
def test_objects_of_a_history_are_made_by_a_history_only(of: Any) -> None:
    with pytest.raises(TypeError):
        of()


def test_the_extension_is_a_module_of_its_own() -> None:
    assert isinstance(_native, types.ModuleType)
    assert {one.__module__ for one in CLASSES} == {"dochistory"}
