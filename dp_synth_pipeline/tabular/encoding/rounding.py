"""Rounds drawn numbers as often, and as far, as people round them: an income of 41,237 beside many of 40,000.

What is known are the bins that values lie in, and which share of all values is rounded to each step. Values are rounded to
the nearest multiple, so a multiple stands for all values within half a step of it. Where values are spread evenly, a bin so
holds as many rounded ones as its multiples times the step, beside its own width of others (Bayes' rule): a bin about 40,000
that is narrower than a step holds hardly anything else, and none that lies between multiples is rounded to them. No value
leaves its bin, so no released share is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_synth_pipeline.tabular.profiling import grid


class Rounding:
    """To which steps the values of each bin are rounded, and how likely.

    Attributes:
        steps: the steps, (steps,).
        first: number of the first multiple of each step in each bin, (bins, steps).
        count: how many there are.
        likely: how likely a value of a bin is a finer one than each step allows, cumulated, (bins, steps).
    """

    def __init__(self, low: np.ndarray, high: np.ndarray, rounded: Sequence[tuple[float, float]]) -> None:
        """Weigh the steps of each half-open bin [low, high), float64 (bins,); a bin without width is not rounded."""
        self.steps, shares = np.array(rounded, dtype=float).T
        with np.errstate(over="ignore", invalid="ignore"):
            ends = [grid.first_multiple(x[:, None], self.steps) for x in (low, high)]
            open_bins = (high > low) & ~grid.is_coarse(low, high, self.steps.min())
        self.first = ends[0]
        self.count = np.where(open_bins[:, None], np.maximum(ends[1] - ends[0], 0), 0)
        weights = np.column_stack([(1 - shares.sum()) * (high - low), shares * self.steps * self.count])
        weights[~(open_bins & (weights.sum(1) > 0))] = np.eye(1, weights.shape[1])
        self.likely = np.cumsum(weights / weights.sum(1, keepdims=True), axis=1)[:, :-1]

    def rounded(
        self,
        x: np.ndarray,
        bins: np.ndarray,
        within: np.ndarray,
        rng: np.random.Generator,
        at: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return values of which some are rounded to a multiple in their bin.

        Args:
            x: values, float64 (rows,).
            bins: the bin of each, int64 (rows,).
            within: where in its bin each lies, float64 (rows,) in [0, 1).
            at: the points after which no multiple is chosen, but the bin's first, float64 (rows,), instead of `within`.
        """
        step = (rng.random(len(x))[:, None] >= self.likely[bins]).sum(1) - 1
        chosen = step >= 0
        place, step = bins[chosen], step[chosen]
        found = x.copy()
        first, count = self.first[place, step], self.count[place, step]
        number = np.floor(within[chosen] * count)
        if at is not None:
            number = np.clip(np.floor(at[chosen] / self.steps[step]) - first, 0, count - 1)
        found[chosen] = (first + number) * self.steps[step]
        return found
