"""The guides: every snippet of Python runs, and every command of the command line, in the order of the page."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dochistory as dh
from dochistory.cli import main
from tests.support import documents, trigger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["brokers.md", "cli.md", "mapper.md", "migration.md", "operations.md", "tutorial.md"]
AROUND = ["audit.md", "journal.md", "resolvers.md", "statistics.md", "suspension.md"]


def blocks(page: str, language: str) -> Iterator[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    yield from re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))


def printed(page: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run a page's snippets one after the other; the lines that they print."""
    found = list(blocks(page, "python"))
    assert found
    names: dict[str, object] = {"__name__": page}
    for number, block in enumerate(found, 1):
        exec(compile(block, f"{page}, snippet {number}", "exec"), names)
    return capsys.readouterr().out.splitlines()


def promised(page: str) -> list[str]:
    """What comments behind `print` say is printed."""
    text = "".join(blocks(page, "python"))
    return [
        said.split("]: ")[0] + ("]" if "]: " in said else "")
        for said in re.findall(r"^\s*print\(.*\)\s+# (\[.*)$", text, re.MULTILINE)
    ]


@pytest.mark.parametrize(
    "page",
    ["../README.md", "brokers.md", "mapper.md", "migration.md", "operations.md", "rules.md", "tutorial.md", *AROUND],
)
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
def test_snippets_run_and_print_what_they_say(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = promised(page)
    assert said
    assert [line for line in printed(page, capsys) if line.startswith("[")] == said


def a_history(capsys: pytest.CaptureFixture[str]) -> None:
    with dh.open("orders.history", create=True) as history:
        history.begin(documents(["0001", "0002"]), trigger(history_time_to_live="30 days")).complete(rows=[0])
    Path("docs.csv").write_text("uuid,amount\n0001,5\n0002,7\n0003,1\n")
    capsys.readouterr()


def test_the_commands_of_the_page_about_them_run(capsys: pytest.CaptureFixture[str]) -> None:
    a_history(capsys)
    Path("old.csv").write_text("uuid\n0001\n0009\n")
    pages = [*blocks("cli.md", "sh"), *blocks("migration.md", "sh")]
    commands = [
        line for block in pages for line in block.replace("\\\n", "").splitlines() if line.startswith("dochistory")
    ]
    assert len(commands) >= 10
    for command in commands:
        assert main(shlex.split(command, comments=True)[1:]) == 0, command
    assert Path("judged.parquet").exists()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("page", [page for page in AROUND if page != "resolvers.md"])
def test_the_commands_of_a_page_run_after_its_snippets(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed(page, capsys)
    commands = [line for block in blocks(page, "sh") for line in block.replace("\\\n", "").splitlines()]
    assert commands
    for command in commands:
        assert main(shlex.split(command, comments=True)[1:]) == 0, command


def test_the_program_of_that_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    a_history(capsys)
    assert printed("cli.md", capsys) == ["2"]


@pytest.mark.parametrize(
    "page", ["../README.md", *sorted(page.name for page in DOCS.glob("*.md"))], ids=lambda page: Path(page).name
)
def test_every_snippet_compiles_and_is_no_comment(page: str) -> None:
    """Those that need a broker or a stream of one's own are marked, as `python sketch`, and not run here."""
    for number, block in enumerate(blocks(page, "python[^\n]*"), 1):
        tree = compile(block, f"{page}, snippet {number}", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert isinstance(tree, ast.Module), page
        assert tree.body, f"{page}, snippet {number} is a comment"


@pytest.mark.spark
def test_snippets_of_spark_run(spark: "SparkSession") -> None:
    found = [block for page in PAGES for block in blocks(page, "python spark")]
    assert found
    df = spark.createDataFrame([("m-1", "3"), ("m-2", None)], "MessageId string, ApproximateReceiveCount string")
    for block in found:
        names: dict[str, object] = {"df": df}
        exec(block, names)
        assert [row["redelivery_count"] for row in names["counted"].collect()] == [2, -1]  # type: ignore[attr-defined]


def test_every_command_has_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = re.findall(r"^    ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert listed
    assert [name for name in listed if not re.search(rf"^\| `{name}[ `]", page, re.MULTILINE)] == []


def anchors(page: Path) -> set[str]:
    """The names under which GitHub links to a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [*sorted(DOCS.glob("*.md")), *sorted(DOCS.parent.glob("*.md"))], ids=lambda page: page.name
)
def test_links_between_pages_lead_to_headings_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            broken.append(target)
    assert broken == []
