"""`dochistory audit`: show documents in doubt, decide about them, resubmit them."""

import datetime as dt
import getpass
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory import _files
from dochistory.audit.resubmission import Resubmission
from dochistory.audit.settling import OPEN
from dochistory.audit.states import STATES
from dochistory.cli import audit_settling, files, show
from dochistory.cli.audit_settling import DECISIONS, check_recorded
from dochistory.cli.context import Add, Context, alone, duration, moment, needs, positive, trigger_option
from dochistory.cli.failures import CommandError, Exit, explained
from dochistory.cli.imported import FunctionError, FunctionRolledBackError, function
from dochistory.cli.names import counted, known, numbered
from dochistory.cli.outputs import add_output, check_output
from dochistory.cli.parser import add_group

_DECIDE = "`dochistory audit resolve NUMBER… --as process`, or `--as duplicate`"
_AUDIT = ("number", "time", "trigger", "key", "rule", "state", "by", "note")


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    ways = add_group(
        commands,
        "audit",
        "list documents in doubt, decide about them, resubmit them",
        "Documents in doubt are kept whole, until somebody decides.",
        view="list",
        examples=[
            "dochistory audit list --state open",
            "dochistory audit show 17",
            "dochistory audit resolve 17 18 --as process --note 'never shipped'",
            "dochistory audit resubmit --output again.parquet",
            "dochistory audit purge --older-than 90d --dry-run",
        ],
    )
    listed = add(
        ways,
        "list",
        audit_list,
        "show what is in the audit log",
        examples=["dochistory audit list --unsettled", "dochistory audit list --trigger orders --rule R11"],
    )
    trigger_option(listed)
    listed.add_argument("--state", choices=STATES, help="only those; all, if absent")
    listed.add_argument("--unsettled", action="store_true", help="only those that wait for somebody")
    listed.add_argument("--rule", metavar="RULE", help="only what this rule left in doubt")
    listed.add_argument("--limit", type=positive, metavar="N", help="the newest N at most (50; all with --json)")
    shown = add(ways, "show", audit_show, "show one document, whole", examples=["dochistory audit show 17"])
    shown.add_argument("number", type=positive, metavar="NUMBER", help="its number in the list")
    resolved = add(
        ways,
        "resolve",
        audit_resolve,
        "decide about documents",
        examples=["dochistory audit resolve 17 18 --as process --by ada --note 'never shipped'"],
    )
    resolved.add_argument("numbers", type=_number, nargs="+", metavar="NUMBER", help="their numbers in the list")
    resolved.add_argument(
        "--as",
        dest="decision",
        choices=DECISIONS,
        help="process: to be resubmitted; duplicate: processed after all, and completed in the history",
    )
    resolved.add_argument("--by", metavar="NAME", help="who decides; the user, if absent")
    resolved.add_argument("--note", metavar="TEXT", help="why, for the record")
    again = add(
        ways,
        "resubmit",
        audit_resubmit,
        "process documents after all, once",
        "Without numbers, all that were resolved as process. They are begun in the history, handed out, completed, and "
        "marked. If the service fails they are cut off, and wait for another decision (exit status 4).",
        examples=[
            "dochistory audit resubmit --service shop.orders:ship",
            "dochistory audit resubmit 17 --output again.parquet",
        ],
    )
    again.add_argument("numbers", type=positive, nargs="*", metavar="NUMBER", help="their numbers in the list")
    trigger_option(again, "whose documents; may be absent if there is one only")
    again.add_argument("--service", metavar="MODULE:FUNCTION", help="called with a pyarrow table of the documents")
    add_output(again, "write them to a new file instead; - is standard output")
    again.add_argument("--format", choices=files.FORMATS, help="format of the output, if its suffix does not say")
    files.binary_option(again)
    for name, old in (("purge", None), ("forget", "audit purge")):
        gone = add(
            ways,
            name,
            audit_purge,
            "drop documents that are settled, in whole files",
            examples=["dochistory audit purge --older-than 90d --dry-run"],
            old=old,
        )
        trigger_option(gone)
        gone.add_argument("--older-than", type=duration, required=True, metavar="TIME", help="kept longer ago: 90d")
        gone.add_argument("--dry-run", action="store_true", help="only say how many would go")
        gone.add_argument("--now", type=moment, metavar="TIME", help="the time that counts as now")
    audit_settling.add_to(ways, add)


def _number(text: str) -> int | str:
    """A document's number; the decision too, which stood before the numbers until 0.2.0."""
    return text if text in DECISIONS else positive(text)


def audit_list(context: Context) -> Exit:
    """Show the entries of the audit log."""
    options = context.options
    alone(options, "--state", "--unsettled")
    with context.open(read_only=True) as history:
        states = OPEN if options.unsettled and options.state is None else options.state
        trigger = context.named_in_log(history)
        check_recorded(history, options.rule)
        entries = history.audit.list(trigger, states, rule=options.rule)
    total = entries.num_rows
    limit = options.limit if options.limit is not None else (None if context.json else show.MOST)
    shown = entries if limit is None else entries.slice(max(total - limit, 0))
    if context.json:
        print(show.as_json({"total": total, "documents": shown.to_pylist()}))
        return Exit.DONE
    is_chosen = options.trigger or options.state or options.unsettled or options.rule
    nothing = f"the audit log holds no {'such ' if is_chosen else ''}document"
    show.listing(_AUDIT, [[row[name] for name in _AUDIT] for row in shown.to_pylist()], nothing)
    if total > shown.num_rows:
        print(f"the newest {shown.num_rows:,} of {total:,}; --limit shows more")
    return Exit.DONE


def audit_show(context: Context) -> Exit:
    """Show one complete document."""
    with context.open(read_only=True) as history:
        found = history.audit.show(context.options.number)
    if context.json:
        print(show.as_json(found))
        return Exit.DONE
    document = found.pop("document")
    show.table("", ["", "value"], [[name, _shown(value)] for name, value in found.items()])
    show.table("the document", ["column", "value"], [[name, _shown(value)] for name, value in document.items()])
    return Exit.DONE


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    return value if isinstance(value, int | dt.datetime | None) else str(value)


def audit_resolve(context: Context) -> Exit:
    """Decide about documents."""
    options = context.options
    if options.numbers[0] in DECISIONS and options.decision is None:
        options.decision = options.numbers.pop(0)
        context.warn("the decision stands behind --as since 0.2.0: audit resolve NUMBER --as DECISION")
    if any(number in DECISIONS for number in options.numbers) or not options.numbers:
        raise CommandError("numbers of documents are missing: audit resolve NUMBER… --as DECISION")
    if options.decision is None:
        raise CommandError(f"no decision given: pass --as with one of {', '.join(DECISIONS)}")
    with context.open(read_only=False) as history:
        history.audit.resolve(options.numbers, options.decision, by=options.by or getpass.getuser(), note=options.note)
    if context.json:
        print(show.as_json({"numbers": options.numbers, "decision": options.decision}))
    else:
        print(f"{len(options.numbers)} resolved as {options.decision}")
    return Exit.DONE


def audit_resubmit(context: Context) -> Exit:
    """Pass documents to a service, or write them to a file, and mark them."""
    options = context.options
    for option in ("--format", "--force", "--binary"):
        needs(options, option, "--output")
    check_output(options)
    alone(options, "--service", "--output")
    service = function(options.service, "service") if options.service else None
    if service is None and options.output is None:
        raise CommandError("no target given: pass --service MODULE:FUNCTION or --output FILE")
    given = options.numbers or None
    with context.open(read_only=False) as history:
        context.named_in_log(history)
        trigger = context.described(_trigger_of(context, history, given))
        with history.audit.resubmit(trigger, given) as again:
            count, duplicates = again.documents.num_rows, again.duplicates.num_rows
            if count and service is not None:
                _handed(context, service, again)
            elif count:
                _written(context, again)
    if context.json:
        print(show.as_json({"resubmitted": count, "duplicates": duplicates, "number": again.number}))
    elif options.output != "-":
        print(f"{count} resubmitted, {duplicates} found to be duplicates")
    return Exit.DONE


def _handed(context: Context, service: Callable[[pa.Table], object], again: Resubmission) -> None:
    """Pass the documents to the service; an error says what became of them."""
    whose = _whose(again)
    decide = (
        f"{whose} cut_off now, because nobody knows how far the service came: look what it did, and decide again with "
        f"{_DECIDE} if it did its work"
    )
    try:
        service(again.documents)
    except FunctionRolledBackError as error:
        raise error.with_effect(f"{whose} as before: resubmit again when the service can work") from error
    except FunctionError as error:
        raise error.with_effect(decide) from error
    except KeyboardInterrupt:
        context.warn(f"the service was interrupted; {decide}")
        raise


def _whose(again: Resubmission) -> str:
    """Which documents a resubmission takes, as the beginning of a sentence about what became of them."""
    # A call is interrupted as a whole, with what was found to be a duplicate.
    numbers = [number for part in (again.entries, again.duplicates) for number in part["number"].to_pylist()]
    return f"{numbered('document', numbers)} of the audit log {'are' if len(numbers) > 1 else 'is'}"


def _written(context: Context, again: Resubmission) -> None:
    """Write the documents to a file. If that fails, no file appears and the documents are unchanged.

    What goes into a pipe or a device may have arrived in part; the documents are cut off then.
    """
    options, documents = context.options, again.documents
    output, path = options.output, Path(options.output)
    is_whole_or_absent = output != "-" and (not path.exists() or path.is_file())
    try:
        files.write(
            output, options.format, documents.schema, documents.to_batches(), force=options.force, binary=options.binary
        )
    except CommandError as error:
        raise _NotWrittenError(error.sentence, error.status, error.code) from error
    except OSError as error:
        failure = explained(error) or CommandError(str(error))
        if is_whole_or_absent:
            said = f"{path}: {failure.sentence}: nothing was written, and {_whose(again)} as before"
            raise _NotWrittenError(said, failure.status, failure.code) from error
        decide = (
            f"{_whose(again)} cut_off now, because nobody knows how much arrived: look, and decide again with "
            f"{_DECIDE} if all did"
        )
        if isinstance(error, BrokenPipeError):
            context.warn(f"the reader of the output went away; {decide}")
            raise
        raise CommandError(f"{output}: {failure.sentence}; {decide}", failure.status, failure.code) from error
    if output != "-":
        with _files.storage(path):
            _files.sync(path)
            _files.sync(path.parent)


class _NotWrittenError(CommandError, dh.RolledBack):
    pass


def _trigger_of(context: Context, history: dh.History, numbers: list[int] | None) -> str:
    if context.options.trigger:
        name: str = context.options.trigger
        return name
    if numbers:
        first: str = history.audit.show(numbers[0])["trigger"]
        return first
    waiting = history.audit.list(state="process")["trigger"].unique().to_pylist()
    if len(waiting) == 1:
        return str(waiting[0])
    if not waiting:
        raise CommandError("no document is resolved as process: name documents by number, or resolve some first")
    raise CommandError(f"no trigger given: name it with --trigger NAME (there are {known(waiting)})")


def audit_purge(context: Context) -> Exit:
    """Drop settled documents."""
    options = context.options
    before = (options.now or dt.datetime.now(dt.UTC)) - options.older_than
    with context.open(read_only=options.dry_run) as history:
        count = history.audit.forget(before, context.named_in_log(history), dry_run=options.dry_run)
    if context.json:
        print(show.as_json({"dry_run": options.dry_run, "before": before, "documents": count}))
    else:
        print(f"{counted(count, 'document')} {'would go' if options.dry_run else 'went'}")
    return Exit.DONE
