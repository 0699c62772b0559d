"""Stage the pages of the documentation site: the guides, the project's own pages, and the reference.

    python -m tools.pages            # into out/site-pages
    mkdocs build                    # into out/site; `make docs` does both

Links between files of the source are turned into links between pages. The reference of the command
line is made from its parser, and that of the package from its docstrings, so both are never old.
"""

import argparse
import os
import re
import shutil
from pathlib import Path
from unittest.mock import patch

import dochistory as dh
from dochistory.cli.arguments import parser
from dochistory.cli.failures import EXITS
from dochistory.cli.parser import GROUPS, Parser, commands_of, helps_of

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "out" / "site-pages"

MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "docs/README.md": "pages.md",
}
"""Files of the source whose page has another name."""

MODULES = (
    "consumer", "resolvers", "journal", "statistics", "suspension", "sweeper", "metrics", "migration", "report",
    "brokers", "settings", "audit",
)  # fmt: skip

LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(\))")


def page_of(path: Path) -> str | None:
    """The page of a file of the source; None for a file that is no page."""
    name = path.relative_to(ROOT).as_posix()
    if name in MOVED:
        return MOVED[name]
    inside = name.removeprefix("docs/")
    is_page = inside != name and (inside.startswith("images/") or "/" not in inside)
    return inside if is_page else None


def as_page(text: str, file: Path) -> str:
    """A file's text with its links turned into links between pages."""

    def made(link: re.Match[str]) -> str:
        page = page_of((file.parent / link[2]).resolve())
        return f"{link[1]}{page}{link[3] or ''}{link[4]}" if page else f"{link[1]}index.md{link[4]}"

    # A second word in a fence, as in `python spark`, says for tests what it needs.
    return re.sub(r"^```python \w+$", "```python", LINK.sub(made, text), flags=re.MULTILINE)


@patch.dict(os.environ, {"COLUMNS": "90"})
def command_line() -> str:
    """Every command and option, from the parser."""
    whole = parser()
    known = commands_of(whole).choices
    parts = [
        "# Command line, every option\n\nMade from the program's own parser. [cli.md](cli.md) is the guide.\n",
        "## Common options\n\n```text\n" + options_of(whole) + "```\n",
    ]
    for title, names in GROUPS.items():
        parts += [f"## {name}\n\n*{title}*\n\n{described(known[name])}" for name in names if name in known]
    parts.append("## Exit status\n\n| status | meaning |\n|---|---|\n")
    parts.append("".join(f"| {status:d} | {meaning} |\n" for status, meaning in EXITS.items()))
    return "\n".join(parts)


def described(command: Parser) -> str:
    """A command's help, and that of the commands below it."""
    text = f"```text\n{command.format_help()}```\n"
    below = commands_of(command)
    if below is not None:
        for name in helps_of(command):
            text += f"\n### {command.prog.split()[-1]} {name}\n\n```text\n{below.choices[name].format_help()}```\n"
    return text


def options_of(whole: argparse.ArgumentParser) -> str:
    """The help of the options that every command takes."""
    return whole.format_help().partition("common options:\n")[2].partition("\nexit status")[0]


def settings() -> str:
    """The settings of a trigger, from its docstring."""
    said = (dh.Trigger.__doc__ or "").partition("Args:\n")[2].partition("Raises:")[0]
    rows, name = [], ""
    entries: dict[str, str] = {}
    for line in said.splitlines():
        begun = re.match(r"^    (\w+): (.*)$", line)
        if begun:
            name = begun[1]
            entries[name] = begun[2]
        elif line.strip():
            entries[name] += " " + line.strip()
    plain, documented = dh.Trigger("any"), dh.Trigger.webmethods("any")
    for name, meaning in entries.items():
        if name != "name":
            default, other = (repr_of(getattr(one, name)) for one in (plain, documented))
            rows.append(f"| `{name}` | {default} | {other} | {meaning} |\n".replace("a | b", "a \\| b"))
    return (
        "# Settings\n\nThe settings of a trigger, in `dh.Trigger(…)` and in `dochistory.toml` "
        "([operations.md](operations.md)). The third column is what `dh.Trigger.webmethods` and "
        "`dh.Trigger.jms` have.\n\n| setting | default | documented systems | meaning |\n|---|---|---|---|\n"
        + "".join(rows)
    )


def repr_of(value: object) -> str:
    """A default as it is written."""
    from dochistory.display import cell

    return f"`{str(value).lower()}`" if isinstance(value, bool) else "none" if value is None else f"`{cell(value)}`"


def reference() -> dict[str, str]:
    """The pages that are made from docstrings and from the parser."""
    shown = [name for name in dh.__all__ if name[0].isupper() or name in ("open", "repair", "count_verdicts")]
    native = [name for name in shown if hasattr(__import__("dochistory._native", fromlist=["x"]), name)]
    objects = [f"dochistory._native.{name}" if name in native else None for name in shown]
    # The extension's stub has its docstrings.
    api = "# Python\n\n`import dochistory as dh`. Errors end in `Error`; each has a stable code.\n\n"
    api += "".join(f"::: {one}\n\n" for one in objects if one) + "::: dochistory.repair\n\n"
    modules = "# Modules\n\n" + "".join(f"::: dochistory.{name}\n\n" for name in MODULES)
    return {
        "reference-cli.md": command_line(),
        "reference-api.md": api,
        "reference-modules.md": modules,
        "reference-spark.md": "# Spark\n\n::: dochistory.spark\n    options:\n      filters: ['!^_', '!Error$']\n",
        "reference-settings.md": settings(),
    }


def main() -> None:
    """Stage all pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "images", PAGES / "images")
    for file in [*sorted((ROOT / "docs").glob("*.md")), *(ROOT / name for name in MOVED if "/" not in name)]:
        page = page_of(file)
        assert page is not None  # noqa: S101 - both lists hold pages only
        (PAGES / page).write_text(as_page(file.read_text(encoding="utf-8"), file), encoding="utf-8")
    for name, text in reference().items():
        (PAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
