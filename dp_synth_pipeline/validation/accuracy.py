"""Accuracy of one, two and three columns at a time, as mostlyai-qa defines it, so that figures can be set side by side.

One minus half the sum of differences of shares, over about ten cells a column: the mean over columns, over pairs and over
triples, and the mean of these three. Coarser than the distances of `fidelity`, which rank the columns.

Restricted: computed from real rows without noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.validation.binning import axis, text

BINS = 10
LEAST_NAMED = 5
"""A value of fewer real rows than this is counted among the others, however common it is."""

MOST_BREAKS = 1000
MOST_SETS = 1000
"""Pairs, and triples, that are counted at most; of more, so many are drawn at random."""


@dataclass(frozen=True)
class Accuracy:
    """How well shares of the rows agree, 0 to 1, and what two fresh samples of one population would reach.

    Attributes:
        one, two, three: mean over columns, pairs and triples; None where there are too few columns.
        overall: their mean.
        best: what chance alone would leave of `overall`.
        triples: how many triples were counted.
    """

    one: float
    two: float | None
    three: float | None
    overall: float
    best: float
    triples: int


def accuracy(real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema, rng: np.random.Generator) -> Accuracy:
    """Return how well the learned columns agree, in the real table's cells.

    Args:
        rng: draws the pairs and triples, if there are too many; protects nothing.
    """
    codes = [cells(c, pd.Series(real[c.name]), pd.Series(synthetic[c.name])) for c in schema.learned]
    reached, best, counted = [], [], 0
    for ways in (1, 2, 3):
        chosen = _chosen(len(codes), ways, rng)
        if not chosen:
            reached.append(None)
            continue
        figures = [agreement([codes[i] for i in places]) for places in chosen]
        reached.append(float(np.mean([f[0] for f in figures])))
        best.append(float(np.mean([f[1] for f in figures])))
        counted = len(chosen) if ways == 3 else counted
    one, two, three = reached
    known = [r for r in reached if r is not None]
    return Accuracy(one or 0.0, two, three, float(np.mean(known)), float(np.mean(best)), counted)


Codes = tuple[np.ndarray, np.ndarray, int]
"""Cell of each real row, cell of each synthetic row, number of cells."""


def cells(column: Column, real: pd.Series, synthetic: pd.Series, bins: int = BINS) -> Codes:
    """Return two columns in about `bins` cells of the real one; nulls last."""
    if column.kind.numeric:
        return steps(axis(real, column.kind), axis(synthetic, column.kind), bins)
    p, q = text(real, column.kind), text(synthetic, column.kind)
    counts = p.value_counts(dropna=True).head(bins)
    named = counts.index[(counts >= LEAST_NAMED).to_numpy()]

    def code(values: pd.Series) -> np.ndarray:
        found = named.get_indexer(pd.Index(values))
        return np.where(values.isna(), len(named) + 1, np.where(found < 0, len(named), found)).astype(np.int64)

    return code(p), code(q), len(named) + 2


def steps(real: np.ndarray, synthetic: np.ndarray, bins: int = BINS) -> Codes:
    """Cut a number line where the real values' ranks are about evenly spaced; what lies beyond joins the end cells."""
    breaks = _breaks(np.sort(real[~np.isnan(real)]), bins)

    def code(x: np.ndarray) -> np.ndarray:
        inside = np.clip(np.searchsorted(breaks, x, side="right") - 1, 0, len(breaks) - 1)
        return np.where(np.isnan(x), len(breaks), inside).astype(np.int64)

    return code(real), code(synthetic), len(breaks) + 1


def _breaks(values: np.ndarray, bins: int = BINS) -> np.ndarray:
    """Return the least value of each cell: every value, if there are `bins` at most, else about so many."""
    distinct = np.unique(values)
    if len(distinct) <= bins:
        return distinct if len(distinct) else np.zeros(1)  # one cell for whatever the synthetic table has
    found = distinct
    for ranks in range(bins, min(MOST_BREAKS, len(values) + 1)):
        found = np.unique(values[np.linspace(0, len(values) - 1, ranks).astype(int)])
        if len(found) > bins:
            break
    return found[:-1]  # the largest value belongs to the last cell


def _chosen(columns: int, ways: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    if math.comb(columns, ways) <= MOST_SETS:
        return list(combinations(range(columns), ways))
    drawn: set[tuple[int, ...]] = set()
    while len(drawn) < MOST_SETS:
        drawn.add(tuple(sorted(rng.choice(columns, ways, replace=False).tolist())))
    return sorted(drawn)


def agreement(codes: Sequence[Codes]) -> tuple[float, float]:
    """Return the agreement of some columns' joint shares, and what two samples of the real shares would reach."""
    real, synthetic, size = codes[0]
    for more_real, more_synthetic, more in codes[1:]:
        real, synthetic, size = real * more + more_real, synthetic * more + more_synthetic, size * more
    return agreement_of(np.bincount(real, minlength=size), np.bincount(synthetic, minlength=size))


def agreement_of(real: np.ndarray, synthetic: np.ndarray) -> tuple[float, float]:
    """Return the agreement of two tables' counts by cell, and what two samples of the real shares would reach."""
    p, q = real / real.sum(), synthetic / synthetic.sum()
    # The mean size of a difference of two shares, each near a normal one: sqrt(2 / pi) of its standard deviation.
    spread = np.sqrt(p * (1 - p) * (1 / real.sum() + 1 / synthetic.sum()) * 2 / np.pi)
    return 1 - 0.5 * float(np.abs(p - q).sum()), 1 - 0.5 * float(spread.sum())
