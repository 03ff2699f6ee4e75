"""How well does a small convolutional network tell digits by the same DP-SGD as a table's, at which epsilon?

The images are the 1,797 digits of 8 x 8 pixels that the scikit-learn package ships. A row is an image: its pixels, of 17
shades each, and its class, all of them codes as a table's are. The loop takes any network, one unit at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import torch
from torch import nn

from benchmarks.scoring import markdown
from benchmarks.studies import grid, pages
from benchmarks.studies.network_alone import planned
from dp_synth_pipeline.errors import Diverged
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.trainable import Trainable
from dp_synth_pipeline.model.dpsgd.training import train, train_public
from dp_synth_pipeline.model.dpsgd.work import Training

EPSILONS = (0.5, 1.0, 2.51, 8.0)
ACTIVATIONS = ("tanh", "relu")

SIDE, SHADES, CLASSES = 8, 17, 10
CHANNELS = (8, 16)
"""Of the two layers of 3 x 3 convolutions, each of which is followed by the mean of four neighbours."""

HELD_OUT, EPOCHS = 360, 20
BATCH_SHARE = 1 / 4
RATES = (0.25, 0.5, 1.0)
"""Of SGD, at clipping norm 1; the best of them is shown."""

REPEATS = 1


class DigitNetwork(Trainable):
    """Two convolutions and a linear layer that tell the class of an image, which is the last column of its codes."""

    one_by_one = True

    def __init__(self, activation: str = "tanh") -> None:
        super().__init__()
        self.cardinalities = (*[SHADES] * SIDE**2, CLASSES)
        self.activation, self._bend = activation, {"tanh": torch.tanh, "relu": torch.relu}[activation]
        first, second = CHANNELS
        self.first = nn.Conv2d(1, first, 3, padding=1)
        self.second = nn.Conv2d(first, second, 3, padding=1)
        self.last = nn.Linear(second * (SIDE // 4) ** 2, CLASSES)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return logits (images, classes) of codes (images, pixels)."""
        image = (pixels.to(self.last.weight.dtype) / (SHADES - 1) - 0.5).unflatten(-1, (1, SIDE, SIDE))
        found = nn.functional.avg_pool2d(self._bend(self.first(image)), 2)
        found = nn.functional.avg_pool2d(self._bend(self.second(found)), 2)
        return self.last(found.flatten(1))

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        rows = codes.flatten(0, -2)
        found = nn.functional.cross_entropy(self(rows[:, :-1]), rows[:, -1], reduction="none")
        return found.view(codes.shape[:-1])

    def forget_unused(self) -> None:
        """Keep all: every output depends on every weight."""

    def blueprint(self) -> Callable[[], DigitNetwork]:
        return lambda: DigitNetwork(self.activation)


@cache
def digits() -> np.ndarray:
    """Return the images as codes int64 (1797, 65): the pixels, and the class."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return np.column_stack([found.data, found.target]).astype(np.int64)


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train once, and tell the share of held-out images whose class is the likeliest one."""
    codes = np.random.default_rng().permutation(digits())
    held_out, learnt = codes[:HELD_OUT], codes[HELD_OUT:]
    private = math.isfinite(cell["epsilon"])
    how = TrainingSpec(max_epochs=EPOCHS, batch_share=BATCH_SHARE, optimizer="sgd", learning_rate=cell["rate"])
    plan = planned(len(learnt), how, epsilon=cell["epsilon"] if private else None)
    network = DigitNetwork(cell["activation"])
    try:
        (train if private else train_public)(network, Training(learnt, plan, how))
    except Diverged:
        return {"accuracy": 1 / CLASSES, "loss": math.log(CLASSES)}
    with torch.no_grad():
        rows = torch.from_numpy(held_out)
        right = network(rows[:, :-1]).argmax(1) == rows[:, -1]
        return {"accuracy": float(right.double().mean()), "loss": float(network.losses(rows).mean())}


def run(path: Path) -> None:
    """Train what is missing."""
    grid.run(path, grid.product(epsilon=(*EPSILONS, math.inf), activation=ACTIVATIONS, rate=RATES), measure, REPEATS)


def best(lines: pd.DataFrame) -> pd.DataFrame:
    """Return all trainings of that rate, by epsilon and activation, whose mean accuracy is the highest."""
    by = lines.groupby(["epsilon", "activation", "rate"], as_index=False)["accuracy"].mean()
    rates = by.loc[by.groupby(["epsilon", "activation"])["accuracy"].idxmax(), ["epsilon", "activation", "rate"]]
    return lines.merge(rates)


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the mean accuracy of each activation by epsilon, at its best rate."""
    found = best(lines).groupby(["epsilon", "activation"])[["accuracy", "rate"]].mean()
    shown = []
    for epsilon in found.index.unique("epsilon"):
        line: dict[str, Any] = {"ε": f"{epsilon:g}" if math.isfinite(epsilon) else "none"}
        for activation in ACTIVATIONS:
            line |= {activation: found.loc[(epsilon, activation), "accuracy"]}
            line |= {f"rate of {activation}": found.loc[(epsilon, activation), "rate"]}
        shown.append(line)
    return {"images": markdown(shown, {k: "" if k == "ε" else "g" if "rate" in k else ".1%" for k in shown[0]})}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw the accuracy of each training against epsilon, and that without privacy as a line."""
    figure, lines = go.Figure(), best(lines)
    for activation, some in lines[np.isfinite(lines["epsilon"])].groupby("activation"):
        figure.add_scatter(x=list(some["epsilon"]), y=list(some["accuracy"]), name=str(activation), mode="markers")
    for accuracy in lines[~np.isfinite(lines["epsilon"])].groupby("activation")["accuracy"].mean():
        figure.add_hline(y=accuracy, line=pages.GREY)
    figure.update_xaxes(type="log", title="ε", tickvals=list(EPSILONS))
    figure.update_yaxes(title="accuracy on held-out images", tickformat=".0%", range=[0, 1])
    return {"images": figure}
