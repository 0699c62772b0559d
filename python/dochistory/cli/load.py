"""The command `load`: entries of another history."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory import migration
from dochistory.cli import files, show
from dochistory.cli.context import Add, Context, create_option, duration, needs, positive, trigger_option
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.names import counted
from dochistory.settings import stored_settings

_ROLES = ("uuid", "trigger", "status", "time")


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "load",
        load,
        "put entries of another history into this one, and compare both sides' answers",
        "Rows have the columns uuid and, if need be, trigger, status (completed or processing) and time (when the "
        "service began). Loading the same rows again changes no entry.",
        examples=[
            "dochistory load old.csv --trigger orders --time-to-live '30 days'",
            "dochistory load --driver sqlite3 --connect old.db --query 'select uuid from x'",
        ],
    )
    command.add_argument("file", metavar="FILE", nargs="?", help="Parquet, Arrow IPC, CSV or JSON lines")
    command.add_argument("--input-format", choices=files.FORMATS, help="format of FILE, if its suffix does not say")
    trigger_option(command, "whose entries all rows are; without it, the column trigger says")
    create_option(command)
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


def load(context: Context) -> Exit:
    """Load entries of another history into this one, and compare both sides' answers."""
    options = context.options
    needs(options, "--create-trigger", "--trigger")
    columns = files.renames(options.column)
    if unknown := [role for role in columns if role not in _ROLES]:
        raise CommandError(f"--column {unknown[0]}=…: known roles are {', '.join(_ROLES)}")
    source = _database(context) if options.file is None else _file(context, columns)
    if options.create and not _is_there(context):
        _check_first(context, source, columns)
    with _history(context) as history, show.progress("loading", quiet=context.json) as progress:
        if options.trigger and history.triggers():  # of a history without triggers each is the first
            context.is_new(history, options.trigger)
        trigger = _described(context, history)
        done = migration.import_history(
            history,
            source,
            trigger(options.trigger) if options.trigger else trigger,
            columns=columns,
            statuses=_statuses(options.status_value),
            time_unit=options.time_unit,
            sample=options.check,
            progress=progress and (lambda rows: progress(rows, 0)),
        )
    return _told(context, done)


def _check_first(context: Context, source: migration.Source, columns: dict[str, str]) -> None:
    """Look at the first rows before a history is made for them.

    Raises:
        CommandError: they cannot be read, or a trigger has no time to live.
        SchemaError: [DH-SCHEMA] they have other columns.
    """
    options = context.options
    first = migration.first_rows(
        source, options.trigger, columns=columns, statuses=_statuses(options.status_value), time_unit=options.time_unit
    )
    if isinstance(context.place, Path):  # that of a bucket may know its triggers
        for name in first["trigger"].unique().to_pylist():
            _trigger(context, name, {})


def _is_there(context: Context) -> bool:
    """Whether the history is known to be there already."""
    return isinstance(context.place, Path) and (context.place / "HISTORY").exists()


def _told(context: Context, done: migration.Imported) -> Exit:
    differences = done.differences.num_rows
    if context.json:
        print(
            show.as_json(
                {
                    "rows": done.rows,
                    "loaded": done.loaded,
                    "checked": done.checked,
                    "differences": done.differences.to_pylist(),
                }
            )
        )
    else:
        # Rows that change no entry are not among them.
        columns = ["trigger", "entries added or changed"]
        show.table("", columns, [[name, changed] for name, changed in sorted(done.loaded.items())])
        print(f"{counted(done.rows, 'row')} read")
        print(f"both sides were asked about {done.checked:,} ids; they differ about {differences:,}")
        if differences:
            rows = [list(row.values()) for row in done.differences.slice(0, 20).to_pylist()]
            show.table("", done.differences.column_names, rows)
    return Exit.FOUND if differences else Exit.DONE


def _history(context: Context) -> dh.History:
    if not context.options.create:
        return context.open(read_only=False)
    return context.opened(create=True)


def _statuses(given: list[str]) -> dict[str, str]:
    pairs = {}
    for one in given:
        value, equals, means = one.rpartition("=")
        if not equals or means not in ("completed", "processing"):
            raise CommandError(f"--status-value {one}: it must be VALUE=completed or VALUE=processing")
        pairs[value] = means
    return pairs


def _file(context: Context, columns: dict[str, str]) -> migration.Source:
    options = context.options
    if options.query or options.driver or options.connect:
        raise CommandError("pass either FILE or a database (--driver, --connect, --query), not both")
    if options.file == "-":
        raise CommandError("the rows are read twice, and standard input only once: write them to a file first")
    text = [columns.get(role, role) for role in ("uuid", "trigger", "status")]
    return lambda: files.batches(options.file, options.input_format, text)


def _database(context: Context) -> migration.Source:
    options = context.options
    if not (options.driver and options.connect and options.query):
        raise CommandError("no rows given: pass FILE, or a database with --driver, --connect and --query")
    try:
        driver: Any = import_module(options.driver)
    except ImportError as error:
        raise CommandError(f"--driver {options.driver}: no such module ({error}): install the driver") from error
    for name in ("connect", "Error"):
        if not hasattr(driver, name):
            raise CommandError(f"--driver {options.driver}: not a DB-API module: it has no {name}")

    def connect() -> Any:
        try:
            return driver.connect(options.connect)
        except driver.Error as error:
            said = _said(error)
            raise CommandError(f"{options.driver} cannot connect: {said}", Exit.UNAVAILABLE, "DH-STORAGE") from error
        except (TypeError, ValueError) as error:
            raise CommandError(f"{options.driver} cannot connect: {_said(error)}: correct --connect") from error

    return _queried(driver, migration.dbapi(connect, options.query))


def _queried(driver: Any, source: migration.Source) -> migration.Source:
    """The rows, with the database's errors as those of a command."""
    stopped: Any = getattr(driver, "OperationalError", ())

    def read() -> Iterator[pa.RecordBatch]:
        came = False
        try:
            for batch in source():
                yield batch
                came = True
        except driver.Error as error:
            # Drivers call mistakes in the SQL operational errors, too; rows show that there was none.
            if came and isinstance(error, stopped):
                sentence = f"the database stopped in the middle of its rows: {_said(error)}"
                raise CommandError(sentence, Exit.UNAVAILABLE, "DH-STORAGE") from error
            raise CommandError(f"the database refuses --query: {_said(error)}") from error

    return read


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


def _described(context: Context, history: dh.History) -> Callable[[str], dh.Trigger]:
    """A function from a name to its trigger: that of the settings, or as the history and the options say."""
    return lambda name: _trigger(context, name, stored_settings(history, name))


def _trigger(context: Context, name: str, stored: dict[str, Any]) -> dh.Trigger:
    described = context.settings.triggers if context.settings else {}
    if name in described:
        return described[name]
    if context.options.time_to_live is not None:
        stored["history_time_to_live"] = context.options.time_to_live
    if "history_time_to_live" not in stored:
        raise CommandError(
            f"no time to live for trigger {name!r}: pass --time-to-live, or describe the trigger in the settings"
        )
    return dh.Trigger(name, **stored)
