"""Rare values and missing values: which of the real ones the synthetic table covers, and which go together.

Restricted: computed from real rows without noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation.binning import axis, text

RARE = 0.01
"""A value of at most this share of the real rows is rare; so are the numbers in either end of as many rows."""

MOST_PATTERNS = 8


@dataclass(frozen=True)
class RareValues:
    """How one column's rare values fare.

    Attributes:
        name: the column.
        what: what is rare in it, in words.
        values: how many rare values the real column has; None on a number line, whose ends are looked at.
        covered: how many of them occur in the synthetic column.
        share_real, share_synthetic: of the rows with a value known, those with a rare one, or in the ends.
        unknown: share of the synthetic rows with a value that no real row has; None on a number line.
    """

    name: str
    what: str
    values: int | None
    covered: int | None
    share_real: float
    share_synthetic: float
    unknown: float | None


@dataclass(frozen=True)
class NullPattern:
    """Which columns are null together, and in which share of the rows."""

    columns: tuple[str, ...]
    share_real: float
    share_synthetic: float


@dataclass(frozen=True)
class NullPatterns:
    """The commonest patterns, and the total variation distance over all of them (0 to 1)."""

    patterns: tuple[NullPattern, ...]
    distance: float


def rare_values(real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema) -> list[RareValues]:
    """Return how each column's rare values fare; columns without any are left out."""
    found = []
    for column in schema.learned:
        left, right = pd.Series(real[column.name]), pd.Series(synthetic[column.name])
        if column.kind.numeric:
            one = _ends(column.name, axis(left, column.kind), axis(right, column.kind))
        else:
            one = _names(column.name, text(left, column.kind), text(right, column.kind))
        if one is not None:
            found.append(one)
    return found


def _names(name: str, real: pd.Series, synthetic: pd.Series) -> RareValues | None:
    shares, drawn = real.value_counts(normalize=True), synthetic.value_counts(normalize=True)
    rare = shares.index[(shares <= RARE).to_numpy()]
    unknown = float(drawn[~drawn.index.isin(shares.index)].sum())
    if not len(rare) and not unknown:
        return None
    return RareValues(
        name=name,
        what=f"value{'' if len(rare) == 1 else 's'} of at most {100 * RARE:g} % of the rows",
        values=len(rare),
        covered=int(rare.isin(drawn.index).sum()),
        share_real=float(shares[rare].sum()),
        share_synthetic=float(drawn[drawn.index.isin(rare)].sum()),
        unknown=unknown,
    )


def _ends(name: str, real: np.ndarray, synthetic: np.ndarray) -> RareValues | None:
    known, drawn = real[~np.isnan(real)], synthetic[~np.isnan(synthetic)]
    if not len(known) or not len(drawn):
        return None
    low, high = np.quantile(known, [RARE, 1 - RARE])
    here, there = (float(((x < low) | (x > high)).mean()) for x in (known, drawn))
    if here == there == 0:
        return None
    return RareValues(name, f"outside the middle {100 - 200 * RARE:g} %", None, None, here, there, None)


def null_patterns(real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema) -> NullPatterns | None:
    """Return which columns are null together in both tables; None if nothing is null in either."""
    names = [c.name for c in schema.learned]
    shares = [_shares(table, names) for table in (real, synthetic)]
    if all(set(s) <= {()} for s in shares):
        return None
    seen = sorted(set(shares[0]) | set(shares[1]), key=lambda p: -max(s.get(p, 0.0) for s in shares))
    every = [NullPattern(p, *(s.get(p, 0.0) for s in shares)) for p in seen]
    distance = 0.5 * sum(abs(p.share_real - p.share_synthetic) for p in every)
    return NullPatterns(tuple(every[:MOST_PATTERNS]), distance)


def _shares(table: pd.DataFrame, names: list[str]) -> dict[tuple[str, ...], float]:
    null = np.column_stack([pd.Series(table[n]).isna().to_numpy(dtype=bool) for n in names])
    rows, counts = np.unique(null, axis=0, return_counts=True)
    return {
        tuple(n for n, gone in zip(names, row, strict=True) if gone): float(k) / len(null)
        for row, k in zip(rows, counts, strict=True)
    }
