"""The demo's answer as a table: a row per batch handed over, a column per rule."""

from collections import Counter

from rich.console import Console
from rich.table import Table

from records import Run

MEANING = {
    ("R8", "NEW"): "no entry",
    ("R9", "DUPLICATE"): "completed",
    ("R11", "IN_DOUBT"): "begun, not ended",
    ("R4", "IN_DOUBT"): "id over 96 long",
    ("R3", "IN_DOUBT"): "no id",
}
STYLES = {"NEW": "green", "DUPLICATE": "blue", "IN_DOUBT": "yellow"}


def show(runs: list[Run]) -> None:
    """Print the table."""
    total: Counter[tuple[str, str]] = sum((run.verdicts for run in runs), Counter())
    columns = [*MEANING, *sorted(total.keys() - MEANING.keys())]
    table = Table(title="\nEvery batch that Spark handed over", title_justify="left", show_footer=True)
    table.add_column("batch", justify="right", footer="total")
    table.add_column("handed over", no_wrap=True)
    for rule, status in columns:
        heading = f"{status}\n{rule}: {MEANING.get((rule, status), '')}"
        style = STYLES.get(status, "red")
        table.add_column(heading, justify="right", style=style, footer=f"{total[rule, status]:,}")
    seen: set[tuple[str, int]] = set()
    for number, run in enumerate(runs):
        note = "replayed" if (run.phase, run.batch) in seen else "" if run.phase == "first" else "delivered again"
        seen.add((run.phase, run.batch))
        later = runs[number + 1] if number + 1 < len(runs) else None
        killed = later is not None and (later.phase, later.batch) == (run.phase, run.batch)
        note = "killed half-way" if killed else note
        ends = killed or (later is not None and later.phase != run.phase)
        cells = [f"{run.verdicts[column]:,}" if run.verdicts[column] else "" for column in columns]
        table.add_row(str(run.batch), note, *cells, end_section=ends)
    Console(width=None if Console().is_terminal else 120).print(table)
