"""Which hyperparameters of DP-SGD matter, and which of them hang together? (Morsbach et al. 2024, arXiv 2411.02051)"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
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
EPSILONS = dict.fromkeys(("rand", "fair", "clinic"), (3.0, 5.0, 7.5))
"""By table."""

AXES = ("epsilon", "batch", "epochs", "rate", "norm")
NAMES = {"epsilon": "ε", "batch": "batch", "epochs": "epochs", "rate": "learning rate", "norm": "clipping norm"}

ROWS, HELD_OUT, HIDDEN = 4096, 2048, 8

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
    axes = {"batch": BATCHES, "epochs": EPOCHS, "rate": RATES, "norm": NORMS}
    for table, epsilons in EPSILONS.items():
        grid.run(path, grid.product(table=(table,), epsilon=epsilons, **axes), measure)


def losses(lines: pd.DataFrame, table: str) -> np.ndarray | None:
    """Return a table's losses (ε, batch, epochs, rate, norm), at most those of knowing nothing; None if some are missing."""
    some = lines[lines["table"] == table].sort_values(list(AXES))
    shape = tuple(map(len, (EPSILONS[table], BATCHES, EPOCHS, RATES, NORMS)))
    found = np.minimum(some["loss"], some["nothing"]).to_numpy()
    return found.reshape(shape) if len(found) == math.prod(shape) else None


def whole(lines: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the losses of each table whose grid is whole."""
    found = {table: losses(lines, table) for table in EPSILONS}
    return {table: values for table, values in found.items() if values is not None}


def slope(values: np.ndarray, rates: np.ndarray, norms: np.ndarray) -> tuple[float, float, float]:
    """Return the slope of the best rate's logarithm on the norm's, and its interval: -1 if their product is what matters.

    Norms whose best rate lies at an end of the grid tell only a bound, and are left out. The interval is a bootstrap over
    combinations of the other settings.

    Args:
        values: losses (..., rates, norms).
    """
    points = []
    for surface in values.reshape(-1, len(rates), len(norms)):
        best = surface.argmin(0)
        inside = (best > 0) & (best < len(rates) - 1)
        if inside.sum() > 1:
            x, y = np.log(norms[inside]), np.log(rates[best[inside]])
            points.append((((x - x.mean()) * (y - y.mean())).sum(), ((x - x.mean()) ** 2).sum()))
    if not points:
        return math.nan, math.nan, math.nan
    found, rng = np.array(points), np.random.default_rng(0)
    drawn = [found[rng.integers(0, len(found), len(found))].sum(0) for _ in range(1000)]
    low, high = np.quantile([up / down for up, down in drawn], [0.025, 0.975])
    return float(found[:, 0].sum() / found[:, 1].sum()), float(low), float(high)


def by_product(values: np.ndarray) -> np.ndarray:
    """Return the mean loss (..., products) at each product of rate and norm, the last two axes, on the same even levels."""
    rates, norms = values.shape[-2:]
    return np.stack([values[..., ::-1, :].diagonal(k, -2, -1).mean(-1) for k in range(1 - rates, norms)], -1)


def explained(values: np.ndarray) -> float:
    """Return the part of the variance over rate and norm, all else equal, that their product alone explains."""
    level = np.add.outer(*map(np.arange, values.shape[-2:]))
    told = by_product(values)[..., level]
    return float(1 - ((values - told) ** 2).sum() / ((values - values.mean((-2, -1), keepdims=True)) ** 2).sum())


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the shares of variance, what rate and norm have in common, and what is left when they are tuned."""
    known = whole(lines)
    return {
        "effects": _effects(known),
        "rate and norm": _together(known),
        "tuned": _tuned(known),
        "effects when tuned": _left(known),
    }


def _shares(values: np.ndarray) -> dict[str, tuple[float, float, float]]:
    """Return each effect's share of the variance and its interval; what more than two settings do together has none."""
    at, between = variance.shares(values, AXES), variance.intervals(values, AXES)
    return {_named(effect): (at[effect], *between.get(effect, (at[effect],) * 2)) for effect in at}


def _named(effect: Sequence[str]) -> str:
    return " x ".join(NAMES.get(axis, axis) for axis in effect)


def _ordered(found: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> list[str]:
    """Return the effects, the largest first."""
    effects = next(iter(found.values()))
    return sorted(effects, key=lambda effect: -max(shares[effect][0] for shares in found.values()))


def _effects(known: Mapping[str, np.ndarray]) -> str:
    found = {table: _shares(values) for table, values in known.items()}
    rows = [{"effect": effect, **{t: _told(*found[t][effect]) for t in known}} for effect in _ordered(found)]
    return markdown(rows, {"effect": "", **dict.fromkeys(known, "")})


def _told(share: float, low: float, high: float) -> str:
    if share < 1e-9:  # a setting of which the table had one value
        return ""
    return f"{share:.1%}" if low == high else f"{share:.1%} ({low:.1%} to {high:.1%})"


def _together(known: Mapping[str, np.ndarray]) -> str:
    rows: list[dict[str, Any]] = [
        {"figure": "slope of the best rate's logarithm on the norm's; -1 if lr·C is constant"},
        {"figure": f"the same, norms up to {NORMS[-3]:g}"},
        {"figure": "part of the variance over rate and norm that lr·C alone explains"},
        {"figure": f"the same, norms up to {NORMS[-3]:g}"},
    ]
    rates, norms = np.array(RATES), np.array(NORMS)
    for table, values in known.items():
        rows[0][table] = "{:.2f} ({:.2f} to {:.2f})".format(*slope(values, rates, norms))
        rows[1][table] = "{:.2f} ({:.2f} to {:.2f})".format(*slope(values[..., :-2], rates, norms[:-2]))
        rows[2][table] = f"{explained(values):.1%}"
        rows[3][table] = f"{explained(values[..., :-2]):.1%}"
    return markdown(rows, {"figure": "", **dict.fromkeys(known, "")})


def tuned(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least mean loss over products, and the number of that product, of losses (..., rate, norm)."""
    found = by_product(values)
    return found.min(-1), found.argmin(-1)


def _tuned(known: Mapping[str, np.ndarray]) -> str:
    rows = []
    products = NORMS[0] * RATES[0] * (NORMS[1] / NORMS[0]) ** np.arange(len(NORMS) + len(RATES) - 1)
    for (i, batch), (j, epochs) in itertools.product(enumerate(BATCHES), enumerate(EPOCHS)):
        row: dict[str, Any] = {"batch": batch, "epochs": epochs, "steps": math.ceil(epochs * ROWS / batch)}
        for table, values in known.items():
            loss, at = tuned(values[:, i, j].mean(0))
            row |= {f"{table}: loss": float(loss), f"{table}: best lr·C": float(products[at])}
        rows.append(row)
    form = {f"{table}: {what}": f for table in known for what, f in (("loss", ".2f"), ("best lr·C", ".2g"))}
    return markdown(sorted(rows, key=lambda row: row["steps"]), {"batch": "g", "epochs": "g", "steps": "g", **form})


def _left(known: Mapping[str, np.ndarray]) -> str:
    """Return the shares of what varies when each batch, number of epochs and ε has the best product of rate and norm."""
    found = {table: variance.shares(tuned(values)[0], AXES[:3]) for table, values in known.items()}
    effects = next(iter(found.values()))
    rows = [{"effect": _named(e), **{t: _told(*[found[t][e]] * 3) for t in known}} for e in effects]
    return markdown(rows, {"effect": "", **dict.fromkeys(known, "")})


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw the shares of variance, the surface over rate and norm, and ICE and ALE curves of the first table."""
    known = whole(lines)
    first = next(iter(known))
    return {"effects": _bars(known), "rate-and-norm": _surfaces(known), "curves": _curves(known[first], first)}


def _bars(known: Mapping[str, np.ndarray]) -> go.Figure:
    figure = go.Figure()
    found = {table: _shares(values) for table, values in known.items()}
    order = _ordered(found)[:SHOWN]
    for table in known:
        share, low, high = np.array([found[table][effect] for effect in order]).T
        ends = {"type": "data", "array": list(high - share), "arrayminus": list(share - low), "symmetric": False}
        figure.add_bar(y=order, x=list(share), name=table, orientation="h", error_x=ends)
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title="part of the variance of held-out loss", tickformat=".0%")
    return figure.update_layout(height=460, margin_l=200)


def _surfaces(known: Mapping[str, np.ndarray]) -> go.Figure:
    figure = make_subplots(1, len(known), subplot_titles=[f"{t}: loss, nats a row" for t in known])
    names = [f"{value:.2g}" for value in NORMS]
    for column, values in enumerate(known.values(), 1):
        surface = values.mean((0, 1, 2))
        heat = {"z": surface.round(2).tolist(), "x": names, "y": names, "texttemplate": "%{z:.1f}", "showscale": False}
        figure.add_heatmap(**heat, colorscale="Viridis", row=1, col=column)
        figure.update_xaxes(title="clipping norm", type="category", row=1, col=column)
        figure.update_yaxes(title="learning rate" if column == 1 else None, type="category", row=1, col=column)
    return figure


def _curves(values: np.ndarray, table: str) -> go.Figure:
    """Draw, for each setting, what it does while the others stay (ICE, grey, every seventh), and on average (ALE, blue).

    On a full factorial, where settings are independent, the accumulated local effect is the main effect.
    """
    figure = make_subplots(1, len(AXES), shared_yaxes=True, subplot_titles=[NAMES[axis] for axis in AXES])
    levels = {"epsilon": EPSILONS[table], "batch": BATCHES, "epochs": EPOCHS, "rate": RATES, "norm": NORMS}
    effects = variance.components(values, AXES, 1)
    for number, axis in enumerate(AXES):
        x = list(levels[axis])
        each = np.moveaxis(values, number, -1).reshape(-1, len(x))[::7].round(2)
        gaps = [[*line, None] for line in each.tolist()]
        grey = {"color": "rgba(120,120,120,0.35)", "width": 1}
        figure.add_scatter(
            x=[*x, None] * len(gaps), y=[y for gap in gaps for y in gap], mode="lines", line=grey, row=1, col=number + 1
        )
        main = (effects[(axis,)].ravel() + values.mean()).round(3).tolist()
        figure.add_scatter(x=x, y=main, mode="lines+markers", line={"color": "#4c78a8"}, row=1, col=number + 1)
        ticks = {"tickvals": x, "ticktext": [f"{value:.2g}" if value < 100 else f"{value:g}" for value in x]}
        figure.update_xaxes(type="log", tickangle=-90, **ticks, row=1, col=number + 1)
    figure.update_yaxes(title=f"{table}: held-out loss, nats a row", row=1, col=1)
    return figure.update_layout(showlegend=False)
