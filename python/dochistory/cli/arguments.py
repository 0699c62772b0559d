"""The arguments of the command line."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import dochistory as dh
from dochistory.cli import (
    audit,
    backup,
    check,
    completion,
    delivery,
    demo,
    doctor,
    documents,
    files,
    journal,
    load,
    maintenance,
    mapper,
    repair,
    report,
    statistics,
    suspension,
    sweep,
)
from dochistory.cli.context import Context, duration, moment, positive, trigger_option
from dochistory.cli.failures import CommandError, Exit

Command = Callable[[Context], Exit]

_CODES = """\
exit status:
  0  done
  1  done, and something is wrong: a damaged file, a failed check
  2  invalid input (options, files, settings, no such history); a retry fails again
  3  temporary: the history is locked, or the operating system refuses; a retry may work
  70 internal error; 130 interrupted; 141 the reader of a pipe closed it
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Exit with an error."""
        raise CommandError(f"{message}; see {self.prog} --help", Exit.INPUT, "DH-USAGE")


def parser() -> Parser:
    """The whole command line."""
    whole = Parser(
        prog="dochistory",
        description="Inspect a document history, ask it about documents, and maintain it.",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_common(top=True)],
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"dochistory {dh.__version__}")
    commands = whole.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    _classify(commands)
    _entries(commands)
    _load(commands)
    statistics.add_to(commands, _add)
    _report(commands)
    _upkeep(commands)
    for module in (journal, audit, suspension, sweep):
        module.add_to(commands, _add)
    _delivery(commands)
    _mapper(commands)
    check.add_to(commands, _add)
    _others(commands)
    return whole


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of one run."""
    options = parser().parse_args(arguments)
    documents.check_limit(getattr(options, "limit", None))
    return options


def _common(*, top: bool = False) -> argparse.ArgumentParser:
    """Options that are allowed before the command as well as behind it."""
    common = argparse.ArgumentParser(add_help=False)
    default: Any = None if top else argparse.SUPPRESS
    group = common.add_argument_group("common options")
    group.add_argument(
        "--history", metavar="DIR", default=default, help="the history (or $DOCHISTORY_HISTORY, or the settings)"
    )
    group.add_argument(
        "--settings",
        metavar="FILE",
        default=default,
        help="triggers' settings (or $DOCHISTORY_SETTINGS, ./dochistory.toml)",
    )
    group.add_argument(
        "--lock-timeout",
        metavar="TIME",
        type=duration,
        default="30 s" if top else default,
        help="how long to wait for another writer (30 s)",
    )
    off: Any = False if top else argparse.SUPPRESS
    group.add_argument("--json", action="store_true", default=off, help="one JSON document, for programs")
    group.add_argument("--debug", action="store_true", default=off, help="show where in the program an error arose")
    return common


def _add(commands: Any, name: str, run: Command, help_: str, more: str = "") -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_,
        description=f"{help_[0].upper()}{help_[1:]}. {more}".strip(),
        parents=[_common()],
        allow_abbrev=False,
    )
    made.set_defaults(run=run)
    return made


def _classify(commands: Any) -> None:
    command = _add(
        commands,
        "classify",
        documents.classify,
        "judge the documents of a file by what the history holds now",
        "Writes nothing to the history. The whole file is one batch: of the same id twice, the first row is judged "
        "first. Without --output, prints how many documents got which verdict.",
    )
    command.add_argument("file", metavar="FILE", help="Parquet, Arrow IPC, CSV or JSON lines; - is standard input")
    trigger_option(command, "whose documents they are; may be absent if there is one only")
    command.add_argument(
        "--output", "-o", metavar="FILE", help="write the documents with their verdicts; - is standard output"
    )
    command.add_argument("--format", choices=files.FORMATS, help="format of the output, if its suffix does not say")
    command.add_argument("--input-format", choices=files.FORMATS, help="format of FILE, if its suffix does not say")
    command.add_argument(
        "--verdicts-only", action="store_true", help="write the verdicts without the documents' columns"
    )
    command.add_argument("--prefix", default="", help="put before the names of the verdict's columns")
    command.add_argument(
        "--column", metavar="NAME=COLUMN", action="append", default=[], help="where an id is: --column uuid=order_id"
    )
    command.add_argument("--now", type=moment, metavar="TIME", help="the clock by which entries expire; now, if absent")
    command.add_argument("--threads", type=positive, default=1, metavar="N", help="threads for large files (1)")
    rules = command.add_argument_group(
        "rules of a trigger that no file of settings describes", "It detects duplicates, by the history."
    )
    rules.add_argument("--kind", choices=["messaging", "jms"], help="messaging, if absent")
    rules.add_argument("--processing-mode", choices=["serial", "concurrent"], help="concurrent, if absent")
    rules.add_argument("--in-batch", choices=["duplicate", "in_doubt", "new"], help="what later copies in FILE are")
    rules.add_argument("--expiry", choices=["until_purged", "exact"], help="until_purged, if absent")


def _entries(commands: Any) -> None:
    shown = _add(commands, "entries", documents.entries, "show the entries of a history")
    shown.add_argument("--limit", type=int, metavar="N", help="N at most (50; all with --json)")
    written = _add(
        commands, "export", documents.export, "write the entries of a history to a file", "Streams; memory stays small."
    )
    written.add_argument("file", metavar="FILE", help="Parquet, Arrow IPC, CSV or JSON lines; - is standard output")
    written.add_argument("--format", choices=files.FORMATS, help="if the suffix does not say (- is jsonl, then)")
    for command in (shown, written):
        trigger_option(command)
        command.add_argument("--status", choices=["processing", "completed"], help="only those; both, if absent")
        command.add_argument(
            "--older-than", type=duration, metavar="TIME", help="only what began longer ago: '15 minutes', PT2H"
        )


def _load(commands: Any) -> None:
    command = _add(
        commands,
        "load",
        load.load,
        "put entries of another history into this one, and compare both sides' answers",
        "Rows have the columns uuid and, if need be, trigger, status (completed or processing) and time (when the "
        "service began). What is loaded again changes nothing.",
    )
    command.add_argument("file", metavar="FILE", nargs="?", help="Parquet, Arrow IPC, CSV or JSON lines")
    command.add_argument("--input-format", choices=files.FORMATS, help="format of FILE, if its suffix does not say")
    trigger_option(command, "whose entries all rows are; without it, the column trigger says")
    command.add_argument("--create", action="store_true", help="make the history if it is not there")
    command.add_argument(
        "--time-to-live",
        type=duration,
        metavar="TIME",
        help="of triggers that no file of settings describes: '30 days'",
    )
    command.add_argument(
        "--column", metavar="NAME=COLUMN", action="append", default=[], help="where a column is: --column time=created"
    )
    command.add_argument(
        "--status-value",
        metavar="VALUE=STATUS",
        action="append",
        default=[],
        help="what a status means: --status-value C=completed",
    )
    command.add_argument("--time-unit", choices=["s", "ms", "us"], default="ms", help="of times that are numbers (ms)")
    command.add_argument(
        "--check",
        type=positive,
        default=10_000,
        metavar="N",
        help="number of ids whose answers are compared afterwards (10000)",
    )
    database = command.add_argument_group("rows of a database, instead of FILE")
    database.add_argument("--driver", metavar="MODULE", help="a DB-API module: psycopg, oracledb, sqlite3")
    database.add_argument("--connect", metavar="TEXT", help="what its connect() takes: 'host=db dbname=is user=reader'")
    database.add_argument("--query", metavar="SQL", help="select topic as trigger, id as uuid, status, time from …")


def _report(commands: Any) -> None:
    command = _add(
        commands,
        "report",
        report.report,
        "write one HTML page about a history",
        "Verdicts over time, by trigger and rule; documents in doubt with their ages; partitions and sizes; what a "
        "purge would free. The page needs no network.",
    )
    trigger_option(command)
    command.add_argument(
        "--output", "-o", metavar="FILE", default="report.html", help="report.html, if absent; - prints"
    )
    command.add_argument(
        "--journal", metavar="PATH", help="the journal: a directory of Parquet, or a file of JSON lines"
    )
    command.add_argument(
        "--doubts", type=positive, default=200, metavar="N", help="documents in doubt to list, for each trigger (200)"
    )


def _upkeep(commands: Any) -> None:
    pins = _add(
        commands,
        "pins",
        maintenance.pins,
        "show the pinned snapshots of a history, or release them",
        "A pinned snapshot keeps its files. Spark plans that still read one fail when it is released.",
    )
    trigger_option(pins)
    pins.add_argument("--drop", action="store_true", help="let them go")
    pins.add_argument("--older-than", type=duration, metavar="TIME", help="only those pinned longer ago: '1 day'")
    purge = _add(
        commands,
        "purge",
        maintenance.purge,
        "drop what expired",
        "By the time to live that the history keeps of each trigger. Made for cron.",
    )
    trigger_option(purge)
    purge.add_argument("--dry-run", action="store_true", help="only say what would go")
    purge.add_argument("--now", type=moment, metavar="TIME", help="the time that counts as now: 2026-11-21T09:30:00Z")
    purge.add_argument(
        "--force", action="store_true", help="even if --now is days ahead of the clock and every entry goes"
    )
    change = _add(
        commands,
        "change",
        maintenance.change,
        "give a trigger another time to live",
        "The next purge uses it. Programs that still use the old one get [DH-CONFIG]: change their settings "
        "too. The kind of a trigger never changes.",
    )
    change.add_argument("--trigger", metavar="NAME", required=True, help="this trigger")
    change.add_argument("--time-to-live", type=duration, metavar="TIME", required=True, help="from now on: '30 days'")
    maintain = _add(commands, "maintain", maintenance.maintain, "compact small files and build global filters")
    trigger_option(maintain)
    maintain.add_argument("--all", action="store_true", help="compact as far as possible, not only as far as it pays")
    verify = _add(commands, "verify", maintenance.verify, "check every byte of a history")
    trigger_option(verify)
    mend = _add(
        commands,
        "repair",
        repair.repair,
        "say what is damaged and what a repair would drop",
        "With --yes, repair: what can be read stays, filters are rebuilt, and every file that goes out of use is "
        "kept in a directory repaired-<time> within the history. Exit status 1 without --yes if there is damage, with "
        "it if not all of it could be repaired.",
    )
    trigger_option(mend, "this trigger only; needed where its name is lost")
    mend.add_argument("--yes", action="store_true", help="repair; otherwise nothing is changed")
    copy = _add(
        commands,
        "backup",
        backup.backup,
        "copy a history and check the copy",
        "Others may write to the history meanwhile; the copy holds all that was acknowledged before it began. It is a "
        "history like any other, and can be opened where it lies.",
    )
    copy.add_argument("target", metavar="DIR", help="a directory that does not exist yet")


def _delivery(commands: Any) -> None:
    command = _add(
        commands,
        "delivery",
        delivery.delivery,
        "show the streams of guaranteed delivery, or settle one that is in doubt",
        "status: each stream under the column names of SYSREMOTEUSER. settle: says how far a stream was applied that a "
        "crash left in doubt; only when no receiver of it runs.",
    )
    command.add_argument("action", choices=delivery.ACTIONS)
    command.add_argument("--stream", metavar="NAME", help="this stream only; all, if absent")
    command.add_argument("--log-received", metavar="OFFSET", type=_offset, help="everything up to here was applied")


def _offset(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f"{text!r} must be a log offset, from 0 to 2**64-1")
    return int(text)


def _mapper(commands: Any) -> None:
    group: argparse.ArgumentParser = commands.add_parser(
        "mapper",
        help="look into the message id mappers, and decide what is pending",
        description="Look into the message id mappers of a history, and decide what is pending.",
        parents=[_common()],
        allow_abbrev=False,
    )
    within = group.add_subparsers(title="commands", dest="mapper_command", metavar="COMMAND", required=True)
    looked = _add(within, "lookup", mapper.lookup, "show what a mapper knows of some ids")
    shown = _add(within, "pending", mapper.pending, "show the ids whose sending was begun and never ended")
    decided = _add(
        within,
        "resolve",
        mapper.resolve,
        "decide single ids that are pending",
        "The next arrival of such an id is treated so, once. Exit status 1: some of them are not pending.",
    )
    purged = _add(within, "purge", mapper.purge, "remove expired mappings")
    for command in (looked, decided):
        command.add_argument("id", metavar="ID", nargs="+", help="an id; - reads them from standard input, one a line")
        command.add_argument("--channel", metavar="NAME", help="whose they are; may be absent if there is one only")
    for command in (shown, purged):
        command.add_argument("--channel", metavar="NAME", help="this channel only; all, if absent")
    shown.add_argument("--older-than", type=duration, metavar="TIME", help="only what began longer ago: '15 minutes'")
    shown.add_argument("--limit", type=int, metavar="N", help="N at most (50; all with --json)")
    shown.add_argument("--check", action="store_true", help="exit status 1 if there is any: for monitoring")
    decided.add_argument(
        "--as",
        dest="decision",
        required=True,
        choices=["process", "duplicate", "error"],
        help="process: it was not delivered, send it; duplicate: it was; error: take a decision back",
    )
    purged.add_argument("--dry-run", action="store_true", help="only say what would go")
    purged.add_argument(
        "--include-pending", action="store_true", help="pending ids too: they are new when they arrive again"
    )
    purged.add_argument("--now", type=moment, metavar="TIME", help="the time that counts as now: 2026-11-21T09:30:00Z")
    purged.add_argument(
        "--force", action="store_true", help="even if --now is days ahead of the clock and every mapping goes"
    )


def _others(commands: Any) -> None:
    looked = _add(
        commands,
        "doctor",
        doctor.doctor,
        "check versions, Java, settings, permissions and the history",
        "With --cluster Spark's workers check too whether they see the driver's directory, and whether syncs, links "
        "and locks work there. For that it writes a few small files, and removes them.",
    )
    looked.add_argument("--cluster", action="store_true", help="check the history from Spark's driver and workers")
    looked.add_argument(
        "--master",
        metavar="URL",
        help="Spark's master; if absent, what spark-submit or Spark's own settings say, or else local[2]",
    )
    run = _add(commands, "demo", demo.demo, "run the demo of the project's source")
    run.add_argument(
        "--policy", choices=["in_doubt", "rerun"], default="in_doubt", help="what a killed batch's documents are"
    )
    complete = _add(
        commands,
        "completion",
        _complete,
        "print a shell's completion",
        'bash: eval "$(dochistory completion bash)"; zsh: the same with zsh, after compinit; '
        "fish: dochistory completion fish | source",
    )
    complete.add_argument("shell", choices=completion.SHELLS)


def _complete(context: Context) -> Exit:
    sys.stdout.write(completion.script(context.options.shell, parser()))
    return Exit.DONE
