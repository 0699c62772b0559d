"""The page, as a browser without a network shows it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import dochistory as dh
from dochistory import journal, report
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.servers import program
from tests.support import T0, documents, trigger

ORDERS = trigger("<orders> & co", history_time_to_live="30 days")
HOSTILE = "<script>document.title='taken'</script>"


@pytest.fixture
def made(history_path: Path, tmp_path: Path) -> Path:
    with dh.open(history_path, create=True) as history:
        keys = [HOSTILE, "ä-ключ", *(f"k-{n}" for n in range(50))]
        history.begin(documents(keys), ORDERS, now=T0).complete(rows=range(2, 52))
        verdicts = history.classify(documents(keys), ORDERS, now=T0)
        journal.write(documents(keys), verdicts, ORDERS, sinks=[journal.JsonLinesSink(tmp_path / "j.jsonl")], now=T0)
    return history_path


def test_page_is_self_contained_and_escapes_outside_text(made: Path, tmp_path: Path) -> None:
    with dh.open(made, read_only=True) as history:
        page = report.html(report.gather(history, journal=tmp_path / "j.jsonl", now=T0))
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert "&lt;orders&gt; &amp; co" in page
    assert "ä-ключ" in page
    assert "<script" not in page
    assert re.findall(r"(?:src|href|url)\s*[=(]", page) == []
    assert "http:" not in page
    assert "https:" not in page


def chromium(page: Path, *more: str) -> str:
    """What a headless browser makes of the page."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += [
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={page.parent / 'user'}",
    ]
    command = [program("chromium", "chromium"), *flags, *more, page.as_uri()]
    ran = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "HOME": str(page.parent)}
    )
    return ran.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("made")
def test_a_browser_shows_every_part_of_the_page(run: Run, tmp_path: Path) -> None:  # noqa: F811 - the fixture
    words = ["report", "--history", "test.history", "--journal", "j.jsonl", "--output", "r.html"]
    assert run(*words).out == "r.html: 1 triggers, 52 entries\n"
    shown = chromium(tmp_path / "r.html", "--dump-dom")

    assert "<title>Document history" in shown, "a key's script ran"
    assert '<b id="entries">52</b>' in shown
    assert '<b id="in-doubt">2</b>' in shown
    assert len(re.findall(r"<tr><td>[^<]*</td><td>(?:DUPLICATE|IN_DOUBT)</td>", shown)) == 2
    assert shown.count('<td class="key">') == 2
    assert shown.count('<rect class="begun"') == 1

    picture = tmp_path / "r.png"
    chromium(tmp_path / "r.html", f"--screenshot={picture}", "--window-size=1100,1600")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


@pytest.mark.usefixtures("made")
def test_the_command_prints_or_writes_and_explains_itself(run: Run, tmp_path: Path) -> None:  # noqa: F811 - the fixture
    assert run("report", "--history", "test.history", "--output", "-").out.startswith("<!doctype html>")
    ran = run("report", "--history", "test.history", "--json")
    assert ran.json == {"file": "report.html", "triggers": 1, "entries": 52}
    assert (tmp_path / "report.html").read_text().endswith("</html>\n")
    assert run("report", "--history", "test.history", "--output", "no/such/r.html").status == 2
    assert run("report", "--history", "test.history", "--trigger", "gone").status == 2
    assert run("report", "--history", "test.history", "--journal", "gone").status == 2
