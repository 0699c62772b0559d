"""`dochistory audit reconcile`, `resolve-all` and `compact`: many documents in doubt at once."""

import csv
import getpass
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory.cli import show
from dochistory.cli.context import Add, Context, trigger_option
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.imported import FunctionError, function
from dochistory.cli.rules import check_rule

DECISIONS = ("process", "duplicate")


def add_to(ways: Any, add: Add) -> None:
    """Add the commands' arguments."""
    reconciled = add(
        ways,
        "reconcile",
        audit_reconcile,
        "settle documents that were completed after all",
        "Documents in doubt whose keys the history has as completed become duplicates. The sweeper does the same.",
        examples=["dochistory audit reconcile --trigger orders"],
    )
    trigger_option(reconciled)
    resolved = add(
        ways,
        "resolve-all",
        audit_resolve_all,
        "decide about all open documents: by rule, by a resolver, or from a file",
        "What a resolver leaves in doubt, and what a file does not name, stays open.",
        examples=[
            "dochistory audit resolve-all --as process --rule R11",
            "dochistory audit resolve-all --resolver shop.resolvers:orders",
        ],
    )
    trigger_option(resolved)
    resolved.add_argument("--as", dest="decision", choices=DECISIONS, help="what they all are")
    resolved.add_argument("--rule", metavar="RULE", help="only what this rule left in doubt")
    resolved.add_argument("--resolver", metavar="MODULE:FUNCTION", help="asked about them, as a trigger's resolver is")
    resolved.add_argument("--file", metavar="FILE", help="CSV with columns number or key, and decision")
    resolved.add_argument("--by", metavar="NAME", help="who decides; the user, if absent")
    resolved.add_argument("--note", metavar="TEXT", help="why, for the record")
    add(
        ways,
        "compact",
        audit_compact,
        "put small files of documents together",
        examples=["dochistory audit compact"],
    )


def check_recorded(history: dh.History, rule: str | None) -> None:
    """Refuse a rule that there is not.

    Raises:
        CommandError: it is no rule's code, nor one in the audit log.
    """
    if rule is not None:
        check_rule(rule, history.audit.list()["rule"].unique().to_pylist())


def audit_reconcile(context: Context) -> Exit:
    """Settle documents that were completed."""
    with context.open(read_only=False) as history:
        settled = history.audit.reconcile(context.named_in_log(history))
    if context.json:
        print(show.as_json({"numbers": settled}))
    else:
        print(f"{len(settled)} settled: they were completed")
    return Exit.DONE


def audit_resolve_all(context: Context) -> Exit:
    """Decide about all open documents."""
    options = context.options
    given = [options.decision, options.resolver, options.file]
    if sum(one is not None for one in given) != 1:
        raise CommandError("give one of: --as process or duplicate, --resolver MODULE:FUNCTION, --file FILE")
    by = options.by or getpass.getuser()
    decided: Mapping[Any, int]
    with context.open(read_only=False) as history:
        trigger = context.named_in_log(history)
        check_recorded(history, options.rule)
        if options.file is not None:
            decided = _from_file(history, options.file, trigger, options.rule, by, options.note)
        else:
            how = options.decision or _asked(function(options.resolver, "resolver"))
            decided = history.audit.resolve_all(how, trigger, rule=options.rule, by=by, note=options.note)
    if context.json:
        print(show.as_json(decided))
    else:
        print(", ".join(f"{count} resolved as {decision}" for decision, count in decided.items()))
    return Exit.DONE


def _asked(resolver: Callable[[Any], Any]) -> Callable[[pa.RecordBatch], Any]:
    """The resolver, whose errors say which documents stay open."""

    def asked(documents: pa.RecordBatch) -> Any:
        try:
            return resolver(documents)
        except FunctionError as error:
            # It decides about a trigger at a time, once it answered about all of its documents.
            whose = documents["dh_trigger"][0].as_py()
            may_pass = isinstance(error.__cause__, dh.TransientError)
            raise error.with_effect(
                f"nothing was decided about the documents of trigger {whose!r}, which stay open: run this again when "
                "the resolver can answer",
                Exit.UNAVAILABLE if may_pass else Exit.FUNCTION,
            ) from error

    return asked


def audit_compact(context: Context) -> Exit:
    """Put small files together."""
    with context.open(read_only=False) as history:
        fewer = history.audit.compact()
    print(show.as_json({"fewer_files": fewer}) if context.json else f"{fewer} files fewer")
    return Exit.DONE


def _from_file(
    history: dh.History, path: str, trigger: str | None, rule: str | None, by: str, note: str | None
) -> dict[str, int]:
    known = history.audit.list()
    numbers_of: dict[str, list[int]] = {}
    for number, key in zip(known["number"].to_pylist(), known["key"].to_pylist(), strict=True):
        numbers_of.setdefault(str(key), []).append(number)
    there = set(known["number"].to_pylist())
    open_numbers = set(history.audit.list(trigger, "open", rule=rule)["number"].to_pylist())
    chosen: dict[int, str] = {}
    for line, row in _lines(path):
        where = f"{path}:{line}"
        decision = (row.get("decision") or "").strip()
        if decision not in DECISIONS:
            raise CommandError(f"{where}: the decision is {decision!r}; allowed is process or duplicate")
        numbers = _named(where, row, numbers_of)
        if not numbers or not there.issuperset(numbers):
            raise CommandError(f"{where}: the audit log has no such document; nothing was decided")
        for number in open_numbers.intersection(numbers):
            if chosen.setdefault(number, decision) != decision:
                raise CommandError(f"{where}: document {number} is decided twice, in two ways; nothing was decided")
    counts = {}
    for decision in DECISIONS:
        numbers = [number for number, chosen_one in chosen.items() if chosen_one == decision]
        if numbers:
            history.audit.resolve(numbers, decision, by=by, note=note)  # type: ignore[arg-type]
        counts[decision] = len(numbers)
    return counts


def _lines(path: str) -> list[tuple[int, dict[str, str]]]:
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            return [*enumerate(csv.DictReader(file), 2)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CommandError(f"{path}: cannot be read: {error}") from error


def _named(where: str, row: Mapping[str, str], numbers_of: Mapping[str, list[int]]) -> list[int]:
    """The documents that a line names, by number or by key."""
    if number := (row.get("number") or "").strip():
        if not number.isdigit():
            raise CommandError(f"{where}: the number is {number!r}; it must be a whole number")
        return [int(number)]
    if key := row.get("key"):
        return numbers_of.get(key, [])
    raise CommandError(f"{where}: neither number nor key: give a CSV file with one of these columns")
