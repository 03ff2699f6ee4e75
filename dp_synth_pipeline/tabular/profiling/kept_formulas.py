"""Tells of each row which sums, products and multiples of its numbers it keeps, among all that its columns allow.

A row keeps few of them, and which ones it is counted for depends on that row alone: a few at most, of which those come
first that chance explains least.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

import numpy as np

from dp_synth_pipeline.tabular.constraints.parse import Formula, Product, Sum, parse, written_name
from dp_synth_pipeline.tabular.profiling import multiples
from dp_synth_pipeline.tabular.profiling.multiples import RELATIVE

Numbers = Mapping[str, np.ndarray]
"""A number of each row, by column: float64 (rows,), NaN where null."""

MOST_ERROR = 0.1
"""Rounding of a computed value as a part of it, at most, in a row that tells something."""

DIGITS = 6
"""Digits after the point that a value is taken to be written with, at most; with more it has full precision."""

Hits = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows, what they keep and how likely that is by chance: int64, int64 and float64 (hits,)."""


@dataclass(frozen=True)
class Forms:
    """The formulas that rows may keep, each of which has a cell; then come each two columns with `multiples.OPEN` cells.

    Attributes:
        columns: names that rules can write.
    """

    columns: tuple[str, ...]

    @cached_property
    def alternatives(self) -> list[list[Formula]]:
        """Formulas, those together that say the same but for what was rounded.

        A row is counted for the first of them, if it keeps that, or else for the one that is rounded least: a product that
        holds says that no quotient was rounded.
        """
        written = [str(written_name(name)) for name in self.columns]
        return [[_formula(text) for text in same] for same in (*_of_three(written), *_of_four(written))]

    @cached_property
    def formulas(self) -> list[Formula]:
        """Sums, products and quotients, by their cells."""
        return [formula for same in self.alternatives for formula in same]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each two columns, of which one may be a multiple of the other."""
        return list(combinations(self.columns, 2))

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.formulas) + len(self.pairs) * multiples.OPEN

    def of_pairs(self, counts: np.ndarray) -> np.ndarray:
        """Return the part of all counts that is of multiples, (pairs, `multiples.OPEN`)."""
        return counts[len(self.formulas) :].reshape(-1, multiples.OPEN)

    def counts(self, values: Numbers, halves: Numbers, most: int) -> np.ndarray:
        """Return how many rows are counted for each, int64 (`size`,): a row moves at most `most` of them, by one each.

        Args:
            halves: by how much each value may be off by its rounding, float64 (rows,).
        """
        with np.errstate(all="ignore"):
            hits = [*self._sums_and_products(values, halves), *self._multiples(values, halves)]
        rows, kept, chance = (np.concatenate([hit[i] for hit in hits]) for i in range(3))
        chosen = _likeliest(rows, kept, chance, mixed([values[name] for name in self.columns]), most)
        return np.bincount(kept[chosen], minlength=self.size)

    def _sums_and_products(self, values: Numbers, halves: Numbers) -> Iterator[Hits]:
        everywhere = np.arange(len(values[self.columns[0]]))
        of_rates = {name: np.flatnonzero((x > 0) & (x < 1)) for name, x in values.items()}
        cell = 0
        for same in self.alternatives:
            among = next((of_rates[name] for name in rates(same[0])), everywhere)
            if len(among):
                some = [{name: of[name][among] for name in same[0].columns} for of in (values, halves)]
                errors = np.stack([_errors(formula, *some) for formula in same])
                kept = np.flatnonzero(np.isfinite(errors).any(0))
                best = np.where(np.isfinite(errors[0]), 0, errors.argmin(0))[kept]
                yield among[kept], cell + best, errors[best, kept]
            cell += len(same)

    def _multiples(self, values: Numbers, halves: Numbers) -> Iterator[Hits]:
        for place, pair in enumerate(self.pairs):
            both = [values[name] for name in pair]
            rows = np.flatnonzero(np.isfinite(both).all(0))
            kept = multiples.cells([x[rows] for x in both], [halves[name][rows] for name in pair])
            rows, kept = rows[kept < multiples.OPEN], kept[kept < multiples.OPEN]
            errors = np.max([halves[name][rows] / np.abs(values[name][rows]) for name in pair], axis=0)
            yield rows, len(self.formulas) + place * multiples.OPEN + kept, 10.0**multiples.DIGITS * errors


def rates(formula: Formula) -> list[str]:
    """Return the columns of which a formula takes a part off, or adds it: the discount of `price * (1 - discount)`."""
    return [name for *_, name in formula.parts] if isinstance(formula, Product) else []


def multiple_of(target: str, by: float, base: str) -> Formula:
    """Return that one column is a multiple of another one, as in `tax = 0.2 * net`."""
    return _formula(f"{written_name(target)} = {by:g} * {written_name(base)}")


def half_step(x: np.ndarray) -> np.ndarray:
    """Return by how much each value may be off by its rounding: half of the last digit that it is written with itself."""
    half = np.zeros(len(x))
    with np.errstate(all="ignore"):
        for digits in reversed(range(DIGITS + 1)):
            scaled = x * 10.0**digits
            half[np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(np.abs(scaled), 1)] = 0.5 * 10.0**-digits
    return half


def mixed(values: Collection[np.ndarray]) -> np.ndarray:
    """Return a number of each row that depends on its values alone, and that looks like chance: uint64 (rows,)."""
    bits = np.zeros(len(next(iter(values))), dtype=np.uint64)
    for value in values:
        bits = _stirred(bits ^ (value + 0.0).view(np.uint64))  # 0 and -0 are one value
    return bits


def _stirred(bits: np.ndarray) -> np.ndarray:
    stirred = (bits ^ (bits >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(stirred ^ (stirred >> np.uint64(32)))


def _likeliest(rows: np.ndarray, kept: np.ndarray, chance: np.ndarray, bits: np.ndarray, most: int) -> np.ndarray:
    """Return which hits count: of each row `most`, drawn by weights of 1 / chance (Efraimidis & Spirakis 2006).

    Args:
        bits: a number of each row, that is a function of its values. So is what is drawn, and no other row has a part in it.
    """
    bits = _stirred(_stirred(bits[rows] ^ kept.astype(np.uint64)) + np.uint64(1))
    drawn = -np.log((bits >> np.uint64(11)).astype(float) / 2.0**53 + 2.0**-54) * np.maximum(chance, 2.0**-20)
    order = np.lexsort((drawn, rows))
    first = np.searchsorted(rows[order], rows[order])
    return np.asarray(order[np.arange(len(order)) - first < most])


def _errors(formula: Formula, values: Numbers, halves: Numbers) -> np.ndarray:
    """Return the rounding of what a formula computes as a part of it, where a row keeps it and it says something.

    Else it is infinite: a sum with a part of 0 and a product by 1 say nothing.
    """
    target, half = values[formula.target], halves[formula.target]
    computed, error = formula.solved(formula.target, values.__getitem__), half / np.abs(target)
    others = [values[name] for name in formula.columns if name != formula.target]
    if isinstance(formula, Sum):
        added, taken = ([values[name] for sign, name in formula.terms if sign == way] for way in (1, -1))
        differ = [np.abs(x - y) for x in added for y in taken]  # what cancels out says nothing
        tells, size = np.min([*map(np.abs, others), *differ], axis=0) > half, formula.size(values.__getitem__)
    else:
        neutral = [1.0] * len(formula.factors) + [0.0] * len(formula.parts)
        tells = np.min([np.abs(x - at) for x, at in zip(others, neutral, strict=True)], axis=0) > error
        size = np.abs(computed)
    kept = np.isfinite(computed) & (np.abs(target - computed) <= half + RELATIVE * size)
    return np.where(kept & tells & (error <= MOST_ERROR), error, np.inf)


def _formula(text: str) -> Formula:
    rule = parse(text)
    assert isinstance(rule, Formula)
    return rule


def _of_three(names: Sequence[str]) -> Iterator[list[str]]:
    for three in combinations(names, 3):
        for total in three:
            first, second = (name for name in three if name != total)
            yield [f"{total} = {first} + {second}"]
            yield [
                f"{total} = {first} * {second}",
                f"{first} = {total} / {second}",
                f"{second} = {total} / {first}",
            ]
        yield from (
            [f"{total} = {base} * (1 {sign} {part})"] for total, base, part in permutations(three) for sign in "-+"
        )


def _of_four(names: Sequence[str]) -> Iterator[list[str]]:
    for four in combinations(names, 4):
        for total in four:
            parts = [name for name in four if name != total]
            yield [f"{total} = {' + '.join(parts)}"]
            yield [f"{total} = {' * '.join(parts)}"]
            for part in parts:
                base, by = (name for name in parts if name != part)
                yield from ([f"{total} = {base} * {by} * (1 {sign} {part})"] for sign in "-+")
        *others, last = four
        for off in others:
            first, second = (name for name in others if name != off)
            yield [f"{last} = {first} + {second} - {off}"]
