"""How many rows are enough, up to a million, and what do micro-batches cost? (NeMo's and Syngen's advice)"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from scipy.stats import linregress

from benchmarks.scoring import markdown
from benchmarks.studies import grid
from benchmarks.studies.network_alone import learn, spec, split
from dp_synth_pipeline.model.dpsgd.plan import plan_training

ROWS = {
    "rand": (500, 1_000, 2_000, 4_000, 8_000, 16_000),
    "many visits": (1_000, 10_000, 100_000, 1_000_000),
}
"""By table: RAND ends where its rows do, and the simulated clinic has as many visits as one asks for."""

GROUPS = (1, 2, 4, 8, 16, 64, 256, 1024)
"""Rows whose mean gradient is clipped as one: from each row alone to the whole batch of 1,024."""

USUAL, BATCH = 2.51, 1024

HELD_OUT = {"rand": 3_000, "many visits": 20_000}

EPOCHS, ONE = 10, 1
"""Passes over all rows. The most visits are also learnt in one: as many steps as ten passes over a tenth of them take."""

REPEATS = 3
"""Of RAND's rows. A training in groups takes ten times as long, and one of many visits minutes: those are run once."""


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train on so many rows, in groups of so many."""
    private, table = math.isfinite(cell["epsilon"]), cell["table"]
    how = spec(max_epochs=cell["epochs"], microbatch=cell["group"])
    rows = split(table, cell["rows"], HELD_OUT[table])
    found = learn(*rows, how, epsilon=cell["epsilon"] if private else None)
    return {"loss": min(found.loss, found.nothing), "seconds": found.seconds, "steps": found.steps}


def run(path: Path) -> None:
    """Train what is missing."""
    for table, sizes in ROWS.items():
        some = grid.product(table=(table,), epsilon=(USUAL, math.inf), rows=sizes, epochs=(EPOCHS,), group=(1,))
        grid.run(path, some, measure, REPEATS if table == "rand" else 1)
    most = {"rows": (max(ROWS["many visits"]),), "epochs": (ONE,), "group": (1,)}
    grid.run(path, grid.product(table=("many visits",), epsilon=(USUAL, math.inf), **most), measure)
    groups = [g for g in GROUPS if g > 1]
    grouped = {"rows": (max(ROWS["rand"]),), "epochs": (EPOCHS,), "group": groups}
    grid.run(path, grid.product(table=("rand",), epsilon=(USUAL,), **grouped), measure)


def medians(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each cell."""
    cell = ["table", "epsilon", "rows", "epochs", "group"]
    return lines.groupby(cell, as_index=False)[["loss", "seconds", "steps"]].median()


def fits(lines: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Return slope, intercept and R² of loss on the logarithm of the number of micro-batches, and of time on that number."""
    found = _grouped(lines)
    batches = found["micro-batches"].to_numpy(float)
    return {
        "loss, by the logarithm": _line(np.log(batches), found["loss"].to_numpy()),
        "seconds, by the number": _line(batches, found["seconds"].to_numpy()),
    }


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    found = linregress(x, y)
    return float(found.slope), float(found.intercept), float(found.rvalue**2)


def _grouped(lines: pd.DataFrame) -> pd.DataFrame:
    found = medians(lines)
    found = found[np.isfinite(found["epsilon"]) & (found["table"] == "rand") & (found["rows"] == max(ROWS["rand"]))]
    return found.assign(**{"micro-batches": (BATCH / found["group"]).astype(int)})


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return medians by rows of both tables and by group, and the two fits."""
    found = medians(lines)
    found = found[found["group"] == 1]
    rows = markdown(_beside(found[found["table"] == "rand"]), {"rows": ",.0f", **LOSSES})
    form = {"rows": ",.0f", "epochs": "g", "steps": ",.0f", "batch": ",.0f", **LOSSES, **SECONDS}
    visits = markdown(_beside(found[found["table"] == "many visits"]), form)
    groups = markdown(
        _grouped(lines).to_dict("records"), {"group": "g", "micro-batches": ",.0f", "loss": ".2f", "seconds": ".2f"}
    )
    told = [
        {"fit": name, "slope": slope, "intercept": intercept, "R²": r2}
        for name, (slope, intercept, r2) in fits(lines).items()
    ]
    fitted = markdown(told, {"fit": "", "slope": ".3g", "intercept": ".3g", "R²": ".2f"})
    return {"rows": rows, "a million rows": visits, "micro-batches": groups, "fits of micro-batches": fitted}


LOSSES = {f"ε = {USUAL}": ".2f", "without DP": ".2f"}
SECONDS = {"seconds an epoch": ".2f", "without DP, seconds an epoch": ".2f"}


LOOKS = ({"color": "#1f77b4"}, {"dash": "dot", "color": "gray"})
"""Of lines with privacy, and without."""


def _beside(found: pd.DataFrame) -> list[dict[str, float]]:
    """Return a line for each number of rows and epochs: with privacy, and beside it without."""
    lines = []
    for (rows, epochs), both in found.groupby(["rows", "epochs"]):
        plan = plan_training(int(rows), spec(max_epochs=int(epochs)))
        losses = dict(zip(LOSSES, both["loss"], strict=True))
        seconds = dict(zip(SECONDS, both["seconds"] / epochs, strict=True))
        named = {"rows": rows, "epochs": epochs, "steps": plan.steps, "batch": plan.expected_batch}
        lines.append(named | losses | seconds)
    return lines


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw loss against rows, loss and time against the number of micro-batches, and loss and time up to a million rows."""
    found = medians(lines)
    found = found[found["group"] == 1]
    return {"size": _by_group(lines, found[found["table"] == "rand"]), "million": _million(found)}


def _million(found: pd.DataFrame) -> go.Figure:
    figure = make_subplots(1, 2, subplot_titles=("loss by rows", "CPU seconds of an epoch by rows"))
    lines = pd.DataFrame(_beside(found[found["table"] == "many visits"]))
    for (epochs, some), symbol in zip(lines.groupby("epochs"), ("x", "circle"), strict=True):
        for loss, seconds, look in zip(LOSSES, SECONDS, LOOKS, strict=True):
            shown = {"mode": "lines+markers", "line": look, "marker": {"symbol": symbol, "size": 8}}
            name = f"{loss}, {epochs} epochs" if epochs != ONE else f"{loss}, 1 epoch"
            figure.add_scatter(x=list(some["rows"]), y=list(some[loss]), name=name, **shown, row=1, col=1)
            figure.add_scatter(x=list(some["rows"]), y=list(some[seconds]), showlegend=False, **shown, row=1, col=2)
    figure.update_xaxes(
        type="log", tickvals=list(ROWS["many visits"]), ticktext=[f"{n:,}" for n in ROWS["many visits"]]
    )
    figure.update_yaxes(title="held-out loss, nats a row", row=1, col=1)
    figure.update_yaxes(type="log", dtick=1, row=1, col=2)
    return figure


def _by_group(lines: pd.DataFrame, alone: pd.DataFrame) -> go.Figure:
    titles = ("loss by rows", "loss by micro-batches", "CPU seconds by micro-batches")
    figure = make_subplots(1, 3, subplot_titles=titles)
    by_rows = pd.DataFrame(_beside(alone))
    for name, look in zip(LOSSES, LOOKS, strict=True):
        figure.add_scatter(x=list(by_rows["rows"]), y=list(by_rows[name]), name=name, mode="lines+markers", line=look)
    grouped = _grouped(lines)
    for column, what in enumerate(("loss", "seconds"), 2):
        figure.add_scatter(
            x=list(grouped["micro-batches"]), y=list(grouped[what]), showlegend=False, mode="markers", row=1, col=column
        )
    x = np.geomspace(1, BATCH, 30)
    for column, (scale, (slope, intercept, _)) in enumerate(zip((np.log(x), x), fits(lines).values(), strict=True), 2):
        line = {"color": "gray", "width": 1}
        figure.add_scatter(
            x=list(x), y=list(slope * scale + intercept), showlegend=False, mode="lines", line=line, row=1, col=column
        )
    figure.update_xaxes(type="log")
    figure.update_yaxes(title="held-out loss, nats a row", row=1, col=1)
    return figure
