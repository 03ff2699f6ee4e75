"""What do noise and the clipping norm do to what is learnt, and to what it costs? (MOSTLY AI's grid)"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from benchmarks.scoring import markdown
from benchmarks.studies import grid, pages
from benchmarks.studies.network_alone import Result, learn, spec, split

NOISES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
NORMS = (0.5, 1.0, 2.0)
USUAL = 2.51
"""The epsilon that MOSTLY AI's defaults came to on their table; here it chooses the noise that is marked."""

ROWS, HELD_OUT, EPOCHS, REPEATS = 16_384, 3_000, 10, 3


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train with the cell's noise and norm, all else as by default."""
    rows, held_out = split("rand", ROWS, HELD_OUT)
    how = spec(max_epochs=EPOCHS, max_grad_norm=cell["norm"])
    if cell["line"] == "grid":
        return figures(learn(rows, held_out, how, noise=cell["noise"]))
    return figures(learn(rows, held_out, how, epsilon=USUAL if cell["line"] == "default" else None))


def figures(found: Result) -> dict[str, float]:
    """Return what a line of the CSV holds of a training."""
    return {"used": found.noise, "epsilon": found.epsilon, "loss": min(found.loss, found.nothing)}


def run(path: Path) -> None:
    """Train what is missing of the grid, the default and the line without privacy."""
    cells = [{"line": "grid", **cell} for cell in grid.product(noise=NOISES, norm=NORMS)]
    cells += [{"line": line, "noise": 0.0, "norm": 1.0} for line in ("default", "without DP")]
    grid.run(path, cells, measure, REPEATS)


def medians(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each cell."""
    return lines.groupby(["line", "noise", "norm"], as_index=False)[["used", "epsilon", "loss"]].median()


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the losses of the grid, a line for each noise."""
    found = medians(lines)
    cells = found[found["line"] == "grid"]
    rows = []
    for noise, some in cells.groupby("noise"):
        losses = {f"norm {norm:g}": loss for norm, loss in zip(some["norm"], some["loss"], strict=True)}
        rows.append({"noise": noise, "ε": some["epsilon"].iloc[0], **losses})
    others = found[found["line"] != "grid"].set_index("line")
    default, plain = others.loc["default"], others.loc["without DP"]
    rows += [
        {"noise": f"{default['used']:.2f}, the default's", "ε": default["epsilon"], "norm 1": default["loss"]},
        {"noise": "none, without DP", "norm 1": plain["loss"]},
    ]
    form = {"noise": "g", "ε": ",.2f", **{f"norm {n:g}": ".2f" for n in NORMS}}
    return {"noise and norm": markdown(rows, form)}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw loss against consumed epsilon."""
    found = medians(lines)
    figure = go.Figure()
    for norm, some in found[found["line"] == "grid"].groupby("norm"):
        some = some.sort_values("epsilon")
        figure.add_scatter(x=list(some["epsilon"]), y=list(some["loss"]), name=f"norm {norm:g}", mode="lines+markers")
    default = found[found["line"] == "default"]
    marker = {"size": 14, "symbol": "diamond", "color": "black"}
    figure.add_scatter(
        x=list(default["epsilon"]), y=list(default["loss"]), name="default", mode="markers", marker=marker
    )
    plain = float(found[found["line"] == "without DP"]["loss"].iloc[0])
    figure.add_hline(y=plain, line=pages.GREY, opacity=1, annotation_text="without DP")
    figure.update_xaxes(type="log", title="consumed ε at δ = 1e-5")
    figure.update_yaxes(title="held-out loss, nats a row")
    return {"noise-and-norm": figure}
