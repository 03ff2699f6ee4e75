"""What does whoever holds a released table guess of a person's sensitive column, and how much of that of members alone?

Fair's survey asked women about their marriages, and whether they had had an affair. A release learns from half of its rows.
The attacker knows all of a woman but her answer to that, and holds the synthetic table. What is guessed as well of women who
are not in the table is no leak: it is what the table is for. There are two attackers. One looks for the nearest synthetic
rows (`validation.attacks`), and one trains a classifier on the synthetic table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.scoring import markdown
from benchmarks.studies import grid, pages
from benchmarks.studies.network_alone import fair
from benchmarks.studies.whole_release import released
from dp_synth_pipeline.validation import attacks

EPSILONS = (0.5, 2.51, 8.0)

SENSITIVE = "affairs"
"""Had an affair, or had not: a number in the survey, of which the attacker asks whether it is above 0."""

DEFAULT, MANY, ITSELF = "default", "200 epochs", "the very rows"
"""How a table is released: by default settings, by many passes of a large network, or as it is, which shows what an attack
can find."""

TRAINING: dict[str, dict[str, Any]] = {DEFAULT: {}, MANY: {"max_epochs": 200, "hidden": 64}}

ROWS = 3_183
"""Members, and as many others."""

REPEATS = 5


def measure(cell: grid.Cell) -> dict[str, float]:
    """Release a table of half of the survey, and attack members and as many others."""
    whole = fair().to_pandas()
    whole[SENSITIVE] = (whole[SENSITIVE] > 0).astype("int64")
    shuffled = whole.sample(frac=1.0, ignore_index=True)
    members, others = shuffled[:ROWS], shuffled[ROWS : 2 * ROWS]
    how = cell["released"]
    drawn = members if how == ITSELF else released(members, cell["epsilon"], TRAINING[how])
    inside, outside, synthetic = (codes_of(rows, whole) for rows in (members, others, drawn))
    hidden = whole.columns.get_loc(SENSITIVE)
    nearest = attacks.attribute(
        inside, outside, synthetic, np.ones(inside.shape[1], dtype=bool), int(hidden), most=len(whole)
    )
    assert nearest.baseline is not None
    model = [_area(rows, synthetic, int(hidden)) for rows in (inside, outside)]
    return {
        "near_in": nearest.baseline + nearest.value,
        "near_out": nearest.baseline,
        "auc_in": model[0],
        "auc_out": model[1],
        "loss": 1 - model[1],
    }


def codes_of(rows: pd.DataFrame, whole: pd.DataFrame) -> np.ndarray:
    """Return each value as the place of the nearest value that the survey has, int64 (rows, columns)."""
    return np.column_stack([_places(rows[c].to_numpy(float), np.unique(whole[c].to_numpy(float))) for c in whole])


def _places(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    return np.abs(np.nan_to_num(values, nan=known[0])[:, None] - known).argmin(1)


def _area(rows: np.ndarray, synthetic: np.ndarray, hidden: int) -> float:
    """Return the AUC with which a classifier that learnt from the synthetic table guesses the hidden column of rows."""
    known = np.arange(rows.shape[1]) != hidden
    classifier = HistGradientBoostingClassifier().fit(synthetic[:, known], synthetic[:, hidden])
    return float(roc_auc_score(rows[:, hidden], classifier.predict_proba(rows[:, known])[:, 1]))


def run(path: Path) -> None:
    """Release and attack what is missing."""
    grid.run(path, cells(EPSILONS), measure, REPEATS)


def cells(epsilons: Sequence[float]) -> list[grid.Cell]:
    """Return how tables are released: by default at some epsilons and without privacy, and as is easily attacked."""
    return [
        *grid.product(epsilon=(*epsilons, math.inf), released=(DEFAULT,)),
        *grid.product(epsilon=(math.inf,), released=(MANY, ITSELF)),
    ]


NAMES = {"near": "nearest rows", "auc": "classifier"}


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return what both attackers reach of members and of others, and the gain with twice its standard error."""
    shown = []
    for (epsilon, how), some in lines.groupby(["epsilon", "released"]):
        line: dict[str, Any] = {"released": told(epsilon, how)}
        for short, name in NAMES.items():
            gain = some[f"{short}_in"] - some[f"{short}_out"]
            line[f"{name}: members"] = some[f"{short}_in"].mean()
            line[f"{name}: others"] = some[f"{short}_out"].mean()
            line[f"{name}: gain"] = f"{gain.mean():+.3f} ± {_twice(gain):.3f}"
        shown.append(line)
    form = {k: "" if k == "released" or "gain" in k else ".3f" for k in shown[0]}
    return {"attributes": markdown(shown, form)}


def told(epsilon: float, released: str) -> str:
    """Say how a table was released."""
    return f"ε = {epsilon:g}" if math.isfinite(epsilon) else f"no privacy, {released}"


def _twice(gain: pd.Series) -> float:
    """Return twice the standard error of a mean; 0 of one value."""
    return 2 * float(gain.sem()) if len(gain) > 1 else 0.0


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw each attack's gain of members over others, every release a point."""
    figure = go.Figure()
    kept = lines[lines["released"] != ITSELF].sort_values(["epsilon", "released"], ascending=[True, False])
    where = [told(e, r).replace("no privacy", "none") for e, r in zip(kept["epsilon"], kept["released"], strict=True)]
    for short, name in NAMES.items():
        gain = kept[f"{short}_in"] - kept[f"{short}_out"]
        figure.add_scatter(x=where, y=list(gain), name=name, mode="markers")
    figure.add_hline(y=0, line=pages.GREY)
    figure.update_yaxes(title="guessed of members less of others")
    return {"attributes": figure}
