"""The chart on the project's first page: `python -m benches.chart` draws out/bench.json."""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benches.table import JOBS, OWN, Job, figures

SHOWN = ("classify", "classify_small", "begin_complete")
OWN_COLOUR, PEER_COLOUR = "#2b6cb0", "#a0aec0"


def draw(result: dict[str, Any], path: Path) -> None:
    """One panel a job, one bar a peer, in the order of the job; logarithmic, because the peers differ that much."""
    jobs = [job for job in JOBS if job.key in SHOWN]
    figure, panels = plt.subplots(1, len(jobs), figsize=(13, 3.6), layout="constrained")
    for panel, job in zip(panels, jobs, strict=True):
        _panel(panel, job, result)
    workload = result["workload"]
    figure.suptitle(
        f"{workload['n']:,} ids in {workload['p']} day partitions; batches of {workload['rows']:,}"
        f" ({result['machine']['cpu']}, {result['machine']['cores']} cores)",
        fontsize=10,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _panel(panel: Any, job: Job, result: dict[str, Any]) -> None:
    found = {peer: figures(values, job, result["workload"]) for peer, values in result["peers"].items()}
    medians = {peer: values for peer, values in found.items() if values}
    order = sorted(medians, key=lambda peer: medians[peer][0], reverse=not job.rate_of)  # the best is on top
    values = [medians[peer][0] for peer in order]
    spread = [
        [medians[peer][0] - medians[peer][1] for peer in order],
        [medians[peer][2] - medians[peer][0] for peer in order],
    ]
    colours = [OWN_COLOUR if peer == OWN else PEER_COLOUR for peer in order]
    bars = panel.barh(order, values, xerr=spread, color=colours, ecolor="#4a5568", capsize=2, log=True)
    panel.bar_label(bars, labels=[f" {job.text(value)}" for value in values], fontsize=8, padding=2)
    better = "longer is better" if job.rate_of else "shorter is better"
    panel.set_title(f"{job.title}\n{job.unit}, {better}", fontsize=9)
    panel.margins(x=0.25)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw the last run."""
    draw(json.loads(Path("out/bench.json").read_text()), Path("docs/images/benchmark.png"))


if __name__ == "__main__":
    main()
