"""The command `report`: one HTML page about a history."""

from pathlib import Path

from dochistory import report as pages
from dochistory.cli import show
from dochistory.cli.context import Context
from dochistory.cli.failures import CommandError, Exit


def report(context: Context) -> Exit:
    """Write one HTML page about a history."""
    options = context.options
    with context.open(read_only=True) as history:
        context.named(history)
        with show.progress("reading entries", quiet=context.json) as progress:
            found = pages.gather(
                history, journal=options.journal, trigger=options.trigger, doubts=options.doubts, progress=progress
            )
    try:
        page = pages.html(found)
    except ImportError as error:
        raise CommandError(str(error)) from error
    if options.output == "-":
        print(page, end="")
        return Exit.DONE
    path = Path(options.output)
    if not path.parent.is_dir():
        raise CommandError(f"{path.parent}: no such directory: create it first")
    draft = path.with_name(f".dochistory-draft-{path.name}")
    try:
        draft.write_text(page, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    entries = sum(trigger.entries for trigger in found.triggers)
    if context.json:
        print(show.as_json({"file": path, "triggers": len(found.triggers), "entries": entries}))
    else:
        print(f"{path}: {len(found.triggers):,} triggers, {entries:,} entries")
    return Exit.DONE
