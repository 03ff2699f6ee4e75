"""What does it cost to protect persons, and not single rows, at the same epsilon?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from benchmarks.scoring import markdown
from benchmarks.studies import grid
from benchmarks.studies.network_alone import Coded, learn, spec, split

ROWS, HELD_OUT, EPOCHS = 16_000, 3_000, 10

EPSILONS = (1.0, 2.51, 8.0)

PER_PERSON = (1, 2, 4, 8, 16)
"""Rows of one person; the number of rows stays the same, so that there are fewer persons."""

ALIKE, UNLIKE = "alike", "unlike"
"""Whose rows one person has: those next to each other in the order of their codes, or any."""

REPEATS = 3

COLORS = ("#1f77b4", "#d62728", "#2ca02c")
"""Of the lines of each epsilon."""


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train on rows of which each so many belong to one person, whose gradient is clipped as one."""
    learnt, held_out = split("rand", ROWS, HELD_OUT)
    if cell["rows"] == ALIKE:
        learnt = Coded(learnt.codes[np.lexsort(learnt.codes.T[::-1])], learnt.cardinalities)
    found = learn(learnt, held_out, spec(max_epochs=EPOCHS), epsilon=cell["epsilon"], rows_per_unit=cell["each"])
    return {"loss": min(found.loss, found.nothing), "noise": found.noise, "seconds": found.seconds}


def run(path: Path) -> None:
    """Train what is missing."""
    cells = grid.product(epsilon=EPSILONS, rows=(UNLIKE, ALIKE), each=PER_PERSON)
    grid.run(path, [c for c in cells if c["each"] > 1 or c["rows"] == UNLIKE], measure, REPEATS)


def medians(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each cell; a person of one row is like no other and unlike none."""
    found = lines.groupby(["epsilon", "rows", "each"], as_index=False)["loss"].median()
    single = found[found["each"] == 1].assign(rows=ALIKE)
    return pd.concat([found, single], ignore_index=True)


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the median losses by rows of a person and epsilon: unlike rows first, then alike ones."""
    found = medians(lines).pivot_table("loss", "each", ["epsilon", "rows"])
    shown = []
    for each, losses in found.iterrows():
        line: dict[str, object] = {"rows of a person": each, "persons": ROWS // int(str(each))}
        for epsilon in sorted(found.columns.unique("epsilon")):
            line[f"ε = {epsilon:g}"] = f"{losses[(epsilon, UNLIKE)]:.2f} / {losses[(epsilon, ALIKE)]:.2f}"
        shown.append(line)
    return {
        "persons": markdown(shown, {"rows of a person": "", "persons": ",.0f", **dict.fromkeys(list(shown[0])[2:], "")})
    }


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw the loss against the rows of a person."""
    figure = go.Figure()
    for (epsilon, rows), some in medians(lines).groupby(["epsilon", "rows"]):
        color = COLORS[EPSILONS.index(float(epsilon)) % len(COLORS)]
        line = {"dash": "solid" if rows == UNLIKE else "dot", "color": color}
        some = some.sort_values("each")
        name = f"ε = {epsilon:g}, rows {rows}"
        figure.add_scatter(x=list(some["each"]), y=list(some["loss"]), name=name, mode="lines+markers", line=line)
    figure.update_xaxes(type="log", title="rows of a person", tickvals=list(PER_PERSON))
    figure.update_yaxes(title="held-out loss, nats a row")
    return {"persons": figure}
