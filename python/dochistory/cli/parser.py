"""The parser of the command line: groups, help with examples, near misses."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from dochistory.cli.failures import CommandError, Exit, exit_table, hanging
from dochistory.cli.names import near
from dochistory.cli.times import patience

Command = Callable[[Any], Exit]

GROUPS: dict[str, tuple[str, ...]] = {
    "look into a history": ("stats", "top", "entries", "export", "classify", "report", "journal"),
    "decide what is in doubt": ("audit", "mapper", "delivery"),
    "keep it well": ("purge", "sweep", "maintain", "change", "pins", "suspension", "metrics"),
    "protect and mend it": ("backup", "verify", "repair"),
    "set up": ("load", "doctor", "check", "demo", "completion"),
}
"""The commands by what they are for; `--help` shows them so."""

COMMON_WITH_VALUE = ("--history", "--storage-option", "--settings", "--lock-timeout")
COMMON_FLAGS = ("--json", "--debug")
OF_A_HISTORY = COMMON_WITH_VALUE
"""What means nothing to a command that opens no history."""


_COMMON = "common options"


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence and name what was probably meant."""

    examples: Sequence[str] = ()
    """Complete command lines for the help."""
    is_group = False
    """Whether commands follow."""
    view: str | None = None
    """The command of a group that runs if none is named."""
    replaced_by: str | None = None
    """For an old spelling: the new one."""
    without: Sequence[str] = ()
    """The common options that mean nothing to this command."""

    def error(self, message: str) -> NoReturn:
        """Exit with an error."""
        raise CommandError(f"{message}; see {self.prog} --help", Exit.INPUT, "DH-USAGE")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in listed(action)]
        what = "unknown command" if isinstance(action, argparse._SubParsersAction) else "invalid choice"  # noqa: SLF001
        raise argparse.ArgumentError(
            None if what == "unknown command" else action,
            f"{what}: {str(value)!r}{near(str(value), choices)} (there are {', '.join(choices)})",
        )

    def format_help(self) -> str:
        """The help, of a group with the options of its view, and with examples at its end."""
        text = super().format_help() + self._help_of_view()
        if self.examples:
            text += "\nexamples:\n" + "".join(f"  {one}\n" for one in self.examples)
        return text

    def _help_of_view(self) -> str:
        """What the command takes that runs if none is named: all but the common options."""
        if self.view is None:
            return ""
        leaf = commands_of(self).choices[self.view]
        own = [group for group in leaf._action_groups if group.title != _COMMON]  # noqa: SLF001 - as in `Whole`
        formatter = self._get_formatter()
        formatter.start_section(f"options of {leaf.prog.removeprefix('dochistory ')}, which runs without a COMMAND")
        for group in own:
            formatter.add_arguments(one for one in group._group_actions if one.dest != "help")  # noqa: SLF001
        formatter.end_section()
        text = formatter.format_help()
        return f"\n{text}" if text else ""


class Whole(Parser):
    """The parser of the program itself: its help lists the commands by groups."""

    def format_help(self) -> str:
        """The help: commands by what they are for, common options, exit statuses."""
        helps = helps_of(self)
        lines = [self.format_usage().rstrip(), "", str(self.description), ""]
        grouped = [*GROUPS.items(), ("others", tuple(name for name in helps if name not in sum(GROUPS.values(), ())))]
        for title, names in grouped:
            there = [name for name in names if name in helps]
            if there:
                lines += [f"{title}:", *(hanging(f"    {name:<11} ", helps[name]) for name in there), ""]
        lines += ["`dochistory COMMAND --help` has examples.", ""]
        formatter = self._get_formatter()
        for group in self._action_groups:
            if group.title in (_COMMON, "options"):
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)  # noqa: SLF001 - argparse offers no other way
                formatter.end_section()
        return "\n".join([*lines, formatter.format_help(), exit_table()])


def helps_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The commands of a parser that are shown, each with its help."""
    found = commands_of(parser)
    return {} if found is None else {one.dest: one.help or "" for one in found._choices_actions}  # noqa: SLF001


def commands_of(parser: argparse.ArgumentParser) -> Any:
    """The action that holds a parser's commands; None for a command itself."""
    for action in parser._actions:  # noqa: SLF001 - argparse shows its actions in no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return action
    return None


def listed(action: argparse.Action) -> Iterable[str]:
    """The choices that are shown: old spellings are not."""
    if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
        return [one.dest for one in action._choices_actions]  # noqa: SLF001
    return list(action.choices or ())


def leaves(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterable[tuple[tuple[str, ...], Parser]]:
    """Every command with its words: `("audit", "list")`. Old spellings too."""
    found = commands_of(parser)
    if found is None:
        assert isinstance(parser, Parser)  # noqa: S101 - all parsers here are
        yield path, parser
        return
    for name, below in found.choices.items():
        yield from leaves(below, (*path, name))


def common(*, top: bool = False, without: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Options that are allowed before the command as well as behind it, but for those that mean nothing to it."""
    made = argparse.ArgumentParser(add_help=False)
    default: Any = None if top else argparse.SUPPRESS
    group = made.add_argument_group(_COMMON)
    group.add_argument(
        "--history",
        metavar="DIR|URL",
        default=default,
        help="the history (or $DOCHISTORY_HISTORY, or the line history = … of dochistory.toml)",
    ).complete = "directory"  # type: ignore[attr-defined]
    group.add_argument(
        "--storage-option",
        metavar="NAME=VALUE",
        action="append",
        default=default,
        help="of a history in a bucket: an option that is no secret, such as aws_region=eu-west-1; secrets come from "
        "the environment",
    )
    group.add_argument(
        "--settings",
        metavar="FILE",
        default=default,
        help="triggers' settings (or $DOCHISTORY_SETTINGS, or dochistory.toml here or in a directory above)",
    ).complete = "file"  # type: ignore[attr-defined]
    group.add_argument(
        "--lock-timeout",
        metavar="TIME",
        type=patience,
        default=default,
        help="how long to wait for another writer (30 s); 0: not at all",
    )
    off: Any = False if top else argparse.SUPPRESS
    group.add_argument("--json", action="store_true", default=off, help="one JSON document, for programs")
    group.add_argument("--debug", action="store_true", default=off, help="show where in the program an error arose")
    for action in group._group_actions:  # noqa: SLF001 - argparse can only hide an option afterwards
        if action.option_strings[0] in without:
            action.help = argparse.SUPPRESS
    return made


def add(
    commands: Any,
    name: str,
    run: Command,
    help_: str,
    more: str = "",
    examples: Sequence[str] = (),
    *,
    old: str | None = None,
    hidden: bool = False,
    without: Sequence[str] = (),
) -> Parser:
    """Add a command; `old` says which command replaces it, and hides it. It refuses the common options `without`."""
    shown: dict[str, Any] = {} if old or hidden else {"help": help_}
    made: Parser = commands.add_parser(
        name,
        description=f"{help_[0].upper()}{help_[1:]}. {more}".strip(),
        parents=[common(without=without)],
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter if "\n" in more else argparse.HelpFormatter,
        **shown,
    )
    made.examples = examples
    made.replaced_by, made.without = old, without
    made.set_defaults(run=run, leaf=made)
    return made


def add_group(commands: Any, name: str, help_: str, more: str = "", *, view: str, examples: Sequence[str] = ()) -> Any:
    """Add a group of commands; answers what its commands are added to. `view` runs if none is named."""
    made: Parser = commands.add_parser(
        name,
        help=help_,
        description=f"{help_[0].upper()}{help_[1:]}. {more}".strip() + f" Without a further word: {view}.",
        parents=[common()],
        allow_abbrev=False,
    )
    made.examples, made.is_group, made.view = examples, True, view
    return made.add_subparsers(
        title="commands", dest=f"{name}_command", metavar="COMMAND", required=True, parser_class=Parser
    )


def with_views(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """The words, with the view of a group where none of its commands is named: `stats` is `stats show`."""
    found = list(words)
    at = _next_word(found, 0)
    top = commands_of(parser)
    if at is None or found[at] not in top.choices:
        return found
    group = top.choices[found[at]]
    if not group.is_group:
        return found
    after = found[at + 1 :]
    if "-h" in after[:1] or "--help" in after[:1] or _next_word(found, at + 1) is not None:
        return found
    return [*found[: at + 1], group.view, *after]


def _next_word(words: Sequence[str], at: int) -> int | None:
    """Where the next word stands that is no common option; None if an option of a command comes first."""
    while at < len(words):
        word = words[at]
        if word in COMMON_WITH_VALUE:
            at += 2
        elif word in COMMON_FLAGS or word.startswith(tuple(f"{name}=" for name in COMMON_WITH_VALUE)):
            at += 1
        else:
            return None if word.startswith("-") and word != "-" else at
    return None


def check_common(options: argparse.Namespace) -> None:
    """Refuse a common option that means nothing to the command.

    Raises:
        CommandError: one was given.
    """
    leaf: Parser = options.leaf
    for name in leaf.without:
        # A lock timeout of 0 was given, too.
        if getattr(options, name.lstrip("-").replace("-", "_")) not in (None, False, "", []):
            raise CommandError(f"{name} means nothing to `{leaf.prog}`: leave it out", Exit.INPUT, "DH-USAGE")


def unknown_options(options: argparse.Namespace, rest: Sequence[str]) -> CommandError:
    """The error about words that no argument takes."""
    leaf: Parser = options.leaf
    first = rest[0].partition("=")[0]
    known = [name for action in leaf._actions if action.help != argparse.SUPPRESS for name in action.option_strings]  # noqa: SLF001
    # Every option begins with dashes, which make nothing similar.
    meant = near(first[2:], [name[2:] for name in known if name.startswith("--")]) if first.startswith("--") else ""
    meant = meant.replace("mean '", "mean '--")
    return CommandError(
        f"unrecognized arguments: {' '.join(rest)}; see {leaf.prog} --help{meant}", Exit.INPUT, "DH-USAGE"
    )
