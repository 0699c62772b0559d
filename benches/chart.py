"""The charts: `python -m benches.chart` draws out/bench.json, `… lived` what out/lived.json has."""

import argparse
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


def draw_lives(result: dict[str, Any], path: Path) -> None:
    """What a life's batches take, and how many ids a second begin and end, beside the peers."""
    lives = result["jobs"]["life"]
    figure, (rates, times) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    batches = sorted(lives, key=int)
    _rates(rates, {batch: lives[batch]["ids_a_second"] / 1e6 for batch in batches}, result["jobs"].get("peers", {}))
    for name, label in (("p50_ms", "p50"), ("p99_ms", "p99"), ("p999_ms", "p99.9"), ("worst_ms", "worst")):
        values = [lives[batch]["begin_and_complete"][name] for batch in batches]
        times.plot([f"{int(batch):,}" for batch in batches], values, marker="o", label=label)
    times.set_yscale("log")
    times.legend(fontsize=8)
    times.set_title("begin + complete of one batch, by its documents\nms, shorter is better", fontsize=9)
    times.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"A life of {result['n']:,} ids, no maintenance called ({result['machine']['cpu']})", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _rates(panel: Any, own: dict[str, float], peers: dict[str, Any]) -> None:
    bars = [(f"{OWN}, {int(batch):,}", value, OWN_COLOUR) for batch, value in own.items()]
    for batch, found in peers.items():
        each = ((f"{name}, {int(batch):,}", one["ids_a_second"] / 1e6) for name, one in found.items() if name != OWN)
        bars += [(name, value, PEER_COLOUR) for name, value in each]
    bars.sort(key=lambda bar: bar[1])
    drawn = panel.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=[bar[2] for bar in bars], log=True)
    panel.bar_label(drawn, labels=[f" {bar[1]:.2f}" for bar in bars], fontsize=8, padding=2)
    panel.set_title("begin + complete, durable\nM ids/s, longer is better", fontsize=9)
    panel.margins(x=0.25)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


_RUNS = {"bench": ("runner", draw, "benchmark"), "lived": ("lived", draw_lives, "lived")}
"""Of each run: the module that measures it, what draws it, and the picture."""


def main() -> None:
    """Draw the last run."""
    parser = argparse.ArgumentParser(prog="python -m benches.chart", description=main.__doc__)
    parser.add_argument("run", nargs="?", choices=list(_RUNS), default="bench", help="which one (bench)")
    run = parser.parse_args().run
    source, (module, paint, picture) = Path(f"out/{run}.json"), _RUNS[run]
    if not source.is_file():
        parser.error(f"there is no {source}: measure first (python -m benches.{module})")
    paint(json.loads(source.read_text()), Path(f"docs/images/{picture}.png"))


if __name__ == "__main__":
    main()
