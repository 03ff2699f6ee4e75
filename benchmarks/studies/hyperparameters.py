"""Which hyperparameters of DP-SGD matter, and which of them hang together? (Morsbach et al. 2024, arXiv 2411.02051)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from benchmarks.scoring import markdown
from benchmarks.studies import grid, variance
from benchmarks.studies.network_alone import learn, spec, split

RATES = NORMS = (0.0316, 0.1, 0.316, 1.0, 3.16, 10.0)
BATCHES = (128, 512, 2048)
EPOCHS = (2, 6, 18)
EPSILONS = (3.0, 5.0, 7.5)
TABLES = ("rand", "fair")

AXES = ("epsilon", "batch", "epochs", "rate", "norm")
NAMES = {"epsilon": "ε", "batch": "batch", "epochs": "epochs", "rate": "learning rate", "norm": "clipping norm"}

ROWS, HELD_OUT, HIDDEN, REPEATS = 4096, 2048, 8, 2

SHOWN = 10
"""Effects in the chart, the largest first."""


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train by SGD on fresh rows of the cell's table."""
    how = spec(
        optimizer="sgd",
        learning_rate=cell["rate"] * cell["norm"],  # a spec's rate is that at norm 1
        max_grad_norm=cell["norm"],
        batch_share=cell["batch"] / ROWS,
        max_epochs=cell["epochs"],
        hidden=HIDDEN,
    )
    found = learn(*split(cell["table"], ROWS, HELD_OUT), how, epsilon=cell["epsilon"])
    return {"loss": found.loss, "nothing": found.nothing}


def run(path: Path) -> None:
    """Train what is missing of the factorial."""
    axes = {"epsilon": EPSILONS, "batch": BATCHES, "epochs": EPOCHS, "rate": RATES, "norm": NORMS}
    grid.run(path, list(grid.product(table=TABLES, **axes)), measure, REPEATS)


def runs(lines: pd.DataFrame, table: str) -> np.ndarray:
    """Return the losses of a table's whole repeats, at most those of knowing nothing: (repeats, *AXES)."""
    some = lines[lines["table"] == table].sort_values(["repeat", *AXES])
    shape = tuple(map(len, (EPSILONS, BATCHES, EPOCHS, RATES, NORMS)))
    losses = np.minimum(some["loss"], some["nothing"]).to_numpy()
    whole = len(losses) // int(np.prod(shape))
    return losses[: whole * int(np.prod(shape))].reshape(whole, *shape)


def slope(losses: np.ndarray, rates: np.ndarray, norms: np.ndarray) -> tuple[float, float, float]:
    """Return the slope of the best rate's logarithm on the norm's, and its interval: -1 if their product is what matters.

    Norms whose best rate lies at an end of the grid tell only a bound, and are left out. The interval is a bootstrap over
    combinations of the other settings.

    Args:
        losses: (..., rates, norms)
    """
    points = []
    for surface in losses.reshape(-1, len(rates), len(norms)):
        best = surface.argmin(0)
        inside = (best > 0) & (best < len(rates) - 1)
        if inside.sum() > 1:
            x, y = np.log(norms[inside]), np.log(rates[best[inside]])
            points.append((((x - x.mean()) * (y - y.mean())).sum(), ((x - x.mean()) ** 2).sum()))
    found, rng = np.array(points), np.random.default_rng(0)
    drawn = [found[rng.integers(0, len(found), len(found))].sum(0) for _ in range(1000)]
    low, high = np.quantile([up / down for up, down in drawn], [0.025, 0.975])
    return float(found[:, 0].sum() / found[:, 1].sum()), float(low), float(high)


def by_product(losses: np.ndarray) -> np.ndarray:
    """Return the mean loss (..., products) at each product of rate and norm, the last two axes, on the same even levels."""
    size = losses.shape[-1]
    return np.stack([losses[..., ::-1, :].diagonal(k, -2, -1).mean(-1) for k in range(1 - size, size)], -1)


def explained(losses: np.ndarray) -> float:
    """Return the part of the variance over rate and norm, all else equal, that their product alone explains."""
    size = losses.shape[-1]
    level = np.add.outer(np.arange(size), np.arange(size))
    told = by_product(losses)[..., level]
    return float(1 - ((losses - told) ** 2).sum() / ((losses - losses.mean((-2, -1), keepdims=True)) ** 2).sum())


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the shares of variance, the conjectures' figures, and the best settings of each batch and number of epochs."""
    known = [table for table in TABLES if len(runs(lines, table))]
    return {
        "effects": _effects(lines, known),
        "conjectures": _conjectures(lines, known),
        "tuned": _tuned(lines, known),
    }


def _named(effect: tuple[str, ...]) -> str:
    return " x ".join(NAMES.get(axis, axis) for axis in effect)


def _share(lines: pd.DataFrame, table: str) -> dict[str, tuple[float, float, float]]:
    """Return each effect's share of a table, and its interval; the share itself twice where one run tells no interval."""
    found = runs(lines, table)
    at = variance.shares(found.mean(0), AXES)
    between = variance.intervals(found, AXES) if len(found) > 1 else {k: (v, v) for k, v in at.items()}
    return {_named(effect): (at[effect], *between[effect]) for effect in at}


def _effects(lines: pd.DataFrame, known: list[str]) -> str:
    found = {table: _share(lines, table) for table in known}
    order = sorted(found[known[0]], key=lambda effect: -max(found[table][effect][0] for table in known))
    rows = [{"effect": effect, **{t: _percent(*found[t][effect]) for t in known}} for effect in order]
    return markdown(rows, {"effect": "", **dict.fromkeys(known, "")})


def _percent(share: float, low: float, high: float) -> str:
    return f"{share:.1%} ({low:.1%} to {high:.1%})"


def _conjectures(lines: pd.DataFrame, known: list[str]) -> str:
    rates, norms = np.array(RATES), np.array(NORMS)
    rows: list[dict[str, Any]] = [
        {"figure": "slope of the best log rate on the log norm; -1 if lr·C is constant"},
        {"figure": "part of the variance over rate and norm that lr·C alone explains"},
        {"figure": "the same, norms up to 1"},
        {"figure": "runs of the whole grid"},
    ]
    for table in known:
        found = runs(lines, table)
        mean, small = found.mean(0), norms <= 1
        told, low, high = slope(mean, rates, norms)
        rows[0][table] = f"{told:.2f} ({low:.2f} to {high:.2f})"
        rows[1][table] = f"{explained(mean):.0%}"
        rows[2][table] = f"{explained(mean[..., small][..., : small.sum(), :]):.0%}" if small.sum() > 1 else ""
        rows[3][table] = f"{len(found)}"
    return markdown(rows, {"figure": "", **dict.fromkeys(known, "")})


def tuned(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least mean loss over products, and the number of that product, of losses (..., rate, norm)."""
    found = by_product(losses)
    return found.min(-1), found.argmin(-1)


def _tuned(lines: pd.DataFrame, known: list[str]) -> str:
    rows = []
    products = np.array(NORMS)[0] ** 2 * (np.array(NORMS)[1] / np.array(NORMS)[0]) ** np.arange(2 * len(NORMS) - 1)
    for i, batch in enumerate(BATCHES):
        for j, epochs in enumerate(EPOCHS):
            row: dict[str, Any] = {"batch": batch, "epochs": epochs}
            for table in known:
                loss, at = tuned(runs(lines, table).mean(0)[:, i, j].mean(0))
                row |= {f"{table}: loss": float(loss), f"{table}: best lr·C": float(products[at])}
            rows.append(row)
    form = {f"{table}: {what}": f for table in known for what, f in (("loss", ".2f"), ("best lr·C", ".2g"))}
    return markdown(rows, {"batch": "g", "epochs": "g", **form})


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw the shares of variance, the surface over rate and norm, and ICE and ALE curves of the first table."""
    known = [table for table in TABLES if len(runs(lines, table))]
    return {
        "effects": _bars(lines, known),
        "rate-and-norm": _surfaces(lines, known),
        "curves": _curves(runs(lines, known[0]).mean(0), known[0]),
    }


def _bars(lines: pd.DataFrame, known: list[str]) -> go.Figure:
    figure = go.Figure()
    found = {table: _share(lines, table) for table in known}
    order = sorted(found[known[0]], key=lambda effect: -max(found[t][effect][0] for t in known))[:SHOWN]
    for table in known:
        share, low, high = (np.array([found[table][effect][k] for effect in order]) for k in range(3))
        ends = {"type": "data", "array": list(high - share), "arrayminus": list(share - low), "symmetric": False}
        figure.add_bar(y=order, x=list(share), name=table, orientation="h", error_x=ends)
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title="part of the variance of held-out loss", tickformat=".0%")
    return figure.update_layout(height=460, margin_l=200)


def _surfaces(lines: pd.DataFrame, known: list[str]) -> go.Figure:
    figure = make_subplots(1, len(known), subplot_titles=[f"{t}: loss, nats a row" for t in known])
    names = [f"{value:.2g}" for value in NORMS]
    for column, table in enumerate(known, 1):
        surface = runs(lines, table).mean((0, 1, 2, 3))
        heat = {"z": surface.round(2).tolist(), "x": names, "y": names, "texttemplate": "%{z:.1f}", "showscale": False}
        figure.add_heatmap(**heat, colorscale="Viridis", row=1, col=column)
        figure.update_xaxes(title="clipping norm", type="category", row=1, col=column)
        figure.update_yaxes(title="learning rate", type="category", row=1, col=column)
    return figure


def _curves(losses: np.ndarray, table: str) -> go.Figure:
    """Draw, for each setting, what it does while the others stay (ICE, grey, every tenth), and on average (ALE, blue).

    On a full factorial, where settings are independent, the accumulated local effect is the main effect.
    """
    figure = make_subplots(1, len(AXES), shared_yaxes=True, subplot_titles=[NAMES[axis] for axis in AXES])
    levels = {"epsilon": EPSILONS, "batch": BATCHES, "epochs": EPOCHS, "rate": RATES, "norm": NORMS}
    effects = variance.components(losses, AXES, 1)
    for number, axis in enumerate(AXES):
        x = list(levels[axis])
        each = np.moveaxis(losses, number, -1).reshape(-1, len(x))[::10].round(2)
        gaps = [[*line, None] for line in each.tolist()]
        grey = {"color": "rgba(120,120,120,0.35)", "width": 1}
        figure.add_scatter(
            x=[*x, None] * len(gaps), y=[y for gap in gaps for y in gap], mode="lines", line=grey, row=1, col=number + 1
        )
        main = (effects[(axis,)].ravel() + losses.mean()).round(3).tolist()
        figure.add_scatter(x=x, y=main, mode="lines+markers", line={"color": "#4c78a8"}, row=1, col=number + 1)
        ticks = {"tickvals": x, "ticktext": [f"{value:.2g}" if value < 100 else f"{value:g}" for value in x]}
        figure.update_xaxes(type="log", tickangle=-90, **ticks, row=1, col=number + 1)
    figure.update_yaxes(title=f"{table}: held-out loss, nats a row", row=1, col=1)
    return figure.update_layout(showlegend=False)
