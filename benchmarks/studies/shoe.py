"""Does capacity hurt under noise, and does a bounded activation help? (Papernot et al. 2020, "Making the shoe fit")"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots

from benchmarks.scoring import markdown
from benchmarks.studies import grid
from benchmarks.studies.network_alone import learn, spec, split
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec

UNITS = (4, 8, 16, 32, 64, 128, 256)
ACTIVATIONS = ("tanh", "relu", "sigmoid")
OPTIMIZERS = ("adam", "sgd")
USUAL = 2.51

ROWS, HELD_OUT, EPOCHS = 8_192, 3_000, 10
REPEATS = {"capacity": 3, "activation": 8}


def sigmoid(cardinalities: Sequence[int], how: GeneratorSpec) -> AutoregressiveNetwork:
    """Return the network with sigmoid units, which is no setting of a release."""
    network = AutoregressiveNetwork(cardinalities, how)
    network.activation = torch.sigmoid
    return network


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train a network of the cell's shape from a random start."""
    other = cell["activation"] == "sigmoid"
    how = spec(
        max_epochs=EPOCHS,
        hidden=cell["hidden"],
        optimizer=cell["optimizer"],
        activation="tanh" if other else cell["activation"],
    )
    shape = sigmoid if other else AutoregressiveNetwork
    epsilon = USUAL if cell["private"] else None
    found = learn(*split("rand", ROWS, HELD_OUT), how, epsilon=epsilon, shape=shape)
    return {"loss": min(found.loss, found.nothing)}


def run(path: Path) -> None:
    """Train what is missing of both halves."""
    axes = {"private": (True, False), "optimizer": ("adam",), "activation": ("tanh",), "hidden": UNITS}
    grid.run(path, [{"half": "capacity", **c} for c in grid.product(**axes)], measure, REPEATS["capacity"])
    axes |= {"optimizer": OPTIMIZERS, "activation": ACTIVATIONS, "hidden": (16,)}
    grid.run(path, [{"half": "activation", **c} for c in grid.product(**axes)], measure, REPEATS["activation"])


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return medians of capacity, and means of activations with their standard errors."""
    found = lines[lines["half"] == "capacity"].pivot_table("loss", "hidden", "private", "median")
    rows = [{"units a column": n, f"ε = {USUAL}": s[True], "without DP": s[False]} for n, s in found.iterrows()]
    form = {"units a column": "g", f"ε = {USUAL}": ".2f", "without DP": ".2f"}
    runs = lines[lines["half"] == "activation"]
    by = runs.groupby(["optimizer", "activation", "private"])["loss"].agg(["mean", "sem"])
    told = (by["mean"].map("{:.3f}".format) + " ± " + (2 * by["sem"]).map("{:.3f}".format)).unstack("private")
    activations = [
        {"optimizer": o, "activation": a, f"ε = {USUAL}": told.loc[(o, a), True], "without DP": told.loc[(o, a), False]}
        for o in OPTIMIZERS
        for a in ACTIVATIONS
        if (o, a) in told.index
    ]
    forms = {"optimizer": "", "activation": "", f"ε = {USUAL}": "", "without DP": ""}
    return {"capacity": markdown(rows, form), "activation": markdown(activations, forms)}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw loss against units, and every run of each activation."""
    figure = make_subplots(1, 2, subplot_titles=("units a column (tanh, Adam)", f"activation, ε = {USUAL}, each run"))
    found = lines[lines["half"] == "capacity"].groupby(["private", "hidden"], as_index=False)["loss"].median()
    for private, some in found.groupby("private", sort=True):
        how = {"dash": "solid"} if private else {"dash": "dot", "color": "gray"}
        name = f"ε = {USUAL}" if private else "without DP"
        figure.add_scatter(x=list(some["hidden"]), y=list(some["loss"]), name=name, mode="lines+markers", line=how)
    runs = lines[(lines["half"] == "activation") & lines["private"]]
    for optimizer, some in runs.groupby("optimizer"):
        figure.add_scatter(
            x=list(some["activation"]), y=list(some["loss"]), name=str(optimizer), mode="markers", row=1, col=2
        )
    figure.update_xaxes(type="log", tickvals=list(UNITS), ticktext=[str(n) for n in UNITS], row=1, col=1)
    figure.update_yaxes(title="held-out loss, nats a row", row=1, col=1)
    return {"shoe": figure}
