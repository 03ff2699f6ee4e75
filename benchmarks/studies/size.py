"""How many rows are enough, and what do micro-batches cost? (NeMo's and Syngen's advice)"""

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

ROWS = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
GROUPS = (1, 2, 4, 8, 16, 64, 256, 1024)
"""Rows whose mean gradient is clipped as one: from each row alone to the whole batch of 1,024."""

USUAL, BATCH = 2.51, 1024

HELD_OUT, EPOCHS = 3_000, 10

REPEATS = 3
"""Of the rows; a training in groups takes ten times as long, and is run once."""


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train on so many rows, in groups of so many."""
    private = math.isfinite(cell["epsilon"])
    how = spec(max_epochs=EPOCHS, microbatch=cell["group"])
    found = learn(*split("rand", cell["rows"], HELD_OUT), how, epsilon=cell["epsilon"] if private else None)
    return {"loss": min(found.loss, found.nothing), "seconds": found.seconds, "steps": found.steps}


def run(path: Path) -> None:
    """Train what is missing."""
    sizes = grid.product(epsilon=(USUAL, math.inf), rows=ROWS, group=(1,))
    groups = grid.product(epsilon=(USUAL,), rows=(max(ROWS),), group=[g for g in GROUPS if g > 1])
    grid.run(path, sizes, measure, REPEATS)
    grid.run(path, groups, measure)


def medians(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each cell."""
    return lines.groupby(["epsilon", "rows", "group"], as_index=False)[["loss", "seconds", "steps"]].median()


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
    found = found[np.isfinite(found["epsilon"]) & (found["rows"] == max(ROWS))]
    return found.assign(**{"micro-batches": (BATCH / found["group"]).astype(int)})


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return medians by rows and by group, and the two fits."""
    found = medians(lines)
    alone = found[found["group"] == 1].pivot_table("loss", "rows", "epsilon")
    rows = [{"rows": n, f"ε = {USUAL}": s[USUAL], "without DP": s[math.inf]} for n, s in alone.iterrows()]
    form = {"rows": ",.0f", f"ε = {USUAL}": ".2f", "without DP": ".2f"}
    groups = markdown(
        _grouped(lines).to_dict("records"), {"group": "g", "micro-batches": ",.0f", "loss": ".2f", "seconds": ".2f"}
    )
    told = [
        {"fit": name, "slope": slope, "intercept": intercept, "R²": r2}
        for name, (slope, intercept, r2) in fits(lines).items()
    ]
    fitted = markdown(told, {"fit": "", "slope": ".3g", "intercept": ".3g", "R²": ".2f"})
    return {"rows": markdown(rows, form), "micro-batches": groups, "fits of micro-batches": fitted}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw loss against rows, and loss and time against the number of micro-batches."""
    titles = ("loss by rows", "loss by micro-batches", "CPU seconds by micro-batches")
    figure = make_subplots(1, 3, subplot_titles=titles)
    found = medians(lines)
    for epsilon, some in found[found["group"] == 1].groupby("epsilon"):
        private = math.isfinite(float(epsilon))
        line = {"dash": "solid"} if private else {"dash": "dot", "color": "gray"}
        name = f"ε = {USUAL}" if private else "without DP"
        figure.add_scatter(x=list(some["rows"]), y=list(some["loss"]), name=name, mode="lines+markers", line=line)
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
    return {"size": figure}
