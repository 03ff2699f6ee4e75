"""Finds, by noisy counts, which numbers others of their row give: a total is price times count, a tax is 0.2 times the net.

Modelled each by itself, they agree no better than their cells do. So each three numeric columns have one histogram of rows,
by which sum or product alone the row keeps, and each two have one, by which multiple one is of the other (`multiples`). The
formulas that these suggest are tried on the rows by one histogram more each (`candidates`). What nearly every row keeps
becomes a rule, as a person might declare it.

One row lies in one cell of each histogram, so a unit with at most `max_rows` rows moves each by at most `max_rows` (L2).
Whether a row is looked at, where there are very many, is a coin of its own, so that bound holds for the rows that are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import Event, Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular.constraints.hold import numbers
from dp_synth_pipeline.tabular.constraints.parse import written_name
from dp_synth_pipeline.tabular.facts import TableSchema
from dp_synth_pipeline.tabular.kinds.base import NUMBER
from dp_synth_pipeline.tabular.profiling import candidates, multiples, ordered_dates
from dp_synth_pipeline.tabular.profiling.candidates import Candidate, Numbers
from dp_synth_pipeline.tabular.profiling.multiples import RELATIVE

MOST_COLUMNS = 12
"""Columns among which formulas are looked for, the first ones of a table: three of them at a time, 220 times,
and two of them, 66 times."""

NOISE, MOST_NOISY = 1 / 150, 1 / 100
"""Noise of a cell as a part of the rows: of 400 formulas that hold in all rows, one is then missed; and at most, of 70."""

LOOKED_AT = 50_000
"""Rows that are looked at, about, where there are more: noise hides nothing by then."""

TELLING = 0.25
"""Part of the rows that keep a found relation and no other one, at least: where a fee is 0, a total is the price as well."""

MOST_NOISE = 5.0
"""Deviations that noise adds to the largest of a multiple's many cells, at most."""

MOST_ERROR = 0.1
"""Rounding of a computed value as a part of it, at most, in a row that tells something."""

DIGITS = 6
"""Digits after the point that a value is taken to be written with, at most; with more it has full precision."""

BATCH = 1 << 16

SUMS = 3
"""The first cells of a histogram: of rows in which the first, the second or the third column is the sum of the others."""

FORMS = 3
"""Then the cells of each column as the product of the others, by what was rounded: the product; or the first or the second
of the others, as a quotient."""

SEVERAL, NONE = SUMS + 3 * FORMS, SUMS + 3 * FORMS + 1
CELLS = NONE + 1
"""The last cells: of rows that keep several relations, or one in a way that says little, and of rows that keep none."""

BROKEN = CELLS + 3
"""Cells of which the number of rows that break a formula has the noise, at most: those of a three, and of a multiple's
histogram its own two and that of rows that are open."""

Names = tuple[str, ...]
"""Two columns, or three."""


class Roles(NamedTuple):
    """The places of three columns in a relation: a total, and the two parts that give it."""

    total: int
    first: int
    second: int


ROLES = (Roles(0, 1, 2), Roles(1, 0, 2), Roles(2, 0, 1))

OWN = [[cell] for cell in range(SUMS)] + [[SUMS + FORMS * i + form for form in range(FORMS)] for i in range(3)]
"""The cells of each relation: three sums, and then three products, by `ROLES`."""


@dataclass(frozen=True)
class FormulasPlan:
    """The histograms that tell which numbers others give, and their noise; from public facts and the noisy row count.

    Attributes:
        columns: the names of the columns, each two and each three of which have a histogram.
        scale: noise of a cell, in rows.
        rate: part of the rows that are looked at.
        unit: the privacy unit, whose rows are bounded already.
    """

    columns: tuple[str, ...]
    scale: float
    rate: float = 1.0
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)

    @property
    def counted(self) -> list[Names]:
        """Each three columns, and then each two, in table order."""
        return [*combinations(self.columns, 3), *combinations(self.columns, 2)]

    @property
    def tried(self) -> int:
        """How many of the formulas that these suggest are tried on the rows, at most: one for each column."""
        return len(self.columns)

    @property
    def events(self) -> tuple[Event, ...]:
        """What all histograms together cost, whatever the rows are."""
        return (Gaussian(self.scale / self.unit.max_rows, len(self.counted) + self.tried),)


def histograms(columns: int) -> int:
    """Return how many histograms so many columns have, at most."""
    return math.comb(columns, 3) + math.comb(columns, 2) + columns


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
    noisy = _noisy(_counts(path, plan), plan, odometer)
    suggested = _suggested(dict(zip(plan.counted, noisy, strict=True)), plan.scale, computed)
    first = _chosen(suggested, computed)
    trials = [*first, *(c for c in suggested if c not in first)][: plan.tried]
    tried = _noisy(_trials(path, plan, trials), plan, odometer) if trials else []
    held = [c for c, cells in zip(trials, tried, strict=True) if candidates.held(cells, plan.scale)]
    return tuple(candidate.rule for candidate in _chosen(held, computed))


def _noisy(exact: list[np.ndarray], plan: FormulasPlan, odometer: Odometer) -> list[np.ndarray]:
    noisy, _ = mechanisms.noisy_histograms(exact, scale=plan.scale, sensitivity=plan.unit.max_rows, odometer=odometer)
    return noisy


def _looked_at(path: Path, plan: FormulasPlan) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the numbers of the rows that are looked at, by column, and by how much each may be off by its rounding."""
    coins = np.random.default_rng()
    for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=list(plan.columns)):
        rows = pa.Table.from_batches([batch])
        if plan.rate < 1:
            rows = rows.filter(pa.array(coins.random(rows.num_rows) < plan.rate))
        values = {name: numbers(rows, name) for name in plan.columns}
        yield values, {name: _half_step(x) for name, x in values.items()}


def _counts(path: Path, plan: FormulasPlan) -> list[np.ndarray]:
    """Count the rows of each three and each two columns by the relation that they keep; private."""
    sizes = {2: multiples.CELLS, 3: CELLS}
    counts = [np.zeros(sizes[len(names)], dtype=np.int64) for names in plan.counted]
    for values, halves in _looked_at(path, plan):
        for total, names in zip(counts, plan.counted, strict=True):
            placed = cells if len(names) > 2 else multiples.cells
            total += np.bincount(
                placed([values[n] for n in names], [halves[n] for n in names]), minlength=sizes[len(names)]
            )
    return counts


def _trials(path: Path, plan: FormulasPlan, suggested: Sequence[Candidate]) -> list[np.ndarray]:
    """Count the rows that keep and that break each candidate, by its parts' values; private."""
    counts = [np.zeros(candidates.CELLS, dtype=np.int64) for _ in suggested]
    for values, halves in _looked_at(path, plan):
        for total, candidate in zip(counts, suggested, strict=True):
            total += np.bincount(candidates.cells(candidate, values, halves), minlength=candidates.CELLS)
    return counts


def _half_step(x: np.ndarray) -> np.ndarray:
    """Return by how much each value may be off by its rounding: half of the last digit that it is written with itself."""
    half = np.zeros(len(x))
    with np.errstate(all="ignore"):
        for digits in reversed(range(DIGITS + 1)):
            scaled = x * 10.0**digits
            half[np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(np.abs(scaled), 1)] = 0.5 * 10.0**-digits
    return half


def cells(values: Sequence[np.ndarray], halves: Sequence[np.ndarray]) -> np.ndarray:
    """Return in which cell each row lies that has all three values, int64 (rows,).

    Args:
        values: three columns, float64 (rows,), NaN where null.
        halves: by how much each value may be off by its rounding, float64 (rows,).
    """
    known = np.isfinite(values).all(0)
    values, halves = [x[known] for x in values], [h[known] for h in halves]
    kept, cell = np.zeros(known.sum(), dtype=np.int64), np.full(known.sum(), NONE)
    with np.errstate(all="ignore"):
        for number, roles in enumerate(ROLES):
            holds, tells = _sum(values, halves, roles)
            kept += holds
            cell[holds] = np.where(tells, number, SEVERAL)[holds]
        for number, roles in enumerate(ROLES):
            holds, form = _product(values, halves, roles)
            kept += holds
            cell[holds] = np.where(form < FORMS, SUMS + FORMS * number + form, SEVERAL)[holds]
    cell[kept > 1] = SEVERAL
    return cell


def _sum(values: Sequence[np.ndarray], halves: Sequence[np.ndarray], roles: Roles) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows keep a sum, and in which of them that says something: bool (rows,) each."""
    (total, first, second), half = (values[i] for i in roles), halves[roles.total]
    off, size = np.abs(total - (first + second)), np.abs(first) + np.abs(second)
    return off <= half + RELATIVE * size, half <= MOST_ERROR * np.abs(total)


def _product(values: Sequence[np.ndarray], halves: Sequence[np.ndarray], roles: Roles) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows keep a product, bool (rows,), and by which form: the product, or else the more precise quotient.

    It is `FORMS` where none that is kept says much.
    """
    total, first, second = (values[i] for i in roles)
    whole = np.logical_and.reduce([halves[i] == 0.5 for i in roles])
    forms = (
        (total, first * second, np.where(whole, 0.0, halves[roles.total])),
        (first, total / second, halves[roles.first]),
        (second, total / first, halves[roles.second]),
    )
    errors = np.stack([np.where(value == 0, np.inf, half / np.abs(value)) for value, _, half in forms])
    kept = np.stack([np.abs(value - by) <= half + RELATIVE * np.abs(by) for value, by, half in forms])
    errors[~kept | (errors > MOST_ERROR)] = np.inf
    errors[0, np.isfinite(errors[0])] = 0.0  # the product, where it is kept
    return np.asarray(kept.any(0)), np.where(np.isfinite(errors).any(0), errors.argmin(0), FORMS)


def _suggested(
    counts: Mapping[Names, np.ndarray], scale: float, computed: Mapping[str, Collection[str]]
) -> list[Candidate]:
    """Return the formulas that noise does not explain, those first that fewest rows break, by these counts."""
    rows = {names: float(noisy.sum()) for names, noisy in counts.items() if len(names) > 2}
    suggested = [c for three in rows for c in _of_three(three, counts[three].astype(float), scale)]
    for pair, noisy in counts.items():
        if len(pair) == 2:
            known = max(count for three, count in rows.items() if set(three) > set(pair))
            suggested += _multiple(pair, noisy.astype(float), known, scale)
    return sorted((c for c in suggested if c.target not in computed), key=lambda c: c.broken)


def _chosen(suggested: Sequence[Candidate], computed: Mapping[str, Collection[str]]) -> list[Candidate]:
    """Return formulas so that each column has one at most and none is computed from itself, the first ones first."""
    below, chosen = {name: set(parts) for name, parts in computed.items()}, []
    for candidate in suggested:
        if candidate.target not in below and candidate.target not in reached(candidate.parts, below):
            below[candidate.target] = set(candidate.parts)
            chosen.append(candidate)
    return chosen


def reached(names: Collection[str], below: Mapping[str, Collection[str]]) -> set[str]:
    """Return the columns that some are computed from, at however many removes, and themselves."""
    found, fresh = set(names), set(names)
    while fresh:
        fresh = {part for name in fresh for part in below.get(name, ())} - found
        found |= fresh
    return found


def _multiple(pair: Names, noisy: np.ndarray, rows: float, scale: float) -> list[Candidate]:
    """Return the multiple that one of two columns is of the other in nearly every row.

    Args:
        rows: in how many both are known, by the counts of threes: those of all cells here have too much noise.
    """
    sure, inverse = noisy[: multiples.OPEN], multiples.inverses()
    both = sure + np.where(inverse < 0, 0.0, sure[inverse])
    best = int(both.argmax())
    broken = abs(
        rows - both[best] - noisy[multiples.OPEN]
    )  # with more than `rows`, nulls elsewhere hide how many there are
    telling = both[best] - MOST_NOISE * scale >= TELLING * rows
    found = telling and ordered_dates.few(broken, rows, scale * math.sqrt(BROKEN))
    if not found or multiples.multiple(best)[1] == 1:
        return []
    second, by = multiples.multiple(_way(best, int(inverse[best]), sure, scale))
    base, target = pair if second else pair[::-1]
    return [Candidate(target, "*", (base,), broken, by)]


def _way(cell: int, inverse: int, sure: np.ndarray, scale: float) -> int:
    """Return which of two cells that say the same does so by what was computed, and rounded: 5 times, or 0.2 times.

    Where both hold, the row lies in the one of the larger value. So rows in the other one were rounded there.
    """
    if inverse < 0:
        return cell
    small, large = sorted((cell, inverse), key=lambda way: multiples.multiple(way)[1])
    rounded = sure[small] > ordered_dates.BREAKS * sure[large] + MOST_NOISE * scale
    return small if rounded else large


def _of_three(three: Names, noisy: np.ndarray, scale: float) -> list[Candidate]:
    """Return the formulas that nearly every row of one three keeps; of a product, by the form that its digits show."""
    found, rows = [], noisy.sum()
    for relation, own in enumerate(OWN):
        broken, roles = rows - noisy[own].sum() - noisy[SEVERAL], ROLES[relation % len(ROLES)]
        telling = noisy[own].sum() - ordered_dates.SURE * scale * math.sqrt(len(own)) >= TELLING * rows
        if telling and ordered_dates.few(broken, rows, scale * math.sqrt(BROKEN)):
            total, first, second = (three[i] for i in roles)
            found.append(
                Candidate(total, "+", (first, second), broken)
                if relation < SUMS
                else _product_or_quotient(total, first, second, broken, noisy[own], scale)
            )
    return found


def _product_or_quotient(
    total: str, first: str, second: str, broken: float, forms: np.ndarray, scale: float
) -> Candidate:
    """Return a product, or the quotient that was rounded: then many rows keep that and do not multiply back."""
    if forms[1:].sum() <= ordered_dates.BREAKS * forms.sum() + ordered_dates.SURE * scale * math.sqrt(2):
        return Candidate(total, "*", (first, second), broken)
    target, by = (first, second) if forms[1] >= forms[2] else (second, first)
    return Candidate(target, "/", (total, by), broken)
