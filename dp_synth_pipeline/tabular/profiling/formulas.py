"""Finds, by noisy counts, which numbers others of their row give: a total is price times count, a tax is 0.2 times the net.

Modelled each by itself, they agree no better than their cells do. So rows are counted by the formulas that they keep
(`kept_formulas`). What these counts suggest is tried on the rows by one histogram more each (`candidates`). What nearly
every row keeps becomes a rule, as a person might declare it.

One row is counted for 9 formulas at most, or 4, and lies in one cell of each histogram by which formulas are tried. So a
unit with at most `max_rows` rows moves the counts by at most `max_rows` times 3, or 2 (L2), and each histogram by at most
`max_rows`. Whether a row is looked at, where there are very many, is a coin of its own, so that bound
holds for the rows that are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Event, Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular.constraints.hold import numbers
from dp_synth_pipeline.tabular.constraints.parse import Formula, Product, written_name
from dp_synth_pipeline.tabular.facts import TableSchema
from dp_synth_pipeline.tabular.kinds.base import NUMBER
from dp_synth_pipeline.tabular.profiling import candidates, multiples, ordered_dates
from dp_synth_pipeline.tabular.profiling.candidates import Candidate
from dp_synth_pipeline.tabular.profiling.kept_formulas import Forms, Numbers, half_step, multiple_of

MOST_COLUMNS = 12
"""Columns among which formulas are looked for, the first ones of a table: four of them at a time, 495 times."""

NOISE, MOST_NOISY = 1 / 150, 1 / 100
"""Noise of a cell as a part of the rows: of 400 formulas that hold in all rows, one is then missed; and at most, of 70."""

LOOKED_AT = 25_000
"""Rows that are looked at, about, where there are more: noise hides nothing by then."""

SUGGESTED = 6.0
"""Deviations of its noise from which on a count suggests a formula: some 4 to 6 % of the rows, where few are by chance."""

SPREADS = (3, 2)
"""By how much one row may move the counts of formulas (L2), so that it is counted for 9 of them at most, or 4."""

MANY = 6
"""Columns from which on it may be 9: rows keep more formulas then that say something."""

BATCH = 1 << 16


@dataclass(frozen=True)
class FormulasPlan:
    """The counts that tell which numbers others give, and their noise; from public facts and the noisy row count.

    Attributes:
        columns: the names of the columns, among which formulas are looked for.
        scale: noise of a cell, in rows.
        rate: part of the rows that are looked at.
        unit: the privacy unit, whose rows are bounded already.
        spread: one of `SPREADS`.
    """

    columns: tuple[str, ...]
    scale: float
    rate: float = 1.0
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    spread: int = SPREADS[-1]

    @property
    def tried(self) -> int:
        """How many of the formulas that counts suggest are tried on the rows, at most: one or two for each column."""
        return (self.spread - 1) * len(self.columns)

    @property
    def weight(self) -> int:
        """How many histograms of one cell for each row cost as much, at the same noise."""
        return self.spread**2 + self.tried

    @property
    def events(self) -> tuple[Event, ...]:
        """What all counts together cost, whatever the rows are."""
        noise = self.scale / self.unit.max_rows
        return (Gaussian(noise / self.spread, 1), Gaussian(noise, self.tried))


def looked_for(columns: Sequence[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield among how many of the first columns formulas may be looked for, and by which spread; what costs most first."""
    for taken in range(len(columns), 2, -1):
        yield from ((tuple(columns[:taken]), spread) for spread in SPREADS if taken >= MANY or spread == SPREADS[-1])


def columns(schema: TableSchema) -> tuple[str, ...]:
    """Return the names of the numbers among which formulas may be looked for, in table order."""
    found = (c.name for c in schema.learned if c.kind.family == NUMBER and c.base is None)
    return tuple(name for name in found if written_name(name) is not None)


def rate(population: int) -> float:
    """Return which part of the rows of so many units is looked at."""
    return min(1.0, LOOKED_AT / population)


def finds_any(scale: float, rows: float) -> bool:
    """Say whether a formula that holds in all of so many rows would nearly always be found, at this noise."""
    return scale <= MOST_NOISY * rows


def measure(
    path: Path, plan: FormulasPlan, odometer: Odometer, computed: Mapping[str, Collection[str]] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the formulas that noisy counts tell of, as rules: `("total = price * count",)`.

    Args:
        path: a Parquet snapshot whose rows per unit are bounded already.
        odometer: of the plan's events, as they were charged.
        computed: what declared rules compute, by column, with what they compute it from.
    """
    forms = Forms(plan.columns)
    (counts,) = _noisy([_counts(path, plan, forms)], plan, odometer, plan.spread)
    suggested = _suggested(forms, counts.astype(float), plan.scale)
    first = _chosen(suggested, computed)
    trials = [*first, *(c for c in suggested if c not in first)][: plan.tried]
    tried = _noisy(_trials(path, plan, trials), plan, odometer) if trials else []
    held = [c for c, cells in zip(trials, tried, strict=True) if candidates.held(cells, plan.scale)]
    fullest = [c for c in held if not any(_fuller(other, c) for other in held)]
    return tuple(candidate.formula.text for candidate in _chosen(fullest, computed))


def _noisy(exact: list[np.ndarray], plan: FormulasPlan, odometer: Odometer, spread: int = 1) -> list[np.ndarray]:
    noisy, _ = mechanisms.noisy_histograms(
        exact, scale=plan.scale, sensitivity=plan.unit.max_rows * spread, odometer=odometer
    )
    return noisy


def _looked_at(path: Path, plan: FormulasPlan) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the numbers of the rows that are looked at, by column, and by how much each may be off by its rounding."""
    coins = np.random.default_rng()
    for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=list(plan.columns)):
        rows = pa.Table.from_batches([batch])
        if plan.rate < 1:
            rows = rows.filter(pa.array(coins.random(rows.num_rows) < plan.rate))
        values = {name: numbers(rows, name) for name in plan.columns}
        yield values, {name: half_step(x) for name, x in values.items()}


def _counts(path: Path, plan: FormulasPlan, forms: Forms) -> np.ndarray:
    """Count the rows by the formulas that they keep; private."""
    counts = np.zeros(forms.size, dtype=np.int64)
    for values, halves in _looked_at(path, plan):
        counts += forms.counts(values, halves, plan.spread**2)
    return counts


def _trials(path: Path, plan: FormulasPlan, suggested: Sequence[Candidate]) -> list[np.ndarray]:
    """Count the rows that keep and that break each candidate, by its parts' values; private."""
    counts = [np.zeros(candidates.CELLS, dtype=np.int64) for _ in suggested]
    for values, halves in _looked_at(path, plan):
        for total, candidate in zip(counts, suggested, strict=True):
            total += np.bincount(candidates.cells(candidate.formula, values, halves), minlength=candidates.CELLS)
    return counts


def _suggested(forms: Forms, counts: np.ndarray, scale: float) -> list[Candidate]:
    """Return the formulas that noise does not explain, those first that most rows are counted for."""
    suggested = [
        Candidate(formula, count)
        for formula, count in zip(forms.formulas, counts, strict=False)
        if count >= SUGGESTED * scale
    ]
    for pair, noisy in zip(forms.pairs, forms.of_pairs(counts), strict=True):
        suggested += _multiple(pair, noisy, scale)
    return sorted(suggested, key=lambda c: -c.kept)


def _fuller(other: Candidate, candidate: Candidate) -> bool:
    """Say whether another formula computes the same column from more: a net price with its discount."""
    same = other.formula.target == candidate.formula.target
    return same and set(other.formula.columns) > set(candidate.formula.columns)


def _chosen(suggested: Sequence[Candidate], computed: Mapping[str, Collection[str]]) -> list[Candidate]:
    """Return formulas so that each column has one at most and none is computed from itself, the first ones first."""
    below, chosen = {name: set(parts) for name, parts in computed.items()}, []
    for candidate in suggested:
        for formula in _turned(candidate.formula):
            parts = set(formula.columns) - {formula.target}
            if formula.target not in below and formula.target not in reached(parts, below):
                below[formula.target] = parts
                chosen.append(Candidate(formula, candidate.kept))
                break
    return chosen


def _turned(formula: Formula) -> list[Formula]:
    """Return a formula, and what a sum says of its other columns, the last ones first: what is due is total - paid."""
    if isinstance(formula, Product):
        return [formula]
    return [formula, *(formula.turned(name) for _, name in reversed(formula.terms))]


def reached(names: Collection[str], below: Mapping[str, Collection[str]]) -> set[str]:
    """Return the columns that some are computed from, at however many removes, and themselves."""
    found, fresh = set(names), set(names)
    while fresh:
        fresh = {part for name in fresh for part in below.get(name, ())} - found
        found |= fresh
    return found


def _multiple(pair: tuple[str, str], sure: np.ndarray, scale: float) -> list[Candidate]:
    """Return the multiple that one of two columns is of the other in most rows, if noise does not explain it."""
    inverse = multiples.inverses()
    both = sure + np.where(inverse < 0, 0.0, sure[inverse])
    best = int(both.argmax())
    if both[best] < SUGGESTED * math.sqrt(2) * scale or multiples.multiple(best)[1] == 1:
        return []
    second, by = multiples.multiple(_way(best, int(inverse[best]), sure, scale))
    base, target = pair if second else pair[::-1]
    return [Candidate(multiple_of(target, by, base), both[best])]


def _way(cell: int, inverse: int, sure: np.ndarray, scale: float) -> int:
    """Return which of two cells that say the same does so by what was computed, and rounded: 5 times, or 0.2 times.

    Where both hold, the row lies in the one of the larger value. So rows in the other one were rounded there.
    """
    if inverse < 0:
        return cell
    small, large = sorted((cell, inverse), key=lambda way: multiples.multiple(way)[1])
    rounded = sure[small] > ordered_dates.BREAKS * sure[large] + SUGGESTED * scale
    return small if rounded else large
