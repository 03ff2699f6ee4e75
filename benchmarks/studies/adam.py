"""Does Adam win anything over SGD under noise, and does it with a second moment from which the noise is subtracted?

Papernot et al. (2020) say no to the first. Tang et al. (2023, "DP-AdamBC", arXiv 2312.14334) say yes to the second: noise
adds a known variance to every second moment. Each optimizer is tried at several rates, and shown at its best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots
from torch import nn

from benchmarks.scoring import markdown
from benchmarks.studies import grid
from benchmarks.studies.network_alone import learn, planned, spec, split
from dp_synth_pipeline.model.dpsgd import descent
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan, learning_rate
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec

EPSILONS = (0.1, 0.5, 2.51, 8.0, 30.0)
USUAL = 2.51

FLOORS = {"SGD": None, "Adam": None, "Adam, corrected, floor 0.1": 0.1, "Adam, corrected, floor 0.01": 0.01}
"""Optimizers, and for corrected ones the least second moment, in variances of the noise."""

FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Rates, in multiples of the rule's."""

ROWS, HELD_OUT, EPOCHS = 8_192, 3_000, 10
REPEATS = 3

FIRST, SECOND, LEAST = 0.9, 0.999, 1e-8
"""Adam's usual decay rates of its moments, and what is added to the root of the second."""

Make = Callable[[list[nn.Parameter], float], torch.optim.Optimizer]


class Corrected(torch.optim.Optimizer):
    """Adam whose second moment is less the variance of the noise in it, which is public.

    Args:
        noise: variance of the noise in each number of a gradient.
        floor: the least that a second moment is after that, in the same variances: by chance some would be below 0.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, *, noise: float, floor: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self.noise, self.floor = noise, floor

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move each weight by its corrected moments."""
        for group in self.param_groups:
            for p in group["params"]:
                self._move(p, group["lr"])

    def _move(self, p: nn.Parameter, lr: float) -> None:
        state, grad = self.state[p], p.grad
        assert grad is not None
        if not state:
            state |= {"step": 0, "first": torch.zeros_like(p), "second": torch.zeros_like(p)}
        state["step"] += 1
        state["first"].lerp_(grad, 1 - FIRST)
        state["second"].lerp_(grad * grad, 1 - SECOND)
        first = state["first"] / (1 - FIRST ** state["step"])
        second = state["second"] / (1 - SECOND ** state["step"])
        root = (second - self.noise).clamp(min=self.floor * self.noise).sqrt()
        p.addcdiv_(first, root + LEAST, value=-lr)


@contextmanager
def inside(make: Make) -> Iterator[None]:
    """Let trainings take the optimizer that `make` returns of their weights and their rate; all else of them stays."""

    def made(network: nn.Module, how: TrainingSpec, reserved: Iterable[nn.Parameter] = ()) -> torch.optim.Optimizer:
        assert how.learning_rate is not None
        return make([*network.parameters(), *reserved], how.learning_rate)

    with mock.patch.object(descent, "inner_optimizer", made):
        yield


def noise_variance(plan: TrainingPlan, how: TrainingSpec) -> float:
    """Return the variance of the noise in each number of a gradient that the optimizer gets."""
    return (plan.noise_multiplier * how.max_grad_norm / plan.expected_batch) ** 2


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train by the cell's optimizer at the rule's rate times its factor."""
    how = spec(max_epochs=EPOCHS, hidden=16, optimizer="sgd" if cell["optimizer"] == "SGD" else "adam")
    plan, floor = planned(ROWS, how, epsilon=cell["epsilon"]), FLOORS[cell["optimizer"]]
    how = how.with_(learning_rate=cell["factor"] * learning_rate(plan, how))
    rows = split("rand", ROWS, HELD_OUT)
    if floor is None:
        found = learn(*rows, how, epsilon=cell["epsilon"])
    else:
        noise = noise_variance(plan, how)
        with inside(lambda weights, lr: Corrected(weights, lr, noise=noise, floor=floor)):
            found = learn(*rows, how, epsilon=cell["epsilon"])
    return {"loss": min(found.loss, found.nothing)}


def run(path: Path) -> None:
    """Train what is missing."""
    grid.run(path, grid.product(epsilon=EPSILONS, optimizer=tuple(FLOORS), factor=FACTORS), measure, REPEATS)


def best(lines: pd.DataFrame) -> pd.DataFrame:
    """Return by optimizer and epsilon the factor with the least mean loss, that mean, and its standard error."""
    by = lines.groupby(["optimizer", "epsilon", "factor"], as_index=False)["loss"].agg(["mean", "sem"])
    return by.loc[by.groupby(["optimizer", "epsilon"])["mean"].idxmin()].fillna({"sem": 0.0})


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the mean loss of each optimizer at its best rate, with twice its standard error and the factor."""
    shown = []
    for optimizer, some in best(lines).groupby("optimizer", sort=False):
        told = {f"ε = {x.epsilon:g}": f"{x.mean:.2f} ± {2 * x.sem:.2f} (x {x.factor:g})" for x in some.itertuples()}
        shown.append({"optimizer": optimizer, **told})
    shown.sort(key=lambda line: list(FLOORS).index(line["optimizer"]))
    return {"adam": markdown(shown, dict.fromkeys(shown[0], ""))}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw the loss of each optimizer at its best rate against epsilon, and against its rate at the usual epsilon."""
    figure = make_subplots(1, 2, subplot_titles=("each at its best rate", f"by rate, ε = {USUAL}"), shared_yaxes=False)
    tuned = best(lines)
    rates = lines[lines["epsilon"] == USUAL].groupby(["optimizer", "factor"], as_index=False)["loss"].mean()
    for number, optimizer in enumerate(FLOORS):
        how = {"name": optimizer, "mode": "lines+markers", "line": {"color": COLORS[number]}, "legendgroup": optimizer}
        some = tuned[tuned["optimizer"] == optimizer].sort_values("epsilon")
        figure.add_scatter(x=list(some["epsilon"]), y=list(some["mean"]), **how, row=1, col=1)
        some = rates[rates["optimizer"] == optimizer]
        figure.add_scatter(x=list(some["factor"]), y=list(some["loss"]), **how, showlegend=False, row=1, col=2)
    figure.update_xaxes(type="log", title="ε", tickvals=list(EPSILONS), row=1, col=1)
    figure.update_xaxes(type="log", title="times the rule's rate", tickvals=list(FACTORS), row=1, col=2)
    figure.update_yaxes(title="held-out loss, nats a row", row=1, col=1)
    return {"adam": figure}


COLORS = ("#7f7f7f", "#1f77b4", "#2ca02c", "#d62728")
"""Of the optimizers' lines."""
