"""Accuracy against epsilon, and the sweep of noise and clipping norm, each as a CSV and a chart, by one command:

    python benchmarks/frontier.py --train T.csv --holdout H.csv --target COLUMN --scorer score.py --scorer-python PYTHON

1. `epsilon`: whole releases of the default method, from 0.1 to 16.
2. `sweep`: the network alone (method: autoregressive, nothing measured but the profile), at 10 noise multipliers and 3
   clipping norms, as in the MOSTLY AI study; `--cap` is the table's epsilon, at which training stops early if it must.

Every release is charged in full. Lines that are in the CSVs are not run again; `--only epsilon|sweep` runs one part.
`--peers ANCHORS.csv` draws the lines that anchors.py measured into the first chart.
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import charts
from ablations import figures, release
from scoring import Log, markdown, options, score, write

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.51, 4.0, 8.0, 16.0)
NOISES = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
CLIPS = (0.3, 1.0, 3.0)

COLUMNS = {
    "spent": ".3f",
    "accuracy2": ".4f",
    "tvd1": ".4f",
    "tvd2": ".4f",
    "tvd3": ".4f",
    "disc_auc": ".3f",
    "tstr_auc": ".3f",
    "steps": ",.0f",
    "cpu": ".0f",
    "runs": ".0f",
}
PANELS = {"accuracy2": "2-way accuracy (1 - distance)", "tstr_auc": "TSTR AUC", "disc_auc": "discriminator AUC"}


def measure(asked: Namespace, log: Log, named: dict[str, float], epsilon: float, changes: dict[str, Any]) -> None:
    """Release and score one line as often as asked."""
    for _ in range(log.done(**named), asked.reps):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "synthetic.csv"
            found = figures(release(asked, epsilon, changes, out)) | score(asked, out)
        log.add({**named, **found, "accuracy2": 1 - found["tvd2"]})
        print(markdown(log.rows[-1:], {**dict.fromkeys(named, "g"), **COLUMNS}).splitlines()[-1], flush=True)


def epsilons(asked: Namespace) -> None:
    """Measure and draw what each epsilon buys."""
    log = Log(asked.out / "epsilon.csv", ("epsilon",))
    for epsilon in asked.epsilon:
        measure(asked, log, {"epsilon": epsilon}, epsilon, {})
    lines = sorted(log.medians(), key=lambda r: r["epsilon"])
    write(asked.out / "epsilon.md", markdown(lines, {"epsilon": "g", **COLUMNS}))
    charts.lines(asked.out / "epsilon.html", "epsilon", PANELS, {"dp-synth": lines}, peers=_peers(asked))


def _peers(asked: Namespace) -> list[dict[str, Any]]:
    if asked.peers is None:
        return []
    found = Log(asked.peers, ("table", "system", "epsilon")).medians()
    fitting = [r for r in found if r["table"] == asked.train.stem and isinstance(r["epsilon"], float)]
    fitting = [r for r in fitting if isinstance(r.get("tvd2"), float)]
    return [r | {"accuracy2": 1 - r["tvd2"]} for r in fitting if r["system"] != "dp-synth"]


def sweep(asked: Namespace) -> None:
    """Measure and draw what noise and clipping do to the network alone."""
    log = Log(asked.out / "sweep.csv", ("noise", "clip"))
    for noise in NOISES:
        for clip in CLIPS:
            changes = {"method": "autoregressive", "noise_multiplier": noise, "max_grad_norm": clip}
            measure(asked, log, {"noise": noise, "clip": clip}, asked.cap, changes)
    lines = sorted(log.medians(), key=lambda r: (r["clip"], r["noise"]))
    write(asked.out / "sweep.md", markdown(lines, {"noise": "g", "clip": "g", **COLUMNS}))
    series = {f"clipping norm {clip:g}": [r for r in lines if r["clip"] == clip] for clip in CLIPS}
    charts.lines(asked.out / "sweep.html", "noise", PANELS, {k: v for k, v in series.items() if v})


def main() -> None:
    """Run what is missing of both parts."""
    found = options(__doc__ or "", "frontier")
    found.add_argument("--epsilon", type=float, nargs="+", default=list(EPSILONS))
    found.add_argument("--cap", type=float, default=16.0, help="epsilon of the sweep's table: no line spends more")
    found.add_argument("--only", choices=("epsilon", "sweep"))
    found.add_argument("--peers", type=Path, help="anchors.csv of anchors.py")
    asked = found.parse_args()
    if asked.train is None or asked.holdout is None:
        found.error("give --train and --holdout")
    os.umask(0o077)
    if asked.only != "sweep":
        epsilons(asked)
    if asked.only != "epsilon":
        sweep(asked)


if __name__ == "__main__":
    main()
