"""Does a released table tell who is in it? Membership by shadow releases, beside what epsilon allows.

The attack is LiRA's (Carlini et al. 2022, "Membership Inference Attacks From First Principles") on tables in the place of
networks: whoever attacks knows all candidates, makes releases of their own of halves of them, and asks of each candidate
whether the released table is as near to it as to those that were in, or as to those that were not.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from benchmarks import pipeline
from benchmarks.scoring import markdown
from benchmarks.studies import grid
from benchmarks.studies.attributes import ITSELF, TRAINING, cells, codes_of, told
from benchmarks.studies.membership import FALSE_ALARMS, area, at_false_alarms, scored
from benchmarks.studies.network_alone import rand_hie
from benchmarks.studies.whole_release import released

EPSILONS = (1.0, 8.0)

ROWS, RELEASES = 2_000, 16
"""Candidates, of whom each release has about a half, drawn anew; and releases."""

NEAREST = 5
"""Synthetic rows whose mean distance from a candidate is looked at, beside that of the nearest alone."""

SAME = 1e-3
"""Added to each distance before its logarithm, so that rows that are the same are near and not infinitely so."""

REPEATS = 1


def measure(cell: grid.Cell) -> dict[str, float]:
    """Make the releases, attack each with all others, and compare with what epsilon allows."""
    whole = rand_hie().to_pandas()
    candidates = whole.sample(ROWS, ignore_index=True)
    member = np.random.default_rng().random((RELEASES, ROWS)) < 0.5
    rows = ranks(candidates, whole)
    distances = np.stack([_distances(rows, ranks(_drawn(candidates[own], cell), whole)) for own in member])
    found: dict[str, float] = {"allowed": allowed(cell["epsilon"])}
    for place, name in enumerate(NAMES):
        scores = scored(np.log(distances[:, place] + SAME) + _ties(distances[:, place]), member)
        found |= {f"{name}_auc": area(scores, member), f"{name}_found": at_false_alarms(scores, member)}
    return {**found, "loss": float(distances[:, 0].mean())}


def _drawn(members: pd.DataFrame, cell: grid.Cell) -> pd.DataFrame:
    how = cell["released"]
    return members if how == ITSELF else released(members, cell["epsilon"], TRAINING[how])


def _distances(rows: np.ndarray, synthetic: np.ndarray) -> np.ndarray:
    """Return how far synthetic rows are from each row by ranks, over all columns: the nearest, and some; float (2, rows)."""
    found = np.empty((2, len(rows)))
    for number, row in enumerate(rows):
        off = np.partition(np.abs(synthetic - row).mean(1), NEAREST)[:NEAREST]
        found[:, number] = off.min(), off.mean()
    return found


def ranks(rows: pd.DataFrame, whole: pd.DataFrame) -> np.ndarray:
    """Return each value as the place of the nearest one that the whole table has, from 0 to 1; float (rows, columns)."""
    return codes_of(rows, whole) / np.maximum([whole[c].nunique() - 1 for c in whole], 1)


def _ties(distances: np.ndarray) -> np.ndarray:
    """Return next to nothing for each distance, so that equal ones are told apart by chance and not by their order."""
    return np.random.default_rng().normal(0, 1e-6, distances.shape)


def allowed(epsilon: float) -> float:
    """Return the largest share of members that any attack finds at `FALSE_ALARMS`, by (epsilon, delta) alone."""
    if not math.isfinite(epsilon):
        return 1.0
    by_odds = math.exp(epsilon) * FALSE_ALARMS + pipeline.DELTA
    return min(by_odds, 1 - math.exp(-epsilon) * (1 - pipeline.DELTA - FALSE_ALARMS))


def run(path: Path) -> None:
    """Release and attack what is missing."""
    grid.run(path, cells(EPSILONS), measure, REPEATS)


NAMES = {"near": "nearest row", "five": "five nearest rows"}


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return what both attackers find, and what epsilon allows."""
    shown = []
    for line in lines.groupby(["epsilon", "released"], as_index=False).median().itertuples():
        said: dict[str, Any] = {"released": told(line.epsilon, line.released)}
        for short, name in NAMES.items():
            said[f"{name}: AUC"] = getattr(line, f"{short}_auc")
            said[f"{name}: members found"] = getattr(line, f"{short}_found")
        shown.append({**said, "allowed": line.allowed})
    form = {name: "" if name == "released" else ".3f" if "AUC" in name else ".1%" for name in shown[0]}
    return {"shadows": markdown(shown, form)}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw the members that are found, and may be, by how the table was released."""
    figure = go.Figure()
    kept = lines.groupby(["epsilon", "released"], as_index=False).median()
    where = [told(e, r).replace("no privacy", "none") for e, r in zip(kept["epsilon"], kept["released"], strict=True)]
    for short, name in {**NAMES, "allowed": "allowed"}.items():
        column = short if short == "allowed" else f"{short}_found"
        figure.add_scatter(x=where, y=list(kept[column]), name=name, mode="markers")
    figure.update_yaxes(type="log", title="members found", tickvals=[0.01, 0.03, 0.1, 0.3, 1], tickformat=".0%")
    return {"shadows": figure}
