"""Run one command, and turn any error into one sentence and an exit status."""

import os
import sys
from collections.abc import Sequence

from dochistory.cli import arguments, show, streams
from dochistory.cli.context import Context
from dochistory.cli.failures import CommandError, Exit, explained


def main(words: Sequence[str]) -> int:
    """Run the command of these words; the exit status of the program. Ctrl-C is raised further."""
    debug = "--debug" in words
    try:
        streams.prepare()
        if not words:
            print(arguments.parser().format_help(), end="")
            return Exit.DONE
        options = arguments.parse(words)
        context = Context(options)
        context.check()
        if options.leaf.replaced_by:
            context.warn(f"this command is `dochistory {options.leaf.replaced_by}` since 0.2.0")
        try:
            status: Exit = options.run(context)
        finally:
            context.close()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has closed it: stop silently, else Python prints a warning at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.PIPE_CLOSED
    except Exception as error:
        if debug:
            raise
        return _failed(error, as_json="--json" in words)
    return status


def _failed(error: Exception, *, as_json: bool) -> int:
    failure = explained(error) or CommandError(
        f"{type(error).__name__}: {' '.join(str(error).split())}; internal error: run it again with --debug, and "
        "please report what it shows",
        Exit.UNFORESEEN,
        "DH-BUG",
    )
    if as_json:
        print(show.as_json({"error": {"code": failure.code, "message": failure.sentence}}), file=sys.stderr)
    else:
        print(f"dochistory: {failure.sentence} [{failure.code}]", file=sys.stderr)
    return failure.status
