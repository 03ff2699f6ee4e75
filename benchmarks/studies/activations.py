"""Which activation does best under noise, from a random start and from a taught one? (Papernot et al. 2020, section 3.2)

The paper says that bounded ones win, since ReLU's activations grow, and with them gradients, beyond the clip. So their size
is measured, too. The taught start is a network of the same activation that learnt other rows, which are taken for public.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots

from benchmarks.scoring import markdown
from benchmarks.studies import grid
from benchmarks.studies.network_alone import Coded, learn, planned, spec, split
from benchmarks.studies.shoe import ACTIVATIONS, EPOCHS, HELD_OUT, ROWS, USUAL, sigmoid
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.training import train_public
from dp_synth_pipeline.model.dpsgd.work import Training

STARTS = ("at random", "taught by public rows")
REPEATS = 10


@torch.no_grad()
def size(network: AutoregressiveNetwork, held_out: np.ndarray) -> float:
    """Return the root mean square of what hidden units put out on held-out rows."""
    squares, honest = [], network.activation

    def heard(x: torch.Tensor) -> torch.Tensor:
        out = honest(x)
        squares.append(out.double().square().mean())
        return out

    network.activation = heard
    network.losses(torch.from_numpy(held_out))
    network.activation = honest
    return float(torch.stack(squares).mean().sqrt())


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train a network with the cell's activation from its start."""
    whole, held_out = split("rand", 2 * ROWS, HELD_OUT)
    learnt, public = (Coded(codes, whole.cardinalities) for codes in (whole.codes[:ROWS], whole.codes[ROWS:]))
    other, made = cell["activation"] == "sigmoid", []
    how = spec(max_epochs=EPOCHS, hidden=16, activation="tanh" if other else cell["activation"])

    def begun(cardinalities: Sequence[int], how: GeneratorSpec) -> AutoregressiveNetwork:
        made.append((sigmoid if other else AutoregressiveNetwork)(cardinalities, how))
        if cell["start"] != STARTS[0]:
            train_public(made[0], Training(public.codes, planned(len(public.codes), how), how))
        return made[0]

    found = learn(learnt, held_out, how, epsilon=USUAL if cell["private"] else None, shape=begun)
    return {"loss": min(found.loss, found.nothing), "size": size(made[0], held_out)}


def run(path: Path) -> None:
    """Train what is missing."""
    grid.run(path, grid.product(start=STARTS, activation=ACTIVATIONS, private=(True, False)), measure, REPEATS)


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the mean loss with twice its standard error, and the mean size of activations."""
    by = lines.groupby(["start", "activation", "private"])[["loss", "size"]].agg(["mean", "sem"])
    shown = []
    for start in STARTS:
        for activation in ACTIVATIONS:
            line = {"start": start, "activation": activation}
            for private, name in ((True, f"ε = {USUAL}"), (False, "without DP")):
                if (start, activation, private) in by.index:
                    cell = by.loc[(start, activation, private)]
                    line[name] = f"{cell['loss', 'mean']:.3f} ± {2 * np.nan_to_num(cell['loss', 'sem']):.3f}"
                    line[f"size, {name}"] = f"{cell['size', 'mean']:.2f}"
            shown.append(line)
    return {"activations": markdown(shown, dict.fromkeys(shown[0], ""))}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw every run: its loss against the size of its activations."""
    figure = make_subplots(1, 2, subplot_titles=[f"{start}, ε = {USUAL}" for start in STARTS])
    colors = dict(zip(ACTIVATIONS, ("#1f77b4", "#d62728", "#7f7f7f"), strict=True))
    for column, start in enumerate(STARTS, 1):
        some = lines[(lines["start"] == start) & lines["private"]]
        for activation, runs in some.groupby("activation"):
            figure.add_scatter(
                x=list(runs["size"]),
                y=list(runs["loss"]),
                name=str(activation),
                mode="markers",
                marker={"color": colors[str(activation)]},
                showlegend=column == 1,
                row=1,
                col=column,
            )
        figure.update_xaxes(title="root mean square of activations", row=1, col=column)
    figure.update_yaxes(title="held-out loss, nats a row", row=1, col=1)
    return {"activations": figure}
