"""Whether the synthetic table serves each group of a column that was declared sensitive as well as it serves the others.

Restricted: computed from real rows without noise. Small groups are left out even so: a figure about ten people is a figure
about each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.validation.binning import MISSING, axis, code, place, text
from dp_synth_pipeline.validation.learners import Prediction

SMALLEST = 100
"""A group of fewer real rows is not shown."""

MOST_GROUPS = 12
QUARTERS = (0.25, 0.5, 0.75)
"""Where a number line is cut into groups."""


@dataclass(frozen=True)
class Group:
    """One group of a sensitive column.

    Attributes:
        column, value: which group.
        share_real, share_synthetic: of the rows.
        distance: mean total variation distance of the other columns within the group, 0 to 1; None if no synthetic
            row is in it.
        baseline: what two fresh samples of the group, as large as the tables have it, would be at.
        error_real, error_synthetic: mean error on the group's tested rows after learning from real and from synthetic
            rows; None without a prediction, or with fewer tested rows than a fifth of `SMALLEST`.
    """

    column: str
    value: str
    share_real: float
    share_synthetic: float
    distance: float | None
    baseline: float | None
    error_real: float | None
    error_synthetic: float | None


@dataclass(frozen=True)
class Groups:
    """All groups shown, and how many were too small to be."""

    groups: tuple[Group, ...]
    hidden: int


def by_group(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: TableSchema,
    sensitive: list[str],
    prediction: Prediction | None,
) -> Groups | None:
    """Return how each group of the sensitive columns fares; None if there are no such columns.

    Raises:
        InvalidInput: if a sensitive column is no column that is learned.
    """
    names = [c.name for c in schema.learned]
    if unknown := [n for n in sensitive if n not in names]:
        raise InvalidInput(f"validation: sensitive: {unknown[0]!r} is no column that is learned; name ones that are.")
    if not sensitive:
        return None
    cells = {c.name: code(c, pd.Series(real[c.name]), pd.Series(synthetic[c.name])) for c in schema.learned}
    shown, hidden = [], 0
    for name in sensitive:
        p, q = _members(schema[name], pd.Series(real[name]), pd.Series(synthetic[name]))
        others = [c for n, c in cells.items() if n != name]
        counts = p.value_counts()
        hidden += int((counts < SMALLEST).sum())
        for value in counts.index[(counts >= SMALLEST).to_numpy()][:MOST_GROUPS]:
            inside = (p == value).to_numpy(), (q == value).to_numpy()
            shown.append(_group(name, str(value), *inside, others, prediction))
    return Groups(tuple(shown), hidden)


def _members(column: Column, real: pd.Series, synthetic: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return each row's group, in words: its value, or its quarter of the real number line."""
    if not column.kind.numeric:
        return text(real, column.kind).fillna(MISSING), text(synthetic, column.kind).fillna(MISSING)
    left, right = axis(real, column.kind), axis(synthetic, column.kind)
    known = left[~np.isnan(left)]
    edges = np.unique(np.quantile(known, QUARTERS)) if len(known) else np.array([0.0])
    ends = [place(e, column.kind) for e in edges]
    labels = np.array([f"up to {ends[0]}", *(f"over {e}" for e in ends), MISSING], dtype=object)
    groups = []
    for x in (left, right):
        cell = np.where(np.isnan(x), len(labels) - 1, np.searchsorted(edges, x, side="left"))
        groups.append(pd.Series(labels[cell]))
    return groups[0], groups[1]


def _group(
    column: str, value: str, real: np.ndarray, synthetic: np.ndarray, others: list, prediction: Prediction | None
) -> Group:
    distance = baseline = None
    if synthetic.any() and others:
        pairs = [(_shares(c.real[real], c.size), _shares(c.synthetic[synthetic], c.size)) for c in others]
        distance = float(np.mean([0.5 * np.abs(p - q).sum() for p, q in pairs]))
        rows = 1 / real.sum() + 1 / synthetic.sum()
        baseline = float(np.mean([0.5 * np.sqrt(p * (1 - p) * rows * 2 / np.pi).sum() for p, _ in pairs]))
    errors: list[float | None] = [None, None]
    if prediction is not None:
        tested = real[prediction.tested]
        if tested.sum() >= SMALLEST / 5:
            sides = (prediction.errors_real, prediction.errors_synthetic)
            errors = [float(e[tested].mean()) for e in sides]
    shares = float(real.mean()), float(synthetic.mean())
    return Group(column, value, *shares, distance, baseline, errors[0], errors[1])


def _shares(codes: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(codes, minlength=size) / len(codes)
