"""What do noise and the clipping norm do to what is learnt, and to what it costs? (MOSTLY AI's grid)"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from benchmarks.scoring import markdown
from benchmarks.studies import grid, pages
from benchmarks.studies.network_alone import Coded, Result, accuracy, learn, spec, split
from dp_synth_pipeline.model.autoregressive.generation import draw

NOISES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
NORMS = (0.5, 1.0, 2.0)
USUAL = 2.51
"""The epsilon that MOSTLY AI's defaults came to on their table; here it chooses the noise that is marked."""

MEASURES = ("loss", "accuracy")

ROWS, HELD_OUT, EPOCHS, REPEATS = 16_384, 3_000, 10, 3


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train with the cell's noise and norm, all else as by default."""
    rows, held_out = split("rand", ROWS, HELD_OUT)
    how, epsilon = spec(max_epochs=EPOCHS, max_grad_norm=cell["norm"]), USUAL if cell["line"] == "default" else None
    found = learn(rows, held_out, how, epsilon=epsilon, noise=cell["noise"] or None)
    drawn = _drawn(found, rows)
    return {
        "used": found.noise,
        "epsilon": found.epsilon,
        "loss": min(found.loss, found.nothing),
        "accuracy": accuracy(drawn, held_out, rows.cardinalities),
        "real": accuracy(rows.codes, held_out, rows.cardinalities),
    }


def _drawn(found: Result, rows: Coded) -> np.ndarray:
    """Return as many rows as were learnt from, drawn from the network; of one that diverged, all codes alike."""
    if found.network is None:
        return np.random.default_rng().integers(0, rows.cardinalities, rows.codes.shape)
    return np.concatenate(list(draw(found.network, None, len(rows.codes))))


def run(path: Path) -> None:
    """Train what is missing of the grid, the default and the line without privacy."""
    cells = [{"line": "grid", **cell} for cell in grid.product(noise=NOISES, norm=NORMS)]
    cells += [{"line": line, "noise": 0.0, "norm": 1.0} for line in ("default", "without DP")]
    grid.run(path, cells, measure, REPEATS)


def medians(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each cell."""
    return lines.groupby(["line", "noise", "norm"], as_index=False)[["used", "epsilon", *MEASURES, "real"]].median()


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the losses and the accuracies of the grid, a line for each noise."""
    found = medians(lines)
    return {
        "noise and norm": _table(found, "loss", ".2f"),
        "noise, norm and accuracy": _table(found, "accuracy", ".1%"),
    }


def _table(found: pd.DataFrame, measured: str, form: str) -> str:
    rows = []
    for noise, some in found[found["line"] == "grid"].groupby("noise"):
        values = {f"norm {norm:g}": value for norm, value in zip(some["norm"], some[measured], strict=True)}
        rows.append({"noise": noise, "ε": some["epsilon"].iloc[0], **values})
    others = found[found["line"] != "grid"].set_index("line")
    default, plain = others.loc["default"], others.loc["without DP"]
    rows += [
        {"noise": f"{default['used']:.2f}, the default's", "ε": default["epsilon"], "norm 1": default[measured]},
        {"noise": "none, without DP", "norm 1": plain[measured]},
    ]
    if measured == "accuracy":
        rows.append({"noise": "real rows", "norm 1": found["real"].median()})
    return markdown(rows, {"noise": "g", "ε": ",.2f", **{f"norm {n:g}": form for n in NORMS}})


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw loss and accuracy against consumed epsilon."""
    found = medians(lines)
    titles = {"loss": "held-out loss, nats a row", "accuracy": "accuracy of drawn rows"}
    return {
        "noise-and-norm": _chart(found, "loss", titles["loss"]),
        "noise-norm-and-accuracy": _chart(found, "accuracy", titles["accuracy"]),
    }


def _chart(found: pd.DataFrame, measured: str, title: str) -> go.Figure:
    figure = go.Figure()
    for norm, some in found[found["line"] == "grid"].groupby("norm"):
        some = some.sort_values("epsilon")
        figure.add_scatter(x=list(some["epsilon"]), y=list(some[measured]), name=f"norm {norm:g}", mode="lines+markers")
    default = found[found["line"] == "default"]
    marker = {"size": 14, "symbol": "diamond", "color": "black"}
    figure.add_scatter(
        x=list(default["epsilon"]), y=list(default[measured]), name="default", mode="markers", marker=marker
    )
    plain = float(found[found["line"] == "without DP"][measured].iloc[0])
    figure.add_hline(y=plain, line=pages.GREY, opacity=1, annotation_text="without DP")
    figure.update_xaxes(type="log", title="consumed ε at δ = 1e-5")
    return figure.update_yaxes(title=title, tickformat=".0%" if measured == "accuracy" else None)
