"""Numbers that others give in every real row, and not in synthetic ones: a person may want to declare the rule.

Restricted, as what `suggested_rules` finds: it is told of exact rows. Whoever declares it says that it is public.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml

from dp_synth_pipeline.tabular.constraints import holds
from dp_synth_pipeline.tabular.constraints.hold import Digits, numbers
from dp_synth_pipeline.tabular.constraints.parse import Formula
from dp_synth_pipeline.tabular.profiling import formulas
from dp_synth_pipeline.tabular.profiling.kept_formulas import Forms, multiple_of, rates
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation.suggested_rules import BROKEN, FEWEST

MOST_FORMULAS = 8
TRIED = 256
"""Real rows by which most formulas are told not to hold, before all are looked at."""

BY_CHANCE = 0.2
"""A formula says little if so few rows would break it, were one of its columns shuffled: a fee that is nearly always 0."""

DIGITS = 6
"""Digits after the point that a column is taken to be written with, at most; with more it has full precision."""


@dataclass(frozen=True)
class SuggestedFormula:
    """One column that others give.

    Attributes:
        text: as a rule: `total = price * count`.
        rows: real rows that keep it: all in which every value is known.
        broken: share of the synthetic rows, of those with every value, that break it.
        by_chance: share of the real rows that would break it if one of its columns were shuffled, at least.
    """

    text: str
    rows: int
    broken: float
    by_chance: float

    @property
    def line(self) -> str:
        """The rule as a line of YAML under `rules:`."""
        return yaml.safe_dump([self.text], width=1000, allow_unicode=True).strip()


def suggested_formulas(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema, rng: np.random.Generator
) -> list[SuggestedFormula]:
    """Return at most `MOST_FORMULAS` multiples, sums, products and quotients, those first that most synthetic rows break.

    Args:
        rng: shuffles columns, to tell what chance would give; protects nothing.
    """
    names = list(formulas.columns(schema)[: formulas.MOST_COLUMNS])
    known, drawn = (
        pa.Table.from_pandas(t[names].reset_index(drop=True), preserve_index=False) for t in (real, synthetic)
    )
    columns = {name: numbers(known, name) for name in names}
    digits = {name: d for name, x in columns.items() if (d := digits_of(x)) is not None}
    found: dict[Formula, SuggestedFormula] = {}
    for formula in _likely(columns, digits):
        known_already = any(_says_no_more(formula, other) for other in found)
        told = None if known_already else _told(formula, known, drawn, digits, rng)
        if told is not None:
            found[formula] = told
    return sorted(found.values(), key=lambda formula: -formula.broken)[:MOST_FORMULAS]


def _says_no_more(formula: Formula, other: Formula) -> bool:
    """Say whether a formula is of the same columns as another one, or computes the same from more of them."""
    same = set(formula.columns) == set(other.columns)
    return same or (formula.target == other.target and len(formula.columns) > len(other.columns))


def _likely(columns: dict[str, np.ndarray], digits: Digits) -> Iterator[Formula]:
    """Yield formulas that hold in the first rows; those come first that rounding hides least."""
    first = {name: x[:TRIED] for name, x in columns.items()}

    def holds_first(formula: Formula) -> bool:
        values = formula.solved(formula.target, first.__getitem__)
        slack = 0.5 * 10.0 ** -digits[formula.target] if formula.target in digits else 0.0
        return not (np.abs(first[formula.target] - values) - slack - 1e-9 * np.abs(values) > 0).any()

    with np.errstate(all="ignore"):
        for target, base in permutations(columns, 2):
            found = (multiple_of(target, by, base) for by in _multiples(first[target] / first[base]))
            yield from islice(filter(holds_first, found), 1)
        told = [f for f in Forms(tuple(columns)).formulas if all(_is_rate(first[name]) for name in rates(f))]
        yield from filter(holds_first, told)


def _is_rate(x: np.ndarray) -> bool:
    """Say whether a column holds rates, as a discount or a tax does: different values from 0 to 1."""
    known = x[np.isfinite(x)]
    return bool(len(known) and 0 <= known.min() < known.max() <= 1)


def _multiples(ratios: np.ndarray) -> Iterator[float]:
    """Yield what one column may be another one times, from the fewest digits on; none if they are the same."""
    usual = float(np.median(ratios[np.isfinite(ratios)])) if np.isfinite(ratios).any() else 0.0
    if usual > 0:
        yield from (by for by in dict.fromkeys(float(f"{usual:.{d}g}") for d in range(1, DIGITS)) if by != 1)


def digits_of(x: np.ndarray) -> int | None:
    """Return how many digits after the point the values of a column are written with; None for full precision."""
    held = x[np.isfinite(x)]
    fits = (d for d in range(DIGITS + 1) if np.allclose(held, np.round(held, d), rtol=1e-12, atol=1e-9))
    return next(fits, None)


def _told(
    rule: Formula, real: pa.Table, drawn: pa.Table, digits: Digits, rng: np.random.Generator
) -> SuggestedFormula | None:
    """Return what is told of a formula, if every real row keeps it, some synthetic ones do not, and chance would not."""
    real, drawn = (table.select(list(rule.columns)).drop_null() for table in (real, drawn))
    if real.num_rows < FEWEST or not drawn.num_rows or not holds(rule, real, digits).all():
        return None
    shuffled = [
        real.set_column(i, n, real.column(n).take(pa.array(rng.permutation(real.num_rows))))
        for i, n in enumerate(rule.columns)
    ]
    by_chance = min(float(1 - holds(rule, table, digits).mean()) for table in shuffled)
    broken = float(1 - holds(rule, drawn, digits).mean())
    if by_chance < BY_CHANCE or broken < BROKEN:
        return None
    return SuggestedFormula(rule.text, real.num_rows, broken, by_chance)
