"""Functional analysis of variance on a full grid: exact, by sums of squares, since every combination was measured."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

HIGHER = ("three and more",)
"""The name of all that main effects and pairs do not explain."""

EXPLAINED = 3
"""Settings at most whose interactions are not taken for chance."""

DRAWS, CONFIDENCE = 400, 0.95


def components(values: np.ndarray, axes: Sequence[str], order: int = 2) -> dict[tuple[str, ...], np.ndarray]:
    """Return what each set of up to `order` axes adds to the mean, and to what its own subsets add.

    On a full grid these are orthogonal, and a main effect is also the accumulated local effect (ALE) of its axis.

    Args:
        values: one for each combination, an axis of the array for each name.

    Returns:
        By the names of a set, in the order of `axes`, an array that broadcasts to that of `values`; the mean by ().
    """
    found: dict[tuple[str, ...], np.ndarray] = {}
    for size in range(order + 1):
        for some in itertools.combinations(axes, size):
            others = tuple(i for i, name in enumerate(axes) if name not in some)
            smaller = sum(part for names, part in found.items() if set(names) < set(some))
            found[some] = values.mean(axis=others, keepdims=True) - smaller
    return found


def shares(values: np.ndarray, axes: Sequence[str]) -> dict[tuple[str, ...], float]:
    """Return the part of the variance of `values` that each axis, each pair, and all the rest explain; they add up to 1."""
    variance = values.var()
    found = {names: float((part**2).mean() / variance) for names, part in components(values, axes).items() if names}
    return {**found, HIGHER: 1 - sum(found.values())}


def intervals(values: np.ndarray, axes: Sequence[str]) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return a bootstrap interval of each share but `HIGHER`, for a grid of which each combination was measured once.

    What main effects, pairs and triples leave is taken for chance, which is too much rather than too little, and is dealt
    anew to the combinations, with replacement.

    Args:
        values: over more than `EXPLAINED` axes; over fewer, nothing is left for chance.
    """
    rng = np.random.default_rng(0)  # the same page from the same figures
    told = components(values, axes, EXPLAINED)
    fitted = sum(told.values(), np.zeros(values.shape))
    size = dict(zip(axes, values.shape, strict=True))
    free = values.size - sum(math.prod(size[axis] - 1 for axis in names) for names in told)
    left = (values - fitted).ravel() * math.sqrt(values.size / max(free, 1))
    drawn = [shares(fitted + rng.choice(left, values.shape), axes) for _ in range(DRAWS)]
    tail = (1 - CONFIDENCE) / 2
    ends = {
        names: np.quantile([one[names] for one in drawn], [tail, 1 - tail]) for names in drawn[0] if names != HIGHER
    }
    return {names: (float(low), float(high)) for names, (low, high) in ends.items()}
