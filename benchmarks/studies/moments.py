"""How much of Adam's moments is noise, by step and epsilon?

The noise in each number of a gradient has a known variance, so what it adds to either moment is known too. What is above
that was learnt of rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots
from torch import nn
from torch.nn.utils import parameters_to_vector

from benchmarks.scoring import markdown
from benchmarks.studies import adam, grid
from benchmarks.studies.adam import FIRST, SECOND
from benchmarks.studies.network_alone import learn, planned, spec, split
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork

EPSILONS = (0.1, 0.5, 2.51, 8.0, 30.0)
STEPS = (1, 5, 20, 80, 160)
"""After which moments are looked at."""

ROWS, HELD_OUT, EPOCHS = 8_192, 3_000, 10
REPEATS = 3

Seen = dict[str, float]


class Watched(torch.optim.Adam):
    """Adam that notes how much of its moments is noise.

    Args:
        noise: variance of the noise in each number of a gradient.
        used: which of the first parameter's numbers anything depends on; the others hold noise alone.
        seen: is filled: `second_STEP` and `first_STEP`, the noise's expected part of the sum of squares.
    """

    def __init__(self, parameters: list[nn.Parameter], lr: float, noise: float, used: torch.Tensor, seen: Seen) -> None:
        super().__init__(parameters, lr=lr, betas=(FIRST, SECOND))
        self.noise, self.used, self.seen = noise, used, seen

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move the weights, and look at their moments after some steps."""
        super().step(closure)
        state = self.state[self.param_groups[0]["params"][0]]
        if (step := int(state["step"])) in STEPS:
            second = state["exp_avg_sq"][self.used].double().mean() / (1 - SECOND**step)
            first = state["exp_avg"][self.used].double().square().mean()
            self.seen[f"second_{step}"] = float(self.noise / second)
            self.seen[f"first_{step}"] = float(self.noise * spread(step) / first)


def spread(step: int) -> float:
    """Return the variance of the first moment after so many steps of noise of variance 1, before its correction.

    It is the sum of the squares of the weights with which the moment adds up the gradients.
    """
    return (1 - FIRST) * (1 - FIRST ** (2 * step)) / (1 + FIRST)


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train once by Adam, and note its moments."""
    how = spec(max_epochs=EPOCHS, hidden=16)
    noise = adam.noise_variance(planned(ROWS, how, epsilon=cell["epsilon"]), how)
    rows, held_out = split("rand", ROWS, HELD_OUT)
    seen: Seen = {}
    used = _used(AutoregressiveNetwork(rows.cardinalities, how))
    with adam.inside(lambda weights, lr: Watched(weights, lr, noise, used, seen)):
        found = learn(rows, held_out, how, epsilon=cell["epsilon"])
    return {"loss": min(found.loss, found.nothing), **seen}


@torch.no_grad()
def _used(network: AutoregressiveNetwork) -> torch.Tensor:
    """Return which weights an output depends on, bool (weights,)."""
    for p in network.parameters():
        p.fill_(1.0)
    network.forget_unused()
    return parameters_to_vector(network.parameters()) > 0


def run(path: Path) -> None:
    """Train what is missing."""
    grid.run(path, grid.product(epsilon=EPSILONS), measure, REPEATS)


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the median share of noise in each moment, by step and epsilon."""
    found = lines.groupby("epsilon").median(numeric_only=True)
    return {f"noise in the {moment} moment": _table(found, moment) for moment in ("second", "first")}


def _table(found: pd.DataFrame, moment: str) -> str:
    rows = [
        {"step": step, **{f"ε = {e:g}": found.loc[e, f"{moment}_{step}"] for e in found.index}}
        for step in STEPS
        if f"{moment}_{step}" in found
    ]
    return markdown(rows, {"step": "g", **dict.fromkeys(list(rows[0])[1:], ".1%")})


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw the share of noise in both moments against the step."""
    figure = make_subplots(1, 2, subplot_titles=("second moment", "first moment"))
    found = lines.groupby("epsilon").median(numeric_only=True)
    for column, moment in enumerate(("second", "first"), start=1):
        for number, epsilon in enumerate(found.index):
            steps = [step for step in STEPS if f"{moment}_{step}" in found]
            shares = [found.loc[epsilon, f"{moment}_{step}"] for step in steps]
            how = {"name": f"ε = {epsilon:g}", "mode": "lines+markers", "line": {"color": COLORS[number % len(COLORS)]}}
            figure.add_scatter(x=steps, y=shares, **how, showlegend=column == 1, row=1, col=column)
    figure.update_xaxes(type="log", title="step", tickvals=list(STEPS))
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    figure.update_yaxes(title="share that is noise", row=1, col=1)
    return {"moments": figure}


COLORS = ("#d62728", "#ff7f0e", "#2ca02c", "#1f77b4", "#9467bd")
"""Of the lines of each epsilon."""
