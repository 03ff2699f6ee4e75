"""How close a synthetic table is to the real one: distances of one and of two columns, and null rates.

Restricted: every figure here is computed from real rows without noise. None may be published or put in metadata that
people without access to the source can read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation.binning import Cells, code

MOST_ROWS = 100_000
MOST_PAIRS = 200

MOST_COLUMNS = 100
"""Columns that squares of all pairs show: half a million pairs would take longer than the release, and nobody sees them."""

DENSE_CELLS = 4_000_000
"""A joint table of more cells than this is counted by its occupied cells alone."""

VERDICTS = {"excellent": (0.01, 0.03, 0.06), "good": (0.03, 0.06, 0.15), "fair": (0.08, 0.15, 0.35)}
"""How far the mean of two columns, the worst column and the worst pair may lie above what chance explains."""

CHANCE_FACTOR = 2**0.5
"""Two samples of one population differ by this much more than a sample and a redraw of it."""

CHANCE = 0.005
"""Distances are ranked in steps of so much above a fresh sample, so that chance does not order them."""


@dataclass(frozen=True)
class ColumnFidelity:
    """One column: its distance, and the cell where the shares differ most.

    Attributes:
        distance: total variation distance, 0 (same) to 1 (nothing in common).
        baseline: what a fresh sample of the real table would reach.
        null_rate_real, null_rate_synthetic: shares of nulls.
        widest: the cell with the widest difference, in words; `share_real` and `share_synthetic` of the rows are in it.
    """

    name: str
    kind: str
    distance: float
    baseline: float
    null_rate_real: float
    null_rate_synthetic: float
    widest: str
    share_real: float
    share_synthetic: float


@dataclass(frozen=True)
class PairFidelity:
    """Two columns together: their distance, and what a fresh sample of the real table would reach."""

    left: str
    right: str
    distance: float
    baseline: float


@dataclass(frozen=True)
class Fidelity:
    """All figures of one comparison.

    Attributes:
        columns: in table order.
        pairs: all pairs, or 200 drawn at random.
        rows_real, rows_synthetic: rows of the two tables.
        rows_compared: rows that were looked at; fewer than there are only above 100,000.
    """

    columns: tuple[ColumnFidelity, ...]
    pairs: tuple[PairFidelity, ...]
    rows_real: int
    rows_synthetic: int
    rows_compared: int

    @property
    def distance1(self) -> float:
        """Mean distance of one column."""
        return mean([c.distance for c in self.columns])

    @property
    def distance2(self) -> float:
        """Mean distance of two columns; of one, if there is only one."""
        return mean([p.distance for p in self.pairs]) if self.pairs else self.distance1

    @property
    def baseline1(self) -> float:
        """What a fresh sample of the real table would reach for one column."""
        return mean([c.baseline for c in self.columns])

    @property
    def baseline2(self) -> float:
        """What a fresh sample of the real table would reach for two columns."""
        return mean([p.baseline for p in self.pairs]) if self.pairs else self.baseline1

    @property
    def accuracy1(self) -> float:
        """One minus the mean distance of one column."""
        return 1 - self.distance1

    @property
    def accuracy2(self) -> float:
        """One minus the mean distance of two columns."""
        return 1 - self.distance2

    @property
    def null_rate_difference(self) -> float:
        """Mean difference of null rates over columns."""
        return mean([abs(c.null_rate_real - c.null_rate_synthetic) for c in self.columns])

    @property
    def ranked(self) -> tuple[ColumnFidelity, ...]:
        """The columns, worst first; those that chance explains come after, by their distance."""
        return tuple(sorted(self.columns, key=badness, reverse=True))

    @property
    def worst_pairs(self) -> tuple[PairFidelity, ...]:
        """The pairs, worst first."""
        return tuple(sorted(self.pairs, key=badness, reverse=True))

    @property
    def empty(self) -> tuple[str, ...]:
        """The columns that hold nothing but nulls in the synthetic table, and values in the real one."""
        return tuple(c.name for c in self.columns if c.null_rate_synthetic == 1 and c.null_rate_real < 1)

    def without(self, names: Collection[str]) -> Fidelity:
        """Return the figures of the other columns."""
        columns = tuple(c for c in self.columns if c.name not in names)
        pairs = tuple(p for p in self.pairs if p.left not in names and p.right not in names)
        return replace(self, columns=columns, pairs=pairs)

    def varied_pairs(self, most: int) -> list[tuple[str, str]]:
        """Return the worst pairs, worst first, with no column in more than two: one bad column would fill them all."""
        chosen: list[tuple[str, str]] = []
        for pair in self.worst_pairs:
            names = [name for other in chosen for name in other]
            if len(chosen) < most and max(names.count(pair.left), names.count(pair.right)) < 2:
                chosen.append((pair.left, pair.right))
        return chosen

    def telling(self, declared: Collection[str] = (), most: int = MOST_COLUMNS) -> tuple[str, ...]:
        """Return the names of the columns whose pairs are worth a square, in table order: all, up to `most`.

        Of more: those declared, then the worst columns up to half of `most`, then those of the worst pairs.
        """
        names = [c.name for c in self.columns]
        if len(names) <= most:
            return tuple(names)
        worst, paired = [c.name for c in self.ranked], [n for p in self.worst_pairs for n in (p.left, p.right)]
        first = [n for n in names if n in declared] + worst[: most // 2]
        wanted = dict.fromkeys(first + paired + worst)
        kept = set(list(wanted)[:most])
        return tuple(n for n in names if n in kept)

    def distances(self, names: Sequence[str]) -> list[list[float | None]]:
        """Return the distances of the pairs of some columns as a square; None where a pair was not looked at."""
        at = {name: i for i, name in enumerate(names)}
        cells: list[list[float | None]] = [[None] * len(at) for _ in at]
        for pair in self.pairs:
            if pair.left in at and pair.right in at:
                i, j = at[pair.left], at[pair.right]
                cells[i][j] = cells[j][i] = round(pair.distance, 4)
        return cells

    @property
    def verdict(self) -> str:
        """excellent, good, fair or poor: how far the distances lie above what chance explains."""
        return word_of(self.gaps)

    @property
    def gaps(self) -> tuple[float, float, float]:
        """How far the mean of two columns, the worst column and the worst pair lie above what chance explains."""
        column, pair = (
            max(map(above_chance, self.columns), default=0.0),
            max(map(above_chance, self.pairs), default=0.0),
        )
        return self.distance2 - CHANCE_FACTOR * self.baseline2, column, pair

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, JSON-ready; restricted like the rest."""
        names = ("accuracy1", "accuracy2", "distance1", "distance2", "baseline1", "baseline2")
        headline = {n: getattr(self, n) for n in (*names, "null_rate_difference", "verdict")}
        return {"restricted": True, **headline, **asdict(self)}


def word_of(gaps: Sequence[float]) -> str:
    """Return excellent, good, fair or poor: the best word whose limits hold of what lies above chance, as `gaps` has it."""
    for word, most in VERDICTS.items():
        if all(gap <= limit for gap, limit in zip(gaps, most, strict=True)):
            return word
    return "poor"


def above_chance(place: ColumnFidelity | PairFidelity) -> float:
    """Return how far a distance lies above what chance explains."""
    return place.distance - CHANCE_FACTOR * place.baseline


def compare(real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema) -> Fidelity:
    """Return how close the synthetic table is to the real one, over the learned columns; deterministic.

    Numbers and dates are cut at the 20-quantiles of the real column, nulls are a cell of their own. Tables of more than
    100,000 rows are sampled.

    Raises:
        InvalidInput: if a learned column is missing from either table, or a table has no rows.
    """
    names = [c.name for c in schema.learned]
    for what, frame in (("real", real), ("synthetic", synthetic)):
        lacking = [n for n in names if n not in frame.columns]
        if lacking:
            raise InvalidInput(f"the {what} table lacks column {lacking[0]!r}; compare tables of one schema.")
        if not len(frame):
            raise InvalidInput(f"the {what} table has no rows, so there is nothing to compare; generate some first.")
    rng = np.random.Generator(
        np.random.PCG64(20)
    )  # the same figures for the same two tables; not a noise that protects
    rows = len(real), len(synthetic)
    real, synthetic = _sample(real, rng), _sample(synthetic, rng)
    cells = [code(c, pd.Series(real[c.name]), pd.Series(synthetic[c.name])) for c in schema.learned]
    again = rng.integers(0, len(real), len(synthetic))
    columns = tuple(column_fidelity(c, again) for c in cells)
    pairs = tuple(pair_fidelity(a, b, again) for a, b in _chosen(cells, rng))
    return Fidelity(columns, pairs, *rows, rows_compared=len(real) + len(synthetic))


def _sample(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    if len(frame) <= MOST_ROWS:
        return frame
    return frame.iloc[np.sort(rng.choice(len(frame), MOST_ROWS, replace=False))]


def _chosen(cells: Sequence[Cells], rng: np.random.Generator) -> list[tuple[Cells, Cells]]:
    every = list(combinations(cells, 2))
    if len(every) <= MOST_PAIRS:
        return every
    return [every[i] for i in np.sort(rng.choice(len(every), MOST_PAIRS, replace=False))]


def column_fidelity(cells: Cells, again: np.ndarray) -> ColumnFidelity:
    """Return how close one column is.

    Args:
        again: numbers of the real rows of a fresh sample, int64 (synthetic rows,).
    """
    p, q = _shares(cells.real, cells.size), _shares(cells.synthetic, cells.size)
    fresh = _shares(cells.real[again], cells.size)
    widest = int(np.argmax(np.abs(p - q)))
    return ColumnFidelity(
        name=cells.name,
        kind=cells.kind.name,
        distance=_distance(p, q),
        baseline=_distance(p, fresh),
        null_rate_real=float(p[-1]),
        null_rate_synthetic=float(q[-1]),
        widest=cells.labels[widest],
        share_real=float(p[widest]),
        share_synthetic=float(q[widest]),
    )


def pair_fidelity(a: Cells, b: Cells, again: np.ndarray) -> PairFidelity:
    """Return how close two columns are together, as `column_fidelity` does for one."""
    real, synthetic = a.real * b.size + b.real, a.synthetic * b.size + b.synthetic
    size = a.size * b.size
    if size > DENSE_CELLS:
        occupied, index = np.unique(np.concatenate([real, synthetic]), return_inverse=True)
        real, synthetic, size = index[: len(real)], index[len(real) :], len(occupied)
    p, q, fresh = _shares(real, size), _shares(synthetic, size), _shares(real[again], size)
    return PairFidelity(left=a.name, right=b.name, distance=_distance(p, q), baseline=_distance(p, fresh))


def _shares(codes: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(codes, minlength=size) / len(codes)


def _distance(p: np.ndarray, q: np.ndarray) -> float:
    return 0.5 * float(np.abs(p - q).sum())


def badness(place: ColumnFidelity | PairFidelity) -> tuple[int, float]:
    """Return what ranks columns and pairs: how far they lie above a fresh sample, in steps that chance does not order."""
    return max(0, round((place.distance - place.baseline) / CHANCE)), place.distance


def mean(values: list[float]) -> float:
    """Return the mean; 0 of nothing."""
    return float(np.mean(values)) if values else 0.0
