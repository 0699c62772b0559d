"""Completion for shells, generated from the arguments of the command line."""

import argparse
from collections.abc import Iterator
from typing import Any

SHELLS = ("bash", "zsh", "fish")

_Options = dict[str, tuple[list[str], str]]
"""An option -> the values it may have, and its help."""


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The completion of this parser's program, as a script of the shell."""
    commands = {name: _options(command) for name, command in _commands(parser)}
    helps = _helps(parser)
    if shell == "fish":
        return _fish(commands, helps)
    return _bash(commands) if shell == "bash" else _zsh(commands)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001 - argparse shows its actions in no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from action.choices.items()


def _helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    found: dict[str, str] = {}
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found.update({choice.dest: choice.help or "" for choice in action._choices_actions})  # noqa: SLF001
    return found


def _options(command: argparse.ArgumentParser) -> _Options:
    found: _Options = {}
    for action in command._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                found.update({name: one for name, one in _options(below).items() if name})
        values = [str(choice) for choice in action.choices or []]
        # Positional arguments have no name, so their values complete where no option does.
        for name in action.option_strings or [""]:
            found[name] = (values, _help(action))
    return found


def _help(action: Any) -> str:
    return str(action.help or "").replace("%%", "%")


def _bash(commands: dict[str, _Options]) -> str:
    cases = "".join(f"    {name}) words='{_words(options)}' ;;\n" for name, options in commands.items())
    values = "".join(
        f"    {name}:{option}) COMPREPLY=($(compgen -W '{' '.join(allowed)}' -- \"$current\")); return ;;\n"
        for name, options in commands.items()
        for option, (allowed, _) in options.items()
        if option and allowed
    )
    return _BASH.replace("@COMMANDS@", " ".join(commands)).replace("@CASES@\n", cases).replace("@VALUES@\n", values)


def _words(options: _Options) -> str:
    return " ".join([*(name for name in options if name), *options.get("", ([], ""))[0]])


def _zsh(commands: dict[str, _Options]) -> str:
    cases = "".join(f"    {name}) compadd -- {_words(options)}; _files ;;\n" for name, options in commands.items())
    values = "".join(
        f"    {name}:{option}) compadd -- {' '.join(allowed)}; return ;;\n"
        for name, options in commands.items()
        for option, (allowed, _) in options.items()
        if option and allowed
    )
    words = _ZSH.replace("@COMMANDS@", " ".join(commands)).replace("@NAMES@", "|".join(commands))
    return words.replace("@CASES@\n", cases).replace("@VALUES@\n", values)


_BASH = """\
_dochistory() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command='' words='' word
  for word in "${COMP_WORDS[@]:1:$((COMP_CWORD-1))}"; do
    case " @COMMANDS@ " in *" $word "*) command="$word"; break ;; esac
  done
  case "$command:$previous" in
@VALUES@
  esac
  case "$previous" in
    --history) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --settings|--output|-o) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case "$command" in
    '') words='@COMMANDS@ --history --settings --lock-timeout --json --debug --help --version' ;;
@CASES@
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$current" in -*) ;; *) [ -n "$command" ] && COMPREPLY+=($(compgen -f -- "$current")) ;; esac
}
complete -o filenames -F _dochistory dochistory
"""


_ZSH = """\
#compdef dochistory
_dochistory() {
  local command='' word
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$word" in @NAMES@) command="$word"; break ;; esac
  done
  case "$command:${words[CURRENT-1]}" in
@VALUES@
  esac
  case "${words[CURRENT-1]}" in
    --history) _files -/; return ;;
    --settings|--output|-o) _files; return ;;
  esac
  case "$command" in
    '') compadd -- @COMMANDS@ --history --settings --lock-timeout --json --debug --help --version ;;
@CASES@
  esac
}
compdef _dochistory dochistory
"""


def _fish(commands: dict[str, _Options], helps: dict[str, str]) -> str:
    lines = [
        f"complete -c dochistory -n __fish_use_subcommand -a {name} -d {_quoted(helps.get(name, ''))}"
        for name in commands
    ]
    for name, options in commands.items():
        seen = f"complete -c dochistory -n '__fish_seen_subcommand_from {name}'"
        for option, (values, help_) in options.items():
            given = f" -xa {_quoted(' '.join(values))}" if values else ""
            if not option:
                lines += [f"{seen}{given}"] if values else []
                continue
            kind, bare = ("-l", option[2:]) if option.startswith("--") else ("-s", option[1:])
            lines.append(f"{seen} {kind} {bare}{given} -d {_quoted(help_)}")
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
