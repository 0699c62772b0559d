"""The program as a process: pipes, shells, the demo."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory.cli import demo
from tests.cli.conftest import Run
from tests.support import documents, trigger

PROGRAM = [sys.executable, "-m", "dochistory.cli"]


def started(*words: str, cwd: Path, text: Any = None) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*PROGRAM, *words], cwd=cwd, input=text, capture_output=True, check=False)


@pytest.mark.parametrize("format_", ["parquet", "arrow", "arrows", "csv", "jsonl"])
def test_documents_go_through_pipes_in_every_format(orders: Path, format_: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("uuid\n0001\n0004\n")
    words = ["--history", str(orders), "--output", "-", "--format", format_]
    first = started("classify", "in.csv", *words, "--verdicts-only", cwd=tmp_path)
    assert first.returncode == 0
    # The format of the pipe is seen from its first bytes.
    second = started(
        "classify", "-", "--column", "uuid=key", *words[:3], "-", "--prefix", "b_", cwd=tmp_path, text=first.stdout
    )
    assert second.stderr == b""
    assert second.stdout.count(b'"b_status": "DUPLICATE"') == 1


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    with dh.open(tmp_path / "large.history", create=True) as history:
        history.begin(documents([f"id-{n}" for n in range(50_000)]), trigger())
    with subprocess.Popen(
        [*PROGRAM, "export", "-o", "-", "--history", "large.history"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def closed(stream: str, *words: str, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    """Run the program with one of its streams closed."""
    script = ["sh", "-c", f'exec "$@" {stream}', "sh", *PROGRAM, *words]
    return subprocess.run(script, cwd=cwd, input=b"", capture_output=True, check=False)


@pytest.mark.parametrize("words", [["stats"], ["stats", "--json"], ["purge"], ["--help"], []])
def test_closed_output_is_told_before_anything_is_done(orders: Path, tmp_path: Path, words: list[str]) -> None:
    before = sorted((file, file.stat().st_mtime_ns) for file in orders.rglob("*"))
    ran = closed(">&-", *words, *(["--history", str(orders)] if words not in ([], ["--help"]) else []), cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"standard output is closed" in ran.stderr
    assert b"DH-USAGE" in ran.stderr
    assert sorted((file, file.stat().st_mtime_ns) for file in orders.rglob("*")) == before


def test_closed_errors_leave_the_output_alone(orders: Path, tmp_path: Path) -> None:
    ran = closed("2>&-", "verify", "--history", str(orders), cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, b"")
    ran = closed("2>&-", "verify", "--history", "nowhere", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert closed(">&- 2>&-", "stats", "--history", str(orders), cwd=tmp_path).returncode == 2


def test_closed_input_is_told(orders: Path, tmp_path: Path) -> None:
    for words in (["classify", "-"], ["mapper", "lookup", "-"]):
        ran = closed("<&-", *words, "--history", str(orders), cwd=tmp_path)
        assert (ran.returncode, ran.stdout) == (2, b"")
        assert b"standard input is closed" in ran.stderr
    assert closed("<&-", "stats", "--history", str(orders), cwd=tmp_path).returncode == 0


INTERRUPTED = """
import sys
class Keyboard:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Keyboard())
from dochistory.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("imported", ["dochistory.cli.arguments", "a_driver"])
def test_an_interrupted_program_says_so_and_no_more(orders: Path, tmp_path: Path, imported: str) -> None:
    words = [sys.executable, "-c", INTERRUPTED, imported, "load", "--history", str(orders), "--driver", "a_driver"]
    words += ["--connect", "old", "--query", "select uuid from old"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "dochistory: interrupted [DH-INTERRUPTED]\n")
    ran = subprocess.run([*words, "--json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, json.loads(ran.stderr)["error"]["code"]) == (130, "DH-INTERRUPTED")


def test_the_program_needs_no_spark_and_no_rich(orders: Path, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from dochistory.cli import main\n"
        f"status = main(['stats', '--history', {str(orders)!r}])\n"
        "sys.exit(status or bool({'pyspark', 'rich', 'pandas'} & set(sys.modules)))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


def test_help_lists_every_command_and_exit_status(tmp_path: Path) -> None:
    shown = started("--help", cwd=tmp_path).stdout.decode()
    for word in ("classify", "entries", "export", "stats", "purge", "maintain", "verify", "backup", "doctor", "demo"):
        assert f"    {word} " in shown
    assert "exit status:" in shown
    assert started("--version", cwd=tmp_path).stdout.decode() == f"dochistory {dh.__version__}\n"


@pytest.mark.parametrize("module", ["dochistory", "dochistory.cli"])
def test_the_package_runs_as_a_module(orders: Path, tmp_path: Path, module: str) -> None:
    command = [sys.executable, "-m", module, "names", "--history", str(orders)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"orders\n", b"")


def completed(words: str, tmp_path: Path) -> set[str]:
    script = (
        f'eval "$({" ".join(PROGRAM)} completion bash)"; COMP_WORDS=({words}); '
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); "
        '_shtab_dochistory "" "${COMP_WORDS[COMP_CWORD]}"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return set(ran.stdout.split())


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    (tmp_path / "docs.csv").touch()
    assert completed("dochistory pu", tmp_path) == {"purge"}
    assert completed("dochistory purge --d", tmp_path) == {"--debug", "--dry-run"}
    assert completed("dochistory entries --status ''", tmp_path) == {"processing", "completed"}
    assert completed("dochistory completion z", tmp_path) == {"zsh"}
    assert completed("dochistory classify d", tmp_path) == {"docs.csv"}
    assert completed("dochistory audit re", tmp_path) == {"reconcile", "resolve", "resolve-all", "resubmit"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_what_their_shells_understand(run: Run, shell: str) -> None:
    script = run("completion", shell).out
    assert "--dry-run" in script or "-l dry-run" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_the_demo_runs_where_its_source_is(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "examples" / "demo"
    place.mkdir(parents=True)
    (place / "__main__.py").write_text("import sys; sys.exit(sys.argv[1:] != ['--policy', 'rerun'])")
    assert run("demo", "--policy", "rerun").status == 0
    assert run("demo").status == 1


def test_without_its_source_the_demo_says_where_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_places", lambda: [Path("nowhere")])
    ran = run("demo")
    assert (ran.status, "make demo" in ran.err) == (2, True)


def test_a_directory_without_rights_is_told(run: Run, orders: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may do anything")
    next(orders.glob("triggers/*")).chmod(0)
    try:
        assert run("verify", "--history", orders).status == 3
    finally:
        next(orders.glob("triggers/*")).chmod(0o755)


@pytest.mark.parametrize("text", [b"", b"\n", b"uuid\n"])
def test_no_documents_are_no_mistake(orders: Path, tmp_path: Path, text: bytes) -> None:
    ran = started("classify", "-", "--history", str(orders), "--json", cwd=tmp_path, text=text)
    assert ran.returncode == 0
    assert b'"documents": 0' in ran.stdout


def test_a_key_that_the_terminal_cannot_show_is_shown_by_number(tmp_path: Path) -> None:
    with dh.open(tmp_path / "odd.history", create=True) as history:
        history.begin(documents(["Grüße"]), trigger())
    ran = subprocess.run(
        [*PROGRAM, "entries", "--history", "odd.history"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, rb"Gr\xfc\xdfe" in ran.stdout) == (0, True)
