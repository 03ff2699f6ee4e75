"""How the rows of one parent hang together, real against synthetic: their number, their gaps, and what stays in them.

Restricted: computed from real rows without noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.relations.relating import gap_of
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.tabular.schema import Column, TableSchema, build
from dp_synth_pipeline.validation.binning import MISSING, Cells, axis, code, text
from dp_synth_pipeline.validation.coherence import Coherence, coherence
from dp_synth_pipeline.validation.fidelity import (
    ColumnFidelity,
    PairFidelity,
    badness,
    column_fidelity,
    mean,
    pair_fidelity,
)
from dp_synth_pipeline.validation.pair_shares import MOST_CELLS, PairShares, coarse, shares_of
from dp_synth_pipeline.validation.panels import Panel, panel
from dp_synth_pipeline.validation.related_frames import RelatedFrame
from dp_synth_pipeline.validation.suggested_keys import SuggestedKey, suggested_key

BINS, MOST_NAMED = 10, 60
"""Parts of a number line across rows and tables, and categories that are told one by one: coarser than within a row."""

MOST_COUNT = 99
"""Rows of one parent that are told from more."""

MOST_PAIRS = 1000
"""Pairs of a column with another one at the row before that are looked at; of more, so many are drawn at random."""

MOST_DRAWN = 2
"""Columns whose steps are drawn cell by cell: the worst ones."""


@dataclass(frozen=True)
class Single:
    """One distribution: its distance, and its bars."""

    fidelity: ColumnFidelity
    panel: Panel


@dataclass(frozen=True)
class Step:
    """How one column goes on from a row to the next.

    Attributes:
        pair: the distance of (before, after).
        stays_real, stays_synthetic: shares of the steps at which the value stays the same.
    """

    pair: PairFidelity
    stays_real: float
    stays_synthetic: float


@dataclass(frozen=True)
class History:
    """The rows of one table that belong to one row of its parent.

    Attributes:
        table, parent, order: names; the order is None if rows have none.
        rows: how many rows a parent has, none included.
        mean_real, mean_synthetic: rows of a parent on average.
        gap: distances from row to row, in the order; None without an order, or if no parent has two rows.
        steps: of each column, the worst first; none if no parent has two rows in both tables.
        before_after: distances of each column with each at the row before, `MOST_PAIRS` at most.
        drawn: the cells of the worst steps.
        coherence: as mostlyai-qa has it.
        key: columns that tell the real rows of a parent apart, and not the synthetic ones; None if there are none.
    """

    table: str
    parent: str
    order: str | None
    rows: Single
    mean_real: float
    mean_synthetic: float
    gap: Single | None
    steps: list[Step]
    before_after: list[PairFidelity]
    drawn: list[PairShares]
    coherence: Coherence | None
    key: SuggestedKey | None = None

    @property
    def same(self) -> tuple[float, float]:
        """Mean distance of (before, after) of one column, and what a fresh sample of real persons would reach."""
        return mean([s.pair.distance for s in self.steps]), mean([s.pair.baseline for s in self.steps])

    @property
    def all(self) -> tuple[float, float]:
        """The same, of each column with each."""
        return mean([p.distance for p in self.before_after]), mean([p.baseline for p in self.before_after])


@dataclass(frozen=True)
class Compared:
    """The rows of one table, real and synthetic, in shared cells, and a fresh sample of the real persons.

    Attributes:
        schema: the learned columns.
        real, synthetic: the rows.
        again: how often each real person is in the fresh sample, int64 (persons,).
    """

    schema: TableSchema
    real: RelatedFrame
    synthetic: RelatedFrame
    again: np.ndarray

    def cells(self) -> dict[str, Cells]:
        """Return the columns in the cells that are compared across rows and tables."""
        return {c.name: self.coded(c, BINS).named(MOST_NAMED) for c in self.schema.learned}

    def coded(self, column: Column, bins: int) -> Cells:
        """Return one column in as many parts of the real one."""
        return code(column, pd.Series(self.real.rows[column.name]), pd.Series(self.synthetic.rows[column.name]), bins)

    def fresh(self, real_rows: np.ndarray | None = None) -> np.ndarray:
        """Return the numbers of real rows that the fresh sample has: of all rows, or of some by their numbers."""
        person = self.real.person if real_rows is None else self.real.person[real_rows]
        return np.repeat(np.arange(len(person)), self.again[person])


def history(table: Related, parent: Compared, child: Compared, rng: np.random.Generator) -> History:
    """Return how the rows of one table hang together; distances are those of the real rows' cells.

    Args:
        rng: draws what is looked at, if there is too much; protects nothing.
    """
    counts = [
        np.bincount(f.parent, minlength=len(p.person))  # type: ignore[arg-type]
        for f, p in ((child.real, parent.real), (child.synthetic, parent.synthetic))
    ]
    known = len(child.real.steps[0]) and len(child.synthetic.steps[0])
    steps, pairs, drawn = _steps(child, rng) if known else ([], [], [])
    return History(
        table=table.name,
        parent=str(table.parent),
        order=table.order,
        rows=_counted(table.name, parent, *counts),
        mean_real=float(counts[0].mean()),
        mean_synthetic=float(counts[1].mean()),
        gap=_gap(table, child) if known and table.order is not None else None,
        steps=steps,
        before_after=pairs,
        drawn=drawn,
        coherence=coherence(child.real, child.synthetic, child.schema, rng),
        key=suggested_key(table, child.schema, child.real, child.synthetic) if known else None,
    )


def count_column(table: str) -> Column:
    """Return the column of how many rows somebody has in a table."""
    name = f"rows of {table}"
    return build({name: pa.int64()}, {name: {"kind": "integer"}}).columns[0]


def count_cells(column: Column, real: np.ndarray, synthetic: np.ndarray) -> Cells:
    """Return numbers of rows in cells of their own, up to `MOST_COUNT`."""
    labels = [str(n) for n in range(MOST_COUNT)] + [f"{MOST_COUNT} and over", MISSING]
    real, synthetic = (np.minimum(counts, MOST_COUNT).astype(np.int64) for counts in (real, synthetic))
    return Cells(column.name, column.kind, labels, real, synthetic)


def chosen_pairs(left: Iterable[str], right: Iterable[str], rng: np.random.Generator) -> list[tuple[str, str]]:
    """Return each of some columns with each of others; of more than `MOST_PAIRS`, so many at random."""
    every = list(product(left, right))
    if len(every) <= MOST_PAIRS:
        return every
    return [every[i] for i in np.sort(rng.choice(len(every), MOST_PAIRS, replace=False))]


def _counted(table: str, parent: Compared, real: np.ndarray, synthetic: np.ndarray) -> Single:
    column = count_column(table)
    found = column_fidelity(count_cells(column, real, synthetic), parent.fresh())
    return Single(found, panel(column, pd.Series(real), pd.Series(synthetic), found.distance))


def _gap(table: Related, child: Compared) -> Single:
    """Return the distances from row to row in the order: days, lengths of time, or numbers."""
    order, gap = child.schema[str(table.order)], gap_of(table, child.schema)

    def distances(frame: RelatedFrame) -> pd.Series:
        after, before = frame.steps
        line = axis(pd.Series(frame.rows[order.name]), order.kind)
        found = line[after] - line[before]  # days, seconds or numbers
        return pd.Series(pd.array(_microseconds(found), "Int64") if pa.types.is_duration(gap.arrow_type) else found)

    real, synthetic = distances(child.real), distances(child.synthetic)
    named = replace(gap, name=f"{order.name} to the next")
    found = column_fidelity(code(named, real, synthetic), child.fresh(child.real.steps[0]))
    return Single(found, panel(named, real, synthetic, found.distance))


def _microseconds(seconds: np.ndarray) -> np.ndarray:
    """Return whole microseconds, at the nearest end of what 64 bits hold."""
    return np.clip(np.round(1e6 * seconds), -(2.0**63), np.nextafter(2.0**63, 0))


def _steps(child: Compared, rng: np.random.Generator) -> tuple[list[Step], list[PairFidelity], list[PairShares]]:
    (after, before), (after_synthetic, before_synthetic) = child.real.steps, child.synthetic.steps
    again, cells = child.fresh(after), child.cells()
    now = {name: c.at(after, after_synthetic) for name, c in cells.items()}
    was = {name: c.at(before, before_synthetic) for name, c in cells.items()}
    same = [
        Step(pair_fidelity(was[c.name], now[c.name], again), _stays(c, child.real), _stays(c, child.synthetic))
        for c in child.schema.learned
    ]
    same.sort(key=lambda step: badness(step.pair), reverse=True)
    pairs = [pair_fidelity(was[a], now[b], again) for a, b in chosen_pairs(cells, cells, rng)]
    drawn = []
    for step in same[:MOST_DRAWN]:
        few = coarse(child.coded(child.schema[step.pair.left], MOST_CELLS))
        left = replace(few.at(before, before_synthetic), name=f"{few.name}, before")
        drawn.append(shares_of(left, replace(few.at(after, after_synthetic), name=f"{few.name}, after")))
    return same, pairs, drawn


def _stays(column: Column, frame: RelatedFrame) -> float:
    """Return the share of the steps at which a column stays as it was; two nulls are the same."""
    after, before = frame.steps
    values = pd.Series(frame.rows[column.name])
    if column.kind.numeric:
        line = axis(values, column.kind)
        return float(((line[after] == line[before]) | (np.isnan(line[after]) & np.isnan(line[before]))).mean())
    codes, _ = pd.factorize(text(values, column.kind))
    return float((codes[after] == codes[before]).mean())
