"""One column's bars: shares of the real and of the synthetic rows, at round steps or value by value, ready to be drawn.

Restricted: computed from real rows without noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from dp_synth_pipeline.tabular.schema import Column, Kind
from dp_synth_pipeline.validation.binning import MISSING, axis, place, text

MOST_CATEGORIES = 10
BARS = 24
MOST_VALUES = 16
"""A numeric column of at most so many values is drawn value by value."""

LONGEST_LABEL = 26


@dataclass(frozen=True)
class Panel:
    """One column's bars.

    Attributes:
        name, kind: as in the schema.
        distance: the column's total variation distance.
        horizontal: whether bars lie, with a label each; else they stand along a number line, nulls last.
        labels: what each bar counts.
        real, synthetic: shares of the rows, one per bar.
    """

    name: str
    kind: str
    distance: float
    horizontal: bool
    labels: list[str]
    real: list[float]
    synthetic: list[float]


def panel(column: Column, real: pd.Series, synthetic: pd.Series, distance: float) -> Panel:
    """Return the bars of one column: its commonest values, or about 24 even steps of its number line; nulls last."""
    if column.kind.numeric:
        labels, p, q = _steps(axis(real, column.kind), axis(synthetic, column.kind), column.kind)
    else:
        order = column.categories if column.kind.ordered else None
        labels, p, q = _values(text(real, column.kind), text(synthetic, column.kind), order)
    if real.isna().any() or synthetic.isna().any():
        labels = [*labels, MISSING]
        p, q = np.append(p, real.isna().sum()), np.append(q, synthetic.isna().sum())
    p, q = p / max(len(real), 1), q / max(len(synthetic), 1)
    return Panel(
        name=column.name,
        kind=column.kind.name,
        distance=round(distance, 5),
        horizontal=not column.kind.numeric,
        labels=labels,
        real=[round(float(x), 6) for x in p],
        synthetic=[round(float(x), 6) for x in q],
    )


def _values(
    real: pd.Series, synthetic: pd.Series, own_order: Sequence[str] | None = None
) -> tuple[list[str], np.ndarray, np.ndarray]:
    p, q = real.value_counts().to_dict(), synthetic.value_counts().to_dict()
    order = sorted({**p, **q}, key=lambda v: (-p.get(v, 0), str(v)))
    top_values, other_values = order[:MOST_CATEGORIES], order[MOST_CATEGORIES:]
    if own_order is not None:
        place_of = {v: i for i, v in enumerate(own_order)}
        top_values = sorted(top_values, key=lambda v: place_of.get(str(v), len(place_of)))
    counts = [np.array([c.get(v, 0) for v in top_values], dtype=float) for c in (p, q)]
    labels = [_short(str(v)) for v in top_values]
    if other_values:
        labels.append(f"{len(other_values)} more")
        counts = [np.append(n, sum(c.get(v, 0) for v in other_values)) for n, c in zip(counts, (p, q), strict=True)]
    return _distinct(labels), counts[0], counts[1]


def _steps(real: np.ndarray, synthetic: np.ndarray, kind: Kind) -> tuple[list[str], np.ndarray, np.ndarray]:
    real_values, synthetic_values = real[~np.isnan(real)], synthetic[~np.isnan(synthetic)]
    values = np.unique(real_values)
    if len(values) == 0:
        bars = 1 if len(synthetic_values) else 0
        return ["any value"][:bars], np.zeros(bars), np.full(bars, float(len(synthetic_values)))
    if len(values) <= MOST_VALUES:
        return _by_value(values, real_values, synthetic_values, kind)
    low, high = np.quantile(real_values, [0.005, 0.995])
    edges = _even(float(low), float(high), kind)
    cuts = np.concatenate([[-np.inf], edges, [np.inf]])
    counts = [
        np.bincount(np.searchsorted(cuts, x, side="right") - 1, minlength=len(cuts) - 1)
        for x in (real_values, synthetic_values)
    ]
    labels = [f"under {place(edges[0], kind)}"]
    labels += [f"{place(a, kind)} to {place(b, kind)}" for a, b in pairwise(edges)]
    labels += [f"{place(edges[-1], kind)} and over"]
    keep = [i for i in range(len(labels)) if 0 < i < len(labels) - 1 or counts[0][i] or counts[1][i]]
    return _distinct([labels[i] for i in keep]), counts[0][keep].astype(float), counts[1][keep].astype(float)


def _by_value(
    values: np.ndarray, real_values: np.ndarray, synthetic_values: np.ndarray, kind: Kind
) -> tuple[list[str], np.ndarray, np.ndarray]:
    p = np.array([(real_values == v).sum() for v in values], dtype=float)
    q = np.array([(synthetic_values == v).sum() for v in values], dtype=float)
    labels = [place(v, kind) for v in values]
    if q.sum() < len(synthetic_values):
        labels, p, q = [*labels, "other values"], np.append(p, 0), np.append(q, len(synthetic_values) - q.sum())
    return _distinct(labels), p, q


def _even(low: float, high: float, kind: Kind) -> np.ndarray:
    """Return about 24 edges that span a range, at round numbers if doubles have any there."""
    if high <= low:
        high = max(low + 1, np.nextafter(low, np.inf))
    rough = (high - low) / BARS
    power = 10.0 ** np.floor(np.log10(rough)) if 0 < rough < np.inf else 0.0
    width = next((power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough > 0), 0.0)
    if 0 < width < np.inf and max(abs(low), abs(high)) / width < 2**52:
        width = kind.bar_width(rough, width)
        edges = np.arange(np.floor(low / width), np.ceil(high / width) + 1) * width
        if np.isfinite(edges).all():
            return edges
    return np.unique(2 * np.linspace(low / 2, high / 2, BARS + 1))


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _distinct(labels: Sequence[str]) -> list[str]:
    """Tell equal labels apart, since a chart would lay their bars over one another."""
    counts: dict[str, int] = {}
    out = []
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
        out.append(label if counts[label] == 1 else f"{label} ({counts[label]})")
    return out
