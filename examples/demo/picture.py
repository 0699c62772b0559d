"""The demo's answer as a picture: what became of the mails, batch by batch."""

from pathlib import Path

import matplotlib as mpl

from dochistory.display import VERDICTS
from records import Run

mpl.use("Agg")
from matplotlib import pyplot as plt

LABELS = {
    "NEW": "NEW: the service runs",
    "DUPLICATE": "DUPLICATE: dropped",
    "IN_DOUBT": "IN DOUBT: logged for a person",
}


def draw(runs: list[Run], path: Path) -> None:
    """Draw stacked bars, one per batch handed over, into a PNG file."""
    figure, axes = plt.subplots(figsize=(10, 4.2), dpi=130)
    killed = next(n for n, run in enumerate(runs[:-1]) if runs[n + 1].batch == run.batch)
    again = next(n for n, run in enumerate(runs) if run.phase == "again")
    places = [n + (n > killed) * 0.8 + (n >= again) * 0.8 for n in range(len(runs))]
    heights = [0] * len(runs)
    for status, colour in VERDICTS.items():
        counts = [sum(n for (_, found), n in run.verdicts.items() if found == status) for run in runs]
        axes.bar(
            places,
            counts,
            bottom=heights,
            color=colour,
            edgecolor="#555555",
            linewidth=0.5,
            label=LABELS[status],
            width=0.86,
        )
        heights = [height + count for height, count in zip(heights, counts, strict=True)]

    top = max(heights)
    hatched = axes.bar([places[killed]], [heights[killed] / 2], bottom=[heights[killed] / 2], width=0.86)
    hatched[0].set(facecolor="white", alpha=0.65, hatch="////", edgecolor="#aa2222")
    axes.annotate(
        "SIGKILL half-way",
        xy=(places[killed] + 0.3, top * 1.0),
        xytext=(places[killed] - 0.4, top * 1.16),
        color="#aa2222",
        ha="left",
        arrowprops={"arrowstyle": "-|>", "color": "#aa2222"},
    )
    for start, end, text in (
        (0, killed, "1. first run"),
        (killed + 1, again - 1, "2. started again"),
        (again, len(runs) - 1, "3. everything delivered again"),
    ):
        axes.text((places[start] + places[end]) / 2, -top * 0.2, text, ha="center", va="top", fontweight="bold")
    axes.set_xticks(places, [str(run.batch) for run in runs])
    axes.set_ylim(0, top * 1.28)
    axes.set_ylabel("mails")
    axes.set_xlabel("batch number", labelpad=2)
    axes.set_title(_result(runs), loc="left", pad=28, fontsize=10)
    unusable = next(n for n, run in enumerate(runs) if _doubts(run, "R3", "R4") and n not in (killed, killed + 1))
    axes.annotate(
        "no usable id (R3, R4)",
        xy=(places[unusable], heights[unusable]),
        xytext=(places[unusable] - 0.4, top * 1.16),
        fontsize=9,
        ha="left",
        arrowprops={"arrowstyle": "-"},
    )
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, frameon=False, borderaxespad=0.2, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)


def _doubts(run: Run, *rules: str) -> int:
    return sum(n for (rule, status), n in run.verdicts.items() if status == "IN_DOUBT" and rule in rules)


def _result(runs: list[Run]) -> str:
    """What came out of it, in a sentence."""
    deliveries = sum(sum(run.verdicts.values()) for run in runs)
    cut = sum(_doubts(run, "R11") for run in runs)
    unusable = sum(_doubts(run, "R3", "R4") for run in runs)
    waits = f"{cut:,} wait for a person because the kill cut them off (R11)" if cut else "none is in doubt by the kill"
    return (
        f"{deliveries:,} deliveries of 6,046 mails: none was processed twice;\n{waits}, {unusable:,} because their id "
        "cannot be remembered (R3, R4)"
    )
