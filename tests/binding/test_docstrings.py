"""What an editor shows: every public member says what it takes, gives and raises, with types and codes."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tools import stub

import dochistory as dh
from dochistory import _native
from tests.support import documents, trigger

MODULES = [dh, *(getattr(dh, name) for name in dh.__all__ if isinstance(getattr(dh, name), ModuleType))]
NATIVE = Path(_native.__file__).with_name("_native.pyi")
ENTRY = re.compile(r"^    (?:dh\.)?([A-Z]\w+): (.*)$", re.MULTILINE)


Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Member:
    """A public function, method or property."""

    name: str
    member: Any
    text: str

    @property
    def code(self) -> Definition | None:
        """Its source; None of what was made by a decorator."""
        try:
            (found,) = ast.parse(textwrap.dedent(inspect.getsource(self.member))).body
        except (TypeError, OSError):
            return None
        return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None

    @property
    def signature(self) -> Definition | None:
        """What its source or the stub says of arguments and result."""
        return self.code or STUBS.get(self.name)


def typed_dicts() -> dict[str, set[str]]:
    classes = [node for node in ast.parse(NATIVE.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    return {
        node.name: {
            one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        for node in classes
        if [ast.unparse(base) for base in node.bases] == ["TypedDict"]
    }


def stubs() -> dict[str, ast.FunctionDef]:
    found = {}
    for node in ast.parse(NATIVE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found[f"dochistory.{node.name}"] = node
        elif isinstance(node, ast.ClassDef):
            members = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            found |= {f"dochistory.{node.name}.{one.name}": one for one in members}
    return found


STUBS = stubs()


def is_function(member: Any) -> bool:
    return inspect.isroutine(member) and not isinstance(member, type)


def of_class(name: str, of: type) -> Iterator[tuple[str, Any]]:
    for key, member in sorted(vars(of).items()):
        is_member = inspect.isroutine(member) or inspect.isdatadescriptor(member)
        if not key.startswith("_") and is_member:
            yield f"{name}.{key}", getattr(member, "__func__", member)


def members() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        for key in module.__all__:
            found = getattr(module, key)
            name = f"{module.__name__}.{key}"
            if isinstance(found, type):
                yield name, found
                yield from of_class(name, found)
            elif is_function(found):
                yield name, found


MEMBERS = [
    # By its shortest name: `dochistory.Sweeper`, too, is that of a module.
    Member(name, member, inspect.getdoc(member) or "")
    for name, member in {id(member): (name, member) for name, member in reversed(list(members()))}.values()
]
FUNCTIONS = [one for one in MEMBERS if is_function(one.member)]


def name_of(member: Member) -> str:
    return member.name


def gives(member: Member) -> bool:
    """Whether its result is worth a word."""
    signature = member.signature
    assert signature is not None, f"{member.name} has no signature"
    return signature.returns is not None and ast.unparse(signature.returns) not in ("None", "Self", "NoReturn")


def raised(code: Definition) -> set[str]:
    """The package's own errors that it raises by itself."""
    found = set()
    for node in ast.walk(code):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func).removeprefix("dh.")
            if isinstance(getattr(dh, name, None), type):
                found.add(name)
    return found


@pytest.mark.parametrize("member", MEMBERS, ids=name_of)
def test_a_public_member_is_documented(member: Member) -> None:
    assert member.text


@pytest.mark.parametrize("member", FUNCTIONS, ids=name_of)
def test_a_result_is_documented(member: Member) -> None:
    assert not gives(member) or re.search(r"^(Returns|Yields):$", member.text, re.MULTILINE)


@pytest.mark.parametrize("member", FUNCTIONS, ids=name_of)
def test_arguments_are_documented(member: Member) -> None:
    signature = member.signature
    assert signature is not None
    own = signature.args
    names = [one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs) if one.arg not in ("self", "cls")]
    assert [name for name in names if not re.search(rf"^    {name}: ", member.text, re.MULTILINE)] == []


@pytest.mark.parametrize("member", FUNCTIONS, ids=name_of)
def test_errors_are_documented(member: Member) -> None:
    code = member.code
    if code is None:
        assert "\nRaises:\n" in member.text
    else:
        assert raised(code) <= set(re.findall(r"^    (?:dh\.)?(\w+): ", member.text, re.MULTILINE))


@pytest.mark.parametrize("member", MEMBERS, ids=name_of)
def test_an_error_is_documented_with_its_code(member: Member) -> None:
    _, _, section = member.text.partition("\nRaises:\n")
    for name, text in ENTRY.findall(section.partition("\n\n")[0]):
        of = getattr(dh, name, None)
        known = re.match(r"\[DH-[A-Z-]+\]", (of and of.__doc__) or "")
        assert known is None or text.startswith(known.group(0)), name


def test_the_stub_says_what_the_extension_says() -> None:
    assert stub.differing() == []


def test_a_changed_docstring_of_the_stub_is_noticed_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "_native.pyi"
    whole = stub.STUB.read_text(encoding="utf-8")
    text = whole.replace("The directory.", "A directory.").replace('    """Close it; again', '    """Open it; again')
    copy.write_text(text, encoding="utf-8")
    monkeypatch.setattr(stub, "STUB", copy)
    assert stub.differing() == ["path", "close"]
    assert stub.written() == whole


def test_the_stub_has_a_type_for_everything() -> None:
    assert not [node for node in ast.walk(ast.parse(stub.STUB.read_text())) if getattr(node, "id", "") == "Any"]


def test_dictionaries_have_the_keys_of_the_stub(history: dh.History) -> None:
    orders, types = trigger(), typed_dicts()
    history.begin(documents(["a"]), orders)
    history.pin(orders)
    history.mapper("jms").create(["1"], ["2"])
    figures = history.stats()
    (pin,) = history.pins(orders)
    job = history._shards.reserve(orders, reads=False)
    receipt = history._shards.stage_entries(documents(["b"]), orders, job=job.token, part=0, attempt="0")
    found: dict[str, object] = {
        # `_Settings` adds the name and the kind to these.
        "_SettingsOfKind": dict.fromkeys(dh.Trigger.FIELDS[2:]),
        "_Figures": figures,
        "_TriggerFigures": figures["triggers"]["orders"],
        "_Partition": figures["triggers"]["orders"]["partitions"][0],
        "_ValueFigures": history.mapper("jms").stats(),
        "_Pin": pin,
        "_Receipt": _native.read_receipt(receipt),
        "_Finished": history.complete(["a"], orders),
        "_Purged": history.purge(orders)["orders"],
        "_PurgedValues": history.mapper("jms").purge(),
        "_Maintained": history.maintain(orders)["orders"],
    }
    (segment, *_) = sorted((history.path).rglob("segment-*"))
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    segment.write_bytes(damaged)
    repaired = _native.repair(history.path)
    found |= {"_Repaired": repaired, "_Finding": repaired["findings"][0]}
    assert {name: set(one) for name, one in found.items()} == types  # type: ignore[call-overload]
