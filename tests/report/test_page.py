"""The page, as a browser without a network shows it."""

import html
import itertools
import os
import re
import shlex
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

import dochistory as dh
from dochistory import journal, report
from dochistory.display import VERDICTS
from dochistory.report.rules import RULES, explained
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
    assert re.findall(r'(?:src|url)\s*[=(]|href="(?!#)', page) == []
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
    assert run(*words).out == "r.html: 1 trigger, 52 entries\n"
    shown = chromium(tmp_path / "r.html", "--dump-dom")

    assert "<title>Document history" in shown, "a key's script ran"
    assert '<b id="entries">52</b>' in shown
    assert '<b id="in-doubt">2</b>' in shown
    assert len(re.findall(r'</th><td><span class="verdict (?:DUPLICATE|IN_DOUBT)">', shown)) == 2
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
    assert ran.json == {"file": "report.html", "triggers": 1, "entries": 52, "damaged": {}}
    assert (tmp_path / "report.html").read_text().endswith("</html>\n")
    again = run("report", "--history", "test.history")
    assert (again.status, "--force" in again.err) == (2, True)
    assert run("report", "--history", "test.history", "--force").status == 0
    assert run("report", "--history", "test.history", "--output", "no/such/r.html").status == 2
    assert run("report", "--history", "test.history", "--trigger", "gone").status == 2
    assert run("report", "--history", "test.history", "--journal", "gone").status == 2


def page_of(path: Path, **options: object) -> str:
    with dh.open(path, read_only=True) as history:
        return report.html(report.gather(history, **options))  # type: ignore[arg-type]


@pytest.fixture
def kept(made: Path) -> Path:
    """The history with documents in its audit log."""
    with dh.open(made) as history:
        history.begin(documents([HOSTILE, "ä-ключ"]), ORDERS, now=T0, audit=True)
    return made


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(VERDICTS.values(), 2)))
def test_colours_of_verdicts_differ_by_a_contrast_of_three(one: str, other: str) -> None:
    assert contrast(one, other) >= 3


@pytest.mark.parametrize(("verdict", "ink"), [("NEW", "#000000"), ("DUPLICATE", "#000000"), ("IN_DOUBT", "#ffffff")])
def test_text_on_a_verdicts_colour_can_be_read(verdict: str, ink: str) -> None:
    assert contrast(VERDICTS[verdict], ink) >= 4.5


def test_page_and_demo_have_the_same_colours(made: Path) -> None:
    page = page_of(made, now=T0)
    assert all(colour in page for colour in VERDICTS.values())
    picture = (Path(__file__).parents[2] / "examples" / "demo" / "picture.py").read_text(encoding="utf-8")
    assert "from dochistory.display import VERDICTS" in picture


def test_commands_settle_what_waits_as_they_stand(run: Run, kept: Path) -> None:  # noqa: F811 - the fixture
    page = page_of(kept, now=T0)
    commands = [html.unescape(one) for one in re.findall(r"<code>(dochistory [^<]*)</code>", page)]
    settling = [one for one in commands if "audit resolve 1 2 --as process" in one]
    assert len(settling) == 1
    for command in (settling[0], next(one for one in commands if "audit resubmit" in one)):
        ran = run(*shlex.split(command)[1:])
        assert (ran.status, ran.err) == (0, "")
    for command in commands:
        if "sweep" not in command and "audit" not in command:
            assert run(*shlex.split(command)[1:]).status == 0, command


def test_rule_codes_are_explained_on_hover_and_in_a_table(made: Path, tmp_path: Path) -> None:
    page = page_of(made, now=T0, journal=tmp_path / "j.jsonl")
    assert '<abbr title="it was begun and has not ended">R11</abbr>' in page
    assert explained("R10>S1+batch").endswith("the resolver says NEW; a copy of an earlier row of its batch")
    rules = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
    assert list(RULES) == re.findall(r"^\| ([RS]\d+) \|", rules, re.MULTILINE)
    for code in RULES:
        assert f'<th scope="row">{code}</th>' in page


def test_doubts_are_folded_into_pages(history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(documents([f"k-{n}" for n in range(120)]), ORDERS, now=T0)
    page = page_of(history_path, now=T0)
    assert re.findall(r"<summary>(\d+ to \d+), began", page) == ["1 to 50", "51 to 100", "101 to 120"]
    assert "<details open" not in page


def test_what_a_purge_would_free_counts_the_log(made: Path) -> None:
    page = " ".join(page_of(made, now=T0 + timedelta(days=40)).split())
    assert "drop 52 entries, 52 of them in the log" in page
    freed = re.search(r'<b id="purge">([\d.]+) KiB', page)
    assert freed is not None
    assert float(freed[1]) > 1


CONTRASTS = """<!doctype html><title>?</title><iframe width="1100" height="900" srcdoc="{page}"></iframe><script>
const parts = text => text.match(/[\\d.]+/g).map(Number);
const linear = part => part / 255 <= .04045 ? part / 255 / 12.92 : ((part / 255 + .055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {{
  const view = frame.contentWindow, style = one => view.getComputedStyle(one);
  for (const one of frame.contentDocument.querySelectorAll("details")) one.open = true;
  const paper = one => {{
    const colour = one ? parts(style(one).backgroundColor) : [255, 255, 255];
    return colour.length < 4 || colour[3] > 0 ? colour : paper(one.parentElement);
  }};
  const found = [...frame.contentDocument.body.querySelectorAll("*:not(svg *)")]
    .filter(one => [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
    .map(one => {{
      const [less, more] = [luminance(parts(style(one).color)), luminance(paper(one))].sort((a, b) => a - b);
      return [(more + .05) / (less + .05), one.className || one.tagName];
    }});
  const least = found.sort((a, b) => a[0] - b[0])[0];
  const dark = luminance(parts(style(frame.contentDocument.body).backgroundColor)) < .5;
  document.title = ["contrast", least[0].toFixed(2), least[1], "of", found.length, dark ? "dark" : "light"].join(" ");
}});
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "flag"), [("light", "1"), ("dark", "0")])
def test_all_text_in_a_browser_has_a_contrast_of_4_5(kept: Path, tmp_path: Path, scheme: str, flag: str) -> None:
    harness = tmp_path / "harness.html"
    page = page_of(kept, now=T0, journal=tmp_path / "j.jsonl")
    harness.write_text(CONTRASTS.format(page=html.escape(page)), encoding="utf-8")
    shown = chromium(
        harness, "--dump-dom", f"--blink-settings=preferredColorScheme={flag}", "--virtual-time-budget=5000"
    )
    measured = re.search(r"<title>contrast ([\d.]+) (.+) of (\d+) (\w+)</title>", shown)
    assert measured is not None
    assert float(measured[1]) >= 4.5, measured[2]
    assert int(measured[3]) > 100
    assert measured[4] == scheme


MEASURE = """<!doctype html><title>?</title><iframe width="{width}" height="900" srcdoc="{page}"></iframe><script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {{
  const page = frame.contentDocument;
  for (const one of page.querySelectorAll("details")) one.open = true;
  const wide = [...page.body.querySelectorAll("*")].filter(one => !one.closest(".scroll")
    && one.getBoundingClientRect().right > {width} + 1);
  document.title = "width " + page.documentElement.scrollWidth + " too wide " + wide.length;
}});
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1100])
def test_nothing_runs_over_the_edge_of_a_phone(kept: Path, tmp_path: Path, width: int) -> None:
    long = tmp_path / ("a-very-long-name-" * 8 + ".history")
    kept.rename(long)
    page = page_of(long, now=T0, journal=tmp_path / "j.jsonl")
    harness = tmp_path / "harness.html"
    harness.write_text(MEASURE.format(width=width, page=html.escape(page)), encoding="utf-8")
    shown = chromium(harness, "--dump-dom", "--window-size=1300,1000", "--virtual-time-budget=5000")
    measured = re.search(r"<title>width (\d+) too wide (\d+)</title>", shown)
    assert measured is not None
    assert int(measured[1]) <= width
    assert measured[2] == "0"
