"""What does privacy cost, and how many epochs without it is it worth?"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from benchmarks.scoring import markdown
from benchmarks.studies import grid, pages
from benchmarks.studies.network_alone import learn, spec, split

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.51, 5.0, 10.0, 30.0)
PLAIN_EPOCHS = (1, 2, 4, 8, 30)
USUAL, EPOCHS = 2.51, 30

ROWS, HELD_OUT, REPEATS = 16_384, 3_000, 3


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train with the cell's epsilon, or without privacy where it is infinite."""
    private = math.isfinite(cell["epsilon"])
    how = spec(max_epochs=cell["epochs"], hidden=cell["hidden"])
    found = learn(*split("rand", ROWS, HELD_OUT), how, epsilon=cell["epsilon"] if private else None)
    return {"loss": min(found.loss, found.nothing), "seconds": found.seconds}


def run(path: Path) -> None:
    """Train what is missing."""
    private = grid.product(epsilon=EPSILONS, epochs=(EPOCHS,), hidden=(16,))
    plain = grid.product(epsilon=(math.inf,), epochs=PLAIN_EPOCHS, hidden=(16, 64))
    grid.run(path, [*private, *plain], measure, REPEATS)


def medians(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each cell."""
    return lines.groupby(["epsilon", "epochs", "hidden"], as_index=False)[["loss", "seconds"]].median()


def worth(lines: pd.DataFrame, epsilon: float, hidden: int) -> tuple[float, bool]:
    """Return how many epochs without privacy reach the loss of `epsilon`, and whether that is a bound.

    Between two numbers of epochs it is interpolated, in the logarithm of epochs. Beyond the first or the last of them, that
    number is a bound.
    """
    found = medians(lines)
    private = found[found["epsilon"] == epsilon]["loss"].iloc[0]
    plain = found[np.isinf(found["epsilon"]) & (found["hidden"] == hidden)].sort_values("epochs")
    epochs, losses = plain["epochs"].to_numpy(float), np.minimum.accumulate(plain["loss"].to_numpy(float))
    if private >= losses[0] or private <= losses[-1]:
        return (epochs[0] if private >= losses[0] else epochs[-1]), True
    return float(np.exp(np.interp(-private, -losses, np.log(epochs)))), False


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return all medians, and how many epochs each epsilon is worth."""
    found = medians(lines)
    rows = []
    for line in found.to_dict("records"):
        if math.isfinite(line["epsilon"]):
            line["without DP, epochs"] = _worth(lines, line["epsilon"])
        line["ε"] = "none" if math.isinf(line["epsilon"]) else f"{line['epsilon']:g}"
        rows.append(line)
    form = {"ε": "", "epochs": "g", "hidden": "g", "loss": ".2f", "seconds": ".1f", "without DP, epochs": ""}
    return {"what privacy costs": markdown(rows, form)}


def _worth(lines: pd.DataFrame, epsilon: float) -> str:
    epochs, bound = worth(lines, epsilon, 16)
    if not bound:
        return f"{epochs:.1f}"
    return f"under {epochs:g}" if epochs == min(PLAIN_EPOCHS) else f"over {epochs:g}"


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw loss against epsilon, with a grey line for each number of epochs without privacy."""
    found = medians(lines)
    private = found[np.isfinite(found["epsilon"])].sort_values("epsilon")
    figure = go.Figure()
    figure.add_scatter(
        x=list(private["epsilon"]), y=list(private["loss"]), name=f"DP, {EPOCHS} epochs", mode="lines+markers"
    )
    for line in found[np.isinf(found["epsilon"]) & (found["hidden"] == 16)].itertuples():
        figure.add_hline(y=line.loss, line=pages.GREY, opacity=1, annotation_text=f"without DP, epochs: {line.epochs}")
    figure.add_vline(x=USUAL, line=pages.GREY, opacity=1)
    figure.update_xaxes(type="log", title="ε at δ = 1e-5")
    figure.update_yaxes(title="held-out loss, nats a row")
    return {"cost": figure}
