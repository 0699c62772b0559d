"""The arguments of the command line: every command adds its own."""

import argparse
from collections.abc import Sequence

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
    journal,
    load,
    maintenance,
    mapper,
    metrics,
    repair,
    report,
    statistics,
    suspension,
    sweep,
    top,
)
from dochistory.cli.parser import Parser, Whole, add, check_common, common, unknown_options, with_views

_MODULES = (
    statistics,
    top,
    documents,
    report,
    journal,
    audit,
    mapper,
    delivery,
    maintenance,
    sweep,
    suspension,
    metrics,
    backup,
    repair,
    load,
    check,
    doctor,
    demo,
    completion,
)


def parser() -> Parser:
    """The whole command line."""
    whole = Whole(
        prog="dochistory",
        description="Inspect a document history, ask it about documents, and maintain it.",
        parents=[common(top=True)],
        allow_abbrev=False,
        add_help=True,
    )
    whole.add_argument("--version", action="version", version=f"dochistory {dh.__version__}")
    commands = whole.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True, parser_class=Parser
    )
    for module in _MODULES:
        module.add_to(commands, add)
    whole.set_defaults(whole=whole)
    return whole


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options of one run.

    Raises:
        CommandError: the words make no sense.
    """
    whole = parser()
    options, rest = whole.parse_known_args(with_views(whole, words))
    if rest:
        raise unknown_options(options, rest)
    check_common(options)
    return options
