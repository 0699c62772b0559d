"""One grammar for all commands: names, exit statuses, overwriting, old spellings, times, help."""

import argparse
import datetime as dt
import fcntl
import json
import re
import shlex
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from dochistory.cli.arguments import parse, parser
from dochistory.cli.failures import EXITS, Exit
from dochistory.cli.parser import GROUPS, commands_of, helps_of, leaves, with_views
from dochistory.cli.times import moment, since
from tests.cli.conftest import Run
from tests.mapper.support import messages
from tests.support import documents, trigger

ROOT = Path(__file__).parents[2]

WHOLE = {
    ("classify",): ["docs.csv"],
    ("export",): ["-o", "-"],
    ("journal",): ["journal.jsonl"],
    ("audit", "show"): ["1"],
    ("audit", "resolve"): ["1", "--as", "duplicate"],
    ("audit", "resolve-all"): ["--as", "duplicate"],
    ("audit", "resubmit"): ["-o", "again.parquet"],
    ("audit", "purge"): ["--older-than", "1d"],
    ("audit", "forget"): ["--older-than", "1d"],
    ("mapper", "lookup"): ["a"],
    ("mapper", "resolve"): ["a", "--as", "process"],
    ("change",): ["--trigger", "orders", "--time-to-live", "30 days"],
    ("backup",): ["copy.history"],
    ("load",): ["old.csv", "--trigger", "orders", "--time-to-live", "30 days"],
    ("check",): ["s3://bucket/x"],
    ("completion",): ["bash"],
    ("sweep",): ["--runs", "1"],
    ("stats", "clear"): ["--yes"],
    ("suspension", "suspend"): ["--trigger", "orders"],
    ("suspension", "resume"): ["--trigger", "orders"],
    ("delivery", "settle"): ["--stream", "feed", "--log-received", "1"],
    ("pins", "release"): ["--yes"],
}
"""What a command needs to run at all."""

WITHOUT_HISTORY = {("journal",), ("demo",), ("completion",), ("doctor",), ("suspension", "list"), ("check",)}
LEAVES = [path for path, leaf in leaves(parser())]
HISTORY = [path for path in LEAVES if path not in WITHOUT_HISTORY]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))


@pytest.fixture
def full(orders: Path) -> Path:
    """A history with a document in doubt, a mapper and a stream, beside the files that commands read."""
    with dh.open(orders) as history:
        claim = history.begin(
            pa.table({"uuid": ["0003"], "payload": [b"\xff"]}), trigger(history_time_to_live="30 days"), audit=True
        )
        dh.Statistics(history).add(claim.verdicts, trigger())
        history.mapper("jms").begin_send(messages(["a"]), persist_until="1 day")
        history.delivery_out("feed", start=0).build([7])
    (orders.parent / "docs.csv").write_text("uuid\n0001\n")
    (orders.parent / "old.csv").write_text("uuid\n0001\n")
    (orders.parent / "journal.jsonl").write_text("")
    return orders


def words(path: tuple[str, ...], *more: object) -> list[object]:
    return [*path, *WHOLE.get(path, []), *more]


def taking(option: str) -> list[tuple[str, ...]]:
    """The commands with this option."""
    return [path for path, leaf in leaves(parser()) if option in leaf.format_help().split()]


@pytest.mark.parametrize("path", HISTORY, ids=" ".join)
def test_every_command_says_2_without_a_history(run: Run, path: tuple[str, ...]) -> None:
    Path("docs.csv").write_text("uuid\n0001\n")
    Path("old.csv").write_text("uuid\n0001\n")
    for history in ("nowhere", "docs.csv"):
        ran = run(*words(path, "--history", history))
        assert (ran.status, ran.out) == (Exit.INPUT, "")
        assert re.search(r"no such directory|not a dochistory directory|there is no history", ran.err)


@pytest.mark.parametrize("path", [path for path in taking("--trigger") if path != ("journal",)], ids=" ".join)
def test_every_command_refuses_an_unknown_trigger(run: Run, full: Path, path: tuple[str, ...]) -> None:
    given = [word for word in words(path, "--history", full) if word not in ("--trigger", "orders")]
    ran = run(*given, "--trigger", "ordres")
    assert (ran.status, ran.out) == (Exit.INPUT, "")
    assert "ordres" in ran.err
    if path != ("repair",):  # which may be about a trigger whose name is lost
        assert "did you mean 'orders'?" in ran.err


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_refuses_an_unknown_option(run: Run, full: Path, path: tuple[str, ...]) -> None:
    ran = run(*words(path, "--history", full, "--frobnicate"))
    assert (ran.status, ran.out) == (Exit.INPUT, "")
    assert "unrecognized arguments: --frobnicate" in ran.err


def test_every_command_stands_in_one_group_of_the_help(run: Run) -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert set(helps_of(parser())) <= set(grouped)
    assert len(grouped) == len(set(grouped))
    shown = run_help()
    for title in GROUPS:
        assert f"{title}:" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert run() == (Exit.DONE, shown, "")


def run_help() -> str:
    return parser().format_help()


def test_every_example_of_the_help_is_understood() -> None:
    found = [one for path in LEAVES for one in leaf_of(path).examples]
    top = parser()
    found += [one for name in helps_of(top) for one in examples_of(top, name)]
    assert len(found) > 30
    for example in found:
        for part in re.split(r"[|>]", example):
            given = shlex.split(part)
            if given[0] == "dochistory":
                assert parse(given[1:]).run


def test_every_command_has_an_example_that_fits_a_terminal() -> None:
    for path, leaf in leaves(parser()):
        if path != ("names",):  # which completion asks
            assert leaf.examples, path
            assert max(len(one) for one in leaf.examples) <= 78, path


def test_an_option_is_like_another_by_more_than_dashes(run: Run, full: Path) -> None:
    assert "did you mean" not in run("entries", "--since", "90m", "--history", full).err
    assert "did you mean '--trigger'?" in run("entries", "--triger", "orders", "--history", full).err


def test_help_of_a_group_has_the_options_of_its_view(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for name, group in commands_of(parser()).choices.items():
        if group.view is None:
            continue
        view = commands_of(group).choices[group.view]
        own = [one for one in view._actions if one.option_strings and one.help != argparse.SUPPRESS]  # noqa: SLF001
        shown = group.format_help()
        for action in own:
            assert action.option_strings[0] in shown, name
        assert max(len(line) for line in shown.splitlines()) <= 80, name
    with pytest.raises(SystemExit):
        run("stats", "--help")
    shown = capsys.readouterr().out
    assert "\noptions of stats show, which runs without a COMMAND:\n  --trigger NAME" in shown
    assert shown.index("--prometheus") < shown.index("\nexamples:")
    assert shown.count("--history DIR|URL") == 2  # the usage, and the common options


def test_common_option_without_meaning_is_not_in_the_help() -> None:
    for path, leaf in leaves(parser()):
        shown = leaf.format_help().split()
        assert not set(leaf.without) & set(shown), path


def leaf_of(path: tuple[str, ...]) -> Any:
    return dict(leaves(parser()))[path]


def examples_of(top: Any, name: str) -> list[str]:
    return list(commands_of(top).choices[name].examples)


def test_the_table_of_exit_statuses_is_one() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = " ".join(run_help().split())
    for status, meaning in EXITS.items():
        assert f"| {status:d} | {meaning} |" in page
        assert f"{status:d} {meaning}" in shown


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["stats"], ["stats", "show"]),
        (["stats", "--trigger", "orders"], ["stats", "show", "--trigger", "orders"]),
        (["stats", "--history", "h", "clear"], ["stats", "--history", "h", "clear"]),
        (["--json", "--history=h", "audit"], ["--json", "--history=h", "audit", "list"]),
        (["mapper", "--channel", "list"], ["mapper", "pending", "--channel", "list"]),
        (["audit", "--help"], ["audit", "--help"]),
        (["purge", "--dry-run"], ["purge", "--dry-run"]),
        (["--history"], ["--history"]),
    ],
)
def test_a_group_without_a_command_shows_its_view(given: list[str], meant: list[str]) -> None:
    assert with_views(parser(), given) == meant


def test_common_options_stand_before_or_behind_any_command(run: Run, full: Path) -> None:
    for path in (["audit", "list"], ["mapper", "pending"], ["stats", "show"], ["pins", "list"]):
        before = run("--history", full, *path)
        assert before.status == 0
        assert run(path[0], "--history", full, path[1]).out == before.out
        assert run(*path, "--history", full).out == before.out
        assert run(path[0], "--history", full).out == before.out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["audit", "forget", "--older-than", "1d"], "audit purge"),
        (["audit", "resolve", "process", "1"], "--as DECISION"),
        (["export", "out.parquet"], "export --output FILE"),
        (["pins", "--drop"], "pins release --yes"),
    ],
)
def test_old_spellings_work_and_name_the_new_one(run: Run, full: Path, old: list[str], new: str) -> None:
    ran = run(*old, "--history", full)
    assert ran.status == 0
    assert new in ran.err
    assert run(*old, "--history", full, "--json").err == "" or old[0] == "export"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["classify", "docs.csv", "--output"], "out.csv"),
        (["export", "--output"], "out.parquet"),
        (["report", "--output"], "out.html"),
    ],
)
def test_no_file_is_overwritten_without_force(run: Run, full: Path, command: list[str], name: str) -> None:
    Path(name).write_text("precious")
    ran = run(*command, name, "--history", full)
    assert (ran.status, "pass --force" in ran.err, Path(name).read_text()) == (Exit.INPUT, True, "precious")
    assert run(*command, name, "--force", "--history", full).status == 0
    assert b"precious" not in Path(name).read_bytes()
    assert not list(Path().glob(".dochistory-draft*"))


def test_classify_may_not_write_over_its_input(run: Run, full: Path) -> None:
    ran = run("classify", "docs.csv", "-o", "docs.csv", "--history", full)
    assert (ran.status, Path("docs.csv").read_text()) == (Exit.INPUT, "uuid\n0001\n")


def test_bytes_are_refused_by_text_formats_or_written_in_base64(run: Run, full: Path) -> None:
    run("audit", "resolve", "1", "--as", "process", "--history", full)
    for name in ("again.jsonl", "again.csv"):
        ran = run("audit", "resubmit", "--output", name, "--history", full)
        assert (ran.status, "column payload" in ran.err, Path(name).exists()) == (Exit.INPUT, True, False)
    assert run("audit", "resubmit", "-o", "again.jsonl", "--binary", "base64", "--history", full).status == 0
    assert json.loads(Path("again.jsonl").read_text())["payload"] == b64encode(b"\xff").decode()


def test_base64_where_bytes_stay_bytes_is_refused(run: Run, full: Path) -> None:
    pq.write_table(pa.table({"uuid": ["0001"]}), "in.parquet")
    run("audit", "resolve", "1", "--as", "process", "--history", full)
    for words in (["classify", "in.parquet"], ["audit", "resubmit"]):
        ran = run(*words, "-o", "out.parquet", "--binary", "base64", "--history", full)
        assert (ran.status, "leave out --binary" in ran.err) == (Exit.INPUT, True)
        assert not Path("out.parquet").exists()
    assert run("audit", "resubmit", "-o", "out.parquet", "--history", full).status == 0


def test_bytes_in_base64_are_the_same_in_csv(run: Run, full: Path) -> None:
    pq.write_table(pa.table({"uuid": ["0001", "0009"], "payload": [b"\x00\xff", None]}), "in.parquet")
    words = ["classify", "in.parquet", "-o", "out.csv", "--binary", "base64", "--history", full]
    assert run(*words).status == 0
    assert '"0001","AP8="' in Path("out.csv").read_text()


@pytest.mark.parametrize(
    "given",
    [
        ["classify", "docs.csv", "--verdicts-only"],
        ["classify", "docs.csv", "--format", "csv"],
        ["classify", "docs.csv", "--force"],
        ["journal", "journal.jsonl", "--all"],
        ["doctor", "--master", "local"],
        ["stats", "documents", "--prometheus"],
        ["stats", "--prometheus", "--json"],
        ["suspension", "list", "--reason", "x"],
        ["delivery", "status", "--log-received", "1"],
        ["load", "old.csv", "--create-trigger"],
        ["classify", "docs.csv", "-o", "-", "--force"],
        ["classify", "docs.csv", "-o", "-", "--json"],
        ["export", "-o", "-", "--json"],
        ["report", "-o", "-", "--force"],
        ["audit", "resubmit", "1", "-o", "-", "--json"],
        ["audit", "resubmit", "1", "-o", "x.jsonl", "--service", "json:loads"],
        ["maintain", "--grace", "1d"],
        ["audit", "list", "--state", "open", "--unsettled"],
        ["stats", "--settings", "none.toml"],
        ["metrics", "--json"],
        ["metrics", "--alerts", "--trigger", "orders"],
        ["metrics", "--dashboard", "--fast"],
        ["metrics", "--alerts"],
        ["entries", "--storage-option", "aws_region=eu-west-1"],
        ["suspension", "--storage-option", "aws_region=eu-west-1"],
        ["journal", "journal.jsonl"],
        ["completion", "bash"],
        ["demo"],
        ["check", "s3://bucket/x"],
    ],
)
def test_no_option_is_ignored_silently(run: Run, full: Path, given: list[str]) -> None:
    ran = run(*given, "--history", full)
    assert (ran.status, ran.out) == (Exit.INPUT, "")


def test_statistics_are_cleared_only_when_that_is_meant(run: Run, full: Path) -> None:
    ran = run("stats", "clear", "--history", full)
    assert (ran.status, "pass --yes" in ran.err) == (Exit.INPUT, True)
    assert "R11: 1" in run("stats", "--history", full).out
    assert run("stats", "clear", "--yes", "--trigger", "orders", "--history", full).status == 0
    assert "R11: 1" not in run("stats", "--history", full).out


def test_metrics_of_one_trigger_are_of_that_alone(run: Run, full: Path) -> None:
    with dh.open(full) as history:
        history.begin(documents(["x"]), trigger("bills", history_time_to_live="30 days"))
    whole = run("stats", "--prometheus", "--history", full).out
    assert 'trigger="bills"' in whole
    assert 'trigger="orders"' in whole
    one = run("stats", "--prometheus", "--trigger", "bills", "--history", full).out
    assert 'trigger="bills"' in one
    assert 'trigger="orders"' not in one


def test_a_stream_or_journal_that_is_misspelt_is_told(run: Run, full: Path) -> None:
    for words in (["delivery", "--stream", "fed"], ["delivery", "settle", "--stream", "fed", "--log-received", "1"]):
        ran = run(*words, "--history", full)
        assert (ran.status, "did you mean 'feed'?" in ran.err) == (Exit.INPUT, True)
    Path("journal.jsonl").write_text(
        json.dumps(
            {
                "time": "2026-11-22T00:00:00Z",
                "trigger": "orders",
                "key": "a",
                "status": "DUPLICATE",
                "rule": "R9",
                "message": "x",
                "count": 1,
                "row": 0,
            }
        )
        + "\n"
    )
    for given in (["journal", "journal.jsonl"], ["audit", "list", "--history", str(full)]):
        ran = run(*given, "--rule", "R111")
        assert (ran.status, "did you mean 'R11'?" in ran.err) == (Exit.INPUT, True)
    assert run("journal", "jornal.jsonl").status == Exit.INPUT
    ran = run("journal", "journal.jsonl", "--trigger", "ordres")
    assert (ran.status, "did you mean 'orders'?" in ran.err) == (Exit.INPUT, True)
    assert run("journal", "journal.jsonl", "--trigger", "orders", "--rule", "R11").status == 0


def test_remedies_are_those_of_the_command_line(run: Run, full: Path) -> None:
    Path("ids.csv").write_text("order_id\n1\n")
    assert "--column uuid=my_id" in run("classify", "ids.csv", "--history", full).err
    Path("ids.xyz").write_text("uuid\n1\n")
    assert "pass --input-format" in run("classify", "ids.xyz", "--history", full).err
    ran = run("purge", "--now", "2099-01-01", "--history", full)
    assert "pass --force if that is meant" in ran.err
    assert "force=True" not in ran.err


def test_a_dry_run_says_what_stands_in_the_log(run: Run, full: Path) -> None:
    ran = run("purge", "--dry-run", "--now", "2099-01-01", "--history", full)
    assert ran.out.splitlines()[1].split() == ["trigger", "entries", "in", "the", "log", "files", "size", "of", "files"]
    assert ran.out.splitlines()[2].split() == ["orders", "3", "3", "0", "0", "B"]


def test_a_sweep_purges_at_once(run: Run, full: Path) -> None:
    before = dt.datetime.now(dt.UTC)
    assert run("sweep", "--runs", "1", "--every", "9 min", "--history", full).status == 0
    assert dt.datetime.now(dt.UTC) - before < dt.timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-11-22", dt.datetime(2026, 11, 22, tzinfo=dt.UTC)),
        ("2026-11-22 09:30", dt.datetime(2026, 11, 22, 9, 30, tzinfo=dt.UTC)),
        ("2026-11-22 09:30 UTC", dt.datetime(2026, 11, 22, 9, 30, tzinfo=dt.UTC)),
        ("2026-11-22T09:30+01:00", dt.datetime(2026, 11, 22, 8, 30, tzinfo=dt.UTC)),
    ],
)
def test_a_time_is_read_as_people_write_it(text: str, meant: dt.datetime) -> None:
    assert moment(text) == meant
    assert since(text) == meant


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("90m", dt.timedelta(minutes=90)),
        ("90m ago", dt.timedelta(minutes=90)),
        ("2 days", dt.timedelta(days=2)),
        ("PT2H", dt.timedelta(hours=2)),
    ],
)
def test_since_takes_how_long_ago_it_was(text: str, back: dt.timedelta) -> None:
    assert abs(dt.datetime.now(dt.UTC) - back - since(text)) < dt.timedelta(minutes=1)


@pytest.mark.parametrize("text", ["0s", "-5s", "0 minutes", "-PT5S"])
def test_duration_that_is_not_above_zero_is_told_why(run: Run, full: Path, text: str) -> None:
    ran = run("entries", f"--older-than={text}", "--history", full)
    assert (ran.status, f"'{text}' must be longer than 0" in ran.err) == (Exit.INPUT, True)


def test_lock_timeout_that_makes_no_sense_is_told_why(run: Run, full: Path) -> None:
    assert "'-5s' must be 0 or longer" in run("stats", "--lock-timeout=-5s", "--history", full).err
    assert "'5' is not a duration" in run("stats", "--lock-timeout", "5", "--history", full).err
    ran = run("suspension", "list", "--lock-timeout", "0")
    assert (ran.status, "--lock-timeout means nothing" in ran.err) == (Exit.INPUT, True)


@pytest.mark.parametrize("text", ["0", "0s"])
def test_lock_timeout_of_zero_does_not_wait(run: Run, full: Path, text: str) -> None:
    words = ["purge", "--force", "--now", "2099-01-01", "--lock-timeout", text, "--history", full]
    with next(full.glob("triggers/*/turn")).open("r+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        before = time.monotonic()
        assert run(*words).status == Exit.UNAVAILABLE
        assert run("backup", "copy.history", *words[-4:]).status == Exit.UNAVAILABLE
        assert time.monotonic() - before < 10
    assert run(*words).status == Exit.DONE
    assert run("backup", "copy.history", *words[-4:]).status == Exit.DONE


def test_settings_are_found_in_a_directory_above(run: Run, full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (full.parent / "dochistory.toml").write_text('history = "orders.history"\n')
    below = full.parent / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert run("stats").status == 0
    # Everybody may write this one, and it names functions that are imported.
    (full.parent / "dochistory.toml").chmod(0o666)
    assert run("stats").status == Exit.INPUT


def lines_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, *given: object) -> list[str]:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    ran = run(*given)
    assert ran.status in (0, 1)
    return re.sub(r"\x1b\[[\d;]*m", "", ran.out).splitlines()


@pytest.mark.parametrize("rich", [True, False])
def test_no_table_is_wider_than_a_terminal(run: Run, full: Path, rich: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not rich:
        monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    for path in HISTORY:
        if path[-1] not in ("show", "list", "status", "pending", "documents", "entries", "classify", "purge", "lookup"):
            continue
        lines = lines_on_a_terminal(run, monkeypatch, *words(path, "--history", full))
        # A path is as long as it is.
        assert [line for line in lines if len(line) > 80 and " " in line] == [], path
        assert lines
    lines = lines_on_a_terminal(run, monkeypatch, "doctor", "--history", full)
    assert [line for line in lines if len(line) > 80] == []


def test_verdicts_have_colours_for_a_person_only(run: Run, full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("docs.csv").write_text("uuid\n0001\n0003\n")
    assert "\x1b" not in run("classify", "docs.csv", "--history", full).out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = run("classify", "docs.csv", "--history", full).out
    assert re.search(r"\x1b\[33mDUPLICATE", shown)
    assert re.search(r"\x1b\[1;31mIN_DOUBT", shown)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[3\dm", run("classify", "docs.csv", "--history", full).out)


def test_a_time_to_live_is_shown_as_people_write_it(run: Run, full: Path) -> None:
    shown = run("stats", "--history", full).out
    assert "30 days" in shown
    assert "0:00:00" not in shown


def test_names_for_completion_are_one_a_line(run: Run, full: Path) -> None:
    assert run("names", "--history", full).out == "orders\n"
