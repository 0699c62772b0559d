"""What waits and what is overdue, as `top`, `metrics` and the report show it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

import dochistory as dh
from dochistory import metrics, overview, report
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.mapper.support import messages
from tests.servers import program
from tests.support import T0, documents, trigger

MONITORING = Path(dh.__file__).parent / "monitoring"


@pytest.fixture
def busy(history_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history with everything that can wait for somebody."""
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    with dh.open(history_path, create=True) as history:
        history.begin(documents(["a", "b"]), trigger(), now=T0).complete(rows=[0])
        again = history.begin(pa.table({"uuid": ["a", "b"]}), trigger(), now=T0, audit=True)
        dh.Statistics(history).add(again.verdicts, trigger())
        history.mapper("jms").begin_send(messages(["m"]), persist_until="1 day")
        history.pin("orders")
        dh.Suspension(history_path, trigger()).suspend("moving")
    return history_path


def test_everything_that_waits_is_seen(busy: Path) -> None:
    with dh.open(busy, read_only=True) as history:
        seen = overview.look(history, now=T0 + timedelta(days=3))
    (one,) = seen.triggers
    assert (one.name, one.entries, one.processing, one.waiting, one.pins) == ("orders", 2, 1, 1, 1)
    assert one.oldest_processing == timedelta(days=3)
    assert one.overdue == timedelta(days=3) - timedelta(hours=2)
    assert one.suspended == "moving"
    assert (one.counts["duplicate"], one.counts["in_doubt"]) == (1, 1)
    assert seen.pending == {"jms": 1}
    said = "\n".join(seen.unfinished)
    for part in (
        "1 begun and not ended",
        "1 open in the audit log",
        "suspended (moving)",
        "overdue by 2 d",
        "1 id pending",
    ):
        assert part in said
    assert all("dochistory " in sentence for sentence in seen.unfinished)


@pytest.mark.parametrize("file", ["log", "manifest"])
def test_what_is_damaged_is_named_and_hides_nothing_else(
    run: Run,  # noqa: F811 - the fixture
    busy: Path,
    tmp_path: Path,
    file: str,
) -> None:
    with dh.open(busy) as history:
        history.begin(documents(["a"]), trigger("aged"), now=T0).complete()
        history.mapper("other").begin_send(messages(["m"]), persist_until="1 day")
    for room in ("triggers/aged-*", "mappers/other-*"):
        for one in busy.glob(f"{room}/{file}-*"):
            one.write_bytes(b"rubbish" + one.read_bytes()[7:])
    with dh.open(busy, read_only=True) as history:
        seen = overview.look(history, now=T0 + timedelta(days=3))
        page = history._repr_html_()
        with pytest.raises(dh.CorruptError, match="aged-"):
            report.gather(history, trigger="aged")
    assert [of.name for of in seen.triggers] == ["orders"]
    assert seen.pending == {"jms": 1}
    damaged = ["aged", "mapper other"]
    assert {name: why[:12] for name, why in seen.damaged.items()} == dict.fromkeys(damaged, "[DH-CORRUPT]")
    assert "aged: has no figures" in page
    assert "aged: has no figures" in run("top", "--history", busy).out
    made = run("report", "--history", busy, "--output", tmp_path / "page.html", "--json")
    assert (made.status, made.json["triggers"], [*made.json["damaged"]]) == (0, 1, damaged)
    assert "aged: has no figures" in (tmp_path / "page.html").read_text()


def test_counts_do_not_shrink_with_a_purge(busy: Path) -> None:
    with dh.open(busy) as history:
        before = overview.look(history)
        history.purge(trigger(), now=T0 + timedelta(days=3))
        after = overview.look(history)
    assert after.triggers[0].entries == 0
    assert after.triggers[0].counts == before.triggers[0].counts


def test_top_prints_once_into_a_pipe(run: Run, busy: Path) -> None:  # noqa: F811 - the fixture
    shown = run("top", "--history", busy)
    assert shown.status == 0
    assert "- orders: suspended (moving)" in shown.out
    assert run("top", "--history", busy, "--json").json["triggers"][0]["waiting"] == 1
    assert run("top", "--history", busy, "--trigger", "ordres").status == 2


def test_top_redraws_on_a_terminal(run: Run, busy: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("top", "--history", busy, "--runs", "2", "--every", "10 ms").out
    assert shown.count("\x1b[H\x1b[2J") == 2
    plain = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", shown)
    tables = [line for line in plain.splitlines() if not line.startswith(("- ", "/"))]
    assert max(len(line) for line in tables) <= 80


def names_of_all_metrics(path: Path) -> set[str]:
    with dh.open(path) as history:
        dh.Sweeper(history).sweep()
        text = metrics.prometheus_text(history, dh.Statistics(history), now=T0 + timedelta(hours=1))
    # What has no value now is listed by the module, too.
    known = Path(metrics.__file__).read_text(encoding="utf-8")
    return {*re.findall(r"^(dochistory_\w+)", text, re.MULTILINE), *re.findall(r'"(dochistory_\w+)"', known)}


def test_alerts_and_dashboard_ask_for_metrics_that_exist(busy: Path) -> None:
    known = names_of_all_metrics(busy)
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    dashboard = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    asked = [rule["expr"] for rule in rules]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    assert len(asked) > 15
    for expression in asked:
        found = re.findall(r"dochistory_\w+", expression)
        assert found, expression
        assert set(found) <= known, expression
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)


@pytest.mark.slow
def test_prometheus_loads_the_alert_rules() -> None:
    checked = subprocess.run(
        [program("promtool", "prometheus"), "check", "rules", str(MONITORING / "alerts.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, "8 rules found" in checked.stdout) == (0, True), checked.stderr


def test_the_files_for_monitoring_are_printed(run: Run) -> None:  # noqa: F811 - the fixture
    assert run("metrics", "--alerts").out == (MONITORING / "alerts.yml").read_text(encoding="utf-8")
    assert run("metrics", "--dashboard").out == (MONITORING / "dashboard.json").read_text(encoding="utf-8")
    assert run("metrics", "--alerts", "--dashboard").status == 2
    assert run("metrics", "--serve", "here").status == 2


def test_metrics_are_served_until_the_end_is_asked_for(busy: Path) -> None:
    words = [sys.executable, "-m", "dochistory.cli", "metrics", "--serve", "127.0.0.1:0", "--history", str(busy)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        with urllib.request.urlopen(address[0]) as answer:
            page = answer.read().decode()
        assert 'dochistory_processing{trigger="orders"} 1.0' in page
        assert 'dochistory_documents_total{trigger="orders",what="in_doubt"} 1.0' in page
        with dh.open(busy) as history:
            history.begin(documents(["c"]), trigger())
        with urllib.request.urlopen(address[0]) as answer:
            assert 'dochistory_processing{trigger="orders"} 2.0' in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(address[0])


def test_a_notebook_shows_what_is_unfinished(busy: Path) -> None:
    with dh.open(busy) as history:
        assert "1 waiting" in history.audit._repr_html_()
        assert "1 open in the audit log" in history._repr_html_()
        assert "1 pending" in history.mapper("jms")._repr_html_()
        assert "no id is pending" in history.mapper("other")._repr_html_()
        shown = dh.Statistics(history)._repr_html_()
        assert "1 (R11: 1)" in shown
        for page in (shown, history._repr_html_(), history.audit._repr_html_()):
            assert 'scope="col"' in page
