"""What dochistory depends on: few packages, under licences that go with its own. Needs no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = {"allocator-api2", "crc32c", "getrandom", "hashbrown", "libc", "memmap2", "rustix", "thiserror", "xxhash-rust"}
EXTENSION = {
    "arrow-array",
    "arrow-buffer",
    "arrow-cast",
    "arrow-data",
    "arrow-schema",
    "arrow-select",
    "dochistory-core",
    "pyo3",
    "pyo3-arrow",
}

NOT_IN_THE_MATRIX = "aio_pika confluent_kafka deltalake duckdb grpc hypothesis pika polars psycopg stomp yaml"
"""What the environments of `make test-matrix` do not install."""
COLLECT = f"""
import builtins
import pytest

real = builtins.__import__

def lacking(name, *rest, **named):
    if name.split(".")[0] in {NOT_IN_THE_MATRIX!r}.split():
        raise ModuleNotFoundError(name)
    return real(name, *rest, **named)

builtins.__import__ = lacking
what = ["tests/spark", "-m", "matrix", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
raise SystemExit(pytest.main(what))
"""


@pytest.fixture(scope="module")
def packages() -> list[dict[str, Any]]:
    """Every Rust package of the lock file that can be built in here, as cargo describes it."""
    command = [
        "cargo",
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]
    described = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: list[dict[str, Any]] = json.loads(described)["packages"]
    return found


def allowed(expression: str, licences: set[str]) -> bool:
    """Whether one may choose only allowed licences: `MIT OR GPL-3.0`, `(MIT OR Apache-2.0) AND Unicode-3.0`."""
    plain = expression.replace("/", " OR ")
    words = re.findall(r"\(|\)|\bAND\b|\bOR\b|[^\s()]+(?: WITH [^\s()]+)?", plain)
    terms = [{"AND": "and", "OR": "or", "(": "(", ")": ")"}.get(word, str(word in licences)) for word in words]
    return bool(eval(" ".join(terms), {"__builtins__": {}}))


def test_every_rust_package_has_a_licence_that_is_allowed(packages: list[dict[str, Any]]) -> None:
    licences = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    assert not allowed("GPL-3.0-only", licences)
    assert allowed("(MIT OR GPL-3.0-only) AND Unicode-3.0", licences)
    wrong = {one["name"]: one["license"] for one in packages if not allowed(one["license"] or "none", licences)}
    assert wrong == {}


def test_every_rust_package_comes_from_the_registry_or_from_here(packages: list[dict[str, Any]]) -> None:
    elsewhere = [one["id"] for one in packages if one["source"] and not one["source"].startswith("registry+")]
    assert elsewhere == []


def test_dependencies_are_few_and_none_comes_unnoticed(packages: list[dict[str, Any]]) -> None:
    direct = {
        one["name"]: {needed["name"] for needed in one["dependencies"] if needed["kind"] is None} for one in packages
    }
    assert direct["dochistory-core"] == ENGINE
    assert direct["dochistory-python"] == EXTENSION
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [re.split(r"\W", one)[0] for one in project["dependencies"]] == ["pyarrow"]


def test_the_matrix_of_sparks_wants_no_package_that_it_lacks() -> None:
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", COLLECT]
    collected = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stdout[-3000:]
